"""The fuse before every suspension: our own fault must not suspend our customers (SPEC §9).

Suspensions pass through a bucket of distinct hosts. Whatever is counted here is counted by host, since one
customer's twelve subscriptions on a dead host are one failure, and twelve hosts at once may be ours.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from enum import StrEnum

from hookkeeper.domain.outcome import Answer, Fault

MOST_HOSTS = 500
"""The bucket's ceiling, whatever the share: so many names of 253 characters, twice, fit one item."""

OURS = frozenset({Fault.NO_ROUTE, Fault.RESOLVER_UNREACHABLE, Fault.SECRET_UNAVAILABLE})
"""Speak for a fault of ours whatever else works; OUT_OF_TIME says only that we are slow."""

CANARY_URL = "https://checkip.amazonaws.com/"
"""AWS's own answer to "what is my address": up whenever anything is, and any status will do."""

CANARY_EVERY = timedelta(minutes=1)


@dataclass(frozen=True, slots=True, kw_only=True)
class FuseRules:
    """So many distinct hosts may be suspended in a span (SPEC §9), and the address that always answers.

    `canary_url` is an https URL that is known to be good; it is asked once a minute while verdicts wait.
    Without one, our faults on many hosts are the only evidence.
    """

    least_hosts: int = 5
    share_of_hosts: float = 0.05
    span: timedelta = timedelta(minutes=10)
    canary_url: str | None = CANARY_URL

    def limit(self, active_hosts: int) -> int:
        """How many distinct hosts one span takes."""
        return min(max(self.least_hosts, int(active_hosts * self.share_of_hosts)), MOST_HOSTS)


@dataclass(frozen=True, slots=True, kw_only=True)
class FuseState:
    """What is remembered of the last span; `version` rises with every write and guards the next.

    `let_through` are the hosts that were suspended, and when first; `suspects` those whose deliveries
    failed by what is our fault or may be, and when last. `latched_at` is the last moment at which there
    was evidence against us. `active_hosts` is how many hosts have an active subscription, about; it is
    never too high.
    """

    version: int = 0
    let_through: Mapping[str, datetime] = field(default_factory=dict)
    suspects: Mapping[str, datetime] = field(default_factory=dict)
    latched_at: datetime | None = None
    canary_at: datetime | None = None
    canary_answered: bool = True
    active_hosts: int = 0
    counted_at: datetime | None = None

    def latched(self, rules: FuseRules, now: datetime) -> bool:
        """Whether our own fault is evident; it lapses a span after the last evidence of it."""
        return self.latched_at is not None and now < self.latched_at + rules.span

    def canary_wanted(self, rules: FuseRules, now: datetime) -> bool:
        return rules.canary_url is not None and (
            self.canary_at is None or now >= self.canary_at + CANARY_EVERY
        )

    def canary_sings(self, rules: FuseRules, now: datetime) -> bool:
        """Whether the known-good address has answered within the span: resolver and route are well."""
        return self.canary_at is not None and self.canary_answered and now < self.canary_at + rules.span


class Passage(StrEnum):
    """Whether a verdict may be carried out."""

    OPEN = "open"
    FULL = "full"
    """The span has had its hosts: the verdict waits for the next."""
    LATCHED = "latched"
    """Our own fault is evident: the verdict waits until that has passed."""
    UNPROVEN = "unproven"
    """The last failure was counted while our own fault was evident: the next one decides."""


def passage(state: FuseState, rules: FuseRules, *, host: str, failed_at: datetime, now: datetime) -> Passage:
    """Whether a subscription on the host may be suspended for a streak whose last failure was then."""
    if state.latched(rules, now):
        return Passage.LATCHED
    if state.latched_at is not None and failed_at <= state.latched_at:
        return Passage.UNPROVEN
    within = _within(state.let_through, rules, now)
    if host in within or len(within) < rules.limit(state.active_hosts):
        return Passage.OPEN
    return Passage.FULL


def with_host(state: FuseState, rules: FuseRules, *, host: str, now: datetime) -> FuseState:
    """The bucket with one more host in it; the very state where it is in it already."""
    within = _within(state.let_through, rules, now)
    if host in within:
        return state
    return replace(state, version=state.version + 1, let_through={**within, host: now})


def suspected(
    answers: Iterable[tuple[str, Answer]], state: FuseState, rules: FuseRules, *, now: datetime
) -> frozenset[str]:
    """The hosts of a batch whose failures speak against us.

    A look-up that fails for now is the customer's name server as a rule, and our resolver where nobody
    else can be reached either: it says nothing beside an endpoint that answered, or a canary that does.
    """
    seen = list(answers)
    heard = any(answer.status_code is not None for _, answer in seen) or state.canary_sings(rules, now)
    against_us = OURS if heard else OURS | {Fault.DNS_TEMPORARY}
    return frozenset(host for host, answer in seen if answer.fault in against_us)


def with_suspects(state: FuseState, rules: FuseRules, *, hosts: Iterable[str], now: datetime) -> FuseState:
    """The state after such failures; on more hosts than the bucket takes, they are evidence and latch it."""
    limit = rules.limit(state.active_hosts)
    within = {**_within(state.suspects, rules, now), **dict.fromkeys(hosts, now)}
    newest = sorted(within.items(), key=lambda entry: entry[1], reverse=True)[: limit + 1]
    return replace(
        state,
        version=state.version + 1,
        suspects=dict(newest),
        latched_at=now if len(newest) > limit else state.latched_at,
    )


def with_canary(state: FuseState, *, answered: bool, now: datetime) -> FuseState:
    """The state after the known-good address was asked; its silence alone is evidence."""
    return replace(
        state,
        version=state.version + 1,
        canary_at=now,
        canary_answered=answered,
        latched_at=state.latched_at if answered else now,
    )


def counted(state: FuseState, *, hosts: int, now: datetime) -> FuseState:
    """The state with the number of active hosts known anew."""
    return replace(state, version=state.version + 1, active_hosts=hosts, counted_at=now)


def _within(hosts: Mapping[str, datetime], rules: FuseRules, now: datetime) -> dict[str, datetime]:
    return {host: at for host, at in hosts.items() if now < at + rules.span}

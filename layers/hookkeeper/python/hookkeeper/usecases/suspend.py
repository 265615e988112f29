"""Ask the policy about a failing endpoint, and suspend it or warn its owner."""

from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from enum import StrEnum

from hookkeeper.domain.config import Margins, RuntimeConfig
from hookkeeper.domain.fuse import Passage
from hookkeeper.domain.health import AutoSuspend, Gate, Health, Verdict, should_suspend
from hookkeeper.domain.notice import Notice, NoticeKind
from hookkeeper.domain.subscription import Status
from hookkeeper.domain.tenancy import SubscriptionKey
from hookkeeper.ports import Fuse, HealthStore, Ids, Ledger, Notices, Standing, Subscriptions
from hookkeeper.usecases import transition
from hookkeeper.usecases.fuse import ask_fuse, host_of
from hookkeeper.usecases.notice_facts import health_facts, owner_of, text_of, waiting_facts

ASKED_AGAIN_AFTER = timedelta(minutes=5)
"""When the sweep asks again for a verdict that the fuse keeps waiting."""


class Ruling(StrEnum):
    SUSPENDED = "suspended"
    WAITS = "waits"
    """The fuse keeps the verdict waiting: too many hosts at once, or our own fault is evident."""
    UNPROVEN = "unproven"
    """Our own fault was evident when the last failure was counted: the next one decides."""
    OBSERVED = "observed"
    """The policy is only observed: this is what would have been suspended."""
    AT_RISK = "at_risk"
    FINE = "fine"
    LOST = "lost"


@dataclass(frozen=True, slots=True)
class Ruled:
    """What was decided, and the gates it was decided by."""

    ruling: Ruling
    verdict: Verdict | None = None


def suspend(
    key: SubscriptionKey,
    *,
    now: datetime,
    judged_at: datetime | None = None,
    config: RuntimeConfig,
    margins: Margins,
    subscriptions: Subscriptions,
    health: HealthStore,
    fuse: Fuse,
    ledger: Ledger,
    notices: Notices,
    ids: Ids,
) -> Ruled:
    """Read health, hold it against the policy, and act on the verdict.

    `judged_at` is the moment the streak is aged by: the sweep passes the last attempt's, since silence
    is not failure. A success that slips in before the transaction wins, and the ruling is LOST.
    """
    standing = subscriptions.standing(key)
    if standing is None or standing.subscription.status is not Status.ACTIVE:
        return Ruled(Ruling.FINE)
    subscription = standing.subscription
    policy = config.policy_of(subscription)
    verdict = should_suspend(
        standing.health, policy, judged_at or now, maintenance_until=subscription.maintenance_until
    )
    if not verdict.suspend:
        warns = verdict.at_risk and policy.auto_suspend is AutoSuspend.ENFORCE
        if warns:
            _warn(
                standing,
                verdict,
                now=now,
                retention=config.retention,
                subscriptions=subscriptions,
                ledger=ledger,
                notices=notices,
            )
        _clear_check(standing.health, now, health)
        return Ruled(Ruling.AT_RISK if warns else Ruling.FINE, verdict)
    if policy.auto_suspend is not AutoSuspend.ENFORCE:
        _clear_check(standing.health, now, health)
        observed = policy.auto_suspend is AutoSuspend.OBSERVE
        return Ruled(Ruling.OBSERVED if observed else Ruling.FINE, verdict)
    found = ask_fuse(
        host_of(subscription.endpoint_url),
        failed_at=standing.health.last_attempt_at or now,
        now=now,
        rules=config.fuse,
        fuse=fuse,
    )
    if found is not Passage.OPEN:
        return Ruled(_kept_waiting(standing.health, found, now, health), verdict)
    won = transition.suspend(
        standing,
        verdict,
        owner_email=owner_of(subscriptions.profile(key)),
        facts=_facts(
            standing,
            verdict,
            outage_from=min(standing.health.outage_from or now, now - margins.outage),
            now=now,
            retention=config.retention,
            ledger=ledger,
        )
        | {"suspended_at": text_of(now)},
        auto_probe=policy.auto_probe,
        now=now,
        margins=margins,
        subscriptions=subscriptions,
        ids=ids,
    )
    return Ruled(Ruling.SUSPENDED if won else Ruling.LOST, verdict)


def _kept_waiting(present: Health, found: Passage, now: datetime, health: HealthStore) -> Ruling:
    """The verdict stays due, unless nothing but another failure can change it."""
    if found is Passage.UNPROVEN:
        _clear_check(present, now, health)
        return Ruling.UNPROVEN
    if present.check_at is None or present.check_at <= now:
        health.set_check(present.key, epoch=present.epoch, check_at=now + ASKED_AGAIN_AFTER)
    return Ruling.WAITS


def _clear_check(present: Health, now: datetime, health: HealthStore) -> None:
    """Only the sweep clears it, once it is due: another instance may die between counting and asking."""
    if present.check_at is not None and present.check_at <= now:
        health.set_check(present.key, epoch=present.epoch, check_at=None)


def _warn(
    standing: Standing,
    verdict: Verdict,
    *,
    now: datetime,
    retention: timedelta,
    subscriptions: Subscriptions,
    ledger: Ledger,
    notices: Notices,
) -> None:
    """Once a streak; what waits is not counted again for each failure that follows."""
    subscription, health = standing.subscription, standing.health
    notice = Notice(
        key=subscription.key,
        kind=NoticeKind.AT_RISK,
        dedupe=f"streak-{int((health.first_failure_at or now).timestamp() * 1_000_000)}",
        at=now,
        owner_email="",
        endpoint_url=subscription.endpoint_url,
    )
    if notices.get(notice.key, notice.id) is not None:
        return
    facts = _facts(
        standing, verdict, outage_from=health.outage_from, now=now, retention=retention, ledger=ledger
    )
    owner_email = owner_of(subscriptions.profile(notice.key))
    notices.put(replace(notice, owner_email=owner_email, facts=facts))


def _facts(
    standing: Standing,
    verdict: Verdict,
    *,
    outage_from: datetime | None,
    now: datetime,
    retention: timedelta,
    ledger: Ledger,
) -> dict[str, str]:
    return {
        **health_facts(standing.health),
        "limits": "; ".join(map(describe, verdict.gates)),
        **waiting_facts(
            standing.subscription.key, outage_from=outage_from, now=now, retention=retention, ledger=ledger
        ),
    }


def describe(gate: Gate) -> str:
    """One gate in words: `permanent: 5 of 5, 1 h 2 min of 1 h`."""
    name = gate.outcome or "all"
    return f"{name}: {gate.count} of {gate.count_limit}, {_span(gate.age)} of {_span(gate.age_limit)}"


def _span(span: timedelta) -> str:
    minutes, seconds = divmod(int(span.total_seconds()), 60)
    hours, minutes = divmod(minutes, 60)
    words = [f"{n} {unit}" for n, unit in ((hours, "h"), (minutes, "min"), (seconds, "s")) if n]
    return " ".join(words[:2]) or "0 s"

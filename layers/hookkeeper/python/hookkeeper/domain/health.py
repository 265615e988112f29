"""How an endpoint fares: streaks by class, the policy that ends in suspension, and the outage it is in."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from enum import StrEnum

from hookkeeper.domain.circuit import Circuit
from hookkeeper.domain.ladder import AutoProbe
from hookkeeper.domain.outcome import GRADED, STRICT, ClassificationRules, Outcome
from hookkeeper.domain.recovery import RecoveryLock
from hookkeeper.domain.tenancy import SubscriptionKey

FAILURES = (Outcome.RETRYABLE, Outcome.PERMANENT, Outcome.FATAL)
FRESH = timedelta(hours=1)
"""How old `last_success_at` may grow before a success on clean health is written down again."""


class AutoSuspend(StrEnum):
    ENFORCE = "enforce"
    OBSERVE = "observe"
    OFF = "off"


def milder(one: AutoSuspend, other: AutoSuspend) -> AutoSuspend:
    """Of two, the one that suspends less."""
    return max(one, other, key=tuple(AutoSuspend).index)


@dataclass(frozen=True, slots=True)
class Streak:
    """Failed sequences of one class since the last success; `first_failure_at` is their first attempt."""

    count: int
    first_failure_at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class Health:
    """A subscription's streaks, circuit, outage and recovery; never on the subscription item.

    `epoch_at` is when the present epoch began (None for the first): no streak reaches further back.
    `check_at` is when the sweep must ask the policy again, should nobody else have;
    `warn_at` when it must look whether what a suspended subscription is owed will soon expire.
    """

    key: SubscriptionKey
    epoch: int = 1
    epoch_at: datetime | None = None
    streaks: Mapping[Outcome, Streak] = field(default_factory=dict)
    consecutive_failures: int = 0
    first_failure_at: datetime | None = None
    last_outcome: Outcome | None = None
    last_status_code: int | None = None
    last_error: str | None = None
    last_attempt_at: datetime | None = None
    last_success_at: datetime | None = None
    last_delivery_at: datetime | None = None
    circuit: Circuit = field(default_factory=Circuit)
    outage_from: datetime | None = None
    not_before: datetime | None = None
    recovery: RecoveryLock = field(default_factory=RecoveryLock)
    check_at: datetime | None = None
    warn_at: datetime | None = None

    @property
    def clean(self) -> bool:
        return self.consecutive_failures == 0

    def streak_from(self, began: datetime) -> datetime:
        """The first failed attempt that a sequence begun then adds to a streak: not before the last reset."""
        return max(began, *filter(None, (self.last_success_at, self.epoch_at, began)))

    def quiet(self, now: datetime) -> bool:
        """Whether the endpoint has asked to be left alone until later (Retry-After)."""
        return self.not_before is not None and self.not_before > now

    def fresh(self, now: datetime) -> bool:
        """Whether a success now would tell nothing new; the first of an epoch always does."""
        recent = self.last_success_at is not None and now - self.last_success_at < FRESH
        return self.clean and recent and self.proven

    @property
    def proven(self) -> bool:
        """Whether an event has arrived since the present epoch began."""
        return self.last_success_at is not None and (
            self.epoch_at is None or self.last_success_at >= self.epoch_at
        )


@dataclass(frozen=True, slots=True)
class Limit:
    """A row of a policy: suspended when the streak has this count and this age, at or over both."""

    count: int
    age: timedelta


@dataclass(frozen=True, slots=True, kw_only=True)
class Policy:
    """When an endpoint's failures end in suspension; a class without a row never does by itself."""

    name: str
    limits: Mapping[Outcome, Limit]
    rules: ClassificationRules
    auto_suspend: AutoSuspend = AutoSuspend.ENFORCE
    auto_probe: AutoProbe = AutoProbe.OFF
    probe_on_reenable: bool = True


PRESETS: Mapping[str, Policy] = {
    policy.name: policy
    for policy in (
        Policy(
            name="graded",
            limits={
                Outcome.RETRYABLE: Limit(25, timedelta(hours=12)),
                Outcome.PERMANENT: Limit(5, timedelta(hours=1)),
                Outcome.FATAL: Limit(3, timedelta(minutes=15)),
            },
            rules=GRADED,
        ),
        Policy(
            name="strict",
            limits={
                Outcome.RETRYABLE: Limit(25, timedelta(hours=12)),
                Outcome.PERMANENT: Limit(1, timedelta(0)),
            },
            rules=STRICT,
            probe_on_reenable=False,
        ),
        Policy(
            name="patient",
            limits={
                Outcome.RETRYABLE: Limit(100, timedelta(hours=72)),
                Outcome.PERMANENT: Limit(25, timedelta(hours=24)),
                Outcome.FATAL: Limit(10, timedelta(hours=6)),
            },
            rules=GRADED,
        ),
    )
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Gate:
    """One row held against a streak: where both stand."""

    outcome: Outcome | None
    count: int
    count_limit: int
    age: timedelta
    age_limit: timedelta

    @property
    def crossed(self) -> bool:
        return self.count >= self.count_limit and self.age >= self.age_limit

    def half_crossed(self) -> bool:
        """Half of count and half of age: time to warn the owner."""
        return 2 * self.count >= self.count_limit and 2 * self.age >= self.age_limit


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """Whether to suspend, by which gate, and every gate's standing; `outcome` None is the mixed total."""

    suspend: bool
    gate: Gate | None
    gates: tuple[Gate, ...]

    @property
    def at_risk(self) -> bool:
        return any(gate.half_crossed() for gate in self.gates)


def after_another_failure(
    health: Health, policy: Policy, now: datetime, *, maintenance_until: datetime | None = None
) -> Verdict:
    """The verdict if the next delivery failed now, as the last one did."""
    outcome = health.last_outcome
    if health.clean or outcome is None or outcome is Outcome.SUCCESS:
        return Verdict(suspend=False, gate=None, gates=())
    streak = health.streaks.get(outcome, Streak(0, now))
    grown = {**health.streaks, outcome: replace(streak, count=streak.count + 1)}
    failed = replace(health, streaks=grown, consecutive_failures=health.consecutive_failures + 1)
    return should_suspend(failed, policy, now, maintenance_until=maintenance_until)


def should_suspend(
    health: Health, policy: Policy, now: datetime, *, maintenance_until: datetime | None = None
) -> Verdict:
    """The policy's verdict on a streak and its reasons; a first failure in the future has age 0.

    Each class is held against its own row by its own count and age; the total over all classes, aged by
    the oldest, is held against the retryable row as well. Announced maintenance holds the verdict off.
    """
    gates = tuple(_gates(health, policy, now))
    crossed = next((gate for gate in gates if gate.crossed), None)
    held_off = maintenance_until is not None and now < maintenance_until
    return Verdict(suspend=crossed is not None and not held_off, gate=crossed, gates=gates)


def may_cross(
    health: Health, policy: Policy, outcome: Outcome, *, first_failure_at: datetime, now: datetime
) -> bool:
    """Whether one more failure of the class may end in a suspension or a warning, however many others count
    at the same time.

    So only ages are asked, half of a limit's for the warning: the class's own, and the oldest for the total.
    """
    streak = health.streaks.get(outcome)
    own = min(streak.first_failure_at, first_failure_at) if streak else first_failure_at
    oldest = min(health.first_failure_at or first_failure_at, first_failure_at)
    ages = ((own, policy.limits.get(outcome)), (oldest, policy.limits.get(Outcome.RETRYABLE)))
    return any(limit is not None and 2 * (now - first) >= limit.age for first, limit in ages)


def _gates(health: Health, policy: Policy, now: datetime) -> list[Gate]:
    rows = [
        (outcome, health.streaks[outcome], policy.limits[outcome])
        for outcome in (Outcome.FATAL, Outcome.PERMANENT, Outcome.RETRYABLE)
        if outcome in health.streaks and outcome in policy.limits
    ]
    gates = [_gate(outcome, streak, limit, now) for outcome, streak, limit in rows]
    if len(health.streaks) > 1 and Outcome.RETRYABLE in policy.limits:
        total = Streak(
            sum(streak.count for streak in health.streaks.values()),
            min(streak.first_failure_at for streak in health.streaks.values()),
        )
        gates.append(_gate(None, total, policy.limits[Outcome.RETRYABLE], now))
    return gates


def _gate(outcome: Outcome | None, streak: Streak, limit: Limit, now: datetime) -> Gate:
    age = max(now - streak.first_failure_at, timedelta())
    return Gate(outcome=outcome, count=streak.count, count_limit=limit.count, age=age, age_limit=limit.age)

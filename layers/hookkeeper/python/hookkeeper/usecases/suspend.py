"""Ask the policy about a failing endpoint, and suspend it or warn its owner."""

from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum

from hookkeeper.domain.config import Margins, RuntimeConfig
from hookkeeper.domain.health import AutoSuspend, Gate, Health, Verdict, should_suspend
from hookkeeper.domain.notice import Notice, NoticeKind
from hookkeeper.domain.subscription import Profile, Status
from hookkeeper.domain.tenancy import SubscriptionKey
from hookkeeper.ports import HealthStore, Ids, Ledger, Notices, Standing, Subscriptions
from hookkeeper.usecases import transition

COUNTED_AT_MOST = 1_000
"""How far owed items are counted for a notice: it says "at least n"."""


class Ruling(StrEnum):
    SUSPENDED = "suspended"
    OBSERVED = "observed"
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
        _clear_check(standing.health, now, health)
        if verdict.at_risk and policy.auto_suspend is AutoSuspend.ENFORCE:
            notices.put(_at_risk(standing, subscriptions.profile(key), verdict, now))
            return Ruled(Ruling.AT_RISK, verdict)
        return Ruled(Ruling.FINE, verdict)
    if policy.auto_suspend is not AutoSuspend.ENFORCE:
        _clear_check(standing.health, now, health)
        return Ruled(Ruling.OBSERVED, verdict)
    won = transition.suspend(
        standing,
        verdict,
        owner_email=_owner(subscriptions.profile(key)),
        facts=_facts(
            standing,
            verdict,
            waiting=len(ledger.owed(key, limit=COUNTED_AT_MOST)),
            now=now,
            retention=config.retention,
            margins=margins,
        ),
        now=now,
        margins=margins,
        subscriptions=subscriptions,
        ids=ids,
    )
    return Ruled(Ruling.SUSPENDED if won else Ruling.LOST, verdict)


def _clear_check(present: Health, now: datetime, health: HealthStore) -> None:
    """Only the sweep clears it, once it is due: another instance may die between counting and asking."""
    if present.check_at is not None and present.check_at <= now:
        health.set_check(present.key, epoch=present.epoch, check_at=None)


def _at_risk(standing: Standing, profile: Profile | None, verdict: Verdict, now: datetime) -> Notice:
    subscription, streak_began = standing.subscription, standing.health.first_failure_at or now
    return Notice(
        key=subscription.key,
        kind=NoticeKind.AT_RISK,
        dedupe=f"streak-{int(streak_began.timestamp() * 1_000_000)}",
        at=now,
        owner_email=_owner(profile),
        endpoint_url=subscription.endpoint_url,
        facts=_health_facts(standing.health) | {"limits": "; ".join(map(describe, verdict.gates))},
    )


def _facts(
    standing: Standing,
    verdict: Verdict,
    *,
    waiting: int,
    now: datetime,
    retention: timedelta,
    margins: Margins,
) -> dict[str, str]:
    """The notice's facts as they stand at the suspension (F13)."""
    outage_from = min(standing.health.outage_from or now, now - margins.outage)
    return _health_facts(standing.health) | {
        "limits": "; ".join(map(describe, verdict.gates)),
        "waiting": str(waiting),
        "recoverable_until": text_of(outage_from + retention),
        "suspended_at": text_of(now),
    }


def _health_facts(health: Health) -> dict[str, str]:
    facts = {
        "failures": str(health.consecutive_failures),
        "failing_since": text_of(health.first_failure_at) if health.first_failure_at else "",
        "last_status": str(health.last_status_code) if health.last_status_code else "",
        "last_error": health.last_error or "",
        "last_attempt_at": text_of(health.last_attempt_at) if health.last_attempt_at else "",
    }
    return {name: value for name, value in facts.items() if value}


def describe(gate: Gate) -> str:
    """One gate in words: `permanent: 5 of 5, 1 h 2 min of 1 h`."""
    name = gate.outcome or "all"
    return f"{name}: {gate.count} of {gate.count_limit}, {_span(gate.age)} of {_span(gate.age_limit)}"


def text_of(moment: datetime) -> str:
    """RFC 3339, UTC, whole seconds."""
    return moment.strftime("%Y-%m-%dT%H:%M:%SZ")


def _span(span: timedelta) -> str:
    minutes, seconds = divmod(int(span.total_seconds()), 60)
    hours, minutes = divmod(minutes, 60)
    words = [f"{n} {unit}" for n, unit in ((hours, "h"), (minutes, "min"), (seconds, "s")) if n]
    return " ".join(words[:2]) or "0 s"


def _owner(profile: Profile | None) -> str:
    return profile.owner_email if profile else ""

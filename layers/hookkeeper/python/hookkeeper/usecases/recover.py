"""Begin, hand over and end a recovery: who holds the subscription's lock, and what its record says."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from enum import StrEnum

from hookkeeper.domain.audit import Actor, AuditRecord
from hookkeeper.domain.config import RuntimeConfig
from hookkeeper.domain.health import Health
from hookkeeper.domain.notice import Notice, NoticeKind
from hookkeeper.domain.recovery import (
    LEASE,
    Recovery,
    RecoveryKind,
    RecoveryLock,
    RecoveryStatus,
)
from hookkeeper.domain.subscription import Status
from hookkeeper.domain.tenancy import SubscriptionKey
from hookkeeper.ports import Edit, HealthStore, Ids, Recoveries, Standing, Subscriptions
from hookkeeper.usecases.suspend import text_of


class Step(StrEnum):
    """Where the state machine goes next."""

    PROBE = "probe"
    ACTIVATE = "activate"
    SLICE = "slice"
    END = "end"


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """What was asked for: by a person, or by the sweep for a recovery that waits or has died.

    `recovery_id` and `generation` name the recovery to go on with; without them a new one begins.
    """

    key: SubscriptionKey
    kind: RecoveryKind = RecoveryKind.REENABLE
    recovery_id: str | None = None
    generation: int | None = None
    probe: bool | None = None
    backfill: bool = True
    rate: float | None = None
    actor: Actor = Actor(id="system")


@dataclass(frozen=True, slots=True)
class Locked:
    """The recovery that holds the lock now, and the next step; `mine` is False where another holds it."""

    step: Step
    recovery: Recovery | None = None
    mine: bool = False


_NOTHING = Locked(Step.END)


def lock(
    asked: Asked,
    *,
    now: datetime,
    config: RuntimeConfig,
    subscriptions: Subscriptions,
    health: HealthStore,
    recoveries: Recoveries,
    ids: Ids,
) -> Locked:
    """Take the subscription's recovery lock: anew, from one that died, or from an automatic one.

    A second re-enablement while one runs is answered with the one that runs.
    """
    standing = subscriptions.standing(asked.key)
    if standing is None or standing.subscription.status in (Status.REVOKED, Status.PENDING):
        return _NOTHING
    if asked.kind is RecoveryKind.AUTOMATIC and standing.subscription.status is not Status.ACTIVE:
        return _NOTHING
    present = standing.health.recovery
    if asked.recovery_id is not None:
        if not present.held or not present.is_present(asked.recovery_id, asked.generation or 0):
            return _NOTHING
        recovery = recoveries.get(asked.key.scope, asked.recovery_id)
    elif _busy(present, now):
        running = recoveries.get(asked.key.scope, present.id or "")
        return Locked(Step.END, running)
    elif standing.subscription.status is not Status.SUSPENDED:
        return _NOTHING
    else:
        recovery = None
    return _take(standing, asked, recovery, now=now, config=config, health=health, ids=ids)


def _busy(present: RecoveryLock, now: datetime) -> bool:
    """Whether a re-enablement runs whose lease has not ended; an automatic one gives way."""
    alive = present.lease_until is None or now < present.lease_until
    return present.held and alive and present.kind is not RecoveryKind.AUTOMATIC


def _take(
    standing: Standing,
    asked: Asked,
    recovery: Recovery | None,
    *,
    now: datetime,
    config: RuntimeConfig,
    health: HealthStore,
    ids: Ids,
) -> Locked:
    present = standing.health.recovery
    suspended = standing.subscription.status is Status.SUSPENDED
    probe = config.policy_of(standing.subscription).probe_on_reenable if asked.probe is None else asked.probe
    status = RecoveryStatus.PROBING if suspended else RecoveryStatus.RUNNING
    generation = present.generation + 1
    base = recovery or Recovery(
        key=asked.key,
        id=ids.new("rec"),
        kind=asked.kind,
        status=status,
        started_at=now,
        actor=asked.actor.id,
        max_rate=asked.rate,
        backfill=asked.backfill,
    )
    taken = replace(
        base,
        status=status,
        generation=generation,
        lower_bound=base.lower_bound or now - config.retention,
        canaries=(),
        flowing=False,
    )
    held = replace(
        present,
        version=present.version + 1,
        id=taken.id,
        generation=generation,
        status=status,
        kind=taken.kind,
        lease_until=now + LEASE,
    )
    if not health.write_lock(standing.health, held, taken):
        return _NOTHING
    if not suspended:
        return Locked(Step.SLICE, taken, mine=True)
    return Locked(Step.PROBE if probe else Step.ACTIVATE, taken, mine=True)


def probe_failed(
    key: SubscriptionKey,
    *,
    recovery_id: str,
    generation: int,
    status_code: int | None,
    error: str,
    now: datetime,
    subscriptions: Subscriptions,
    health: HealthStore,
    recoveries: Recoveries,
    ids: Ids,
) -> bool:
    """The endpoint did not pass: it stays suspended, its owner is told, the lock is free at once.

    False where the recovery no longer holds the lock (revoked meanwhile, or done before).
    """
    standing = subscriptions.standing(key)
    recovery = recoveries.get(key.scope, recovery_id)
    if standing is None or recovery is None or not _mine(standing.health, recovery_id, generation):
        return False
    _say_why(standing, now=now, subscriptions=subscriptions, ids=ids)
    ended = replace(
        recovery,
        status=RecoveryStatus.PROBE_FAILED,
        ended_at=now,
        probe_status_code=status_code,
        probe_error=error,
    )
    profile = subscriptions.profile(key)
    notice = Notice(
        key=key,
        kind=NoticeKind.PROBE_FAILED,
        dedupe=recovery_id,
        at=now,
        owner_email=profile.owner_email if profile else "",
        endpoint_url=standing.subscription.endpoint_url,
        facts=_probe_facts(standing, status_code, error, now),
    )
    return release(standing.health, ended, health=health, notice=notice)


def release(present: Health, ended: Recovery, *, health: HealthStore, notice: Notice | None = None) -> bool:
    """Give the lock back with the recovery's end; windows that are left stay for the next one."""
    lock = replace(
        present.recovery, version=present.recovery.version + 1, status=ended.status, lease_until=None
    )
    return health.write_lock(present, lock, ended, notice=notice)


def is_running(key: SubscriptionKey, recovery: Recovery, *, subscriptions: Subscriptions) -> bool:
    """Whether the recovery holds the lock of an active subscription: its activation is done."""
    standing = subscriptions.standing(key)
    return (
        standing is not None
        and standing.subscription.status is Status.ACTIVE
        and _mine(standing.health, recovery.id, recovery.generation)
    )


def give_up(
    key: SubscriptionKey,
    *,
    recovery_id: str,
    now: datetime,
    subscriptions: Subscriptions,
    health: HealthStore,
    recoveries: Recoveries,
) -> bool:
    """The activation was lost to another change: end the recovery and free its lock, if it still has it."""
    standing = subscriptions.standing(key)
    recovery = recoveries.get(key.scope, recovery_id)
    if standing is None or recovery is None or recovery.ended_at is not None:
        return False
    if not _mine(standing.health, recovery.id, recovery.generation):
        return False
    ended = replace(recovery, status=RecoveryStatus.STOPPED, ended_at=now)
    return release(standing.health, ended, health=health)


def resume_soon(
    key: SubscriptionKey,
    *,
    recovery_id: str,
    now: datetime,
    subscriptions: Subscriptions,
    health: HealthStore,
    recoveries: Recoveries,
) -> bool:
    """An execution failed, was aborted or timed out: let the sweep take its recovery up again at once."""
    standing = subscriptions.standing(key)
    recovery = recoveries.get(key.scope, recovery_id)
    if standing is None or recovery is None:
        return False
    present = standing.health.recovery
    if not present.held or present.id != recovery_id:
        return False
    lock = replace(present, version=present.version + 1, lease_until=now)
    return health.write_lock(standing.health, lock, recovery)


def _mine(present: Health, recovery_id: str, generation: int) -> bool:
    return present.recovery.held and present.recovery.is_present(recovery_id, generation)


def _say_why(standing: Standing, *, now: datetime, subscriptions: Subscriptions, ids: Ids) -> None:
    """Put the reason on the subscription; where another edit is first, the recovery's record says it."""
    before = standing.subscription
    audit_id = ids.new("aud")
    subscriptions.edit(
        Edit(
            before=before,
            after=replace(
                before,
                status_reason="reenable_probe_failed",
                version=before.version + 1,
                updated_at=now,
                writer=audit_id,
            ),
            audit=AuditRecord(
                scope=before.scope,
                id=audit_id,
                at=now,
                action="subscription.probe_failed",
                actor=Actor(id="system"),
                subject=before.id,
            ),
        )
    )


def _probe_facts(standing: Standing, status_code: int | None, error: str, now: datetime) -> Mapping[str, str]:
    health = standing.health
    facts = {
        "probe_status": str(status_code) if status_code else "",
        "probe_error": error,
        "probed_at": text_of(now),
        "failures": str(health.consecutive_failures),
        "failing_since": text_of(health.first_failure_at) if health.first_failure_at else "",
    }
    return {name: value for name, value in facts.items() if value}

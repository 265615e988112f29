"""Begin, hand over and end a recovery: who holds the subscription's lock, and what its record says."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from enum import StrEnum

from hookkeeper.domain.audit import SYSTEM, Actor, AuditRecord
from hookkeeper.domain.config import RuntimeConfig
from hookkeeper.domain.errors import ConflictError
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
from hookkeeper.ports import Edit, HealthStore, Ids, Ledger, Recoveries, Standing, Subscriptions
from hookkeeper.usecases.auto_probe import AUTO_PROBE
from hookkeeper.usecases.notice_facts import health_facts, owner_of, text_of, waiting_facts

TRIES = 5
"""How often the lock is asked for again where another change of it came between."""


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
    `execution` is who asks: asking again, its first answer was lost. `lease` is how long it may be silent.
    """

    key: SubscriptionKey
    kind: RecoveryKind = RecoveryKind.REENABLE
    recovery_id: str | None = None
    generation: int | None = None
    execution: str | None = None
    probe: bool | None = None
    backfill: bool = True
    rate: float | None = None
    actor: Actor = SYSTEM
    lease: timedelta = LEASE


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

    A second re-enablement while one runs is answered with the one that runs. Raises ConflictError where
    TRIES writes of others came between.
    """
    for _ in range(TRIES):
        standing = subscriptions.standing(asked.key)
        if standing is None or _refused(standing.subscription.status, asked):
            return _NOTHING
        present = standing.health.recovery
        holder = recoveries.get(asked.key.scope, present.id) if present.id and present.held else None
        if holder and asked.execution is not None and present.execution == asked.execution:
            return Locked(_first_step(standing, asked, config), holder, mine=True)
        if asked.recovery_id is not None and not _names_present(asked, present):
            return _NOTHING
        if asked.recovery_id is None and holder and _runs(present, now):
            return Locked(Step.END, holder)
        held, taken = _taken(standing, asked, holder, now=now, config=config, ids=ids)
        if health.write_lock(standing.health, held, taken):
            return Locked(_first_step(standing, asked, config), taken, mine=True)
    raise ConflictError(f"the recovery of {asked.key.subscription_id} is being changed by others; try again")


def _refused(status: Status, asked: Asked) -> bool:
    """Only an active subscription is recovered by itself; only a suspended one is re-enabled."""
    if asked.kind is RecoveryKind.AUTOMATIC:
        return status is not Status.ACTIVE
    if asked.recovery_id is not None:
        return status not in (Status.ACTIVE, Status.SUSPENDED)
    return status is not Status.SUSPENDED or asked.kind is RecoveryKind.REPLAY


def _names_present(asked: Asked, present: RecoveryLock) -> bool:
    return present.held and present.is_present(asked.recovery_id or "", asked.generation or 0)


def _runs(present: RecoveryLock, now: datetime) -> bool:
    """Whether a re-enablement runs whose lease has not ended; an automatic one gives way."""
    alive = present.lease_until is None or now < present.lease_until
    return alive and present.kind is not RecoveryKind.AUTOMATIC


def _first_step(standing: Standing, asked: Asked, config: RuntimeConfig) -> Step:
    if standing.subscription.status is not Status.SUSPENDED:
        return Step.SLICE
    subscription = standing.subscription
    by_policy = config.policy_of(subscription).probe_on_reenable and not subscription.proven
    probe = by_policy if asked.probe is None else asked.probe
    return Step.PROBE if probe else Step.ACTIVATE


def _taken(
    standing: Standing,
    asked: Asked,
    holder: Recovery | None,
    *,
    now: datetime,
    config: RuntimeConfig,
    ids: Ids,
) -> tuple[RecoveryLock, Recovery]:
    """The lock and the record as this execution takes them: the next generation, with canaries to send."""
    present = standing.health.recovery
    suspended = standing.subscription.status is Status.SUSPENDED
    status = RecoveryStatus.PROBING if suspended else RecoveryStatus.RUNNING
    if present.status is RecoveryStatus.PAUSED:
        status = RecoveryStatus.PAUSED
    base = _to_go_on_with(asked, holder) or _new(asked, now=now, ids=ids)
    recovery = replace(
        base,
        status=status,
        generation=present.generation + 1,
        lower_bound=base.lower_bound or now - config.retention,
        canaries=(),
        flowing=False,
        replay_cursor=None if base.replay and base.replay.again else base.replay_cursor,
        tally=None,
    )
    held = replace(
        present,
        version=present.version + 1,
        id=recovery.id,
        generation=recovery.generation,
        execution=asked.execution,
        status=status,
        kind=recovery.kind,
        lease_until=None if status is RecoveryStatus.PAUSED else now + asked.lease,
    )
    return held, recovery


def _to_go_on_with(asked: Asked, holder: Recovery | None) -> Recovery | None:
    """The recovery that was named, or a person's own that died: what is asked for now is then its plan."""
    if holder is None or asked.recovery_id is not None:
        return holder
    if holder.kind is RecoveryKind.AUTOMATIC:
        return None
    return replace(holder, backfill=asked.backfill, max_rate=asked.rate, actor=asked.actor.id)


def _new(asked: Asked, *, now: datetime, ids: Ids) -> Recovery:
    return Recovery(
        key=asked.key,
        id=ids.new("rec"),
        kind=asked.kind,
        status=RecoveryStatus.PROBING,
        started_at=now,
        actor=asked.actor.id,
        max_rate=asked.rate,
        backfill=asked.backfill,
    )


def probe_failed(
    key: SubscriptionKey,
    *,
    recovery_id: str,
    generation: int,
    status_code: int | None,
    error: str,
    now: datetime,
    retention: timedelta,
    subscriptions: Subscriptions,
    health: HealthStore,
    recoveries: Recoveries,
    ledger: Ledger,
    ids: Ids,
) -> bool:
    """The endpoint did not pass: it stays suspended, its owner is told, the lock is free at once.

    Nobody is told of a probe that nobody asked for; its ladder goes on.
    False where the recovery no longer holds the lock (revoked meanwhile, or done before).
    """
    standing = subscriptions.standing(key)
    recovery = recoveries.get(key.scope, recovery_id)
    if standing is None or recovery is None or not _mine(standing.health, recovery_id, generation):
        return False
    ended = replace(
        recovery,
        status=RecoveryStatus.PROBE_FAILED,
        ended_at=now,
        probe_status_code=status_code,
        probe_error=error,
    )
    if recovery.actor == AUTO_PROBE.id:
        return release(standing.health, ended, health=health)
    _say_why(standing, now=now, subscriptions=subscriptions, ids=ids)
    outage_from = standing.health.outage_from
    notice = Notice(
        key=key,
        kind=NoticeKind.PROBE_FAILED,
        dedupe=recovery_id,
        at=now,
        owner_email=owner_of(subscriptions.profile(key)),
        endpoint_url=standing.subscription.endpoint_url,
        facts={
            **_probe_facts(status_code, error, now),
            **health_facts(standing.health),
            **waiting_facts(key, outage_from=outage_from, now=now, retention=retention, ledger=ledger),
        },
    )
    return release(standing.health, ended, health=health, notice=notice)


def probe_passed(
    key: SubscriptionKey,
    *,
    recovery_id: str,
    generation: int,
    now: datetime,
    retention: timedelta,
    subscriptions: Subscriptions,
    health: HealthStore,
    recoveries: Recoveries,
    ledger: Ledger,
) -> bool:
    """The endpoint that was only to be asked works again: its owner is told once, and the lock is free.

    False where the recovery no longer holds the lock.
    """
    standing = subscriptions.standing(key)
    recovery = recoveries.get(key.scope, recovery_id)
    if standing is None or recovery is None or not _mine(standing.health, recovery_id, generation):
        return False
    outage_from = standing.health.outage_from
    notice = Notice(
        key=key,
        kind=NoticeKind.PROBE_PASSED,
        dedupe=f"epoch-{standing.health.epoch}",
        at=now,
        owner_email=owner_of(subscriptions.profile(key)),
        endpoint_url=standing.subscription.endpoint_url,
        facts={
            "probed_at": text_of(now),
            **health_facts(standing.health),
            **waiting_facts(key, outage_from=outage_from, now=now, retention=retention, ledger=ledger),
        },
    )
    ended = replace(recovery, status=RecoveryStatus.COMPLETED, ended_at=now)
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
    execution: str,
    now: datetime,
    subscriptions: Subscriptions,
    health: HealthStore,
    recoveries: Recoveries,
) -> bool:
    """An execution failed, was aborted or timed out: let the sweep take its recovery up again at once.

    False where it does not hold the lock (any more).
    """
    standing = subscriptions.standing(key)
    if standing is None or not standing.health.recovery.held:
        return False
    present = standing.health.recovery
    recovery = recoveries.get(key.scope, present.id or "")
    if recovery is None or present.execution != execution:
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
                actor=SYSTEM,
                subject=before.id,
            ),
        )
    )


def _probe_facts(status_code: int | None, error: str, now: datetime) -> Mapping[str, str]:
    facts = {
        "probe_status": str(status_code) if status_code else "",
        "probe_error": error,
        "probed_at": text_of(now),
    }
    return {name: value for name, value in facts.items() if value}

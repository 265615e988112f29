"""Cancel, pause and resume a recovery: each acts on the messages that are on their way within seconds.

Cancelling leaves the lock with the recovery's word on it, and pausing raises the generation: whatever of it
arrives then goes back to owed. Windows stay on the lock, for the next recovery or for its going on.
"""

from collections.abc import Callable
from dataclasses import replace
from datetime import datetime, timedelta

from hookkeeper.domain.audit import Actor, AuditRecord
from hookkeeper.domain.errors import ConflictError, NotFoundError
from hookkeeper.domain.recovery import Recovery, RecoveryLock, RecoveryStatus
from hookkeeper.domain.subscription import Status
from hookkeeper.domain.tenancy import Scope
from hookkeeper.ports import Audit, HealthStore, Ids, Recoveries, Standing, Subscriptions, Workflow

TRIES = 5
START_GRACE = timedelta(minutes=1)
"""How long an execution has to start before the sweep starts one."""

Change = Callable[[RecoveryLock, Recovery], tuple[RecoveryLock, Recovery]]

_MAY_PAUSE = frozenset({RecoveryStatus.RUNNING, RecoveryStatus.WAITING})


def cancel(
    scope: Scope,
    recovery_id: str,
    *,
    actor: Actor,
    now: datetime,
    subscriptions: Subscriptions,
    health: HealthStore,
    recoveries: Recoveries,
    audit: Audit,
    ids: Ids,
) -> Recovery:
    """End it for good; what it had still to send is owed, and waits for the next recovery.

    Cancelled already, it is left so. Raises NotFoundError, and ConflictError where it is over.
    """

    def change(lock: RecoveryLock, recovery: Recovery) -> tuple[RecoveryLock, Recovery]:
        ended = replace(lock, status=RecoveryStatus.CANCELLED, lease_until=None)
        return ended, replace(recovery, status=RecoveryStatus.CANCELLED, ended_at=now)

    recovery = _found(scope, recovery_id, recoveries)
    if recovery.status is RecoveryStatus.CANCELLED:
        return recovery
    _tell(recovery, "recovery.cancelled", actor, now, audit, ids)
    return _change(
        recovery, change, "cancelled", subscriptions=subscriptions, health=health, recoveries=recoveries
    )


def pause(
    scope: Scope,
    recovery_id: str,
    *,
    actor: Actor,
    now: datetime,
    subscriptions: Subscriptions,
    health: HealthStore,
    recoveries: Recoveries,
    audit: Audit,
    ids: Ids,
) -> Recovery:
    """Stop it where it is; it keeps the lock, and windows that end meanwhile join it.

    Paused already, it is left so. Raises NotFoundError, and ConflictError where it does not run.
    """

    def change(lock: RecoveryLock, recovery: Recovery) -> tuple[RecoveryLock, Recovery]:
        if lock.status not in _MAY_PAUSE:
            raise ConflictError(f"{recovery.id} is {lock.status}; only one that runs or waits can be paused")
        generation = lock.generation + 1
        paused = replace(
            lock, status=RecoveryStatus.PAUSED, generation=generation, execution=None, lease_until=None
        )
        return paused, replace(recovery, status=RecoveryStatus.PAUSED, generation=generation)

    recovery = _found(scope, recovery_id, recoveries)
    if recovery.status is RecoveryStatus.PAUSED:
        return recovery
    _tell(recovery, "recovery.paused", actor, now, audit, ids)
    return _change(
        recovery, change, "paused", subscriptions=subscriptions, health=health, recoveries=recoveries
    )


def resume(
    scope: Scope,
    recovery_id: str,
    *,
    actor: Actor,
    now: datetime,
    subscriptions: Subscriptions,
    health: HealthStore,
    recoveries: Recoveries,
    audit: Audit,
    workflow: Workflow,
    ids: Ids,
) -> Recovery:
    """Let a paused one go on from where it stopped, canaries first.

    Running already, it is left so. Raises NotFoundError, and ConflictError where it is over.
    """

    def change(lock: RecoveryLock, recovery: Recovery) -> tuple[RecoveryLock, Recovery]:
        if lock.status is not RecoveryStatus.PAUSED:
            raise ConflictError(f"{recovery.id} is {lock.status}; only a paused one can be resumed")
        waiting = replace(lock, status=RecoveryStatus.WAITING, lease_until=now + START_GRACE)
        return waiting, replace(recovery, status=RecoveryStatus.WAITING, next_slice_at=None)

    recovery = _found(scope, recovery_id, recoveries)
    if recovery.status in _MAY_PAUSE:
        return recovery
    _tell(recovery, "recovery.resumed", actor, now, audit, ids)
    resumed = _change(
        recovery, change, "resumed", subscriptions=subscriptions, health=health, recoveries=recoveries
    )
    start(resumed, actor=actor, workflow=workflow)
    return resumed


def start(recovery: Recovery, *, actor: Actor, workflow: Workflow) -> None:
    """Start the execution of a recovery that waits; should it not come to be, the sweep starts one."""
    workflow.start(
        recovery.key,
        name=f"{recovery.id}-{recovery.generation}",
        options={
            "kind": str(recovery.kind),
            "recovery_id": recovery.id,
            "generation": recovery.generation,
            "actor": actor.id,
        },
    )


def holds(recovery: Recovery, lock: RecoveryLock) -> bool:
    """Whether the lock is the recovery's, in whatever generation."""
    return lock.held and lock.id == recovery.id


def _found(scope: Scope, recovery_id: str, recoveries: Recoveries) -> Recovery:
    recovery = recoveries.get(scope, recovery_id)
    if recovery is None:
        raise NotFoundError("recovery", recovery_id)
    return recovery


def _change(
    recovery: Recovery,
    change: Change,
    word: str,
    *,
    subscriptions: Subscriptions,
    health: HealthStore,
    recoveries: Recoveries,
) -> Recovery:
    """Change lock and record together, again where an execution wrote in between."""
    for _ in range(TRIES):
        standing = _standing(recovery, word, subscriptions)
        present = _found(recovery.key.scope, recovery.id, recoveries)
        if not holds(present, standing.health.recovery):
            raise ConflictError(f"{recovery.id} is {present.status}; it cannot be {word}")
        lock, changed = change(standing.health.recovery, present)
        versioned = replace(lock, version=standing.health.recovery.version + 1)
        if health.write_lock(standing.health, versioned, changed):
            return changed
    raise ConflictError(f"{recovery.id} is being changed by others; try again")


def _standing(recovery: Recovery, word: str, subscriptions: Subscriptions) -> Standing:
    standing = subscriptions.standing(recovery.key)
    if standing is None or standing.subscription.status is Status.REVOKED:
        raise ConflictError(f"the subscription of {recovery.id} is revoked; it cannot be {word}")
    return standing


def _tell(recovery: Recovery, action: str, actor: Actor, now: datetime, audit: Audit, ids: Ids) -> None:
    """Before it is done, so that nothing is ever done untold; a refused one is told as asked for."""
    audit.put(
        AuditRecord(
            scope=recovery.key.scope,
            id=ids.new("aud"),
            at=now,
            action=action,
            actor=actor,
            subject=recovery.key.subscription_id,
            detail=recovery.id,
        )
    )

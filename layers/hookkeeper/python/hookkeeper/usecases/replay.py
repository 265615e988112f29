"""Send a window of the archive again because a person asks: what is owed, what failed, or all of it.

It is a recovery like any other: same lock, state machine, pace and canaries, to the subscription's own
endpoint alone, under the same webhook-id. Whatever earlier recoveries left unread, it takes along.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime

from hookkeeper.domain.audit import Actor, AuditRecord
from hookkeeper.domain.config import RuntimeConfig
from hookkeeper.domain.errors import ConflictError, IllegalTransitionError, InvalidInputError, NotFoundError
from hookkeeper.domain.event import WILDCARD, checked_patterns
from hookkeeper.domain.recovery import (
    Recovery,
    RecoveryKind,
    RecoveryLock,
    RecoveryStatus,
)
from hookkeeper.domain.replay import Only, Replay
from hookkeeper.domain.subscription import Status
from hookkeeper.domain.tenancy import SubscriptionKey
from hookkeeper.ports import (
    Audit,
    HealthStore,
    Ids,
    Standing,
    Subscriptions,
    Workflow,
)
from hookkeeper.usecases.steer import START_GRACE, start

TRIES = 5


class RecoveryRunsError(ConflictError):
    """Another recovery holds the subscription's lock."""

    code = "recovery_running"


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """What a person asks for; without its bounds the window is all that retention has."""

    since: datetime | None = None
    until: datetime | None = None
    only: Only = Only.OWED
    event_types: Sequence[str] = (WILDCARD,)
    rate: float | None = None


def replay(
    key: SubscriptionKey,
    asked: Asked,
    *,
    actor: Actor,
    now: datetime,
    config: RuntimeConfig,
    subscriptions: Subscriptions,
    health: HealthStore,
    audit: Audit,
    workflow: Workflow,
    ids: Ids,
) -> Recovery:
    """Take the lock, from an automatic recovery too, and start the replay.

    Raises NotFoundError; IllegalTransitionError unless the subscription is active; RecoveryRunsError where a
    re-enablement or another replay runs; InvalidInputError (`invalid_window`, `outside_retention`, patterns).
    """
    plan = planned(asked, now=now, config=config)
    replayable(subscriptions.standing(key), key)
    recovery_id = ids.new("rec")
    _tell(key, plan, recovery_id, actor, now, audit, ids)
    for _ in range(TRIES):
        standing = replayable(subscriptions.standing(key), key)
        lock, recovery = _taken(standing, plan, recovery_id, asked, actor, now, config)
        if health.write_lock(standing.health, lock, recovery):
            start(recovery, actor=actor, workflow=workflow)
            return recovery
    raise ConflictError(f"the recovery of {key.subscription_id} is being changed by others; try again")


def planned(asked: Asked, *, now: datetime, config: RuntimeConfig) -> Replay:
    """The plan, clamped to what retention holds and to what is past. Raises InvalidInputError."""
    edge = now - config.retention
    until = min(asked.until or now, now)
    if asked.since is not None and asked.since > until:
        raise InvalidInputError("the window ends before it begins", code="invalid_window", pointer="/to")
    if until < edge:
        raise InvalidInputError(
            f"events are kept for {config.retention.days} days, and the window ends before that",
            code="outside_retention",
            pointer="/to",
        )
    patterns = checked_patterns(asked.event_types)
    return Replay(start=max(asked.since or edge, edge), until=until, only=asked.only, event_types=patterns)


def replayable(standing: Standing | None, key: SubscriptionKey) -> Standing:
    """The standing, where a replay may begin. Raises what `replay` raises."""
    if standing is None:
        raise NotFoundError("subscription", key.subscription_id)
    status, lock = standing.subscription.status, standing.health.recovery
    if status is not Status.ACTIVE:
        raise IllegalTransitionError(
            key.subscription_id, str(status), "only active subscriptions can be replayed"
        )
    if lock.held and lock.kind is not RecoveryKind.AUTOMATIC:
        raise RecoveryRunsError(f"recovery {lock.id} is {lock.status}; cancel it, or wait for its end")
    return standing


def _taken(
    standing: Standing,
    plan: Replay,
    recovery_id: str,
    asked: Asked,
    actor: Actor,
    now: datetime,
    config: RuntimeConfig,
) -> tuple[RecoveryLock, Recovery]:
    """The lock as the replay holds it, windows that others left and all, and its record."""
    present = standing.health.recovery
    recovery = Recovery(
        key=standing.subscription.key,
        id=recovery_id,
        kind=RecoveryKind.REPLAY,
        status=RecoveryStatus.WAITING,
        started_at=now,
        generation=present.generation + 1,
        lower_bound=now - config.retention,
        actor=actor.id,
        max_rate=asked.rate,
        replay=plan,
    )
    lock = replace(
        present,
        version=present.version + 1,
        id=recovery.id,
        generation=recovery.generation,
        execution=None,
        status=RecoveryStatus.WAITING,
        kind=RecoveryKind.REPLAY,
        lease_until=now + START_GRACE,
    )
    return lock, recovery


def _tell(
    key: SubscriptionKey,
    plan: Replay,
    recovery_id: str,
    actor: Actor,
    now: datetime,
    audit: Audit,
    ids: Ids,
) -> None:
    """Before it is done, so that nothing is ever sent again untold."""
    window = {"from": plan.start.isoformat(), "to": plan.until.isoformat()}
    audit.put(
        AuditRecord(
            scope=key.scope,
            id=ids.new("aud"),
            at=now,
            action="recovery.requested",
            actor=actor,
            subject=key.subscription_id,
            after=window | {"only": str(plan.only), "event_types": ", ".join(plan.event_types)},
            detail=recovery_id,
        )
    )

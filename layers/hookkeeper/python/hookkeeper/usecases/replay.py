"""Send a window of the archive again because a person asks: what is owed, what failed, or all of it.

It is a recovery like any other: same lock, state machine, pace and canaries, to the subscription's own
endpoint alone, under the same webhook-id. Whatever earlier recoveries left unread, it takes along.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from itertools import islice

from hookkeeper.domain.audit import Actor, AuditRecord
from hookkeeper.domain.config import Margins, RuntimeConfig
from hookkeeper.domain.delivery import Delivery, DeliveryStatus, Owed
from hookkeeper.domain.errors import ConflictError, IllegalTransitionError, InvalidInputError, NotFoundError
from hookkeeper.domain.event import WILDCARD, checked_patterns
from hookkeeper.domain.recovery import (
    Cursor,
    Listed,
    Recovery,
    RecoveryKind,
    RecoveryLock,
    RecoveryStatus,
)
from hookkeeper.domain.replay import Counted, Only, Replay
from hookkeeper.domain.subscription import FilterChange, Status, matched_since, owed_from
from hookkeeper.domain.tenancy import DeliveryKey, SubscriptionKey
from hookkeeper.ports import (
    Archive,
    Audit,
    EventItems,
    HealthStore,
    Ids,
    Ledger,
    Standing,
    Subscriptions,
    Workflow,
)
from hookkeeper.usecases.steer import START_GRACE, start

TRIES = 5
CHUNK = 100
COUNTED_AT_MOST = 10_000
"""Places of the archive that a dry run looks at: what the API can read in seconds."""

LAST_ID = "\uffff"


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
    _replayable(subscriptions.standing(key), key)
    recovery_id = ids.new("rec")
    _tell(key, plan, recovery_id, actor, now, audit, ids)
    for _ in range(TRIES):
        standing = _replayable(subscriptions.standing(key), key)
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


def count(
    key: SubscriptionKey,
    asked: Asked,
    *,
    now: datetime,
    config: RuntimeConfig,
    margins: Margins,
    subscriptions: Subscriptions,
    ledger: Ledger,
    archive: Archive,
    events: EventItems,
) -> Counted:
    """What the replay would send, as things stand; writes nothing. What lies in a queue is not counted.

    Raises what `replay` raises.
    """
    plan = planned(asked, now=now, config=config)
    standing = _replayable(subscriptions.standing(key), key)
    found, looked_at = 0, 0
    for item in _owed(key, ledger):
        looked_at += 1
        found += plan.takes(item)
        if looked_at == COUNTED_AT_MOST:
            return Counted(plan=plan, found=found, complete=False)
    if not plan.reads_archive:
        return Counted(plan=plan, found=found, complete=True)
    before = Cursor(min(plan.until, now - margins.outage), LAST_ID)
    listed = archive.recent(key.scope, since=plan.start, before=before)
    filters = subscriptions.filters(key)
    for chunk in _chunks(islice(listed, COUNTED_AT_MOST)):
        looked_at += len(chunk)
        covered = [
            each
            for each in chunk
            if plan.covers(archived_at=each.place.archived_at, event_type=each.event_type)
        ]
        found += _asked_of(standing, filters, plan, covered, ledger, events)
    return Counted(plan=plan, found=found, complete=looked_at < COUNTED_AT_MOST)


def _replayable(standing: Standing | None, key: SubscriptionKey) -> Standing:
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


# ── a dry run ────────────────────────────────────────────────────────────────────────────────────


def _owed(key: SubscriptionKey, ledger: Ledger) -> Iterator[Owed]:
    after: Cursor | None = None
    while page := ledger.owed(key, limit=CHUNK, after=after):
        yield from page
        after = Cursor(page[-1].archived_at, page[-1].key.event_id)


def _asked_of(
    standing: Standing,
    filters: Sequence[FilterChange],
    plan: Replay,
    listed: Sequence[Listed],
    ledger: Ledger,
    events: EventItems,
) -> int:
    """How many of these are something that no owed item has, and the plan sends."""
    subscription = standing.subscription
    scope = subscription.scope
    items = events.routed([(scope, each.place.event_id) for each in listed]) if listed else {}
    wanted = [
        DeliveryKey(subscription.key, each.place.event_id)
        for each in listed
        if (item := items.get((scope, each.place.event_id))) is not None
        and item.archived_at == each.place.archived_at
        and owed_from(subscription, archived_at=item.archived_at)
        and matched_since(
            subscription,
            filters,
            event_type=each.event_type,
            resource_id=each.resource_id,
            archived_at=item.archived_at,
        )
    ]
    known = ledger.read(wanted) if wanted else {}
    return sum(_would_send(known.get(key), plan) for key in wanted)


def _would_send(delivery: Delivery | None, plan: Replay) -> bool:
    return delivery is None or (plan.again and delivery.status is DeliveryStatus.SUCCEEDED)


def _chunks(listed: Iterator[Listed]) -> Iterator[list[Listed]]:
    while chunk := list(islice(listed, CHUNK)):
        yield chunk

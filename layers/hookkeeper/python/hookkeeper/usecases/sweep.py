"""Every minute, move what is due and nothing else moves: owed items, circuits, recoveries, tokens, notices.

The mover of last resort behind the one rule of SPEC §2. Each part takes what is due by a guarded write
before it acts, so that two sweeps, or a sweep and a delivery, do no harm to each other.
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from hookkeeper.domain.arrival import REVIEW_AFTER, next_attempt
from hookkeeper.domain.circuit import trial_taken, woken
from hookkeeper.domain.config import Margins, RuntimeConfig
from hookkeeper.domain.delivery import Delivery, DeliveryStatus, Lane, Owed, Parcel
from hookkeeper.domain.health import Health
from hookkeeper.domain.ledger import ended
from hookkeeper.domain.outcome import Outcome
from hookkeeper.domain.recovery import RecoveryKind
from hookkeeper.domain.subscription import Status, matched_since, owed_from
from hookkeeper.domain.tenancy import DeliveryKey
from hookkeeper.ports import (
    Archive,
    HealthStore,
    Ids,
    Lanes,
    Ledger,
    NoticeQueue,
    Notices,
    Settlement,
    Standing,
    Subscriptions,
    Workflow,
)
from hookkeeper.usecases import transition
from hookkeeper.usecases.close_circuit import close_circuit
from hookkeeper.usecases.suspend import suspend

GRACE = timedelta(seconds=30)
"""How long after its moment an owed item is taken: its own queued retry comes first."""

SENT_AGAIN_AFTER = timedelta(minutes=5)
"""Where an item's `due_at` goes when it is sent: should that message be lost too, it is sent again."""

AT_MOST = 500
"""Of each kind in one run; the rest is due in the next minute."""

_AUTOMATIC = frozenset({Outcome.RETRYABLE, Outcome.FATAL})


@dataclass(frozen=True, slots=True, kw_only=True)
class SweepPorts:
    """All that the sweep needs from outside."""

    subscriptions: Subscriptions
    health: HealthStore
    ledger: Ledger
    archive: Archive
    lanes: Lanes
    notices: Notices
    notice_queue: NoticeQueue
    workflow: Workflow
    ids: Ids


def sweep(*, now: datetime, config: RuntimeConfig, margins: Margins, ports: SweepPorts) -> Counter[str]:
    """Move what is due at `now`; answers how many of what was done, for the log and the metrics."""
    done: Counter[str] = Counter()
    done.update(_owed_items(now, config, ports))
    done.update(_health(now, config, margins, ports))
    for key in ports.subscriptions.expired_tokens(now, limit=AT_MOST):
        expired = transition.expire(key, now=now, subscriptions=ports.subscriptions, ids=ports.ids)
        done["tokens_expired"] += expired is not None
    for notice in ports.notices.stuck(now, limit=AT_MOST):
        ports.notice_queue.send(notice.key, notice.id)
        done["notices_sent_again"] += 1
    return done


# ── owed items ───────────────────────────────────────────────────────────────────────────────────


def _owed_items(now: datetime, config: RuntimeConfig, ports: SweepPorts) -> Iterable[str]:
    items = ports.ledger.due(now - GRACE, limit=AT_MOST)
    for start in range(0, len(items), 25):
        chunk = items[start : start + 25]
        readings = ports.ledger.read_batch([item.key for item in chunk])
        parcels: list[Parcel] = []
        for item in chunk:
            if item.key in readings.unread:
                continue
            delivery = readings.deliveries.get(item.key)
            word, parcel = _move(
                item, delivery, readings.standings.get(item.key.subscription), now, config, ports
            )
            yield word
            if parcel is not None:
                parcels.append(parcel)
        ports.lanes.send(parcels)


def _move(
    item: Owed,
    delivery: Delivery | None,
    standing: Standing | None,
    now: datetime,
    config: RuntimeConfig,
    ports: SweepPorts,
) -> tuple[str, Parcel | None]:
    """What one due item needs: its word for the report, and the message to send if one is."""
    if delivery is None or delivery.final:
        ports.ledger.delete_owed(item)
        return "leftovers_deleted", None
    if standing is None or standing.subscription.status is Status.REVOKED:
        _end(delivery, DeliveryStatus.DISCARDED, ports)
        return "discarded", None
    if now >= delivery.archived_at + config.retention:
        _end(delivery, DeliveryStatus.EXPIRED, ports)
        return "expired", None
    expiry = delivery.archived_at + config.retention
    if standing.subscription.status is not Status.ACTIVE or standing.health.circuit.is_open:
        ports.ledger.settle(_held(item, delivery, expiry))
        return "held", None
    if standing.health.recovery.held and item.status is not DeliveryStatus.RETRYING:
        ports.ledger.move_due(item, due_at=min(now + REVIEW_AFTER, expiry))
        return "left_to_recovery", None
    if item.status is DeliveryStatus.EXHAUSTED and not (item.automatic_left and item.outcome in _AUTOMATIC):
        ports.ledger.move_due(item, due_at=expiry)
        return "left_to_people", None
    if not ports.ledger.move_due(item, due_at=min(now + SENT_AGAIN_AFTER, expiry)):
        return "taken_by_others", None
    return "sent", _parcel(item, delivery)


def _end(delivery: Delivery, status: DeliveryStatus, ports: SweepPorts) -> None:
    ports.ledger.settle(Settlement(before=delivery, after=ended(delivery, status)))


def _held(item: Owed, delivery: Delivery, expiry: datetime) -> Settlement:
    after = replace(delivery, status=DeliveryStatus.HELD, next_attempt_at=None)
    return Settlement(
        before=delivery,
        after=after,
        owed=replace(item, status=DeliveryStatus.HELD, due_at=expiry, taken_by=None),
    )


def _parcel(item: Owed, delivery: Delivery) -> Parcel:
    """The message of an owed item: its retry, or its one automatic recovery on the backfill lane."""
    lane = delivery.lane if item.status is DeliveryStatus.RETRYING else Lane.BACKFILL
    return Parcel(
        key=item.key,
        event_type=item.event_type,
        archived_at=item.archived_at,
        pointer=item.pointer,
        resource_id=item.resource_id,
        attempt=next_attempt(delivery),
        lane=lane,
    )


# ── health: circuits to wake, policies to ask, recoveries to start ───────────────────────────────


def _health(now: datetime, config: RuntimeConfig, margins: Margins, ports: SweepPorts) -> Iterable[str]:
    for key in ports.health.due(now, limit=AT_MOST):
        standing = ports.subscriptions.standing(key)
        if standing is None:
            continue
        yield from _tend(standing, now, config, margins, ports)


def _tend(
    standing: Standing, now: datetime, config: RuntimeConfig, margins: Margins, ports: SweepPorts
) -> Iterable[str]:
    health = standing.health
    lock = health.recovery
    if lock.held and lock.lease_until is not None and now >= lock.lease_until:
        _start(health, now, ports)
        yield "recoveries_started"
    if health.check_at is not None and now >= health.check_at:
        ruled = suspend(
            health.key,
            now=now,
            judged_at=health.last_attempt_at,
            config=config,
            margins=margins,
            subscriptions=ports.subscriptions,
            health=ports.health,
            ledger=ports.ledger,
            notices=ports.notices,
            ids=ports.ids,
        )
        yield f"policy_{ruled.ruling}"
    wake_at = health.circuit.wake_at
    active = standing.subscription.status is Status.ACTIVE
    if active and wake_at is not None and now >= wake_at and health.circuit.trial_free(now):
        yield _wake(standing, now, config, margins, ports)


def _start(health: Health, now: datetime, ports: SweepPorts) -> None:
    """Start or restart the execution of a recovery that nobody runs; its first state takes the lock."""
    lock = health.recovery
    ports.workflow.start(
        health.key,
        name=f"{lock.id}-{lock.generation}-{int(now.timestamp()) // 60}",
        options={
            "kind": str(lock.kind or RecoveryKind.AUTOMATIC),
            "recovery_id": lock.id,
            "generation": lock.generation,
            "actor": "sweep",
        },
    )


def _wake(
    standing: Standing, now: datetime, config: RuntimeConfig, margins: Margins, ports: SweepPorts
) -> str:
    """Send something that is owed, for `deliver` to take the trial with; where nothing is, close the circuit."""
    parcel = _something_to_try(standing, now, margins, ports)
    if parcel is None:
        return _close(standing, now, ports)
    health = standing.health
    later = woken(health.circuit, config.circuit, now=now)
    if not ports.health.write_circuit(health, later):
        return "wakes_lost"
    ports.lanes.send([parcel])
    return "circuits_woken"


def _close(standing: Standing, now: datetime, ports: SweepPorts) -> str:
    health = standing.health
    taken = trial_taken(health.circuit, by=ports.ids.new("trial"), now=now)
    if not ports.health.write_circuit(health, taken):
        return "wakes_lost"
    mine = replace(health, circuit=taken)
    won = close_circuit(
        mine, now=now, subscriptions=ports.subscriptions, health_store=ports.health, ids=ports.ids
    )
    return "circuits_closed" if won else "wakes_lost"


def _something_to_try(
    standing: Standing, now: datetime, margins: Margins, ports: SweepPorts
) -> Parcel | None:
    """An owed item of any class, least tried first; else the first event of the window with no record."""
    items: Sequence[Owed] = ports.ledger.owed(standing.subscription.key, limit=100)
    for item in sorted(items, key=lambda item: (item.attempt_count, item.archived_at)):
        delivery = ports.ledger.read([item.key]).get(item.key)
        if delivery is not None and not delivery.final:
            return _parcel(replace(item, status=DeliveryStatus.RETRYING), delivery)
    return _first_unseen(standing, now, margins, ports)


def _first_unseen(standing: Standing, now: datetime, margins: Margins, ports: SweepPorts) -> Parcel | None:
    subscription, outage_from = standing.subscription, standing.health.outage_from
    if outage_from is None:
        return None
    filters = ports.subscriptions.filters(subscription.key)
    until = now - margins.outage
    for event in ports.archive.events(subscription.scope, start=outage_from, until=until):
        wanted = owed_from(
            subscription, archived_at=event.archived_at, routing_cache=margins.routing_cache
        ) and matched_since(
            subscription,
            filters,
            event_type=event.event.type,
            resource_id=event.event.resource_id,
            archived_at=event.archived_at,
        )
        key = DeliveryKey(subscription.key, event.event.id)
        if wanted and key not in ports.ledger.read([key]):
            return Parcel(
                key=key,
                event_type=event.event.type,
                archived_at=event.archived_at,
                pointer=event.pointer,
                resource_id=event.event.resource_id,
                lane=Lane.BACKFILL,
            )
    return None

"""Give back what is owed, slice by slice, at a pace that the endpoint has shown it can take.

One call is one step of the recovery's execution: look whether to go on, read the next slice (owed items
first, then the windows' archive), queue it, and move the cursors past it. A cursor passes a slice only
when the queue has all of it and the subscription was then still active with its circuit closed; an
interrupted slice is read and sent again whole, which the ledger makes harmless.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from itertools import islice
from typing import TypeVar

from hookkeeper.domain.arrival import REVIEW_AFTER, next_attempt
from hookkeeper.domain.config import Margins, RuntimeConfig
from hookkeeper.domain.delivery import Delivery, DeliveryStatus, Lane, Owed, Parcel
from hookkeeper.domain.event import ArchivedEvent
from hookkeeper.domain.health import Health
from hookkeeper.domain.ledger import ended
from hookkeeper.domain.notice import Notice, NoticeKind
from hookkeeper.domain.outcome import Outcome
from hookkeeper.domain.recovery import (
    LEASE,
    Cursor,
    Recovery,
    RecoveryKind,
    RecoveryLock,
    RecoveryStatus,
    Window,
)
from hookkeeper.domain.subscription import FilterChange, matched_since, owed_from
from hookkeeper.domain.tenancy import DeliveryKey, SubscriptionKey
from hookkeeper.ports import (
    Archive,
    EventItems,
    HealthStore,
    Lanes,
    Ledger,
    Recoveries,
    Settlement,
    Standing,
    Subscriptions,
)

T = TypeVar("T")

CHUNK = 100
"""How many archived events are held against the ledger at a time: one BatchGetItem."""

LOOK_AT_MOST = 20_000
"""How many archived events one step looks at; the cursor moves on even where none of them is owed."""

CANARY_CHECK = timedelta(seconds=5)
CANARY_PATIENCE = timedelta(minutes=2)
"""How long canaries may be on their way before others are sent: an attempt's longest life and its batch."""

AFTER_FAILED_CANARIES = timedelta(minutes=1)
CANARIES_FAIL_AT_MOST = 3
PAUSE_CHECK = timedelta(minutes=5)
OPEN_CIRCUIT_CHECK = timedelta(seconds=30)
IN_FLIGHT_CHECK = timedelta(seconds=15)
LONGEST_WAIT = timedelta(minutes=15)

_MOVES_BY_ITSELF = frozenset({Outcome.RETRYABLE, Outcome.FATAL})


@dataclass(frozen=True, slots=True, kw_only=True)
class BackfillPorts:
    """All that a recovery's backfill needs from outside."""

    subscriptions: Subscriptions
    health: HealthStore
    recoveries: Recoveries
    ledger: Ledger
    events: EventItems
    archive: Archive
    lanes: Lanes


@dataclass(frozen=True, slots=True)
class Sliced:
    """After how long to come back; None when this execution has nothing more to do."""

    wait: timedelta | None
    sent: int = 0
    recovery: Recovery | None = None


@dataclass(slots=True)
class _Run:
    """One step's reading of the truth."""

    standing: Standing
    recovery: Recovery
    filters: Sequence[FilterChange]
    now: datetime
    config: RuntimeConfig
    margins: Margins
    ports: BackfillPorts
    expired: int = 0

    @property
    def health(self) -> Health:
        return self.standing.health

    @property
    def lock(self) -> RecoveryLock:
        return self.standing.health.recovery

    @property
    def mark(self) -> str:
        return f"{self.recovery.id}:{self.recovery.generation}"

    @property
    def lower_bound(self) -> datetime:
        return self.recovery.lower_bound or self.now - self.config.retention


@dataclass(frozen=True, slots=True)
class _Slice:
    """What was read: parcels in order, the owed items among them, and the windows with moved cursors."""

    parcels: Sequence[Parcel]
    taken: Sequence[Owed | None]
    windows: tuple[Window, ...]


def backfill(
    key: SubscriptionKey,
    *,
    recovery_id: str,
    generation: int,
    now: datetime,
    config: RuntimeConfig,
    margins: Margins,
    ports: BackfillPorts,
) -> Sliced:
    """Take one step of the recovery; safe to repeat, and to run after the recovery has ended."""
    standing = ports.subscriptions.standing(key)
    recovery = ports.recoveries.get(key.scope, recovery_id)
    if standing is None or recovery is None:
        return Sliced(None)
    lock = standing.health.recovery
    if not lock.held or not lock.is_present(recovery_id, generation):
        _close_record(standing.health, recovery, now, ports)
        return Sliced(None, recovery=recovery)
    run = _Run(standing, recovery, ports.subscriptions.filters(key), now, config, margins, ports)
    wait = _must_wait(run)
    if wait is not None:
        return _stay(run, wait)
    if recovery.canaries:
        return _look_at_canaries(run)
    return _next_slice(run)


def _close_record(health: Health, recovery: Recovery, now: datetime, ports: BackfillPorts) -> None:
    """The lock went (suspended, cancelled, revoked): the record says so too, unless it has ended or moved on."""
    lock = health.recovery
    if recovery.ended_at is not None or lock.id != recovery.id or lock.held or lock.status is None:
        return
    ports.health.write_lock(
        health,
        replace(lock, version=lock.version + 1),
        replace(recovery, status=lock.status, ended_at=now),
    )


def _must_wait(run: _Run) -> timedelta | None:
    """What stands in the way of the next slice for now."""
    if run.lock.status is RecoveryStatus.PAUSED:
        return PAUSE_CHECK
    open_until = run.health.circuit.open_until
    if open_until is not None:
        return max(open_until - run.now, OPEN_CIRCUIT_CHECK)
    quiet = [moment for moment in (run.recovery.next_slice_at, run.health.not_before) if moment]
    if quiet and max(quiet) > run.now:
        return max(quiet) - run.now
    return None


def _stay(run: _Run, wait: timedelta, recovery: Recovery | None = None) -> Sliced:
    """Come back later, with the lease renewed. A lost write means that someone changed the lock: look at once."""
    lock = replace(run.lock, version=run.lock.version + 1, lease_until=run.now + LEASE)
    kept = recovery or run.recovery
    if not run.ports.health.write_lock(run.health, lock, kept):
        return Sliced(timedelta(seconds=1), recovery=kept)
    return Sliced(min(wait, LONGEST_WAIT), recovery=kept)


# ── canaries ─────────────────────────────────────────────────────────────────────────────────────


def _look_at_canaries(run: _Run) -> Sliced:
    """Whether the few sent ahead went well; three failures in a row pause the recovery."""
    keys = [DeliveryKey(run.recovery.key, event_id) for event_id in run.recovery.canaries]
    deliveries = run.ports.ledger.read(keys)
    ends = [_canary_end(run, deliveries.get(key)) for key in keys]
    recovery = replace(run.recovery, canaries=())
    if False in ends:
        failed = recovery.canaries_failed + 1
        recovery = replace(recovery, canaries_failed=failed, next_slice_at=run.now + AFTER_FAILED_CANARIES)
        if failed >= CANARIES_FAIL_AT_MOST:
            return _pause(run, recovery)
        return _stay(run, AFTER_FAILED_CANARIES, recovery)
    began = run.recovery.next_slice_at or run.now
    if None in ends and run.now < began + CANARY_PATIENCE:
        return _stay(run, CANARY_CHECK)
    if None in ends:
        return _stay(run, timedelta(seconds=1), recovery)
    flowing = replace(
        recovery,
        flowing=True,
        canaries_failed=0,
        rate_per_second=_ceiling(run, run.config.pace.first_rate()),
        troubled_seen=recovery.troubled,
    )
    return _stay(run, timedelta(0), flowing)


def _canary_end(run: _Run, delivery: Delivery | None) -> bool | None:
    """True for a canary that arrived, False for one that was attempted in vain, None while it is on its way."""
    if delivery is None:
        return None
    if delivery.final:
        return True
    last = delivery.attempts[-1] if delivery.attempts else None
    sent_at = run.recovery.next_slice_at or run.recovery.started_at
    if last is not None and last.at >= sent_at - CANARY_CHECK:
        return False
    return None


def _pause(run: _Run, recovery: Recovery) -> Sliced:
    paused = replace(recovery, status=RecoveryStatus.PAUSED)
    lock = replace(
        run.lock,
        version=run.lock.version + 1,
        status=RecoveryStatus.PAUSED,
        lease_until=run.now + LEASE,
    )
    run.ports.health.write_lock(run.health, lock, paused)
    return Sliced(PAUSE_CHECK, recovery=paused)


# ── a slice ──────────────────────────────────────────────────────────────────────────────────────


def _next_slice(run: _Run) -> Sliced:
    recovery = _paced(run)
    pace = run.config.pace
    span = pace.slice_span(recovery.rate_per_second) if _settled_pace(run, recovery) else pace.slice_seconds
    most = max(1, int(recovery.rate_per_second * span)) if recovery.flowing else pace.canaries
    found = _collect(run, most)
    if not found.parcels and found.windows == run.lock.windows:
        return _finish_or_wait(run, recovery)
    return _send(run, recovery, found)


def _paced(run: _Run) -> Recovery:
    """The recovery at the pace that its last slice earned; the first pace follows the canaries."""
    recovery = run.recovery
    if not recovery.flowing or recovery.next_slice_at is None or not recovery.sent:
        return recovery
    clean = recovery.troubled <= recovery.troubled_seen
    rate = run.config.pace.next_rate(recovery.rate_per_second, clean=clean, ceiling=recovery.max_rate)
    return replace(recovery, rate_per_second=rate, troubled_seen=recovery.troubled)


def _settled_pace(run: _Run, recovery: Recovery) -> bool:
    """Whether the pace stays (asked for, or its highest): then slow slices may be long."""
    most = min(run.config.pace.most_per_second, recovery.max_rate or run.config.pace.most_per_second)
    return recovery.rate_per_second >= most


def _ceiling(run: _Run, rate: float) -> float:
    return min(rate, run.recovery.max_rate or rate)


def _send(run: _Run, recovery: Recovery, found: _Slice) -> Sliced:
    """Queue the slice, each message for its own second, then move the cursors past it."""
    per_second = recovery.rate_per_second if recovery.flowing else float(len(found.parcels) or 1)
    offsets = [timedelta(seconds=int(n / per_second)) for n in range(len(found.parcels))]
    kept = [
        (replace(parcel, at=run.now + offset), offset)
        for parcel, item, offset in zip(found.parcels, found.taken, offsets, strict=True)
        if item is None or _take(run, item, run.now + offset)
    ]
    refused = run.ports.lanes.send([p for p, _ in kept], delays=[offset for _, offset in kept])
    if refused:
        return _stay(run, IN_FLIGHT_CHECK)
    ends_in = (kept[-1][1] + timedelta(seconds=1)) if kept else timedelta(0)
    moved = replace(
        recovery,
        status=RecoveryStatus.RUNNING,
        found=recovery.found + len(kept),
        sent=recovery.sent + len(kept),
        expired=recovery.expired + run.expired,
        next_slice_at=run.now + ends_in,
        canaries=() if recovery.flowing else tuple(p.key.event_id for p, _ in kept),
    )
    lock = replace(
        run.lock,
        version=run.lock.version + 1,
        status=RecoveryStatus.RUNNING,
        windows=found.windows,
        lease_until=run.now + LEASE,
    )
    if not run.ports.health.write_lock(run.health, lock, moved, flowing=True):
        return Sliced(timedelta(seconds=1), sent=len(kept), recovery=recovery)
    return Sliced(max(ends_in, timedelta(seconds=1)), sent=len(kept), recovery=moved)


def _take(run: _Run, item: Owed, at: datetime) -> bool:
    """Mark an owed item as sent by this generation; should its message be lost, the sweep looks again."""
    return run.ports.ledger.move_due(item, due_at=at + REVIEW_AFTER, taken_by=run.mark)


def _finish_or_wait(run: _Run, recovery: Recovery) -> Sliced:
    """Done when every window is read to its end and no owed item is left that this recovery should send."""
    unread = [window.end + run.margins.outage for window in run.lock.windows]
    if unread and max(unread) > run.now:
        return _stay(run, max(unread) - run.now, recovery)
    if any(item.taken_by == run.mark for item in _own_items(run)):
        return _stay(run, IN_FLIGHT_CHECK, recovery)
    done = replace(
        recovery,
        status=RecoveryStatus.COMPLETED,
        ended_at=run.now,
        expired=recovery.expired + run.expired,
    )
    lock = replace(
        run.lock,
        version=run.lock.version + 1,
        status=RecoveryStatus.COMPLETED,
        windows=(),
        lease_until=None,
    )
    if not run.ports.health.write_lock(run.health, lock, done, notice=_recovered(run, done)):
        return Sliced(timedelta(seconds=1), recovery=recovery)
    return Sliced(None, recovery=done)


def _recovered(run: _Run, done: Recovery) -> Notice | None:
    if done.kind is not RecoveryKind.REENABLE:
        return None
    profile = run.ports.subscriptions.profile(done.key)
    return Notice(
        key=done.key,
        kind=NoticeKind.RECOVERED,
        dedupe=done.id,
        at=run.now,
        owner_email=profile.owner_email if profile else "",
        endpoint_url=run.standing.subscription.endpoint_url,
        facts={
            "sent": str(done.sent),
            "succeeded": str(done.succeeded),
            "failed": str(done.failed),
            "expired": str(done.expired),
        },
    )


# ── what is owed ─────────────────────────────────────────────────────────────────────────────────


def _collect(run: _Run, most: int) -> _Slice:
    """The next `most` deliveries that are owed: owed items in order, then the windows' archive."""
    parcels: list[Parcel] = []
    taken: list[Owed | None] = []
    if run.recovery.backfill:
        for item, delivery in _with_ledger(run, _own_items(run)):
            if len(parcels) >= most:
                break
            if item.taken_by == run.mark or _is_over(run, item, delivery):
                continue
            parcels.append(_parcel_of(run, item, delivery))
            taken.append(item)
    windows = list(run.lock.windows)
    for position, window in enumerate(windows):
        if len(parcels) >= most:
            break
        fresh, windows[position] = _read_window(run, window, most - len(parcels))
        parcels += fresh
        taken += [None] * len(fresh)
    return _Slice(parcels, taken, tuple(windows))


def _own_items(run: _Run) -> Iterator[Owed]:
    """Owed items that this recovery sends: every held one, and exhausted ones it has not tried yet.

    An automatic recovery leaves permanent failures, and what has had its one automatic recovery, to people.
    """
    by_itself = run.recovery.kind is RecoveryKind.AUTOMATIC
    after: Cursor | None = None
    while page := run.ports.ledger.owed(run.recovery.key, limit=CHUNK, after=after):
        for item in page:
            if item.tried_by == run.recovery.id:
                continue
            if item.status is DeliveryStatus.HELD or (
                item.status is DeliveryStatus.EXHAUSTED and not (by_itself and not _moves(item))
            ):
                yield item
        after = Cursor(page[-1].archived_at, page[-1].key.event_id) if len(page) == CHUNK else None
        if after is None:
            return


def _moves(item: Owed) -> bool:
    return item.automatic_left and item.outcome in _MOVES_BY_ITSELF


def _with_ledger(run: _Run, items: Iterator[Owed]) -> Iterator[tuple[Owed, Delivery | None]]:
    for chunk in _chunks(items):
        deliveries = run.ports.ledger.read([item.key for item in chunk])
        for item in chunk:
            yield item, deliveries.get(item.key)


def _is_over(run: _Run, item: Owed, delivery: Delivery | None) -> bool:
    """Whether nothing is owed any more: a leftover beside a final record, or left retention."""
    if delivery is not None and delivery.final:
        run.ports.ledger.delete_owed(item)
        return True
    if item.archived_at >= run.lower_bound:
        return False
    if delivery is not None:
        run.ports.ledger.settle(Settlement(before=delivery, after=ended(delivery, DeliveryStatus.EXPIRED)))
        run.expired += 1
    return True


def _read_window(run: _Run, window: Window, most: int) -> tuple[list[Parcel], Window]:
    """Up to `most` owed deliveries of a window, and the window with its cursor behind what was looked at."""
    ends = window.end + run.margins.outage
    until = ends if run.now >= ends else min(ends, run.now - run.margins.outage)
    fresh: list[Parcel] = []
    cursor = window.cursor
    events = run.ports.archive.events(run.recovery.key.scope, start=window.start, until=until, after=cursor)
    for chunk in _chunks(islice(events, LOOK_AT_MOST)):
        owed = _owed_of(run, chunk)
        for event in chunk:
            if len(fresh) >= most:
                return fresh, replace(window, cursor=cursor)
            if event.event.id in owed:
                fresh.append(_fresh_parcel(run, event))
            cursor = Cursor(event.archived_at, event.event.id)
    return fresh, replace(window, cursor=cursor)


def _owed_of(run: _Run, chunk: Sequence[ArchivedEvent]) -> set[str]:
    """Ids of the chunk's events that this subscription is owed and the ledger knows nothing of.

    What the ledger knows is either over or held by an owed item. An archive entry that its event item
    does not point to is stale: a crashed run's, told again by the next.
    """
    scope = run.recovery.key.scope
    wanted = [event for event in chunk if _matches(run, event)]
    if not wanted:
        return set()
    items = run.ports.events.routed([(scope, event.event.id) for event in wanted])
    current = []
    for event in wanted:
        item = items.get((scope, event.event.id))
        if item is not None and item.pointer != event.pointer:
            continue
        if event.archived_at < run.lower_bound:
            run.expired += 1
            continue
        current.append(event.event.id)
    known = run.ports.ledger.read([DeliveryKey(run.recovery.key, event_id) for event_id in current])
    return {event_id for event_id in current if DeliveryKey(run.recovery.key, event_id) not in known}


def _matches(run: _Run, event: ArchivedEvent) -> bool:
    subscription = run.standing.subscription
    return owed_from(
        subscription, archived_at=event.archived_at, routing_cache=run.margins.routing_cache
    ) and matched_since(
        subscription,
        run.filters,
        event_type=event.event.type,
        resource_id=event.event.resource_id,
        archived_at=event.archived_at,
    )


def _fresh_parcel(run: _Run, event: ArchivedEvent) -> Parcel:
    return Parcel(
        key=DeliveryKey(run.recovery.key, event.event.id),
        event_type=event.event.type,
        archived_at=event.archived_at,
        pointer=event.pointer,
        resource_id=event.event.resource_id,
        attempt=1,
        lane=Lane.BACKFILL,
        body=event.event.body,
        recovery_id=run.recovery.id,
        generation=run.recovery.generation,
    )


def _parcel_of(run: _Run, item: Owed, delivery: Delivery | None) -> Parcel:
    return Parcel(
        key=item.key,
        event_type=item.event_type,
        archived_at=item.archived_at,
        pointer=item.pointer,
        resource_id=item.resource_id,
        attempt=next_attempt(delivery),
        lane=Lane.BACKFILL,
        recovery_id=run.recovery.id,
        generation=run.recovery.generation,
    )


def _chunks(items: Iterator[T]) -> Iterator[list[T]]:
    while chunk := list(islice(items, CHUNK)):
        yield chunk

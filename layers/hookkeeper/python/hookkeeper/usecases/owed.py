"""What a recovery still has to send: owed items in order, then what its windows' archive owes."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from typing import TypeVar

from hookkeeper.domain.arrival import next_attempt
from hookkeeper.domain.delivery import Delivery, DeliveryStatus, Lane, Owed, Parcel
from hookkeeper.domain.event import ArchivedEvent
from hookkeeper.domain.ledger import ended
from hookkeeper.domain.outcome import Outcome
from hookkeeper.domain.recovery import Cursor, RecoveryKind, Window
from hookkeeper.domain.subscription import owes
from hookkeeper.domain.tenancy import DeliveryKey
from hookkeeper.ports import Settlement
from hookkeeper.usecases.fan_out import MAX_INLINE_BODY_BYTES
from hookkeeper.usecases.recovery_run import Run

T = TypeVar("T")

CHUNK = 100
"""How many archived events are held against the ledger at a time: one BatchGetItem."""

LOOK_AT_MOST = 20_000
"""How many archived events one step looks at; the cursor moves on even where none of them is owed."""

SLICE_BODY_BYTES = 32 * 1024 * 1024
"""Bodies in one slice: a function has 1 GiB for them, their JSON and what is read ahead."""

_MOVES_BY_ITSELF = frozenset({Outcome.RETRYABLE, Outcome.FATAL})


@dataclass(frozen=True, slots=True)
class Found:
    """Parcels in order, the owed item behind each (None: the archive), and the windows with moved cursors."""

    parcels: Sequence[Parcel]
    items: Sequence[Owed | None]
    windows: tuple[Window, ...]


def find_owed(run: Run, most: int) -> Found:
    """The next `most` deliveries that are owed and not on their way."""
    parcels: list[Parcel] = []
    items: list[Owed | None] = []
    for item, delivery in _with_ledger(run, (i for i in own_items(run) if not on_its_way(run, i))):
        if len(parcels) >= most:
            break
        if not _is_over(run, item, delivery):
            parcels.append(_parcel_of(run, item, delivery))
            items.append(item)
    windows = list(run.lock.windows)
    for position, window in enumerate(windows):
        if len(parcels) >= most:
            break
        fresh, windows[position] = _read_window(run, window, most - len(parcels))
        parcels += fresh
        items += [None] * len(fresh)
    return Found(parcels, items, tuple(windows))


def own_items(run: Run) -> Iterator[Owed]:
    """Owed items that this recovery sends: every held one, and exhausted ones it has not tried yet.

    An automatic recovery leaves permanent failures, and what has had its one automatic recovery, to people.
    One that its owner wanted without backfill sends nothing, until an outage's window joins it.
    """
    if not (run.recovery.backfill or run.lock.windows):
        return
    after: Cursor | None = None
    while page := run.ports.ledger.owed(run.recovery.key, limit=CHUNK, after=after):
        yield from (item for item in page if _is_own(run, item))
        if len(page) < CHUNK:
            return
        after = Cursor(page[-1].archived_at, page[-1].key.event_id)


def on_its_way(run: Run, item: Owed) -> bool:
    """Whether this generation has sent the item and its message may still come; past `due_at` it is lost."""
    return item.taken_by == run.mark and item.due_at > run.now


def _is_own(run: Run, item: Owed) -> bool:
    if item.tried_by == run.recovery.id:
        return False
    if item.status is DeliveryStatus.EXHAUSTED:
        moves = item.automatic_left and item.outcome in _MOVES_BY_ITSELF
        return moves or run.recovery.kind is not RecoveryKind.AUTOMATIC
    return item.status is DeliveryStatus.HELD


def _with_ledger(run: Run, items: Iterator[Owed]) -> Iterator[tuple[Owed, Delivery | None]]:
    for chunk in _chunks(items):
        deliveries = run.ports.ledger.read([item.key for item in chunk])
        for item in chunk:
            yield item, deliveries.get(item.key)


def _is_over(run: Run, item: Owed, delivery: Delivery | None) -> bool:
    """Whether nothing is owed any more: a leftover beside a final record, or left retention."""
    if delivery is None or delivery.final:
        run.ports.ledger.delete_owed(item)
        return True
    if item.archived_at >= run.lower_bound:
        return False
    record = ended(delivery, DeliveryStatus.EXPIRED)
    if run.ports.ledger.settle(Settlement(before=delivery, after=record)).written:
        run.expired += 1
    return True


def _parcel_of(run: Run, item: Owed, delivery: Delivery | None) -> Parcel:
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


# ── the archive ──────────────────────────────────────────────────────────────────────────────────


def _read_window(run: Run, window: Window, most: int) -> tuple[list[Parcel], Window]:
    """Up to `most` owed deliveries of a window, and the window with its cursor behind what was looked at.

    Read up to the margin before now, since what is archived may still be on its way to the archive; to its
    very end once that has passed: whatever was archived by then was routed to an endpoint no longer in it.
    """
    ends = window.end + run.margins.outage
    until = ends if run.now >= ends else min(ends, run.now - run.margins.outage)
    fresh: list[Parcel] = []
    cursor, bytes_left = window.cursor, SLICE_BODY_BYTES
    events = run.ports.archive.events(run.recovery.key.scope, start=window.start, until=until, after=cursor)
    for chunk in _chunks(islice(events, LOOK_AT_MOST)):
        owed = _owed_of(run, chunk)
        for event in chunk:
            if len(fresh) >= most or bytes_left <= 0:
                return fresh, replace(window, cursor=cursor)
            if event.event.id in owed:
                fresh.append(_fresh_parcel(run, event))
                bytes_left -= len(event.event.body)
            cursor = Cursor(event.archived_at, event.event.id)
    return fresh, replace(window, cursor=cursor)


def _owed_of(run: Run, chunk: Sequence[ArchivedEvent]) -> set[str]:
    """Ids of the chunk's events that this subscription is owed and the ledger knows nothing of.

    What the ledger knows is either over or held by an owed item. An archive entry that its event item
    does not point to is stale: a crashed run's, told again by the next.
    """
    scope = run.recovery.key.scope
    wanted = [event for event in chunk if _owes(run, event)]
    if not wanted:
        return set()
    items = run.ports.events.routed([(scope, event.event.id) for event in wanted])
    pointers = {event_id: item.pointer for (_, event_id), item in items.items()}
    present = [e for e in wanted if pointers.get(e.event.id, e.pointer) == e.pointer]
    known = run.ports.ledger.read([DeliveryKey(run.recovery.key, event.event.id) for event in present])
    unknown = [e for e in present if DeliveryKey(run.recovery.key, e.event.id) not in known]
    kept = {event.event.id for event in unknown if event.archived_at >= run.lower_bound}
    run.expired += len(unknown) - len(kept)
    return kept


def _owes(run: Run, event: ArchivedEvent) -> bool:
    cache = run.margins.routing_cache
    return owes(run.standing.subscription, run.filters, event, routing_cache=cache)


def _fresh_parcel(run: Run, event: ArchivedEvent) -> Parcel:
    inline = len(event.event.body) <= MAX_INLINE_BODY_BYTES
    return Parcel(
        key=DeliveryKey(run.recovery.key, event.event.id),
        event_type=event.event.type,
        archived_at=event.archived_at,
        pointer=event.pointer,
        resource_id=event.event.resource_id,
        lane=Lane.BACKFILL,
        body=event.event.body if inline else None,
        recovery_id=run.recovery.id,
        generation=run.recovery.generation,
    )


def _chunks(items: Iterator[T]) -> Iterator[list[T]]:
    while chunk := list(islice(items, CHUNK)):
        yield chunk

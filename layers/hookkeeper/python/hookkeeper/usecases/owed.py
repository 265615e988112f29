"""What a recovery still has to send: owed items in order, its windows' archive, what a person asked for."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from itertools import islice

from hookkeeper.domain.arrival import next_attempt
from hookkeeper.domain.delivery import Delivery, DeliveryStatus, Lane, Owed, Parcel
from hookkeeper.domain.event import ArchivedEvent
from hookkeeper.domain.ledger import ended
from hookkeeper.domain.outcome import Outcome
from hookkeeper.domain.recovery import Cursor, RecoveryKind, Window
from hookkeeper.domain.subscription import owes
from hookkeeper.domain.tenancy import DeliveryKey
from hookkeeper.ports import Settlement
from hookkeeper.usecases.chunks import chunks, owed_items
from hookkeeper.usecases.fan_out import MAX_INLINE_BODY_BYTES
from hookkeeper.usecases.lapsed import count_lapsed
from hookkeeper.usecases.recovery_run import Run

LOOK_AT_MOST = 20_000
"""How many archived events one step looks at; the cursor moves on even where none of them is owed."""

SLICE_BODY_BYTES = 32 * 1024 * 1024
"""Bodies in one slice: a function has 1 GiB for them, their JSON and what is read ahead."""

_MOVES_BY_ITSELF = frozenset({Outcome.RETRYABLE, Outcome.FATAL})


Picked = Callable[[Run, Sequence[ArchivedEvent]], Mapping[str, Parcel]]
"""Of a chunk of the archive, what is to be sent: parcels by event id."""


@dataclass(frozen=True, slots=True)
class Found:
    """Parcels in order, the owed item behind each (None: the archive), and the places read up to."""

    parcels: Sequence[Parcel]
    items: Sequence[Owed | None]
    windows: tuple[Window, ...]
    replay_cursor: Cursor | None

    def moves(self, run: Run) -> bool:
        """Whether anything is to be sent, or was read without finding anything."""
        return (
            bool(self.parcels)
            or self.windows != run.lock.windows
            or self.replay_cursor != run.recovery.replay_cursor
        )


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
    asked, cursor = _read_replay(run, most - len(parcels))
    parcels += asked
    items += [None] * (len(parcels) - len(items))
    return Found(parcels, items, tuple(windows), cursor)


def exceeds(run: Run, most: int) -> bool:
    """Whether more than `most` deliveries are owed; looked at, nothing is moved."""
    owed = sum(1 for _ in islice(own_items(run), most + 1))
    for window in run.lock.windows:
        if owed > most:
            break
        owed += len(_read_window(run, window, most + 1 - owed)[0])
    return owed > most


def own_items(run: Run) -> Iterator[Owed]:
    """Owed items that this recovery sends: every held one, and exhausted ones it has not tried yet.

    An automatic recovery leaves permanent failures, and what has had its one automatic recovery, to people;
    a replay sends those that its plan takes.
    One that its owner wanted without backfill sends nothing, until an outage's window joins it.
    """
    if not (run.recovery.backfill or run.lock.windows):
        return
    yield from (item for item in owed_items(run.recovery.key, run.ports.ledger) if _is_own(run, item))


def on_its_way(run: Run, item: Owed) -> bool:
    """Whether this generation has sent the item and its message may still come; past `due_at` it is lost."""
    return item.taken_by == run.mark and item.due_at > run.now


def _is_own(run: Run, item: Owed) -> bool:
    if item.status is DeliveryStatus.HELD:
        return True  # tried by it or not: an outage came since
    if item.status is not DeliveryStatus.EXHAUSTED or item.tried_by == run.recovery.id:
        return False
    if run.recovery.kind is RecoveryKind.AUTOMATIC:
        return item.automatic_left and item.outcome in _MOVES_BY_ITSELF
    return run.recovery.replay is None or run.recovery.replay.takes(item)


def _with_ledger(run: Run, items: Iterator[Owed]) -> Iterator[tuple[Owed, Delivery | None]]:
    for chunk in chunks(items):
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
    written = run.ports.ledger.settle(Settlement(before=delivery, after=record)).written
    if written and not any(w.start <= item.archived_at <= w.end for w in run.lock.windows):
        run.expired += 1  # what a window holds is counted with it
    return True


def _parcel_of(run: Run, item: Owed, delivery: Delivery | None) -> Parcel:
    return _addressed(
        run,
        Parcel(
            key=item.key,
            event_type=item.event_type,
            archived_at=item.archived_at,
            pointer=item.pointer,
            resource_id=item.resource_id,
            attempt=next_attempt(delivery),
        ),
    )


def _addressed(run: Run, parcel: Parcel) -> Parcel:
    """The parcel as this generation sends it, on the lane of what it is sent for."""
    recovery, plan = run.recovery, run.recovery.replay
    asked = plan is not None and plan.covers(archived_at=parcel.archived_at, event_type=parcel.event_type)
    return replace(
        parcel,
        lane=Lane.REPLAY if asked else Lane.BACKFILL,
        recovery_id=recovery.id,
        generation=recovery.generation,
        replay_id=recovery.id if asked and plan is not None and plan.again else None,
    )


# ── the archive ──────────────────────────────────────────────────────────────────────────────────


def _read_window(run: Run, window: Window, most: int) -> tuple[list[Parcel], Window]:
    """Up to `most` owed deliveries of a window, and the window with its cursor behind what was looked at."""
    if window.start < run.lower_bound:
        window = count_lapsed(run, window)
    if window.start < run.lower_bound:
        return [], window
    fresh, cursor = _walk(run, window.start, window.end, window.cursor, most, _owed_of)
    return fresh, replace(window, cursor=cursor)


def _read_replay(run: Run, most: int) -> tuple[list[Parcel], Cursor | None]:
    """Up to `most` deliveries of a replay's window; what was attempted in vain is found by its owed item."""
    plan, cursor = run.recovery.replay, run.recovery.replay_cursor
    if plan is None or not plan.reads_archive or most <= 0:
        return [], cursor
    return _walk(run, max(plan.start, run.lower_bound), plan.until, cursor, most, _asked_of)


def _walk(
    run: Run, start: datetime, end: datetime, cursor: Cursor | None, most: int, picked: Picked
) -> tuple[list[Parcel], Cursor | None]:
    """What is picked of [start, end + margin], past the cursor, and the place behind what was looked at.

    Read up to the margin before now, since what is archived may still be on its way to the archive; to its
    very end once that has passed: whatever was archived by then was routed to an endpoint no longer in it.
    """
    ends = end + run.margins.outage
    until = ends if run.now >= ends else min(ends, run.now - run.margins.outage)
    found: list[Parcel] = []
    bytes_left = SLICE_BODY_BYTES
    if until < start:
        return found, cursor
    events = run.ports.archive.events(run.recovery.key.scope, start=start, until=until, after=cursor)
    for chunk in chunks(islice(events, LOOK_AT_MOST)):
        parcels = picked(run, chunk)
        for event in chunk:
            if len(found) >= most or bytes_left <= 0:
                return found, cursor
            parcel = parcels.get(event.event.id)
            if parcel is not None and parcel.pointer == event.pointer:  # and not a stale entry beside it
                found.append(parcel)
                bytes_left -= len(event.event.body)
            cursor = Cursor(event.archived_at, event.event.id)
    return found, cursor


def _owed_of(run: Run, chunk: Sequence[ArchivedEvent]) -> Mapping[str, Parcel]:
    """What of the chunk the subscription is owed: the ledger knows nothing of it.

    What the ledger knows is either over or held by an owed item.
    """
    known, events = _known(run, [event for event in chunk if _owes(run, event)])
    return {e.event.id: _fresh_parcel(run, e, None) for e in events if e.event.id not in known}


def _asked_of(run: Run, chunk: Sequence[ArchivedEvent]) -> Mapping[str, Parcel]:
    """What of the chunk a replay sends: what is owed, and with `all` what succeeded, once for this replay."""
    plan = run.recovery.replay
    if plan is None:
        return {}
    covered = [
        e for e in chunk if plan.covers(archived_at=e.archived_at, event_type=e.event.type) and _owes(run, e)
    ]
    known, events = _known(run, covered)
    due = [e for e in events if _is_asked(run, known.get(e.event.id), again=plan.again)]
    return {e.event.id: _fresh_parcel(run, e, known.get(e.event.id)) for e in due}


def _is_asked(run: Run, delivery: Delivery | None, *, again: bool) -> bool:
    if delivery is None:
        return True
    succeeded = delivery.status is DeliveryStatus.SUCCEEDED
    return again and succeeded and run.recovery.id not in delivery.replays


def _known(
    run: Run, wanted: Sequence[ArchivedEvent]
) -> tuple[Mapping[str, Delivery], Sequence[ArchivedEvent]]:
    """The ledger's records by event id, and the events without stale entries.

    An archive entry that its event item does not point to is stale: a crashed run's, told again by the next.
    """
    if not wanted:
        return {}, []
    key = run.recovery.key
    items = run.ports.events.routed([(key.scope, event.event.id) for event in wanted])
    pointers = {event_id: item.pointer for (_, event_id), item in items.items()}
    present = [e for e in wanted if pointers.get(e.event.id, e.pointer) == e.pointer]
    records = run.ports.ledger.read([DeliveryKey(key, event.event.id) for event in present])
    return {delivery_key.event_id: record for delivery_key, record in records.items()}, present


def _owes(run: Run, event: ArchivedEvent) -> bool:
    return owes(
        run.standing.subscription,
        run.filters,
        event_type=event.event.type,
        resource_id=event.event.resource_id,
        archived_at=event.archived_at,
        routing_cache=run.margins.routing_cache,
    )


def _fresh_parcel(run: Run, event: ArchivedEvent, delivery: Delivery | None) -> Parcel:
    inline = len(event.event.body) <= MAX_INLINE_BODY_BYTES
    return _addressed(
        run,
        Parcel(
            key=DeliveryKey(run.recovery.key, event.event.id),
            event_type=event.event.type,
            archived_at=event.archived_at,
            pointer=event.pointer,
            resource_id=event.event.resource_id,
            attempt=next_attempt(delivery),
            body=event.event.body if inline else None,
        ),
    )

"""Take events in: archive them, route each to the subscriptions that want it, queue its deliveries.

The archive comes first, the event item last: a crash in between repeats the batch under a new
`archived_at`, and the ledger makes the repeats harmless. A wide fan-out reads all its matches in this
very run and sends itself pages of them, which only enqueue, however late they come.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

from hookkeeper.domain.delivery import Parcel
from hookkeeper.domain.event import ArchivedEvent, Event, EventItem, RoutePage
from hookkeeper.domain.tenancy import DeliveryKey, Scope, SubscriptionKey
from hookkeeper.ports import Archive, EventItems, Lanes, Pages, Routes

WIDE = 500
"""Matches of one event that are queued at once; more go by pages of so many (SPEC §6)."""

MAX_INLINE_BODY_BYTES = 64 * 1024
"""A larger body stays in the archive and travels by reference (SPEC §6)."""


class Taken(StrEnum):
    """What became of an incoming event."""

    ROUTED = "routed"
    DUPLICATE = "duplicate"
    CONFLICT = "conflict"
    """Its id was used for another event: rejected."""
    AGAIN = "again"
    """A queue did not take all of its deliveries: hand it back."""


@dataclass(frozen=True, slots=True)
class Incoming:
    """An event as it came, with what tells it from another of the same id."""

    event: Event
    content_hash: str

    @property
    def id(self) -> tuple[Scope, str]:
        return self.event.scope, self.event.id


@dataclass(frozen=True, slots=True)
class FannedOut:
    """What became of each event, in order, and how many deliveries were queued."""

    taken: Sequence[Taken]
    matches: int


@dataclass(frozen=True, slots=True, kw_only=True)
class FanOutPorts:
    """All that taking events in needs from outside."""

    events: EventItems
    archive: Archive
    routes: Routes
    lanes: Lanes
    pages: Pages


def fan_out(incoming: Sequence[Incoming], *, now: datetime, ports: FanOutPorts) -> FannedOut:
    """Archive and route the events that are new; `now` becomes their `archived_at`."""
    taken, fresh = _sift(incoming, ports.events)
    if not fresh:
        return FannedOut([taken[n] for n in range(len(incoming))], 0)
    positions = list(fresh)
    archived = ports.archive.put([incoming[n].event for n in positions], now=now)
    matched = [_matches(event, ports.routes) for event in archived]
    refused = _enqueue(archived, matched, ports)
    items: list[EventItem] = []
    for position, event, ids in zip(positions, archived, matched, strict=True):
        if event.event.id in refused:
            taken[position] = Taken.AGAIN
            continue
        taken[position] = Taken.ROUTED
        items.append(_item(event, incoming[position].content_hash, len(ids)))
    ports.events.put(items)
    return FannedOut([taken[n] for n in range(len(incoming))], sum(map(len, matched)))


def _sift(incoming: Sequence[Incoming], events: EventItems) -> tuple[dict[int, Taken], dict[int, Incoming]]:
    """What needs no routing (by position), and what does; the first of one id in a batch stands."""
    routed = events.routed(list(dict.fromkeys(each.id for each in incoming)))
    hashes = {item_id: item.body_hash for item_id, item in routed.items()}
    taken: dict[int, Taken] = {}
    fresh: dict[int, Incoming] = {}
    for position, each in enumerate(incoming):
        known = hashes.setdefault(each.id, each.content_hash)
        if known != each.content_hash:
            taken[position] = Taken.CONFLICT
        elif each.id in routed or any(other.id == each.id for other in fresh.values()):
            taken[position] = Taken.DUPLICATE
        else:
            fresh[position] = each
    return taken, fresh


def _matches(archived: ArchivedEvent, routes: Routes) -> Sequence[str]:
    event = archived.event
    return routes.matching(event.scope, event_type=event.type, resource_id=event.resource_id)


def _enqueue(
    archived: Sequence[ArchivedEvent], matched: Sequence[Sequence[str]], ports: FanOutPorts
) -> set[str]:
    """Queue every delivery, narrow events' together; answers the ids of events not wholly queued."""
    parcels: list[Parcel] = []
    refused: set[str] = set()
    for event, ids in zip(archived, matched, strict=True):
        if len(ids) <= WIDE:
            parcels += _parcels(event, ids)
            continue
        for start in range(0, len(ids), WIDE):
            page = RoutePage(archived=event, subscription_ids=tuple(ids[start : start + WIDE]))
            if not ports.pages.send(page):
                refused.add(event.event.id)
    refused |= {parcel.key.event_id for parcel in ports.lanes.send(parcels)} if parcels else set()
    return refused


def _parcels(archived: ArchivedEvent, subscription_ids: Sequence[str]) -> Iterator[Parcel]:
    event = archived.event
    inline = len(event.body) <= MAX_INLINE_BODY_BYTES
    for subscription_id in subscription_ids:
        yield Parcel(
            key=DeliveryKey(SubscriptionKey(event.scope, subscription_id), event.id),
            event_type=event.type,
            archived_at=archived.archived_at,
            pointer=archived.pointer,
            resource_id=event.resource_id,
            body=event.body if inline else None,
        )


def _item(archived: ArchivedEvent, content_hash: str, matches: int) -> EventItem:
    event = archived.event
    return EventItem(
        scope=event.scope,
        id=event.id,
        type=event.type,
        archived_at=archived.archived_at,
        pointer=archived.pointer,
        body_hash=content_hash,
        resource_id=event.resource_id,
        matches=matches,
    )

"""Count what a replay would send, as things stand, from items and the archive's index; no bytes are read.

By the rule of the recovery that would send it (owed.py): held items and what earlier recoveries left unread
are its own whatever was asked for. What lies in a queue is not counted.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import islice

from hookkeeper.domain.config import Margins, RuntimeConfig
from hookkeeper.domain.consent import Consent, may_receive
from hookkeeper.domain.delivery import Delivery, DeliveryStatus, Owed
from hookkeeper.domain.event import EventItem
from hookkeeper.domain.recovery import LAST_ID, Cursor, Listed
from hookkeeper.domain.replay import Counted, Replay
from hookkeeper.domain.subscription import FilterChange, Subscription, owes
from hookkeeper.domain.tenancy import DeliveryKey, Scope, SubscriptionKey
from hookkeeper.ports import Archive, Consents, EventItems, Ledger, Standing, Subscriptions
from hookkeeper.usecases.chunks import chunks, owed_items
from hookkeeper.usecases.replay import Asked, planned, replayable

COUNTED_AT_MOST = 10_000
"""Owed items and places of the archive that are looked at: what the API can read in seconds."""


@dataclass(frozen=True, slots=True)
class _Run:
    """The truth as it was read. Below `edge` nothing is sent; above `settled` no record means: in a queue."""

    standing: Standing
    plan: Replay
    filters: Sequence[FilterChange]
    consent: Consent | None
    edge: datetime
    settled: datetime
    margins: Margins
    ledger: Ledger
    archive: Archive
    events: EventItems

    @property
    def subscription(self) -> Subscription:
        return self.standing.subscription


def count(
    key: SubscriptionKey,
    asked: Asked,
    *,
    now: datetime,
    config: RuntimeConfig,
    margins: Margins,
    subscriptions: Subscriptions,
    consents: Consents,
    ledger: Ledger,
    archive: Archive,
    events: EventItems,
) -> Counted:
    """What the replay would send; writes nothing. Raises what `replay` raises."""
    plan = planned(asked, now=now, config=config)
    standing = replayable(subscriptions.standing(key), key)
    application_id = standing.subscription.application_id
    run = _Run(
        standing=standing,
        plan=plan,
        filters=subscriptions.filters(key),
        consent=consents.get(key.scope, application_id) if application_id else None,
        edge=now - config.retention,
        settled=now - margins.outage,
        margins=margins,
        ledger=ledger,
        archive=archive,
        events=events,
    )
    found, looked_at = 0, 0
    for items in chunks(islice(owed_items(key, ledger), COUNTED_AT_MOST)):
        looked_at += len(items)
        found += _items_sent(run, items)
    unseen: set[str] = set()
    for places in chunks(islice(_places(run), COUNTED_AT_MOST - looked_at)):
        looked_at += len(places)
        unseen |= _places_sent(run, places)
    return Counted(plan=plan, found=found + len(unseen), complete=looked_at < COUNTED_AT_MOST)


def _items_sent(run: _Run, items: Sequence[Owed]) -> int:
    """Every held item, and what the plan takes; none that is over, or has left retention."""
    wanted = [
        item
        for item in items
        if item.archived_at >= run.edge
        and (item.status is DeliveryStatus.HELD or run.plan.takes(item))
        and _consented(run, event_type=item.event_type, archived_at=item.archived_at)
    ]
    known = run.ledger.read([item.key for item in wanted]) if wanted else {}
    return sum(not known[item.key].final for item in wanted if item.key in known)


def _places(run: _Run) -> Iterator[Listed]:
    """The unread windows that it takes along, and its own: newest first, one after the other."""
    scope = run.subscription.scope
    for window in run.standing.health.recovery.windows:
        until = min(window.end + run.margins.outage, run.settled)
        since = max(window.start, run.edge, window.cursor.archived_at if window.cursor else run.edge)
        yield from run.archive.recent(scope, since=since, before=Cursor(until, LAST_ID))
    if run.plan.reads_archive:
        yield from run.archive.recent(scope, since=run.plan.start, before=Cursor(run.plan.until, LAST_ID))


def _places_sent(run: _Run, places: Sequence[Listed]) -> set[str]:
    """The events of these places that no owed item has, and that it sends."""
    scope = run.subscription.scope
    items = run.events.routed([(scope, each.place.event_id) for each in places])
    wanted = {
        DeliveryKey(run.subscription.key, each.place.event_id): each
        for each in places
        if not _stale(items, scope, each) and _owes(run, each)
    }
    known = run.ledger.read(list(wanted)) if wanted else {}
    return {key.event_id for key, each in wanted.items() if _sent(run, each, known.get(key))}


def _stale(items: Mapping[tuple[Scope, str], EventItem], scope: Scope, listed: Listed) -> bool:
    """Whether a crashed run left it, and the next archived the event anew."""
    item = items.get((scope, listed.place.event_id))
    return item is not None and item.archived_at != listed.place.archived_at


def _owes(run: _Run, listed: Listed) -> bool:
    archived_at = listed.place.archived_at
    return owes(
        run.subscription,
        run.filters,
        event_type=listed.event_type,
        resource_id=listed.resource_id,
        archived_at=archived_at,
        routing_cache=run.margins.routing_cache,
    ) and _consented(run, event_type=listed.event_type, archived_at=archived_at)


def _consented(run: _Run, *, event_type: str, archived_at: datetime) -> bool:
    application_id = run.subscription.application_id
    return may_receive(application_id, run.consent, event_type=event_type, archived_at=archived_at)


def _sent(run: _Run, listed: Listed, delivery: Delivery | None) -> bool:
    """Whether it is sent: nothing is known of it, or it succeeded and the plan sends that again."""
    archived_at = listed.place.archived_at
    asked = run.plan.reads_archive and run.plan.covers(archived_at=archived_at, event_type=listed.event_type)
    if delivery is not None:
        return asked and run.plan.again and delivery.status is DeliveryStatus.SUCCEEDED
    return archived_at <= run.settled and (asked or _unread(run, listed.place))


def _unread(run: _Run, place: Cursor) -> bool:
    """Whether an earlier recovery left it unread in one of its windows."""
    return any(
        window.start <= place.archived_at <= window.end + run.margins.outage
        and (window.cursor is None or place > window.cursor)
        for window in run.standing.health.recovery.windows
    )

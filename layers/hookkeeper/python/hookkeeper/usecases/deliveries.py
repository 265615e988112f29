"""Find deliveries: one by its id, one event's, or a subscription's."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from itertools import islice

from hookkeeper.domain.config import Margins
from hookkeeper.domain.delivery import Delivery, DeliveryStatus, Owed
from hookkeeper.domain.errors import InvalidInputError, NotFoundError
from hookkeeper.domain.recovery import LAST_ID, Cursor
from hookkeeper.domain.subscription import Subscription
from hookkeeper.domain.tenancy import DeliveryKey, Scope, SubscriptionKey, parse_delivery_id
from hookkeeper.ports import Archive, Ledger, Subscriptions

OWED = frozenset({DeliveryStatus.RETRYING, DeliveryStatus.EXHAUSTED, DeliveryStatus.HELD})
READ_AT_ONCE = 100
MOST_EXAMINED = 2000
"""Events of the tenant, or owed items, looked at for one page; a sparse page is short and goes on."""


@dataclass(frozen=True, slots=True)
class DeliveryPage:
    """Some of a subscription's deliveries; `next_after` is the place to go on from, None at the end."""

    deliveries: Sequence[Delivery]
    next_after: Cursor | None


def still_owed(subscription: Subscription, *, limit: int, ledger: Ledger) -> Sequence[Owed]:
    """Owed items, oldest first; none from before a consent was withdrawn, though they are there yet."""
    since = _owed_since(subscription)
    return [] if since is None else ledger.owed(subscription.key, limit=limit, after=Cursor(since, ""))


def get_delivery(scope: Scope, delivery_id: str, *, subscriptions: Subscriptions, ledger: Ledger) -> Delivery:
    """The ledger's record. Raises NotFoundError, for an id that cannot be one too."""
    try:
        key = parse_delivery_id(scope, delivery_id)
    except InvalidInputError:
        raise NotFoundError("delivery", delivery_id) from None
    delivery = ledger.read([key]).get(key)
    subscription = subscriptions.get(key.subscription)
    if delivery is None or subscription is None:
        raise NotFoundError("delivery", delivery_id)
    return _present(delivery, subscription)


def _present(delivery: Delivery, subscription: Subscription) -> Delivery:
    """The delivery as it stands: what a withdrawn consent took away is discarded, whoever writes it down."""
    since = _owed_since(subscription)
    if delivery.final or (since is not None and delivery.archived_at >= since):
        return delivery
    return replace(delivery, status=DeliveryStatus.DISCARDED, next_attempt_at=None)


def _owed_since(subscription: Subscription) -> datetime | None:
    """From when on anything is owed; None before the first activation, and after consent was withdrawn."""
    first = subscription.first_active_at
    return first - Margins().routing_cache if first else None


def list_deliveries(
    key: SubscriptionKey,
    *,
    status: DeliveryStatus | None = None,
    since: datetime,
    until: datetime | None = None,
    limit: int,
    after: Cursor | None = None,
    subscriptions: Subscriptions,
    ledger: Ledger,
    archive: Archive,
) -> DeliveryPage:
    """Those archived in [since, until] that were attempted or held.

    With an owed `status`, the oldest first (they are given back in that order); otherwise the newest first.
    Raises NotFoundError where there is no such subscription.
    """
    subscription = subscriptions.get(key)
    if subscription is None:
        raise NotFoundError("subscription", key.subscription_id)
    if status in OWED:
        places = _owed_places(key, since, until, after, ledger)
    else:
        places = _archived_places(key, since, until, after, archive)
    found: list[tuple[Cursor, Delivery]] = []
    last: Cursor | None = None
    examined = 0
    while examined < MOST_EXAMINED:
        chunk = list(islice(places, min(READ_AT_ONCE, MOST_EXAMINED - examined)))
        if not chunk:
            return DeliveryPage([delivery for _, delivery in found], None)
        examined += len(chunk)
        last = chunk[-1]
        found += _there(subscription, chunk, status, ledger)
        if len(found) > limit:
            return DeliveryPage([delivery for _, delivery in found[:limit]], found[limit - 1][0])
    return DeliveryPage([delivery for _, delivery in found], last)


def _there(
    subscription: Subscription, places: Sequence[Cursor], status: DeliveryStatus | None, ledger: Ledger
) -> Iterator[tuple[Cursor, Delivery]]:
    """The ledger's records of these places; an event that was archived twice has one place that counts."""
    read = ledger.read([DeliveryKey(subscription.key, place.event_id) for place in places])
    for place in places:
        delivery = read.get(DeliveryKey(subscription.key, place.event_id))
        if delivery is None or delivery.archived_at != place.archived_at:
            continue
        delivery = _present(delivery, subscription)
        if status is None or delivery.status is status:
            yield place, delivery


def _owed_places(
    key: SubscriptionKey,
    since: datetime,
    until: datetime | None,
    after: Cursor | None,
    ledger: Ledger,
) -> Iterator[Cursor]:
    place = after
    while True:
        page = ledger.owed(key, limit=READ_AT_ONCE, after=place)
        for owed in page:
            place = Cursor(archived_at=owed.archived_at, event_id=owed.key.event_id)
            if until is not None and owed.archived_at > until:
                return
            if owed.archived_at >= since:
                yield place
        if len(page) < READ_AT_ONCE:
            return


def _archived_places(
    key: SubscriptionKey,
    since: datetime,
    until: datetime | None,
    after: Cursor | None,
    archive: Archive,
) -> Iterator[Cursor]:
    if after is None and until is not None:
        after = Cursor(archived_at=until, event_id=LAST_ID)
    return (each.place for each in archive.recent(key.scope, since=since, before=after))


def deliveries_of_event(
    scope: Scope, event_id: str, *, most: int, subscriptions: Subscriptions, ledger: Ledger
) -> Sequence[Delivery]:
    """The event's deliveries, over the tenant's newest `most` subscriptions."""
    found: list[Delivery] = []
    after: str | None = None
    examined = 0
    while examined < most:
        page = subscriptions.page(scope, limit=min(READ_AT_ONCE, most - examined), after=after)
        asked = {DeliveryKey(s.subscription.key, event_id): s.subscription for s in page.standings}
        examined += len(asked)
        read = ledger.read(list(asked)) if asked else {}
        found += [_present(read[key], subscription) for key, subscription in asked.items() if key in read]
        after = page.next_after
        if after is None:
            break
    return found

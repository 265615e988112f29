"""Deliveries: a subscription's with their filters in the address, and one with its requests and answers."""

from datetime import UTC, datetime, timedelta
from urllib.parse import urlencode

from aws_lambda_powertools.event_handler import Response
from aws_lambda_powertools.event_handler.api_gateway import Router
from hookkeeper import __version__
from hookkeeper.api import masked
from hookkeeper.domain.access import Right
from hookkeeper.domain.delivery import Delivery, DeliveryStatus
from hookkeeper.domain.errors import InvalidInputError, NotFoundError
from hookkeeper.domain.moment import parse_rfc3339, rfc3339
from hookkeeper.domain.outcome import MASK
from hookkeeper.domain.recovery import Cursor
from hookkeeper.domain.subscription import Subscription
from hookkeeper.usecases.deliveries import get_delivery, list_deliveries
from hookkeeper.usecases.retry import retry
from pages import page, plain, see
from subscription_pages import existing
from visit import Visit, in_tenant

PAGE = 25
LAST_DAY = datetime.max.replace(hour=0, minute=0, second=0, microsecond=0, tzinfo=UTC)

router = Router()  # type: ignore[no-untyped-call]  # Powertools leaves it untyped


@router.get("/console/subscriptions/<subscription_id>/deliveries")
def list_all(subscription_id: str) -> Response[str]:
    visit, scope = in_tenant(router, Right.DELIVERIES_READ)
    standing = existing(visit, scope, subscription_id)
    status = visit.query.get("status")
    chosen = DeliveryStatus(status) if status in tuple(DeliveryStatus) else None
    since, until = _day(visit.query.get("from")), _day(visit.query.get("to"))
    oldest = visit.now - visit.reach.configs.current().retention
    found = list_deliveries(
        standing.subscription.key,
        status=chosen,
        since=max(since, oldest) if since else oldest,
        until=until + timedelta(days=1) if until else None,
        limit=PAGE,
        after=_place(visit.query.get("after")),
        subscriptions=visit.reach.subscriptions,
        ledger=visit.reach.ledger,
        archive=visit.reach.archive,
    )
    return page(
        visit,
        "deliveries.html",
        tab="deliveries",
        standing=standing,
        deliveries=found.deliveries,
        statuses=tuple(DeliveryStatus),
        status=chosen,
        since=visit.query.get("from") if since else "",
        until=visit.query.get("to") if until else "",
        next_query=_next_query(visit, found.next_after),
        first="after" not in visit.query,
    )


@router.get("/console/deliveries/<delivery_id>")
def read(delivery_id: str) -> Response[str]:
    visit, scope = in_tenant(router, Right.DELIVERIES_READ)
    delivery = get_delivery(
        scope, delivery_id, subscriptions=visit.reach.subscriptions, ledger=visit.reach.ledger
    )
    standing = existing(visit, scope, delivery.key.subscription.subscription_id)
    return page(
        visit,
        "delivery.html",
        tab="deliveries",
        standing=standing,
        delivery=delivery,
        resent=visit.query.get("resent") == "1",
        request_headers=request_headers(standing.subscription, delivery),
    )


@router.post("/console/deliveries/<delivery_id>/resend")
def resend(delivery_id: str) -> Response[str]:
    """One more attempt, at once; it counts for nothing in the endpoint's health."""
    visit, scope = in_tenant(router, Right.DELIVERIES_REPLAY)
    retry(
        scope,
        delivery_id,
        actor=visit.actor,
        now=visit.now,
        subscriptions=visit.reach.subscriptions,
        ledger=visit.reach.ledger,
        lanes=visit.reach.lanes,
        audit=visit.reach.audit,
        ids=visit.reach.ids,
    )
    return see(visit, f"/deliveries/{delivery_id}?resent=1")


@router.get("/console/deliveries/<delivery_id>/body")
def body(delivery_id: str) -> Response[str]:
    """The event as it is sent: a part of the page where its script asks, else plain text."""
    visit, scope = in_tenant(router, Right.DELIVERIES_READ)
    delivery = get_delivery(
        scope, delivery_id, subscriptions=visit.reach.subscriptions, ledger=visit.reach.ledger
    )
    try:
        text = visit.reach.event_bodies.body(scope, delivery.pointer).decode()
    except NotFoundError:
        text = "It is gone: events are kept for as long as retention says."
    return page(visit, "_body.html", text=text) if visit.fragment else plain(text)


@router.get("/console/deliveries/<delivery_id>/attempts/<number>")
def excerpt(delivery_id: str, number: str) -> Response[str]:
    """What an endpoint answered, as plain text: whatever it holds, no browser runs it."""
    visit, scope = in_tenant(router, Right.DELIVERIES_READ)
    delivery = get_delivery(
        scope, delivery_id, subscriptions=visit.reach.subscriptions, ledger=visit.reach.ledger
    )
    for attempt in delivery.attempts:
        if str(attempt.n) == number:
            return plain(attempt.excerpt)
    raise NotFoundError("attempt", number)


def request_headers(subscription: Subscription, delivery: Delivery) -> list[tuple[str, str]]:
    """What an attempt's request carries, with every secret masked; fresh ones each time are said to be."""
    own = masked(subscription.headers)
    return [
        ("content-type", "application/json"),
        ("user-agent", f"Hookkeeper/{__version__}"),
        ("webhook-id", delivery.key.event_id),
        ("webhook-timestamp", "the attempt's own second"),
        ("webhook-signature", f"v1,{MASK}"),
        ("hookkeeper-subscription-id", subscription.id),
        ("hookkeeper-attempt", str(delivery.attempt_count)),
        ("hookkeeper-lane", str(delivery.lane)),
        *sorted(own.items()),
    ]


def _day(text: str | None) -> datetime | None:
    """Midnight of the day, UTC; None for what is no day, or the last one that there is."""
    try:
        day = datetime.strptime(text or "", "%Y-%m-%d").replace(tzinfo=UTC)
    except ValueError:
        return None
    return day if day < LAST_DAY else None


def _place(text: str | None) -> Cursor | None:
    """Where the list goes on; None, its beginning, for what no page of ours says."""
    at, tilde, event_id = (text or "").partition("~")
    try:
        return Cursor(archived_at=parse_rfc3339(at, pointer="?after"), event_id=event_id) if tilde else None
    except InvalidInputError:
        return None


def _next_query(visit: Visit, place: Cursor | None) -> str | None:
    if place is None:
        return None
    kept = {name: visit.query[name] for name in ("status", "from", "to") if visit.query.get(name)}
    return urlencode(kept | {"after": f"{rfc3339(place.archived_at)}~{place.event_id}"})

"""Deliveries: a subscription's, and one by its id."""

from datetime import timedelta
from typing import Annotated

from aws_lambda_powertools.event_handler.openapi.params import Query
from calls import in_tenant, new_router, subscription_key
from cursors import Cursors, cursor_of, place_of
from hookkeeper.api import DeliveryOut, Moment, Page
from hookkeeper.domain.access import Right
from hookkeeper.domain.delivery import DeliveryStatus
from hookkeeper.domain.moment import rfc3339
from hookkeeper.usecases.deliveries import get_delivery, list_deliveries

router = new_router()


@router.get("/v1/subscriptions/<subscription_id>/deliveries", tags=["deliveries"])
def list_all(
    subscription_id: str,
    status: Annotated[
        DeliveryStatus | None, Query(description="With retrying, exhausted or held, the oldest first.")
    ] = None,
    since: Annotated[Moment | None, Query(alias="from", description="Archived at or after it.")] = None,
    until: Annotated[Moment | None, Query(alias="to", description="Archived at or before it.")] = None,
    limit: Annotated[int, Query(ge=1, le=100, description="At most so many.")] = 20,
    cursor: Annotated[str | None, Query(description="`next_cursor` of the part before.")] = None,
) -> Page[DeliveryOut]:
    """Those that were attempted or held, the newest first; what still lies in a queue is not among them."""
    call, scope = in_tenant(router, Right.DELIVERIES_READ)
    key = subscription_key(scope, subscription_id)
    bounds = [rfc3339(each) if each else None for each in (since, until)]
    cursors = Cursors(call.reach.cursor_key(), scope, "deliveries", key.subscription_id, status, *bounds)
    oldest = call.now - call.reach.configs.current().retention - timedelta(hours=1)
    page = list_deliveries(
        key,
        status=status,
        since=max(since, oldest) if since else oldest,
        until=until,
        limit=limit,
        after=cursor_of(cursors.open(cursor)),
        subscriptions=call.reach.subscriptions,
        ledger=call.reach.ledger,
        archive=call.reach.archive,
    )
    return Page(
        data=[DeliveryOut.of(delivery) for delivery in page.deliveries],
        has_more=page.next_after is not None,
        next_cursor=cursors.seal(place_of(page.next_after)),
    )


@router.get("/v1/deliveries/<delivery_id>", tags=["deliveries"])
def read(delivery_id: str) -> DeliveryOut:
    """One delivery, with its last ten attempts."""
    call, scope = in_tenant(router, Right.DELIVERIES_READ)
    reach = call.reach
    found = get_delivery(scope, delivery_id, subscriptions=reach.subscriptions, ledger=reach.ledger)
    return DeliveryOut.of(found)

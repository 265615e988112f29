"""A tenant's subscriptions at a glance."""

from datetime import datetime

from aws_lambda_powertools.event_handler import Response
from aws_lambda_powertools.event_handler.api_gateway import Router
from hookkeeper.api import is_archived
from hookkeeper.domain.access import Right
from hookkeeper.domain.subscription import Status
from hookkeeper.domain.tenancy import Scope
from hookkeeper.ports import Standing
from pages import page, see
from visit import Visit, current, in_tenant, safe_path
from words import gates

PAGE = 25
READ_AT_ONCE = 100
MOST_EXAMINED = 1000
"""Subscriptions looked at for one page; a sparse page is short and goes on."""

router = Router()  # type: ignore[no-untyped-call]  # Powertools leaves it untyped


@router.get("/console")
def home() -> Response[str]:
    visit = current(router)
    return see(visit, "/tenants" if visit.known().scope is None else "/subscriptions")


@router.get("/console/subscriptions")
def list_all() -> Response[str]:
    """Without a status asked for, neither revoked nor archived ones."""
    visit = current(router)
    if visit.known().operator and visit.known().scope is None:
        return see(visit, "/tenants")
    visit, scope = in_tenant(router, Right.SUBSCRIPTIONS_READ)
    status = Status(visit.query["status"]) if visit.query.get("status") in tuple(Status) else None
    standings, after = _walk(visit, scope, status)
    config = visit.reach.configs.current()
    return page(
        visit,
        "subscriptions.html",
        rows=[(standing, gates(standing, config, visit.now)) for standing in standings],
        status=status,
        statuses=tuple(Status),
        after=after,
        first="after" not in visit.query,
    )


def _walk(visit: Visit, scope: Scope, status: Status | None) -> tuple[list[Standing], str | None]:
    """The next PAGE of them, newest first, and the id to go on from where there may be more."""
    after = visit.query.get("after") if safe_path(f"/{visit.query.get('after')}") else None
    found: list[Standing] = []
    for _ in range(0, MOST_EXAMINED, READ_AT_ONCE):
        read = visit.reach.subscriptions.page(scope, limit=READ_AT_ONCE, after=after)
        found += [each for each in read.standings if _shown(each, status, visit.now)]
        if len(found) > PAGE:
            return found[:PAGE], found[PAGE - 1].subscription.id
        after = read.next_after
        if after is None:
            break
    return found, after


def _shown(standing: Standing, status: Status | None, now: datetime) -> bool:
    subscription = standing.subscription
    if status is not None:
        return subscription.status is status
    return subscription.status is not Status.REVOKED and not is_archived(subscription, now)

"""/v1/operations: what an operator looks at over all tenants."""

from collections.abc import Iterator
from typing import Annotated

from aws_lambda_powertools.event_handler.openapi.params import Query
from calls import Call, as_operator, new_router
from cursors import Cursors
from hookkeeper.api import AtRiskOut, FuseOut, Page
from hookkeeper.domain.tenancy import Mode, Scope
from hookkeeper.usecases.at_risk import AtRisk, at_risk
from hookkeeper.usecases.suspend import describe

MOST_EXAMINED = 2000
"""Subscriptions looked at for one page; a sparse page is short and goes on."""

MOST_SCOPES = 40
"""Tenants and modes entered for one page: each may cost a look-up of its own credentials."""

router = new_router()


@router.get("/v1/operations/at-risk", tags=["operators"])
def list_at_risk(
    limit: Annotated[int, Query(ge=1, le=100, description="At most so many.")] = 20,
    cursor: Annotated[str | None, Query(description="`next_cursor` of the part before.")] = None,
) -> Page[AtRiskOut]:
    """Subscriptions that the next failure would suspend: of all tenants, or of the one named in headers."""
    call = as_operator(router)
    named = call.enter() if "hookkeeper-tenant" in call.headers else None
    cursors = Cursors(call.reach.cursor_key(), named, "at-risk")
    data, place = _walk(call, named, cursors.open(cursor), limit)
    return Page(data=data, has_more=place is not None, next_cursor=cursors.seal(place))


@router.get("/v1/operations/fuse", tags=["operators"])
def read_fuse() -> FuseOut:
    """Whether suspensions pass, and what speaks against it."""
    call = as_operator(router)
    return FuseOut.of(call.reach.fuse.read(), call.reach.configs.current().fuse, now=call.now)


def _walk(
    call: Call, named: Scope | None, place: list[str] | None, limit: int
) -> tuple[list[AtRiskOut], list[str] | None]:
    """The next that are at risk, and the place (tenant, mode, subscription) to go on from."""
    found: list[AtRiskOut] = []
    left, entered = MOST_EXAMINED, 0
    after = place[2] if place and place[2] else None
    for scope in [named] if named else _scopes(call, place):
        if entered == MOST_SCOPES or left <= 0:
            return found, [scope.tenant_id, str(scope.mode), ""]
        call.reach.tenants.enter(scope)
        page = at_risk(
            scope,
            limit=limit - len(found),
            most=left,
            after=after,
            now=call.now,
            config=call.reach.configs.current(),
            subscriptions=call.reach.subscriptions,
        )
        found += [_told(each) for each in page.found]
        left, entered, after = left - page.examined, entered + 1, None
        if page.next_after is not None:
            return found, [scope.tenant_id, str(scope.mode), page.next_after]
    return found, None


def _scopes(call: Call, place: list[str] | None) -> Iterator[Scope]:
    """Every tenant's two modes, from the place on."""
    if place is not None:
        yield from (Scope(place[0], mode) for mode in Mode if mode >= place[1])
    after = place[0] if place else None
    while tenants := call.reach.access.tenants(limit=MOST_SCOPES, after=after):
        for tenant in tenants:
            yield from (Scope(tenant.id, mode) for mode in Mode)
        after = tenants[-1].id


def _told(each: AtRisk) -> AtRiskOut:
    subscription, health = each.standing.subscription, each.standing.health
    return AtRiskOut(
        tenant_id=subscription.scope.tenant_id,
        mode=subscription.scope.mode,
        subscription_id=subscription.id,
        endpoint_url=subscription.endpoint_url,
        consecutive_failures=health.consecutive_failures,
        first_failure_at=health.first_failure_at,
        last_status_code=health.last_status_code,
        last_error=health.last_error,
        limits=[describe(gate) for gate in each.verdict.gates],
    )

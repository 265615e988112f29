"""For operators: the tenants, how their fleets fare, the fuse, and the dead-letter queues."""

from dataclasses import dataclass

from aws_lambda_powertools.event_handler import Response
from aws_lambda_powertools.event_handler.api_gateway import Router
from fleet_lists import Listing, place_of, walk
from hookkeeper.api import FuseOut
from hookkeeper.domain.access import Tenant
from hookkeeper.domain.errors import InvalidInputError, NotFoundError
from hookkeeper.domain.subscription import Status
from hookkeeper.domain.tenancy import Mode, Scope, checked_id
from hookkeeper.ports import Standing
from hookkeeper.usecases.console_session import act_for
from hookkeeper.usecases.release_notice import release_notice
from pages import page, see
from visit import Visit, as_operator, safe_path, subscription_key
from words import GateTold, gates

PAGE = 25
FLEET_PAGE = 10
MOST_OF_A_TENANT = 100
"""Subscriptions of a tenant that the fleet's page looks at: its newest."""

MOST_REDRIVEN = 500
"""Messages that one press of the button puts back: what a call has time for."""

router = Router()  # type: ignore[no-untyped-call]  # Powertools leaves it untyped


@dataclass(frozen=True, slots=True)
class Trouble:
    """A subscription that wants somebody, and why."""

    standing: Standing
    gates: list[GateTold]


@dataclass(frozen=True, slots=True)
class Fleet:
    """One tenant's live subscriptions; `more` where there are older ones that were not looked at."""

    tenant: Tenant
    active: int
    suspended: int
    troubles: list[Trouble]
    more: bool


@router.get("/console/tenants")
def tenants() -> Response[str]:
    visit = as_operator(router)
    found, after = _tenants(visit, PAGE)
    return page(visit, "tenants.html", tenants=found, after=after, modes=tuple(Mode))


@router.post("/console/tenants")
def act() -> Response[str]:
    """Act for a tenant in one of its modes, until another is chosen."""
    visit = as_operator(router)
    tenant_id, mode = visit.form.get("tenant_id", "").strip(), visit.form.get("mode", "")
    try:
        scope = Scope(checked_id(tenant_id, field="tenant_id"), Mode(mode))
    except (InvalidInputError, ValueError):
        raise NotFoundError("tenant", tenant_id) from None
    act_for(visit.known(), scope, access=visit.reach.access, sessions=visit.reach.sessions)
    wanted = safe_path(visit.form.get("then"))
    return see(visit, wanted or "/subscriptions")


@router.get("/console/fleet")
def fleet() -> Response[str]:
    visit = as_operator(router)
    found, after = _tenants(visit, FLEET_PAGE)
    moved = visit.query.get("moved", "")
    return page(
        visit,
        "fleet.html",
        which=None,
        listings=tuple(Listing),
        fuse=_fuse(visit),
        fleets=[_fleet(visit, tenant) for tenant in found],
        queues=visit.reach.dead_letters.depths(),
        after=after,
        moved=int(moved) if moved.isascii() and moved.isdigit() and len(moved) <= 6 else None,
    )


@router.get("/console/fleet/<which>")
def listing(which: str) -> Response[str]:
    """All tenants' subscriptions of one kind, as far as one page gets; the next goes on from there."""
    visit = as_operator(router)
    if which not in tuple(Listing):
        raise NotFoundError("list", which)
    place = place_of(visit.query.get("after"))
    return page(
        visit,
        "fleet_list.html",
        which=Listing(which),
        listings=tuple(Listing),
        walked=walk(visit, Listing(which), place),
        first=place is None,
    )


@router.post("/console/fleet/redrive")
def redrive() -> Response[str]:
    """Put dead letters back on their lane; what they meet there makes a second time harmless."""
    visit = as_operator(router)
    name = visit.form.get("queue", "")
    try:
        moved = visit.reach.dead_letters.redrive(name, most=MOST_REDRIVEN)
    except KeyError:
        raise NotFoundError("queue", name) from None
    return see(visit, f"/fleet?moved={moved}")


@router.post("/console/subscriptions/<subscription_id>/notices/release")
def release(subscription_id: str) -> Response[str]:
    """Mail a notice after all that was withheld from its owner."""
    visit = as_operator(router)
    key = subscription_key(visit.enter(), subscription_id)
    release_notice(
        key,
        visit.form.get("notice_id", ""),
        actor=visit.actor,
        now=visit.now,
        notices=visit.reach.notices,
        audit=visit.reach.audit,
        ids=visit.reach.ids,
    )
    return see(visit, f"/subscriptions/{subscription_id}?done=released")


def _tenants(visit: Visit, limit: int) -> tuple[list[Tenant], str | None]:
    after = visit.query.get("after")
    found = list(visit.reach.access.tenants(limit=limit + 1, after=after if safe_path(f"/{after}") else None))
    return found[:limit], found[limit - 1].id if len(found) > limit else None


def _fuse(visit: Visit) -> FuseOut:
    return FuseOut.of(visit.reach.fuse.read(), visit.reach.configs.current().fuse, now=visit.now)


def _fleet(visit: Visit, tenant: Tenant) -> Fleet:
    """The tenant's newest subscriptions, those first that want somebody; read as that tenant."""
    scope = visit.enter(Scope(tenant.id, Mode.LIVE))
    read = visit.reach.subscriptions.page(scope, limit=MOST_OF_A_TENANT)
    config = visit.reach.configs.current()
    standings = [each for each in read.standings if each.subscription.status is not Status.REVOKED]
    troubles = [Trouble(each, gates(each, config, visit.now)) for each in standings if _troubled(each)]
    return Fleet(
        tenant=tenant,
        active=sum(each.subscription.enabled for each in standings),
        suspended=sum(each.subscription.status is Status.SUSPENDED for each in standings),
        troubles=sorted(troubles, key=lambda each: each.standing.subscription.status, reverse=True),
        more=read.next_after is not None,
    )


def _troubled(standing: Standing) -> bool:
    subscription, health = standing.subscription, standing.health
    if subscription.status is Status.SUSPENDED:
        return True
    return subscription.enabled and (not health.clean or health.circuit.is_open)

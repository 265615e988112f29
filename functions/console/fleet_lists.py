"""Lists over all tenants: who is suspended, whom the next failure would suspend, who does not answer.

Nothing is indexed by status, since a status change would then cost every tenant a shared, hot key: each page
walks the tenants in order, within a budget, says how far it came, and where the next one goes on.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum

from hookkeeper.domain.errors import InvalidInputError
from hookkeeper.domain.health import after_another_failure
from hookkeeper.domain.subscription import Status
from hookkeeper.domain.tenancy import Mode, Scope, checked_id
from hookkeeper.ports import Standing
from visit import Visit, safe_path
from words import GateTold, gates

PAGE = 25
READ_AT_ONCE = 100
MOST_EXAMINED = 2000
"""Subscriptions looked at for one page."""

MOST_SCOPES = 40
"""Tenants and modes entered for one page: each may cost a look-up of its own credentials."""


class Listing(StrEnum):
    """What is looked for; the words of its address."""

    SUSPENDED = "suspended"
    AT_RISK = "at-risk"
    NOT_ANSWERING = "not-answering"

    @property
    def words(self) -> str:
        return self.replace("-", " ").capitalize()


@dataclass(frozen=True, slots=True)
class Place:
    """Where a walk goes on: past `after` in this scope, or at its beginning."""

    scope: Scope
    after: str | None = None

    @property
    def text(self) -> str:
        return "~".join([self.scope.tenant_id, str(self.scope.mode), self.after or ""])


@dataclass(frozen=True, slots=True)
class Found:
    """A subscription that is listed, with the policy's arithmetic."""

    standing: Standing
    gates: list[GateTold]


@dataclass(slots=True)
class Walked:
    """What one page found, how much it looked at, and where the next begins; None where all was seen."""

    found: list[Found]
    examined: int = 0
    scopes: int = 0
    next_place: Place | None = None


def place_of(text: str | None) -> Place | None:
    """None, the beginning, for what no page of ours says."""
    tenant, _, rest = (text or "").partition("~")
    mode, _, after = rest.partition("~")
    if mode not in tuple(Mode) or (after and not safe_path(f"/{after}")):
        return None
    try:
        return Place(Scope(checked_id(tenant, field="tenant_id"), Mode(mode)), after or None)
    except InvalidInputError:
        return None


def walk(visit: Visit, listing: Listing, place: Place | None) -> Walked:
    """The next of them, from the place on."""
    walked = Walked([])
    after = place.after if place else None
    for scope in _scopes(visit, place):
        if walked.scopes == MOST_SCOPES or walked.examined >= MOST_EXAMINED or len(walked.found) == PAGE:
            walked.next_place = Place(scope)
            return walked
        visit.enter(scope)
        walked.scopes += 1
        rest = _walk_scope(visit, listing, scope, after, walked)
        if rest is not None:
            walked.next_place = Place(scope, rest)
            return walked
        after = None
    return walked


def _walk_scope(
    visit: Visit, listing: Listing, scope: Scope, after: str | None, walked: Walked
) -> str | None:
    """Look through one tenant's, in one mode; answers the id to go on from where the budget ended."""
    config = visit.reach.configs.current()
    while True:
        read = visit.reach.subscriptions.page(scope, limit=READ_AT_ONCE, after=after)
        for standing in read.standings:
            walked.examined += 1
            if _listed(visit, listing, standing):
                walked.found.append(Found(standing, gates(standing, config, visit.now)))
            if len(walked.found) == PAGE:
                return standing.subscription.id
        after = read.next_after
        if after is None or walked.examined >= MOST_EXAMINED:
            return after


def _listed(visit: Visit, listing: Listing, standing: Standing) -> bool:
    subscription, health = standing.subscription, standing.health
    if listing is Listing.SUSPENDED:
        return subscription.status is Status.SUSPENDED
    if subscription.status is not Status.ACTIVE:
        return False
    if listing is Listing.NOT_ANSWERING:
        return health.circuit.is_open
    policy = visit.reach.configs.current().policy_of(subscription)
    until = subscription.maintenance_until
    return after_another_failure(health, policy, visit.now, maintenance_until=until).suspend


def _scopes(visit: Visit, place: Place | None) -> Iterator[Scope]:
    """Every tenant's two modes, from the place on."""
    after = None
    if place is not None:
        after = place.scope.tenant_id
        yield from (Scope(after, mode) for mode in Mode if mode >= place.scope.mode)
    while tenants := visit.reach.access.tenants(limit=MOST_SCOPES, after=after):
        for tenant in tenants:
            yield from (Scope(tenant.id, mode) for mode in Mode)
        after = tenants[-1].id

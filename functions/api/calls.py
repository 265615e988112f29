"""One call: who makes it, within which tenant and mode, when, and what its route may reach."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Protocol

from aws_lambda_powertools.event_handler.api_gateway import Router
from hookkeeper.domain.access import TENANT_RIGHTS, KeyKind, Right
from hookkeeper.domain.audit import Actor
from hookkeeper.domain.config import Margins
from hookkeeper.domain.consent import Consent
from hookkeeper.domain.errors import InvalidInputError, NotFoundError
from hookkeeper.domain.tenancy import Mode, Scope, SubscriptionKey, checked_id
from hookkeeper.ports import (
    Access,
    Archive,
    Audit,
    Catalogue,
    Consents,
    Contacts,
    EventBodies,
    EventItems,
    EventQueue,
    EventRules,
    Fuse,
    GatewayKeys,
    HealthStore,
    Hosts,
    Idempotency,
    Ids,
    Lanes,
    Ledger,
    Rates,
    Recoveries,
    RuntimeConfigs,
    Schemas,
    Secrets,
    Sessions,
    Subscriptions,
    Workflow,
)
from hookkeeper.usecases.challenge_rate import HostRules
from problems import RefusedError


class Tenants(Protocol):
    """Whose items the clients of this container may touch from here on."""

    def enter(self, scope: Scope) -> None: ...
    def leave(self) -> None: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Reach:
    """All that the API reaches. `entropy` gives so many random bytes, `cursor_key` what signs cursors."""

    subscriptions: Subscriptions
    consents: Consents
    health: HealthStore
    recoveries: Recoveries
    workflow: Workflow
    ledger: Ledger
    lanes: Lanes
    archive: Archive
    events: EventItems
    event_rules: EventRules
    catalogue: Catalogue
    schemas: Schemas
    event_bodies: EventBodies
    event_queue: EventQueue
    secrets: Secrets
    contacts: Contacts
    audit: Audit
    operator_audit: Audit
    access: Access
    gateway_keys: GatewayKeys
    usage_plans: tuple[str, ...]
    fuse: Fuse
    sessions: Sessions
    configs: RuntimeConfigs
    ids: Ids
    hosts: Hosts
    rates: Rates
    idempotency: Idempotency
    operator_idempotency: Idempotency
    tenants: Tenants
    cursor_key: Callable[[], bytes]
    entropy: Callable[[int], bytes]
    host_rules: HostRules
    margins: Margins
    api_url: str
    console_url: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Caller:
    """Whose key it is, as the authorizer says; nothing of it is taken from the request itself."""

    key_id: str
    kind: KeyKind
    rights: frozenset[Right]
    scope: Scope | None
    source_ip: str | None
    application_id: str | None = None

    @classmethod
    def of(cls, request_context: Mapping[str, Any]) -> "Caller | None":
        """None on the open paths, which have no authorizer."""
        told = request_context.get("authorizer") or {}
        if "key_id" not in told:
            return None
        tenant, mode = told.get("tenant"), told.get("mode")
        return cls(
            key_id=told["key_id"],
            kind=KeyKind(told["kind"]),
            rights=frozenset(map(Right, told.get("rights", "").split())),
            scope=Scope(tenant, Mode(mode)) if tenant and mode else None,
            source_ip=(request_context.get("identity") or {}).get("sourceIp"),
            application_id=told.get("application"),
        )

    def may(self, right: Right) -> bool:
        return right in self.rights or (self.kind is KeyKind.OPERATOR and Right.OPERATE in self.rights)


@dataclass(slots=True, kw_only=True)
class Call:
    """The call in hand. `scope` is set once it is known, and `consent` with it where an application calls.

    `repeat` names it under its Idempotency-Key: the same call made again has the same. `asks_again` is set
    by an answer that asks for that, and is therefore not kept.
    """

    reach: Reach
    now: datetime
    request_id: str
    caller: Caller | None
    headers: Mapping[str, str]
    scope: Scope | None = None
    consent: Consent | None = None
    repeat: str | None = None
    asks_again: bool = False

    @property
    def rights(self) -> frozenset[Right]:
        """The key's, within a tenant: an operator's are all of them."""
        return frozenset(right for right in TENANT_RIGHTS if self._known().may(right))

    @property
    def actor(self) -> Actor:
        caller = self._known()
        return Actor(id=caller.key_id, source_ip=caller.source_ip)

    def allow(self, right: Right) -> None:
        """Raises RefusedError (403) where the key lacks the right."""
        if not self._known().may(right):
            raise RefusedError(403, "forbidden", f"the key lacks the scope {right}")

    def enter(self, *, tenant_id: str | None = None, mode: Mode | None = None) -> Scope:
        """The tenant and mode that the call works in: the key's, or those an operator names.

        An operator names them in headers, or by a request that says `tenant_id` (and `mode`).

        From here on the clients reach that tenant's items alone. Raises InvalidInputError where an operator
        names none, NotFoundError for a tenant that is not there, RefusedError (403) for an application that
        has no consent.
        """
        if self.scope is None:
            self.scope = self._known().scope or self._named(tenant_id, mode)
            self.reach.tenants.enter(self.scope)
            self._check_consent(self.scope)
        if tenant_id not in (None, self.scope.tenant_id) or mode not in (None, self.scope.mode):
            raise NotFoundError("tenant", tenant_id or self.scope.tenant_id)
        return self.scope

    def _named(self, tenant_id: str | None, wanted_mode: Mode | None) -> Scope:
        kind = self._known().kind
        tenant, mode = self.headers.get("hookkeeper-tenant"), self.headers.get("hookkeeper-mode")
        if tenant_id is not None and tenant is None:
            tenant, mode = tenant_id, wanted_mode or mode or Mode.LIVE
        if not tenant or mode not in tuple(Mode):
            raise InvalidInputError(
                "this key names tenant and mode: headers hookkeeper-tenant and hookkeeper-mode",
                code="tenant_required",
                pointer="hookkeeper-tenant",
            )
        checked_id(tenant, field="hookkeeper-tenant")
        if kind is KeyKind.OPERATOR and self.reach.access.tenant(tenant) is None:
            raise NotFoundError("tenant", tenant)
        return Scope(tenant, Mode(mode))

    def _check_consent(self, scope: Scope) -> None:
        """An application gets into a tenant by its consent alone; one that is not there is no different."""
        caller = self._known()
        if caller.kind is not KeyKind.APP:
            return
        self.consent = self.reach.consents.get(scope, caller.application_id or "")
        if self.consent is None or not self.consent.in_force:
            raise RefusedError(403, "no_consent", "the tenant has given this application no consent")

    def _known(self) -> Caller:
        if self.caller is None:
            raise RefusedError(401, "unauthorized", "a key is needed")
        return self.caller


def new_router() -> Router:
    return Router()  # type: ignore[no-untyped-call]  # Powertools leaves it untyped


def current(router: Router) -> Call:
    """The call that is being answered."""
    call: Call = router.context["call"]
    return call


def in_tenant(router: Router, right: Right) -> tuple[Call, Scope]:
    """The call, if its key has the right, and the tenant and mode it works in."""
    call = current(router)
    call.allow(right)
    return call, call.enter()


def as_operator(router: Router) -> Call:
    """The call, if its key is an operator's."""
    call = current(router)
    call.allow(Right.OPERATE)
    return call


def is_id(text: str) -> bool:
    """Whether an id of a path may stand in a key at all; any other cannot exist."""
    try:
        checked_id(text, field="id")
    except InvalidInputError:
        return False
    return True


def subscription_key(scope: Scope, subscription_id: str) -> SubscriptionKey:
    """Raises NotFoundError for what cannot be an id."""
    if not is_id(subscription_id):
        raise NotFoundError("subscription", subscription_id)
    return SubscriptionKey(scope, subscription_id)

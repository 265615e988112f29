"""/v1/tenants, /v1/applications: what operators do, to let them in and to keep them out."""

from typing import Annotated

from aws_lambda_powertools.event_handler import Response
from aws_lambda_powertools.event_handler.openapi.params import Query
from calls import as_operator, is_id, new_router
from cursors import Cursors
from hookkeeper.api import ApplicationKeyIn, KeyCreated, KeyIn, KeyOut, Page, TenantIn, TenantOut
from hookkeeper.domain.access import RANDOM_LENGTH, application_owner
from hookkeeper.domain.errors import NotFoundError
from hookkeeper.usecases.access import create_application_key, create_key, create_tenant, revoke_key

router = new_router()


@router.post("/v1/tenants", tags=["operators"], status_code=201)
def create(wanted: TenantIn) -> TenantOut:
    """Let a tenant in."""
    call = as_operator(router)
    tenant = create_tenant(
        wanted.name,
        tenant_id=wanted.id,
        plan=wanted.plan,
        plans=call.reach.usage_plans,
        actor=call.actor,
        now=call.now,
        access=call.reach.access,
        audit=call.reach.operator_audit,
        ids=call.reach.ids,
        gateway_keys=call.reach.gateway_keys,
    )
    return TenantOut.of(tenant)


@router.get("/v1/tenants", tags=["operators"])
def list_all(
    limit: Annotated[int, Query(ge=1, le=100)] = 20, cursor: Annotated[str | None, Query()] = None
) -> Page[TenantOut]:
    """Every tenant, in order of id."""
    call = as_operator(router)
    cursors = Cursors(call.reach.cursor_key(), None, "tenants")
    place = cursors.open(cursor)
    found = call.reach.access.tenants(limit=limit + 1, after=place[0] if place else None)
    more = len(found) > limit
    return Page(
        data=[TenantOut.of(tenant) for tenant in found[:limit]],
        has_more=more,
        next_cursor=cursors.seal([found[limit - 1].id] if more else None),
    )


@router.post("/v1/tenants/<tenant_id>/keys", tags=["operators"], status_code=201)
def add_key(tenant_id: str, wanted: KeyIn) -> KeyCreated:
    """A key of the tenant's mode, shown once."""
    call = as_operator(router)
    created = create_key(
        _checked(tenant_id),
        mode=wanted.mode,
        rights=wanted.scopes,
        expires_at=wanted.expires_at,
        entropy=call.reach.entropy(RANDOM_LENGTH),
        actor=call.actor,
        now=call.now,
        access=call.reach.access,
        audit=call.reach.operator_audit,
        ids=call.reach.ids,
        gateway_keys=call.reach.gateway_keys,
    )
    return KeyCreated.created(created.key, created.text)


@router.get("/v1/tenants/<tenant_id>/keys", tags=["operators"])
def list_keys(tenant_id: str) -> Page[KeyOut]:
    """The tenant's keys, by their last four characters."""
    call = as_operator(router)
    if call.reach.access.tenant(_checked(tenant_id)) is None:
        raise NotFoundError("tenant", tenant_id)
    keys = call.reach.access.keys_of(tenant_id)
    return Page(data=[KeyOut.of(key) for key in keys], has_more=False)


@router.delete("/v1/tenants/<tenant_id>/keys/<key_id>", tags=["operators"], status_code=204)
def remove_key(tenant_id: str, key_id: str) -> Response[None]:
    """Revoke it: the key is dead within a minute."""
    return _revoked(_checked(tenant_id), key_id)


@router.post("/v1/applications/<application_id>/keys", tags=["operators"], status_code=201)
def add_application_key(application_id: str, wanted: ApplicationKeyIn | None = None) -> KeyCreated:
    """A key of the application, shown once; it names tenant and mode in headers."""
    call, told = as_operator(router), wanted or ApplicationKeyIn()
    created = create_application_key(
        application_id,
        rights=told.scopes,
        expires_at=told.expires_at,
        entropy=call.reach.entropy(RANDOM_LENGTH),
        actor=call.actor,
        now=call.now,
        access=call.reach.access,
        audit=call.reach.operator_audit,
        ids=call.reach.ids,
        gateway_keys=call.reach.gateway_keys,
    )
    return KeyCreated.created(created.key, created.text)


@router.get("/v1/applications/<application_id>/keys", tags=["operators"])
def list_application_keys(application_id: str) -> Page[KeyOut]:
    """The application's keys, by their last four characters."""
    call = as_operator(router)
    if not is_id(application_id):
        raise NotFoundError("application", application_id)
    keys = call.reach.access.keys_of(application_owner(application_id))
    return Page(data=[KeyOut.of(key) for key in keys], has_more=False)


@router.delete("/v1/applications/<application_id>/keys/<key_id>", tags=["operators"], status_code=204)
def remove_application_key(application_id: str, key_id: str) -> Response[None]:
    """Revoke it: the key is dead within a minute."""
    return _revoked(application_owner(application_id), key_id)


def _revoked(owner: str, key_id: str) -> Response[None]:
    call = as_operator(router)
    revoke_key(
        owner,
        key_id,
        actor=call.actor,
        now=call.now,
        access=call.reach.access,
        audit=call.reach.operator_audit,
        ids=call.reach.ids,
    )
    return Response(204)


def _checked(tenant_id: str) -> str:
    if not is_id(tenant_id):
        raise NotFoundError("tenant", tenant_id)
    return tenant_id

"""Let tenants in: create them, give them keys, take keys away.

Each is written into the audit first: a crash may leave a record too many, never a change without one.
"""

from collections.abc import Collection
from dataclasses import dataclass, field, replace
from datetime import datetime

from hookkeeper.domain.access import (
    APPLICATION_RIGHTS,
    HOUSE,
    STANDARD,
    TENANT_RIGHTS,
    ApiKey,
    KeyKind,
    Right,
    Tenant,
    application_owner,
    key_hash,
    key_text,
)
from hookkeeper.domain.audit import Actor, AuditRecord
from hookkeeper.domain.errors import ConflictError, InvalidInputError, NotFoundError
from hookkeeper.domain.tenancy import Mode, Scope, checked_id
from hookkeeper.ports import Access, Audit, GatewayKeys, Ids

MAX_NAME_CHARACTERS = 200


@dataclass(frozen=True, slots=True)
class NewKey:
    """A key's record, and its text for the only time it is shown."""

    key: ApiKey
    text: str = field(repr=False)


def create_tenant(
    name: str,
    *,
    tenant_id: str | None = None,
    plan: str = STANDARD,
    plans: Collection[str] = (STANDARD,),
    actor: Actor,
    now: datetime,
    access: Access,
    audit: Audit,
    ids: Ids,
    gateway_keys: GatewayKeys,
) -> Tenant:
    """Let a tenant in, on one of the stage's usage plans; what the gateway counts it by comes first.

    Raises InvalidInputError (`invalid_id`, `invalid_name`, `unknown_plan`), or ConflictError where the id is
    taken.
    """
    if not 1 <= len(name.strip()) <= MAX_NAME_CHARACTERS:
        detail = f"a name has 1 to {MAX_NAME_CHARACTERS} characters"
        raise InvalidInputError(detail, code="invalid_name", pointer="/name")
    wanted = ids.new("ten") if tenant_id is None else checked_id(tenant_id, field="id")
    if plan not in plans:
        detail = f"the plans are {', '.join(plans)}"
        raise InvalidInputError(detail, code="unknown_plan", pointer="/plan")
    tenant = Tenant(id=wanted, name=name.strip(), created_at=now, plan=plan)
    if tenant.id == HOUSE.tenant_id or access.tenant(tenant.id) not in (None, tenant):
        raise ConflictError(f"there is a tenant {tenant.id} already")
    gateway_keys.ensure(tenant.id, plan=plan)
    audit.put(_house_record("tenant.created", tenant.id, actor, now, ids))
    if not access.create_tenant(tenant):
        raise ConflictError(f"there is a tenant {tenant.id} already")
    return tenant


def create_key(
    tenant_id: str,
    *,
    mode: Mode,
    rights: Collection[Right] | None = None,
    expires_at: datetime | None = None,
    entropy: bytes,
    actor: Actor,
    now: datetime,
    access: Access,
    audit: Audit,
    ids: Ids,
    gateway_keys: GatewayKeys,
) -> NewKey:
    """A key of a tenant's mode, with all of a tenant's rights where none are named.

    Raises NotFoundError, or InvalidInputError (`invalid_scope`, `invalid_time`).
    """
    tenant = access.tenant(tenant_id)
    if tenant is None:
        raise NotFoundError("tenant", tenant_id)
    kind = KeyKind.LIVE if mode is Mode.LIVE else KeyKind.TEST
    new = _new_key(kind, rights, TENANT_RIGHTS, expires_at, entropy, now, ids)
    gateway_keys.ensure(tenant.id, plan=tenant.plan)
    return _kept(replace(new.key, tenant_id=tenant_id, mode=mode), new.text, actor, now, access, audit, ids)


def create_application_key(
    application_id: str,
    *,
    rights: Collection[Right] | None = None,
    expires_at: datetime | None = None,
    entropy: bytes,
    actor: Actor,
    now: datetime,
    access: Access,
    audit: Audit,
    ids: Ids,
    gateway_keys: GatewayKeys,
) -> NewKey:
    """A key of an application, good for the tenants that give it their consent. Raises as `create_key`."""
    checked_id(application_id, field="application_id")
    new = _new_key(KeyKind.APP, rights, APPLICATION_RIGHTS, expires_at, entropy, now, ids)
    key = replace(new.key, application_id=application_id)
    gateway_keys.ensure(application_owner(application_id), plan=STANDARD)
    return _kept(key, new.text, actor, now, access, audit, ids)


def create_operator_key(
    *,
    expires_at: datetime | None = None,
    entropy: bytes,
    actor: Actor,
    now: datetime,
    access: Access,
    audit: Audit,
    ids: Ids,
) -> NewKey:
    """A key that makes all others: for whoever deployed the stack, since no route of the API makes it.

    Raises InvalidInputError (`invalid_time`). Its usage plan is the stack's own.
    """
    granted = frozenset({Right.OPERATE})
    new = _new_key(KeyKind.OPERATOR, granted, granted, expires_at, entropy, now, ids)
    return _kept(new.key, new.text, actor, now, access, audit, ids)


def revoke_key(
    owner: str, key_id: str, *, actor: Actor, now: datetime, access: Access, audit: Audit, ids: Ids
) -> None:
    """The key is dead within a minute. Raises NotFoundError where the owner has no such key."""
    key = next((key for key in access.keys_of(owner) if key.id == key_id), None)
    if key is None:
        raise NotFoundError("key", key_id)
    if key.revoked_at is None:
        audit.put(_record("key.revoked", key, actor, now, ids, after={"revoked_at": now.isoformat()}))
    access.revoke_key(owner, key_id, now=now)


def _new_key(
    kind: KeyKind,
    rights: Collection[Right] | None,
    grantable: frozenset[Right],
    expires_at: datetime | None,
    entropy: bytes,
    now: datetime,
    ids: Ids,
) -> NewKey:
    granted = grantable if rights is None else frozenset(rights)
    if not granted or not granted <= grantable:
        known = ", ".join(sorted(grantable))
        raise InvalidInputError(f"one or more of {known}", code="invalid_scope", pointer="/scopes")
    if expires_at is not None and expires_at <= now:
        raise InvalidInputError("in the past", code="invalid_time", pointer="/expires_at")
    text = key_text(kind, entropy)
    key = ApiKey(
        id=ids.new("key"),
        sha256=key_hash(text),
        kind=kind,
        rights=granted,
        created_at=now,
        last4=text[-4:],
        expires_at=expires_at,
    )
    return NewKey(key, text)


def _kept(
    key: ApiKey, text: str, actor: Actor, now: datetime, access: Access, audit: Audit, ids: Ids
) -> NewKey:
    scopes = ", ".join(sorted(key.rights))
    audit.put(_record("key.created", key, actor, now, ids, after={"scopes": scopes}))
    access.put_key(key)
    return NewKey(key, text)


def _record(
    action: str, key: ApiKey, actor: Actor, now: datetime, ids: Ids, *, after: dict[str, str]
) -> AuditRecord:
    record = _house_record(action, key.id, actor, now, ids)
    scope = HOUSE
    if key.tenant_id is not None and key.mode is not None:
        scope = Scope(key.tenant_id, key.mode)
    return replace(record, scope=scope, after=after, detail=key.application_id or "")


def _house_record(action: str, subject: str, actor: Actor, now: datetime, ids: Ids) -> AuditRecord:
    return AuditRecord(scope=HOUSE, id=ids.new("aud"), at=now, action=action, actor=actor, subject=subject)

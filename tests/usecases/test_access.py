"""Tenants and keys: shown once, stored as a hash, dead when revoked."""

from contextlib import suppress
from datetime import timedelta
from typing import Any

import pytest
from hookkeeper.domain.access import HOUSE, OPERATORS, TENANT_RIGHTS, KeyKind, Right, key_hash, well_formed
from hookkeeper.domain.errors import ConflictError, InvalidInputError, NotFoundError, OwnFaultError
from hookkeeper.domain.tenancy import Mode
from hookkeeper.usecases.access import (
    NewKey,
    create_application_key,
    create_key,
    create_operator_key,
    create_tenant,
    revoke_key,
)

from tests.builders import ACTOR, HOUR, NOW, a_scope, a_tenant
from tests.fakes import FakeAccess, FakeAudit, FakeGatewayKeys, FakeIds, World


def a_world() -> World:
    world = World()
    world.tenants["acme"] = a_tenant()
    return world


def ports(world: World) -> dict[str, Any]:
    return {"access": FakeAccess(world), "audit": FakeAudit(world), "ids": FakeIds(world)}


def makers(world: World) -> dict[str, Any]:
    return ports(world) | {"gateway_keys": FakeGatewayKeys(world)}


def made(world: World, *, tenant_id: str = "acme", mode: Mode = Mode.LIVE, **more: Any) -> NewKey:
    given = {"entropy": bytes(range(32)), "actor": ACTOR, "now": NOW, "mode": mode}
    return create_key(tenant_id, **(given | more), **makers(world))  # type: ignore[arg-type]


@pytest.mark.parametrize("mode,prefix", [(Mode.LIVE, "hk_live_"), (Mode.TEST, "hk_test_")])
def test_a_key_says_its_mode_and_nothing_of_it_is_stored(mode: Mode, prefix: str) -> None:
    world = a_world()
    new = made(world, mode=mode)
    assert new.text.startswith(prefix)
    assert well_formed(new.text)
    assert new.text not in repr(new)
    assert new.text not in repr(world.keys) + repr(world.audit)
    stored = world.keys[key_hash(new.text)]
    assert (stored.rights, stored.mode, stored.kind) == (TENANT_RIGHTS, mode, KeyKind(str(mode)))
    (record,) = world.audit.values()
    assert (record.action, record.subject, record.scope) == ("key.created", new.key.id, a_scope(mode=mode))


@pytest.mark.parametrize("rights", [[], [Right.OPERATE], [Right.EVENTS_WRITE, Right.OPERATE]])
def test_a_tenants_key_never_operates(rights: list[Right]) -> None:
    with pytest.raises(InvalidInputError):
        made(a_world(), rights=rights)


def test_a_key_ends_in_the_future_if_it_ends() -> None:
    world = a_world()
    new = made(world, expires_at=NOW + HOUR, rights=[Right.EVENTS_WRITE])
    assert new.key.usable(NOW + HOUR - timedelta(seconds=1))
    assert not new.key.usable(NOW + HOUR)
    with pytest.raises(InvalidInputError):
        made(world, expires_at=NOW)


def test_a_revoked_key_is_dead_and_recorded_once() -> None:
    world = a_world()
    new = made(world)
    for _ in range(2):
        revoke_key("acme", new.key.id, actor=ACTOR, now=NOW + HOUR, **ports(world))
    assert not world.keys[new.key.sha256].usable(NOW)
    assert [record.action for record in world.audit.values()] == ["key.created", "key.revoked"]


def test_a_key_is_revoked_within_its_tenant_alone() -> None:
    world = a_world()
    new = made(world)
    for tenant_id, key_id in (("beta", new.key.id), ("acme", "key_x")):
        with pytest.raises(NotFoundError):
            revoke_key(tenant_id, key_id, actor=ACTOR, now=NOW, **ports(world))
    assert world.keys[new.key.sha256].usable(NOW)
    with pytest.raises(NotFoundError):
        made(world, tenant_id="beta")


def test_a_tenants_id_is_given_or_made_and_each_once() -> None:
    world = World()
    given: dict[str, Any] = {"actor": ACTOR, "now": NOW} | makers(world)
    assert create_tenant(" Acme ", tenant_id="acme", **given).name == "Acme"
    assert create_tenant("Other", **given).id.startswith("ten_")
    with pytest.raises(ConflictError):
        create_tenant("Another", tenant_id="acme", **given)
    for bad in ("", " ", "x" * 201):
        with pytest.raises(InvalidInputError):
            create_tenant(bad, **given)
    with pytest.raises(ConflictError):
        create_tenant("Ours", tenant_id="hookkeeper", **given)
    for bad in ("a#b", "*", "a.b", ""):
        with pytest.raises(InvalidInputError):
            create_tenant("x", tenant_id=bad, **given)


def test_an_applications_key_is_listed_apart_and_emits_nothing() -> None:
    world = a_world()
    given: dict[str, Any] = {"entropy": bytes(range(32)), "actor": ACTOR, "now": NOW} | makers(world)
    new = create_application_key("erp", **given)
    assert new.text.startswith("hk_app_")
    assert (new.key.application_id, new.key.tenant_id, new.key.mode) == ("erp", None, None)
    assert Right.EVENTS_WRITE not in new.key.rights
    assert FakeAccess(world).keys_of("app:erp") == [new.key]
    with pytest.raises(InvalidInputError):
        create_application_key("erp", rights=[Right.EVENTS_WRITE], **given)
    with pytest.raises(InvalidInputError):
        create_application_key("a#b", **given)
    revoke_key("app:erp", new.key.id, actor=ACTOR, now=NOW, **ports(world))
    assert not world.keys[new.key.sha256].usable(NOW)
    assert {record.scope for record in world.audit.values()} == {HOUSE}


def test_whoever_may_call_is_counted_by_a_gateway_key_on_its_own_plan() -> None:
    world = World()
    given: dict[str, Any] = {"actor": ACTOR, "now": NOW} | makers(world)
    plans = ("standard", "gold")
    create_tenant("Acme", tenant_id="acme", plan="gold", plans=plans, **given)
    create_tenant("Beta", tenant_id="beta", plans=plans, **given)
    create_application_key("erp", entropy=bytes(32), **given)
    assert world.gateway_keys == {"acme": "gold", "beta": "standard", "app:erp": "standard"}


def test_a_tenant_without_its_gateway_key_has_one_again_with_its_next_key() -> None:
    world = a_world()
    world.tenants["acme"] = a_tenant(plan="gold")
    made(world)
    assert world.gateway_keys == {"acme": "gold"}


def test_what_is_refused_leaves_no_gateway_key_behind() -> None:
    world = a_world()
    given: dict[str, Any] = {"actor": ACTOR, "now": NOW + HOUR} | makers(world)
    for refused in ({"tenant_id": "acme"}, {"tenant_id": "hookkeeper"}, {"plan": "platinum"}):
        with pytest.raises((ConflictError, InvalidInputError)):
            create_tenant("Acme", **(given | refused))
    with pytest.raises(NotFoundError):
        made(world, tenant_id="beta")
    with pytest.raises(InvalidInputError):
        create_application_key("erp", rights=[Right.OPERATE], entropy=bytes(32), **given)
    assert world.gateway_keys == {}


def test_a_gateway_that_fails_leaves_nothing_that_could_call_without_being_counted() -> None:
    world = World()

    def fails(call: str) -> None:
        if call == "GatewayKeys.ensure":
            raise OwnFaultError("throttled")

    world.before_call = fails
    given: dict[str, Any] = {"actor": ACTOR, "now": NOW} | makers(world)
    with pytest.raises(OwnFaultError):
        create_tenant("Acme", tenant_id="acme", **given)
    assert (world.tenants, world.audit) == ({}, {})


def test_an_operators_key_is_found_by_its_hash_operates_and_is_audited_by_the_house() -> None:
    world = a_world()
    new = create_operator_key(entropy=bytes(range(32)), actor=ACTOR, now=NOW, **ports(world))
    assert new.text.startswith("hk_op_")
    assert well_formed(new.text)
    stored = world.keys[key_hash(new.text)]
    assert (stored.kind, stored.rights) == (KeyKind.OPERATOR, frozenset({Right.OPERATE}))
    assert (stored.owner, stored.usable(NOW)) == (OPERATORS, True)
    (record,) = world.audit.values()
    assert (record.action, record.subject, record.scope) == ("key.created", stored.id, HOUSE)
    assert new.text not in repr(world.keys) + repr(world.audit)


CHANGES: dict[str, Any] = {
    "tenant.created": lambda world: create_tenant(
        "Beta", tenant_id="beta", actor=ACTOR, now=NOW, **makers(world)
    ),
    "key.created": made,
    "key.revoked": lambda world: revoke_key(
        "acme", next(iter(world.keys.values())).id, actor=ACTOR, now=NOW, **ports(world)
    ),
}


@pytest.mark.parametrize("action", CHANGES)
@pytest.mark.parametrize("nth", range(6))
def test_t47_a_crash_between_any_two_calls_leaves_no_change_without_its_record(action: str, nth: int) -> None:
    world = a_world()
    if action == "key.revoked":
        made(world)
    before = (dict(world.tenants), dict(world.keys))
    calls = iter(range(100))

    def dies(_: str) -> None:
        if next(calls) == nth:
            raise ConnectionError

    world.after_call = dies
    with suppress(ConnectionError):
        CHANGES[action](world)
    if (world.tenants, world.keys) != before:
        assert action in {record.action for record in world.audit.values()}
    world.after_call = None
    if action == "key.revoked":
        CHANGES[action](world)
        assert not next(iter(world.keys.values())).usable(NOW), "asked again, it is done"

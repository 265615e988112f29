"""Tenants are made once; a key is found by its hash alone, and revoked for good."""

from dataclasses import replace
from datetime import datetime, timedelta

from hookkeeper.domain.access import OPERATORS, KeyKind, Right
from hookkeeper.domain.tenancy import Mode

from tests.builders import HOUR, NOW, a_tenant, an_api_key
from tests.contracts.stores import Stores


def test_a_tenant_is_created_once(stores: Stores) -> None:
    assert stores.access.create_tenant(a_tenant())
    assert not stores.access.create_tenant(a_tenant(name="Impostor"))
    assert stores.access.tenant("acme") == a_tenant()
    assert stores.access.tenant("other") is None


def test_the_same_tenant_again_is_the_one_that_was_created(stores: Stores) -> None:
    assert stores.access.create_tenant(a_tenant())
    assert stores.access.create_tenant(a_tenant())


def test_tenants_are_listed_in_order_of_id(stores: Stores) -> None:
    for name in ("c", "a", "d", "b"):
        stores.access.create_tenant(a_tenant(name))
    assert [tenant.id for tenant in stores.access.tenants(limit=2)] == ["a", "b"]
    assert [tenant.id for tenant in stores.access.tenants(limit=9, after="b")] == ["c", "d"]


def test_a_key_is_found_by_its_hash_whole(stores: Stores) -> None:
    full = an_api_key(
        1, rights=frozenset(Right), mode=Mode.TEST, expires_at=NOW + HOUR, revoked_at=NOW, kind=KeyKind.TEST
    )
    operator = an_api_key(2, kind=KeyKind.OPERATOR, tenant_id=None, mode=None)
    for key in (full, operator):
        stores.access.put_key(key)
    assert stores.access.key_by_hash(full.sha256) == full
    assert stores.access.key_by_hash(operator.sha256) == operator
    assert stores.access.key_by_hash("0" * 64) is None


def test_a_tenant_s_keys_are_its_own_and_operators_have_no_tenant(stores: Stores) -> None:
    keys = [an_api_key(1), an_api_key(2, tenant_id="other"), an_api_key(3, tenant_id=None), an_api_key(4)]
    for key in keys:
        stores.access.put_key(key)
    assert stores.access.keys_of("acme") == [keys[0], keys[3]]
    assert stores.access.keys_of(OPERATORS) == [keys[2]]


def test_a_revoked_key_keeps_its_first_moment(stores: Stores) -> None:
    stores.access.put_key(an_api_key())
    assert stores.access.revoke_key("acme", an_api_key().id, now=NOW)
    assert stores.access.revoke_key("acme", an_api_key().id, now=NOW + HOUR)
    assert stores.access.key_by_hash(an_api_key().sha256) == replace(an_api_key(), revoked_at=NOW)


def test_another_tenant_s_key_is_not_revoked(stores: Stores) -> None:
    stores.access.put_key(an_api_key())
    assert not stores.access.revoke_key("other", an_api_key().id, now=NOW)
    assert not stores.access.revoke_key("acme", "key_unknown", now=NOW)
    assert stores.access.key_by_hash(an_api_key().sha256) == an_api_key()


def test_applications_keys_are_listed_apart(stores: Stores) -> None:
    theirs = an_api_key(7, kind=KeyKind.APP, tenant_id=None, mode=None, application_id="acme")
    stores.access.put_key(theirs)
    assert stores.access.keys_of("app:acme") == [theirs]
    assert stores.access.keys_of("acme") == stores.access.keys_of(OPERATORS) == []
    assert stores.access.revoke_key("app:acme", theirs.id, now=NOW)


def test_a_key_s_use_is_remembered_once_an_hour(stores: Stores) -> None:
    stores.access.put_key(an_api_key())

    def told(after: timedelta) -> datetime | None:
        key = stores.access.key_by_hash(an_api_key().sha256)
        assert key is not None
        stores.access.used(key, now=NOW + after)
        (stored,) = stores.access.keys_of("acme")
        return stored.last_used_at

    assert told(timedelta(0)) == NOW
    assert told(HOUR - timedelta(seconds=1)) == NOW
    assert told(HOUR) == NOW + HOUR

"""Scopes, and the ids that keys are made of."""

import pytest
from hookkeeper.domain.errors import InvalidInputError
from hookkeeper.domain.tenancy import (
    DeliveryKey,
    Mode,
    Scope,
    SubscriptionKey,
    checked_id,
    parse_delivery_id,
)
from hypothesis import given
from hypothesis import strategies as st

from tests.builders import a_scope

ALPHABET = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_-"
ids = st.text(ALPHABET, min_size=1, max_size=64)
REFUSED = ["", "a" * 65, "a.b", "a#b", "a/b", "a b", "a\n", "\na", "é", "ａ", "a\x00"]


@pytest.mark.parametrize("value", ["a", "_", "-", "Z9", "a" * 64])
def test_an_id_is_1_to_64_plain_characters(value: str) -> None:
    assert checked_id(value, field="tenant_id") == value


@pytest.mark.parametrize("value", REFUSED, ids=repr)
def test_any_other_id_is_refused_and_its_field_named(value: str) -> None:
    with pytest.raises(InvalidInputError) as refused:
        checked_id(value, field="resource_id")
    assert (refused.value.code, refused.value.pointer) == ("invalid_id", "/resource_id")


@pytest.mark.parametrize("tenant_id", REFUSED, ids=repr)
def test_no_scope_has_a_tenant_id_that_could_blur_a_key(tenant_id: str) -> None:
    with pytest.raises(InvalidInputError):
        Scope(tenant_id, Mode.LIVE)


def test_a_scope_is_live_or_test() -> None:
    with pytest.raises(ValueError, match="staging"):
        Scope("acme", "staging")  # type: ignore[arg-type]


def test_live_and_test_are_two_scopes() -> None:
    assert a_scope(mode=Mode.LIVE) != a_scope(mode=Mode.TEST)


@given(ids, ids)
def test_a_delivery_id_can_be_taken_apart_into_its_two_ids(suffix: str, event_id: str) -> None:
    key = DeliveryKey(SubscriptionKey(a_scope(), f"sub_{suffix}"), event_id)
    assert parse_delivery_id(a_scope(), key.delivery_id) == key


def test_a_delivery_id_is_made_of_the_two_ids() -> None:
    key = DeliveryKey(SubscriptionKey(a_scope(), "sub_01h"), "evt_7")
    assert key.delivery_id == "dlv_01h.evt_7"


@pytest.mark.parametrize(
    "text",
    [
        "",
        "dlv_",
        "dlv_a",
        "dlv_.b",
        "dlv_a.",
        "dlv_a.b.c",
        "sub_a.b",
        "a.b",
        "dlv_a#.b",
        "dlv_a.b ",
        "DLV_a.b",
    ],
    ids=repr,
)
def test_what_is_no_delivery_id_is_refused(text: str) -> None:
    with pytest.raises(InvalidInputError) as refused:
        parse_delivery_id(a_scope(), text)
    assert refused.value.code == "invalid_id"

"""API keys: what one looks like, what is stored of it, and when it may be used."""

import secrets
from datetime import datetime, timedelta

import pytest
from hookkeeper.domain.access import (
    RANDOM_LENGTH,
    TENANT_RIGHTS,
    KeyKind,
    Right,
    key_hash,
    key_text,
    well_formed,
)
from hypothesis import given
from hypothesis import strategies as st

from tests.builders import HOUR, NOW, an_api_key

TICK = timedelta(microseconds=1)
entropy = st.binary(min_size=RANDOM_LENGTH, max_size=RANDOM_LENGTH)


@given(st.sampled_from(KeyKind), entropy)
def test_a_key_is_its_kind_32_random_characters_and_a_checksum(kind: KeyKind, random: bytes) -> None:
    text = key_text(kind, random)
    assert text.startswith(f"hk_{kind}_")
    assert len(text.removeprefix(f"hk_{kind}_")) == 38
    assert well_formed(text)


def test_the_text_of_a_key_is_for_ever() -> None:
    """Keys in customers' hands stay good only while the checksum is made in this way."""
    assert key_text(KeyKind.LIVE, bytes(range(32))) == "hk_live_0123456789ABCDEFGHIJKLMNOPQRSTUV3p3eGg"


@given(entropy, st.integers(0, 45), st.sampled_from("0aZ-_é"))
def test_a_key_with_one_wrong_character_is_none(random: bytes, place: int, wrong: str) -> None:
    text = key_text(KeyKind.LIVE, random)
    changed = text[:place] + wrong + text[place + 1 :]
    assert well_formed(changed) is (changed == text)


@pytest.mark.parametrize(
    "text",
    ["", "hk_live_", "hk_root_" + "a" * 38, "Bearer " + key_text(KeyKind.LIVE, bytes(32))],
    ids=repr,
)
def test_other_text_is_no_key(text: str) -> None:
    assert not well_formed(text)


@pytest.mark.parametrize("spoiled", ["{}\n", " {}", "{} ", "{}=", "{}ﬁ"])
def test_a_key_in_another_spelling_is_none(spoiled: str) -> None:
    assert not well_formed(spoiled.format(key_text(KeyKind.LIVE, bytes(32))))


def test_too_little_entropy_makes_no_key() -> None:
    with pytest.raises(ValueError, match="32 random bytes"):
        key_text(KeyKind.LIVE, bytes(31))


def test_what_is_stored_is_a_hash_that_does_not_show_the_key() -> None:
    text = key_text(KeyKind.LIVE, secrets.token_bytes(32))
    assert len(key_hash(text)) == 64
    assert text not in key_hash(text)
    assert key_hash(text) != key_hash(text.swapcase())


@pytest.mark.parametrize(
    "expires_at, revoked_at, usable",
    [
        (None, None, True),
        (NOW + TICK, None, True),
        (NOW, None, False),
        (None, NOW - HOUR, False),
        (NOW + HOUR, NOW, False),
    ],
)
def test_a_key_is_usable_until_it_expires_or_is_revoked(
    expires_at: datetime | None, revoked_at: datetime | None, *, usable: bool
) -> None:
    assert an_api_key(expires_at=expires_at, revoked_at=revoked_at).usable(NOW) is usable


def test_no_tenant_may_operate() -> None:
    assert Right.OPERATE not in TENANT_RIGHTS

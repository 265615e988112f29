"""Ids are told apart, sort by time, and may stand in a key."""

import re

import pytest
from hookkeeper.adapters.ids import TypeIds
from hookkeeper.domain.tenancy import checked_id
from hookkeeper.ports import Ids

from tests.fakes import FakeIds, World


@pytest.fixture(params=["fake", "typeid"])
def ids(request: pytest.FixtureRequest, world: World) -> Ids:
    return FakeIds(world) if request.param == "fake" else TypeIds()


def test_an_id_is_its_prefix_and_twenty_six_characters_that_may_stand_in_a_key(ids: Ids) -> None:
    made = ids.new("sub")
    assert re.fullmatch(r"sub_[0-9a-z]{26}", made)
    assert checked_id(made, field="id") == made


def test_no_two_are_alike(ids: Ids) -> None:
    assert len({ids.new("evt") for _ in range(1000)}) == 1000


def test_a_later_id_sorts_behind_an_earlier_one(ids: Ids) -> None:
    made = [ids.new("rec") for _ in range(200)]
    by_time = [made_id[: len("rec_") + 10] for made_id in made]  # the first 48 bits are milliseconds
    assert by_time == sorted(by_time)

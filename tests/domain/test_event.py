"""Event types and patterns: what matches, and what is refused with which code."""

import json
from pathlib import Path
from typing import Any

import pytest
from hookkeeper.domain.errors import InvalidInputError
from hookkeeper.domain.event import (
    MAX_PATTERNS,
    MAX_TYPE_LENGTH,
    candidate_patterns,
    checked_event_id,
    checked_event_type,
    checked_patterns,
    matches,
)
from hypothesis import given
from hypothesis import strategies as st

VECTORS = json.loads((Path(__file__).parents[1] / "vectors" / "patterns.json").read_text())

types = st.from_regex(r"[a-z][a-z0-9_]{0,3}(\.[a-z0-9_]{1,3}){0,5}", fullmatch=True)


@pytest.mark.parametrize("case", VECTORS["matching"], ids=lambda case: f"{case['patterns']} {case['type']}")
def test_every_row_of_the_matching_table(case: dict[str, Any]) -> None:
    assert matches(checked_patterns(case["patterns"]), case["type"]) is case["matches"]


@pytest.mark.parametrize("pattern", VECTORS["accepted"])
def test_every_accepted_pattern(pattern: str) -> None:
    assert checked_patterns([pattern]) == (pattern,)


@pytest.mark.parametrize("pattern", VECTORS["refused"], ids=repr)
def test_every_refused_pattern_is_named_by_its_place(pattern: str) -> None:
    with pytest.raises(InvalidInputError) as refused:
        checked_patterns(["a", pattern])
    assert (refused.value.code, refused.value.pointer) == ("invalid_pattern", "/event_types/1")


@pytest.mark.parametrize("event_type", [p for p in VECTORS["accepted"] if "*" not in p])
def test_a_pattern_without_a_star_is_a_type(event_type: str) -> None:
    assert checked_event_type(event_type) == event_type


@pytest.mark.parametrize("event_type", [*VECTORS["refused"], "*", "a.*"], ids=repr)
def test_no_refused_pattern_and_no_wildcard_is_a_type(event_type: str) -> None:
    with pytest.raises(InvalidInputError, match="event type") as refused:
        checked_event_type(event_type)
    assert refused.value.code == "invalid_event_type"


def test_a_type_has_at_most_128_characters() -> None:
    assert checked_event_type("a" * MAX_TYPE_LENGTH)
    with pytest.raises(InvalidInputError):
        checked_event_type("a" * (MAX_TYPE_LENGTH + 1))
    with pytest.raises(InvalidInputError):
        checked_patterns(["a" * (MAX_TYPE_LENGTH + 1)])


def test_there_are_1_to_64_patterns_each_once() -> None:
    most = [f"t{n}" for n in range(MAX_PATTERNS)]
    assert checked_patterns([*most, *most]) == tuple(most)
    for patterns, code in ([*most, "one_more"], "too_many_patterns"), ([], "no_patterns"):
        with pytest.raises(InvalidInputError) as refused:
            checked_patterns(patterns)
        assert refused.value.code == code


@given(types)
def test_a_type_of_k_segments_has_k_plus_one_candidates_which_all_match(event_type: str) -> None:
    candidates = candidate_patterns(event_type)
    assert len(set(candidates)) == len(event_type.split(".")) + 1
    assert all(matches([pattern], event_type) for pattern in candidates)


@given(types, types)
def test_a_wildcard_matches_exactly_the_types_below_it(prefix: str, event_type: str) -> None:
    assert matches([f"{prefix}.*"], event_type) is event_type.startswith(f"{prefix}.")


@pytest.mark.parametrize("event_id", ["a", "A-b_9", "x" * 64])
def test_an_event_id_may_be_the_producers_own(event_id: str) -> None:
    assert checked_event_id(event_id) == event_id


@pytest.mark.parametrize("event_id", ["", "a.b", "a#b", "x" * 65, "a b", "a\n", "é"], ids=repr)
def test_an_event_id_has_no_dot_no_hash_and_at_most_64_characters(event_id: str) -> None:
    with pytest.raises(InvalidInputError) as refused:
        checked_event_id(event_id)
    assert (refused.value.code, refused.value.pointer) == ("invalid_id", "/id")

"""The catalogue of hazards in tests/README.md names tests that exist, and leaves no row without one."""

import ast
import re
from functools import cache
from pathlib import Path

import pytest

TESTS = Path(__file__).parent
ROW = re.compile(r"^\| ((?:F|T|BB-|S|X)\d+) \| (.+) \| (.+) \|$", re.MULTILINE)
NAMED = re.compile(r"`([\w/]+\.py)(?:::(test_\w+))?`")

ROWS = {
    row: NAMED.findall(tests) for row, _, tests in ROW.findall((TESTS / "README.md").read_text())
}  # fmt: skip

FAULTS = [*range(1, 56), *range(57, 61)]
THREATS = [*range(9, 65)]
BUGS = [2, 3, 4, 7, 9, 10, 12, 13, 16, 17, 18, 20, 24, 26, 29, 30, 31, 32, 36, 37, 38, 41, 42, 43, 48]
STORIES = {f"S{n}" for n in range(1, 17)}
BREAKS = {f"X{n}" for n in range(1, 8)}
EXPECTED = (
    {f"F{n:02}" for n in FAULTS}
    | {f"T{n:02}" for n in THREATS}
    | {f"BB-{n:02}" for n in BUGS}
    | STORIES
    | BREAKS
)


@cache
def named_in(file: str) -> frozenset[str]:
    tree = ast.parse((TESTS / file).read_text())
    return frozenset(node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef))


def test_every_hazard_has_a_row() -> None:
    assert set(ROWS) == EXPECTED


@pytest.mark.parametrize("row", sorted(ROWS))
def test_every_test_of_a_row_exists(row: str) -> None:
    assert ROWS[row], "a row names the tests that hold it"
    missing = [
        f"{file}::{name}"
        for file, name in ROWS[row]
        if not (TESTS / file).exists() or (name and name not in named_in(file))
    ]
    assert missing == []


@pytest.mark.parametrize("row", sorted(STORIES))
def test_every_story_is_told_by_its_number(row: str) -> None:
    assert all(name.startswith(f"test_story_{row.removeprefix('S')}_") for _, name in ROWS[row])

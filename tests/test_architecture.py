"""Imports point one way, requests leave by one module, and one use case changes a subscription's status."""

import ast
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
LIBRARY = ROOT / "layers" / "hookkeeper" / "python" / "hookkeeper"
FOLDERS = {"domain", "usecases", "adapters"}

PURE = set(sys.stdlib_module_names) - {"os", "socket", "time", "random"}
MAY_IMPORT = {
    "domain": {"domain"} | PURE,
    "ports": {"domain"} | PURE,
    "usecases": {"domain", "ports", "usecases", "version"} | PURE,
    "settings": {"domain", "pydantic", "os"} | PURE,
}
"""What each part of the library may import (STYLE.md's table)."""

BORDER = {"domain", "pydantic", "pydantic_core"} | PURE
"""So may the modules beside them, which guard the borders: messages, api, and their like."""

HTTP_CLIENTS = {"httpx", "httpcore", "requests", "urllib3", "aiohttp", "http.client", "urllib.request"}
EGRESS = {"adapters/httpx_sender.py", "adapters/httpx_transport.py"}


def sources(folder: Path) -> list[Path]:
    return sorted(path for path in folder.rglob("*.py") if "vendor" not in path.parts)


def named(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


@cache
def tree(path: Path) -> ast.Module:
    return ast.parse(path.read_text())


def imports(path: Path) -> Iterator[str]:
    """Every module that is imported, in full: `from a import b` gives `a` and `a.b`."""
    for node in ast.walk(tree(path)):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{named(path)} imports relatively"
            yield from (node.module or "", *(f"{node.module}.{alias.name}" for alias in node.names))


def part_of(path: Path) -> str:
    """Which part of the library a module is: its folder, or its own name at the top."""
    first = path.relative_to(LIBRARY).parts[0]
    return first if first in FOLDERS else first.removesuffix(".py")


def imported_part(module: str) -> str:
    """A module as MAY_IMPORT names it: a part of ours, or a distribution's top name."""
    if module in ("hookkeeper", "hookkeeper.__version__"):
        return "version"
    top, *rest = module.split(".")
    return rest[0] if top == "hookkeeper" else top


@pytest.mark.parametrize("path", sources(LIBRARY), ids=named)
def test_imports_point_one_way(path: Path) -> None:
    part = part_of(path)
    found = {imported_part(module) for module in imports(path)}
    if part == "adapters":
        assert found.isdisjoint({"usecases", "api", "settings", "functions", "infra"})
    else:
        assert found <= MAY_IMPORT.get(part, BORDER)


@pytest.mark.parametrize("path", [*sources(LIBRARY), *sources(ROOT / "infra")], ids=named)
def test_nothing_imports_functions(path: Path) -> None:
    assert not [module for module in imports(path) if module.split(".")[0] == "functions"]


@pytest.mark.parametrize("path", sources(ROOT / "functions"), ids=named)
def test_functions_never_import_each_other_nor_the_tools_around_them(path: Path) -> None:
    folders = {folder.name for folder in (ROOT / "functions").iterdir()} | {"functions", "infra", "tests"}
    own = {path.stem for path in path.parent.glob("*.py")}
    assert not {module.split(".")[0] for module in imports(path)} & (folders - own)


@pytest.mark.parametrize("path", [*sources(LIBRARY), *sources(ROOT / "functions")], ids=named)
def test_requests_leave_by_one_module(path: Path) -> None:
    if path in {LIBRARY / name for name in EGRESS}:
        return
    assert not [m for m in imports(path) if m in HTTP_CLIENTS or m.split(".")[0] in HTTP_CLIENTS]


def test_there_is_a_module_for_requests_to_leave_by() -> None:
    assert any((LIBRARY / name).exists() for name in EGRESS)


def status_of_a_subscription_written(path: Path) -> list[int]:
    """Lines that set `status` to a Status or to the state machine's answer, in a replace() or a call."""
    return [
        keyword.value.lineno
        for node in ast.walk(tree(path))
        if isinstance(node, ast.Call)
        for keyword in node.keywords
        if keyword.arg == "status" and ast.unparse(keyword.value).startswith(("Status.", "next_status("))
    ]


@pytest.mark.parametrize("path", [*sources(LIBRARY), *sources(ROOT / "functions")], ids=named)
def test_one_module_changes_the_status_of_a_subscription(path: Path) -> None:
    """`subscribe` gives a new subscription its first; whatever changes it is in `transition`."""
    found = status_of_a_subscription_written(path)
    if path == LIBRARY / "usecases" / "transition.py":
        assert found
        source = path.read_text()
        assert all(source.splitlines()[n - 1].lstrip().startswith("status=next_status(") for n in found)
    elif path == LIBRARY / "usecases" / "subscribe.py":
        assert len(found) == 1
        assert "status=Status.PENDING" in path.read_text()
    else:
        assert found == []


@pytest.mark.parametrize("path", sources(LIBRARY / "usecases"), ids=named)
def test_no_other_use_case_makes_a_transition(path: Path) -> None:
    calls = [
        node.func.attr
        for node in ast.walk(tree(path))
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute)
    ]
    assert ("transition" in calls) is (path.name == "transition.py")


@pytest.mark.parametrize("path", [*sources(LIBRARY), *sources(ROOT / "functions")], ids=named)
def test_every_module_says_what_it_is_for(path: Path) -> None:
    assert path.name == "__init__.py" or ast.get_docstring(tree(path))

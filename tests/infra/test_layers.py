"""What is put into Lambda: our code with bytecode that no clock can make stale."""

from importlib.util import cache_from_source
from pathlib import Path

import pytest

from infra.bundle import bundle
from infra.layers import MissingSourceError, bundled

UNCHECKED_HASH = (1).to_bytes(4, "little")
"""The flags of PEP 552: hash-based, and not checked against the source."""


@pytest.fixture
def source(tmp_path: Path) -> Path:
    source = tmp_path / "source"
    stale = source / "python" / "__pycache__" / "module.cpython-39.pyc"
    stale.parent.mkdir(parents=True)
    stale.write_bytes(b"stale")
    (source / "python" / "module.py").write_text("ANSWER = 42\n")
    return source


def test_bytecode_is_taken_without_a_look_at_the_source(source: Path, tmp_path: Path) -> None:
    bundle(source, tmp_path / "output")
    compiled = Path(cache_from_source(str(tmp_path / "output" / "python" / "module.py")))
    assert compiled.read_bytes()[4:8] == UNCHECKED_HASH


def test_bytecode_of_this_machine_is_left_behind(source: Path, tmp_path: Path) -> None:
    bundle(source, tmp_path / "output")
    assert not list((tmp_path / "output").rglob("*.cpython-39.pyc"))


def test_bytecode_names_no_path_of_this_machine(source: Path, tmp_path: Path) -> None:
    bundle(source, tmp_path / "output")
    compiled = Path(cache_from_source(str(tmp_path / "output" / "python" / "module.py")))
    assert str(tmp_path).encode() not in compiled.read_bytes()


def test_a_function_without_its_directory_is_named() -> None:
    with pytest.raises(MissingSourceError, match="functions/nobody"):
        bundled("functions/nobody")

"""A process is found again by its file, and a file left by a crash stops nobody."""

import json
import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from infra.local import process

SLEEPER = [sys.executable, "-c", "import time; print('ready', flush=True); time.sleep(60)"]
DEAF = "import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN);"
STUBBORN = [sys.executable, "-c", DEAF + SLEEPER[2]]


@pytest.fixture
def file(tmp_path: Path) -> Iterator[Path]:
    file = tmp_path / "server.json"
    yield file
    process.stop(file, patience_seconds=0)


def started(command: list[str], file: Path) -> process.Process:
    log = file.with_suffix(".log")
    one = process.start(command, file=file, log=log, environment=os.environ)
    while "ready" not in log.read_text():
        assert one.alive
    return one


def test_a_started_process_is_found_by_its_file_and_gone_when_stopped(file: Path) -> None:
    one = started(SLEEPER, file)
    assert process.remembered(file) == one
    assert process.stop(file)
    assert not one.alive
    assert not file.exists()


def test_stopping_twice_says_that_nothing_ran(file: Path) -> None:
    started(SLEEPER, file)
    assert process.stop(file)
    assert not process.stop(file)


def test_a_process_that_ignores_the_request_is_killed(file: Path) -> None:
    one = started(STUBBORN, file)
    assert process.stop(file, patience_seconds=0.2)
    assert not one.alive


def test_the_file_of_a_crashed_run_names_nobody(file: Path) -> None:
    one = started(SLEEPER, file)
    remembered = file.read_text()
    process.stop(file)
    file.write_text(remembered)
    assert process.remembered(file) is None
    assert not one.alive


def test_another_process_that_got_the_number_is_left_alone(file: Path) -> None:
    file.write_text(json.dumps({"pid": os.getpid(), "born": "before all this"}))
    assert process.remembered(file) is None
    assert not process.stop(file)


@pytest.mark.parametrize("text", ["", "{", "[]", "null", '{"pid": 1}', '{"pid": 1, "born": "x", "more": 1}'])
def test_a_file_cut_short_names_nobody(file: Path, text: str) -> None:
    file.write_text(text)
    assert process.remembered(file) is None


def test_a_zombie_is_not_alive() -> None:
    pid = os.fork()
    if pid == 0:
        os._exit(0)
    os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT)
    assert process.birth_of(pid) is None
    os.waitpid(pid, 0)

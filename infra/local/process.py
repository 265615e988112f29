"""A background process that is found again by a file, and never mistaken for another that got its number."""

import contextlib
import json
import os
import signal
import subprocess
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

_BOOT = Path("/proc/sys/kernel/random/boot_id")
"""Linux only; elsewhere `ps` tells."""


@dataclass(frozen=True, slots=True)
class Process:
    """A process we started. `born` tells it from a later one of the same number."""

    pid: int
    born: str

    @property
    def alive(self) -> bool:
        return birth_of(self.pid) == self.born


def birth_of(pid: int) -> str | None:
    """When the process was started, as the system puts it; None where it is gone."""
    if not _BOOT.exists():
        command = ["ps", "-o", "lstart=", "-p", str(pid)]
        shown = subprocess.run(command, capture_output=True, text=True, check=False)
        return shown.stdout.strip() or None
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return None
    # The second field may hold blanks, but ends with the last bracket. Field 22 is the start time.
    state, *fields = stat.rpartition(")")[2].split()
    return None if state in "ZX" else f"{fields[18]} ticks after boot {_BOOT.read_text().strip()}"


def remembered(file: Path) -> Process | None:
    """The process the file names, if it still runs. A file left by a crash is as good as none."""
    try:
        process = Process(**json.loads(file.read_text()))
    except (FileNotFoundError, ValueError, TypeError):
        return None
    return process if process.alive else None


def start(command: Sequence[str], *, file: Path, log: Path, environment: Mapping[str, str]) -> Process:
    """Start the command in a session of its own and remember it in the file."""
    with log.open("wb") as output:
        started = subprocess.Popen(
            command,
            env=dict(environment),
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    process = Process(started.pid, birth_of(started.pid) or "")
    file.write_text(json.dumps(asdict(process)))
    return process


def stop(file: Path, *, patience_seconds: float = 10) -> bool:
    """End the remembered process: asked first, then killed. False where none ran."""
    process = remembered(file)
    if process is not None:
        _end(process, patience_seconds)
    file.unlink(missing_ok=True)
    return process is not None


def _end(process: Process, patience_seconds: float) -> None:
    for number in (signal.SIGTERM, signal.SIGKILL):
        with contextlib.suppress(ProcessLookupError):
            os.kill(process.pid, number)
        if _gone(process, time.monotonic() + patience_seconds):
            return


def _gone(process: Process, deadline: float) -> bool:
    while process.alive:
        if time.monotonic() > deadline:
            return False
        with contextlib.suppress(ChildProcessError):
            os.waitpid(process.pid, os.WNOHANG)
        time.sleep(0.05)
    return True

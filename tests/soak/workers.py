"""The processes that run functions for one embedded AWS: found by its folder, weighed, killed by number."""

import contextlib
import os
import signal
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

PAGE_MIB = os.sysconf("SC_PAGE_SIZE") / 2**20


@dataclass(frozen=True, slots=True)
class Worker:
    """One process that runs one invocation of its function at a time. `born` orders them by age."""

    pid: int
    function: str
    born: int
    mib: float


def workers(scratch: Path, functions: Mapping[str, str]) -> list[Worker]:
    """Those of this embedded AWS and no other, oldest first; Linux alone tells of them so."""
    return sorted(_workers(scratch, functions), key=lambda worker: (worker.born, worker.pid))


def _workers(scratch: Path, functions: Mapping[str, str]) -> Iterator[Worker]:
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            with contextlib.suppress(OSError):
                command = (entry / "cmdline").read_text()
                for name, deployed in functions.items():
                    if f"{scratch.absolute()}/ministack-lambda-{deployed}" in command:
                        yield Worker(int(entry.name), name, _born(entry), _mib(entry))


def _born(entry: Path) -> int:
    """In ticks after boot: field 22, counted after the bracket that ends the second."""
    return int((entry / "stat").read_text().rpartition(")")[2].split()[19])


def _mib(entry: Path) -> float:
    return int((entry / "statm").read_text().split()[1]) * PAGE_MIB


def kill(worker: Worker) -> bool:
    """As a time-out or a lack of memory would. False where it had gone already."""
    try:
        if _born(Path(f"/proc/{worker.pid}")) != worker.born:
            return False
        os.kill(worker.pid, signal.SIGKILL)
    except OSError:
        return False
    return True

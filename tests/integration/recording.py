"""A terminal recording: commands after `$ `, what each said below it, run again and held to the letter.

Only what must differ from day to day is left open: ids, secrets, moments, spans, and the blanks between.
"""

import re
import socket
import subprocess
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Self

END = "\N{END OF TRANSMISSION}"
PATIENCE_SECONDS = 30

_IDS = re.compile(r"\b(?:sub|rec|key|evt|aud)_[0-9a-z]{26}\b|\bwhsec_[A-Za-z0-9+/=]+")
_PASSING = (
    (re.compile(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\dZ"), "<moment>"),
    (re.compile(r"\b\d\d:\d\d:\d\d\.\d{3}\b"), "<clock>"),
    (re.compile(r"\bin \d+(\.\d+)? (ms|s|min|h|d)\b|\b\d+(\.\d+)? (s|min|h|d) ago\b|\bnow\b"), "<span>"),
    (re.compile(r"\b(took +|latency_ms )\d+( s)?"), r"\1<span>"),
    (re.compile(r"\b\d+ (in a row|failed since|retryable|attempted or held)"), r"<some> \1"),
    (re.compile(r"\b\d+ ms\b|\b\d+/s\b"), "<speed>"),
    (re.compile(r"auto_suspend:retryable:\d+"), "auto_suspend:retryable:<some>"),
    (re.compile(r"─+"), "─"),
    (re.compile(r"[ \t]+"), " "),
)


@dataclass(frozen=True, slots=True)
class Step:
    """One command and what it said, stdout and stderr as they came."""

    command: str
    said: str


def steps_of(block: str) -> list[Step]:
    """The steps of a recording as it is printed."""
    first, *rest = re.split(r"^\$ ", block, flags=re.MULTILINE)
    assert first == "", "a recording begins with a command"
    return [Step(*part.partition("\n")[::2]) for part in rest]


def printed(steps: list[Step]) -> str:
    return "".join(f"$ {step.command}\n{step.said}" for step in steps)


class Shell:
    """One bash, so that what a step exports or starts is there for the next."""

    def __init__(self, environment: Mapping[str, str], folder: Path) -> None:
        self._bash = subprocess.Popen(
            ["bash"],
            env=dict(environment),
            cwd=folder,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        """Ends bash, and the jobs that it still has."""
        self._bash.communicate("kill $(jobs -p) 2>/dev/null; exit\n", timeout=PATIENCE_SECONDS)

    def run(self, command: str) -> str:
        assert self._bash.stdin is not None
        self._bash.stdin.write(f"{command}\necho {END}\n")
        self._bash.stdin.flush()
        return "".join(self._until_end())

    def _until_end(self) -> Iterator[str]:
        assert self._bash.stdout is not None
        for line in self._bash.stdout:
            if line == f"{END}\n":
                return
            yield line


def plain(text: str) -> str:
    """The text without what passes: moments, spans, the widths of columns."""
    for pattern, word in _PASSING:
        text = pattern.sub(word, text)
    return "\n".join(line.strip() for line in text.strip().splitlines())


def ids_of(text: str) -> list[str]:
    return _IDS.findall(text)


def replaced(text: str, names: Mapping[str, str]) -> str:
    """The text with every name as the other."""
    for here, there in names.items():
        text = text.replace(here, there)
    return text


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])

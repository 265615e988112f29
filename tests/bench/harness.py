"""What every bench shares: rounds that take turns, medians, and one JSON line for each number with a goal."""

import json
import statistics
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """One number against its goal; `at_most` False where more is better. `numbers` are told beside it."""

    bench: str
    what: str
    ratio: float
    goal: float
    at_most: bool = True
    numbers: Mapping[str, Any] = field(default_factory=dict)

    @property
    def ok(self) -> bool:
        return self.ratio <= self.goal if self.at_most else self.ratio >= self.goal

    def line(self) -> str:
        """`{"bench", "what", "ratio", "goal", "ok", …}`; `goal` with its direction."""
        told = {
            "bench": self.bench,
            "what": self.what,
            "ratio": round(self.ratio, 4),
            "goal": self.goal,
            "at_most": self.at_most,
            "ok": self.ok,
        }
        return json.dumps(told | dict(self.numbers))


def report(results: Iterable[Result]) -> None:
    """Print each as it comes; exits with 1 where one missed its goal."""
    missed = False
    for result in results:
        print(result.line(), flush=True)
        missed |= not result.ok
    raise SystemExit(int(missed))


def medians(variants: Mapping[str, Callable[[], float]], *, rounds: int) -> dict[str, float]:
    """Each variant's median over rounds in which all take a turn; a first turn of each is thrown away."""
    measured: dict[str, list[float]] = {name: [] for name in variants}
    for turn in range(rounds + 1):
        for name, measure in variants.items():
            seconds = measure()
            if turn:
                measured[name].append(seconds)
    return {name: statistics.median(values) for name, values in measured.items()}


def cpu_seconds(run: Callable[[], object]) -> float:
    """What this process spends on it, all threads together; servers are processes of their own."""
    began = time.process_time()
    run()
    return time.process_time() - began


def wall_seconds(run: Callable[[], object]) -> float:
    began = time.perf_counter()
    run()
    return time.perf_counter() - began


def micros(seconds: float) -> int:
    return round(seconds * 1_000_000)

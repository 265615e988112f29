"""`make soak`: a load run on an embedded AWS of its own, in which endpoints fail and functions are killed.

Emits for SOAK_SECONDS (240), then mends everything and waits until all is quiet; ends within ten minutes, and
takes its stack down whatever happens. The last line is one JSON object; exit status 0 where nothing was lost,
every repetition is explained, no function's memory grew, and every queue is empty.
"""

import json
import os
import random
import signal
import sys
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from itertools import cycle
from typing import Any

from rich.console import Console
from rich.table import Table

from infra.local import lifecycle
from infra.local.authority import server_context
from infra.local.home import CHECKOUT, Home
from infra.local.receiver import Receiver
from infra.local.stack import Stack
from tests.soak.fleet import Fleet
from tests.soak.tally import Account, grown
from tests.soak.workers import Worker, kill, workers

SECONDS = float(os.environ.get("SOAK_SECONDS", "240"))
RATE = float(os.environ.get("SOAK_RATE", "3"))
SEED = int(os.environ.get("SOAK_SEED", str(int(time.time()))))
TENANTS, SUBSCRIPTIONS = 3, 20
LONGEST_SECONDS = 600
TO_SUM_UP_SECONDS = 30
ACTIVE_WITHIN_SECONDS = 180
PATIENT_SECONDS = 100
"""Then people see to what still waits: before that, it is to move by itself."""
TO_REST_SECONDS = 240
"""A killed function's messages come back after 150 s, and two rounds of the sweep may follow."""

TICK_SECONDS = 0.25
SAMPLE_EVERY, KILL_EVERY, TEND_EVERY, LOOK_EVERY, SAY_EVERY = 5.0, 7.0, 0.75, 3.0, 20.0
MOVED_ON = 15
"""Requests between two kills, or a slow machine's functions would never end a batch."""

VICTIMS = ("Deliver", "FanOut", "Deliver", "Recover", "Deliver", "Sweep", "Notify", "Contact")
BACKLOG = 300
"""Nothing is emitted while so many messages wait: a slow machine runs a lighter soak, not a longer one."""

GROWTH = 1.25
"""A worker's warm-up ends within its first minute; a leak goes on."""

console = Console(stderr=True, highlight=False, width=110)


@dataclass(slots=True)
class Regularly:
    """Something that is done every so often, for the first time after so long."""

    every: float
    act: Callable[[], object]
    due: float = field(init=False)

    def __post_init__(self) -> None:
        self.due = time.monotonic() + self.every

    def act_if_due(self, now: float) -> None:
        if now >= self.due:
            self.due = now + self.every
            self.act()


@dataclass
class Soak:
    """One run: the fleet, and what was done to the functions under it."""

    home: Home
    stack: Stack
    fleet: Fleet
    lot: random.Random
    began: float
    victims: Iterator[str] = field(default_factory=lambda: cycle(VICTIMS))
    kills: list[tuple[float, str]] = field(default_factory=list)
    sizes: dict[str, list[tuple[float, float]]] = field(default_factory=lambda: defaultdict(list))
    kills_next_at: int = 0
    due: float = 0
    flooded: bool = False
    emitting_since: float = 0
    emitted_for: float = 0

    def say(self, text: str) -> None:
        console.print(f"[dim]{time.monotonic() - self.began:6.1f} s[/]  {text}")

    @property
    def deadline(self) -> float:
        return self.began + LONGEST_SECONDS - TO_SUM_UP_SECONDS

    # ── the load ─────────────────────────────────────────────────────────────────────────────────

    def load(self, seconds: float) -> None:
        self.emitting_since = last = time.monotonic()
        narrowed, revoked = self.lot.sample(self.fleet.customers, 2)
        acts = [
            Regularly(LOOK_EVERY, self.look),
            Regularly(SAMPLE_EVERY, self.weigh),
            Regularly(KILL_EVERY, self.kill_one),
            Regularly(TEND_EVERY, self.fleet.tend_next),
            Regularly(SAY_EVERY, lambda: self.say(self.situation())),
            Regularly(seconds / 2, lambda: self.fleet.narrow(narrowed)),
            Regularly(seconds * 3 / 4, lambda: self.fleet.revoke(revoked)),
        ]
        while (now := time.monotonic()) < self.emitting_since + seconds:
            self.emit(now - last)
            last = now
            self.fleet.trouble(now)
            for each in acts:
                each.act_if_due(now)
            time.sleep(max(0.0, now + TICK_SECONDS - time.monotonic()))
        self.emitted_for = time.monotonic() - self.emitting_since

    def emit(self, seconds: float) -> None:
        """What is due of so many seconds."""
        self.due = 0 if self.flooded else self.due + RATE * seconds
        self.fleet.emit(int(self.due))
        self.due -= int(self.due)

    def look(self) -> None:
        self.flooded = sum(self.fleet.waiting().values()) > BACKLOG

    def weigh(self) -> None:
        """The eldest worker of each function: it is never killed while it has others."""
        at = time.monotonic() - self.emitting_since
        eldest: dict[str, Worker] = {}
        for worker in self.workers():
            eldest.setdefault(worker.function, worker)
        for name, worker in eldest.items():
            self.sizes[name].append((at, worker.mib))

    def kill_one(self) -> None:
        """The youngest worker of the function whose turn it is, once requests have come in since the last."""
        received = len(self.fleet.receiver.received)
        if received < self.kills_next_at:
            return
        self.kills_next_at = received + MOVED_ON
        wanted = next(self.victims)
        found = [worker for worker in self.workers() if worker.function == wanted]
        if found and kill(found[-1]):
            self.kills.append((time.time(), wanted))

    def workers(self) -> list[Worker]:
        return workers(self.home.scratch, self.stack.functions)

    def situation(self) -> str:
        moods = Counter(customer.mood for customer in self.fleet.customers if customer.mood)
        return (
            f"{len(self.fleet.emitted)} events emitted, {len(self.fleet.receiver.received)} received, "
            f"{len(self.kills)} kills; {dict(moods)}; waiting: {self.fleet.waiting()}"
        )

    # ── the end ──────────────────────────────────────────────────────────────────────────────────

    def come_to_rest(self) -> list[str]:
        """Everything is well; what still moves at the deadline is answered."""
        self.fleet.all_well()
        patient_until, told = time.monotonic() + PATIENT_SECONDS, 0.0
        while True:
            waiting = self.fleet.waiting()
            unrest = [f"{count} in {name}" for name, count in waiting.items()]
            unrest += self.fleet.unrest(helped=not waiting and time.monotonic() > patient_until)
            if not unrest or time.monotonic() > self.deadline:
                return unrest
            if time.monotonic() > told + 20:
                told = time.monotonic()
                self.say("not yet at rest: " + "; ".join(unrest[:6]))
            time.sleep(LOOK_EVERY)

    def timed_out(self) -> list[float]:
        """When the embedded AWS itself killed a `deliver` that outlived its time-out."""
        name = self.stack.functions["Deliver"]
        lines = self.home.server_log.read_text(errors="replace").splitlines()
        stamps = [line[:19] for line in lines if name in line and "timed out after" in line]
        return [datetime.fromisoformat(stamp).replace(tzinfo=UTC).timestamp() for stamp in stamps]


def main() -> int:
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    if not 10 <= SECONDS <= LONGEST_SECONDS - TO_REST_SECONDS:
        sys.stderr.write(f"SOAK_SECONDS must be from 10 to {LONGEST_SECONDS - TO_REST_SECONDS}\n")
        return 2
    began, home = time.monotonic(), Home(CHECKOUT / ".local" / "soak")
    _take_down(home)
    try:
        stack = lifecycle.up(home, lambda step: console.print(f"{time.monotonic() - began:6.1f} s  {step}"))
        with Receiver(server_context(stack.ca_certificate, stack.ca_key)) as receiver:
            lot = random.Random(SEED)
            return _soak(Soak(home, stack, Fleet(stack, receiver, lot), lot, began))
    finally:
        _take_down(home)


def _take_down(home: Home) -> None:
    """The server, and every worker that did not end with it."""
    lifecycle.down(home)
    for worker in workers(home.scratch, {"any": ""}):
        kill(worker)


def _soak(soak: Soak) -> int:
    soak.say(f"{SUBSCRIPTIONS} subscriptions of {TENANTS} tenants; seed {SEED}")
    soak.fleet.sign_up(TENANTS, SUBSCRIPTIONS)
    latest = time.monotonic() + ACTIVE_WITHIN_SECONDS
    while not soak.fleet.all_active():
        if time.monotonic() > latest:
            raise TimeoutError("the subscriptions did not become active")
        time.sleep(1)
    left = max(10.0, min(SECONDS, soak.deadline - time.monotonic() - TO_REST_SECONDS))
    soak.say(f"all are active; {left:.0f} s of load at {RATE:g} events a second")
    soak.load(left)
    soak.say("the load ends; everything is mended")
    unrest = soak.come_to_rest()
    kills = [at for at, function in soak.kills if function == "Deliver"] + soak.timed_out()
    return _sum_up(soak, soak.fleet.accounts(kills), unrest)


def _sum_up(soak: Soak, accounts: Sequence[Account], unrest: Sequence[str]) -> int:
    sizes = {name: grown(samples, seconds=soak.emitted_for) for name, samples in sorted(soak.sizes.items())}
    fat = [name for name, (first, last) in sizes.items() if first and last > first * GROWTH]
    _print_accounts(accounts)
    _print_sizes(sizes)
    result = _result(soak, accounts, sizes, unrest)
    for each in accounts:
        if not each.good:
            console.print(f"[red]{each.name}[/]: lost {each.lost[:9]}, unexplained {each.unexplained[:9]}")
    for line in [*unrest, *(f"{name} has grown" for name in fat)]:
        console.print(f"[red]{line}[/]")
    held = all(each.good for each in accounts) and not unrest and not fat
    console.print("[bold green]Nothing was lost.[/]" if held else "[bold red]It did not hold.[/]")
    print(json.dumps({"soak": "held" if held else "broke", **result}), flush=True)
    return 0 if held else 1


def _result(
    soak: Soak,
    accounts: Sequence[Account],
    sizes: Mapping[str, tuple[float, float]],
    unrest: Sequence[str],
) -> dict[str, Any]:
    fleet = soak.fleet
    return {
        "seed": SEED,
        "emitted": len(fleet.emitted),
        "owed": sum(each.emitted for each in accounts),
        "delivered": sum(each.delivered for each in accounts),
        "discarded": sum(each.discarded for each in accounts),
        "expired": sum(each.expired for each in accounts),
        "lost": sum(len(each.lost) for each in accounts),
        "again_by_kill": sum(each.again_by_kill for each in accounts),
        "again_unanswered": sum(each.again_unanswered for each in accounts),
        "again_in_flight": sum(each.again_in_flight for each in accounts),
        "unexplained": sum(len(each.unexplained) for each in accounts),
        "requests": len(fleet.receiver.received),
        "troubles": fleet.troubles,
        "suspensions_seen": sum(customer.suspensions for customer in fleet.customers),
        "kills": len(soak.kills),
        "unrest": list(unrest),
        "mib": {name: [round(first), round(last)] for name, (first, last) in sizes.items()},
        "load_seconds": round(soak.emitted_for),
        "seconds": round(time.monotonic() - soak.began),
    }


def _print_accounts(accounts: Sequence[Account]) -> None:
    table = Table(title="emitted = delivered + discarded + expired; what arrived again, and why")
    table.add_column("subscription", no_wrap=True)
    for name in (
        "emitted",
        "delivered",
        "discarded",
        "expired",
        "lost",
        "kill",
        "unanswered",
        "in flight",
        "?",
    ):
        table.add_column(name, justify="right")
    for each in accounts:
        counts = (
            each.emitted,
            each.delivered,
            each.discarded,
            each.expired,
            len(each.lost),
            each.again_by_kill,
            each.again_unanswered,
            each.again_in_flight,
            len(each.unexplained),
        )
        table.add_row(each.name, *map(str, counts))
    console.print(table)


def _print_sizes(sizes: Mapping[str, tuple[float, float]]) -> None:
    table = Table(title="memory of the eldest worker, MiB")
    for name in ("function", "first third", "last third"):
        table.add_column(name, justify="left" if name == "function" else "right")
    for name, (first, last) in sizes.items():
        table.add_row(name, f"{first:.0f}", f"{last:.0f}")
    console.print(table)


if __name__ == "__main__":
    sys.exit(main())

"""B9: does one endpoint that hangs slow its neighbours? Twenty healthy ones, with it and without it.

The use case `deliver` with its real sender over TLS, behind an event source like AWS's; the tables are in
memory. Measured are the neighbours' times from emit to received, with the hanging endpoint over without it,
and how many of their events arrived while the run lasted.

    python -m tests.bench.fairness                small: 400 events that hang 2 s, half a minute
    python -m tests.bench.fairness --full         2,000 events that hang 10 s, two minutes
    python -m tests.bench.fairness --answers      it answers 200 after that time, so no circuit opens
"""

import argparse
import multiprocessing
import statistics
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from multiprocessing.connection import Connection
from pathlib import Path

from hookkeeper.adapters.httpx_sender import HttpxSender
from hookkeeper.domain.config import Margins, RuntimeConfig
from hookkeeper.domain.delivery import Parcel
from hookkeeper.domain.tenancy import DeliveryKey, SubscriptionKey
from hookkeeper.usecases.deliver import Fate, deliver

from infra.local.authority import ensure_authority, server_context
from infra.local.receiver import Behaviour, Receiver
from tests.bench.event_source import EventSource
from tests.bench.harness import Result, report
from tests.builders import a_health, a_key, a_parcel, a_subscription
from tests.core import Core

GOODPUT = 0.95
P99 = 2.0

FUNCTION_SECONDS = 120
WRITE_SECONDS = 8
VISIBILITY_SECONDS = 720.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """The hanging endpoint's events come all at once, the neighbours' one a second each."""

    hanging_events: int
    hang_seconds: int
    seconds: int
    most_slots: int
    neighbours: int = 20


SMALL = Plan(hanging_events=400, hang_seconds=2, seconds=12, most_slots=20)
FULL = Plan(hanging_events=2000, hang_seconds=10, seconds=50, most_slots=50)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--full", action="store_true")
    parser.add_argument("--answers", action="store_true")
    asked = parser.parse_args()
    plan = FULL if asked.full else SMALL
    report(results(plan, answers=asked.answers))


def results(plan: Plan, *, answers: bool) -> Iterator[Result]:
    without = measure(replace(plan, hanging_events=0), answers=answers)
    beside = measure(plan, answers=answers)
    told = {
        f"p{percent}_ms_{name}": round(1000 * percentile(seconds, percent))
        for name, seconds in (("without", without), ("with", beside))
        for percent in (50, 95, 99)
    }
    yield Result(
        bench="B9",
        what="goodput of healthy endpoints beside one that hangs",
        ratio=len(beside) / len(without),
        goal=GOODPUT,
        at_most=False,
        numbers={"events": len(beside), "hanging_events": plan.hanging_events, "answers": answers},
    )
    yield Result(
        bench="B9",
        what="their p99 beside one that hangs, over without it",
        ratio=percentile(beside, 99) / percentile(without, 99),
        goal=P99,
        numbers=told | {"hang_seconds": plan.hang_seconds},
    )


def percentile(values: Sequence[float], percent: int) -> float:
    return statistics.quantiles(values, n=100, method="inclusive")[percent - 1]


def measure(plan: Plan, *, answers: bool) -> Sequence[float]:
    """Seconds from emit to received of every neighbour's event that arrived."""
    with tempfile.TemporaryDirectory() as folder:
        certificate, key = Path(folder) / "ca.pem", Path(folder) / "ca.key"
        ensure_authority(certificate, key)
        # Past its time-out it says nothing, so long as the run lasts.
        delay = plan.hang_seconds if answers else plan.seconds + plan.hang_seconds
        with receiver(certificate, key, delay) as (base_url, told):
            emitted = run(plan, base_url, certificate, answers=answers)
            told.send("end")
            received: dict[str, float] = told.recv()
    return [received[event_id] - at for event_id, at in emitted.items() if event_id in received]


def run(plan: Plan, base_url: str, certificate: Path, *, answers: bool) -> dict[str, float]:
    """Emit and deliver for as long as the plan says; answers when each neighbour's event was emitted."""
    core, own = Core(), threading.local()
    timeout = plan.hang_seconds + (5 if answers else 0)
    hanging, *neighbours = [
        subscribed(core, n, f"{base_url}/{'hang' if n == 0 else n}", timeout)
        for n in range(plan.neighbours + 1)
    ]

    def invoke(batch: Sequence[Parcel]) -> Sequence[tuple[Parcel, float]]:
        if not hasattr(own, "sender"):
            own.sender = HttpxSender(
                allowed_private_cidrs=("127.0.0.0/8", "::1/128"),
                allowed_hosts=("localhost",),
                extra_ca_file=str(certificate),
            )
        delivered = deliver(
            batch,
            now=datetime.now(UTC),
            config=RuntimeConfig(),
            margins=Margins(),
            ports=replace(core.deliver_ports, sender=own.sender, lanes=source),
            seconds_left=lambda: FUNCTION_SECONDS - WRITE_SECONDS,
        )
        waits = {Fate.AGAIN_NOW: 0.0, Fate.AGAIN_LATER: VISIBILITY_SECONDS}
        return [(r.parcel, waits[r.fate]) for r in delivered.reports if r.fate in waits]

    emitted: dict[str, float] = {}
    with EventSource(invoke, most_slots=plan.most_slots) as source:
        source.send([parcel(hanging, f"hang-{n}") for n in range(plan.hanging_events)])
        for second in range(plan.seconds):
            for n, key in enumerate(neighbours):
                emitted[f"well-{second}-{n}"] = time.time()
                source.send([parcel(key, f"well-{second}-{n}")])
                time.sleep(1 / plan.neighbours)
        time.sleep(plan.hang_seconds + 2)
    return emitted


def subscribed(core: Core, number: int, url: str, timeout_seconds: int) -> SubscriptionKey:
    key = a_key(number)
    subscription = a_subscription(key=key, endpoint_url=url, timeout_seconds=timeout_seconds)
    return core.subscribe(subscription, a_health(last_success_at=datetime.now(UTC) - timedelta(seconds=1)))


def parcel(key: SubscriptionKey, event_id: str) -> Parcel:
    return a_parcel(key=DeliveryKey(key, event_id), archived_at=datetime.now(UTC))


@contextmanager
def receiver(certificate: Path, key: Path, hang_seconds: float) -> Iterator[tuple[str, Connection]]:
    """The endpoints, in a process of their own: answers where they are, and, told to end, what came when."""
    ours, theirs = multiprocessing.Pipe()
    process = multiprocessing.get_context("spawn").Process(
        target=receive, args=(certificate, key, hang_seconds, theirs), daemon=True
    )
    process.start()
    try:
        yield ours.recv(), ours
    finally:
        process.terminate()
        process.join()


def receive(certificate: Path, key: Path, hang_seconds: float, told: Connection) -> None:
    with Receiver(server_context(certificate, key)) as endpoints:
        endpoints.behave(Behaviour(delay_seconds=hang_seconds), path="/hang")
        told.send(endpoints.url("").removesuffix("/"))
        told.recv()
        told.send({each.event_id: each.at for each in endpoints.received})


if __name__ == "__main__":
    main()

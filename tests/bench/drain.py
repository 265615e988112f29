"""B10: twenty thousand messages of a suspended subscription drain: nothing is sent, nothing is written.

python -m tests.bench.drain
"""

import io
from collections.abc import Callable, Iterator, Sequence
from contextlib import redirect_stdout
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any

from hookkeeper.domain.delivery import Parcel
from hookkeeper.domain.outbound import OutboundRequest
from hookkeeper.domain.outcome import Answer
from hookkeeper.domain.subscription import DisabledReason, Status

from tests.bench import stage
from tests.bench.counting_aws import counted, in_memory, in_process
from tests.bench.harness import Result, cpu_seconds, report

MESSAGES = 20_000
BATCH = 25


@dataclass(slots=True)
class CountingSender:
    """The Sender port: nothing leaves."""

    requests: list[OutboundRequest] = field(default_factory=list)

    def send(
        self, requests: Sequence[OutboundRequest], *, stop_at_seconds: float | None = None
    ) -> Sequence[Answer]:
        del stop_at_seconds
        self.requests.extend(requests)
        return [Answer(status_code=200, latency_ms=1) for _ in requests]


def main() -> None:
    report(results())


def results(messages: int = MESSAGES) -> Iterator[Result]:
    with in_process() as aws:
        stage.point_boto3_at(aws)
        deliver, sender, parcels = suspended(aws)
        before = counted(aws)
        spent = 0.0
        for start in range(0, messages, BATCH):
            event = stage.deliver_event(parcels(start))
            with redirect_stdout(io.StringIO()):
                spent += cpu_seconds(partial(deliver, event))
        after = counted(aws)
    yield from told(messages, len(sender.requests), spent, before, after)


def suspended(url: str) -> tuple[stage.Started, CountingSender, Callable[[int], Sequence[Parcel]]]:
    """deliver, who would send, and batches of messages that came while their subscription was suspended."""
    now = datetime.now(UTC)
    (key,) = stage.keys(1)
    stage.subscribe(
        [key],
        outage_from=now - timedelta(hours=1),
        status=Status.SUSPENDED,
        disabled_at=now - timedelta(hours=1),
        disabled_reason=DisabledReason.REPEATED_FAILURE,
    )
    deliver, sender = stage.start_deliver(url), CountingSender()
    deliver.module.ports = replace(deliver.module.ports, sender=sender)

    def batch(first: int) -> Sequence[Parcel]:
        return [stage.a_message(key, f"evt_{first + n}", archived_at=now) for n in range(BATCH)]

    return deliver, sender, batch


def counted_in_memory(messages: int) -> dict[str, int]:
    """Every call of AWS, and `requests` and `writes` where there were any."""
    with in_memory() as aws, redirect_stdout(io.StringIO()):
        stage.point_boto3_at(stage.NOWHERE)
        deliver, sender, parcels = suspended(stage.NOWHERE)
        aws.reset()
        for start in range(0, messages, BATCH):
            deliver(stage.deliver_event(parcels(start)))
        calls = {name: n for name, n in aws.calls.items() if not name.startswith("appconfigdata.")}
        found = {"requests": len(sender.requests), "writes": aws.tables.writes.total()}
        return calls | {name: n for name, n in found.items() if n}


def told(messages: int, requests: int, spent: float, before: Any, after: Any) -> Iterator[Result]:
    calls = {name: n - before["calls"].get(name, 0) for name, n in after["calls"].items()}
    yield Result(bench="B10", what="requests while suspended messages drain", ratio=requests, goal=0)
    yield Result(
        bench="B10",
        what="writes while suspended messages drain",
        ratio=after["writes"] - before["writes"],
        goal=0,
        numbers={"messages": messages, "calls": {name: n for name, n in calls.items() if n}},
    )
    yield Result(bench="B10", what="CPU ms per drained message", ratio=1000 * spent / messages, goal=0.3)


if __name__ == "__main__":
    main()

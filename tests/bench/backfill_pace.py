"""B11: a backfill of five thousand on a fake clock: its pace, its steps, its reads, and that none is lost.

The archive and the event items are the real adapters over a counting AWS; the lifecycle is in memory.

    python -m tests.bench.backfill_pace
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

import boto3
from hookkeeper.adapters.dynamodb_events import DynamoDBEvents
from hookkeeper.adapters.s3_archive import S3Archive
from hookkeeper.usecases.backfill import Sliced, backfill

from tests.bench import stage
from tests.bench.counting_aws import CountingAws, in_memory
from tests.bench.harness import Result, report
from tests.builders import HOUR, MINUTE, a_key, a_subscription, an_event, an_event_item
from tests.core import Core

EVENTS = 5_000
MISSED_BATCH = 10
"""Events of the tenant in one run of fan_out: one member of an object."""

TRANSITIONS_A_STEP = 3
"""Slice, What next?, Wait."""

TRANSITIONS_BESIDES = 7
"""Lock, What first?, Probe, Passed?, Activate, Activated?, Done."""

OUTAGE = HOUR
SECOND = timedelta(seconds=1)


@dataclass(frozen=True, slots=True)
class Slice:
    """One slice past the canaries: when it began and ended, at which pace, and how many it sent."""

    began: datetime
    ended: datetime
    rate: float
    sent: int


class Backfill:
    """An outage of an hour in which `events` were missed, its re-enablement, and the recovery to its end."""

    def __init__(self, aws: CountingAws, *, events: int) -> None:
        self.aws, self.core = aws, Core()
        dynamodb = boto3.client("dynamodb")
        self.archive = S3Archive(boto3.client("s3"), dynamodb, bucket="archive", events_table="Events")
        self.events = DynamoDBEvents(dynamodb, events_table="Events")
        self.key = self.core.subscribe(a_subscription(key=a_key()))
        self.arrived: list[tuple[datetime, str]] = []
        self.slices: list[Slice] = []
        self.steps = 0
        self._miss(events)
        self.missed_batches = aws.calls["s3.PutObject"]
        aws.reset()

    def _miss(self, events: int) -> None:
        core = self.core
        core.pause(self.key)
        core.later(MINUTE)
        for start in range(0, events, MISSED_BATCH):
            batch = [an_event(n) for n in range(start, min(events, start + MISSED_BATCH))]
            archived = self.archive.put(batch, now=core.now)
            self.events.put(
                [an_event_item(a.event, archived_at=a.archived_at, pointer=a.pointer) for a in archived]
            )
            core.later(OUTAGE / (events / MISSED_BATCH))

    def run(self) -> None:
        self.core.reenable(self.key)
        while True:
            began, sliced = self.core.now, self._step()
            self.steps += 1
            if sliced.wait is None:
                return
            self._deliver_until(began + sliced.wait)
            recovery = sliced.recovery
            if sliced.sent and recovery is not None and recovery.flowing:
                self.slices.append(Slice(began, self.core.now, recovery.rate_per_second, sliced.sent))

    def _step(self) -> Sliced:
        core, lock = self.core, self.core.health(self.key).recovery
        return backfill(
            self.key,
            recovery_id=lock.id or "",
            generation=lock.generation,
            now=core.now,
            config=core.world.config,
            margins=core.margins,
            ports=replace(core.backfill_ports, archive=self.archive, events=self.events),
        )

    def _deliver_until(self, end: datetime) -> None:
        """Second by second, whatever the queue shows."""
        core = self.core
        while True:
            while parcels := core.take("backfill"):
                core.deliver(*parcels)
                self.arrived += [(core.now, parcel.key.event_id) for parcel in parcels]
            if core.now >= end:
                return
            core.later(min(SECOND, end - core.now))

    def pace_errors(self) -> Iterator[float]:
        """By how much each slice was off the pace it was to keep, by what arrived, while there was enough."""
        for each in self.slices:
            seconds = (each.ended - each.began).total_seconds()
            arrived = sum(each.began <= at < each.ended for at, _ in self.arrived)
            if each.sent >= int(each.rate * self.core.world.config.pace.slice_seconds):
                yield abs(arrived / seconds / each.rate - 1)


def main() -> None:
    report(results())


def results() -> Iterator[Result]:
    yield from counts(EVENTS)


def counts(events: int) -> Iterator[Result]:
    """None of them is a time: the clock is our own."""
    with in_memory() as aws:
        stage.point_boto3_at(stage.NOWHERE)
        run = Backfill(aws, events=events)
        run.run()
    yield from of(run, events)


def of(run: Backfill, events: int) -> Iterator[Result]:
    transitions = TRANSITIONS_BESIDES + run.steps * TRANSITIONS_A_STEP
    arrived = {event_id for _, event_id in run.arrived}
    rates = [each.rate for each in run.slices]
    yield Result(
        bench="B11",
        what="largest error of a slice's pace",
        ratio=max(run.pace_errors()),
        goal=0.05,
        numbers={"rates": rates},
    )
    yield Result(
        bench="B11",
        what="state transitions per 100 events",
        ratio=100 * transitions / events,
        goal=1,
        numbers={"transitions": transitions, "steps": run.steps},
    )
    yield Result(
        bench="B11",
        what="archive reads per missed batch",
        ratio=run.aws.calls["s3.GetObject"] / run.missed_batches,
        goal=1.1,
        numbers={"missed_batches": run.missed_batches, "calls": dict(run.aws.calls)},
    )
    yield Result(
        bench="B11",
        what="events of a backfill that were lost",
        ratio=events - len(arrived),
        goal=0,
        numbers={"events": events, "sent_twice": len(run.arrived) - len(arrived)},
    )


if __name__ == "__main__":
    main()

"""Traffic through the two functions on a clock of its own: events in, deliveries out, every AWS call counted.

Ten tenants, ten subscriptions each, an event for three of its tenant's. The endpoints are a function; the
functions, their adapters and boto3 are the real ones.
"""

import heapq
import io
import itertools
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, redirect_stdout
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta, tzinfo
from typing import Self

import boto3
from hookkeeper.adapters.appconfig_runtime import AppConfigRuntime
from hookkeeper.adapters.dynamodb_subscriptions import DynamoDBRoutes
from hookkeeper.adapters.kms_secrets import KmsSecrets
from hookkeeper.domain.outbound import OutboundRequest
from hookkeeper.domain.outcome import Answer

from tests.bench import stage
from tests.bench.counting_aws import CountingAws, in_memory
from tests.fakes import FakeSender, World

FAN_OUT = 3
KINDS = 10
"""Event types of a tenant; its n-th subscription takes three of them, so an event goes to three."""

FAIL_EVERY = 100
ENDPOINT_MS = 150


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """`deliveries` in all, evenly over `span`; one in a hundred fails once, the first endpoint is dead.

    The first `warm_up` deliveries are made and not counted: an environment has read its secrets by then.
    """

    deliveries: int = 10_000
    subscriptions: int = 100
    span: timedelta = timedelta(minutes=30)
    event_batch: int = 100
    delivery_batch: int = 10
    warm_up: int = 0
    failures: bool = False
    dead: bool = False


@dataclass(slots=True)
class Tally:
    """What one function has asked of AWS, and how it was invoked."""

    calls: Counter[str] = field(default_factory=Counter)
    units: Counter[tuple[str, str]] = field(default_factory=Counter)
    writes: Counter[tuple[str, str]] = field(default_factory=Counter)
    invocations: int = 0
    log_bytes: int = 0
    cpu_seconds: float = 0

    @property
    def write_units(self) -> int:
        return sum(n for (_, kind), n in self.units.items() if kind in ("write", "index"))

    @property
    def read_units(self) -> float:
        return sum(n for (_, kind), n in self.units.items() if kind == "half_read") / 2

    @property
    def all_calls(self) -> int:
        return self.calls.total()


class Traffic:
    """The stage, its clock, and what happened; `requests` by URL with their moments."""

    def __init__(self, aws: CountingAws, url: str, plan: Plan) -> None:
        self.aws, self.plan = aws, plan
        self.now = datetime.now(UTC)
        self.requests: dict[str, list[datetime]] = {}
        self.succeeded = self.events = 0
        self.idle_writes = 0
        """Writes of batches that were all the dead endpoint's and of which nothing was attempted."""

        self.fan_out, self.deliver = Tally(), Tally()
        self._waiting: list[tuple[datetime, int, str]] = []
        self._numbers, self._made = itertools.count(), itertools.count()
        self._failing: set[tuple[str, str]] = set()
        # Each was well at some moment of the last hour, as in any hour of a steady traffic.
        hour = timedelta(hours=1) / plan.subscriptions
        stage.subscribe(
            stage.keys(plan.subscriptions),
            last_successes=[self.now - n * hour for n in range(plan.subscriptions)],
            event_types=[_kinds(n) for n in range(plan.subscriptions)],
        )
        self._fan_out_function = stage.start_fan_out(url)
        self._deliver_function = stage.start_deliver(url)
        self._keep_our_time()

    def _keep_our_time(self) -> None:
        traffic = self

        class Clock(datetime):
            @classmethod
            def now(cls, tz: tzinfo | None = None) -> Self:
                return cls.fromtimestamp(traffic.now.timestamp(), tz)

        def timer() -> float:
            return traffic.now.timestamp()

        dynamodb, deliver = boto3.client("dynamodb"), self._deliver_function.module
        deliver.datetime = self._fan_out_function.module.datetime = Clock
        secrets = KmsSecrets(
            dynamodb, boto3.client("kms"), secrets_table="Secrets", kms_key_id="k", timer=timer
        )
        deliver.ports = replace(deliver.ports, secrets=secrets, sender=FakeSender(World(), self._answer))
        deliver.runtime = AppConfigRuntime.of(deliver.settings, timer=timer)
        routes = DynamoDBRoutes(dynamodb, subscriptions_table="Subscriptions", monotonic=timer)
        fan_out = self._fan_out_function.module
        fan_out.ports = replace(fan_out.ports, routes=routes)

    def _answer(self, request: OutboundRequest) -> Answer:
        self.requests.setdefault(request.url, []).append(self.now)
        headers = dict(request.headers)
        if self.plan.dead and request.url.endswith("/0"):
            return Answer(status_code=503, latency_ms=ENDPOINT_MS)
        first = headers["hookkeeper-attempt"] == "1"
        if self.plan.failures and first and next(self._made) % FAIL_EVERY == FAIL_EVERY - 1:
            return Answer(status_code=500, latency_ms=ENDPOINT_MS)
        self.succeeded += 1
        return Answer(status_code=200, latency_ms=ENDPOINT_MS, excerpt="ok")

    def run(self) -> Self:
        """Everything that the plan says, and then what is left in the queue."""
        events = -(-self.plan.deliveries // FAN_OUT)
        step = self.plan.span / (self.plan.deliveries / self.plan.delivery_batch)
        made = 0
        began, turns = self.now, 0
        while made < events or self._waiting:
            turns += 1
            self.now = max(self.now, began + turns * step)
            if made < events and made * FAN_OUT <= turns * self.plan.delivery_batch:
                batch = range(made, min(events, made + self.plan.event_batch))
                self._take_in(batch)
                made = batch.stop
            if made == events and self._waiting and self._waiting[0][0] > self.now:
                if self._waiting[0][0] > began + self.plan.span + timedelta(minutes=15):
                    break
                self.now = self._waiting[0][0]
            self._hand_out()
            if turns * self.plan.delivery_batch == self.plan.warm_up:
                self._count_from_now()
        return self

    def _count_from_now(self) -> None:
        self.fan_out, self.deliver = Tally(), Tally()
        self.succeeded = self.events = self.idle_writes = 0
        self.requests.clear()

    def _take_in(self, numbers: range) -> None:
        self.events += len(numbers)
        bodies = [stage.event_in(n, f"kind_{n // stage.TENANTS % KINDS}") for n in numbers]
        with self._counting(self.fan_out, self._fan_out_function):
            self._fan_out_function(stage.records("events", bodies, sent_at=self.now))

    def _hand_out(self) -> None:
        bodies: list[str] = []
        while self._waiting and self._waiting[0][0] <= self.now and len(bodies) < self.plan.delivery_batch:
            bodies.append(heapq.heappop(self._waiting)[2])
        if bodies:
            asked = sum(map(len, self.requests.values()))
            with self._counting(self.deliver, self._deliver_function):
                self._deliver_function(stage.records("deliveries", bodies, sent_at=self.now))
            if asked == sum(map(len, self.requests.values())):
                self.idle_writes += self.aws.tables.writes.total()

    @contextmanager
    def _counting(self, tally: Tally, function: stage.Started) -> Iterator[None]:
        self.aws.reset()
        metrics = io.StringIO()
        began = time.process_time()
        with redirect_stdout(metrics):
            yield
        tally.cpu_seconds += time.process_time() - began
        tally.calls += self.aws.calls
        tally.units += self.aws.tables.units
        tally.writes += self.aws.tables.writes
        tally.invocations += 1
        tally.log_bytes += len(metrics.getvalue()) + len(function.log.getvalue())
        function.log.seek(0)
        function.log.truncate()
        for message in self.aws.queues["deliveries"]:
            visible = self.now + timedelta(seconds=message.get("DelaySeconds", 0))
            heapq.heappush(self._waiting, (visible, next(self._numbers), message["MessageBody"]))

    def to_the_dead(self) -> Sequence[datetime]:
        return self.requests.get(f"{stage.ENDPOINT_URL}/0", [])


def _kinds(subscription: int) -> tuple[str, ...]:
    """The three event types that a tenant's n-th subscription takes."""
    place = subscription // stage.TENANTS
    return tuple(f"kind_{(place + step) % KINDS}" for step in range(FAN_OUT))


@contextmanager
def traffic(plan: Plan) -> Iterator[Traffic]:
    with in_memory() as aws:
        stage.point_boto3_at(stage.NOWHERE)
        yield Traffic(aws, stage.NOWHERE, plan).run()

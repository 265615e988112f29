"""B12: the bill of a million deliveries: the price list times what was counted, line by line.

Counted on the traffic of B4 (events by SQS, each for three of a hundred subscriptions of ten tenants, one
delivery in a hundred fails once); beside it the same for the conventional handler, and an idle month.

    python -m tests.bench.bill
"""

import io
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import redirect_stdout
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import httpx
from hookkeeper.adapters.dynamodb_events import CONCURRENT_PUTS

from infra import prices
from infra.config import Size, StageConfig
from infra.costs import Line, idle_month, total
from infra.prices import Price
from tests.bench import stage
from tests.bench.calls import PLAN
from tests.bench.conventional import Conventional
from tests.bench.counting_aws import in_memory
from tests.bench.harness import Result, cpu_seconds, report
from tests.bench.traffic import ENDPOINT_MS, FAN_OUT, Tally, Traffic, traffic

MILLION = 1_000_000
GB = 1024**3
STAGE = StageConfig(stage="prod", sender="webhooks@example.com")
MIB_OF_A_VCPU = 1769
"""With less memory a function has so much less of a CPU, and takes the longer."""

AWS_CALL_SECONDS = 0.006
"""The wait for one call within the Region, beyond its CPU: our assumption."""

RECEIVED_AT_ONCE = 10
"""Messages of one ReceiveMessage or DeleteMessageBatch of Lambda's pollers."""

STORED_MONTHS = 16 / 30
"""How long ledger, event items and archive live."""

PLATFORM_LINES_BYTES = 350
"""Lambda's own START, END and REPORT of an invocation, which a function logs unless told not to."""

VOLUMES = (100_000, MILLION, 10 * MILLION, 100 * MILLION)


def main() -> None:
    report(results())


def results() -> Iterator[Result]:
    with traffic(replace(PLAN, failures=True)) as run:
        ours = ours_per_million(run)
    usual = conventional_per_million()
    idle = idle_month(_template())
    say(ours, usual, total(idle))
    spent, spent_usually = listed(ours), listed(usual)
    yield Result(
        bench="B12",
        what="dollars per million deliveries, without egress",
        ratio=spent,
        goal=2.30,
        numbers={line.what: round(line.listed, 4) for line in ours},
    )
    yield Result(
        bench="B12",
        what="times cheaper than the conventional handler",
        ratio=spent_usually / spent,
        goal=3.5,
        at_most=False,
        numbers={line.what: round(line.listed, 4) for line in usual},
    )
    yield Result(bench="B12", what="dollars of an idle month", ratio=total(idle), goal=3.5)


# ── ours ─────────────────────────────────────────────────────────────────────────────────────────


def ours_per_million(run: Traffic) -> list[Line]:
    """fan_out's part by the event, deliver's by the delivery: what waits in between belongs to both."""
    deliveries, events = float(MILLION), MILLION / FAN_OUT
    both = ((run.fan_out, events / run.events), (run.deliver, deliveries / run.succeeded))

    def calls(name: str) -> float:
        return summed(lambda tally: tally.calls[name])

    def summed(counted: Callable[[Tally], float]) -> float:
        return sum(scale * counted(tally) for tally, scale in both)

    queued = calls("sqs.SendMessageBatch") + 2 * deliveries / RECEIVED_AT_ONCE
    return [
        *_taken_in(events),
        Line("SQS: deliveries sent, received, deleted", prices.SQS_REQUEST, queued),
        Line("SQS: fair by subscription", prices.SQS_FAIR_REQUEST, queued),
        Line("Lambda: invocations", prices.LAMBDA_REQUEST, summed(lambda tally: tally.invocations)),
        Line(
            "Lambda: fan_out",
            prices.LAMBDA_GB_SECOND,
            both[0][1] * _gb_seconds(run.fan_out, STAGE.fan_out, waits=0),
        ),
        Line(
            "Lambda: deliver",
            prices.LAMBDA_GB_SECOND,
            both[1][1] * _gb_seconds(run.deliver, STAGE.deliver, waits=1),
        ),
        Line("DynamoDB: writes", prices.DYNAMODB_WRITE, summed(lambda tally: tally.write_units)),
        Line("DynamoDB: reads", prices.DYNAMODB_READ, summed(lambda tally: tally.read_units)),
        Line("S3: objects put", prices.S3_PUT, calls("s3.PutObject")),
        Line("KMS", prices.KMS_REQUEST, calls("kms.Decrypt")),
        Line("AppConfig: polls", prices.CONFIG_REQUEST, calls("appconfigdata.GetLatestConfiguration")),
        Line("logs and metrics", prices.LOG_GB, summed(lambda tally: tally.log_bytes) / GB),
        *_stored(_item_bytes(run), events),
    ]


def _item_bytes(run: Traffic) -> float:
    """Of the ledger and of the events, for a million deliveries."""
    made, taken_in = run.plan.deliveries, run.plan.deliveries / FAN_OUT
    tables = run.aws.tables
    return (
        MILLION * tables.stored_bytes("Deliveries") / made
        + MILLION / FAN_OUT * tables.stored_bytes("Events") / taken_in
    )


def _gb_seconds(tally: Tally, size: Size, *, waits: int) -> float:
    """`waits` for the endpoints: once a batch, as all are asked at once."""
    puts = tally.calls["dynamodb.PutItem"]
    waited_for = tally.all_calls - puts + puts / CONCURRENT_PUTS
    waiting = waits * tally.invocations * ENDPOINT_MS / 1000 + waited_for * AWS_CALL_SECONDS
    return size.memory_mib / 1024 * (waiting + tally.cpu_seconds * MIB_OF_A_VCPU / size.memory_mib)


def _taken_in(events: float) -> Iterator[Line]:
    yield Line("SQS: events sent one by one", prices.SQS_REQUEST, events)
    yield Line("SQS: events received, deleted", prices.SQS_REQUEST, 2 * events / RECEIVED_AT_ONCE)


def _stored(item_bytes: float, events: float) -> Iterator[Line]:
    """The archive as if no body compressed."""
    gb_months = STORED_MONTHS * item_bytes / GB
    yield Line("DynamoDB: stored", _PLAIN_STORAGE, gb_months)
    yield Line("DynamoDB: point-in-time recovery", prices.DYNAMODB_RECOVERY, gb_months)
    yield Line("S3: archive", prices.S3_STORAGE, STORED_MONTHS * events * stage.BODY_BYTES / GB)


_PLAIN_STORAGE = replace(prices.DYNAMODB_STORAGE, free=0)


# ── as it is usually built ───────────────────────────────────────────────────────────────────────


@dataclass(frozen=True, slots=True)
class Usual:
    """What the conventional handler asked for so many deliveries."""

    deliveries: int
    writes: int
    item_bytes: int
    log_bytes: int
    cpu_seconds: float


def conventional_per_million() -> list[Line]:
    """Its fan-out, which nobody wrote: an object, an item and a query per event, a send per delivery."""
    usual = _counted_usual()
    scale, deliveries, events = MILLION / usual.deliveries, float(MILLION), MILLION / FAN_OUT
    batches = deliveries / RECEIVED_AT_ONCE
    memory = STAGE.deliver.memory_mib  # as much as ours
    serial = deliveries * (ENDPOINT_MS / 1000 + 2 * AWS_CALL_SECONDS)
    serial += scale * usual.cpu_seconds * MIB_OF_A_VCPU / memory
    fanning_out = events * (3 + FAN_OUT) * AWS_CALL_SECONDS
    logged = scale * usual.log_bytes + (batches + events / RECEIVED_AT_ONCE) * PLATFORM_LINES_BYTES
    return [
        *_taken_in(events),
        Line("SQS: deliveries sent one by one", prices.SQS_REQUEST, deliveries),
        Line("SQS: deliveries received, deleted", prices.SQS_REQUEST, 2 * batches),
        Line("Lambda: invocations", prices.LAMBDA_REQUEST, batches + events / RECEIVED_AT_ONCE),
        Line("Lambda: fan-out", prices.LAMBDA_GB_SECOND, memory / 1024 * fanning_out),
        Line("Lambda: one delivery after the other", prices.LAMBDA_GB_SECOND, memory / 1024 * serial),
        Line("DynamoDB: writes", prices.DYNAMODB_WRITE, scale * usual.writes + events),
        Line("DynamoDB: reads", prices.DYNAMODB_READ, events),
        Line("S3: an object per event", prices.S3_PUT, events),
        Line("logs", prices.LOG_GB, logged / GB),
        *_stored(scale * usual.item_bytes, events),
    ]


def _counted_usual(batches: int = 10) -> Usual:
    keys, log = stage.keys(RECEIVED_AT_ONCE), io.StringIO()
    urls = {key.subscription_id: stage.ENDPOINT_URL for key in keys}
    well = httpx.Client(transport=httpx.MockTransport(lambda _: httpx.Response(200)))
    with in_memory() as aws, redirect_stdout(io.StringIO()):
        stage.point_boto3_at(stage.NOWHERE)
        usual = Conventional(well, urls=urls, log=log)
        events = [
            stage.deliver_event([stage.a_message(key, f"evt_{n}") for key in keys]) for n in range(batches)
        ]
        spent = sum(cpu_seconds(partial(usual.handler, event, stage.Context())) for event in events)
        units = aws.tables.units
        writes = sum(count for (_, kind), count in units.items() if kind == "write")
    return Usual(
        deliveries=batches * len(keys),
        writes=writes,
        item_bytes=aws.tables.stored_bytes("Conventional"),
        log_bytes=len(log.getvalue()),
        cpu_seconds=spent,
    )


# ── told ─────────────────────────────────────────────────────────────────────────────────────────


def listed(lines: Sequence[Line]) -> float:
    """At list prices, nothing free taken off."""
    return sum(line.listed for line in lines)


def say(ours: Sequence[Line], usual: Sequence[Line], idle: float) -> None:
    """The tables: a million deliveries line by line, and a month by volume."""
    for title, lines in (("Hookkeeper", ours), ("conventional", usual)):
        print(f"\n{title}, a million deliveries, {prices.REGION}, list prices of {prices.AS_OF}")
        for line in lines:
            print(f"  {line.what:<45} {line.units:>14,.2f} {_unit(line.price):<32} ${line.listed:.4f}")
        print(f"  {'sum':<45} {'':>14} {'':<32} ${listed(lines):.2f}")
    print(f"\n{'deliveries a month':>20} {'Hookkeeper':>12} {'per million':>12} {'conventional':>13}")
    for volume in VOLUMES:
        month = idle + listed(ours) * volume / MILLION
        print(
            f"{volume:>20,} {month:>11,.2f}$ {month * MILLION / volume:>11,.2f}$"
            f" {listed(usual) * volume / MILLION:>12,.2f}$"
        )
    sys.stdout.flush()


def _unit(price: Price) -> str:
    return f"× ${price.usd:g} / {price.per:,} {price.unit}"[:32]


def _template() -> Any:
    import aws_cdk as cdk
    from aws_cdk import assertions

    from infra.app import build

    context = {"stage": "prod", "sender": "webhooks@example.com", "aws:cdk:bundling-stacks": []}
    return assertions.Template.from_stack(build(cdk.App(context=context))).to_json()


if __name__ == "__main__":
    main()

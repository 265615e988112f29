"""B8: the CPU of `fan_out`, with all that it asks of AWS, per delivery it queues, over one single send.

python -m tests.bench.fan_out_cpu
"""

import io
import itertools
from collections.abc import Iterator
from contextlib import redirect_stdout

import boto3

from tests.bench import stage
from tests.bench.counting_aws import counted, in_process
from tests.bench.harness import Result, cpu_seconds, medians, micros, report
from tests.bench.traffic import FAN_OUT

EVENTS = 100
SINGLE_SENDS = 50
ROUNDS = 15


def main() -> None:
    report(results())


def results() -> Iterator[Result]:
    with in_process() as aws:
        stage.point_boto3_at(aws)
        stage.subscribe(stage.keys(FAN_OUT * stage.TENANTS))
        fan_out, sqs = stage.start_fan_out(aws), boto3.client("sqs")
        numbers = itertools.count(step=EVENTS)
        job = stage.deliver_event([stage.a_message(stage.keys(1)[0], "evt_1")])["Records"][0]["body"]

        def of_fan_out() -> float:
            first = next(numbers)
            event = stage.records("events", [stage.event_in(n) for n in range(first, first + EVENTS)])
            with redirect_stdout(io.StringIO()):
                return cpu_seconds(lambda: fan_out(event)) / EVENTS / FAN_OUT

        def of_single() -> float:
            def send() -> None:
                for _ in range(SINGLE_SENDS):
                    sqs.send_message(QueueUrl=f"{aws}/1/q", MessageBody=job, MessageGroupId="g")

            return cpu_seconds(send) / SINGLE_SENDS

        before = counted(aws)["calls"]
        spent = medians({"fan_out": of_fan_out, "single": of_single}, rounds=ROUNDS)
        after = counted(aws)["calls"]
    jobs = (ROUNDS + 1) * EVENTS * FAN_OUT
    calls = {name: n - before.get(name, 0) for name, n in after.items() if n != before.get(name, 0)}
    yield Result(
        bench="B8",
        what="CPU of fan_out per delivery over a single send",
        ratio=spent["fan_out"] / spent["single"],
        goal=0.2,
        numbers={f"{name}_us": micros(seconds) for name, seconds in spent.items()} | {"calls": calls},
    )
    yield Result(
        bench="B8",
        what="SQS requests per delivery",
        ratio=calls["sqs.SendMessageBatch"] / jobs,
        goal=0.11,
        numbers={"deliveries": jobs},
    )


if __name__ == "__main__":
    main()

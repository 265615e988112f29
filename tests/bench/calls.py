"""B4: what AWS is asked for ten thousand deliveries: calls, write units, health writes, and a dead endpoint.

Three runs of the same traffic: all well; one delivery in a hundred fails once; one endpoint of a hundred is
dead. What a failure and an outage cost is their difference, told beside it.

    python -m tests.bench.calls
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from datetime import datetime, timedelta

from tests.bench.harness import Result, report
from tests.bench.traffic import Plan, Traffic, traffic

PLAN = Plan(deliveries=11_400, span=timedelta(minutes=17), warm_up=1_200)
"""Eleven deliveries a second through one warm environment, which reads secrets anew once an hour."""

SETTLED_AFTER = timedelta(minutes=10)
"""The circuit's interval has then doubled to its longest."""

SMALL = Plan(deliveries=3_000, span=timedelta(minutes=30))
"""Long enough for a circuit to settle, and for retries."""


def main() -> None:
    report(results())


def results() -> Iterator[Result]:
    with traffic(PLAN) as clean:
        yield from of_clean(clean)
    with traffic(replace(SMALL, failures=True)) as failing, traffic(SMALL) as well:
        yield of_failures(failing, well)
    with traffic(replace(SMALL, dead=True)) as outage:
        yield from of_outage(outage)


def of_clean(run: Traffic) -> Iterator[Result]:
    deliver, fan_out, done = run.deliver, run.fan_out, run.succeeded
    health = deliver.writes["Subscriptions", "health"]
    yield Result(
        bench="B4",
        what="AWS calls per clean delivery",
        ratio=deliver.all_calls / done,
        goal=0.21,
        numbers={"deliveries": done, "calls": dict(deliver.calls)},
    )
    yield Result(
        bench="B4",
        what="write units per clean delivery",
        ratio=deliver.write_units / done,
        goal=1.1,
        numbers={"read_units": deliver.read_units / done},
    )
    yield Result(
        bench="B4",
        what="write units per event",
        ratio=fan_out.write_units / run.events,
        goal=1.1,
        numbers={"read_units": fan_out.read_units / run.events, "calls": dict(fan_out.calls)},
    )
    yield Result(
        bench="B4",
        what="health writes per 100 clean successes",
        ratio=100 * health / done,
        goal=1.0,
        numbers={"health_writes": health},
    )
    yield Result(
        bench="B4",
        what="deliveries per SQS send",
        ratio=done / fan_out.calls["sqs.SendMessageBatch"],
        goal=9,
        at_most=False,
    )


def of_failures(failing: Traffic, clean: Traffic) -> Result:
    """No goal of the table: what one isolated failure and its retry ask beyond a clean delivery."""
    failures = sum(len(times) for times in failing.requests.values()) - failing.succeeded
    calls = failing.deliver.all_calls - clean.deliver.all_calls
    units = failing.deliver.write_units - clean.deliver.write_units
    return Result(
        bench="B4",
        what="AWS calls per isolated failure",
        ratio=calls / failures,
        goal=10,
        numbers={"failures": failures, "write_units": round(units / failures, 2)},
    )


def of_outage(run: Traffic) -> Iterator[Result]:
    asked = run.to_the_dead()
    settled = [at for at in asked if at >= asked[0] + SETTLED_AFTER]
    yield Result(
        bench="B4",
        what="requests to a dead endpoint per 5 minutes, settled",
        ratio=busiest(settled, timedelta(minutes=5)),
        goal=1,
        numbers={"requests": len(asked), "deliveries_owed_it": run.plan.deliveries // run.plan.subscriptions},
    )
    yield Result(
        bench="B4",
        what="writes per event of a dead endpoint that is not a trial",
        ratio=run.idle_writes,
        goal=0,
    )


def busiest(moments: Sequence[datetime], span: timedelta) -> int:
    """The most that fall into any interval of so long, its end excluded."""
    return max((sum(at <= other < at + span for other in moments) for at in moments), default=0)


if __name__ == "__main__":
    main()

"""B7: what it costs to route one event among ten, a thousand and a hundred thousand subscriptions.

python -m tests.bench.routing
"""

from collections.abc import Callable, Iterator
from functools import partial

import boto3
from hookkeeper.adapters.dynamodb_subscriptions import CACHE_LIFE_SECONDS, DynamoDBRoutes

from tests.bench import stage
from tests.bench.counting_aws import CountingAws, in_memory
from tests.bench.harness import Result, cpu_seconds, medians, micros, report
from tests.builders import a_key, a_scope

SUBSCRIPTIONS = (10, 1_000, 100_000)
EVENT_TYPE = "invoice.line.added"
SEGMENTS = 3
MATCHES = 10
PATTERNS = ("invoice.line.added",) * 4 + ("invoice.line.*",) * 3 + ("invoice.*",) * 2 + ("*",)
PAGES = 1
"""Ten matches are less than the megabyte of one page, in each partition."""


def main() -> None:
    report(results())


def results(counts: tuple[int, ...] = SUBSCRIPTIONS) -> Iterator[Result]:
    with in_memory() as aws:
        stage.point_boto3_at(stage.NOWHERE)
        routers = {str(count): router(aws, count) for count in counts}
        reads = {count: reads_of(aws, route) for count, route in routers.items()}
        measures = {count: partial(cpu_seconds, route) for count, route in routers.items()}
        spent = medians(measures, rounds=200)
    few, many = str(counts[0]), str(counts[-1])
    yield Result(
        bench="B7",
        what=f"CPU of routing among {many} over among {few}",
        ratio=spent[many] / spent[few],
        goal=1.5,
        numbers={f"among_{count}_us": micros(seconds) for count, seconds in spent.items()},
    )
    yield Result(
        bench="B7",
        what=f"queries of one event among {many}",
        ratio=max(reads.values()),
        goal=SEGMENTS + 1 + (PAGES - 1),
        numbers={f"among_{count}": n for count, n in reads.items()},
    )


def queries(counts: tuple[int, ...]) -> dict[str, int]:
    """Of one event, among so many subscriptions."""
    with in_memory() as aws:
        stage.point_boto3_at(stage.NOWHERE)
        return {str(count): reads_of(aws, router(aws, count)) for count in counts}


def router(aws: CountingAws, count: int) -> Callable[[], object]:
    """Routes an event among so many, ten of which match, with nothing cached."""
    table = f"Subscriptions{count}"
    patterns = [*PATTERNS, *(f"other.kind_{n % 97}" for n in range(count - MATCHES))]
    for n, pattern in enumerate(patterns):
        partition, subscription_id = f"acme#live#route#*#{pattern}", a_key(n).subscription_id
        item = {"pk": {"S": partition}, "sk": {"S": subscription_id}}
        aws.tables.items[table][partition][subscription_id] = item
    later = iter(range(0, 1_000_000_000, int(CACHE_LIFE_SECONDS)))
    routes = DynamoDBRoutes(
        boto3.client("dynamodb"), subscriptions_table=table, monotonic=lambda: float(next(later))
    )

    def route() -> None:
        assert len(routes.matching(a_scope(), event_type=EVENT_TYPE, resource_id=None)) == MATCHES

    return route


def reads_of(aws: CountingAws, route: Callable[[], object]) -> int:
    aws.reset()
    route()
    return aws.calls["dynamodb.Query"]


if __name__ == "__main__":
    main()

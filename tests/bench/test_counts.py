"""What the benches count exactly, in small, on every run: AWS calls, units, requests, reads; never times."""

import os
from collections.abc import Iterable, Iterator
from datetime import timedelta

import pytest

from tests.bench import backfill_pace, drain, routing
from tests.bench.harness import Result
from tests.bench.traffic import Plan, Traffic, traffic

SMALL = Plan(deliveries=300, span=timedelta(seconds=27))
"""The bench's pace, from a cold environment on."""


@pytest.fixture(scope="module", autouse=True)
def _our_environment() -> Iterator[None]:
    """What a bench tells boto3 and the functions ends with it."""
    before = dict(os.environ)
    yield
    os.environ.clear()
    os.environ.update(before)


@pytest.fixture(scope="module")
def clean() -> Iterator[Traffic]:
    with traffic(SMALL) as run:
        yield run


def missed(results: Iterable[Result]) -> list[str]:
    return [f"{result.what}: {result.ratio:.3f}, not {result.goal}" for result in results if not result.ok]


SMALL_BACKFILL = 600
"""Canaries, one whole slice, and the rest; too few for the goal of steps."""


def test_b4_a_clean_batch_is_one_read_and_one_write(clean: Traffic) -> None:
    deliver = clean.deliver
    assert clean.succeeded == SMALL.deliveries
    assert deliver.invocations == SMALL.deliveries / SMALL.delivery_batch
    assert deliver.calls["dynamodb.BatchGetItem"] == deliver.invocations
    assert deliver.calls["dynamodb.BatchWriteItem"] <= deliver.invocations
    by_time = {name for name in deliver.calls if name.startswith(("appconfigdata.", "kms."))}
    rest = set(deliver.calls) - by_time - {"dynamodb.BatchGetItem", "dynamodb.BatchWriteItem"}
    assert rest <= {"dynamodb.Query", "dynamodb.GetItem", "dynamodb.TransactWriteItems"}


def test_b4_secrets_are_read_once_for_a_subscription_and_a_tenant(clean: Traffic) -> None:
    assert clean.deliver.calls["dynamodb.Query"] == SMALL.subscriptions
    assert clean.deliver.calls["dynamodb.GetItem"] == clean.deliver.calls["kms.Decrypt"] == 10


def test_b4_a_clean_delivery_is_one_write_unit_and_health_is_let_be(clean: Traffic) -> None:
    health_writes = clean.deliver.writes["Subscriptions", "health"]
    assert health_writes <= SMALL.deliveries / 100
    assert clean.deliver.write_units <= 1.1 * SMALL.deliveries
    assert clean.deliver.units["Subscriptions", "index"] == clean.deliver.units["Deliveries", "index"] == 0


def test_b4_an_event_of_a_full_batch_is_little_more_than_one_write_unit(clean: Traffic) -> None:
    assert clean.fan_out.write_units <= 1.1 * clean.events
    assert clean.fan_out.calls["s3.PutObject"] == clean.fan_out.invocations


def test_b8_ten_deliveries_share_a_request_to_sqs(clean: Traffic) -> None:
    assert clean.fan_out.calls["sqs.SendMessageBatch"] <= 0.11 * SMALL.deliveries
    assert clean.deliver.calls["sqs.SendMessageBatch"] == 0


def test_b7_routing_reads_the_same_among_ten_and_among_a_thousand() -> None:
    assert routing.queries((10, 1_000)) == {"10": 4, "1000": 4}


def test_b10_suspended_messages_drain_without_a_request_or_a_write() -> None:
    counted = drain.counted_in_memory(messages=200)
    assert counted == {"dynamodb.BatchGetItem": 8}


def test_b11_a_backfill_keeps_its_pace_and_loses_none() -> None:
    results = backfill_pace.counts(events=SMALL_BACKFILL)
    assert missed(result for result in results if "transitions" not in result.what) == []

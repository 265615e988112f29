"""A subscription of 3,000 deliveries a second does not throttle itself: key shapes and their arithmetic."""

import math
from collections import Counter
from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import pytest
from hookkeeper.adapters.dynamodb_ledger import DynamoDBLedger
from hookkeeper.adapters.ids import TypeIds
from hookkeeper.domain.delivery import SHARDS, Delivery, DeliveryStatus, shard_of
from hookkeeper.domain.outcome import Outcome
from hookkeeper.domain.tenancy import DeliveryKey
from hookkeeper.ports import HealthEffect, Settlement

from tests.builders import NOW, a_delivered, a_delivery, a_key, a_subscription, an_owed
from tests.contracts.conftest import AT_ONCE, Aws
from tests.contracts.sizes import size_bytes
from tests.contracts.stores import over_dynamodb

A_SECOND = 3_000
PARTITION_WRITES = 1_000
"""DynamoDB's write units of one partition key in a second."""


@pytest.fixture
def ledger(aws: Aws) -> DynamoDBLedger:
    over_dynamodb(aws).have(a_subscription())
    return DynamoDBLedger(
        aws.client("dynamodb"),
        deliveries_table=aws.table("Deliveries"),
        subscriptions_table=aws.table("Subscriptions"),
        backoff=AT_ONCE,
    )


def a_seconds_keys(kind: str) -> Iterator[DeliveryKey]:
    """One second's events: ids of ours (time-ordered), or a producer's own numbers."""
    ids = TypeIds()
    for n in range(A_SECOND):
        yield DeliveryKey(a_key(), ids.new("evt") if kind == "ours" else f"order-{n:08d}")


def units(item: dict[str, Any]) -> int:
    return math.ceil(size_bytes(item) / 1024)


def by_partition(items: list[dict[str, Any]]) -> Counter[str]:
    written = Counter[str]()
    for item in items:
        written[item["pk"]["S"]] += units(item)
    return written


def busiest(kind: str) -> int:
    """How many of a second's deliveries the fullest shard gets."""
    return max(Counter(shard_of(key.event_id) for key in a_seconds_keys(kind)).values())


def test_a_deliverys_record_is_one_unit_in_the_partition_of_its_shard(
    aws: Aws, ledger: DynamoDBLedger
) -> None:
    deliveries = [a_delivered(key=key) for key in list(a_seconds_keys("ours"))[:75]]
    assert ledger.put_clean(deliveries) == []
    written = by_partition(aws.items("Deliveries"))
    shards = Counter(shard_of(delivery.key.event_id) for delivery in deliveries)
    assert sorted(written.values()) == sorted(shards.values())
    assert len(written) == SHARDS


@pytest.mark.parametrize("kind", ["ours", "producers"])
def test_a_second_of_clean_deliveries_stays_under_every_partitions_limit(kind: str) -> None:
    assert busiest(kind) < PARTITION_WRITES / 2, "with room for another half of it in bad luck"


@pytest.mark.parametrize("kind", ["ours", "producers"])
def test_a_second_of_failures_stays_under_every_partitions_limit(
    aws: Aws, ledger: DynamoDBLedger, kind: str
) -> None:
    """A failure is a transaction, at twice the units, of two items with partitions of their own."""
    assert ledger.settle(Settlement(before=None, after=a_delivery(), owed=an_owed())).written
    one = by_partition(aws.items("Deliveries"))
    assert sorted(one.values()) == [1, 1]
    assert 2 * busiest(kind) < PARTITION_WRITES


def test_no_index_doubles_a_delivery_that_succeeds(aws: Aws, ledger: DynamoDBLedger) -> None:
    ledger.put_clean([a_delivered()])
    (item,) = aws.items("Deliveries")
    assert not {"due_pk", "due_at", "list_pk", "list_sk"} & set(item)
    assert units(item) == 1


def test_an_owed_item_is_in_the_one_sparse_index_and_leaves_it_when_it_is_delivered(
    aws: Aws, ledger: DynamoDBLedger
) -> None:
    failed = a_delivery()
    ledger.settle(Settlement(before=None, after=failed, owed=an_owed()))
    indexed = [item for item in aws.items("Deliveries") if "due_pk" in item]
    assert [item["pk"]["S"].split("#")[2] for item in indexed] == ["owed"]
    ledger.settle(Settlement(before=failed, after=_succeeded(failed)))
    (left,) = aws.items("Deliveries")
    assert "due_pk" not in left


def test_the_index_of_what_is_due_has_room_for_an_outage_of_many_endpoints(
    aws: Aws, ledger: DynamoDBLedger
) -> None:
    for key in list(a_seconds_keys("ours"))[:64]:
        ledger.settle(Settlement(before=None, after=a_delivery(key=key), owed=an_owed(key=key)))
    spread = Counter(item["due_pk"]["S"] for item in aws.items("Deliveries") if "due_pk" in item)
    assert len(spread) > 12, "sixteen of them"
    assert max(spread.values()) <= 4 * 64 / 16


def test_a_clean_second_writes_nothing_to_health(aws: Aws, ledger: DynamoDBLedger) -> None:
    before = aws.items("Subscriptions")
    ledger.put_clean([a_delivered(key=key) for key in list(a_seconds_keys("ours"))[:25]])
    assert aws.items("Subscriptions") == before


def test_a_settled_sequence_writes_the_ledger_and_health_once_each(aws: Aws, ledger: DynamoDBLedger) -> None:
    effect = HealthEffect(epoch=1, outcome=Outcome.PERMANENT, at=NOW, first_failure_at=NOW)
    after = a_delivery(status=DeliveryStatus.EXHAUSTED, settled=True, outcome=Outcome.PERMANENT)
    assert ledger.settle(Settlement(before=None, after=after, owed=an_owed(), effect=effect)).counted
    assert len(aws.items("Deliveries")) == 2


def _succeeded(failed: Delivery) -> Delivery:
    return a_delivered(
        key=failed.key,
        attempt_count=2,
        sequence=failed.sequence,
        sequence_began_at=NOW - timedelta(seconds=5),
    )

"""F54: old and new workers side by side over one table: what one adds, the other overlooks and leaves."""

from datetime import UTC, datetime
from typing import Any

import pytest
from hookkeeper.domain.delivery import Delivery
from hookkeeper.domain.errors import OwnFaultError
from hookkeeper.domain.outcome import Outcome
from hookkeeper.domain.tenancy import DeliveryKey
from hookkeeper.ports import HealthEffect, Settlement
from hookkeeper.settings import DeliverSettings, NotifySettings

from tests.builders import (
    a_delivery,
    a_failing_health,
    a_key,
    a_notice,
    a_subscription,
    an_event,
    an_owed,
)
from tests.contracts.conftest import Aws
from tests.functions.conftest import ColdStart, a_sample
from tests.functions.stage import Stage, back, configured, ids

TABLES = ("Subscriptions", "Deliveries", "Notices")
TOMORROWS = {"M": {"colour": {"S": "new"}, "of": {"L": [{"N": "1"}]}}}


@pytest.fixture
def stage(aws: Aws) -> Stage:
    """A failing subscription, a delivery that is owed to it, and a notice."""
    stage = Stage(aws)
    stage.add_signed(a_subscription(), a_failing_health())
    delivery, owed = a_delivery(), an_owed()
    assert stage.ledger.settle(Settlement(before=None, after=delivery, owed=owed)).written
    assert stage.notices.put(a_notice())
    return stage


def mark(stage: Stage, name: str, value: Any) -> int:
    """Give every item of a tenant an attribute, as a worker of another version would."""
    count = 0
    for table in TABLES:
        for item in stage.aws.items(table):
            stage.dynamodb.update_item(
                TableName=table,
                Key={"pk": item["pk"], "sk": item["sk"]},
                UpdateExpression="SET #name = :value",
                ExpressionAttributeNames={"#name": name},
                ExpressionAttributeValues={":value": value},
            )
            count += 1
    return count


def present(stage: Stage) -> list[Any]:
    key = a_key()
    return [
        stage.subscriptions.standing(key),
        stage.delivery(a_delivery().key),
        stage.ledger.owed(key, limit=9),
        stage.notices.of(key, limit=9),
        stage.ledger.read_batch([a_delivery().key]),
    ]


def test_f54_what_a_newer_worker_added_to_items_is_overlooked(stage: Stage) -> None:
    before = present(stage)
    assert mark(stage, "from_tomorrow", TOMORROWS) >= 6
    assert present(stage) == before


def test_f54_a_failure_that_this_worker_counts_leaves_a_newer_workers_fields_on_health(stage: Stage) -> None:
    mark(stage, "from_tomorrow", TOMORROWS)
    before = stage.standing().health
    later: Delivery = a_delivery(key=DeliveryKey(a_key(), an_event(2).id))
    failure = HealthEffect(epoch=before.epoch, outcome=Outcome.RETRYABLE, at=datetime.now(UTC))
    assert stage.ledger.settle(Settlement(before=None, after=later, effect=failure)).written
    assert stage.standing().health.consecutive_failures == before.consecutive_failures + 1
    (health,) = (item for item in stage.aws.items("Subscriptions") if item["sk"]["S"] == "health")
    assert health["from_tomorrow"] == TOMORROWS


def test_f54_a_version_of_items_that_this_worker_knows_is_read_and_none_other(stage: Stage) -> None:
    before = present(stage)
    mark(stage, "v", {"N": "1"})
    assert present(stage) == before
    mark(stage, "v", {"N": "2"})
    with pytest.raises(OwnFaultError, match="an item of version 2"):
        stage.subscriptions.standing(a_key())
    with pytest.raises(OwnFaultError):
        stage.notices.of(a_key(), limit=9)


def test_f54_messages_that_meet_items_of_a_newer_version_come_back_and_nothing_is_sent_or_written(
    stage: Stage, cold_start: ColdStart
) -> None:
    stage.put("deliveries", a_sample("deliver")["Records"][0]["body"])
    event = stage.batch("deliveries")
    mark(stage, "v", {"N": "2"})
    before = [stage.aws.items(table) for table in TABLES]
    deliver = configured(cold_start("deliver", stage.settings(DeliverSettings)))
    with pytest.raises(OwnFaultError):
        deliver(event)
    assert [stage.aws.items(table) for table in TABLES] == before
    assert ids(event)


def test_f54_a_notice_of_a_newer_version_comes_back_alone(stage: Stage, cold_start: ColdStart) -> None:
    mark(stage, "v", {"N": "2"})
    notify = configured(cold_start("notify", stage.settings(NotifySettings)))
    event = a_sample("notify")
    place = event["Records"][0]["dynamodb"]["SequenceNumber"]
    assert notify(event) == back(place)

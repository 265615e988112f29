"""The catalogue's schemas held against events, by fan_out as Lambda runs it."""

import json
from typing import Any

import pytest
from hookkeeper.adapters.dynamodb_catalogue import DynamoDBCatalogue
from hookkeeper.adapters.jsonschema_schemas import RULES_LIFE_SECONDS
from hookkeeper.domain.catalogue import EventType
from hookkeeper.settings import FanOutSettings

from tests.builders import NOW, a_scope, a_subscription
from tests.contracts.conftest import Aws
from tests.functions.conftest import ColdStart, Started, aws, cold_start
from tests.functions.stage import ALL_WELL, Stage, metric

__all__ = ["aws", "cold_start"]

SCHEMA = json.dumps({"type": "object", "properties": {"amount": {"type": "integer"}}, "required": ["amount"]})


@pytest.fixture
def stage(aws: Aws) -> Stage:
    staged = Stage(aws)
    staged.add(a_subscription())
    return staged


@pytest.fixture
def fan_out(stage: Stage, cold_start: ColdStart) -> Started:
    return cold_start("fan_out", stage.settings(FanOutSettings))


def becomes_strict(stage: Stage, fan_out: Started, monkeypatch: pytest.MonkeyPatch) -> None:
    """invoice.paid has a schema from now on, and what fan_out knew of its type is half a minute old."""
    catalogue = DynamoDBCatalogue(stage.dynamodb, access_table=stage.aws.table("Access"))
    catalogue.put(
        EventType(name="invoice.paid", description="", json_schema=SCHEMA, strict=True, updated_at=NOW)
    )
    later = fan_out.module.rules._monotonic() + RULES_LIFE_SECONDS
    monkeypatch.setattr(fan_out.module.rules, "_monotonic", lambda: later)


def queued(stage: Stage, **data: Any) -> dict[str, Any]:
    """The batch with an invoice.paid for each, whose `data` is its amount."""
    stage.put(
        "events",
        *(
            json.dumps(
                {"id": event_id, "tenant_id": "acme", "type": "invoice.paid", "data": {"amount": amount}}
            )
            for event_id, amount in data.items()
        ),
    )
    return stage.batch("events")


def test_an_event_that_was_queued_before_its_type_became_strict_is_rejected_with_its_reason(
    stage: Stage, fan_out: Started, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert fan_out(queued(stage, evt_1="secret-a-lot")) == ALL_WELL
    waiting = queued(stage, evt_2="secret-a-lot", evt_3=5)
    becomes_strict(stage, fan_out, monkeypatch)
    capsys.readouterr()
    assert fan_out(waiting) == ALL_WELL
    assert set(stage.events.routed([(a_scope(), f"evt_{n}") for n in (1, 2, 3)])) == {
        (a_scope(), "evt_1"),
        (a_scope(), "evt_3"),
    }
    (rejected,) = stage.batch("rejected")["Records"]
    assert json.loads(rejected["body"])["id"] == "evt_2"
    reason = rejected["messageAttributes"]["reason"]["stringValue"]
    assert reason == (
        "schema_mismatch: /data/amount it does not fit the type's schema at /properties/amount/type"
    )
    assert metric(capsys.readouterr().out, "EventsRejected") == 1
    assert "secret-a-lot" not in fan_out.log.getvalue()


def test_a_second_copy_of_what_was_routed_before_its_type_became_strict_is_a_duplicate_and_no_reject(
    stage: Stage, fan_out: Started, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    first = queued(stage, evt_1="a lot")
    assert fan_out(first) == ALL_WELL
    becomes_strict(stage, fan_out, monkeypatch)
    capsys.readouterr()
    assert fan_out(first) == ALL_WELL
    assert metric(capsys.readouterr().out, "Events_duplicate") == 1
    assert stage.batch("rejected")["Records"] == []

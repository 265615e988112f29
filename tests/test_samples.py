"""Every file in events/ is a payload as AWS sends it, understood by who reads it, and used by a test."""

import base64
import json
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from aws_lambda_powertools.utilities.parser.models import (
    ApiGatewayAuthorizerToken,
    APIGatewayProxyEventModel,
    DynamoDBStreamModel,
    EventBridgeModel,
    SqsModel,
)
from hookkeeper.adapters.dynamodb_notice_stream import new_notice
from hookkeeper.adapters.ses_feedback import SOURCE, feedback_of
from hookkeeper.domain.notice import NoticeStatus
from hookkeeper.event_in import parse_event
from hookkeeper.messages import (
    ContactMessage,
    DeliveryMessage,
    FanOutPage,
    NoticeMessage,
    ReadEvent,
    RecoveryState,
    is_page,
)
from hookkeeper.runtime_document import RuntimeDocument
from hookkeeper.usecases.notify import publish_unheard

from tests.builders import a_notice
from tests.fakes import FakeOperatorBus, World

ROOT = Path(__file__).parents[1]
SAMPLES = sorted((ROOT / "events").iterdir())
NOW = datetime(2026, 12, 1, tzinfo=UTC)


def read_by_us(document: dict[str, Any]) -> Iterator[object]:
    """What Hookkeeper makes of the sample; whatever it cannot read is raised."""
    match document:
        case {"Records": [{"eventSource": "aws:sqs"}, *_] as records}:
            SqsModel.model_validate(document)
            yield from (_of_queue(record["eventSourceARN"].rpartition("-")[2], record) for record in records)
        case {"Records": [{"eventSource": "aws:dynamodb"}, *_] as records}:
            DynamoDBStreamModel.model_validate(document)
            yield from (_of_stream(record) for record in records)
        case {"httpMethod": _}:
            yield APIGatewayProxyEventModel.model_validate(document)
        case {"type": "TOKEN"}:
            yield ApiGatewayAuthorizerToken.model_validate(document)
        case {"action": str(action)}:
            yield _of_recover(action, document)
        case {"configurationProfileId": _}:
            yield RuntimeDocument.model_validate_json(base64.b64decode(document["content"]))
        case {"detail-type": _}:
            yield EventBridgeModel.model_validate(document)


def _of_stream(record: dict[str, Any]) -> object:
    if "-audit/" in record["eventSourceARN"]:
        return {*record["dynamodb"]["OldImage"]} - {*record["dynamodb"]["Keys"]}
    return new_notice(record)


def _of_recover(action: str, document: dict[str, Any]) -> object:
    match action:
        case "ended":
            return RecoveryState.model_validate_json(document["input"])
        case "read_event":
            return ReadEvent.model_validate(document)
        case _:
            return RecoveryState.model_validate(document)


def _of_queue(queue: str, record: dict[str, Any]) -> object:
    body: str = record["body"]
    match queue:
        case "deliveries" | "backfill":
            return DeliveryMessage.model_validate_json(body).parcel()
        case "events" if is_page(body):
            return FanOutPage.model_validate_json(body).parcels()
        case "events":
            return parse_event(body, fallback_id=record["messageId"], accepted_at=NOW)
        case "contacts":
            return ContactMessage.model_validate_json(body)
        case "notices" if json.loads(body).get("source") == SOURCE:
            return feedback_of(json.loads(body))
        case "notices":
            return NoticeMessage.model_validate_json(body)
        case _:
            raise AssertionError(f"no function reads the queue {queue}")


@pytest.mark.parametrize("path", SAMPLES, ids=lambda path: path.stem)
def test_a_sample_is_as_aws_sends_it_and_is_understood(path: Path) -> None:
    assert path.suffix == ".json"
    read = list(read_by_us(json.loads(path.read_text())))
    assert read
    assert None not in read


@pytest.mark.parametrize("path", SAMPLES, ids=lambda path: path.stem)
def test_a_sample_is_used_by_a_test(path: Path) -> None:
    tests = (ROOT / "tests").rglob("*.py")
    assert any(f'"{path.stem}"' in each.read_text() for each in tests)


def test_what_operators_are_told_has_the_samples_shape() -> None:
    world = World(NOW)
    fault = "Permanent/General: smtp; 550 5.1.1 user unknown"
    publish_unheard(a_notice(status=NoticeStatus.BOUNCED, mail_fault=fault), FakeOperatorBus(world))
    ((detail_type, detail),) = world.bus_events
    bounced, suspended = (_sample(name) for name in ("operator_notice_bounced", "operator_suspended"))
    assert (bounced["detail-type"], bounced["detail"]) == (detail_type, detail)
    identity = {name: value for name, value in detail.items() if name not in ("kind", "reason")}
    assert suspended["detail"].items() >= identity.items()


def _sample(name: str) -> dict[str, Any]:
    return dict(json.loads((ROOT / "events" / f"{name}.json").read_text()))

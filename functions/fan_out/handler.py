"""fan_out: takes events from the events queue, archives them, routes them, and queues their deliveries."""

from datetime import UTC, datetime
from typing import Any

import boto3
from aws_lambda_powertools import Logger, Metrics
from aws_lambda_powertools.metrics import MetricUnit
from hookkeeper.adapters.clients import busy_client
from hookkeeper.adapters.dynamodb_catalogue import DynamoDBCatalogue
from hookkeeper.adapters.dynamodb_events import DynamoDBEvents
from hookkeeper.adapters.dynamodb_subscriptions import DynamoDBRoutes
from hookkeeper.adapters.jsonschema_schemas import CatalogueRules
from hookkeeper.adapters.s3_archive import S3Archive
from hookkeeper.adapters.sqs_lanes import SqsLanes
from hookkeeper.adapters.sqs_queues import SqsPages, SqsRejected
from hookkeeper.domain.errors import InvalidInputError, OwnFaultError
from hookkeeper.event_in import content_hash, data_text, parse_event
from hookkeeper.messages import FanOutPage, is_page
from hookkeeper.settings import FanOutSettings
from hookkeeper.usecases.fan_out import FanOutPorts, Incoming, Taken, fan_out

settings = FanOutSettings.load()
logger = Logger(service="fan_out", level=settings.log_level)
metrics = Metrics(namespace="Hookkeeper", service="fan_out")
dynamodb, sqs = busy_client("dynamodb"), busy_client("sqs")
lanes = SqsLanes(sqs, deliveries_queue_url=settings.deliveries_queue_url)
rejected = SqsRejected(sqs, queue_url=settings.rejected_queue_url)
rules = CatalogueRules(DynamoDBCatalogue(dynamodb, access_table=settings.access_table))
ports = FanOutPorts(
    events=DynamoDBEvents(dynamodb, events_table=settings.events_table),
    archive=S3Archive(
        boto3.client("s3"), dynamodb, bucket=settings.archive_bucket, events_table=settings.events_table
    ),
    routes=DynamoDBRoutes(dynamodb, subscriptions_table=settings.subscriptions_table),
    lanes=lanes,
    pages=SqsPages(sqs, queue_url=settings.events_queue_url),
)


@metrics.log_metrics
def handler(event: dict[str, Any], context: Any) -> dict[str, Any]:
    logger.append_keys(function_request_id=context.aws_request_id)
    records = {record["messageId"]: record for record in event["Records"]}
    incoming, back = _sift(records)
    fanned = fan_out(list(incoming.values()), now=datetime.now(UTC), ports=ports)
    for message_id, taken in zip(incoming, fanned.taken, strict=True):
        metrics.add_metric(f"Events_{taken}", MetricUnit.Count, 1)
        if taken is Taken.CONFLICT:
            back += _rejected(records[message_id], "conflict", "its id was used for another event")
        elif taken is Taken.AGAIN:
            back.append(message_id)
    metrics.add_metric("DeliveriesQueued", MetricUnit.Count, fanned.matches)
    logger.info(
        "events.fanned_out",
        extra={"received": len(records), "matches": fanned.matches, "handed_back": len(back)},
    )
    return {"batchItemFailures": [{"itemIdentifier": message_id} for message_id in back]}


def _sift(records: dict[str, dict[str, Any]]) -> tuple[dict[str, Incoming], list[str]]:
    """The events, and which messages come back; pages of ours are queued, and invalid input is rejected."""
    incoming: dict[str, Incoming] = {}
    back: list[str] = []
    for message_id, record in records.items():
        try:
            if not is_page(record["body"]):
                incoming[message_id] = _incoming(record)
            elif not _enqueued(record):
                back.append(message_id)
        except InvalidInputError as error:
            back += _rejected(record, error.code, f"{error.pointer} {error.detail}".strip())
        except Exception:  # one message's edge: it comes back, its neighbours go on
            logger.exception("message.not_understood", extra={"message_id": message_id})
            back.append(message_id)
    return incoming, back


def _incoming(record: dict[str, Any]) -> Incoming:
    """The event, held to its type's rules of now, unless it was routed under those of then."""
    sent_at = int(record["attributes"]["SentTimestamp"]) / 1000
    event = parse_event(
        record["body"],
        fallback_id=record["messageId"],
        accepted_at=datetime.fromtimestamp(sent_at, UTC),
    )
    incoming = Incoming(event, content_hash(event))
    try:
        rules.check(event.type, data_text(event))
    except InvalidInputError:
        if incoming.id not in ports.events.routed([incoming.id]):
            raise
    return incoming


def _enqueued(record: dict[str, Any]) -> bool:
    """Whether the queue has every delivery of a page of ours, whose faults are no producer's."""
    try:
        parcels = FanOutPage.model_validate_json(record["body"]).parcels()
    except InvalidInputError as error:
        raise OwnFaultError(f"a page of ours has an {error.code}") from error
    return not lanes.send(parcels)


def _rejected(record: dict[str, Any], code: str, reason: str) -> list[str]:
    """Put invalid input where it does not vanish; answers the message's id where that failed.

    Its reason stands there alone, since it may name what the input holds.
    """
    try:
        rejected.send(record["body"], reason=f"{code}: {reason}")
    except OwnFaultError:
        logger.exception("event.not_rejected", extra={"message_id": record["messageId"], "code": code})
        return [record["messageId"]]
    metrics.add_metric("EventsRejected", MetricUnit.Count, 1)
    logger.warning("event.rejected", extra={"message_id": record["messageId"], "code": code})
    return []

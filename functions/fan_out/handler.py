"""fan_out: takes events from the events queue, archives them, routes them, and queues their deliveries."""

from datetime import UTC, datetime
from typing import Any

import boto3
from aws_lambda_powertools import Logger, Metrics
from aws_lambda_powertools.metrics import MetricUnit
from hookkeeper.adapters.dynamodb_events import DynamoDBEvents
from hookkeeper.adapters.dynamodb_subscriptions import DynamoDBRoutes
from hookkeeper.adapters.s3_archive import S3Archive
from hookkeeper.adapters.sqs_lanes import SqsLanes
from hookkeeper.adapters.sqs_queues import SqsPages, SqsRejected
from hookkeeper.domain.errors import InvalidInputError
from hookkeeper.event_in import content_hash, parse_event
from hookkeeper.messages import FanOutPage, is_page
from hookkeeper.settings import FanOutSettings
from hookkeeper.usecases.fan_out import FanOutPorts, Incoming, Taken, fan_out

settings = FanOutSettings.load()
logger = Logger(service="fan_out", level=settings.log_level)
metrics = Metrics(namespace="Hookkeeper", service="fan_out")
dynamodb, sqs = boto3.client("dynamodb"), boto3.client("sqs")
lanes = SqsLanes(sqs, deliveries_queue_url=settings.deliveries_queue_url)
rejected = SqsRejected(sqs, queue_url=settings.rejected_queue_url)
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
@logger.inject_lambda_context(clear_state=True)
def handler(event: dict[str, Any], context: Any) -> dict[str, Any]:
    failures: list[str] = []
    incoming: dict[str, Incoming] = {}
    bodies = {record["messageId"]: record["body"] for record in event["Records"]}
    for record in event["Records"]:
        message_id = record["messageId"]
        try:
            if is_page(record["body"]):
                page = FanOutPage.model_validate_json(record["body"])
                if lanes.send(page.parcels()):
                    failures.append(message_id)
                continue
            incoming[message_id] = _incoming(record)
        except InvalidInputError as error:
            _reject(bodies[message_id], error.code, f"{error.pointer} {error.detail}".strip())
    fanned = fan_out(list(incoming.values()), now=datetime.now(UTC), ports=ports)
    for message_id, taken in zip(incoming, fanned.taken, strict=True):
        metrics.add_metric(f"Events_{taken}", MetricUnit.Count, 1)
        if taken is Taken.CONFLICT:
            _reject(bodies[message_id], "conflict", "its id was used for another event")
        elif taken is Taken.AGAIN:
            failures.append(message_id)
    metrics.add_metric("DeliveriesQueued", MetricUnit.Count, fanned.matches)
    logger.info(
        "events.fanned_out",
        extra={"received": len(bodies), "matches": fanned.matches, "handed_back": len(failures)},
    )
    return {"batchItemFailures": [{"itemIdentifier": message_id} for message_id in failures]}


def _incoming(record: dict[str, Any]) -> Incoming:
    sent_at = int(record["attributes"]["SentTimestamp"]) / 1000
    event = parse_event(
        record["body"],
        fallback_id=record["messageId"],
        accepted_at=datetime.fromtimestamp(sent_at, UTC),
    )
    return Incoming(event, content_hash(event))


def _reject(body: str, code: str, reason: str) -> None:
    """Invalid input never vanishes: it lies in the rejected queue with its reason."""
    rejected.send(body, reason=f"{code}: {reason}")
    metrics.add_metric("EventsRejected", MetricUnit.Count, 1)
    logger.warning("event.rejected", extra={"code": code, "reason": reason})

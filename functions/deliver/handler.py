"""deliver: takes batches of the deliveries and backfill queues, attempts what is due, settles it once."""

import random
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

import boto3
from aws_lambda_powertools import Logger, Metrics
from aws_lambda_powertools.metrics import MetricUnit
from botocore.exceptions import BotoCoreError, ClientError
from hookkeeper.adapters.appconfig_runtime import AppConfigRuntime
from hookkeeper.adapters.clients import RareClient, busy_client
from hookkeeper.adapters.dynamodb_fuse import DynamoDBFuse
from hookkeeper.adapters.dynamodb_health import DynamoDBHealth, DynamoDBRecoveries
from hookkeeper.adapters.dynamodb_ledger import DynamoDBLedger
from hookkeeper.adapters.dynamodb_notices import DynamoDBNotices
from hookkeeper.adapters.dynamodb_subscriptions import DynamoDBSubscriptions
from hookkeeper.adapters.httpx_sender import HttpxSender
from hookkeeper.adapters.ids import TypeIds
from hookkeeper.adapters.kms_secrets import KmsSecrets
from hookkeeper.adapters.s3_archive import S3Archive
from hookkeeper.adapters.sqs_lanes import SqsLanes
from hookkeeper.domain.arrival import Arrival
from hookkeeper.domain.config import Margins
from hookkeeper.domain.delivery import FINAL, Parcel
from hookkeeper.domain.outcome import Answer
from hookkeeper.domain.tenancy import SubscriptionKey
from hookkeeper.messages import DeliveryMessage
from hookkeeper.settings import DeliverSettings
from hookkeeper.usecases.deliver import Delivered, DeliverPorts, Fate, Report, deliver
from hookkeeper.usecases.suspend import Ruled, Ruling

WRITE_SECONDS = 8.0
"""Kept back of the remaining time for writing down how the requests ended."""

MAX_ENTRIES = 10
"""Of one request to SQS."""

_RULINGS = {
    Ruling.SUSPENDED: ("Suspensions", "subscription.suspended"),
    Ruling.OBSERVED: ("WouldSuspend", "subscription.suspension_observed"),
    Ruling.WAITS: ("FuseBlown", "fuse.blown"),
}
"""The metric and the log line of each ruling that is told."""


settings = DeliverSettings.load()
logger = Logger(service="deliver", level=settings.log_level, location=None)
metrics = Metrics(namespace="Hookkeeper", service="deliver")
dynamodb, sqs = busy_client("dynamodb"), busy_client("sqs")
runtime = AppConfigRuntime.of(settings)
lanes = SqsLanes(
    sqs, deliveries_queue_url=settings.deliveries_queue_url, backfill_queue_url=settings.backfill_queue_url
)
ports = DeliverPorts(
    ledger=DynamoDBLedger(
        dynamodb,
        subscriptions_table=settings.subscriptions_table,
        deliveries_table=settings.deliveries_table,
    ),
    health=DynamoDBHealth(
        dynamodb,
        subscriptions_table=settings.subscriptions_table,
        notices_table=settings.notices_table,
    ),
    fuse=DynamoDBFuse(dynamodb, access_table=settings.access_table),
    subscriptions=DynamoDBSubscriptions(
        dynamodb,
        subscriptions_table=settings.subscriptions_table,
        audit_table=settings.audit_table,
        notices_table=settings.notices_table,
    ),
    recoveries=DynamoDBRecoveries(dynamodb, subscriptions_table=settings.subscriptions_table),
    secrets=KmsSecrets(
        dynamodb, boto3.client("kms"), secrets_table=settings.secrets_table, kms_key_id=settings.kms_key_id
    ),
    archive=S3Archive(RareClient("s3"), dynamodb, bucket=settings.archive_bucket),
    sender=HttpxSender(
        allowed_private_cidrs=settings.allowed_private_cidrs,
        allowed_hosts=settings.allowed_hosts,
        own_hosts=settings.own_hosts,
        extra_ca_file=settings.extra_ca_file,
    ),
    lanes=lanes,
    notices=DynamoDBNotices(dynamodb, notices_table=settings.notices_table),
    ids=TypeIds(),
    spread=lambda: random.uniform(-1, 1),  # noqa: S311  # jitter, not a secret
)
margins = Margins(outage=settings.margin)


@metrics.log_metrics
def handler(event: dict[str, Any], context: Any) -> dict[str, Any]:
    logger.append_keys(function_request_id=context.aws_request_id)
    now = datetime.now(UTC)
    records = {record["messageId"]: record for record in event["Records"]}
    parcels = {
        message_id: parcel
        for message_id, record in records.items()
        if (parcel := _parcel(record)) is not None
    }
    delivered = deliver(
        list(parcels.values()),
        now=now,
        config=runtime.current(),
        margins=margins,
        ports=ports,
        seconds_left=lambda: context.get_remaining_time_in_millis() / 1000 - WRITE_SECONDS,
    )
    _tell(delivered, now)
    fates = {message_id: report.fate for message_id, report in zip(parcels, delivered.reports, strict=True)}
    _hurry([records[message_id] for message_id, fate in fates.items() if fate is Fate.AGAIN_NOW])
    back = [message_id for message_id in records if fates.get(message_id) is not Fate.DONE]
    return {"batchItemFailures": [{"itemIdentifier": message_id} for message_id in back]}


def _parcel(record: dict[str, Any]) -> Parcel | None:
    """None where the message cannot be read: it comes back, for the deploy that knows it or to die."""
    try:
        return DeliveryMessage.model_validate_json(record["body"]).parcel()
    except Exception:  # one message's edge: it comes back, its neighbours go on
        metrics.add_metric("OwnFaults", MetricUnit.Count, 1)
        logger.exception("message.not_understood", extra={"message_id": record["messageId"]})
        return None


def _hurry(records: Sequence[dict[str, Any]]) -> None:
    """Make what was not begun visible at once: others have time for it."""
    for start in range(0, len(records), MAX_ENTRIES):
        chunk = records[start : start + MAX_ENTRIES]
        try:
            sqs.change_message_visibility_batch(
                QueueUrl=lanes.url_of(chunk[0]["eventSourceARN"]),
                Entries=[
                    {"Id": str(n), "ReceiptHandle": record["receiptHandle"], "VisibilityTimeout": 0}
                    for n, record in enumerate(chunk)
                ],
            )
        except (ClientError, BotoCoreError):
            logger.warning("messages.not_hurried", extra={"count": len(chunk)}, exc_info=True)


def _tell(delivered: Delivered, now: datetime) -> None:
    for report in delivered.reports:
        _tell_report(report, now)
    for error in delivered.errors:
        metrics.add_metric("OwnFaults", MetricUnit.Count, 1)
        logger.error("batch.aftermath_failed", exc_info=error)
    for key in delivered.opened:
        metrics.add_metric("CircuitsOpened", MetricUnit.Count, 1)
        logger.warning("circuit.opened", extra=_subscription(key))
    for key in delivered.closed:
        logger.info("circuit.closed", extra=_subscription(key))
    if delivered.latched:
        logger.error("fuse.latched")
    for key, ruled in delivered.rulings.items():
        _tell_ruling(key, ruled)


def _tell_report(report: Report, now: datetime) -> None:
    """What was only put aside is counted, not told, or a flood would be told."""
    if report.error is not None:
        metrics.add_metric("OwnFaults", MetricUnit.Count, 1)
        logger.error("delivery.failed_by_us", extra=_report(report), exc_info=report.error)
    elif report.answer is None:
        metrics.add_metric("DeliveriesPutAside", MetricUnit.Count, 1)
    else:
        _count_attempt(report, report.answer, now)
        if report.status is not None and report.status not in FINAL:
            metrics.add_metric("DeliveriesOwed", MetricUnit.Count, 1)
        logger.info("delivery.attempted", extra=_report(report) | _answer(report.answer))


def _count_attempt(report: Report, answer: Answer, now: datetime) -> None:
    if report.outcome is None:
        metrics.add_metric("OwnFaults", MetricUnit.Count, 1)
        return
    lag = now - report.parcel.archived_at
    metrics.add_metric(f"Deliveries_{report.outcome}", MetricUnit.Count, 1)
    metrics.add_metric("AttemptLatency", MetricUnit.Milliseconds, answer.latency_ms)
    metrics.add_metric("EndToEndLag", MetricUnit.Milliseconds, lag.total_seconds() * 1000)


def _tell_ruling(key: SubscriptionKey, ruled: Ruled) -> None:
    if ruled.ruling not in _RULINGS:
        return
    metric, words = _RULINGS[ruled.ruling]
    gate = ruled.verdict.gate if ruled.verdict else None
    by = (gate.outcome or "mixed") if gate else None
    metrics.add_metric(metric, MetricUnit.Count, 1)
    if ruled.ruling is Ruling.SUSPENDED:
        metrics.add_metric(f"Suspensions_{by}", MetricUnit.Count, 1)
    logger.warning(words, extra=_subscription(key) | {"gate": by})


def _report(report: Report) -> dict[str, Any]:
    """A line each: what is as always is left out, since what is logged costs as much as what is stored."""
    return _delivery(report.parcel) | {
        "arrival": None if report.arrival is Arrival.ATTEMPT else report.arrival,
        "fate": None if report.fate is Fate.DONE else report.fate,
        "outcome": report.outcome,
        "settled_as": report.status,
    }


def _delivery(parcel: Parcel) -> dict[str, Any]:
    return _subscription(parcel.key.subscription) | {
        "event_id": parcel.key.event_id,
        "attempt": parcel.attempt,
        "lane": parcel.lane,
        "recovery_id": parcel.recovery_id,
    }


def _answer(answer: Answer) -> dict[str, Any]:
    """Its status and fault; never what the endpoint wrote."""
    return {
        "status_code": answer.status_code,
        "error": answer.error,
        "latency_ms": answer.latency_ms,
        "note": answer.operator_note or None,
    }


def _subscription(key: SubscriptionKey) -> dict[str, Any]:
    return {
        "tenant": key.scope.tenant_id,
        "mode": key.scope.mode,
        "subscription_id": key.subscription_id,
    }

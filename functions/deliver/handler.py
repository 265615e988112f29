"""deliver: takes batches of the deliveries and backfill queues, attempts what is due, settles it once."""

import random
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

import boto3
from aws_lambda_powertools import Logger, Metrics
from aws_lambda_powertools.metrics import MetricUnit
from hookkeeper.adapters.appconfig_runtime import AppConfigRuntime
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
from hookkeeper.domain.config import Margins
from hookkeeper.messages import DeliveryMessage
from hookkeeper.settings import DeliverSettings
from hookkeeper.usecases.deliver import Delivered, DeliverPorts, Fate, Report, deliver
from hookkeeper.usecases.suspend import Ruling

WRITE_SECONDS = 8.0
"""Kept back of the remaining time for writing down how the requests ended."""

settings = DeliverSettings.load()
logger = Logger(service="deliver", level=settings.log_level)
metrics = Metrics(namespace="Hookkeeper", service="deliver")
dynamodb, sqs = boto3.client("dynamodb"), boto3.client("sqs")
runtime = AppConfigRuntime.of(settings)
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
    archive=S3Archive(boto3.client("s3"), dynamodb, bucket=settings.archive_bucket),
    sender=HttpxSender(
        allowed_private_cidrs=settings.allowed_private_cidrs,
        allowed_hosts=settings.allowed_hosts,
        own_hosts=settings.own_hosts,
        extra_ca_file=settings.extra_ca_file,
    ),
    lanes=SqsLanes(
        sqs,
        deliveries_queue_url=settings.deliveries_queue_url,
        backfill_queue_url=settings.backfill_queue_url,
    ),
    notices=DynamoDBNotices(dynamodb, notices_table=settings.notices_table),
    ids=TypeIds(),
    spread=lambda: random.uniform(-1, 1),  # noqa: S311  # jitter, not a secret
)
margins = Margins(outage=settings.margin)


@metrics.log_metrics
@logger.inject_lambda_context(clear_state=True)
def handler(event: dict[str, Any], context: Any) -> dict[str, Any]:
    records = event["Records"]
    now = datetime.now(UTC)
    delivered = deliver(
        [DeliveryMessage.model_validate_json(record["body"]).parcel() for record in records],
        now=now,
        config=runtime.current(),
        margins=margins,
        ports=ports,
        stop_at_seconds=context.get_remaining_time_in_millis() / 1000 - WRITE_SECONDS,
    )
    _tell(delivered, now)
    back = [
        (record, report)
        for record, report in zip(records, delivered.reports, strict=True)
        if report.fate is not Fate.DONE
    ]
    _hurry([record for record, report in back if report.fate is Fate.AGAIN_NOW])
    return {"batchItemFailures": [{"itemIdentifier": record["messageId"]} for record, _ in back]}


def _hurry(records: Sequence[dict[str, Any]]) -> None:
    """Make what was not begun visible at once: others have time for it."""
    for start in range(0, len(records), 10):
        chunk = records[start : start + 10]
        sqs.change_message_visibility_batch(
            QueueUrl=_queue_of(chunk[0]),
            Entries=[
                {"Id": str(n), "ReceiptHandle": record["receiptHandle"], "VisibilityTimeout": 0}
                for n, record in enumerate(chunk)
            ],
        )


def _queue_of(record: dict[str, Any]) -> str:
    name = record["eventSourceARN"].rsplit(":", 1)[1]
    urls = (settings.deliveries_queue_url, settings.backfill_queue_url)
    return next(url for url in urls if url.rsplit("/", 1)[1] == name)


def _tell(delivered: Delivered, now: datetime) -> None:
    for report in delivered.reports:
        _tell_one(report, now)
    for error in delivered.errors:
        metrics.add_metric("OwnFaults", MetricUnit.Count, 1)
        logger.error("batch.aftermath_failed", exc_info=error)
    for key in delivered.opened:
        metrics.add_metric("CircuitsOpened", MetricUnit.Count, 1)
        logger.warning("circuit.opened", extra={"subscription_id": key.subscription_id})
    for key in delivered.closed:
        logger.info("circuit.closed", extra={"subscription_id": key.subscription_id})
    for key, ruled in delivered.rulings.items():
        if ruled.ruling in (Ruling.SUSPENDED, Ruling.OBSERVED):
            gate = ruled.verdict.gate if ruled.verdict else None
            metrics.add_metric("Suspensions", MetricUnit.Count, ruled.ruling is Ruling.SUSPENDED)
            logger.warning(
                f"subscription.{ruled.ruling}",
                extra={
                    "subscription_id": key.subscription_id,
                    "tenant": key.scope.tenant_id,
                    "gate": str(gate.outcome or "mixed") if gate else None,
                },
            )


def _tell_one(report: Report, now: datetime) -> None:
    """One wide line per attempt; what was only put aside is counted, not told, or a flood would be told."""
    parcel, answer = report.parcel, report.answer
    if report.error is not None:
        logger.error("delivery.failed_by_us", extra=_names(report), exc_info=report.error)
        return
    if answer is None:
        metrics.add_metric("DeliveriesPutAside", MetricUnit.Count, 1)
        return
    if report.outcome is not None:
        metrics.add_metric(f"Deliveries_{report.outcome}", MetricUnit.Count, 1)
        metrics.add_metric("AttemptLatency", MetricUnit.Milliseconds, answer.latency_ms)
        metrics.add_metric(
            "EndToEndLag", MetricUnit.Milliseconds, (now - parcel.archived_at).total_seconds() * 1000
        )
    else:
        metrics.add_metric("OwnFaults", MetricUnit.Count, 1)
    logger.info(
        "delivery.attempted",
        extra=_names(report)
        | {
            "outcome": report.outcome,
            "status_code": answer.status_code,
            "error": answer.error,
            "latency_ms": answer.latency_ms,
            "note": answer.operator_note or None,
            "settled_as": report.status,
        },
    )


def _names(report: Report) -> dict[str, Any]:
    parcel = report.parcel
    return {
        "tenant": parcel.key.scope.tenant_id,
        "mode": parcel.key.scope.mode,
        "subscription_id": parcel.key.subscription.subscription_id,
        "event_id": parcel.key.event_id,
        "attempt": parcel.attempt,
        "lane": parcel.lane,
        "arrival": report.arrival,
        "fate": report.fate,
    }

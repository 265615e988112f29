"""sweep: every minute, moves whatever is due and nothing else moves."""

from datetime import UTC, datetime
from typing import Any

import boto3
from aws_lambda_powertools import Logger, Metrics
from aws_lambda_powertools.metrics import MetricUnit
from hookkeeper.adapters.appconfig_runtime import AppConfigRuntime
from hookkeeper.adapters.dynamodb_access import DynamoDBAccess
from hookkeeper.adapters.dynamodb_events import DynamoDBEvents
from hookkeeper.adapters.dynamodb_fuse import DynamoDBFuse
from hookkeeper.adapters.dynamodb_health import DynamoDBHealth, DynamoDBRecoveries
from hookkeeper.adapters.dynamodb_ledger import DynamoDBLedger
from hookkeeper.adapters.dynamodb_notices import DynamoDBNotices
from hookkeeper.adapters.dynamodb_subscriptions import DynamoDBSubscriptions
from hookkeeper.adapters.ids import TypeIds
from hookkeeper.adapters.s3_archive import S3Archive
from hookkeeper.adapters.sfn_workflow import SfnWorkflow
from hookkeeper.adapters.sqs_lanes import SqsLanes
from hookkeeper.adapters.sqs_queues import SqsNotices
from hookkeeper.domain.config import Margins
from hookkeeper.settings import SweepSettings
from hookkeeper.usecases.sweep import SweepPorts, sweep

settings = SweepSettings.load()
logger = Logger(service="sweep", level=settings.log_level)
metrics = Metrics(namespace="Hookkeeper", service="sweep")
dynamodb, sqs = boto3.client("dynamodb"), boto3.client("sqs")
runtime = AppConfigRuntime.of(settings)
margins = Margins(outage=settings.margin)
ports = SweepPorts(
    subscriptions=DynamoDBSubscriptions(
        dynamodb,
        subscriptions_table=settings.subscriptions_table,
        audit_table=settings.audit_table,
        notices_table=settings.notices_table,
    ),
    access=DynamoDBAccess(dynamodb, access_table=settings.access_table),
    fuse=DynamoDBFuse(dynamodb, access_table=settings.access_table),
    health=DynamoDBHealth(
        dynamodb,
        subscriptions_table=settings.subscriptions_table,
        notices_table=settings.notices_table,
    ),
    recoveries=DynamoDBRecoveries(dynamodb, subscriptions_table=settings.subscriptions_table),
    events=DynamoDBEvents(dynamodb, events_table=settings.events_table),
    ledger=DynamoDBLedger(
        dynamodb,
        subscriptions_table=settings.subscriptions_table,
        deliveries_table=settings.deliveries_table,
    ),
    archive=S3Archive(
        boto3.client("s3"), dynamodb, bucket=settings.archive_bucket, events_table=settings.events_table
    ),
    lanes=SqsLanes(
        sqs,
        deliveries_queue_url=settings.deliveries_queue_url,
        backfill_queue_url=settings.backfill_queue_url,
    ),
    notices=DynamoDBNotices(dynamodb, notices_table=settings.notices_table),
    notice_queue=SqsNotices(sqs, queue_url=settings.notices_queue_url),
    workflow=SfnWorkflow(boto3.client("stepfunctions"), state_machine_arn=settings.state_machine_arn),
    ids=TypeIds(),
)


@metrics.log_metrics
@logger.inject_lambda_context(clear_state=True)
def handler(_event: dict[str, Any], _context: Any) -> dict[str, int]:
    swept = sweep(now=datetime.now(UTC), config=runtime.current(), margins=margins, ports=ports)
    done = swept.done
    metrics.add_metric("SweepRuns", MetricUnit.Count, 1)
    metrics.add_metric("OverdueOwedItemsMoved", MetricUnit.Count, done["sent"])
    metrics.add_metric("FuseBlown", MetricUnit.Count, done["policy_waits"])
    metrics.add_metric("Suspensions", MetricUnit.Count, done["policy_suspended"])
    metrics.add_metric("WouldSuspend", MetricUnit.Count, done["policy_observed"])
    logger.info("sweep.ended", extra={"done": dict(done)})
    for error in swept.errors:
        logger.error("sweep.failed_in_part", exc_info=error)
    if swept.errors:
        raise swept.errors[0]
    return dict(done)

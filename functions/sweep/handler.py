"""sweep: every minute, moves whatever is due and nothing else moves."""

import warnings
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
from hookkeeper.adapters.sqs_dead_letters import DeadLetterQueue, SqsDeadLetterQueues
from hookkeeper.adapters.sqs_lanes import SqsLanes
from hookkeeper.adapters.sqs_queues import SqsNotices
from hookkeeper.domain.config import Margins
from hookkeeper.settings import SweepSettings
from hookkeeper.usecases.count_statuses import count_statuses
from hookkeeper.usecases.sweep import SweepPorts, Swept, sweep

_COUNTED = {
    "sent": "OverdueOwedItemsMoved",
    "policy_waits": "FuseBlown",
    "policy_suspended": "Suspensions",
    "policy_observed": "WouldSuspend",
    "tokens_expired": "VerificationsExpired",
}
"""The metric of each thing done that is counted."""

_LATE = {"owed": "OwedLateness", "recovery": "RecoveryLateness", "notice": "NoticeAge"}
"""The metric of how late each kind of due thing was found, in seconds."""

COUNTED_AT = "03:00"
"""When subscriptions are counted, by the schedule's own clock (UTC)."""

warnings.filterwarnings("ignore", "No application metrics to publish")  # it is the good case

settings = SweepSettings.load()
logger = Logger(service="sweep", level=settings.log_level)
metrics = Metrics(namespace="Hookkeeper", service="sweep")
dynamodb, sqs = boto3.client("dynamodb"), boto3.client("sqs")


def _fell_back(error: Exception) -> None:
    """The sweep asks each minute for all functions: what it cannot read, they cannot either."""
    metrics.add_metric("ConfigFellBack", MetricUnit.Count, 1)
    logger.error("runtime_config.fell_back", extra={"error": type(error).__name__})


runtime = AppConfigRuntime.of(settings, on_fallback=_fell_back)
margins = Margins(outage=settings.margin)
dead_letters = SqsDeadLetterQueues(
    sqs,
    queues={
        name: DeadLetterQueue(url, lane_url or None)
        for name, url, lane_url in (told.split("|") for told in settings.dead_letter_queues)
    },
)
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
def handler(event: dict[str, Any], _: Any) -> dict[str, int]:
    swept = sweep(now=datetime.now(UTC), config=runtime.current(), margins=margins, ports=ports)
    with swept.sparing_the_rest():
        _look_into_dead_letters()
    if event["time"][11:16] == COUNTED_AT:
        with swept.sparing_the_rest():
            _count_subscriptions()
    _tell(swept)
    if swept.errors:
        raise swept.errors[0]
    return dict(swept.done)


def _look_into_dead_letters() -> None:
    """Nothing moves them but a person, who is told by this one metric for all the queues."""
    for queue in dead_letters.depths():
        if queue.count:
            metrics.add_metric("DeadLetters", MetricUnit.Count, queue.count)
            logger.warning("dead_letters.found", extra={"queue": queue.name, "count": queue.count})


def _count_subscriptions() -> None:
    """All of them are read for it: once a day, and a minute that is missed is the next day's."""
    for status, count in count_statuses(access=ports.access, subscriptions=ports.subscriptions).items():
        metrics.add_metric(f"Subscriptions_{status}", MetricUnit.Count, count)


def _tell(swept: Swept) -> None:
    """Where nothing happened no metric is written: one costs as long as it is, and the sweep never stops."""
    for word, name in _COUNTED.items():
        if swept.done[word]:
            metrics.add_metric(name, MetricUnit.Count, swept.done[word])
    for kind, name in _LATE.items():
        if kind in swept.late:
            metrics.add_metric(name, MetricUnit.Seconds, swept.late[kind].total_seconds())
    logger.info("sweep.ended", extra={"done": dict(swept.done)})
    for error in swept.errors:
        logger.error("sweep.failed_in_part", exc_info=error)

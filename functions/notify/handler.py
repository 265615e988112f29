"""notify: tells owners and the operator's bus; new notices come by stream, late ones by queue."""

from datetime import UTC, datetime
from typing import Any

import boto3
from aws_lambda_powertools import Logger, Metrics
from aws_lambda_powertools.metrics import MetricUnit
from hookkeeper.adapters.dynamodb_notice_stream import new_notice
from hookkeeper.adapters.dynamodb_notices import DynamoDBNotices
from hookkeeper.adapters.eventbridge_bus import EventBridgeBus
from hookkeeper.adapters.ids import TypeIds
from hookkeeper.adapters.ses_mailer import SesMailer
from hookkeeper.domain.tenancy import Scope, SubscriptionKey
from hookkeeper.messages import NoticeMessage
from hookkeeper.settings import NotifySettings
from hookkeeper.usecases.notify import Notified, Told, notify

settings = NotifySettings.load()
logger = Logger(service="notify", level=settings.log_level)
metrics = Metrics(namespace="Hookkeeper", service="notify")
notices = DynamoDBNotices(boto3.client("dynamodb"), notices_table=settings.notices_table)
mailer = SesMailer(
    boto3.client("sesv2"), sender=settings.sender_address, configuration_set=settings.configuration_set
)
bus = EventBridgeBus(boto3.client("events"), bus_name=settings.bus_name)
ids = TypeIds()


@metrics.log_metrics
@logger.inject_lambda_context(clear_state=True)
def handler(event: dict[str, Any], _: Any) -> dict[str, Any]:
    failed = []
    for record in event["Records"]:
        from_stream = record["eventSource"] == "aws:dynamodb"
        place = record["dynamodb"]["SequenceNumber"] if from_stream else record["messageId"]
        try:
            done = _by_stream(record) if from_stream else _by_queue(record)
        except Exception:  # one record's edge: it comes back, its neighbours go on
            logger.exception("notice.failed_by_us", extra={"record": place})
            done = False
        if not done:
            failed.append({"itemIdentifier": place})
    return {"batchItemFailures": failed}


def _by_stream(record: dict[str, Any]) -> bool:
    """A deferred notice is the sweep's: a shard that waited for one mail would hold up all others."""
    told_of = new_notice(record)
    if told_of is not None:
        _notify(*told_of)
    return True


def _by_queue(record: dict[str, Any]) -> bool:
    message = NoticeMessage.model_validate_json(record["body"])
    key = SubscriptionKey(Scope(message.tenant, message.mode), message.subscription_id)
    return _notify(key, message.notice_id).told is not Told.DEFERRED


def _notify(key: SubscriptionKey, notice_id: str) -> Notified:
    notified = notify(
        key,
        notice_id,
        now=datetime.now(UTC),
        console_url=settings.console_url,
        notices=notices,
        mailer=mailer,
        bus=bus,
        ids=ids,
    )
    told, notice = notified.told, notified.notice
    metrics.add_metric(f"Notices_{told}", MetricUnit.Count, 1)
    logger.info(
        "notice.tried",
        extra={
            "told": told,
            "tenant": key.scope.tenant_id,
            "mode": key.scope.mode,
            "subscription_id": key.subscription_id,
            "notice_id": notice_id,
            "attempts": notice.attempts if notice else None,
            "message_id": notice.message_id if notice else None,
        },
    )
    return notified

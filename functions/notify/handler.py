"""notify: tells owners and the operator's bus of new notices (stream), late ones and mails' fates (queue)."""

import json
from collections import defaultdict
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import Any

import boto3
from aws_lambda_powertools import Logger, Metrics
from aws_lambda_powertools.metrics import MetricUnit
from hookkeeper.adapters.appconfig_runtime import AppConfigRuntime
from hookkeeper.adapters.dynamodb_mailboxes import DynamoDBMailboxes
from hookkeeper.adapters.dynamodb_notice_stream import new_notice
from hookkeeper.adapters.dynamodb_notices import DynamoDBNotices
from hookkeeper.adapters.eventbridge_bus import EventBridgeBus
from hookkeeper.adapters.ids import TypeIds
from hookkeeper.adapters.ses_feedback import SOURCE, feedback_of
from hookkeeper.adapters.ses_mailer import SesMailer
from hookkeeper.domain.notice import UNHEARD, Notice, key_of
from hookkeeper.domain.tenancy import Scope, SubscriptionKey
from hookkeeper.messages import NoticeMessage
from hookkeeper.settings import NotifySettings
from hookkeeper.usecases.hear_back import Heard, hear_back
from hookkeeper.usecases.notify import NotifyPorts, Told, by_address, notify

settings = NotifySettings.load()
logger = Logger(service="notify", level=settings.log_level)
metrics = Metrics(namespace="Hookkeeper", service="notify")
dynamodb = boto3.client("dynamodb")
runtime = AppConfigRuntime.of(settings)
ports = NotifyPorts(
    notices=DynamoDBNotices(dynamodb, notices_table=settings.notices_table),
    mailboxes=DynamoDBMailboxes(dynamodb, notices_table=settings.notices_table),
    mailer=SesMailer(
        boto3.client("sesv2"), sender=settings.sender_address, configuration_set=settings.configuration_set
    ),
    bus=EventBridgeBus(boto3.client("events"), bus_name=settings.bus_name),
    ids=TypeIds(),
)


@metrics.log_metrics
@logger.inject_lambda_context(clear_state=True)
def handler(event: dict[str, Any], _: Any) -> dict[str, Any]:
    """Records that ask for notices of one address share a mail; each comes back alone where it fails."""
    failed = set[str]()
    asking = defaultdict[tuple[SubscriptionKey, str], set[str]](set)
    for record in event["Records"]:
        with _sparing_the_rest(failed, {_place(record)}):
            for wanted in _wanted(record, failed):
                asking[wanted].add(_place(record))
    found: list[Notice] = []
    for (key, notice_id), places in asking.items():
        with _sparing_the_rest(failed, places):
            notice = ports.notices.get(key, notice_id)
            found += [notice] if notice else []
    for notices in by_address(found):
        with _sparing_the_rest(failed, set[str]().union(*(asking[each.key, each.id] for each in notices))):
            _notify(notices)
    return {"batchItemFailures": [{"itemIdentifier": place} for place in sorted(failed)]}


@contextmanager
def _sparing_the_rest(failed: set[str], places: set[str]) -> Iterator[None]:
    try:
        yield
    except Exception:  # one record's edge: it comes back, its neighbours go on
        logger.exception("notice.failed_by_us", extra={"records": sorted(places)})
        failed |= places


def _place(record: dict[str, Any]) -> str:
    from_stream = record["eventSource"] == "aws:dynamodb"
    return str(record["dynamodb"]["SequenceNumber"] if from_stream else record["messageId"])


def _wanted(record: dict[str, Any], failed: set[str]) -> list[tuple[SubscriptionKey, str]]:
    """The notices that the record asks to tell; none where it says what became of a mail."""
    if record["eventSource"] == "aws:dynamodb":
        told_of = new_notice(record)
        return [told_of] if told_of else []
    body = json.loads(record["body"])
    if body.get("source") == SOURCE:
        failed |= set() if _hear_back(body) else {_place(record)}
        return []
    message = NoticeMessage.model_validate(body)
    scope = Scope(message.tenant, message.mode)
    return [(key_of(scope, notice_id), notice_id) for notice_id in message.notice_ids]


def _notify(notices: Sequence[Notice]) -> None:
    """A deferred notice is the sweep's: a shard that waited for one mail would hold up all others."""
    now = datetime.now(UTC)
    rules = runtime.current().mail
    for done in notify(notices, now=now, rules=rules, console_url=settings.console_url, ports=ports):
        told, notice = done.told, done.notice
        metrics.add_metric(f"Notices_{told}", MetricUnit.Count, 1)
        if told is not Told.SETTLED and notice.status in UNHEARD:
            metrics.add_metric("NoticesFailed", MetricUnit.Count, 1)
        _log("notice.tried", notice, told=told)


def _hear_back(event: dict[str, Any]) -> bool:
    """False where the message must come again: its mail is not written down yet."""
    feedback = feedback_of(event)
    if feedback is None:
        return True
    heard = hear_back(
        feedback,
        now=datetime.now(UTC),
        notices=ports.notices,
        mailboxes=ports.mailboxes,
        bus=ports.bus,
    )
    logger.info("mail.came_back", extra={"heard": heard.heard, "message_id": feedback.message_id})
    for notice in heard.notices:
        metrics.add_metric("MailsCameBack", MetricUnit.Count, 1)
        _log("notice.unheard", notice, told=notice.status)
    return heard.heard is not Heard.UNKNOWN_YET


def _log(what: str, notice: Notice, *, told: str) -> None:
    scope = notice.key.scope
    logger.info(
        what,
        extra={
            "told": told,
            "tenant": scope.tenant_id,
            "mode": scope.mode,
            "subscription_id": notice.key.subscription_id,
            "notice_id": notice.id,
            "attempts": notice.attempts,
            "message_id": notice.message_id,
        },
    )

"""contact: reaches endpoints outside of deliveries: challenges and tests by queue, probes of a recovery."""

from datetime import UTC, datetime, timedelta
from typing import Any

import boto3
from aws_lambda_powertools import Logger, Metrics
from aws_lambda_powertools.metrics import MetricUnit
from hookkeeper.adapters.dynamodb_subscriptions import DynamoDBSubscriptions
from hookkeeper.adapters.httpx_sender import HttpxSender
from hookkeeper.adapters.ids import TypeIds
from hookkeeper.adapters.kms_secrets import KmsSecrets
from hookkeeper.domain.config import Margins
from hookkeeper.domain.tenancy import Scope, SubscriptionKey
from hookkeeper.messages import ContactMessage, RecoveryState
from hookkeeper.settings import ContactSettings
from hookkeeper.usecases.challenge import Echo, challenge
from hookkeeper.usecases.probe import probe
from hookkeeper.usecases.send_test import send_test

WRITE_SECONDS = 3.0
"""Kept back of the remaining time for the activation that a right echo asks for."""

JUST_NOW = timedelta(minutes=1)
"""Longer than the activation that has just been written can be from now."""

settings = ContactSettings.load()
logger = Logger(service="contact", level=settings.log_level)
metrics = Metrics(namespace="Hookkeeper", service="contact")
dynamodb = boto3.client("dynamodb")
margins = Margins(outage=settings.margin)
ids = TypeIds()
subscriptions = DynamoDBSubscriptions(
    dynamodb,
    subscriptions_table=settings.subscriptions_table,
    audit_table=settings.audit_table,
    notices_table=settings.notices_table,
)
secrets = KmsSecrets(
    dynamodb, boto3.client("kms"), secrets_table=settings.secrets_table, kms_key_id=settings.kms_key_id
)
sender = HttpxSender(
    allowed_private_cidrs=settings.allowed_private_cidrs,
    allowed_hosts=settings.allowed_hosts,
    own_hosts=settings.own_hosts,
    extra_ca_file=settings.extra_ca_file,
)


@metrics.log_metrics
@logger.inject_lambda_context(clear_state=True)
def handler(event: dict[str, Any], context: Any) -> dict[str, Any]:
    if "Records" not in event:
        return _probe(RecoveryState.model_validate(event), context).model_dump(mode="json")
    failed = []
    for record in event["Records"]:
        try:
            _contact(ContactMessage.model_validate_json(record["body"]), record["messageId"], context)
        except Exception:  # one message's edge: it comes back, its neighbours go on
            logger.exception("contact.failed_by_us", extra={"message_id": record["messageId"]})
            failed.append({"itemIdentifier": record["messageId"]})
    return {"batchItemFailures": failed}


def _contact(message: ContactMessage, message_id: str, context: Any) -> None:
    match message:
        case ContactMessage(kind="challenge", token=str(token)):
            _challenge(message, token, message_id, context)
        case ContactMessage(kind="test", event_type=str(event_type), data=str(data)):
            _test(message, event_type, data, message_id, context)
        case _:
            raise ValueError(f"a {message.kind} without what it is to send")


def _challenge(message: ContactMessage, token: str, message_id: str, context: Any) -> None:
    challenged = challenge(
        _key(message),
        token=token,
        webhook_id=f"msg_{message_id}",
        now=datetime.now(UTC),
        margins=margins,
        subscriptions=subscriptions,
        secrets=secrets,
        sender=sender,
        ids=ids,
        stop_at_seconds=_time_left(context),
    )
    answer = challenged.answer
    if challenged.echo is not Echo.STALE:
        metrics.add_metric("Challenges", MetricUnit.Count, 1)
        metrics.add_metric("ChallengesEchoed", MetricUnit.Count, challenged.echo is Echo.VERIFIED)
    if challenged.echo is Echo.VERIFIED:
        _count_waiting(_key(message), datetime.now(UTC))
    logger.info(
        "endpoint.challenged",
        extra=_names(message)
        | {
            "echo": challenged.echo,
            "status_code": answer.status_code if answer else None,
            "error": answer.error if answer else None,
            "note": answer.operator_note or None if answer else None,
        },
    )


def _count_waiting(key: SubscriptionKey, now: datetime) -> None:
    """How long a subscription was pending; one whose next endpoint was verified has long been active."""
    subscription = subscriptions.get(key)
    active = subscription.first_active_at if subscription else None
    if subscription and active and abs(now - active) < JUST_NOW:
        waited = (active - subscription.created_at).total_seconds()
        metrics.add_metric("TimeToActive", MetricUnit.Seconds, waited)


def _test(message: ContactMessage, event_type: str, data: str, message_id: str, context: Any) -> None:
    answer = send_test(
        _key(message),
        event_type=event_type,
        data=data,
        webhook_id=f"msg_{message_id}",
        now=datetime.now(UTC),
        subscriptions=subscriptions,
        secrets=secrets,
        sender=sender,
        stop_at_seconds=_time_left(context),
    )
    logger.info(
        "endpoint.tested",
        extra=_names(message)
        | {
            "sent": answer is not None,
            "status_code": answer.status_code if answer else None,
            "error": answer.error if answer else None,
        },
    )


def _probe(state: RecoveryState, context: Any) -> RecoveryState:
    """The state with the probe's end; a fault of our own is raised, and the state machine tries again."""
    nonce = state.nonce or ids.new("nonce")
    probed = probe(
        state.key(),
        nonce=nonce,
        webhook_id=ids.new("msg"),
        now=datetime.now(UTC),
        subscriptions=subscriptions,
        secrets=secrets,
        sender=sender,
        stop_at_seconds=_time_left(context),
    )
    metrics.add_metric("Probes", MetricUnit.Count, 1)
    metrics.add_metric("ProbesPassed", MetricUnit.Count, probed.passed)
    logger.info(
        "endpoint.probed",
        extra=_names(state)
        | {
            "recovery_id": state.recovery_id,
            "passed": probed.passed,
            "status_code": probed.status_code,
            "error": probed.error,
            "latency_ms": probed.latency_ms,
        },
    )
    return state.model_copy(
        update={
            "nonce": nonce,
            "passed": probed.passed,
            "status_code": probed.status_code,
            "error": probed.error,
            "next": "activate" if probed.passed else None,
        }
    )


def _key(message: ContactMessage) -> SubscriptionKey:
    return SubscriptionKey(Scope(message.tenant, message.mode), message.subscription_id)


def _time_left(context: Any) -> float:
    return float(context.get_remaining_time_in_millis() / 1000 - WRITE_SECONDS)


def _names(message: ContactMessage | RecoveryState) -> dict[str, Any]:
    return message.model_dump(include={"tenant", "mode", "subscription_id"}, mode="json")

"""What the functions' tests stand on: any function's settings, and the stack's tables, queues and archive."""

import io
import itertools
import json
from collections.abc import Sequence
from datetime import UTC, datetime
from functools import cached_property
from typing import Any, TypeVar

from hookkeeper.adapters.dynamodb_events import DynamoDBEvents
from hookkeeper.adapters.dynamodb_health import DynamoDBHealth, DynamoDBRecoveries
from hookkeeper.adapters.dynamodb_ledger import DynamoDBLedger
from hookkeeper.adapters.dynamodb_notices import DynamoDBNotices
from hookkeeper.adapters.dynamodb_subscriptions import DynamoDBSubscriptions
from hookkeeper.adapters.kms_secrets import KmsSecrets
from hookkeeper.adapters.s3_archive import S3Archive
from hookkeeper.adapters.sqs_lanes import SqsLanes
from hookkeeper.domain.delivery import Delivery, Parcel
from hookkeeper.domain.event import Event
from hookkeeper.domain.health import Health
from hookkeeper.domain.signature import Secret
from hookkeeper.domain.subscription import Subscription
from hookkeeper.domain.tenancy import DeliveryKey, SubscriptionKey
from hookkeeper.ports import Standing
from hookkeeper.settings import Settings

from tests import faults
from tests.builders import a_health, a_key, a_parcel, a_profile, a_secret, an_audit_record
from tests.contracts.conftest import Aws
from tests.functions.conftest import Started

ALL_WELL: dict[str, Any] = {"batchItemFailures": []}
BUCKET = "archive"
ACCOUNT = "123456789012"

S = TypeVar("S", bound=Settings)


class Stage:
    """The stack without its functions; each part is made when first asked for."""

    def __init__(self, aws: Aws) -> None:
        self.aws = aws
        self.dynamodb = aws.client("dynamodb")
        self.sqs = aws.client("sqs")
        self._queues: dict[str, str] = {}
        self._numbers = itertools.count(1)

    # ── what infra makes ─────────────────────────────────────────────────────────────────────────

    def settings(self, model: type[S], **more: Any) -> S:
        """A function's settings, as infra would hand them to it; `more` are those with a default."""
        required = [name for name, field in model.model_fields.items() if field.is_required()]
        return model.model_validate({name: self._setting(name) for name in required} | more)

    def _setting(self, name: str) -> Any:
        if name.endswith("_table"):
            return self.aws.table(name.removesuffix("_table").title())
        if name.endswith("_queue_url"):
            return self.queue(name.removesuffix("_queue_url"))
        match name:
            case "margin_seconds":
                return 300
            case "archive_bucket":
                return self.bucket
            case "kms_key_id" | "state_machine_arn":
                return getattr(self, name)
            case _:
                return name

    def queue(self, name: str) -> str:
        """A queue's URL."""
        if name not in self._queues:
            self._queues[name] = self.sqs.create_queue(QueueName=f"hookkeeper-{name}")["QueueUrl"]
        return self._queues[name]

    @cached_property
    def bucket(self) -> str:
        self.aws.client("s3").create_bucket(Bucket=BUCKET)
        return BUCKET

    @cached_property
    def kms_key_id(self) -> str:
        return str(self.aws.client("kms").create_key()["KeyMetadata"]["KeyId"])

    @cached_property
    def state_machine_arn(self) -> str:
        machine = self.aws.client("stepfunctions").create_state_machine(
            name="recovery",
            definition=json.dumps({"StartAt": "Done", "States": {"Done": {"Type": "Succeed"}}}),
            roleArn=f"arn:aws:iam::{ACCOUNT}:role/recovery",
        )
        return str(machine["stateMachineArn"])

    # ── what is in it ────────────────────────────────────────────────────────────────────────────

    @cached_property
    def subscriptions(self) -> DynamoDBSubscriptions:
        tables = [self.aws.table(name) for name in ("Subscriptions", "Audit", "Notices")]
        return DynamoDBSubscriptions(
            self.dynamodb, subscriptions_table=tables[0], audit_table=tables[1], notices_table=tables[2]
        )

    @cached_property
    def health(self) -> DynamoDBHealth:
        return DynamoDBHealth(
            self.dynamodb,
            subscriptions_table=self.aws.table("Subscriptions"),
            notices_table=self.aws.table("Notices"),
        )

    @cached_property
    def recoveries(self) -> DynamoDBRecoveries:
        return DynamoDBRecoveries(self.dynamodb, subscriptions_table=self.aws.table("Subscriptions"))

    @cached_property
    def ledger(self) -> DynamoDBLedger:
        return DynamoDBLedger(
            self.dynamodb,
            subscriptions_table=self.aws.table("Subscriptions"),
            deliveries_table=self.aws.table("Deliveries"),
        )

    @cached_property
    def notices(self) -> DynamoDBNotices:
        return DynamoDBNotices(self.dynamodb, notices_table=self.aws.table("Notices"))

    @cached_property
    def secrets(self) -> KmsSecrets:
        return KmsSecrets(
            self.dynamodb,
            self.aws.client("kms"),
            secrets_table=self.aws.table("Secrets"),
            kms_key_id=self.kms_key_id,
        )

    @cached_property
    def events(self) -> DynamoDBEvents:
        return DynamoDBEvents(self.dynamodb, events_table=self.aws.table("Events"))

    @cached_property
    def archive(self) -> S3Archive:
        return S3Archive(
            self.aws.client("s3"), self.dynamodb, bucket=self.bucket, events_table=self.aws.table("Events")
        )

    @cached_property
    def lanes(self) -> SqsLanes:
        return SqsLanes(
            self.sqs,
            deliveries_queue_url=self.queue("deliveries"),
            backfill_queue_url=self.queue("backfill"),
        )

    def add(
        self, subscription: Subscription, health: Health | None = None, *, secret: Secret | None = None
    ) -> Subscription:
        """A subscription as if created so; with a secret where one is given."""
        key = subscription.key
        refused = self.subscriptions.create(
            subscription,
            a_profile(),
            health or a_health(key=key),
            an_audit_record(next(self._numbers), scope=key.scope, subject=key.subscription_id),
        )
        assert refused is None
        if secret is not None:
            self.secrets.create(key, secret, version=1, now=datetime.now(UTC))
        return subscription

    def add_signed(self, subscription: Subscription, health: Health | None = None) -> Subscription:
        return self.add(subscription, health, secret=a_secret())

    def standing(self, key: SubscriptionKey | None = None) -> Standing:
        standing = self.subscriptions.standing(key or a_key())
        assert standing is not None
        return standing

    def delivery(self, key: DeliveryKey) -> Delivery | None:
        return self.ledger.read([key]).get(key)

    def archived(
        self, event: Event, subscription: SubscriptionKey | None = None, *, at: datetime | None = None
    ) -> Parcel:
        """The message of an event that lies in the archive since then, or just now."""
        (archived,) = self.archive.put([event], now=at or datetime.now(UTC))
        return a_parcel(
            key=DeliveryKey(subscription or a_key(), event.id),
            event_type=event.type,
            archived_at=archived.archived_at,
            pointer=archived.pointer,
            body=event.body,
        )

    # ── queues as Lambda sees them ───────────────────────────────────────────────────────────────

    def put(self, queue: str, *bodies: str) -> None:
        for body in bodies:
            self.sqs.send_message(QueueUrl=self.queue(queue), MessageBody=body)

    def batch(self, queue: str, *, visibility_seconds: int = 720) -> dict[str, Any]:
        """Whatever is in the queue now, as the event that Lambda makes of it."""
        records: list[dict[str, Any]] = []
        while received := self._receive(queue, visibility_seconds):
            records += [_record(queue, message) for message in received]
        return {"Records": records}

    def _receive(self, queue: str, visibility_seconds: int) -> Sequence[dict[str, Any]]:
        answer = self.sqs.receive_message(
            QueueUrl=self.queue(queue),
            MaxNumberOfMessages=10,
            VisibilityTimeout=visibility_seconds,
            WaitTimeSeconds=0,
            AttributeNames=["All"],
            MessageAttributeNames=["All"],
        )
        return list(answer.get("Messages", []))

    def bodies(self, queue: str) -> list[dict[str, Any]]:
        """The JSON of what is in the queue now."""
        return [json.loads(record["body"]) for record in self.batch(queue)["Records"]]


def _record(queue: str, message: dict[str, Any]) -> dict[str, Any]:
    return {
        "messageId": message["MessageId"],
        "receiptHandle": message["ReceiptHandle"],
        "body": message["Body"],
        "attributes": message["Attributes"],
        "messageAttributes": {
            name: {"stringValue": value["StringValue"], "dataType": value["DataType"]}
            for name, value in message.get("MessageAttributes", {}).items()
        },
        "md5OfBody": message["MD5OfBody"],
        "eventSource": "aws:sqs",
        "eventSourceARN": f"arn:aws:sqs:us-east-1:{ACCOUNT}:hookkeeper-{queue}",
        "awsRegion": "us-east-1",
    }


def back(*message_ids: str) -> dict[str, Any]:
    """The answer that hands these messages back, and no others."""
    return {"batchItemFailures": [{"itemIdentifier": message_id} for message_id in message_ids]}


def ids(event: dict[str, Any]) -> list[str]:
    return [record["messageId"] for record in event["Records"]]


def configured(function: Started, document: str = "{}") -> Started:
    """The function with a runtime configuration: AppConfig's data plane is not in moto."""
    client = function.module.runtime._client
    faults.answer(client, "StartConfigurationSession", [{"InitialConfigurationToken": "first"}])
    faults.answer(
        client,
        "GetLatestConfiguration",
        [{"Configuration": io.BytesIO(document.encode()), "NextPollConfigurationToken": "second"}],
    )
    return function


def metric(function_output: str, name: str) -> float:
    """The sum of a metric over the EMF documents that were printed."""
    total = 0.0
    for line in function_output.splitlines():
        if line.startswith("{") and '"_aws"' in line:
            values = json.loads(line).get(name, [])
            total += sum(values) if isinstance(values, list) else values
    return total

"""The functions as AWS starts them, over a counting AWS, with tenants, subscriptions and their messages."""

import io
import json
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import boto3
from hookkeeper.adapters.dynamodb_subscriptions import DynamoDBSubscriptions
from hookkeeper.adapters.kms_secrets import KmsSecrets
from hookkeeper.domain.delivery import Parcel
from hookkeeper.domain.tenancy import DeliveryKey, SubscriptionKey
from hookkeeper.messages import DeliveryMessage
from hookkeeper.settings import DeliverSettings, FanOutSettings, Settings

from tests.builders import (
    a_health,
    a_key,
    a_parcel,
    a_profile,
    a_scope,
    a_secret,
    a_subscription,
    an_audit_record,
)
from tests.functions.cold import LambdaContext, cold_start

REGION = "us-east-1"
NOWHERE = "http://127.0.0.1:9"
"""Where boto3 is pointed when nothing shall reach a wire."""

TENANTS = 10
BODY_BYTES = 1_500
"""Of an event as it is sent: the usual size of the field (PERFORMANCE §11)."""

ENDPOINT_URL = "https://hooks.customer.example"


@dataclass(frozen=True, slots=True)
class Context(LambdaContext):
    def get_remaining_time_in_millis(self) -> int:
        return 120_000


@dataclass(frozen=True, slots=True)
class Started:
    """A function that has started; `log` is all that it wrote: lines and metrics."""

    module: Any
    log: io.StringIO

    def __call__(self, event: Mapping[str, Any]) -> Any:
        answer = self.module.handler(event, Context())
        if answer["batchItemFailures"]:
            raise AssertionError(f"{len(answer['batchItemFailures'])} messages came back: {self.tail()}")
        return answer

    def tail(self) -> str:
        return self.log.getvalue()[-2_000:]


def point_boto3_at(url: str) -> None:
    """As Lambda's environment would, but for where AWS is."""
    for name in [name for name in os.environ if name.lower().endswith("_proxy")]:
        del os.environ[name]
    os.environ.update(
        {
            "AWS_ENDPOINT_URL": url,
            "AWS_DEFAULT_REGION": REGION,
            "AWS_ACCESS_KEY_ID": "testing",
            "AWS_SECRET_ACCESS_KEY": "testing",
            "AWS_CONFIG_FILE": os.devnull,
            "AWS_SHARED_CREDENTIALS_FILE": os.devnull,
            "AWS_EC2_METADATA_DISABLED": "true",
        }
    )


def settings(model: type[Settings], url: str, **more: Any) -> Settings:
    """Every setting of a function that has no default, by its name."""

    def setting(name: str) -> Any:
        if name.endswith("_table"):
            return name.removesuffix("_table").title()
        if name.endswith("_queue_url"):
            return f"{url}/123456789012/{name.removesuffix('_queue_url')}"
        match name:
            case "margin_seconds":
                return 300
            case "dead_letter_queues":
                return ("Events|https://sqs/dead|https://sqs/events",)
        return name

    required = [name for name, field in model.model_fields.items() if field.is_required()]
    return model.model_validate({name: setting(name) for name in required} | more)


def start(verb: str, told: Settings) -> Started:
    os.environ.update(told.environment())
    module = cold_start(verb)
    log = io.StringIO()
    module.logger.registered_handler.setStream(log)
    return Started(module, log)


def start_deliver(url: str, **more: Any) -> Started:
    return start("deliver", settings(DeliverSettings, url, **more))


def start_fan_out(url: str) -> Started:
    return start("fan_out", settings(FanOutSettings, url))


# ── what is in it ────────────────────────────────────────────────────────────────────────────────


def keys(count: int) -> list[SubscriptionKey]:
    """So many subscriptions, spread over the tenants in turn."""
    return [a_key(n, a_scope(f"tenant{n % TENANTS}")) for n in range(count)]


def subscribe(
    wanted: Sequence[SubscriptionKey],
    *,
    urls: Sequence[str] = (),
    event_types: Sequence[tuple[str, ...]] = (),
    last_successes: Sequence[datetime] = (),
    outage_from: datetime | None = None,
    **changes: Any,
) -> None:
    """Active subscriptions and their secrets, as the API makes them, each with its URL and filter."""
    dynamodb = boto3.client("dynamodb")
    subscriptions = DynamoDBSubscriptions(
        dynamodb, subscriptions_table="Subscriptions", audit_table="Audit", notices_table="Notices"
    )
    secrets = KmsSecrets(dynamodb, boto3.client("kms"), secrets_table="Secrets", kms_key_id="k")
    now = datetime.now(UTC)
    for n, key in enumerate(wanted):
        url = urls[n] if urls else f"{ENDPOINT_URL}/{n}"
        kinds = event_types[n] if event_types else ("*",)
        succeeded = last_successes[n] if last_successes else now
        refused = subscriptions.create(
            a_subscription(key=key, endpoint_url=url, event_types=kinds, **changes),
            a_profile(),
            a_health(key=key, last_success_at=succeeded, outage_from=outage_from),
            an_audit_record(n, scope=key.scope, subject=key.subscription_id),
        )
        assert refused is None
        secrets.create(key, a_secret(), version=1, now=now)


def a_body(n: int) -> bytes:
    """The bytes that are signed and sent, 1,500 of them."""
    head = f'{{"type":"invoice.paid","timestamp":"2026-12-01T12:00:00Z","data":{{"n":{n},"note":"'
    return f'{head}{"x" * (BODY_BYTES - len(head) - 3)}"}}}}'.encode()


def a_message(key: SubscriptionKey, event_id: str, *, archived_at: datetime | None = None) -> Parcel:
    parcel = a_parcel(key=DeliveryKey(key, event_id), archived_at=archived_at or datetime.now(UTC))
    return replace(parcel, body=a_body(1))


def deliver_event(parcels: Iterable[Parcel]) -> dict[str, Any]:
    bodies = [DeliveryMessage.of(parcel).model_dump_json(exclude_none=True) for parcel in parcels]
    return records("deliveries", bodies)


def records(queue: str, bodies: Sequence[str], *, sent_at: datetime | None = None) -> dict[str, Any]:
    """Messages as Lambda hands them over."""
    sent = str(int((sent_at or datetime.now(UTC)).timestamp() * 1000))
    return {
        "Records": [
            {
                "messageId": f"{queue}-{n}",
                "receiptHandle": "r" * 200,
                "body": body,
                "attributes": {"ApproximateReceiveCount": "1", "SentTimestamp": sent},
                "messageAttributes": {},
                "eventSource": "aws:sqs",
                "eventSourceARN": f"arn:aws:sqs:{REGION}:123456789012:{queue}",
                "awsRegion": REGION,
            }
            for n, body in enumerate(bodies)
        ]
    }


def event_in(n: int, event_type: str = "invoice.paid") -> str:
    """An event as a producer sends it by SQS; its delivery is 1,500 bytes."""
    note = "x" * (BODY_BYTES - 110)
    return json.dumps(
        {
            "id": f"evt_{n:026d}",
            "tenant_id": f"tenant{n % TENANTS}",
            "type": event_type,
            "data": {"n": n, "note": note},
        }
    )


def chunks(items: Sequence[Any], size: int) -> Iterator[Sequence[Any]]:
    return (items[start : start + size] for start in range(0, len(items), size))


def trusted_files(folder: Path) -> tuple[Path, Path]:
    """The certificate and key of an authority of this run."""
    from infra.local.authority import ensure_authority

    certificate, key = folder / "ca.pem", folder / "ca.key"
    ensure_authority(certificate, key)
    return certificate, key

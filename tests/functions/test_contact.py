import json
import socket
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from hookkeeper.adapters.dynamodb_subscriptions import DynamoDBSubscriptions
from hookkeeper.adapters.kms_secrets import KmsSecrets
from hookkeeper.domain.errors import OwnFaultError, SecretUnavailableError
from hookkeeper.domain.signature import encode_secret, token_hash
from hookkeeper.domain.subscription import Status, Subscription
from hookkeeper.messages import RecoveryState
from hookkeeper.settings import ContactSettings

from infra.local.authority import ensure_authority, server_context
from infra.local.receiver import Behaviour, Receiver
from tests.builders import (
    a_failing_health,
    a_key,
    a_pending_subscription,
    a_profile,
    a_secret,
    a_subscription,
    a_suspended_subscription,
    an_audit_record,
)
from tests.contracts.conftest import Aws
from tests.functions.conftest import ColdStart, Started, a_sample
from tests.functions.stage import metric

TOKEN = json.loads(a_sample("contact")["Records"][0]["body"])["token"]
ALL_WELL: dict[str, Any] = {"batchItemFailures": []}


@dataclass
class Stage:
    """A running contact, its tables, and how to put a subscription into them."""

    contact: Started
    subscriptions: DynamoDBSubscriptions
    secrets: KmsSecrets
    aws: Aws

    def add(self, subscription: Subscription, *, with_secret: bool = True) -> None:
        key = subscription.key
        refused = self.subscriptions.create(
            subscription, a_profile(), a_failing_health(key=key), an_audit_record(subject=subscription.id)
        )
        assert refused is None
        if with_secret:
            self.secrets.create(key, a_secret(), version=1, now=datetime.now(UTC))

    def status(self, number: int = 1) -> Status:
        subscription = self.subscriptions.get(a_key(number))
        assert subscription is not None
        return subscription.status


Stages = Callable[..., Stage]


@pytest.fixture
def stages(aws: Aws, cold_start: ColdStart) -> Iterator[Stages]:
    started: list[Stage] = []

    def start(**egress: Any) -> Stage:
        key_id = aws.client("kms").create_key()["KeyMetadata"]["KeyId"]
        settings = ContactSettings(
            stage="test",
            subscriptions_table=aws.table("Subscriptions"),
            secrets_table=aws.table("Secrets"),
            audit_table=aws.table("Audit"),
            notices_table=aws.table("Notices"),
            kms_key_id=key_id,
            margin_seconds=300,
            **egress,
        )
        stage = Stage(
            contact=cold_start("contact", settings),
            subscriptions=DynamoDBSubscriptions(
                aws.client("dynamodb"),
                subscriptions_table="Subscriptions",
                audit_table="Audit",
                notices_table="Notices",
            ),
            secrets=KmsSecrets(
                aws.client("dynamodb"), aws.client("kms"), secrets_table="Secrets", kms_key_id=key_id
            ),
            aws=aws,
        )
        started.append(stage)
        return stage

    yield start
    for stage in started:
        stage.contact.module.sender.close()


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    folder = tmp_path_factory.mktemp("authority")
    certificate, key = folder / "ca.pem", folder / "ca.key"
    ensure_authority(certificate, key)
    return certificate, key


@pytest.fixture
def receiver(authority: tuple[Path, Path]) -> Iterator[Receiver]:
    with Receiver(server_context(*authority)) as receiver:
        receiver.trust("/hooks", encode_secret(a_secret().key))
        yield receiver


@pytest.fixture
def stage(stages: Stages, authority: tuple[Path, Path]) -> Stage:
    """A contact that may reach this machine, as on a local stage."""
    return stages(
        allowed_private_cidrs=("127.0.0.0/8",), allowed_hosts=("localhost",), extra_ca_file=str(authority[0])
    )


def waiting(url: str) -> Subscription:
    return a_pending_subscription(
        endpoint_url=url,
        token_hash=token_hash(TOKEN),
        token_expires_at=datetime.now(UTC) + timedelta(hours=1),
    )


def another(url: str) -> Subscription:
    return a_subscription(key=a_key(2), endpoint_url=url + "/2")


# ── by queue ─────────────────────────────────────────────────────────────────────────────────────


def test_a_batch_of_a_challenge_and_a_test_verifies_the_one_and_reaches_the_other(
    stage: Stage, receiver: Receiver, capsys: pytest.CaptureFixture[str]
) -> None:
    stage.add(replace(waiting(receiver.url()), created_at=datetime.now(UTC) - timedelta(minutes=5)))
    stage.add(another(receiver.url()))
    receiver.trust("/hooks/2", encode_secret(a_secret().key))
    assert stage.contact(a_sample("contact")) == ALL_WELL
    assert stage.status() is Status.ACTIVE
    challenge, test = receiver.received
    assert challenge.verified
    assert challenge.event["type"] == "endpoint.verification"
    assert challenge.headers["webhook-id"] == "msg_059f36b4-87a3-44ab-83d2-661975830a7d"
    assert test.verified
    assert test.headers["hookkeeper-lane"] == "test"
    assert test.body.endswith(b'"data":{"amount": 1.10}}')
    out = capsys.readouterr().out
    assert (metric(out, "Challenges"), metric(out, "ChallengesEchoed")) == (1, 1)
    assert metric(out, "TimeToActive") >= 300


def test_an_endpoint_that_says_no_is_no_fault_of_ours_and_stays_pending(
    stage: Stage, receiver: Receiver
) -> None:
    stage.add(waiting(receiver.url()))
    receiver.behave(Behaviour(status=500))
    assert stage.contact(a_sample("contact")) == ALL_WELL
    assert stage.status() is Status.PENDING


def test_our_own_fault_hands_back_its_message_alone(stage: Stage, receiver: Receiver) -> None:
    stage.add(waiting(receiver.url()), with_secret=False)
    stage.add(another(receiver.url()))
    event = a_sample("contact")
    failed = {"batchItemFailures": [{"itemIdentifier": event["Records"][0]["messageId"]}]}
    assert stage.contact(event) == failed
    assert stage.status() is Status.PENDING
    assert [request.headers["hookkeeper-lane"] for request in receiver.received] == ["test"]


@pytest.mark.parametrize(
    "body",
    [
        *("{", "[]", '"x"', '{"v":99,"kind":"test"}'),
        '{"v":1,"kind":"dance","tenant":"acme","mode":"live"}',
        '{"v":1,"kind":"challenge","tenant":"acme","mode":"live","subscription_id":"sub_1"}',
    ],
)
def test_f14_a_message_nobody_understands_comes_back_and_its_neighbours_go_on(
    stage: Stage, receiver: Receiver, body: str
) -> None:
    stage.add(another(receiver.url()))
    event = a_sample("contact")
    event["Records"][0]["body"] = body
    answer = stage.contact(event)
    assert answer == {"batchItemFailures": [{"itemIdentifier": event["Records"][0]["messageId"]}]}
    assert len(receiver.received) == 1


def test_a_batch_that_fails_whole_is_handed_back_without_an_error(stage: Stage) -> None:
    event = a_sample("contact")
    for record in event["Records"]:
        record["body"] = "{"
    assert len(stage.contact(event)["batchItemFailures"]) == 2


def test_where_no_time_is_left_nothing_is_begun_and_the_message_comes_back(
    stage: Stage, receiver: Receiver
) -> None:
    stage.add(waiting(receiver.url()))
    event = a_sample("contact")
    answer = stage.contact(replace_records(event, 1), seconds_left=9)
    assert answer == {"batchItemFailures": [{"itemIdentifier": event["Records"][0]["messageId"]}]}
    assert receiver.received == ()


def replace_records(event: dict[str, Any], count: int) -> dict[str, Any]:
    return {"Records": event["Records"][:count]}


def test_neither_token_nor_secret_nor_query_is_logged(stage: Stage, receiver: Receiver) -> None:
    stage.add(waiting(receiver.url("/hooks?key=s3cret")))
    stage.contact(a_sample("contact"))
    logged = stage.contact.log.getvalue()
    assert "endpoint.challenged" in logged
    for secret in (TOKEN, "s3cret", encode_secret(a_secret().key)):
        assert secret not in logged


# ── by the state machine ─────────────────────────────────────────────────────────────────────────


def test_a_probe_that_passes_returns_the_whole_state_and_asks_for_activation(
    stage: Stage, receiver: Receiver
) -> None:
    stage.add(a_suspended_subscription(endpoint_url=receiver.url()))
    event = a_sample("probe")
    answer = stage.contact(event)
    expected = RecoveryState.model_validate(event).model_dump(mode="json")
    assert answer == expected | {"passed": True, "status_code": 200, "error": None, "next": "activate"}
    assert receiver.received[0].verified
    assert receiver.received[0].event["data"] == {"nonce": event["nonce"]}
    assert stage.status() is Status.SUSPENDED


def test_a_probe_that_fails_says_why_and_asks_for_nothing(stage: Stage, receiver: Receiver) -> None:
    stage.add(a_suspended_subscription(endpoint_url=receiver.url()))
    receiver.behave(Behaviour(status=503))
    answer = stage.contact(a_sample("probe"))
    assert (answer["passed"], answer["status_code"], answer["error"]) == (False, 503, "http_503")
    assert answer["next"] is None
    assert answer["recovery_id"] == a_sample("probe")["recovery_id"]


def test_a_probe_without_a_nonce_gets_one(stage: Stage, receiver: Receiver) -> None:
    stage.add(a_suspended_subscription(endpoint_url=receiver.url()))
    answer = stage.contact(a_sample("probe") | {"nonce": None})
    assert answer["nonce"].startswith("nonce_")
    assert receiver.received[0].event["data"] == {"nonce": answer["nonce"]}


def test_a_probe_that_our_own_side_fails_raises_so_that_the_state_machine_tries_again(
    stage: Stage, receiver: Receiver
) -> None:
    stage.add(a_suspended_subscription(endpoint_url=receiver.url()), with_secret=False)
    with pytest.raises(SecretUnavailableError):
        stage.contact(a_sample("probe"))
    stage.secrets.create(a_key(), a_secret(), version=1, now=datetime.now(UTC))
    with pytest.raises(OwnFaultError, match="out_of_time"):
        stage.contact(a_sample("probe"), seconds_left=9)
    assert receiver.received == ()


def test_f34_a_probe_leaves_health_as_it_was(stage: Stage, receiver: Receiver) -> None:
    stage.add(a_suspended_subscription(endpoint_url=receiver.url()))
    before = stage.subscriptions.standing(a_key())
    receiver.behave(Behaviour(status=500))
    stage.contact(a_sample("probe"))
    assert stage.subscriptions.standing(a_key()) == before


# ── BB-26: one guard on every path ───────────────────────────────────────────────────────────────


@pytest.mark.parametrize("path", ["challenge", "test", "probe"])
def test_bb26_no_path_opens_a_socket_to_a_forbidden_address(
    path: str,
    stages: Stages,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    stage = stages()
    url = "https://hooks.customer.dev/in"
    resolved: list[str] = []

    def to_metadata(host: str, *_: Any, **__: Any) -> list[Any]:
        resolved.append(host)
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", ("169.254.170.2", 443))]

    def no_socket(*_: Any) -> None:
        raise AssertionError("a socket was opened")

    monkeypatch.setattr(socket, "getaddrinfo", to_metadata)
    monkeypatch.setattr(socket.socket, "connect", no_socket)
    if path == "probe":
        stage.add(a_suspended_subscription(endpoint_url=url))
        answer = stage.contact(a_sample("probe"))
        assert (answer["passed"], answer["error"]) == (False, "blocked_address")
        assert "169.254" not in json.dumps(answer)
    else:
        stage.add(waiting(url))
        stage.add(another(url))
        number = ["challenge", "test"].index(path)
        event = a_sample("contact")
        assert stage.contact({"Records": [event["Records"][number]]}) == ALL_WELL
        assert stage.status() is Status.PENDING
    assert resolved == ["hooks.customer.dev"]
    assert '"error":"blocked_address"' in stage.contact.log.getvalue()

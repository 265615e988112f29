"""deliver as Lambda runs it: whole batches, an endpoint over TLS, and whatever goes wrong between."""

import json
import logging
from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from hookkeeper.domain.delivery import DeliveryStatus, Parcel
from hookkeeper.domain.health import Streak
from hookkeeper.domain.outcome import Outcome
from hookkeeper.domain.signature import encode_secret
from hookkeeper.domain.subscription import Status, Subscription
from hookkeeper.domain.tenancy import DeliveryKey
from hookkeeper.settings import DeliverSettings
from hookkeeper.usecases import request

from infra.local.authority import ensure_authority, server_context
from infra.local.receiver import Behaviour, Receiver
from tests import faults
from tests.builders import (
    a_health,
    a_key,
    a_pending_subscription,
    a_secret,
    a_subscription,
    a_suspended_subscription,
    an_event,
)
from tests.contracts.conftest import Aws
from tests.functions.conftest import ColdStart, Started, a_sample
from tests.functions.stage import ALL_WELL, Stage, back, configured, ids, metric

WEBHOOK_ID = an_event().id
FAILED_BEFORE = {
    "streaks": {Outcome.RETRYABLE: Streak(3, datetime.now(UTC) - timedelta(hours=1))},
    "consecutive_failures": 3,
    "first_failure_at": datetime.now(UTC) - timedelta(hours=1),
    "last_outcome": Outcome.RETRYABLE,
}


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
def stage(aws: Aws) -> Stage:
    return Stage(aws)


@pytest.fixture
def start(
    stage: Stage, cold_start: ColdStart, authority: tuple[Path, Path]
) -> Iterator[Callable[[], Started]]:
    """A cold start of deliver, which may reach this machine, as on a local stage."""
    started: list[Started] = []

    def start() -> Started:
        settings = stage.settings(
            DeliverSettings,
            allowed_private_cidrs=("127.0.0.0/8",),
            allowed_hosts=("localhost",),
            extra_ca_file=str(authority[0]),
        )
        started.append(configured(cold_start("deliver", settings)))
        return started[-1]

    yield start
    for each in started:
        each.module.ports.sender.close()


@pytest.fixture
def deliver(start: Callable[[], Started]) -> Started:
    return start()


def endpoint(receiver: Receiver, number: int = 1, **changes: Any) -> Subscription:
    """An active subscription to the receiver, on a path of its own but for the first."""
    path = "/hooks" if number == 1 else f"/hooks/{number}"
    return a_subscription(key=a_key(number), endpoint_url=receiver.url(path), **changes)


def queued(stage: Stage, *parcels: Parcel) -> dict[str, Any]:
    """The batch that Lambda makes of these messages."""
    assert not stage.lanes.send(parcels)
    return stage.batch("deliveries")


def paths(receiver: Receiver) -> list[str]:
    return [each.path for each in receiver.received]


# ── the way of a delivery ────────────────────────────────────────────────────────────────────────


def test_a_message_is_one_signed_request_and_a_line_in_the_ledger(
    stage: Stage, deliver: Started, receiver: Receiver, capsys: pytest.CaptureFixture[str]
) -> None:
    stage.add_signed(endpoint(receiver))
    assert deliver(a_sample("deliver")) == ALL_WELL
    (request,) = receiver.received
    assert request.verified
    assert request.body == json.loads(a_sample("deliver")["Records"][0]["body"])["body"].encode()
    assert request.headers["webhook-id"] == "evt_1001"
    assert request.headers["hookkeeper-attempt"] == "1"
    delivery = stage.delivery(DeliveryKey(a_key(), "evt_1001"))
    assert delivery is not None
    assert (delivery.status, delivery.attempt_count) == (DeliveryStatus.SUCCEEDED, 1)
    (line,) = deliver.lines("delivery.attempted")
    assert (line["event_id"], line["outcome"], line["status_code"]) == ("evt_1001", "success", 200)
    out = capsys.readouterr().out
    assert metric(out, "Deliveries_success") == 1
    assert metric(out, "OwnFaults") == metric(out, "DeliveriesOwed") == 0


def test_a_failed_attempt_is_tried_again_by_a_delayed_message_and_counts_only_at_the_end(
    stage: Stage, deliver: Started, receiver: Receiver, capsys: pytest.CaptureFixture[str]
) -> None:
    stage.add_signed(endpoint(receiver))
    receiver.behave(Behaviour(status=500))
    calls = faults.counted(deliver.module.sqs)
    assert deliver(queued(stage, stage.archived(an_event()))) == ALL_WELL
    delivery = stage.delivery(DeliveryKey(a_key(), WEBHOOK_ID))
    assert delivery is not None
    assert delivery.status is DeliveryStatus.RETRYING
    assert calls["SendMessageBatch"] == 1
    assert stage.batch("deliveries") == {"Records": []}, "the retry is not there before its time"
    assert [owed.key.event_id for owed in stage.ledger.owed(a_key(), limit=9)] == [WEBHOOK_ID]
    assert metric(capsys.readouterr().out, "DeliveriesOwed") == 1
    assert stage.standing().health.consecutive_failures == 0


def test_a_late_message_of_a_recovery_goes_back_to_what_is_owed(
    stage: Stage, deliver: Started, receiver: Receiver
) -> None:
    stage.add_signed(endpoint(receiver))
    assert deliver(a_sample("deliver_backfill")) == ALL_WELL
    assert paths(receiver) == []
    delivery = stage.delivery(DeliveryKey(a_key(), "evt_1002"))
    assert delivery is not None
    assert (delivery.status, delivery.attempt_count) == (DeliveryStatus.HELD, 0)


def test_a_body_over_64_kib_travels_by_reference_and_is_sent_to_the_byte(
    stage: Stage, deliver: Started, receiver: Receiver
) -> None:
    stage.add_signed(endpoint(receiver))
    large = an_event(body=b'{"type":"invoice.paid","data":"' + b"\xc3\xa9" * 40_000 + b'"}')
    event = queued(stage, stage.archived(large))
    assert "body" not in json.loads(event["Records"][0]["body"])
    assert deliver(event) == ALL_WELL
    (request,) = receiver.received
    assert request.verified
    assert request.body == large.body


def test_an_event_that_has_left_the_archive_ends_as_expired_without_an_attempt(
    stage: Stage, deliver: Started, receiver: Receiver
) -> None:
    stage.add_signed(endpoint(receiver))
    gone = replace(stage.archived(an_event()), body=None)
    stage.aws.client("s3").delete_object(Bucket=stage.bucket, Key=gone.pointer.object_key)
    assert deliver(queued(stage, gone)) == ALL_WELL
    delivery = stage.delivery(gone.key)
    assert delivery is not None
    assert (delivery.status, delivery.attempt_count) == (DeliveryStatus.EXPIRED, 0)
    assert paths(receiver) == []


def test_a_warm_function_keeps_its_connection_and_its_opened_secret(
    stage: Stage, deliver: Started, receiver: Receiver
) -> None:
    stage.add_signed(endpoint(receiver))
    kms = faults.counted(deliver.module.ports.secrets._kms)
    assert deliver(queued(stage, stage.archived(an_event(1)))) == ALL_WELL
    connections = set(receiver._open)
    assert deliver(queued(stage, stage.archived(an_event(2)))) == ALL_WELL
    assert len(receiver.received) == 2
    assert receiver._open == connections
    assert len(connections) == 1
    assert kms["Decrypt"] == 1


# ── parts of a batch ─────────────────────────────────────────────────────────────────────────────


def test_f04_exactly_what_our_own_side_failed_comes_back(
    stage: Stage, deliver: Started, receiver: Receiver, capsys: pytest.CaptureFixture[str]
) -> None:
    stage.add_signed(endpoint(receiver, 1))
    stage.add(endpoint(receiver, 2), a_health(key=a_key(2), **FAILED_BEFORE))
    stage.add_signed(endpoint(receiver, 3))
    before = stage.standing(a_key(2))
    parcels = [stage.archived(an_event(n), a_key(n)) for n in (1, 2, 3)]
    event = queued(stage, *parcels[:2])
    stage.put("deliveries", '{"v":1,"kind":"deliv')
    event["Records"] += stage.batch("deliveries")["Records"] + queued(stage, parcels[2])["Records"]
    _, unsigned, unreadable, _ = ids(event)
    assert sorted(deliver(event)["batchItemFailures"], key=str) == sorted(
        back(unsigned, unreadable)["batchItemFailures"], key=str
    )
    assert sorted(paths(receiver)) == ["/hooks", "/hooks/3"]
    assert stage.delivery(parcels[1].key) is None
    assert stage.standing(a_key(2)) == before
    assert metric(capsys.readouterr().out, "OwnFaults") == 2


KNOWN = json.loads(a_sample("deliver")["Records"][0]["body"])
UNREADABLE = [
    *("{", "[]", '"x"', "null", " " * 1024 * 1024, '{"v":99}', '{"v":1,"kind":"delivery"}'),
    json.dumps(KNOWN | {"tenant": "acme#live"}),
    json.dumps(KNOWN | {"kind": "page"}),
    json.dumps(KNOWN | {"attempt": 0}),
]


def test_f14_messages_nobody_understands_come_back_to_die_and_their_neighbours_go_on(
    stage: Stage, deliver: Started, receiver: Receiver
) -> None:
    stage.add_signed(endpoint(receiver))
    event = a_sample("deliver")
    bad = [event["Records"][0] | {"messageId": f"bad{n}", "body": body} for n, body in enumerate(UNREADABLE)]
    event["Records"] = bad[:5] + event["Records"] + bad[5:]
    assert deliver(event) == back(*(record["messageId"] for record in bad))
    assert len(receiver.received) == 1


def test_f54_a_newer_version_waits_for_the_deploy_that_knows_it_and_this_one_goes_on(
    stage: Stage, deliver: Started, receiver: Receiver
) -> None:
    stage.add_signed(endpoint(receiver))
    event = a_sample("deliver")
    for version in (2, 3):
        newer = json.dumps(KNOWN | {"v": version, "event_id": f"evt_v{version}", "colour": "new"})
        event["Records"].append(event["Records"][0] | {"messageId": f"v{version}", "body": newer})
    assert deliver(event) == back("v2", "v3")
    assert [each.event_id for each in receiver.received] == ["evt_1001"]


def test_f06_a_batch_that_fails_whole_is_handed_back_without_an_error(deliver: Started) -> None:
    event = a_sample("deliver")
    event["Records"] = [event["Records"][0] | {"messageId": f"m{n}", "body": "{"} for n in range(25)]
    assert deliver(event) == back(*(f"m{n}" for n in range(25)))


def test_one_message_twice_in_a_batch_and_one_delivery_in_two_messages_are_one_request(
    stage: Stage, deliver: Started, receiver: Receiver
) -> None:
    stage.add_signed(endpoint(receiver))
    parcel = stage.archived(an_event())
    event = queued(stage, parcel, parcel)
    event["Records"].append(event["Records"][0])
    assert deliver(event) == ALL_WELL
    assert len(receiver.received) == 1


def test_f15_an_event_that_was_archived_twice_is_sent_once(
    stage: Stage, deliver: Started, receiver: Receiver
) -> None:
    stage.add_signed(endpoint(receiver))
    for _ in range(2):
        assert deliver(queued(stage, stage.archived(an_event()))) == ALL_WELL
    assert len(receiver.received) == 1


# ── time ─────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("seconds_left, timeout_seconds, begun", [(9, 1, 0), (20, 15, 0), (20, 5, 10)])
def test_f03_what_there_is_no_time_for_is_not_begun_and_is_there_for_others_at_once(
    stage: Stage,
    deliver: Started,
    receiver: Receiver,
    seconds_left: float,
    timeout_seconds: int,
    begun: int,
) -> None:
    stage.add_signed(endpoint(receiver, timeout_seconds=timeout_seconds))
    event = queued(stage, *(stage.archived(an_event(n)) for n in range(1, 11)))
    answer = deliver(event, seconds_left=seconds_left)
    assert len(receiver.received) == begun
    assert len(answer["batchItemFailures"]) == 10 - begun
    again = stage.batch("deliveries")
    assert sorted(ids(again)) == sorted(each["itemIdentifier"] for each in answer["batchItemFailures"])
    if begun < 10:
        assert deliver(again) == ALL_WELL
    assert sorted(each.event_id for each in receiver.received) == [an_event(n).id for n in range(1, 11)]
    assert {each.headers["hookkeeper-attempt"] for each in receiver.received} == {"1"}


def test_where_visibility_cannot_be_changed_messages_come_back_all_the_same(
    stage: Stage, deliver: Started, receiver: Receiver
) -> None:
    stage.add_signed(endpoint(receiver))
    event = queued(stage, stage.archived(an_event()))
    faults.refuse(deliver.module.sqs, "ChangeMessageVisibilityBatch", code="ServiceUnavailable")
    assert deliver(event, seconds_left=9) == back(*ids(event))
    assert "messages.not_hurried" in deliver.log.getvalue()


# ── faults of our own ────────────────────────────────────────────────────────────────────────────


def test_a_secret_that_is_missing_is_our_fault_and_is_sent_once_it_is_there(
    stage: Stage, deliver: Started, receiver: Receiver, capsys: pytest.CaptureFixture[str]
) -> None:
    stage.add(endpoint(receiver), a_health(**FAILED_BEFORE))
    before = stage.standing()
    parcel = stage.archived(an_event())
    event = queued(stage, parcel)
    assert deliver(event) == back(*ids(event))
    assert paths(receiver) == []
    assert stage.delivery(parcel.key) is None
    assert stage.standing() == before
    assert stage.batch("deliveries") == {"Records": []}, "what our side failed is not hurried"
    assert metric(capsys.readouterr().out, "OwnFaults") == 1
    stage.secrets.create(a_key(), a_secret(), version=1, now=datetime.now(UTC))
    assert deliver(event) == ALL_WELL
    assert [each.headers["hookkeeper-attempt"] for each in receiver.received] == ["1"]


def test_f01_killed_between_request_and_ledger_it_is_sent_again_as_the_same_attempt_and_counted_once(
    stage: Stage, start: Callable[[], Started], receiver: Receiver
) -> None:
    stage.add_signed(endpoint(receiver))
    event = queued(stage, stage.archived(an_event()))

    def die(**_: Any) -> None:
        raise SystemExit("out of memory")

    killed = start()
    killed.module.dynamodb.meta.events.register("before-call.dynamodb.BatchWriteItem", die)
    killed.module.dynamodb.meta.events.register("before-call.dynamodb.TransactWriteItems", die)
    with pytest.raises(SystemExit):
        killed(event)
    assert start()(event) == ALL_WELL
    assert {(each.event_id, each.headers["hookkeeper-attempt"]) for each in receiver.received} == {
        (WEBHOOK_ID, "1")
    }
    assert len(receiver.received) == 2
    delivery = stage.delivery(DeliveryKey(a_key(), WEBHOOK_ID))
    assert delivery is not None
    assert (delivery.status, delivery.attempt_count) == (DeliveryStatus.SUCCEEDED, 1)
    assert stage.standing().health.consecutive_failures == 0


def test_f08_a_ledger_write_whose_answer_was_lost_is_known_as_ours(
    stage: Stage, deliver: Started, receiver: Receiver
) -> None:
    stage.add_signed(endpoint(receiver))
    receiver.behave(Behaviour(status=500))
    faults.lose_answer(deliver.module.dynamodb, "TransactWriteItems")
    parcel = stage.archived(an_event())
    assert deliver(queued(stage, parcel)) == ALL_WELL
    delivery = stage.delivery(parcel.key)
    assert delivery is not None
    assert (delivery.status, delivery.attempt_count) == (DeliveryStatus.RETRYING, 1)
    assert len(receiver.received) == 1


def test_f23_of_redriven_messages_only_the_active_subscriptions_is_sent_and_no_health_changes(
    stage: Stage, deliver: Started, receiver: Receiver
) -> None:
    now = datetime.now(UTC)
    subscriptions = [
        endpoint(receiver),
        a_suspended_subscription(key=a_key(2), endpoint_url=receiver.url("/hooks/2")),
        a_subscription(key=a_key(3), endpoint_url=receiver.url("/hooks/3"), status=Status.REVOKED),
        a_pending_subscription(
            key=a_key(4), endpoint_url=receiver.url("/hooks/4"), token_expires_at=now + timedelta(hours=1)
        ),
        endpoint(receiver, 5, event_types=("order.*",)),
    ]
    for subscription in subscriptions[1:]:
        stage.add_signed(subscription, a_health(key=subscription.key, **FAILED_BEFORE))
    stage.add_signed(subscriptions[0])
    before = [stage.standing(each.key) for each in subscriptions]
    parcels = [stage.archived(an_event(), each.key) for each in subscriptions]
    assert deliver(queued(stage, *parcels)) == ALL_WELL
    assert paths(receiver) == ["/hooks"]
    ends = [stage.delivery(parcel.key) for parcel in parcels[1:]]
    assert [(end.status, end.attempts) for end in ends if end is not None] == [
        (DeliveryStatus.HELD, ()),
        (DeliveryStatus.DISCARDED, ()),
        (DeliveryStatus.HELD, ()),
        (DeliveryStatus.DISCARDED, ()),
    ]
    assert [stage.standing(each.key) for each in subscriptions[1:]] == before[1:]


def test_a_message_for_a_subscription_that_is_not_there_is_let_go(deliver: Started) -> None:
    assert deliver(a_sample("deliver")) == ALL_WELL


# ── what is told ─────────────────────────────────────────────────────────────────────────────────


def test_an_endpoint_that_fails_for_long_is_suspended_and_it_is_said_once(
    stage: Stage, deliver: Started, receiver: Receiver, capsys: pytest.CaptureFixture[str]
) -> None:
    began = datetime.now(UTC) - timedelta(days=3)
    failing = {
        "streaks": {Outcome.FATAL: Streak(99, began)},
        "consecutive_failures": 99,
        "first_failure_at": began,
        "last_outcome": Outcome.FATAL,
    }
    stage.add_signed(endpoint(receiver), a_health(**failing))
    receiver.behave(Behaviour(status=410))
    assert deliver(queued(stage, stage.archived(an_event()))) == ALL_WELL
    assert stage.standing().subscription.status is Status.SUSPENDED
    (line,) = deliver.lines("subscription.suspended")
    assert line["subscription_id"] == a_key().subscription_id
    assert metric(capsys.readouterr().out, "Suspensions") == 1
    assert [notice.kind for notice in stage.notices.of(a_key(), limit=9)] == ["suspended"]


CANARIES = {
    "body": "4111111111111111",
    "answer": "canary-in-an-answer",
    "header": "canary-in-a-header",
    "query": "canary-in-a-query",
    "secret": encode_secret(a_secret().key),
    "bare secret": encode_secret(a_secret().key).removeprefix("whsec_"),
}


def test_t19_neither_secrets_nor_bodies_are_logged_however_it_ends(
    stage: Stage,
    deliver: Started,
    receiver: Receiver,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    capsys: pytest.CaptureFixture[str],
) -> None:
    caplog.set_level(logging.DEBUG, logger="hookkeeper")
    headers = {"authorization": f"Bearer {CANARIES['header']}"}
    url = receiver.url(f"/hooks?key={CANARIES['query']}")
    stage.add_signed(a_subscription(endpoint_url=url, headers=headers))
    # The receiver gives a nonce back: so an endpoint's answer holds a canary too.
    body = b'{"type":"invoice.paid","data":{"card":"4111111111111111","nonce":"canary-in-an-answer"}}'
    for number, status in enumerate((200, 500, 410), start=1):
        receiver.behave(Behaviour(status=status))
        assert deliver(queued(stage, stage.archived(an_event(number, body=body)))) == ALL_WELL
    unreadable = KNOWN | {"v": 9, "body": body.decode()}
    stage.put("deliveries", json.dumps(unreadable), json.dumps(unreadable)[:-9], body.decode())
    assert len(deliver(stage.batch("deliveries"))["batchItemFailures"]) == 3

    def broken(*_: Any, **__: Any) -> str:
        raise ArithmeticError("the signer broke")

    monkeypatch.setattr(request, "sign", broken)
    event = queued(stage, stage.archived(an_event(9, body=body)))
    assert deliver(event) == back(*ids(event))
    logged = deliver.log.getvalue() + caplog.text + capsys.readouterr().out
    assert "ArithmeticError" in logged
    for line in ("delivery.attempted", "message.not_understood", "delivery.failed_by_us"):
        assert line in logged
    assert {name for name, canary in CANARIES.items() if canary in logged} == set()
    kept = json.dumps([stage.aws.items(name) for name in ("Deliveries", "Notices", "Audit")], default=str)
    assert {name for name, canary in CANARIES.items() if canary in kept} == {"answer"}, "an excerpt is kept"

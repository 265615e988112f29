"""fan_out as Lambda runs it: events by queue, by bus and by page, and whatever is wrong with them."""

import json
import logging
from collections import Counter
from typing import Any

import pytest
from hookkeeper.domain.delivery import Parcel
from hookkeeper.domain.subscription import Subscription
from hookkeeper.domain.tenancy import Mode, Scope
from hookkeeper.messages import DeliveryMessage
from hookkeeper.settings import FanOutSettings
from hookkeeper.usecases import fan_out as usecase

from tests import faults
from tests.builders import a_key, a_scope, a_subscription, a_suspended_subscription
from tests.contracts.conftest import Aws
from tests.functions.conftest import ColdStart, Started, a_sample
from tests.functions.stage import ALL_WELL, Stage, back, ids, metric


@pytest.fixture
def stage(aws: Aws) -> Stage:
    return Stage(aws)


@pytest.fixture
def fan_out(stage: Stage, cold_start: ColdStart) -> Started:
    return cold_start("fan_out", stage.settings(FanOutSettings))


@pytest.fixture
def subscription(stage: Stage) -> Subscription:
    """One that takes every event of its tenant."""
    return stage.add(a_subscription())


def parcels(stage: Stage) -> list[Parcel]:
    """What the deliveries queue has been given."""
    return [
        DeliveryMessage.model_validate_json(record["body"]).parcel()
        for record in stage.batch("deliveries")["Records"]
    ]


def events_of(stage: Stage) -> list[str]:
    return sorted(parcel.key.event_id for parcel in parcels(stage))


def an_input(number: int = 1, **changes: Any) -> str:
    plain = {"id": f"evt_{number}", "tenant_id": "acme", "type": "invoice.paid", "data": {"n": number}}
    return json.dumps({name: value for name, value in (plain | changes).items() if value is not None})


def batch(stage: Stage, *bodies: str) -> dict[str, Any]:
    stage.put("events", *bodies)
    event = stage.batch("events")
    order = {body: place for place, body in enumerate(bodies)}
    event["Records"].sort(key=lambda record: order[record["body"]])
    return event


# ── three ways in ────────────────────────────────────────────────────────────────────────────────


def test_events_by_queue_are_archived_routed_and_queued(
    stage: Stage, fan_out: Started, capsys: pytest.CaptureFixture[str]
) -> None:
    stage.add(a_subscription(event_types=("invoice.*",)))
    stage.add(a_subscription(key=a_key(2), event_types=("*",), resource_id="shop_7"))
    stage.add(a_suspended_subscription(key=a_key(3)))
    stage.add(a_subscription(key=a_key(1, Scope("other", Mode.LIVE))))
    stage.add(a_subscription(key=a_key(1, Scope("acme", Mode.TEST))))
    event = a_sample("fan_out")
    assert fan_out(event) == ALL_WELL
    second = ids(event)[1]
    queued = {
        (parcel.key.scope, parcel.key.subscription.subscription_id): parcel for parcel in parcels(stage)
    }
    assert {key: parcel.key.event_id for key, parcel in queued.items()} == {
        (a_scope(), a_key(1).subscription_id): "evt_1001",
        (a_scope(), a_key(2).subscription_id): second,
    }
    first = queued[a_scope(), a_key(1).subscription_id]
    assert first.body is not None
    assert first.body.endswith(b'"data":{"invoice":"in_1","amount":1.10}}')
    assert stage.archive.body(a_scope(), first.pointer) == first.body
    items = stage.events.routed([(a_scope(), "evt_1001"), (a_scope(), second)])
    assert sorted(item.matches for item in items.values()) == [1, 1]
    assert metric(capsys.readouterr().out, "DeliveriesQueued") == 2
    (line,) = fan_out.lines("events.fanned_out")
    assert (line["received"], line["matches"], line["handed_back"]) == (2, 2, 0)


@pytest.mark.usefixtures("subscription")
def test_an_event_by_the_bus_takes_its_id_and_time_from_the_envelope(stage: Stage, fan_out: Started) -> None:
    assert fan_out(a_sample("fan_out_eventbridge")) == ALL_WELL
    (parcel,) = parcels(stage)
    assert (parcel.key.event_id, parcel.event_type) == (
        "6a7e8feb-b491-4cf7-a9f1-bf3703467718",
        "invoice.paid",
    )
    assert parcel.body == (
        b'{"type":"invoice.paid","timestamp":"2026-11-30T23:59:58.000000Z",'
        b'"data":{"invoice":"in_1","amount":1.1}}'
    )


def test_a_page_of_ours_only_enqueues(stage: Stage, fan_out: Started) -> None:
    assert fan_out(a_sample("fan_out_page")) == ALL_WELL
    queued = parcels(stage)
    assert {parcel.key.subscription for parcel in queued} == {a_key(1), a_key(2)}
    assert {(parcel.key.event_id, parcel.attempt) for parcel in queued} == {("evt_1001", 1)}
    assert stage.aws.items("Events") == []


def test_a_wide_event_goes_by_pages_that_this_very_function_takes(
    stage: Stage, fan_out: Started, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(usecase, "WIDE", 2)
    keys = {a_key(number) for number in range(1, 6)}
    for key in keys:
        stage.add(a_subscription(key=key))
    assert fan_out(batch(stage, an_input())) == ALL_WELL
    assert parcels(stage) == []
    pages = stage.batch("events")
    assert len(pages["Records"]) == 3
    assert fan_out(pages) == ALL_WELL
    queued = parcels(stage)
    assert Counter(parcel.key.subscription for parcel in queued) == Counter(keys)
    assert {parcel.body for parcel in queued} == {stage.archive.body(a_scope(), queued[0].pointer)}


@pytest.mark.usefixtures("subscription")
def test_f58_a_body_over_64_kib_stays_in_the_archive_to_the_byte(stage: Stage, fan_out: Started) -> None:
    large = an_input(data={"text": "é" * 40_000, "exact": 1})
    assert fan_out(batch(stage, large)) == ALL_WELL
    (record,) = stage.batch("deliveries")["Records"]
    assert len(record["body"]) < 2_000
    parcel = DeliveryMessage.model_validate_json(record["body"]).parcel()
    assert parcel.body is None
    body = json.loads(stage.archive.body(a_scope(), parcel.pointer))
    assert body["data"] == {"text": "é" * 40_000, "exact": 1}


# ── what is wrong with one is not its neighbours' ────────────────────────────────────────────────

INVALID = [
    ("{", "invalid_json"),
    ("[]", "wrong_type"),
    ('"x"', "wrong_type"),
    (" " * 1000, "invalid_json"),
    (an_input(tenant_id=None), "missing"),
    (an_input(tenant_id="a#b"), "invalid_id"),
    (an_input(mode="dead"), "invalid_value"),
    (an_input(colour="red"), "unknown_key"),
    (an_input(type="Invoice Paid"), "invalid_event_type"),
    (an_input(id="a#b"), "invalid_id"),
    (an_input(occurred_at="yesterday"), "invalid_time"),
    (an_input(data={"text": "x" * 300_000}), "too_large"),
    ('{"detail-type":"invoice.paid","detail":[]}', "wrong_type"),
    ('{"kind":"page","v":1}', "missing"),
]


@pytest.mark.usefixtures("subscription")
def test_invalid_input_lies_in_the_rejected_queue_with_its_reason_and_its_neighbours_go_through(
    stage: Stage, fan_out: Started, capsys: pytest.CaptureFixture[str]
) -> None:
    event = batch(stage, an_input(1), *(body for body, _ in INVALID), an_input(2))
    assert fan_out(event) == ALL_WELL
    assert events_of(stage) == ["evt_1", "evt_2"]
    rejected = {
        record["body"]: record["messageAttributes"]["reason"]["stringValue"].partition(":")[0]
        for record in stage.batch("rejected")["Records"]
    }
    assert rejected == dict(INVALID)
    assert metric(capsys.readouterr().out, "EventsRejected") == len(INVALID)
    assert [line["code"] for line in fan_out.lines("event.rejected")] == [code for _, code in INVALID]


@pytest.mark.usefixtures("subscription")
def test_where_rejecting_fails_the_input_comes_back_alone(stage: Stage, fan_out: Started) -> None:
    event = batch(stage, "{", an_input(1))
    faults.refuse(fan_out.module.sqs, "SendMessageBatch", code="ServiceUnavailable", times=3)
    assert fan_out(event) == back(ids(event)[0])
    assert events_of(stage) == ["evt_1"]
    assert fan_out({"Records": event["Records"][:1]}) == ALL_WELL
    assert len(stage.batch("rejected")["Records"]) == 1


@pytest.mark.usefixtures("subscription")
def test_f54_a_page_that_cannot_be_read_comes_back_to_die_and_its_neighbours_go_through(
    stage: Stage, fan_out: Started
) -> None:
    (page,) = a_sample("fan_out_page")["Records"]
    event = batch(stage, an_input(1))
    for n, body in enumerate(
        [
            page["body"].replace('{"v":1', '{"v":2'),
            page["body"][:-20],
            page["body"].replace('"acme"', '"a#b"'),
            page["body"].replace('"subscription_ids":[', '"subscription_ids":[],"more":['),
        ]
    ):
        event["Records"].insert(0, page | {"messageId": f"bad{n}", "body": body})
    answer = fan_out(event)
    assert sorted(each["itemIdentifier"] for each in answer["batchItemFailures"]) == [
        *("bad0", "bad1", "bad2", "bad3")
    ]
    assert events_of(stage) == ["evt_1"]
    assert stage.batch("rejected") == {"Records": []}, "what is ours is not the producer's fault"


# ── duplicates and conflicts ─────────────────────────────────────────────────────────────────────


@pytest.mark.usefixtures("subscription")
def test_f15_an_event_twice_in_a_batch_and_again_later_is_routed_once(
    stage: Stage, fan_out: Started, capsys: pytest.CaptureFixture[str]
) -> None:
    event = batch(stage, an_input(1))
    twin = event["Records"][0] | {"messageId": "twin"}
    assert fan_out({"Records": [*event["Records"], twin, event["Records"][0]]}) == ALL_WELL
    assert fan_out(event) == ALL_WELL
    assert events_of(stage) == ["evt_1"]
    out = capsys.readouterr().out
    assert (metric(out, "Events_routed"), metric(out, "Events_duplicate")) == (1, 2)


@pytest.mark.usefixtures("subscription")
def test_another_event_under_a_used_id_is_rejected_and_the_first_stands(
    stage: Stage, fan_out: Started
) -> None:
    assert fan_out(batch(stage, an_input(1), an_input(1, data={"n": "other"}), an_input(2))) == ALL_WELL
    assert fan_out(batch(stage, an_input(1, type="invoice.sent"))) == ALL_WELL
    assert events_of(stage) == ["evt_1", "evt_2"]
    rejected = stage.batch("rejected")["Records"]
    assert [record["messageAttributes"]["reason"]["stringValue"] for record in rejected] == [
        "conflict: its id was used for another event"
    ] * 2


@pytest.mark.usefixtures("subscription")
def test_one_id_in_two_tenants_is_two_events(stage: Stage, fan_out: Started) -> None:
    stage.add(a_subscription(key=a_key(1, a_scope("other"))))
    assert fan_out(batch(stage, an_input(1), an_input(1, tenant_id="other", data={}))) == ALL_WELL
    queued = parcels(stage)
    assert {parcel.key.scope.tenant_id for parcel in queued} == {"acme", "other"}
    for parcel in queued:
        assert stage.archive.body(parcel.key.scope, parcel.pointer) == parcel.body


# ── what AWS does on a bad day ───────────────────────────────────────────────────────────────────


@pytest.mark.usefixtures("subscription")
def test_after_a_crash_between_archive_and_event_item_the_same_batch_is_harmless(
    stage: Stage, fan_out: Started
) -> None:
    event = batch(stage, an_input(1), an_input(2))

    def die(**_: Any) -> None:
        raise SystemExit("out of memory")

    events = fan_out.module.dynamodb.meta.events
    events.register("before-call.dynamodb.PutItem", die)
    with pytest.raises(SystemExit):
        fan_out(event)
    events.unregister("before-call.dynamodb.PutItem", die)
    assert fan_out(event) == ALL_WELL
    queued = parcels(stage)
    assert Counter(parcel.key.event_id for parcel in queued) == {"evt_1": 2, "evt_2": 2}
    assert {(parcel.key.event_id, parcel.attempt, parcel.body) for parcel in queued} == {
        (parcel.key.event_id, 1, stage.archive.body(a_scope(), parcel.pointer)) for parcel in queued
    }
    items = stage.events.routed([(a_scope(), "evt_1"), (a_scope(), "evt_2")])
    assert len(items) == 2
    assert fan_out(event) == ALL_WELL
    assert parcels(stage) == []


@pytest.mark.usefixtures("subscription")
def test_what_a_queue_refuses_comes_back_alone_and_is_queued_the_next_time(
    stage: Stage, fan_out: Started
) -> None:
    event = batch(stage, an_input(1), an_input(2))
    # evt_2 fails for good: SQS says it is the sender's fault; evt_1 is accepted.
    partly = {
        "Successful": [{"Id": "0", "MessageId": "m", "MD5OfMessageBody": "x"}],
        "Failed": [{"Id": "1", "Code": "InternalError", "SenderFault": True}],
    }
    faults.answer(fan_out.module.sqs, "SendMessageBatch", [partly])
    assert fan_out(event) == back(ids(event)[1])
    assert list(stage.events.routed([(a_scope(), "evt_1"), (a_scope(), "evt_2")])) == [(a_scope(), "evt_1")]
    assert fan_out({"Records": event["Records"][1:]}) == ALL_WELL
    assert events_of(stage) == ["evt_2"]


@pytest.mark.usefixtures("subscription")
def test_h2_while_the_queue_is_down_everything_comes_back_without_an_error(
    stage: Stage, fan_out: Started
) -> None:
    for sample, deliveries in (("fan_out", 2), ("fan_out_eventbridge", 1), ("fan_out_page", 2)):
        event = a_sample(sample)
        faults.refuse(fan_out.module.sqs, "SendMessageBatch", code="ServiceUnavailable", times=3)
        assert fan_out(event) == back(*ids(event))
        assert parcels(stage) == []
        assert fan_out(event) == ALL_WELL
        assert len(parcels(stage)) == deliveries


@pytest.mark.usefixtures("subscription")
def test_without_the_archive_nothing_is_queued_and_the_batch_comes_back(
    stage: Stage, fan_out: Started
) -> None:
    event = batch(stage, an_input(1))
    s3 = fan_out.module.ports.archive._s3
    faults.refuse(s3, "PutObject", code="SlowDown")
    with pytest.raises(s3.exceptions.ClientError):
        fan_out(event)
    assert parcels(stage) == []
    assert fan_out(event) == ALL_WELL
    assert events_of(stage) == ["evt_1"]


@pytest.mark.usefixtures("subscription")
def test_h11_no_body_is_logged_whatever_becomes_of_it(
    stage: Stage,
    fan_out: Started,
    caplog: pytest.LogCaptureFixture,
    capsys: pytest.CaptureFixture[str],
) -> None:
    caplog.set_level(logging.DEBUG, logger="hookkeeper")
    card = {"card": "4111111111111111"}
    page = a_sample("fan_out_page")["Records"][0]["body"].replace("in_1", card["card"])
    bodies = [
        an_input(1, data=card),
        an_input(1, data=card | {"other": 1}),
        an_input(2, data=card)[:-1],
        an_input(3, data=card, type=card["card"] + " "),
        an_input(4, **{card["card"]: 1}),
        json.dumps({"tenant_id": "acme", "type": "a", "data": {card["card"]: [float("nan")]}}),
        page[:-9],
        page.replace('"attempt"', '"x"').replace("{", '{"v":9,', 1),
    ]
    fan_out(batch(stage, *bodies))
    faults.refuse(fan_out.module.sqs, "SendMessageBatch", code="ServiceUnavailable", times=9)
    fan_out(batch(stage, an_input(5, data=card), bodies[2], page))
    logged = fan_out.log.getvalue() + caplog.text + capsys.readouterr().out
    for line in ("event.rejected", "event.not_rejected", "message.not_understood", "events.fanned_out"):
        assert line in logged
    assert card["card"] not in logged

"""Every parcel is on its queue once, or named: Failed entries, missing ones, oversized ones, lost calls."""

import json
from collections.abc import Sequence
from datetime import timedelta
from typing import Any

import pytest
from botocore.exceptions import EndpointConnectionError
from hookkeeper.adapters.sqs_lanes import SqsLanes
from hookkeeper.domain.delivery import Lane, Parcel
from hookkeeper.messages import DeliveryMessage
from hookkeeper.ports import Lanes

from tests.builders import NOW, a_delivery_key, a_key, a_parcel, a_scope
from tests.contracts.conftest import Aws
from tests.fakes import FakeLanes, World
from tests.faults import answer, counted, lose_answer, refuse

SECOND = timedelta(seconds=1)


class Sent:
    """A lanes port, and what is on its two queues."""

    def __init__(self, lanes: Lanes, queues: dict[str, Any]) -> None:
        self.lanes = lanes
        self._queues = queues

    def parcels(self, queue: str) -> list[Parcel]:
        return list(self._queues[queue]())


def received(aws: Aws, url: str) -> list[dict[str, Any]]:
    """Whatever is visible, with its attributes."""
    found: list[dict[str, Any]] = []
    while (
        more := aws.client("sqs")
        .receive_message(QueueUrl=url, MaxNumberOfMessages=10, AttributeNames=["All"])
        .get("Messages")
    ):
        found += more
    return found


def urls_of(aws: Aws) -> dict[str, str]:
    sqs = aws.client("sqs")
    return {name: sqs.create_queue(QueueName=name)["QueueUrl"] for name in ("deliveries", "backfill")}


def the_adapter(aws: Aws, urls: dict[str, str]) -> SqsLanes:
    return SqsLanes(
        aws.client("sqs"),
        deliveries_queue_url=urls["deliveries"],
        backfill_queue_url=urls["backfill"],
        sleep=lambda _: None,
    )


def reader(aws: Aws, url: str) -> Any:
    return lambda: [DeliveryMessage.model_validate_json(m["Body"]).parcel() for m in received(aws, url)]


@pytest.fixture(params=["fake", "sqs"])
def sent(request: pytest.FixtureRequest, world: World) -> Sent:
    if request.param == "fake":
        queues = {name: lambda n=name: world.receive(n, limit=10_000) for name in ("deliveries", "backfill")}
        return Sent(FakeLanes(world), queues)
    aws = request.getfixturevalue("aws")
    urls = urls_of(aws)
    return Sent(the_adapter(aws, urls), {name: reader(aws, url) for name, url in urls.items()})


@pytest.fixture
def urls(aws: Aws) -> dict[str, str]:
    return urls_of(aws)


@pytest.fixture
def adapter(aws: Aws, urls: dict[str, str]) -> SqsLanes:
    return the_adapter(aws, urls)


def parcels(count: int, **changes: Any) -> list[Parcel]:
    return [a_parcel(key=a_delivery_key(n), **changes) for n in range(count)]


def numbers(found: Sequence[Parcel]) -> list[int]:
    return sorted(int(parcel.key.event_id[-5:]) for parcel in found)


def test_a_parcel_arrives_as_it_was_sent(sent: Sent) -> None:
    full = a_parcel(
        key=a_delivery_key(subscription=a_key(2, a_scope("other"))),
        attempt=3,
        lane=Lane.REPLAY,
        resource_id="r_1",
        body='{"name":"Zoë \ufffe \uffff \U0001f980 \x7f"}'.encode(),
        recovery_id="rec_1",
        generation=4,
        at=NOW + SECOND,
        replay_id="rpl_1",
        not_before_at=NOW,
    )
    assert list(sent.lanes.send([full])) == []
    assert sent.parcels("backfill") == [full]


def test_a_body_that_stays_in_the_archive_is_none_when_it_arrives(sent: Sent) -> None:
    sent.lanes.send([a_parcel(body=None)])
    assert sent.parcels("deliveries") == [a_parcel(body=None)]


@pytest.mark.parametrize(
    "lane, recovery_id, queue",
    [
        (Lane.LIVE, None, "deliveries"),
        (Lane.REPLAY, None, "deliveries"),
        (Lane.REPLAY, "rec_1", "backfill"),
        (Lane.BACKFILL, "rec_1", "backfill"),
    ],
)
def test_each_lane_has_its_queue(sent: Sent, lane: Lane, recovery_id: str | None, queue: str) -> None:
    sent.lanes.send([a_parcel(lane=lane, recovery_id=recovery_id)])
    both = {name: len(sent.parcels(name)) for name in ("deliveries", "backfill")}
    assert both == {"deliveries": 0, "backfill": 0} | {queue: 1}


@pytest.mark.parametrize("count", [0, 1, 10, 11, 123])
def test_any_number_of_parcels_is_sent_each_once(sent: Sent, count: int) -> None:
    assert list(sent.lanes.send(parcels(count))) == []
    assert numbers(sent.parcels("deliveries")) == list(range(count))


def test_a_delayed_parcel_is_not_there_yet(sent: Sent) -> None:
    sent.lanes.send(parcels(2), delays=[timedelta(0), timedelta(minutes=15)])
    assert numbers(sent.parcels("deliveries")) == [0]


@pytest.mark.parametrize("delay", [timedelta(minutes=15, microseconds=1), -SECOND])
def test_no_delay_is_over_fifteen_minutes_or_negative(sent: Sent, delay: timedelta) -> None:
    with pytest.raises(ValueError, match=r"15 minutes|900 seconds"):
        sent.lanes.send(parcels(1), delays=[delay])


@pytest.mark.parametrize(
    "delay, seconds", [(timedelta(microseconds=1), 1), (1.2 * SECOND, 2), (899.5 * SECOND, 900)]
)
def test_a_delay_is_rounded_up_so_that_nothing_comes_early(
    aws: Aws, adapter: SqsLanes, delay: timedelta, seconds: int
) -> None:
    asked: list[dict[str, Any]] = []
    watch(aws, asked)
    adapter.send(parcels(1), delays=[delay])
    assert asked[0]["Entries"][0]["DelaySeconds"] == seconds


def watch(aws: Aws, asked: list[dict[str, Any]]) -> None:
    """Note what each batch asks for."""

    def note(params: dict[str, Any], **_: Any) -> None:
        asked.append(json.loads(params["body"]))

    aws.client("sqs").meta.events.register_first("before-call.sqs.SendMessageBatch", note)


def test_messages_are_grouped_by_subscription(aws: Aws, adapter: SqsLanes, urls: dict[str, str]) -> None:
    adapter.send([a_parcel(key=a_delivery_key(subscription=a_key(n))) for n in (1, 2)])
    groups = {m["Attributes"]["MessageGroupId"] for m in received(aws, urls["deliveries"])}
    assert groups == {a_key(1).subscription_id, a_key(2).subscription_id}


def test_three_hundred_parcels_are_thirty_calls(aws: Aws, adapter: SqsLanes) -> None:
    calls = counted(aws.client("sqs"))
    adapter.send(parcels(300))
    assert calls == {"SendMessageBatch": 30}


def test_failed_and_forgotten_entries_alone_are_sent_again(
    aws: Aws, adapter: SqsLanes, urls: dict[str, str]
) -> None:
    # BB-37: of ten, eight are accepted, one fails, one is in neither list; the next call fails whole.
    partly = {
        "Successful": [{"Id": str(n)} for n in range(8)],
        "Failed": [{"Id": "8", "SenderFault": False, "Code": "InternalError"}],
    }
    asked: list[dict[str, Any]] = []
    watch(aws, asked)
    lost = EndpointConnectionError(endpoint_url=urls["deliveries"])
    answer(aws.client("sqs"), "SendMessageBatch", [partly, lost])
    assert list(adapter.send(parcels(17))) == []
    again = [[entry["Id"] for entry in call["Entries"]] for call in asked[1:]]
    assert again == [["8", "9"], ["8", "9"], [str(n) for n in range(10, 17)]]
    assert numbers(reader(aws, urls["deliveries"])()) == list(range(8, 17))


def test_what_is_the_senders_own_fault_is_named_and_not_tried_again(aws: Aws, adapter: SqsLanes) -> None:
    faulty = {
        "Successful": [{"Id": str(n)} for n in range(9)],
        "Failed": [{"Id": "9", "SenderFault": True, "Code": "InvalidMessageContents"}],
    }
    calls = counted(aws.client("sqs"))
    answer(aws.client("sqs"), "SendMessageBatch", [faulty])
    assert numbers(adapter.send(parcels(10))) == [9]
    assert calls["SendMessageBatch"] == 1


def test_a_queue_that_refuses_everything_is_asked_thrice_and_every_parcel_is_named(
    aws: Aws, adapter: SqsLanes
) -> None:
    calls = counted(aws.client("sqs"))
    refuse(aws.client("sqs"), "SendMessageBatch", code="RequestThrottled", times=99)
    assert numbers(adapter.send(parcels(10))) == list(range(10))
    assert calls["SendMessageBatch"] == 3


def test_a_batch_that_is_refused_does_not_stop_the_next(aws: Aws, adapter: SqsLanes) -> None:
    refuse(aws.client("sqs"), "SendMessageBatch", code="InternalError", times=3)
    assert numbers(adapter.send(parcels(15))) == list(range(10))


def test_a_lost_answer_may_send_twice_but_never_names_what_was_accepted(
    aws: Aws, adapter: SqsLanes, urls: dict[str, str]
) -> None:
    lose_answer(aws.client("sqs"), "SendMessageBatch")
    assert list(adapter.send(parcels(3))) == []
    assert set(numbers(reader(aws, urls["deliveries"])())) == {0, 1, 2}


def test_an_oversized_member_does_not_make_its_batch_fail(
    aws: Aws, adapter: SqsLanes, urls: dict[str, str]
) -> None:
    # BB-17: nine small ones, and one whose body would not fit a message; it goes by reference.
    calls = counted(aws.client("sqs"))
    batch = [*parcels(9), a_parcel(key=a_delivery_key(9), body=b"x" * 1_200_000)]
    assert list(adapter.send(batch)) == []
    assert calls["SendMessageBatch"] <= 3
    found = {parcel.key.event_id: parcel for parcel in reader(aws, urls["deliveries"])()}
    assert len(found) == 10
    assert found[a_delivery_key(9).event_id].body is None


def test_large_bodies_are_parted_so_that_no_batch_is_over_a_mebibyte(
    aws: Aws, adapter: SqsLanes, urls: dict[str, str]
) -> None:
    quotes = b'"' * 64 * 1024  # doubles when it is written as JSON
    asked: list[dict[str, Any]] = []
    watch(aws, asked)
    assert list(adapter.send(parcels(20, body=quotes))) == []
    assert all(sum(len(e["MessageBody"]) for e in call["Entries"]) <= 1024 * 1024 for call in asked)
    assert len(asked) == 3
    assert numbers(reader(aws, urls["deliveries"])()) == list(range(20))


def test_a_function_without_the_queue_sends_nothing_to_another(aws: Aws, urls: dict[str, str]) -> None:
    api = SqsLanes(aws.client("sqs"), deliveries_queue_url=urls["deliveries"])
    with pytest.raises(ValueError, match="no queue"):
        api.send([a_parcel(lane=Lane.BACKFILL, recovery_id="rec_1")])

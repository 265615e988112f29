"""What is put on the queues beside the lanes arrives as a message of its kind, or the caller hears of it."""

from typing import Any

import pytest
from hookkeeper.adapters.sqs_queues import SqsContacts, SqsEvents, SqsNotices, SqsPages, SqsRejected
from hookkeeper.domain.errors import OwnFaultError
from hookkeeper.domain.event import RoutePage
from hookkeeper.domain.tenancy import Mode
from hookkeeper.messages import ContactMessage, FanOutPage, NoticeMessage

from tests.builders import a_key, a_scope, an_archived_event, an_event
from tests.contracts.conftest import Aws
from tests.faults import answer, refuse


class Queue:
    """One queue, and what is on it."""

    def __init__(self, aws: Aws) -> None:
        self.client = aws.client("sqs")
        self.url = self.client.create_queue(QueueName="queue")["QueueUrl"]
        self.options: dict[str, Any] = {"queue_url": self.url, "sleep": lambda _: None}

    def messages(self) -> list[dict[str, Any]]:
        answered = self.client.receive_message(
            QueueUrl=self.url, MaxNumberOfMessages=10, MessageAttributeNames=["All"]
        )
        return list(answered.get("Messages", []))

    def body(self) -> str:
        (message,) = self.messages()
        return str(message["Body"])


@pytest.fixture
def queue(aws: Aws) -> Queue:
    return Queue(aws)


def test_a_challenge_carries_its_token(queue: Queue) -> None:
    SqsContacts(queue.client, **queue.options).challenge(a_key(), token="t0k3n")
    assert ContactMessage.model_validate_json(queue.body()) == ContactMessage(
        kind="challenge",
        tenant="acme",
        mode=Mode.LIVE,
        subscription_id=a_key().subscription_id,
        token="t0k3n",
    )


def test_a_test_event_carries_type_and_data(queue: Queue) -> None:
    SqsContacts(queue.client, **queue.options).test(a_key(), event_type="invoice.paid", data='{"n":1}')
    message = ContactMessage.model_validate_json(queue.body())
    assert (message.kind, message.event_type, message.data) == ("test", "invoice.paid", '{"n":1}')


def test_notices_are_named_by_their_ids(queue: Queue) -> None:
    ids = ["sub_1.suspended.epoch-1", "sub_2.at_risk.streak-7"]
    SqsNotices(queue.client, **queue.options).send(a_scope(), ids)
    message = NoticeMessage.model_validate_json(queue.body())
    assert (message.tenant, message.mode, message.notice_ids) == ("acme", Mode.LIVE, ids)


def a_page(ids: tuple[str, ...] = ("sub_1", "sub_2")) -> RoutePage:
    return RoutePage(archived=an_archived_event(), subscription_ids=ids)


def test_a_page_arrives_with_its_event_and_all_its_subscriptions(queue: Queue) -> None:
    assert SqsPages(queue.client, **queue.options).send(a_page())
    page = FanOutPage.model_validate_json(queue.body())
    assert page == FanOutPage.of(a_page())
    assert [parcel.key.subscription.subscription_id for parcel in page.parcels()] == ["sub_1", "sub_2"]


def test_a_page_of_five_hundred_with_the_largest_inline_body_fits_a_message(queue: Queue) -> None:
    body = b'{"q":"' + b'\\"' * (32 * 1024 - 8) + b'"}'
    ids = tuple(f"sub_{n:026d}" for n in range(500))
    page = RoutePage(archived=an_archived_event(an_event(body=body)), subscription_ids=ids)
    assert SqsPages(queue.client, **queue.options).send(page)
    assert FanOutPage.model_validate_json(queue.body()).parcels()[499].body == body


def test_a_page_that_is_not_taken_is_told(queue: Queue) -> None:
    refuse(queue.client, "SendMessageBatch", code="InternalError", times=9)
    assert SqsPages(queue.client, **queue.options).send(a_page()) is False


def test_the_positions_of_events_that_were_not_accepted_are_answered(queue: Queue) -> None:
    failed = {"Failed": [{"Id": "10", "SenderFault": True, "Code": "x"}], "Successful": [{"Id": "11"}]}
    answer(queue.client, "SendMessageBatch", [None, failed])
    assert list(SqsEvents(queue.client, **queue.options).send([f'{{"n":{n}}}' for n in range(12)])) == [10]
    assert len(queue.messages()) == 10


def test_an_event_of_any_characters_is_accepted_and_says_the_same(queue: Queue) -> None:
    SqsEvents(queue.client, **queue.options).send(['{"data":"\ufffe\uffff\U0001f980"}'])
    assert queue.body() == '{"data":"\\ufffe\\uffff\U0001f980"}'


@pytest.mark.parametrize(
    "body, arrives",
    [
        ("{", "{"),
        ("", " "),
        ("nul \x00 and \x1f and \ufffe", "nul \ufffd and \ufffd and \ufffd"),
        ("lone \ud800", "lone \ufffd"),
        ("é" * 600_000, "é" * ((1024 * 1024 - 1024) // 2)),
    ],
    ids=["cut short", "empty", "control characters", "lone surrogate", "too large"],
)
def test_whatever_was_rejected_is_kept_with_its_reason(queue: Queue, body: str, arrives: str) -> None:
    SqsRejected(queue.client, **queue.options).send(body, reason="bad_json: /data \x00" + "é" * 400)
    (message,) = queue.messages()
    assert message["Body"] == arrives
    reason = message["MessageAttributes"]["reason"]["StringValue"]
    assert reason.startswith("bad_json: /data \ufffdé")
    assert len(reason.encode()) <= 512


def test_a_queue_that_takes_nothing_is_our_own_fault(queue: Queue) -> None:
    refuse(queue.client, "SendMessageBatch", code="AccessDenied", times=99)
    with pytest.raises(OwnFaultError):
        SqsContacts(queue.client, **queue.options).challenge(a_key(), token="t")
    with pytest.raises(OwnFaultError):
        SqsNotices(queue.client, **queue.options).send(a_scope(), ["n"])
    with pytest.raises(OwnFaultError):
        SqsRejected(queue.client, **queue.options).send("{", reason="bad_json")

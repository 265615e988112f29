from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hookkeeper.adapters.dynamodb_notices import DynamoDBNotices
from hookkeeper.domain.notice import Notice, NoticeStatus
from hookkeeper.settings import NotifySettings

from tests import faults
from tests.builders import a_key, a_notice
from tests.contracts.conftest import Aws
from tests.functions.conftest import ColdStart, Started, a_sample

ALL_WELL: dict[str, Any] = {"batchItemFailures": []}
SENDER = "webhooks@provider.example"


class Stage:
    """A running notify, the notices it finds, and what left by SES and the bus."""

    def __init__(self, aws: Aws, cold_start: ColdStart) -> None:
        aws.client("sesv2").create_email_identity(EmailIdentity=SENDER)
        aws.client("sesv2").create_configuration_set(ConfigurationSetName="notices")
        aws.client("events").create_event_bus(Name="operators")
        settings = NotifySettings(
            stage="test",
            notices_table=aws.table("Notices"),
            bus_name="operators",
            sender_address=SENDER,
            configuration_set="notices",
            console_url="https://hooks.provider.example/console",
        )
        self.notify: Started = cold_start("notify", settings)
        self.ses = self.notify.module.mailer._client
        self.calls = faults.counted(self.ses)
        self.notices = DynamoDBNotices(aws.client("dynamodb"), notices_table="Notices")

    def put(self, **changes: Any) -> Notice:
        notice = a_notice(**{"at": datetime.now(UTC).replace(microsecond=0), **changes})
        assert self.notices.put(notice)
        return notice

    def stored(self) -> Notice:
        notice = self.notices.get(a_key(), a_notice().id)
        assert notice is not None
        return notice


@pytest.fixture
def stage(aws: Aws, cold_start: ColdStart) -> Stage:
    return Stage(aws, cold_start)


@pytest.mark.parametrize("sample", ["notify", "notify_late"])
def test_a_notice_by_stream_or_by_queue_is_mailed_and_marked(stage: Stage, sample: str) -> None:
    stage.put()
    assert stage.notify(a_sample(sample)) == ALL_WELL
    assert stage.calls["SendEmail"] == 1
    assert stage.stored().status is NoticeStatus.SENT
    assert stage.stored().message_id


def test_both_ways_together_are_one_mail(stage: Stage) -> None:
    stage.put()
    for sample in ("notify", "notify_late", "notify"):
        assert stage.notify(a_sample(sample)) == ALL_WELL
    assert stage.calls["SendEmail"] == 1


@pytest.mark.parametrize("change", ["MODIFY", "REMOVE"])
def test_a_mark_of_our_own_in_the_stream_sends_nothing(stage: Stage, change: str) -> None:
    stage.put()
    event = a_sample("notify")
    event["Records"][0]["eventName"] = change
    assert stage.notify(event) == ALL_WELL
    assert stage.calls["SendEmail"] == 0


def test_f11a_a_throttled_mail_stays_pending_and_its_message_comes_back(stage: Stage) -> None:
    stage.put()
    faults.refuse(stage.ses, "SendEmail", code="TooManyRequestsException")
    event = a_sample("notify_late")
    failed = {"batchItemFailures": [{"itemIdentifier": event["Records"][0]["messageId"]}]}
    assert stage.notify(event) == failed
    stored = stage.stored()
    assert (stored.status, stored.attempts) == (NoticeStatus.PENDING, 1)
    assert stored.claimed_until is not None
    assert stage.notices.stuck(stored.claimed_until + timedelta(minutes=2), limit=1) == [stored]


def test_a_throttled_mail_does_not_hold_the_stream_up(stage: Stage) -> None:
    stage.put()
    faults.refuse(stage.ses, "SendEmail", code="TooManyRequestsException")
    assert stage.notify(a_sample("notify")) == ALL_WELL
    assert stage.stored().status is NoticeStatus.PENDING


def test_f11d_a_refused_mail_is_suppressed_and_its_message_is_done(stage: Stage) -> None:
    stage.put()
    faults.refuse(stage.ses, "SendEmail", code="MessageRejected")
    assert stage.notify(a_sample("notify_late")) == ALL_WELL
    assert stage.stored().status is NoticeStatus.SUPPRESSED


def test_bb38d_a_claim_whose_answer_was_lost_is_sent_by_the_claimer_once(stage: Stage) -> None:
    stage.put()
    faults.lose_answer(stage.notify.module.notices._client, "UpdateItem")
    assert stage.notify(a_sample("notify")) == ALL_WELL
    assert stage.calls["SendEmail"] == 1
    assert stage.stored().status is NoticeStatus.SENT


def test_f14_a_message_nobody_understands_comes_back_and_its_neighbours_go_on(stage: Stage) -> None:
    stage.put()
    event = a_sample("notify_late")
    event["Records"].insert(0, event["Records"][0] | {"messageId": "bad", "body": '{"v":99}'})
    assert stage.notify(event) == {"batchItemFailures": [{"itemIdentifier": "bad"}]}
    assert stage.calls["SendEmail"] == 1


def test_a_message_about_a_notice_that_is_gone_is_done(stage: Stage) -> None:
    assert stage.notify(a_sample("notify_late")) == ALL_WELL
    assert stage.calls["SendEmail"] == 0


def test_neither_addresses_nor_facts_are_logged(stage: Stage) -> None:
    stage.put(facts={"last_error": "card 4111111111111111"})
    stage.notify(a_sample("notify"))
    logged = stage.notify.log.getvalue()
    assert "notice.tried" in logged
    assert "owner@customer.example" not in logged
    assert "4111" not in logged

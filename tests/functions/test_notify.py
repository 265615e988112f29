import json
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
RUNTIME = {
    "appconfig_application": "application",
    "appconfig_environment": "environment",
    "appconfig_profile": "profile",
}


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
            **RUNTIME,
        )
        self.notify: Started = cold_start("notify", settings)
        self.ses = self.notify.module.ports.mailer._client
        bus = self.notify.module.ports.bus._client
        self.operators_heard: list[dict[str, Any]] = []
        bus.meta.events.register("provide-client-params.events.PutEvents", self._hear)
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

    def _hear(self, params: dict[str, Any], **_: Any) -> None:
        self.operators_heard += params["Entries"]

    def came_back(self, sample: str, *, ago: timedelta = timedelta(0)) -> dict[str, Any]:
        """The sample, about the mail that was sent, now or so long ago."""
        event = a_sample(sample)
        told = json.loads(event["Records"][0]["body"])
        told["detail"]["mail"]["messageId"] = self.stored().message_id or "ses-nobody-counted"
        told["detail"]["mail"]["timestamp"] = f"{datetime.now(UTC) - ago:%Y-%m-%dT%H:%M:%S.000Z}"
        event["Records"][0]["body"] = json.dumps(told)
        return event


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


def test_f11a_a_throttled_mail_stays_pending_and_the_sweep_brings_it_again(stage: Stage) -> None:
    stage.put()
    faults.refuse(stage.ses, "SendEmail", code="TooManyRequestsException")
    assert stage.notify(a_sample("notify_late")) == ALL_WELL
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
    faults.lose_answer(stage.notify.module.dynamodb, "UpdateItem")
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


# ── T58: many in one batch ───────────────────────────────────────────────────────────────────────


def a_batch(stage: Stage, numbers: range) -> dict[str, Any]:
    """These subscriptions of one owner suspended at once, as the stream brings them."""
    event = a_sample("notify")
    (record,) = event["Records"]
    event["Records"] = []
    for n in numbers:
        key = a_key(n)
        stage.put(key=key)
        keys = {"pk": {"S": f"acme#live#sub#{key.subscription_id}"}, "sk": {"S": "suspended#epoch-1"}}
        change = record["dynamodb"] | {"Keys": keys, "SequenceNumber": str(n)}
        event["Records"].append(record | {"dynamodb": change})
    return event


def test_t58_ten_suspensions_in_one_batch_are_one_mail_and_ten_events_for_operators(stage: Stage) -> None:
    assert stage.notify(a_batch(stage, range(10))) == ALL_WELL
    assert stage.calls["SendEmail"] == 1
    for n in range(10):
        notice = stage.notices.get(a_key(n), a_notice(key=a_key(n)).id)
        assert notice is not None
        assert notice.status is NoticeStatus.SENT
    assert len(stage.operators_heard) == 10


def test_f11_a_table_that_fails_after_the_providers_yes_brings_the_whole_batch_back(stage: Stage) -> None:
    event = a_batch(stage, range(3))
    faults.refuse(stage.notify.module.dynamodb, "TransactWriteItems", code="ValidationException")
    assert len(stage.notify(event)["batchItemFailures"]) == 3
    assert stage.notify(event) == ALL_WELL, "each is claimed: the sweep brings it after the lease"
    assert stage.calls["SendEmail"] == 1


# ── mails that come back ─────────────────────────────────────────────────────────────────────────

FATES = [
    pytest.param("notify_bounce", NoticeStatus.BOUNCED, "bounced", id="bounce"),
    pytest.param("notify_complaint", NoticeStatus.COMPLAINED, "complained", id="complaint"),
]


@pytest.mark.parametrize("sample, status, word", FATES)
def test_a_mail_that_came_back_is_seen_on_its_notice_by_operators_and_by_the_alarm(
    stage: Stage, capsys: pytest.CaptureFixture[str], sample: str, status: NoticeStatus, word: str
) -> None:
    stage.put()
    stage.notify(a_sample("notify"))
    assert stage.notify(stage.came_back(sample)) == ALL_WELL
    assert stage.stored().status is status
    told = stage.operators_heard[-1]
    assert told["DetailType"] == f"hookkeeper.notice.{word}"
    assert json.loads(told["Detail"])["reason"] == stage.stored().mail_fault
    assert '"MailsCameBack"' in capsys.readouterr().out


@pytest.mark.parametrize("sample, status, word", FATES)
def test_the_next_notice_to_that_address_is_recorded_and_not_sent(
    stage: Stage, sample: str, status: NoticeStatus, word: str
) -> None:
    stage.put()
    stage.notify(a_sample("notify"))
    stage.notify(stage.came_back(sample))
    assert stage.notify(a_batch(stage, range(2, 3))) == ALL_WELL
    notice = stage.notices.get(a_key(2), a_notice(key=a_key(2)).id)
    assert notice is not None
    assert (notice.status, notice.mail_fault) == (NoticeStatus.SUPPRESSED, f"the address is bad: {word}")
    assert stage.calls["SendEmail"] == 1
    assert stage.stored().status is status


def test_a_bounce_that_comes_twice_is_told_once(stage: Stage) -> None:
    stage.put()
    stage.notify(a_sample("notify"))
    for _ in range(2):
        assert stage.notify(stage.came_back("notify_bounce")) == ALL_WELL
    assert [each["DetailType"] for each in stage.operators_heard].count("hookkeeper.notice.bounced") == 1


def test_a_bounce_faster_than_our_own_mark_comes_again(stage: Stage) -> None:
    stage.put()
    event = stage.came_back("notify_bounce")
    failed = {"batchItemFailures": [{"itemIdentifier": event["Records"][0]["messageId"]}]}
    assert stage.notify(event) == failed
    assert stage.notify(a_sample("notify")) == ALL_WELL
    assert stage.stored().status is NoticeStatus.SUPPRESSED, "its address is known to be bad by now"


def test_a_bounce_of_a_mail_that_nobody_ever_counted_is_done(stage: Stage) -> None:
    stage.put()
    assert stage.notify(stage.came_back("notify_bounce", ago=timedelta(minutes=16))) == ALL_WELL
    assert stage.stored().status is NoticeStatus.PENDING


@pytest.mark.parametrize(
    "change",
    [
        {"tags": {"ses:configuration-set": ["notices"]}},
        {"tags": {"tenant": ["a#b"], "mode": ["live"]}},
        {"tags": {"tenant": ["acme"], "mode": ["both"]}},
    ],
)
def test_another_senders_bounce_is_none_of_our_business(stage: Stage, change: dict[str, Any]) -> None:
    stage.put()
    stage.notify(a_sample("notify"))
    event = stage.came_back("notify_bounce")
    body = json.loads(event["Records"][0]["body"])
    body["detail"]["mail"] |= change
    event["Records"][0]["body"] = json.dumps(body)
    assert stage.notify(event) == ALL_WELL
    assert stage.stored().status is NoticeStatus.SENT

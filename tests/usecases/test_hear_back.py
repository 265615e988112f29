import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hookkeeper.adapters.ses_feedback import feedback_of
from hookkeeper.domain.mailbox import AddressFault, Feedback
from hookkeeper.domain.notice import Notice, NoticeStatus
from hookkeeper.usecases.hear_back import KNOWN_WITHIN, Heard, HeardBack, hear_back

from tests.builders import NOW, a_key, a_notice, a_scope
from tests.fakes import FakeMailboxes, FakeNotices, FakeOperatorBus, World

ADDRESS = "owner@customer.example"


def a_feedback(**changes: Any) -> Feedback:
    plain = Feedback(
        scope=a_scope(),
        message_id="ses-1",
        address=ADDRESS,
        fault=AddressFault.BOUNCED,
        lasting=True,
        reason="Permanent/General",
        mailed_at=NOW,
    )
    return replace(plain, **changes)


def a_mailed_world(many: int = 2) -> tuple[World, list[Notice]]:
    """One mail that told of so many notices."""
    world = World()
    notices = [a_notice(key=a_key(n), status=NoticeStatus.SENT, message_id="ses-1") for n in range(many)]
    for notice in notices:
        FakeNotices(world).put(notice)
    world.carried[a_scope(), "ses-1"] = [notice.id for notice in notices]
    return world, notices


def heard(world: World, feedback: Feedback, *, now: Any = NOW) -> HeardBack:
    return hear_back(
        feedback,
        now=now,
        notices=FakeNotices(world),
        mailboxes=FakeMailboxes(world),
        bus=FakeOperatorBus(world),
    )


@pytest.mark.parametrize(
    "fault, status",
    [
        (AddressFault.BOUNCED, NoticeStatus.BOUNCED),
        (AddressFault.COMPLAINED, NoticeStatus.COMPLAINED),
    ],
)
def test_all_that_the_mail_told_says_so_and_operators_hear_of_each(
    fault: AddressFault, status: NoticeStatus
) -> None:
    world, notices = a_mailed_world()
    assert heard(world, a_feedback(fault=fault)).heard is Heard.TOLD
    assert {notice.status for notice in world.notices.values()} == {status}
    assert [event for event, _ in world.bus_events] == [f"hookkeeper.notice.{fault}"] * 2
    assert [detail["notice_id"] for _, detail in world.bus_events] == [notice.id for notice in notices]
    assert FakeMailboxes(world).get(a_scope(), ADDRESS).bad is fault


def test_a_passing_fault_is_told_and_the_address_is_written_to_again() -> None:
    world, _ = a_mailed_world()
    heard(world, a_feedback(lasting=False))
    assert {notice.status for notice in world.notices.values()} == {NoticeStatus.BOUNCED}
    assert FakeMailboxes(world).get(a_scope(), ADDRESS).bad is None


def test_it_is_told_once_however_often_it_comes() -> None:
    world, _ = a_mailed_world()
    assert len(heard(world, a_feedback()).notices) == 2
    assert heard(world, a_feedback()) == HeardBack(Heard.TOLD)
    assert len(world.bus_events) == 2


def test_a_mail_that_is_not_written_down_is_asked_for_again_for_a_while_but_its_address_is_bad() -> None:
    world = World()
    assert heard(world, a_feedback()).heard is Heard.UNKNOWN_YET
    assert heard(world, a_feedback(), now=NOW + KNOWN_WITHIN).heard is Heard.UNKNOWN
    assert FakeMailboxes(world).get(a_scope(), ADDRESS).bad is AddressFault.BOUNCED


# ── SES's own words ──────────────────────────────────────────────────────────────────────────────


def a_ses_event(sample: str, **detail: Any) -> dict[str, Any]:
    (record,) = json.loads(Path(f"events/{sample}.json").read_text())["Records"]
    event: dict[str, Any] = json.loads(record["body"])
    event["detail"] |= detail
    return event


def a_bounce(**changes: Any) -> dict[str, Any]:
    event = a_ses_event("notify_bounce")
    event["detail"]["bounce"] |= changes
    return event


def test_a_bounce_is_read_as_ses_tells_it() -> None:
    feedback = feedback_of(a_bounce())
    assert feedback is not None
    assert (feedback.scope, feedback.address) == (a_scope(), ADDRESS)
    assert feedback.reason == "Permanent/General: smtp; 550 5.1.1 user unknown"
    assert feedback.mailed_at == NOW.replace(second=1, microsecond=123_000)


@pytest.mark.parametrize("kind", ["Permanent", "Transient", "Undetermined"])
def test_only_a_permanent_bounce_is_there_to_stay(kind: str) -> None:
    feedback = feedback_of(a_bounce(bounceType=kind))
    assert feedback is not None
    assert feedback.lasting is (kind == "Permanent")


def test_a_bounce_of_sess_own_suppression_list_has_no_servers_words() -> None:
    feedback = feedback_of(
        a_bounce(bounceSubType="OnAccountSuppressionList", bouncedRecipients=[{"emailAddress": ADDRESS}])
    )
    assert feedback is not None
    assert (feedback.reason, feedback.lasting) == ("Permanent/OnAccountSuppressionList", True)


def test_the_address_is_the_one_we_wrote_to_however_it_was_forwarded() -> None:
    feedback = feedback_of(a_bounce(bouncedRecipients=[{"emailAddress": "someone@else.example"}]))
    assert feedback is not None
    assert feedback.address == ADDRESS


def test_a_servers_words_are_one_clean_line() -> None:
    said = "smtp; 550\r\n<b>\u202eno\x00" + "x" * 1000
    feedback = feedback_of(a_bounce(bouncedRecipients=[{"emailAddress": ADDRESS, "diagnosticCode": said}]))
    assert feedback is not None
    assert feedback.reason.startswith("Permanent/General: smtp; 550")
    assert feedback.reason.isprintable()
    assert len(feedback.reason) <= 200


def test_a_complaint_is_read_as_ses_tells_it() -> None:
    feedback = feedback_of(a_ses_event("notify_complaint"))
    assert feedback is not None
    assert (feedback.fault, feedback.lasting) == (AddressFault.COMPLAINED, True)
    assert feedback.reason == "complaint: abuse"


def test_a_mail_that_ses_itself_rejects_is_told_and_the_address_stays_good() -> None:
    rejected = {"eventType": "Reject", "reject": {"reason": "Bad content"}}
    feedback = feedback_of(a_ses_event("notify_bounce", **rejected))
    assert feedback is not None
    assert (feedback.reason, feedback.lasting) == ("rejected: Bad content", False)


@pytest.mark.parametrize("kind", ["Send", "Delivery", "Open", "DeliveryDelay"])
def test_whatever_else_ses_tells_asks_for_nothing(kind: str) -> None:
    assert feedback_of(a_ses_event("notify_bounce", eventType=kind)) is None

from datetime import UTC, datetime, timedelta

import pytest
from hookkeeper.domain.mailbox import BAD_FOR, AddressFault, Mailbox, MailRules, Opening, next_day, stage_of
from hookkeeper.domain.notice import NoticeKind

from tests.builders import HOUR, MINUTE, NOW, a_scope

RULES = MailRules()
TICK = timedelta(microseconds=1)
SUSPENDED = [NoticeKind.SUSPENDED]
UNTOUCHED = Mailbox(scope=a_scope(), address="owner@customer.example")


def after(*kinds: NoticeKind, at: datetime = NOW, before: Mailbox = UNTOUCHED) -> Mailbox:
    return before.mailed(kinds, now=at, rules=RULES)


def test_the_first_mail_goes_at_once_and_what_follows_in_five_minutes_waits_for_their_end() -> None:
    assert UNTOUCHED.opening(SUSPENDED, now=NOW, rules=RULES) == (Opening.OPEN, NOW)
    mailed = after(NoticeKind.SUSPENDED)
    ends = NOW + 5 * MINUTE
    assert mailed.opening(SUSPENDED, now=NOW, rules=RULES) == (Opening.GATHERING, ends)
    assert mailed.opening(SUSPENDED, now=ends - TICK, rules=RULES) == (Opening.GATHERING, ends)
    assert mailed.opening(SUSPENDED, now=ends, rules=RULES) == (Opening.OPEN, ends)


STORY = [
    NoticeKind.AT_RISK,
    NoticeKind.SUSPENDED,
    NoticeKind.PROBE_FAILED,
    NoticeKind.RECOVERED,
]


@pytest.mark.parametrize("told", STORY)
@pytest.mark.parametrize("next_", STORY)
def test_the_next_stage_of_the_story_is_not_held_back_and_every_other_is(
    told: NoticeKind, next_: NoticeKind
) -> None:
    opening, _ = after(told).opening([next_], now=NOW + MINUTE, rules=RULES)
    later = STORY.index(next_) > STORY.index(told)
    assert opening is (Opening.OPEN if later else Opening.GATHERING)


@pytest.mark.parametrize("kind", sorted(set(NoticeKind) - set(STORY) - {NoticeKind.CONSENT_WITHDRAWN}))
def test_whatever_else_is_told_never_breaks_into_a_suspensions_gathering(kind: NoticeKind) -> None:
    opening, _ = after(NoticeKind.SUSPENDED).opening([kind], now=NOW + MINUTE, rules=RULES)
    later = (NoticeKind.RECOVERY_PAUSED, NoticeKind.PROBE_PASSED)
    assert (opening is Opening.OPEN) == (kind in later)


def test_a_later_stage_lengthens_nobodys_wait() -> None:
    first = after(NoticeKind.SUSPENDED)
    second = after(NoticeKind.PROBE_FAILED, at=NOW + 4 * MINUTE, before=first)
    assert second.gathers_until == first.gathers_until
    assert second.stage == stage_of([NoticeKind.PROBE_FAILED])
    third = after(NoticeKind.AT_RISK, at=NOW + 5 * MINUTE, before=second)
    assert third.gathers_until == NOW + 10 * MINUTE
    assert third.stage == stage_of([NoticeKind.AT_RISK])


def test_a_mail_of_several_stages_is_of_the_latest() -> None:
    assert stage_of([NoticeKind.AT_RISK, NoticeKind.PROBE_FAILED, NoticeKind.SUSPENDED]) == 3


def test_nobody_writes_while_another_does() -> None:
    held = Mailbox(scope=a_scope(), address="a@b.example", held_by="run_1", held_until=NOW + MINUTE)
    assert held.opening(SUSPENDED, now=NOW, rules=RULES) == (Opening.GATHERING, NOW + MINUTE)
    assert held.opening(SUSPENDED, now=NOW + MINUTE, rules=RULES)[0] is Opening.OPEN


def test_after_twenty_mails_the_rest_waits_for_the_next_day() -> None:
    mailbox, at = UNTOUCHED, NOW
    for _ in range(RULES.mails_a_day):
        assert mailbox.opening(SUSPENDED, now=at, rules=RULES)[0] is Opening.OPEN
        mailbox = after(NoticeKind.SUSPENDED, at=at, before=mailbox)
        at += 5 * MINUTE
    tomorrow = datetime(2026, 12, 2, tzinfo=UTC)
    assert mailbox.opening(SUSPENDED, now=at, rules=RULES) == (Opening.CAPPED, tomorrow)
    assert mailbox.opening(SUSPENDED, now=tomorrow, rules=RULES)[0] is Opening.OPEN
    assert mailbox.mails_on(at) == 20
    assert mailbox.mails_on(tomorrow) == 0
    assert after(NoticeKind.SUSPENDED, at=tomorrow, before=mailbox).mails == 1


@pytest.mark.parametrize("fault", list(AddressFault))
def test_a_bad_address_is_not_written_to_for_a_month(fault: AddressFault) -> None:
    bad = Mailbox(scope=a_scope(), address="a@b.example", bad=fault, bad_at=NOW)
    assert bad.opening(SUSPENDED, now=NOW + BAD_FOR - TICK, rules=RULES)[0] is Opening.BAD
    assert bad.opening(SUSPENDED, now=NOW + BAD_FOR, rules=RULES)[0] is Opening.OPEN


@pytest.mark.parametrize(
    "now, then",
    [
        (NOW, datetime(2026, 12, 2, tzinfo=UTC)),
        (datetime(2026, 12, 31, 23, 59, 59, tzinfo=UTC), datetime(2027, 1, 1, tzinfo=UTC)),
        (datetime(2026, 12, 2, tzinfo=UTC), datetime(2026, 12, 3, tzinfo=UTC)),
    ],
)
def test_a_day_ends_at_midnight_utc(now: datetime, then: datetime) -> None:
    assert next_day(now) == then


def test_a_shorter_gathering_and_fewer_mails_can_be_asked_for() -> None:
    rules = MailRules(gather=timedelta(seconds=5), mails_a_day=1)
    once = UNTOUCHED.mailed(SUSPENDED, now=NOW, rules=rules)
    assert once.gathers_until == NOW + timedelta(seconds=5)
    assert once.opening(SUSPENDED, now=NOW + HOUR, rules=rules)[0] is Opening.CAPPED

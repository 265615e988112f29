"""An address is written to by one at a time, counted with what its mail told, and remembered as bad."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Any

import pytest
from hookkeeper.adapters.dynamodb_mailboxes import DynamoDBMailboxes
from hookkeeper.adapters.dynamodb_notices import DynamoDBNotices
from hookkeeper.domain.errors import OwnFaultError
from hookkeeper.domain.mailbox import AddressFault, Mailbox, MailRules, Opening
from hookkeeper.domain.notice import Notice, NoticeKind, NoticeStatus
from hookkeeper.domain.tenancy import Mode
from hookkeeper.ports import Mailboxes, Notices
from hookkeeper.usecases.notify import MAX_IN_ONE_MAIL

from tests import faults
from tests.builders import MINUTE, NOW, a_key, a_notice, a_scope
from tests.contracts.conftest import AT_ONCE, Aws
from tests.fakes import FakeMailboxes, FakeNotices, World

ADDRESS = "owner@customer.example"
LEASE = 2 * MINUTE
TICK = timedelta(microseconds=1)


@dataclass(frozen=True)
class Post:
    """One backend's notices and mailboxes."""

    notices: Notices
    mailboxes: Mailboxes

    def mailbox(self) -> Mailbox:
        return self.mailboxes.get(a_scope(), ADDRESS)

    def held(self, by: str = "claim_1") -> Mailbox:
        mailbox = self.mailbox()
        assert self.mailboxes.hold(mailbox, by=by, now=NOW, lease=LEASE)
        return replace(mailbox, held_by=by, held_until=NOW + LEASE)

    def claimed(self, number: int = 1, by: str = "claim_1") -> Notice:
        notice = a_notice(key=a_key(number))
        assert self.notices.put(notice)
        assert self.notices.claim(notice, by=by, now=NOW, lease=LEASE)
        return replace(notice, claimed_by=by, claimed_until=NOW + LEASE)

    def look(self, notice: Notice) -> Notice:
        stored = self.notices.get(notice.key, notice.id)
        assert stored is not None
        return stored


def mailed(mailbox: Mailbox) -> Mailbox:
    return mailbox.mailed([NoticeKind.SUSPENDED], now=NOW, rules=MailRules())


def accepted(notice: Notice) -> Notice:
    return replace(notice, message_id="ses-1", sent_at=NOW)


def over_dynamodb(aws: Aws) -> Post:
    table, client = aws.table("Notices"), aws.client("dynamodb")
    return Post(
        DynamoDBNotices(client, notices_table=table, backoff=AT_ONCE),
        DynamoDBMailboxes(client, notices_table=table, backoff=AT_ONCE),
    )


@pytest.fixture(params=["fake", "dynamodb"])
def post(request: pytest.FixtureRequest) -> Post:
    if request.param == "fake":
        world = World()
        return Post(FakeNotices(world), FakeMailboxes(world))
    return over_dynamodb(request.getfixturevalue("aws"))


def test_an_address_nobody_wrote_to_is_untouched(post: Post) -> None:
    assert post.mailbox() == Mailbox(scope=a_scope(), address=ADDRESS)
    assert post.mailboxes.carried(a_scope(), "ses-1") == []


def test_one_at_a_time_writes_to_an_address(post: Post) -> None:
    held = post.held("claim_1")
    assert post.mailbox() == held

    def holds(by: str, at: timedelta) -> bool:
        return post.mailboxes.hold(held, by=by, now=NOW + at, lease=LEASE)

    assert not holds("claim_2", LEASE - TICK)
    assert holds("claim_1", MINUTE), "its own lost answer"
    assert holds("claim_2", MINUTE + LEASE)


def test_who_read_before_the_last_mail_does_not_hold(post: Post) -> None:
    early = post.mailbox()
    held = post.held()
    post.mailboxes.count(mailed(held), [accepted(post.claimed())], message_id="ses-1")
    post.mailboxes.release(held)
    assert not post.mailboxes.hold(early, by="claim_2", now=NOW, lease=LEASE)
    assert post.mailboxes.hold(post.mailbox(), by="claim_2", now=NOW, lease=LEASE)


def test_only_the_holder_releases(post: Post) -> None:
    held = post.held()
    post.mailboxes.release(replace(held, held_by="claim_2"))
    assert post.mailbox().held_by == "claim_1"
    post.mailboxes.release(held)
    assert post.mailbox() == Mailbox(scope=a_scope(), address=ADDRESS)


def test_a_mail_is_counted_with_all_that_it_told_or_not_at_all(post: Post) -> None:
    held = post.held()
    mine, others = post.claimed(1), post.claimed(2, by="claim_2")
    told = [accepted(mine), replace(accepted(others), claimed_by="claim_1")]
    with pytest.raises(OwnFaultError):
        post.mailboxes.count(mailed(held), told, message_id="ses-1")
    assert post.look(mine).message_id is None
    assert post.mailbox() == held
    post.mailboxes.count(mailed(held), [accepted(mine)], message_id="ses-1")
    stored = post.look(mine)
    assert (stored.status, stored.message_id, stored.sent_at) == (NoticeStatus.PENDING, "ses-1", NOW)
    assert post.mailbox() == mailed(held)
    assert post.mailboxes.carried(a_scope(), "ses-1") == [mine.id]


def test_a_mail_as_large_as_they_get_is_counted_at_once(post: Post) -> None:
    held = post.held()
    notices = [accepted(post.claimed(n)) for n in range(MAX_IN_ONE_MAIL)]
    post.mailboxes.count(mailed(held), notices, message_id="ses-1")
    assert {post.look(notice).message_id for notice in notices} == {"ses-1"}
    assert post.mailboxes.carried(a_scope(), "ses-1") == [notice.id for notice in notices]


def test_who_does_not_hold_the_mailbox_counts_nothing(post: Post) -> None:
    notice = post.claimed()
    mailbox = replace(post.mailbox(), held_by="claim_1")
    with pytest.raises(OwnFaultError):
        post.mailboxes.count(mailed(mailbox), [accepted(notice)], message_id="ses-1")
    assert post.look(notice).message_id is None


@pytest.mark.parametrize("fault", list(AddressFault))
def test_a_spoiled_address_is_bad_however_it_is_written(post: Post, fault: AddressFault) -> None:
    post.mailboxes.spoil(a_scope(), "Owner@Customer.example", fault, now=NOW)
    assert (post.mailbox().bad, post.mailbox().bad_at) == (fault, NOW)
    opening, _ = post.mailbox().opening([NoticeKind.SUSPENDED], now=NOW, rules=MailRules())
    assert opening is Opening.BAD


def test_an_address_can_be_spoiled_while_it_is_written_to(post: Post) -> None:
    held = post.held()
    post.mailboxes.spoil(a_scope(), ADDRESS, AddressFault.BOUNCED, now=NOW)
    post.mailboxes.count(mailed(held), [accepted(post.claimed())], message_id="ses-1")
    assert (post.mailbox().mails, post.mailbox().bad) == (1, AddressFault.BOUNCED)


@pytest.mark.parametrize("scope", [a_scope("other"), a_scope(mode=Mode.TEST)])
def test_nothing_is_known_of_an_address_in_another_scope(post: Post, scope: Any) -> None:
    held = post.held()
    post.mailboxes.count(mailed(held), [accepted(post.claimed())], message_id="ses-1")
    post.mailboxes.spoil(a_scope(), ADDRESS, AddressFault.BOUNCED, now=NOW)
    assert post.mailboxes.get(scope, ADDRESS) == Mailbox(scope=scope, address=ADDRESS)
    assert post.mailboxes.carried(scope, "ses-1") == []


def test_a_returned_mail_is_told_once_and_outlives_the_senders_last_mark(post: Post) -> None:
    notice = accepted(post.claimed())
    unheard = replace(notice, status=NoticeStatus.BOUNCED, mail_fault="Permanent/General")
    assert post.notices.mark_unheard(unheard)
    assert not post.notices.mark_unheard(unheard)
    assert not post.notices.mark(replace(notice, status=NoticeStatus.SENT))
    assert post.look(notice).status is NoticeStatus.BOUNCED
    assert post.look(notice).mail_fault == "Permanent/General"
    assert post.notices.stuck(NOW + 24 * 60 * MINUTE, limit=9) == []
    assert not post.notices.mark_unheard(a_notice(key=a_key(9), status=NoticeStatus.BOUNCED))


@pytest.mark.parametrize(
    "fault",
    [
        lambda client: faults.lose_answer(client, "TransactWriteItems"),
        lambda client: faults.refuse(
            client,
            "TransactWriteItems",
            code="TransactionCanceledException",
            CancellationReasons=[{"Code": "TransactionConflict"}, {"Code": "None"}, {"Code": "None"}],
        ),
        lambda client: faults.refuse(client, "TransactWriteItems", code="ThrottlingException", times=4),
    ],
    ids=["its answer is lost", "another transaction is in the way", "the table is busy"],
)
def test_the_write_after_the_providers_yes_is_made_through_trouble(
    aws: Aws, fault: Callable[[Any], None]
) -> None:
    post = over_dynamodb(aws)
    held, notice = post.held(), post.claimed()
    fault(aws.client("dynamodb"))
    post.mailboxes.count(mailed(held), [accepted(notice)], message_id="ses-1")
    assert post.look(notice).message_id == "ses-1"
    assert post.mailbox().mails == 1


def test_no_key_holds_an_address(aws: Aws) -> None:
    post = over_dynamodb(aws)
    post.mailboxes.spoil(a_scope(), ADDRESS, AddressFault.BOUNCED, now=NOW)
    (item,) = aws.items("Notices")
    assert "customer.example" not in str(item)
    assert item["pk"]["S"].startswith("acme#live#address#")

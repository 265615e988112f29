"""A notice exists once, is sent by one at a time, and is not forgotten while it is pending."""

from dataclasses import replace
from datetime import timedelta

import pytest
from hookkeeper.domain.notice import OPEN, WITHHELD, NoticeKind, NoticeStatus

from tests.builders import HOUR, MINUTE, NOW, a_key, a_notice, a_scope
from tests.contracts.stores import Stores

TICK = timedelta(microseconds=1)


def test_what_was_put_is_read_back_whole(stores: Stores) -> None:
    full = a_notice(
        status=NoticeStatus.SENT,
        claimed_by="run_1",
        claimed_until=NOW + MINUTE,
        sent_at=NOW + TICK,
        attempts=3,
        message_id="ses-1",
        dedupe="streak-1.2",
    )
    assert stores.notices.put(full)
    assert stores.notices.get(a_key(), full.id) == full
    assert stores.notices.get(a_key(2), full.id) is None
    assert stores.notices.get(a_key(1, a_scope("other")), full.id) is None
    assert stores.notices.get(a_key(), "nonsense") is None


def test_a_notice_of_the_same_kind_and_dedupe_is_told_once(stores: Stores) -> None:
    assert stores.notices.put(a_notice())
    assert not stores.notices.put(a_notice(facts={}))
    assert stores.notices.put(a_notice(dedupe="epoch-2"))
    assert stores.notices.put(a_notice(kind=NoticeKind.AT_RISK))
    assert stores.notices.put(a_notice(key=a_key(2)))
    assert stores.notices.get(a_key(), a_notice().id) == a_notice()


def test_notices_are_listed_newest_first(stores: Stores) -> None:
    for minutes, dedupe in ((2, "a"), (1, "b"), (3, "c")):
        stores.notices.put(a_notice(at=NOW + minutes * MINUTE, dedupe=dedupe))
    stores.notices.put(a_notice(key=a_key(2)))
    assert [notice.dedupe for notice in stores.notices.of(a_key(), limit=2)] == ["c", "a"]


def test_a_claim_holds_against_others_until_its_lease_ends(stores: Stores) -> None:
    stores.notices.put(a_notice())
    lease = 5 * MINUTE

    def claimed(by: str, at: timedelta) -> bool:
        return stores.notices.claim(a_notice(), by=by, now=NOW + at, lease=lease)

    assert claimed("run_1", timedelta())
    assert not claimed("run_2", lease - TICK)
    assert claimed("run_1", MINUTE)
    assert claimed("run_2", MINUTE + lease)
    found = stores.notices.get(a_key(), a_notice().id)
    assert found == a_notice(claimed_by="run_2", claimed_until=NOW + MINUTE + 2 * lease)


@pytest.mark.parametrize("status", sorted(OPEN))
def test_what_is_open_is_claimed_and_due(stores: Stores, status: NoticeStatus) -> None:
    stores.notices.put(a_notice(status=status))
    assert [notice.status for notice in stores.notices.stuck(NOW + HOUR, limit=9)] == [status]
    assert stores.notices.claim(a_notice(status=status), by="run_1", now=NOW, lease=MINUTE)


@pytest.mark.parametrize("status", sorted(set(NoticeStatus) - OPEN))
def test_what_is_closed_is_neither_claimed_nor_marked_otherwise_nor_due(
    stores: Stores, status: NoticeStatus
) -> None:
    stores.notices.put(a_notice())
    assert stores.notices.claim(a_notice(), by="run_1", now=NOW, lease=MINUTE)
    closed = a_notice(status=status, claimed_by="run_1", mail_fault="why", operators_told=True)
    assert stores.notices.mark(closed)
    assert stores.notices.mark(closed), "its own lost answer"
    assert not stores.notices.mark(replace(closed, status=NoticeStatus.PENDING))
    assert not stores.notices.claim(a_notice(), by="run_1", now=NOW + HOUR, lease=MINUTE)
    assert stores.notices.get(a_key(), closed.id) == closed
    assert stores.notices.stuck(NOW + 24 * HOUR, limit=9) == []


@pytest.mark.parametrize("status", sorted(WITHHELD))
def test_a_withheld_notice_is_reopened_once_and_due_at_once(stores: Stores, status: NoticeStatus) -> None:
    withheld = a_notice(
        status=status,
        claimed_by="run_1",
        claimed_until=NOW,
        attempts=9,
        mail_fault="why",
        operators_told=True,
    )
    stores.notices.put(withheld)
    later = NOW + 200 * HOUR
    assert stores.notices.reopen(withheld, now=later)
    assert not stores.notices.reopen(withheld, now=later + MINUTE), "it stands otherwise by now"
    (due,) = stores.notices.stuck(later, limit=9)
    assert due == a_notice(claimed_until=later, operators_told=True)
    assert not due.stale(later + MINUTE)
    assert stores.notices.claim(due, by="run_2", now=later, lease=MINUTE)


def test_a_notice_that_is_not_there_is_not_reopened(stores: Stores) -> None:
    assert not stores.notices.reopen(a_notice(status=NoticeStatus.STALE), now=NOW)
    assert stores.notices.get(a_key(), a_notice().id) is None


def test_only_the_holder_marks(stores: Stores) -> None:
    stores.notices.put(a_notice())
    assert not stores.notices.mark(a_notice(status=NoticeStatus.SENT))
    assert stores.notices.claim(a_notice(), by="run_1", now=NOW, lease=MINUTE)
    sent = a_notice(
        status=NoticeStatus.SENT,
        claimed_by="run_1",
        claimed_until=NOW + MINUTE,
        attempts=1,
        message_id="ses-1",
        sent_at=NOW,
    )
    assert not stores.notices.mark(replace(sent, claimed_by="run_2"))
    assert stores.notices.mark(sent)
    assert stores.notices.mark(sent)
    assert stores.notices.get(a_key(), sent.id) == sent


def test_a_pending_notice_is_stuck_two_minutes_after_it_was_put(stores: Stores) -> None:
    stores.notices.put(a_notice())
    stores.notices.put(a_notice(dedupe="sent", status=NoticeStatus.SENT))
    assert stores.notices.stuck(NOW + 2 * MINUTE - TICK, limit=9) == []
    assert stores.notices.stuck(NOW + 2 * MINUTE, limit=9) == [a_notice()]


def test_a_claimed_notice_is_stuck_when_its_lease_ends(stores: Stores) -> None:
    stores.notices.put(a_notice())
    assert stores.notices.claim(a_notice(), by="run_1", now=NOW + MINUTE, lease=5 * MINUTE)
    assert stores.notices.stuck(NOW + 6 * MINUTE - TICK, limit=9) == []
    assert [notice.claimed_by for notice in stores.notices.stuck(NOW + 6 * MINUTE, limit=9)] == ["run_1"]


def test_a_deferred_notice_is_stuck_when_its_wait_ends_and_a_sent_one_never(stores: Stores) -> None:
    stores.notices.put(a_notice())
    assert stores.notices.claim(a_notice(), by="run_1", now=NOW, lease=MINUTE)
    deferred = a_notice(claimed_by="run_1", claimed_until=NOW + HOUR, attempts=1)
    assert stores.notices.mark(deferred)
    assert stores.notices.stuck(NOW + HOUR - TICK, limit=9) == []
    assert stores.notices.stuck(NOW + HOUR, limit=9) == [deferred]
    assert stores.notices.mark(replace(deferred, status=NoticeStatus.SENT))
    assert stores.notices.stuck(NOW + 9 * HOUR, limit=9) == []


def test_stuck_notices_come_longest_first_over_all_tenants(stores: Stores) -> None:
    keys = [a_key(1), a_key(2, a_scope("other")), a_key(3)]
    for key, minutes in zip(keys, (2, 1, 3), strict=True):
        stores.notices.put(a_notice(key=key, at=NOW + minutes * MINUTE))
    found = stores.notices.stuck(NOW + HOUR, limit=2)
    assert [notice.key for notice in found] == [keys[1], keys[0]]


def test_nothing_is_written_of_a_notice_that_does_not_exist(stores: Stores) -> None:
    assert not stores.notices.claim(a_notice(), by="run_1", now=NOW, lease=MINUTE)
    assert not stores.notices.mark(a_notice(claimed_by="run_1"))
    assert stores.notices.of(a_key(), limit=9) == []

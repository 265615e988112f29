"""What an attempt makes of a delivery: sequences and their gaps, what is owed after it, and when it moves."""

from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

import pytest
from hookkeeper.domain.delivery import (
    MAX_KEPT_ATTEMPTS,
    Delivery,
    DeliveryStatus,
    Lane,
    Parcel,
    RetryRules,
)
from hookkeeper.domain.ledger import Tried, ended, held, owed_item, postponed, tried, untried
from hookkeeper.domain.outcome import Outcome
from hookkeeper.domain.recovery import RETENTION

from tests.builders import HOUR, MINUTE, NOW, a_delivered, a_delivery, a_parcel, an_attempt

SECOND = timedelta(seconds=1)
LATENCY = timedelta(milliseconds=80)
EXPIRY = NOW + RETENTION
RULES = RetryRules()
LIVE_GAPS = [5 * SECOND, MINUTE, 5 * MINUTE, 30 * MINUTE, 2 * HOUR]
SHORT_GAPS = [5 * SECOND, MINUTE]
BACKFILL = a_parcel(lane=Lane.BACKFILL, recovery_id="rec_1", generation=1)


def attempted(
    delivery: Delivery | None = None,
    outcome: Outcome = Outcome.RETRYABLE,
    *,
    parcel: Parcel | None = None,
    at: datetime = NOW,
    **changes: Any,
) -> Tried:
    """The delivery after one attempt of `outcome`, its retries not spread."""
    parcel = parcel or a_parcel(lane=delivery.lane if delivery else Lane.LIVE)
    n = delivery.attempt_count + 1 if delivery else 1
    attempt = an_attempt(n, at=at, lane=parcel.lane)
    plain = {"rules": RULES, "retention": RETENTION, "spread": 0.0}
    return tried(parcel, delivery, attempt, outcome, **{**plain, **changes})


def in_vain(lane: Lane, *, spread: float = 0.0) -> list[Tried]:
    """A whole sequence of retryable failures, each attempt made when it is due."""
    results = [attempted(parcel=a_parcel(lane=lane), spread=spread)]
    while results[-1].after.next_attempt_at is not None:
        last = results[-1].after
        results.append(attempted(last, at=last.next_attempt_at or NOW, spread=spread))
    return results


def waits(results: list[Tried]) -> list[timedelta]:
    ends = [result.after.attempts[-1].at + LATENCY for result in results[:-1]]
    return [(r.after.next_attempt_at or NOW) - end for r, end in zip(results, ends, strict=False)]


# ── gaps ─────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    "lane, gaps",
    [(Lane.LIVE, LIVE_GAPS), (Lane.BACKFILL, SHORT_GAPS), (Lane.REPLAY, SHORT_GAPS)],
)
def test_a_retryable_sequence_has_its_lanes_gaps_and_then_it_settles(
    lane: Lane, gaps: list[timedelta]
) -> None:
    results = in_vain(lane)
    assert waits(results) == gaps
    assert [result.settled for result in results] == [False] * len(gaps) + [True]
    assert [result.after.sequence for result in results] == [1] * len(results)
    assert results[-1].after.status is DeliveryStatus.EXHAUSTED


@pytest.mark.parametrize("spread, share", [(-1.0, 0.8), (1.0, 1.2), (0.5, 1.1)])
def test_gaps_are_spread_by_a_fifth_at_most(spread: float, share: float) -> None:
    assert waits(in_vain(Lane.LIVE, spread=spread)) == [gap * share for gap in LIVE_GAPS]


def test_a_live_sequence_takes_two_hours_and_36_minutes_in_all() -> None:
    assert RULES.span(Lane.LIVE) == 2 * HOUR + 36 * MINUTE + 5 * SECOND
    assert RULES.span(Lane.BACKFILL) == 65 * SECOND


@pytest.mark.parametrize("outcome", [Outcome.PERMANENT, Outcome.FATAL])
def test_permanent_and_fatal_settle_at_once(outcome: Outcome) -> None:
    result = attempted(outcome=outcome)
    assert (result.settled, result.after.status) == (True, DeliveryStatus.EXHAUSTED)
    assert result.after.next_attempt_at is None


def test_a_retryable_sequence_that_turns_permanent_settles_there() -> None:
    result = attempted(attempted().after, Outcome.PERMANENT)
    assert (result.settled, result.after.sequence, result.after.sequence_attempts) == (True, 1, 2)


# ── success ──────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("delivery", [None, a_delivery(), a_delivery(status=DeliveryStatus.HELD)])
def test_success_settles_and_nothing_is_owed(delivery: Delivery | None) -> None:
    result = attempted(delivery, Outcome.SUCCESS)
    assert (result.settled, result.owed, result.after.status) == (True, None, DeliveryStatus.SUCCEEDED)


# ── Retry-After ──────────────────────────────────────────────────────────────────────────────────

DEADLINE = NOW + RULES.span(Lane.LIVE)


@pytest.mark.parametrize(
    "floor, next_attempt_at",
    [
        (timedelta(0), NOW + LATENCY + 5 * SECOND),
        (2 * SECOND, NOW + LATENCY + 5 * SECOND),
        (10 * MINUTE, NOW + LATENCY + 10 * MINUTE),
        (9 * HOUR, DEADLINE),
    ],
    ids=["none", "under the gap", "over it", "past the deadline"],
)
def test_retry_after_is_a_floor_up_to_the_deliverys_deadline(
    floor: timedelta, next_attempt_at: datetime
) -> None:
    result = attempted(floor=floor)
    assert result.after.next_attempt_at == next_attempt_at
    assert result.owed is not None
    assert result.owed.due_at == next_attempt_at


def test_the_deadline_counts_from_the_sequences_first_attempt() -> None:
    later = attempted(attempted().after, at=NOW + HOUR, floor=9 * HOUR)
    assert later.after.next_attempt_at == DEADLINE


def test_past_the_deadline_the_gap_alone_holds() -> None:
    late = DEADLINE + HOUR
    assert attempted(attempted().after, at=late, floor=HOUR).after.next_attempt_at == late + LATENCY + MINUTE


# ── sequences ────────────────────────────────────────────────────────────────────────────────────

EXHAUSTED = in_vain(Lane.LIVE)[-1].after


@pytest.mark.parametrize(
    "delivery, parcel, sequence, attempts",
    [
        (None, a_parcel(), 1, 1),
        (None, BACKFILL, 1, 1),
        (a_delivery(), a_parcel(), 1, 2),
        (EXHAUSTED, BACKFILL, 2, 1),
        (a_delivery(status=DeliveryStatus.HELD), BACKFILL, 2, 1),
        (a_delivery(status=DeliveryStatus.HELD), a_parcel(), 2, 1),
        (a_delivery(), a_parcel(lane=Lane.REPLAY, replay_id="rpl_1"), 2, 1),
        (a_delivered(), a_parcel(lane=Lane.REPLAY, replay_id="rpl_1"), 2, 1),
    ],
    ids=[
        "the first",
        "the first, by a recovery",
        "a retry",
        "after a settled one",
        "after one that an outage interrupted",
        "the same, in its own lane",
        "in another lane",
        "after success",
    ],
)
def test_an_attempt_goes_on_with_its_own_lanes_open_sequence_or_begins_the_next(
    delivery: Delivery | None, parcel: Parcel, sequence: int, attempts: int
) -> None:
    after = attempted(delivery, parcel=parcel, at=NOW + MINUTE).after
    assert (after.sequence, after.sequence_attempts) == (sequence, attempts)
    assert after.lane is parcel.lane
    began = delivery.sequence_began_at if attempts > 1 and delivery else NOW + MINUTE
    assert after.sequence_began_at == began


def test_attempts_are_numbered_over_all_sequences_and_the_last_ten_are_kept() -> None:
    delivery: Delivery | None = None
    for _ in range(12):
        delivery = attempted(delivery).after
    assert delivery is not None
    assert delivery.attempt_count == 12
    assert [attempt.n for attempt in delivery.attempts] == list(range(3, 13))
    assert len(delivery.attempts) == MAX_KEPT_ATTEMPTS


def test_a_replay_is_remembered_once() -> None:
    replay = a_parcel(lane=Lane.REPLAY, replay_id="rpl_1")
    first = attempted(a_delivered(), parcel=replay).after
    assert attempted(first, parcel=replay).after.replays == ("rpl_1",)


# ── what is owed afterwards, and what moves it ───────────────────────────────────────────────────


def test_a_retry_is_an_owed_item_due_at_its_next_attempt() -> None:
    result = attempted()
    assert result.owed is not None
    assert result.owed.status is DeliveryStatus.RETRYING
    assert result.owed.due_at == result.after.next_attempt_at
    assert result.owed.expires_at == EXPIRY


@pytest.mark.parametrize("outcome", [Outcome.RETRYABLE, Outcome.FATAL])
def test_an_exhausted_delivery_has_one_automatic_recovery_an_hour_later(outcome: Outcome) -> None:
    delivery = EXHAUSTED if outcome is Outcome.RETRYABLE else None
    last = replace(delivery, attempts=(), settled=False, status=DeliveryStatus.RETRYING) if delivery else None
    result = attempted(last, outcome)
    assert result.owed is not None
    assert (result.owed.automatic_left, result.owed.due_at) == (True, NOW + LATENCY + HOUR)


def test_a_permanent_one_waits_for_a_person_who_is_told_a_day_before_it_expires() -> None:
    owed = attempted(outcome=Outcome.PERMANENT).owed
    assert owed is not None
    assert (owed.automatic_left, owed.due_at, owed.expires_at) == (False, EXPIRY - 24 * HOUR, EXPIRY)


@pytest.mark.parametrize("outcome", [Outcome.FATAL, Outcome.RETRYABLE])
def test_after_its_automatic_recovery_it_waits_for_a_person(outcome: Outcome) -> None:
    delivery = EXHAUSTED
    while not (result := attempted(delivery, outcome, parcel=BACKFILL)).settled:
        delivery = result.after
    assert result.owed is not None
    assert (result.owed.automatic_left, result.owed.due_at) == (False, EXPIRY - 24 * HOUR)
    assert result.after.own_recoveries == 1
    assert result.owed.tried_by == "rec_1"


def test_the_first_sequence_is_not_the_automatic_recovery_though_a_recovery_sent_it() -> None:
    owed = attempted(outcome=Outcome.FATAL, parcel=BACKFILL).owed
    assert owed is not None
    assert (owed.automatic_left, owed.due_at) == (True, NOW + LATENCY + HOUR)


def test_a_retry_by_hand_is_not_the_automatic_recovery() -> None:
    replay = a_parcel(lane=Lane.REPLAY, replay_id="rpl_1")
    assert attempted(EXHAUSTED, Outcome.FATAL, parcel=replay).after.own_recoveries == 0


@pytest.mark.parametrize("outcome", [Outcome.RETRYABLE, Outcome.PERMANENT, Outcome.FATAL])
@pytest.mark.parametrize("delivery", [None, a_delivery(), a_delivery(status=DeliveryStatus.HELD), EXHAUSTED])
def test_a_trial_in_vain_settles_at_once_and_is_held_for_the_outages_recovery(
    delivery: Delivery | None, outcome: Outcome
) -> None:
    result = attempted(delivery, outcome, parcel=BACKFILL, trial=True)
    assert (result.settled, result.after.status) == (True, DeliveryStatus.HELD)
    assert result.owed is not None
    assert (result.owed.status, result.owed.due_at) == (DeliveryStatus.HELD, EXPIRY)
    assert result.owed.tried_by is None, "the recovery whose own message was the trial takes it all the same"


def test_no_owed_item_is_due_after_its_expiry() -> None:
    old = a_delivery(archived_at=NOW - RETENTION + MINUTE, sequence_attempts=5)
    result = attempted(old, floor=HOUR)
    assert result.owed is not None
    assert result.owed.due_at == result.owed.expires_at == NOW + MINUTE


# ── without an attempt ───────────────────────────────────────────────────────────────────────────


def test_an_untried_delivery_has_had_no_sequence() -> None:
    record = untried(a_parcel(), None)
    assert (record.sequence, record.attempt_count, record.settled) == (0, 0, True)
    assert untried(a_parcel(), a_delivery()) == a_delivery()


def test_a_held_delivery_waits_for_no_moment() -> None:
    assert held(a_parcel(), a_delivery()) == a_delivery(status=DeliveryStatus.HELD, next_attempt_at=None)


def test_a_postponed_delivery_is_retried_when_the_endpoint_may_be_asked() -> None:
    record = postponed(a_parcel(), None, until=NOW + HOUR)
    assert (record.status, record.next_attempt_at) == (DeliveryStatus.RETRYING, NOW + HOUR)
    assert attempted(record, at=NOW + HOUR).after.sequence == 1


def test_an_exhausted_one_that_is_postponed_has_its_automatic_recovery_counted() -> None:
    record = postponed(BACKFILL, EXHAUSTED, until=NOW + HOUR)
    assert attempted(record, parcel=BACKFILL).after.own_recoveries == 1


@pytest.mark.parametrize("status", [DeliveryStatus.DISCARDED, DeliveryStatus.EXPIRED])
def test_an_ended_delivery_is_final_and_settled(status: DeliveryStatus) -> None:
    record = ended(a_delivery(), status)
    assert (record.final, record.settled, record.next_attempt_at) == (True, True, None)


def test_an_owed_item_tells_what_its_record_does() -> None:
    delivery = a_delivery(resource_id="r_1", outcome=Outcome.RETRYABLE, attempt_count=4)
    owed = owed_item(delivery, due_at=NOW + HOUR, retention=RETENTION)
    told = (owed.key, owed.event_type, owed.archived_at, owed.pointer, owed.resource_id, owed.status)
    record = delivery
    assert told == (
        record.key,
        record.event_type,
        record.archived_at,
        record.pointer,
        record.resource_id,
        record.status,
    )
    assert (owed.outcome, owed.attempt_count, owed.due_at) == (Outcome.RETRYABLE, 4, NOW + HOUR)

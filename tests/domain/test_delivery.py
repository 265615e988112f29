"""Where a delivery's record lies, and how many of its attempts are kept."""

from collections import Counter

import pytest
from hookkeeper.domain.delivery import (
    FINAL,
    LEDGER_LIFE,
    MAX_KEPT_ATTEMPTS,
    MAX_QUEUE_DELAY,
    SHARDS,
    DeliveryStatus,
    Lane,
    RetryRules,
    shard_of,
    with_attempt,
)
from hookkeeper.domain.recovery import RETENTION
from hypothesis import given
from hypothesis import strategies as st

from tests.builders import HOUR, a_delivery, an_attempt


@given(st.text("abcdefghijklmnopqrstuvwxyz0123456789_-", min_size=1, max_size=64))
def test_an_event_is_always_in_the_same_shard(event_id: str) -> None:
    assert 0 <= shard_of(event_id) < SHARDS
    assert shard_of(event_id) == shard_of(event_id)


def test_the_shard_of_an_id_is_for_ever() -> None:
    """The stored keys hold it: another function would lose every record."""
    assert [shard_of(f"evt_{n}") for n in range(8)] == [3, 5, 7, 1, 2, 4, 6, 0]


def test_events_spread_evenly_over_the_shards() -> None:
    counts = Counter(shard_of(f"evt_{n:026d}") for n in range(8000))
    assert len(counts) == SHARDS
    assert max(counts.values()) < 2 * min(counts.values())


def test_the_last_ten_attempts_are_kept() -> None:
    attempts = tuple(an_attempt(n) for n in range(1, MAX_KEPT_ATTEMPTS + 1))
    kept = with_attempt(attempts, an_attempt(11))
    assert [attempt.n for attempt in kept] == list(range(2, 12))


@pytest.mark.parametrize("status", sorted(DeliveryStatus))
def test_succeeded_discarded_and_expired_are_final(status: DeliveryStatus) -> None:
    final = status in {DeliveryStatus.SUCCEEDED, DeliveryStatus.DISCARDED, DeliveryStatus.EXPIRED}
    assert a_delivery(status=status).final is final
    assert (status in FINAL) is final


def test_a_record_outlives_the_queues_the_retention_and_the_recovery_of_it() -> None:
    assert LEDGER_LIFE > 2 * RETENTION


@pytest.mark.parametrize("lane", sorted(Lane))
@pytest.mark.parametrize("sequence_attempts", [1, 2, 3, 6, 7, 100])
def test_a_sequence_is_over_after_its_last_gap(lane: Lane, sequence_attempts: int) -> None:
    rules = RetryRules()
    gap = rules.gap_after(lane, sequence_attempts=sequence_attempts, spread=0)
    assert (gap is None) is (sequence_attempts > len(rules.gaps(lane)))


def test_the_longest_gap_is_longer_than_a_queue_can_wait() -> None:
    """So that the sweep alone moves it: the owed item is no luxury."""
    assert max(RetryRules().live) == 2 * HOUR
    assert max(RetryRules().live) > MAX_QUEUE_DELAY

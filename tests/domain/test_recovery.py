"""A recovery's pace, the windows it reads, and who holds the lock when an outage ends."""

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from hookkeeper.domain.recovery import (
    DAY,
    FIRST_REST,
    HOLDING,
    LEASE,
    MOST_A_DAY,
    WINDOWS_AT_MOST,
    Cursor,
    Ended,
    Pace,
    RecoveryKind,
    RecoveryLock,
    RecoveryStatus,
    Rounds,
    Window,
    ended_by,
    joined,
    with_window,
)

from tests.builders import HOUR, MINUTE, NOW, a_lock, a_recovery

PACE = Pace()
WINDOW = Window(start=NOW - HOUR, end=NOW)
EARLIER = Window(start=NOW - 3 * HOUR, end=NOW - 2 * HOUR, cursor=Cursor(NOW - 2 * HOUR, "evt_9"))


# ── pace ─────────────────────────────────────────────────────────────────────────────────────────


def test_clean_slices_double_the_pace_from_five_a_second_to_a_hundred() -> None:
    rates = [PACE.first_rate()]
    for _ in range(6):
        rates.append(PACE.next_rate(rates[-1], clean=True))
    assert rates == [5, 10, 20, 40, 80, 100, 100]


def test_trouble_halves_it_down_to_one_a_second() -> None:
    rates = [100.0]
    for _ in range(8):
        rates.append(PACE.next_rate(rates[-1], clean=False))
    assert rates == [100, 50, 25, 12.5, 6.25, 3.125, 1.5625, 1, 1]


@pytest.mark.parametrize(
    "rate, ceiling, clean, after",
    [(5, 8, True, 8), (80, 30, True, 30), (5, 500, True, 10), (80, 500, True, 100), (0.5, 0.5, False, 0.5)],
)
def test_the_pace_asked_for_is_a_ceiling_and_never_over_the_operators(
    rate: float, ceiling: float, *, clean: bool, after: float
) -> None:
    assert PACE.next_rate(rate, clean=clean, ceiling=ceiling) == after


@pytest.mark.parametrize(
    "rate, seconds", [(100, 60), (20, 60), (10, 120), (5, 240), (1.4, 857), (1, 900), (0.01, 900)]
)
def test_a_slice_is_a_minute_and_longer_only_where_the_pace_is_slow(rate: float, seconds: int) -> None:
    assert PACE.slice_span(rate) == seconds


def test_a_lease_outlives_the_longest_slice() -> None:
    assert LEASE.total_seconds() >= 2 * PACE.longest_slice_seconds


# ── windows ──────────────────────────────────────────────────────────────────────────────────────


def test_windows_stand_in_order_and_those_that_overlap_are_one() -> None:
    later = Window(start=NOW + HOUR, end=NOW + 2 * HOUR)
    overlapping = Window(start=NOW - HOUR / 2, end=NOW + HOUR / 2)
    assert with_window([later, WINDOW], EARLIER) == (EARLIER, WINDOW, later)
    merged = Window(start=WINDOW.start, end=overlapping.end)
    assert with_window([EARLIER, WINDOW, later], overlapping) == (EARLIER, merged, later)


def test_of_two_windows_in_one_nothing_is_taken_for_read_that_the_second_owes() -> None:
    read = Window(start=NOW - HOUR, end=NOW, cursor=Cursor(NOW + MINUTE, "evt_5"))
    (merged,) = with_window([read], Window(start=NOW - MINUTE, end=NOW + HOUR))
    assert merged == Window(start=NOW - HOUR, end=NOW + HOUR, cursor=Cursor(NOW - MINUTE, ""))
    behind = replace(read, cursor=Cursor(NOW - 2 * MINUTE, "evt_3"))
    (merged,) = with_window([behind], Window(start=NOW - MINUTE, end=NOW + HOUR))
    assert merged.cursor == behind.cursor, "what the first had not read is read first"


def test_a_lock_never_carries_more_windows_than_deliveries_can_afford_to_read() -> None:
    windows: tuple[Window, ...] = ()
    for n in range(500):
        windows = with_window(windows, Window(start=NOW + n * HOUR, end=NOW + n * HOUR + MINUTE))
        assert len(windows) <= WINDOWS_AT_MOST
    assert (windows[0].start, windows[-1].end) == (NOW, NOW + 499 * HOUR + MINUTE)
    covered = [any(w.start <= NOW + n * HOUR <= w.end for w in windows) for n in range(500)]
    assert all(covered)


# ── how often automatic recoveries set out ───────────────────────────────────────────────────────


def test_automatic_recoveries_of_a_flapping_endpoint_rest_five_minutes_doubling_to_an_hour() -> None:
    rounds, now, rests = Rounds(), NOW, []
    for _ in range(7):
        rounds = rounds.set_out(now)
        rests.append((rounds.next_at(now) - now) / MINUTE)
        now = rounds.next_at(now)
    assert rests == [5, 10, 20, 40, 60, 60, 60]


def test_an_endpoint_that_has_been_calm_for_two_hours_is_as_new() -> None:
    rounds = Rounds(at=(NOW,), rest=20 * MINUTE)
    assert rounds.next_at(NOW + MINUTE) == NOW + 20 * MINUTE
    assert rounds.set_out(NOW + 119 * MINUTE).rest == 40 * MINUTE
    assert rounds.set_out(NOW + 120 * MINUTE).rest == FIRST_REST
    assert Rounds().next_at(NOW) == NOW


@pytest.mark.parametrize(
    "in_a_row, calm, first_day",
    [
        pytest.param(None, 0 * HOUR, 24, id="flaps each minute"),
        pytest.param(5, 2 * HOUR, 24, id="five, then two calm hours"),
        pytest.param(3, 3 * HOUR, 24, id="three, then three calm hours"),
        pytest.param(1, 2 * HOUR, 12, id="once in two hours"),
        pytest.param(1, 30 * HOUR, 1, id="once in thirty hours"),
    ],
)
def test_no_24_hours_hold_more_than_24_automatic_recoveries(
    in_a_row: int | None, calm: timedelta, first_day: int
) -> None:
    """Each as early as it may, but for the calm between rows."""
    moments, rounds, now = [NOW], Rounds().set_out(NOW), NOW
    while now < NOW + 10 * DAY:
        rested = in_a_row is not None and len(moments) % in_a_row == 0
        now = rounds.next_at(now + calm if rested else now)
        rounds = rounds.set_out(now)
        moments.append(now)
    days = [sum(at < later <= at + DAY for later in moments) for at in [NOW - MINUTE, *moments]]
    assert max(days) <= MOST_A_DAY
    assert days[0] == first_day
    assert len(rounds.at) <= MOST_A_DAY


def test_a_day_with_less_than_its_most_lets_the_next_outage_recover_at_once() -> None:
    rounds = Rounds(at=tuple(NOW + n * HOUR for n in range(23)), rest=HOUR)
    assert rounds.next_at(NOW + 23 * HOUR) == NOW + 23 * HOUR
    full = rounds.set_out(NOW + 23 * HOUR)
    assert full.next_at(NOW + 23 * HOUR) == NOW + DAY
    assert full.next_at(NOW + 3 * DAY) == NOW + 3 * DAY


@pytest.mark.parametrize("calm", [0 * HOUR, HOUR, 3 * HOUR])
def test_a_round_that_was_called_off_is_as_if_it_had_never_set_out(calm: timedelta) -> None:
    rounds, now = Rounds(), NOW
    for _ in range(MOST_A_DAY):
        called_off = rounds.set_out(now).called_off()
        assert called_off.next_at(now) == now
        assert called_off.set_out(now) == rounds.set_out(now)
        rounds = rounds.set_out(now)
        now = rounds.next_at(now) + calm


def test_a_rest_that_the_days_most_made_longer_is_no_calm() -> None:
    burst = tuple(NOW + n * MINUTE for n in range(24))
    rounds = Rounds(at=burst, rest=HOUR)
    assert rounds.next_at(NOW + HOUR) == NOW + DAY
    assert rounds.set_out(NOW + DAY).rest == HOUR
    assert rounds.set_out(NOW + DAY + HOUR).rest == FIRST_REST


def test_the_rest_outlives_the_recovery() -> None:
    rounds = Rounds(at=(NOW,), rest=HOUR)
    assert ended(a_lock(status=RecoveryStatus.COMPLETED, rounds=rounds)).rounds == rounds


@pytest.mark.parametrize("status", RecoveryStatus)
def test_who_loses_a_held_lock_has_ended_whatever_takes_it(status: RecoveryStatus) -> None:
    before = a_lock(status=status)
    stopped = replace(before, status=RecoveryStatus.STOPPED)
    cancelled = replace(before, status=RecoveryStatus.CANCELLED)
    taken = a_lock(a_recovery(2))
    found = [ended_by(before, after, now=NOW) for after in (stopped, cancelled, taken, before)]
    if status in HOLDING:
        words = (RecoveryStatus.STOPPED, RecoveryStatus.CANCELLED, RecoveryStatus.STOPPED)
        assert found == [*(Ended(a_recovery().id, word, NOW) for word in words), None]
    else:
        assert found == [None] * 4


def test_a_cursor_is_ordered_by_moment_then_by_id() -> None:
    places = [Cursor(NOW, "b"), Cursor(NOW, "a"), Cursor(NOW - MINUTE, "c")]
    assert sorted(places) == [places[2], places[1], places[0]]


# ── the lock when an outage ends ─────────────────────────────────────────────────────────────────


def ended(lock: RecoveryLock, window: Window | None = WINDOW) -> RecoveryLock:
    return joined(lock, window=window, recovery_id="rec_new", kind=RecoveryKind.AUTOMATIC, now=NOW)


@pytest.mark.parametrize("status", sorted(HOLDING))
def test_a_recovery_that_holds_the_lock_gets_the_window_and_goes_on(status: RecoveryStatus) -> None:
    lock = a_lock(status=status, windows=(EARLIER,), version=7)
    after = ended(lock)
    assert (after.id, after.generation, after.status) == (lock.id, lock.generation, status)
    assert after.windows == (EARLIER, WINDOW)
    assert after.lease_until == lock.lease_until
    assert after.version == 8


@pytest.mark.parametrize("status", [None, *sorted(set(RecoveryStatus) - HOLDING)])
def test_else_a_new_recovery_waits_for_the_sweep_and_takes_what_others_left(status: Any) -> None:
    lock = a_lock(status=status, windows=(EARLIER,), version=7, generation=3)
    after = ended(lock)
    assert (after.id, after.status, after.kind) == (
        "rec_new",
        RecoveryStatus.WAITING,
        RecoveryKind.AUTOMATIC,
    )
    assert after.windows == (EARLIER, WINDOW)
    assert after.lease_until == NOW, "the next sweep starts it"
    assert (after.version, after.generation) == (8, 4)


def test_an_outage_without_a_window_still_puts_the_recovery_of_what_is_held() -> None:
    after = ended(RecoveryLock(), window=None)
    assert (after.held, after.windows) == (True, ())


@pytest.mark.parametrize("status", sorted(RecoveryStatus))
def test_holding_is_neither_cancelled_nor_over(status: RecoveryStatus) -> None:
    lock = a_lock(a_recovery(status=status))
    assert lock.held is (status in HOLDING)
    assert lock.cancelled is (status in {RecoveryStatus.CANCELLED, RecoveryStatus.STOPPED})


@pytest.mark.parametrize(
    "recovery_id, generation, present",
    [(a_recovery().id, 1, True), (a_recovery().id, 2, False), (a_recovery(2).id, 1, False)],
)
def test_a_message_belongs_to_the_very_recovery_and_generation(
    recovery_id: str, generation: int, *, present: bool
) -> None:
    assert a_lock().is_present(recovery_id, generation) is present

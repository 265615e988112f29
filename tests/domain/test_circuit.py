"""The circuit: what opens it, who may try, how long it stays open."""

from dataclasses import replace
from datetime import datetime, timedelta

import pytest
from hookkeeper.domain.circuit import (
    TRIAL_LEASE,
    Circuit,
    CircuitRules,
    closed,
    fed,
    opened,
    trial_failed,
    trial_returned,
    trial_taken,
    woken,
)

from tests.builders import HOUR, MINUTE, NOW

RULES = CircuitRules()
SECOND = timedelta(seconds=1)
TICK = timedelta(microseconds=1)


def after(*batches: tuple[float, int, bool]) -> Circuit:
    """A closed circuit fed with batches of (second, failures, any success)."""
    circuit = Circuit()
    for second, failures, success in batches:
        now = NOW + second * SECOND
        circuit = fed(circuit, RULES, failures=failures, any_success=success, now=now)
    return circuit


@pytest.mark.parametrize(
    "batches, is_open",
    [
        ([(0, 5, False)], True),
        ([(0, 400, False)], True),
        ([(0, 4, False)], False),
        ([(0, 4, False), (60, 1, False)], True),
        ([(0, 4, False), (60.000001, 1, False)], False),
        ([(0, 1, False), (15, 1, False), (30, 1, False), (45, 1, False), (60, 1, False)], True),
        ([(0, 1, False), (16, 1, False), (32, 1, False), (48, 1, False), (64, 1, False)], False),
        ([(0, 4, False), (1, 0, True), (2, 4, False)], False),
        ([(0, 4, False), (1, 1, True), (2, 4, False)], False),
        ([(0, 25, True)], False),
        ([(0, 3, False), (0, 2, False)], True),
    ],
    ids=str,
)
def test_five_failures_in_a_row_within_a_minute_open_it(
    batches: list[tuple[float, int, bool]], *, is_open: bool
) -> None:
    assert after(*batches).is_open is is_open


def test_the_fifth_of_a_long_row_counts_from_the_last_five() -> None:
    assert after((0, 3, False), (61, 2, False), (62, 2, False), (63, 1, False)).is_open


@pytest.mark.parametrize("failures, success", [(0, False), (0, True), (7, True)])
def test_a_clean_circuit_that_learns_nothing_is_not_written(failures: int, *, success: bool) -> None:
    circuit = Circuit(version=3)
    assert fed(circuit, RULES, failures=failures, any_success=success, now=NOW) is circuit


def test_an_open_circuit_opens_to_a_trial_after_thirty_seconds() -> None:
    circuit = opened(Circuit(), RULES, now=NOW)
    assert circuit.is_open
    assert not circuit.trial_free(NOW + 30 * SECOND - TICK)
    assert circuit.trial_free(NOW + 30 * SECOND)
    assert circuit.wake_at == NOW + 30 * SECOND + MINUTE


def test_a_closed_circuit_has_no_trial() -> None:
    assert not Circuit().trial_free(NOW)


def test_the_trial_is_one_callers_until_its_lease_ends() -> None:
    circuit = trial_taken(opened(Circuit(), RULES, now=NOW), by="trial_1", now=NOW + MINUTE)
    assert circuit.trial_by == "trial_1"
    assert not circuit.trial_free(NOW + MINUTE + TRIAL_LEASE - TICK)
    assert circuit.trial_free(NOW + MINUTE + TRIAL_LEASE)


def test_the_lease_outlives_the_longest_attempt() -> None:
    assert timedelta(seconds=30) < TRIAL_LEASE


def test_each_failed_trial_doubles_the_time_open_up_to_five_minutes() -> None:
    circuit, now, spans = opened(Circuit(), RULES, now=NOW), NOW, []
    for _ in range(6):
        assert circuit.open_until is not None
        now = circuit.open_until
        circuit = trial_failed(trial_taken(circuit, by="t", now=now), RULES, now=now)
        spans.append(open_for(circuit, now))
    assert spans == [60 * SECOND, 120 * SECOND, 240 * SECOND, 300 * SECOND, 300 * SECOND, 300 * SECOND]


def open_for(circuit: Circuit, now: datetime) -> timedelta:
    assert circuit.open_until is not None
    return circuit.open_until - now


def test_a_failed_trial_is_over() -> None:
    circuit = trial_failed(trial_taken(opened(Circuit(), RULES, now=NOW), by="t", now=NOW), RULES, now=NOW)
    assert (circuit.trial_by, circuit.trial_lease_until) == (None, None)


def test_each_wake_doubles_the_wait_for_the_next_up_to_an_hour() -> None:
    circuit, waits = opened(Circuit(), RULES, now=NOW), []
    for _ in range(8):
        circuit = woken(circuit, RULES, now=NOW)
        assert circuit.wake_at is not None
        waits.append(circuit.wake_at - NOW)
    assert waits == [2 * MINUTE, 4 * MINUTE, 8 * MINUTE, 16 * MINUTE, 32 * MINUTE, HOUR, HOUR, HOUR]


def test_a_failed_trial_keeps_the_wakes_pace() -> None:
    circuit = woken(opened(Circuit(), RULES, now=NOW), RULES, now=NOW)
    assert trial_failed(circuit, RULES, now=NOW).wake_at == NOW + MINUTE + 2 * MINUTE


def test_a_trial_given_back_is_free_at_once() -> None:
    circuit = trial_taken(opened(Circuit(), RULES, now=NOW), by="t", now=NOW + MINUTE)
    assert trial_returned(circuit).trial_free(NOW + MINUTE)


def test_closed_is_forgotten() -> None:
    circuit = trial_failed(opened(Circuit(version=7), RULES, now=NOW), RULES, now=NOW)
    assert closed(circuit) == Circuit(version=circuit.version + 1)


def test_every_change_raises_the_version_that_guards_the_next() -> None:
    circuit = Circuit(version=1)
    changes = [
        fed(circuit, RULES, failures=1, any_success=False, now=NOW),
        fed(replace(circuit, recent_failures=(NOW,)), RULES, failures=0, any_success=True, now=NOW),
        opened(circuit, RULES, now=NOW),
        closed(circuit),
        trial_taken(circuit, by="t", now=NOW),
        trial_failed(circuit, RULES, now=NOW),
        trial_returned(circuit),
        woken(circuit, RULES, now=NOW),
    ]
    assert [changed.version for changed in changes] == [2] * len(changes)

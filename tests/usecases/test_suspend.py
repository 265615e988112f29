"""The policy asked about a failing endpoint: suspended once, in no silence, and never against a success."""

import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from hookkeeper.domain.config import RuntimeConfig
from hookkeeper.domain.errors import OwnFaultError
from hookkeeper.domain.health import AutoSuspend, Streak
from hookkeeper.domain.notice import NoticeKind
from hookkeeper.domain.outcome import OWN_FAULTS, Answer, Fault, Outcome
from hookkeeper.domain.recovery import RETENTION, RecoveryStatus
from hookkeeper.domain.subscription import DisabledReason, Status
from hookkeeper.usecases.suspend import Ruled, Ruling

from tests.builders import (
    HOUR,
    MINUTE,
    NOW,
    a_delivery,
    a_delivery_key,
    a_failing_health,
    a_health,
    a_key,
    a_lock,
    a_parcel,
    a_recovery,
    a_subscription,
    a_suspended_subscription,
    an_event,
    an_owed,
)
from tests.core import Core, counts

KEY = a_key()
OUTAGE = timedelta(minutes=5)


def failing(**changes: Any) -> Core:
    """A core whose one subscription is over graded's retryable limit."""
    core = Core()
    core.subscribe(health=a_failing_health(**changes))
    return core


def of_class(outcome: Outcome, count: int, age: timedelta) -> dict[str, Any]:
    first = NOW - age
    return {
        "streaks": {outcome: Streak(count, first)},
        "consecutive_failures": count,
        "first_failure_at": first,
    }


# ── the change ───────────────────────────────────────────────────────────────────────────────────


def test_an_endpoint_over_its_limit_is_suspended_with_audit_and_notice() -> None:
    core = failing()
    assert core.suspend(KEY).ruling is Ruling.SUSPENDED
    subscription, health = core.present(KEY), core.health(KEY)
    assert (subscription.status, subscription.disabled_at) == (Status.SUSPENDED, NOW)
    assert subscription.status_reason == "auto_suspend:retryable:25"
    assert subscription.last_failure_status == 500
    assert (health.epoch, health.epoch_at, health.outage_from) == (2, NOW, NOW - OUTAGE)
    (record,) = core.world.audit.values()
    assert (record.action, record.before, record.after) == (
        "subscription.suspended",
        {"status": "active"},
        {"status": "suspended"},
    )
    (notice,) = core.world.notices_of(NoticeKind.SUSPENDED)
    assert (notice.dedupe, notice.owner_email) == ("epoch-2", "owner@customer.example")


@pytest.mark.parametrize(
    "outcome, count, age, reason",
    [
        (Outcome.RETRYABLE, 25, 12 * HOUR, DisabledReason.REPEATED_FAILURE),
        (Outcome.PERMANENT, 5, HOUR, DisabledReason.PERMANENT_ERROR),
        (Outcome.FATAL, 3, 15 * MINUTE, DisabledReason.PERMANENT_ERROR),
    ],
)
def test_each_class_gives_its_reason(
    outcome: Outcome, count: int, age: timedelta, reason: DisabledReason
) -> None:
    core = failing(**of_class(outcome, count, age))
    core.suspend(KEY)
    assert core.present(KEY).disabled_reason is reason
    assert core.present(KEY).status_reason == f"auto_suspend:{outcome}:{count}"


def test_a_mixed_streak_says_so() -> None:
    first = NOW - 13 * HOUR
    streaks = {Outcome.RETRYABLE: Streak(22, first), Outcome.FATAL: Streak(2, first)}
    streaks |= {Outcome.PERMANENT: Streak(4, first)}
    core = failing(streaks=streaks, consecutive_failures=28, first_failure_at=first)
    core.suspend(KEY)
    assert core.present(KEY).status_reason == "auto_suspend:mixed:28"
    assert core.present(KEY).disabled_reason is DisabledReason.REPEATED_FAILURE


def test_f13_the_notice_has_the_facts_of_the_moment() -> None:
    core = failing()
    for n in (1, 2):
        core.world.owed[a_delivery_key(n), NOW] = an_owed(key=a_delivery_key(n))
    core.suspend(KEY)
    core.set_health(KEY, consecutive_failures=99, last_error="later")
    (notice,) = core.world.notices_of(NoticeKind.SUSPENDED)
    assert notice.facts == {
        "failures": "25",
        "failing_since": "2026-11-30T23:00:00Z",
        "last_status": "500",
        "last_error": "HTTP 500",
        "last_attempt_at": "2026-12-01T11:59:00Z",
        "limits": "retryable: 25 of 25, 13 h of 12 h",
        "waiting": "2",
        "recoverable_until": (NOW - OUTAGE + RETENTION).strftime("%Y-%m-%dT%H:%M:%SZ"),
        "suspended_at": "2026-12-01T12:00:00Z",
    }
    assert notice.endpoint_url == core.present(KEY).endpoint_url


def test_an_outage_that_has_begun_keeps_its_beginning() -> None:
    core = failing(outage_from=NOW - 3 * HOUR)
    core.suspend(KEY)
    assert core.health(KEY).outage_from == NOW - 3 * HOUR


def test_a_recovery_that_runs_is_stopped_and_leaves_its_windows() -> None:
    recovery = a_recovery()
    core = failing(recovery=a_lock(recovery, windows=(), version=5))
    core.suspend(KEY)
    lock = core.health(KEY).recovery
    assert (lock.status, lock.id, lock.version) == (RecoveryStatus.STOPPED, recovery.id, 6)


def test_f12_two_suspensions_are_two_notices() -> None:
    core = failing()
    core.suspend(KEY)
    core.reenable(KEY)
    core.set_health(KEY, **of_class(Outcome.FATAL, 3, HOUR))
    core.suspend(KEY)
    assert [n.dedupe for n in core.world.notices_of(NoticeKind.SUSPENDED)] == ["epoch-2", "epoch-4"]


# ── not suspended ────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    "subscription, health",
    [
        (a_subscription(), a_failing_health(24)),
        (a_subscription(), a_failing_health(25, hours=11)),
        (a_subscription(maintenance_until=NOW + HOUR), a_failing_health()),
        (a_subscription(policy="patient"), a_failing_health()),
        (a_subscription(status=Status.REVOKED), a_failing_health()),
        (a_suspended_subscription(), a_failing_health()),
    ],
    ids=["count", "age", "maintenance", "patient", "revoked", "suspended"],
)
def test_short_of_a_limit_nothing_changes(subscription: Any, health: Any) -> None:
    core = Core()
    core.subscribe(subscription, health)
    assert core.suspend(KEY).ruling in (Ruling.FINE, Ruling.AT_RISK)
    assert core.present(KEY) == subscription
    assert core.world.audit == {}
    assert core.world.notices_of(NoticeKind.SUSPENDED) == []


def test_a_subscription_that_is_not_there_is_fine() -> None:
    assert Core().suspend(KEY) == Ruled(Ruling.FINE)


@pytest.mark.parametrize(
    "mode, ruling", [(AutoSuspend.OBSERVE, Ruling.OBSERVED), (AutoSuspend.OFF, Ruling.FINE)]
)
def test_where_it_is_only_observed_the_verdict_is_told_and_nothing_done(
    mode: AutoSuspend, ruling: Ruling
) -> None:
    core = failing()
    core.world.config = RuntimeConfig(auto_suspend=mode)
    ruled = core.suspend(KEY)
    assert ruled.ruling is ruling
    assert ruled.verdict is not None
    assert ruled.verdict.suspend
    assert core.present(KEY).enabled
    assert core.world.notices == {}


def test_at_half_way_the_owner_is_warned_once_a_streak() -> None:
    core = failing(count=13, hours=7)
    assert core.suspend(KEY).ruling is Ruling.AT_RISK
    core.later(HOUR)
    core.suspend(KEY)
    (notice,) = core.world.notices_of(NoticeKind.AT_RISK)
    assert notice.facts["limits"] == "retryable: 13 of 25, 7 h of 12 h"
    core.set_health(KEY, **of_class(Outcome.FATAL, 2, 10 * MINUTE))
    core.suspend(KEY)
    assert len(core.world.notices_of(NoticeKind.AT_RISK)) == 2


# ── races ────────────────────────────────────────────────────────────────────────────────────────


@contextmanager
def threads_switch_often() -> Iterator[None]:
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        yield
    finally:
        sys.setswitchinterval(interval)


def test_h12_twelve_who_see_the_limit_at_once_are_one_suspension() -> None:
    with threads_switch_often():
        for _ in range(40):
            core = failing()
            barrier = threading.Barrier(12)
            rulings: list[Ruling] = []

            def ask(core: Core = core, barrier: Any = barrier, rulings: Any = rulings) -> None:
                barrier.wait()
                rulings.append(core.suspend(KEY).ruling)

            threads = [threading.Thread(target=ask) for _ in range(12)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
            assert rulings.count(Ruling.SUSPENDED) == 1
            assert core.health(KEY).epoch == 2
            assert len(core.world.audit) == len(core.world.notices) == 1


def test_f59_a_success_that_slips_in_wins() -> None:
    core = failing()

    def success(call: str) -> None:
        if call == "Subscriptions.transition":
            core.set_health(KEY, streaks={}, consecutive_failures=0, first_failure_at=None)

    core.world.before_call = success
    assert core.suspend(KEY).ruling is Ruling.LOST
    assert core.present(KEY).enabled
    assert (core.world.audit, core.world.notices) == ({}, {})


def test_f59_a_success_and_a_new_streak_over_the_count_win_too() -> None:
    core = failing()

    def success(call: str) -> None:
        if call == "Subscriptions.transition":
            core.set_health(KEY, **of_class(Outcome.RETRYABLE, 30, MINUTE))

    core.world.before_call = success
    assert core.suspend(KEY).ruling is Ruling.LOST
    assert core.present(KEY).enabled


def test_a_failure_that_slips_in_changes_nothing_about_it() -> None:
    core = failing()

    def failure(call: str) -> None:
        if call == "Subscriptions.transition":
            core.set_health(KEY, consecutive_failures=26)

    core.world.before_call = failure
    assert core.suspend(KEY).ruling is Ruling.SUSPENDED


def test_an_edit_that_slips_in_neither_defeats_it_nor_is_lost() -> None:
    core = failing()

    def edit(call: str) -> None:
        if call == "Subscriptions.transition":
            core.world.before_call = None
            present = core.present(KEY)
            core.world.subscriptions[KEY] = replace(present, timeout_seconds=30, version=2)

    core.world.before_call = edit
    assert core.suspend(KEY).ruling is Ruling.SUSPENDED
    assert core.present(KEY).timeout_seconds == 30


# ── from the first failure on ────────────────────────────────────────────────────────────────────


class Failing:
    """An endpoint that is sent one event after the other, each a whole sequence of one attempt."""

    def __init__(self, answer: Answer, policy: str = "graded") -> None:
        self.core = Core(answer=lambda _: self.answer)
        self.answer = answer
        self.core.subscribe(a_subscription(policy=policy))
        self.sent = 0

    def fail(self, *, at: timedelta) -> Ruling | None:
        """One event, attempted at that time of the day, whose sequence is over with it."""
        self.core.world.now = NOW + at
        self.sent += 1
        delivered = self.core.deliver(self.core.archived(KEY, an_event(self.sent)))
        ruled = delivered.rulings.get(KEY)
        return ruled.ruling if ruled else None


GONE = Answer(status_code=410, latency_ms=50)


def test_bb_02_since_when_is_the_first_failure_and_every_new_one_leaves_it() -> None:
    patient = Failing(GONE)
    for minutes in (0, 20, 40, 59):
        assert patient.fail(at=minutes * MINUTE) is not Ruling.SUSPENDED
        assert patient.core.health(KEY).first_failure_at == NOW
    assert patient.fail(at=60 * MINUTE) is Ruling.SUSPENDED


def test_bb_02_one_success_begins_the_count_and_the_age_anew() -> None:
    endpoint = Failing(GONE)
    for minutes in (0, 20, 40):
        endpoint.fail(at=minutes * MINUTE)
    endpoint.answer = Answer(status_code=200)
    endpoint.fail(at=41 * MINUTE)
    endpoint.answer = GONE
    for minutes in (42, 50, 60, 70, 80):
        assert endpoint.fail(at=minutes * MINUTE) is not Ruling.SUSPENDED
    assert endpoint.core.health(KEY).first_failure_at == NOW + 42 * MINUTE


def test_bb_03_after_a_reenablement_a_full_new_threshold_applies() -> None:
    core = failing(count=31)
    core.suspend(KEY)
    core.reenable(KEY)
    core.answer = lambda _: Answer(status_code=404)
    core.deliver(core.archived(KEY, an_event()))
    assert counts(core.health(KEY)) == {"permanent": 1}
    assert core.health(KEY).first_failure_at == NOW
    for n in range(2, 26):
        core.later(MINUTE)
        core.deliver(core.archived(KEY, an_event(n)))
    assert core.present(KEY).enabled, "24 more in 24 minutes are too young"


def test_bb_03_a_sequence_begun_before_the_reenablement_does_not_bring_its_age() -> None:
    core = Core(answer=lambda _: Answer(status_code=503))
    core.subscribe()
    core.deliver(core.archived(KEY, an_event()))
    core.later(2 * MINUTE)
    core.pause(KEY)
    core.later(13 * HOUR)
    core.reenable(KEY)
    core.answer = lambda _: Answer(status_code=404)
    core.deliver(a_parcel(attempt=2))
    assert core.health(KEY).first_failure_at == core.now


def test_bb_04_our_own_faults_count_nothing_beside_two_real_failures() -> None:
    core = Core()
    core.subscribe()
    for n, fault in enumerate(sorted(OWN_FAULTS)):
        core.answer = lambda _, fault=fault: Answer(fault=fault)  # type: ignore[misc]
        core.deliver(*(core.archived(KEY, an_event(100 * n + i)) for i in range(25)))
    core.answer = lambda _: Answer(fault=Fault.DNS_NOT_FOUND)
    core.deliver(*(core.archived(KEY, an_event(9000 + i)) for i in range(2)))
    assert counts(core.health(KEY)) == {"fatal": 2}
    assert core.present(KEY).enabled


# ── F57: what a crash left ───────────────────────────────────────────────────────────────────────


def test_f57_a_crash_between_the_count_and_the_question_is_finished_by_the_sweep() -> None:
    core = failing(count=24)
    core.answer = lambda _: Answer(status_code=500)

    def kill(call: str) -> None:
        if call == "Subscriptions.transition":
            raise OwnFaultError(call)

    core.world.deliveries[a_delivery_key()] = replace(
        a_delivery(), sequence_attempts=5, attempt_count=5, next_attempt_at=NOW
    )
    core.world.before_call = kill
    core.deliver(a_parcel(attempt=6))
    core.world.before_call = None
    assert core.health(KEY).consecutive_failures == 25
    assert core.present(KEY).enabled
    core.later(MINUTE)
    assert core.sweep().done == {}
    core.later(MINUTE)
    assert core.sweep().done["policy_suspended"] == 1
    assert core.sweep().done["policy_suspended"] == 0
    assert not core.present(KEY).enabled
    assert len(core.world.notices_of(NoticeKind.SUSPENDED)) == 1


@pytest.mark.parametrize("hours", [6, 12])
def test_a_check_is_left_by_any_failure_old_enough_to_warn_or_suspend_however_few_have_counted(
    hours: int,
) -> None:
    """25 that count at the same time have all seen a short streak."""
    core = failing(count=1, hours=hours)
    core.answer = lambda _: Answer(status_code=500)
    core.world.deliveries[a_delivery_key()] = replace(
        a_delivery(), sequence_attempts=5, attempt_count=5, next_attempt_at=NOW
    )
    core.deliver(a_parcel(attempt=6))
    assert core.health(KEY).check_at == NOW + 2 * MINUTE


def test_a_young_streak_leaves_no_check() -> None:
    core = failing(count=20, hours=5)
    core.answer = lambda _: Answer(status_code=404)
    core.deliver(core.archived(KEY, an_event()))
    assert core.health(KEY).check_at is None


def test_a_warning_that_a_crash_left_is_given_by_the_sweep() -> None:
    core = failing(count=20, hours=11)
    core.answer = lambda _: Answer(status_code=404)

    def kill(call: str) -> None:
        if call == "Notices.put":
            raise OwnFaultError(call)

    core.world.before_call = kill
    core.deliver(core.archived(KEY, an_event()))
    core.world.before_call = None
    core.later(2 * MINUTE)
    assert core.sweep().done["policy_at_risk"] == 1
    assert len(core.world.notices_of(NoticeKind.AT_RISK)) == 1
    assert core.health(KEY).check_at is None


@pytest.mark.parametrize("minutes, stays", [(1, True), (2, False), (3, False)])
def test_a_check_is_taken_back_only_when_it_is_due(minutes: int, *, stays: bool) -> None:
    core = failing(count=1, check_at=NOW + 2 * MINUTE)
    core.later(minutes * MINUTE)
    core.suspend(KEY)
    assert (core.health(KEY).check_at is not None) is stays


def test_silence_is_not_failure() -> None:
    """Asked days later, the sweep ages the streak by its last attempt."""
    core = failing(count=25, hours=11, check_at=NOW, last_attempt_at=NOW)
    core.later(72 * HOUR)
    assert core.sweep().done == {"policy_at_risk": 1}
    assert core.present(KEY).enabled
    assert core.suspend(KEY).ruling is Ruling.SUSPENDED, "a failure made now is another matter"


def test_a_clean_health_is_never_asked_about() -> None:
    core = Core()
    core.subscribe(health=a_health())
    assert core.suspend(KEY).ruling is Ruling.FINE

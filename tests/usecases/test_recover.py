"""Who holds a subscription's recovery lock: begun, handed over, answered, released."""

from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from hookkeeper.domain.errors import ConflictError
from hookkeeper.domain.notice import NoticeKind
from hookkeeper.domain.recovery import (
    HOLDING,
    LEASE,
    RETENTION,
    RecoveryKind,
    RecoveryLock,
    RecoveryStatus,
    Window,
)
from hookkeeper.domain.subscription import Status
from hookkeeper.domain.tenancy import SubscriptionKey
from hookkeeper.usecases import recover
from hookkeeper.usecases.recover import TRIES, Locked, Step

from tests.builders import (
    ACTOR,
    HOUR,
    MINUTE,
    NOW,
    a_failing_health,
    a_health,
    a_key,
    a_lock,
    a_pending_subscription,
    a_recovery,
    a_subscription,
    a_suspended_subscription,
)
from tests.core import Core

KEY = a_key()
WINDOW = Window(start=NOW - HOUR, end=NOW)


def suspended(lock: RecoveryLock | None = None, **changes: Any) -> Core:
    core = Core()
    core.subscribe(
        a_suspended_subscription(**changes),
        a_health(outage_from=NOW - HOUR, recovery=lock or RecoveryLock()),
    )
    return core


def holding(core: Core, recovery: Any, **lock: Any) -> None:
    """Let a recovery hold the lock."""
    core.world.recoveries[KEY.scope, recovery.id] = recovery
    core.set_health(KEY, recovery=a_lock(recovery, **lock))


def probe_failed(core: Core, locked: Locked, **changes: Any) -> bool:
    assert locked.recovery is not None
    plain = {
        "recovery_id": locked.recovery.id,
        "generation": locked.recovery.generation,
        "status_code": 500,
        "error": "http_500",
    }
    return recover.probe_failed(
        KEY,
        **{**plain, **changes},
        now=core.now,
        retention=RETENTION,
        subscriptions=core.subscriptions,
        health=core.health_store,
        recoveries=core.recoveries,
        ledger=core.ledger,
        ids=core.ids,
    )


def broke(core: Core, execution: str) -> bool:
    return recover.resume_soon(
        KEY,
        execution=execution,
        now=core.now,
        subscriptions=core.subscriptions,
        health=core.health_store,
        recoveries=core.recoveries,
    )


# ── begun ────────────────────────────────────────────────────────────────────────────────────────


def test_a_reenablement_takes_the_lock_and_begins_with_the_probe() -> None:
    core = suspended()
    locked = core.lock(KEY, execution="exe_1", actor=ACTOR, rate=20.0)
    lock, recovery = core.health(KEY).recovery, locked.recovery
    assert (locked.step, locked.mine) == (Step.PROBE, True)
    assert recovery is not None
    assert (lock.id, lock.generation, lock.execution) == (recovery.id, 1, "exe_1")
    assert (lock.status, lock.lease_until) == (RecoveryStatus.PROBING, NOW + LEASE)
    assert (recovery.kind, recovery.actor, recovery.max_rate) == (RecoveryKind.REENABLE, ACTOR.id, 20.0)
    assert recovery.lower_bound == NOW - RETENTION


@pytest.mark.parametrize(
    "policy, probe, step",
    [
        ("graded", None, Step.PROBE),
        ("graded", False, Step.ACTIVATE),
        ("strict", None, Step.ACTIVATE),
        ("strict", True, Step.PROBE),
    ],
)
def test_the_probe_is_the_policys_unless_the_owner_says_otherwise(
    policy: str, *, probe: bool | None, step: Step
) -> None:
    assert suspended(policy=policy).lock(KEY, probe=probe).step is step


@pytest.mark.parametrize(
    "subscription",
    [a_subscription(), a_subscription(status=Status.REVOKED), a_pending_subscription()],
    ids=lambda subscription: str(subscription.status),
)
def test_only_a_suspended_subscription_is_reenabled(subscription: Any) -> None:
    core = Core()
    core.subscribe(subscription)
    assert core.lock(KEY) == Locked(Step.END)
    assert core.health(KEY).recovery == RecoveryLock()


def test_a_subscription_that_is_not_there_has_nothing_to_recover() -> None:
    assert Core().lock(KEY) == Locked(Step.END)


def test_windows_that_an_ended_recovery_left_are_taken_along() -> None:
    core = suspended(a_lock(status=RecoveryStatus.CANCELLED, windows=(WINDOW,), generation=4))
    core.lock(KEY)
    lock = core.health(KEY).recovery
    assert (lock.windows, lock.generation) == ((WINDOW,), 5)


# ── while one runs ───────────────────────────────────────────────────────────────────────────────


def test_a_second_start_is_answered_with_the_one_that_runs() -> None:
    core = suspended()
    first = core.lock(KEY, execution="exe_1")
    before = core.health(KEY)
    second = core.lock(KEY, execution="exe_2")
    assert (second.step, second.mine, second.recovery) == (Step.END, False, first.recovery)
    assert core.health(KEY) == before


def test_f32_of_twelve_starts_one_probes() -> None:
    core = suspended()
    steps = [core.lock(KEY, execution=f"exe_{n}").step for n in range(12)]
    assert steps == [Step.PROBE] + [Step.END] * 11


def test_an_execution_whose_first_answer_was_lost_finds_itself_the_holder() -> None:
    core = suspended()
    first = core.lock(KEY, execution="exe_1")
    before = core.health(KEY)
    assert core.lock(KEY, execution="exe_1") == first
    assert core.health(KEY) == before


def test_a_restarted_execution_whose_answer_was_lost_goes_on_too() -> None:
    core = Core()
    core.subscribe()
    holding(core, a_recovery(kind=RecoveryKind.AUTOMATIC), lease_until=NOW)
    asked = {"kind": RecoveryKind.AUTOMATIC, "recovery_id": a_recovery().id, "generation": 1}
    first = core.lock(KEY, execution="exe_1", **asked)
    assert (first.step, core.lock(KEY, execution="exe_1", **asked)) == (Step.SLICE, first)


def test_a_reenablement_that_died_is_gone_on_with_as_it_is_asked_for_now() -> None:
    core = suspended()
    dead = core.lock(KEY, execution="exe_1", rate=5.0).recovery
    core.later(LEASE)
    locked = core.lock(KEY, execution="exe_2", backfill=False)
    assert dead is not None
    assert locked.recovery is not None
    assert (locked.step, locked.mine) == (Step.PROBE, True)
    assert (locked.recovery.id, locked.recovery.generation) == (dead.id, 2)
    assert (locked.recovery.max_rate, locked.recovery.backfill) == (None, False)
    assert len(core.world.recoveries) == 1, "no record is left behind that says it still runs"


def test_a_reenablement_takes_over_from_an_automatic_recovery_windows_and_all() -> None:
    core = suspended()
    holding(core, a_recovery(99, kind=RecoveryKind.AUTOMATIC), windows=(WINDOW,))
    locked = core.lock(KEY)
    lock = core.health(KEY).recovery
    assert locked.recovery is not None
    assert locked.recovery.id != a_recovery(99).id
    assert (lock.kind, lock.windows, lock.generation) == (RecoveryKind.REENABLE, (WINDOW,), 2)


@pytest.mark.parametrize(
    "how, word",
    [
        (Core.pause, RecoveryStatus.STOPPED),
        (Core.revoke, RecoveryStatus.CANCELLED),
    ],
)
@pytest.mark.parametrize("status", sorted(HOLDING))
def test_a_recovery_that_lost_its_lock_before_it_ran_again_says_so_at_once(
    how: Callable[[Core, SubscriptionKey], object], word: RecoveryStatus, status: RecoveryStatus
) -> None:
    core = Core()
    core.subscribe()
    holding(core, a_recovery(kind=RecoveryKind.AUTOMATIC, status=status), status=status, windows=(WINDOW,))
    how(core, KEY)
    record = core.world.recoveries[KEY.scope, a_recovery().id]
    assert (record.status, record.ended_at) == (word, NOW)


def test_a_recovery_that_is_taken_over_says_so_at_once() -> None:
    core = suspended()
    waiting = a_recovery(99, kind=RecoveryKind.AUTOMATIC, status=RecoveryStatus.WAITING)
    holding(core, waiting, status=RecoveryStatus.WAITING)
    core.later(MINUTE)
    core.lock(KEY)
    record = core.world.recoveries[KEY.scope, waiting.id]
    assert (record.status, record.ended_at) == (RecoveryStatus.STOPPED, core.now)


# ── taken up by the sweep ────────────────────────────────────────────────────────────────────────


def test_an_automatic_recovery_that_waits_is_taken_up_in_the_next_generation() -> None:
    core = Core()
    core.subscribe()
    waiting = a_recovery(kind=RecoveryKind.AUTOMATIC, status=RecoveryStatus.WAITING, lower_bound=None)
    holding(core, waiting, windows=(WINDOW,), lease_until=NOW)
    locked = core.take_up(KEY)
    lock = core.health(KEY).recovery
    assert locked.step is Step.SLICE
    assert locked.recovery is not None
    assert (locked.recovery.generation, locked.recovery.lower_bound) == (2, NOW - RETENTION)
    assert (lock.status, lock.windows) == (RecoveryStatus.RUNNING, (WINDOW,))


def test_the_lower_bound_is_fixed_at_the_first_start() -> None:
    core = Core()
    core.subscribe()
    holding(core, a_recovery(kind=RecoveryKind.AUTOMATIC, lower_bound=NOW - RETENTION), lease_until=NOW)
    core.later(9 * HOUR)
    locked = core.take_up(KEY)
    assert locked.recovery is not None
    assert locked.recovery.lower_bound == NOW - RETENTION


def test_who_takes_a_recovery_up_sends_canaries_ahead_again() -> None:
    core = Core()
    core.subscribe()
    holding(core, a_recovery(flowing=True, canaries=("evt_1",)), lease_until=NOW)
    locked = core.take_up(KEY)
    assert locked.recovery is not None
    assert (locked.recovery.flowing, locked.recovery.canaries) == (False, ())


def test_a_paused_recovery_is_taken_up_paused() -> None:
    core = Core()
    core.subscribe()
    holding(core, a_recovery(status=RecoveryStatus.PAUSED), lease_until=NOW)
    core.take_up(KEY)
    assert core.health(KEY).recovery.status is RecoveryStatus.PAUSED


@pytest.mark.parametrize(
    "lock",
    [{"generation": 2}, {"status": RecoveryStatus.COMPLETED}, {"id": "rec_other"}],
    ids=["taken up by another", "over", "another"],
)
def test_what_does_not_stand_any_more_is_not_taken_up(lock: dict[str, Any]) -> None:
    core = Core()
    core.subscribe()
    holding(core, a_recovery(), **lock)
    asked = {"recovery_id": a_recovery().id, "generation": 1}
    assert core.lock(KEY, kind=RecoveryKind.AUTOMATIC, **asked) == Locked(Step.END)


def test_an_automatic_recovery_of_a_suspended_subscription_is_not_taken_up() -> None:
    core = suspended()
    holding(core, a_recovery(kind=RecoveryKind.AUTOMATIC), lease_until=NOW)
    assert core.take_up(KEY) == Locked(Step.END)


def test_a_reenablement_that_died_before_its_activation_probes_again() -> None:
    core = suspended()
    holding(core, a_recovery(status=RecoveryStatus.PROBING), lease_until=NOW)
    assert core.take_up(KEY).step is Step.PROBE


# ── races ────────────────────────────────────────────────────────────────────────────────────────


def before_write(core: Core, change: Callable[[], None], *, times: int = 1) -> None:
    left = [times]

    def before(call: str) -> None:
        if call == "HealthStore.write_lock" and left[0]:
            left[0] -= 1
            change()

    core.world.before_call = before


def bump(core: Core) -> None:
    lock = core.health(KEY).recovery
    core.set_health(KEY, recovery=replace(lock, version=lock.version + 1))


def test_a_lock_that_another_change_came_between_is_asked_for_again() -> None:
    """A stopped execution closes its record while its owner re-enables."""
    core = suspended()
    before_write(core, lambda: bump(core))
    assert core.lock(KEY).mine


def test_a_lock_that_others_always_change_is_a_conflict_that_is_retried_later() -> None:
    core = suspended()
    before_write(core, lambda: bump(core), times=TRIES)
    with pytest.raises(ConflictError, match="try again"):
        core.lock(KEY)


# ── the probe failed ─────────────────────────────────────────────────────────────────────────────


def test_after_a_failed_probe_it_stays_suspended_its_owner_is_told_and_may_try_again_at_once() -> None:
    core = Core()
    core.subscribe(a_suspended_subscription(), a_failing_health(outage_from=NOW - HOUR))
    locked = core.lock(KEY)
    assert probe_failed(core, locked)
    assert core.present(KEY).status is Status.SUSPENDED
    assert core.present(KEY).status_reason == "reenable_probe_failed"
    (notice,) = core.world.notices_of(NoticeKind.PROBE_FAILED)
    assert (notice.facts["probe_status"], notice.facts["failures"]) == ("500", "25")
    assert notice.facts["waiting"] == "0"
    assert notice.facts["recoverable_until"] == "2026-12-08T11:00:00Z"
    (recovery,) = core.world.recoveries.values()
    assert (recovery.status, recovery.ended_at) == (RecoveryStatus.PROBE_FAILED, NOW)
    assert core.health(KEY).outage_from == NOW - HOUR
    assert core.queued("backfill") == []
    assert core.lock(KEY).step is Step.PROBE


def test_a_probe_that_failed_after_a_revocation_says_nothing() -> None:
    core = suspended()
    locked = core.lock(KEY)
    core.revoke(KEY)
    assert not probe_failed(core, locked)
    assert core.present(KEY).status_reason == "revoked"
    assert core.world.notices == {}


def test_a_superseded_probe_says_nothing() -> None:
    core = suspended()
    locked = core.lock(KEY)
    assert not probe_failed(core, locked, generation=9)


def test_where_an_edit_came_between_the_recoverys_record_says_why() -> None:
    core = suspended()
    locked = core.lock(KEY)
    core.world.before_call = lambda call: edited(core) if call == "Subscriptions.edit" else None
    assert probe_failed(core, locked)
    assert core.present(KEY).status_reason != "reenable_probe_failed"
    (recovery,) = core.world.recoveries.values()
    assert (recovery.probe_status_code, recovery.probe_error) == (500, "http_500")


def edited(core: Core) -> None:
    core.world.subscriptions[KEY] = replace(core.present(KEY), version=9)


# ── the execution broke ──────────────────────────────────────────────────────────────────────────


def test_an_execution_that_broke_lets_the_sweep_take_its_recovery_up_at_once() -> None:
    core = suspended()
    core.lock(KEY, execution="exe_1")
    core.later(MINUTE)
    assert broke(core, "exe_1")
    assert core.health(KEY).recovery.lease_until == core.now
    assert core.sweep().done["recoveries_started"] == 1


@pytest.mark.parametrize("execution", ["exe_0", "exe_2"])
def test_another_execution_that_broke_is_none_of_its_business(execution: str) -> None:
    core = suspended()
    core.lock(KEY, execution="exe_1")
    assert not broke(core, execution)


def test_an_execution_that_broke_after_its_recovery_was_done_changes_nothing() -> None:
    core = suspended(a_lock(status=RecoveryStatus.COMPLETED, execution="exe_1"))
    assert not broke(core, "exe_1")
    assert not broke(Core(), "exe_1")


# ── the activation was lost ──────────────────────────────────────────────────────────────────────


def give_up(core: Core, recovery_id: str) -> bool:
    return recover.give_up(
        KEY,
        recovery_id=recovery_id,
        now=core.now,
        subscriptions=core.subscriptions,
        health=core.health_store,
        recoveries=core.recoveries,
    )


def test_a_lost_activation_frees_the_lock() -> None:
    core = suspended()
    locked = core.lock(KEY)
    assert locked.recovery is not None
    assert give_up(core, locked.recovery.id)
    (recovery,) = core.world.recoveries.values()
    assert (recovery.status, recovery.ended_at) == (RecoveryStatus.STOPPED, NOW)
    assert not core.health(KEY).recovery.held
    assert not give_up(core, locked.recovery.id)


def test_an_activation_that_was_made_is_known_as_made() -> None:
    core = suspended()
    locked = core.lock(KEY)
    assert locked.recovery is not None
    assert not recover.is_running(KEY, locked.recovery, subscriptions=core.subscriptions)
    core.activate(KEY, locked.recovery)
    assert core.activate(KEY, locked.recovery) is None
    assert recover.is_running(KEY, locked.recovery, subscriptions=core.subscriptions)
    core.later(timedelta(seconds=1))
    core.pause(KEY)
    assert not recover.is_running(KEY, locked.recovery, subscriptions=core.subscriptions)

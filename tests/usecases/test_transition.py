"""Each change of status with all that must be true with it, and what its races leave."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Any

import pytest
from hookkeeper.domain.circuit import Circuit, CircuitRules, opened
from hookkeeper.domain.errors import ConflictError, IllegalTransitionError, NotFoundError
from hookkeeper.domain.health import Streak
from hookkeeper.domain.outcome import Outcome
from hookkeeper.domain.recovery import RecoveryKind, RecoveryStatus, Window
from hookkeeper.domain.subscription import DisabledReason, Status
from hookkeeper.ports import Transition
from hookkeeper.usecases import transition
from hookkeeper.usecases.transition import TRIES, Changed

from tests.builders import (
    ACTOR,
    HOUR,
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
OUTAGE = timedelta(minutes=5)
SECOND = timedelta(seconds=1)
OPEN = opened(Circuit(), CircuitRules(), now=NOW - HOUR)
EARLIER = Window(start=NOW - 9 * HOUR, end=NOW - 8 * HOUR)


def verify(core: Core) -> Changed:
    return transition.verify(
        KEY,
        token_hash="0" * 64,
        actor=ACTOR,
        now=core.now,
        margins=core.margins,
        subscriptions=core.subscriptions,
        ids=core.ids,
    )


def expire(core: Core) -> Changed | None:
    return transition.expire(KEY, now=core.now, subscriptions=core.subscriptions, ids=core.ids)


def resume(core: Core) -> Changed | None:
    return core.activate(KEY, a_recovery())


@dataclass(frozen=True)
class Verb:
    """What changes a status, from which it may, and to which."""

    name: str
    act: Callable[[Core], object]
    legal: dict[Status, Status]
    quiet: bool = False
    """Whether an illegal change comes to nothing instead of an error."""


VERBS = [
    Verb("verify", verify, {Status.PENDING: Status.ACTIVE}),
    Verb("expire", expire, {Status.PENDING: Status.REVOKED}, quiet=True),
    Verb("pause", lambda core: core.pause(KEY), {Status.ACTIVE: Status.SUSPENDED}),
    Verb("activate", resume, {Status.SUSPENDED: Status.ACTIVE}, quiet=True),
    Verb(
        "revoke",
        lambda core: core.revoke(KEY),
        dict.fromkeys((Status.PENDING, Status.ACTIVE, Status.SUSPENDED), Status.REVOKED),
    ),
]
READY: dict[Status, Any] = {
    Status.PENDING: a_pending_subscription(token_expires_at=NOW),
    Status.ACTIVE: a_subscription(),
    Status.SUSPENDED: a_suspended_subscription(),
    Status.REVOKED: a_subscription(status=Status.REVOKED),
}


def standing(status: Status) -> Core:
    """A subscription in that status; a suspended one is being re-enabled."""
    core = Core()
    recovery = a_recovery(status=RecoveryStatus.PROBING)
    health = a_health(recovery=a_lock(recovery)) if status is Status.SUSPENDED else a_health()
    core.subscribe(READY[status], health)
    core.world.recoveries[KEY.scope, recovery.id] = recovery
    return core


@pytest.mark.parametrize("status", sorted(Status))
@pytest.mark.parametrize("verb", VERBS, ids=lambda verb: verb.name)
def test_each_verb_from_each_status(verb: Verb, status: Status) -> None:
    core = standing(status)
    before = core.world.standing(KEY)
    if status in verb.legal:
        assert verb.act(core)
        assert core.present(KEY).status is verb.legal[status]
        (record,) = core.world.audit.values()
        assert (record.before["status"], record.after["status"]) == (status, verb.legal[status])
        assert core.present(KEY).writer == record.id
        assert core.present(KEY).version == 2
        return
    if verb.quiet:
        assert verb.act(core) is None
    else:
        with pytest.raises(IllegalTransitionError, match=f"is {status}"):
            verb.act(core)
    assert core.world.standing(KEY) == before
    assert core.world.audit == {}


@pytest.mark.parametrize("verb", [verb for verb in VERBS if not verb.quiet], ids=lambda verb: verb.name)
def test_a_subscription_that_is_not_there_is_not_found(verb: Verb) -> None:
    with pytest.raises(NotFoundError):
        verb.act(Core())


# ── what goes with each ──────────────────────────────────────────────────────────────────────────


def test_story_13_the_first_activation_owes_from_when_every_routing_cache_has_seen_it() -> None:
    core = standing(Status.PENDING)
    verify(core)
    after = core.present(KEY)
    assert after.first_active_at == NOW + timedelta(seconds=10)
    assert (after.token_hash, after.token_expires_at) == (None, None)


def test_a_token_that_has_not_ended_does_not_expire() -> None:
    core = Core()
    core.subscribe(a_pending_subscription(token_expires_at=NOW + SECOND))
    assert expire(core) is None
    core.later(SECOND)
    assert expire(core) is not None
    assert core.present(KEY).status_reason == "challenge_expired"


def test_a_pause_is_manual_and_reaches_back_by_the_margin_in_silence() -> None:
    core = standing(Status.ACTIVE)
    core.pause(KEY)
    after, health = core.present(KEY), core.health(KEY)
    assert (after.disabled_reason, after.disabled_at) == (DisabledReason.MANUAL, NOW)
    assert (health.outage_from, health.epoch, health.epoch_at) == (NOW - OUTAGE, 2, NOW)
    assert core.world.notices == {}


def test_a_pause_while_the_circuit_is_open_keeps_the_outages_beginning() -> None:
    core = Core()
    core.subscribe(health=a_health(circuit=OPEN, outage_from=NOW - HOUR))
    core.pause(KEY)
    health = core.health(KEY)
    assert (health.outage_from, health.circuit.is_open, health.circuit.wake_at) == (NOW - HOUR, False, None)


@pytest.mark.parametrize("act", [Core.pause, Core.revoke])
def test_a_recovery_in_the_middle_loses_its_lock(act: Callable[[Core, Any], object]) -> None:
    core = Core()
    core.subscribe(health=a_health(recovery=a_lock(windows=(EARLIER,))))
    act(core, KEY)
    lock = core.health(KEY).recovery
    stopped = act is Core.pause
    assert lock.status is (RecoveryStatus.STOPPED if stopped else RecoveryStatus.CANCELLED)
    assert lock.windows == ((EARLIER,) if stopped else ())


def test_an_activation_begins_anew_and_owes_the_outage_in_one_change() -> None:
    core = Core()
    recovery = a_recovery(status=RecoveryStatus.PROBING)
    core.subscribe(
        a_suspended_subscription(),
        a_failing_health(
            outage_from=NOW - HOUR,
            not_before=NOW + HOUR,
            check_at=NOW,
            recovery=a_lock(recovery, windows=(EARLIER,)),
        ),
    )
    core.activate(KEY, recovery)
    after, health = core.present(KEY), core.health(KEY)
    assert (after.disabled_at, after.disabled_reason, after.last_failure_status) == (None, None, None)
    assert after.status_reason == "reenabled"
    assert (health.streaks, health.consecutive_failures, health.first_failure_at) == ({}, 0, None)
    assert (health.outage_from, health.not_before, health.check_at) == (None, None, None)
    assert (health.epoch, health.epoch_at) == (2, NOW)
    assert health.recovery.windows == (EARLIER, Window(start=NOW - HOUR, end=NOW))
    assert health.recovery.status is RecoveryStatus.RUNNING
    assert core.world.recoveries[KEY.scope, recovery.id].status is RecoveryStatus.RUNNING


def test_without_backfill_nothing_of_the_outage_is_owed() -> None:
    core = Core()
    recovery = a_recovery(status=RecoveryStatus.PROBING, backfill=False)
    core.subscribe(
        a_suspended_subscription(),
        a_health(outage_from=NOW - HOUR, recovery=a_lock(recovery, windows=(EARLIER,))),
    )
    core.activate(KEY, recovery)
    health = core.health(KEY)
    assert (health.recovery.windows, health.outage_from) == ((), None)


@pytest.mark.parametrize(
    "lock",
    [
        a_lock(status=RecoveryStatus.PROBE_FAILED),
        a_lock(status=RecoveryStatus.CANCELLED),
        a_lock(generation=2),
        a_lock(a_recovery(2)),
    ],
    ids=["released", "cancelled", "taken over", "another"],
)
def test_only_the_recovery_that_holds_the_lock_activates(lock: Any) -> None:
    core = Core()
    core.subscribe(a_suspended_subscription(), a_health(outage_from=NOW, recovery=lock))
    assert resume(core) is None
    assert core.present(KEY).status is Status.SUSPENDED


def test_a_revocation_ends_the_outage_and_whatever_ran() -> None:
    core = Core()
    core.subscribe(a_suspended_subscription(), a_health(outage_from=NOW - HOUR, check_at=NOW))
    core.revoke(KEY)
    health = core.health(KEY)
    assert (health.outage_from, health.check_at, health.epoch) == (None, None, 2)
    assert core.world.urls == {}, "its endpoint is free for a new subscription"


def test_the_way_of_a_subscription_raises_the_epoch_and_keeps_its_id_secret_and_filters() -> None:
    core = standing(Status.ACTIVE)
    before = core.present(KEY)
    core.pause(KEY)
    core.reenable(KEY)
    core.pause(KEY)
    after = core.present(KEY)
    assert core.health(KEY).epoch == 4
    kept = ("key", "secret_ref", "event_types", "headers", "endpoint_url", "first_active_at", "policy")
    assert [getattr(after, name) for name in kept] == [getattr(before, name) for name in kept]


# ── races ────────────────────────────────────────────────────────────────────────────────────────


def before_transition(core: Core, change: Callable[[], None], *, times: int = 1) -> None:
    """Let something come between the reading and the write."""
    left = [times]

    def before(call: str) -> None:
        if call == "Subscriptions.transition" and left[0]:
            left[0] -= 1
            change()

    core.world.before_call = before


def test_a_change_that_is_still_legal_is_made_again_on_what_stands_now() -> None:
    """The circuit opens between a pause's reading and its write."""
    core = standing(Status.ACTIVE)

    def raised() -> None:
        core.set_health(KEY, epoch=core.health(KEY).epoch + 1, outage_from=NOW - HOUR)

    before_transition(core, raised)
    core.pause(KEY)
    assert core.health(KEY).outage_from == NOW - HOUR
    assert core.health(KEY).epoch == 3
    assert len(core.world.audit) == 1


def test_a_change_that_is_legal_no_more_tells_a_person_what_stands() -> None:
    core = standing(Status.ACTIVE)

    def revoked() -> None:
        core.world.subscriptions[KEY] = a_subscription(status=Status.REVOKED)

    before_transition(core, revoked)
    with pytest.raises(IllegalTransitionError, match="revoked"):
        core.pause(KEY)
    assert core.world.audit == {}


def test_a_change_against_which_others_always_win_is_a_conflict() -> None:
    core = standing(Status.ACTIVE)

    def raised() -> None:
        core.set_health(KEY, epoch=core.health(KEY).epoch + 1)

    before_transition(core, raised, times=TRIES)
    with pytest.raises(ConflictError, match="try again"):
        core.pause(KEY)


def test_an_edit_does_not_defeat_an_activation() -> None:
    core = standing(Status.SUSPENDED)

    def edited() -> None:
        core.world.subscriptions[KEY] = replace(core.present(KEY), version=7, timeout_seconds=30)

    before_transition(core, edited)
    assert resume(core) is not None
    assert (core.present(KEY).timeout_seconds, core.present(KEY).version) == (30, 8)


def test_f32_a_revocation_between_probe_and_activation_wins() -> None:
    core = standing(Status.SUSPENDED)
    before_transition(core, lambda: revoke_between(core))
    assert resume(core) is None
    assert core.present(KEY).status is Status.REVOKED
    assert core.health(KEY).recovery.windows == ()


def revoke_between(core: Core) -> None:
    core.world.before_call = None
    core.revoke(KEY)


def test_an_outage_that_begins_during_the_activation_is_owed_too() -> None:
    core = standing(Status.SUSPENDED)
    core.set_health(KEY, outage_from=NOW - SECOND)
    before_transition(core, lambda: core.set_health(KEY, outage_from=NOW - HOUR))
    resume(core)
    assert core.health(KEY).recovery.windows == (Window(start=NOW - HOUR, end=NOW),)


def test_bb_38_a_lost_answer_is_known_as_ones_own() -> None:
    core = standing(Status.ACTIVE)
    written = core.pause(KEY)
    health = core.health(KEY)
    again = core.world.standing(KEY)
    assert again is not None
    # the very transition once more, as an SDK sends it whose answer was lost
    (record,) = core.world.audit.values()
    same = Transition(before=written.before, after=written.subscription, health=health, audit=record)
    assert core.subscriptions.transition(same)
    assert core.world.standing(KEY) == again


def test_a_closing_circuit_and_an_activation_each_put_their_own_recovery() -> None:
    core = Core()
    core.subscribe(health=a_health(circuit=OPEN, outage_from=NOW - HOUR))
    core.pause(KEY)
    core.later(HOUR)
    core.reenable(KEY)
    lock = core.health(KEY).recovery
    assert lock.kind is RecoveryKind.REENABLE
    assert lock.windows == (Window(start=NOW - HOUR, end=NOW + HOUR),)


def test_streaks_are_cleared_by_an_activation_and_by_nothing_else_here() -> None:
    core = standing(Status.ACTIVE)
    core.set_health(
        KEY, streaks={Outcome.FATAL: Streak(2, NOW)}, consecutive_failures=2, first_failure_at=NOW
    )
    core.pause(KEY)
    assert core.health(KEY).consecutive_failures == 2
    core.reenable(KEY)
    assert core.health(KEY).consecutive_failures == 0

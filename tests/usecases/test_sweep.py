"""The minute's sweep: what is due and nothing else moves, and one bad thing that stops no other."""

from collections import Counter
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

import pytest
from hookkeeper.domain.circuit import Circuit, CircuitRules, opened
from hookkeeper.domain.delivery import DeliveryStatus, Lane
from hookkeeper.domain.errors import OwnFaultError
from hookkeeper.domain.health import Health
from hookkeeper.domain.outcome import Answer, Outcome
from hookkeeper.domain.recovery import RETENTION, RecoveryKind, RecoveryLock, RecoveryStatus, Window
from hookkeeper.domain.subscription import Status, Subscription
from hookkeeper.domain.tenancy import DeliveryKey
from hookkeeper.usecases import wake_circuit
from hookkeeper.usecases.sweep import Swept

from tests.builders import (
    HOUR,
    MINUTE,
    NOW,
    a_delivered,
    a_delivery,
    a_delivery_key,
    a_health,
    a_key,
    a_lock,
    a_notice,
    a_parcel,
    a_pending_subscription,
    a_recovery,
    a_scope,
    a_subscription,
    a_suspended_subscription,
    an_event,
    an_owed,
)
from tests.core import Core

SECOND = timedelta(seconds=1)
GRACE = 30 * SECOND
MARGIN = timedelta(minutes=5)
KEY = a_key()
RULES = CircuitRules()
EXPIRY = NOW + RETENTION
RUNNING = a_lock(a_recovery(kind=RecoveryKind.AUTOMATIC))


def owing(
    status: DeliveryStatus = DeliveryStatus.RETRYING,
    *,
    subscription: Subscription | None = None,
    health: Health | None = None,
    **changes: Any,
) -> Core:
    """A core that owes one delivery, due since GRACE."""
    core = Core()
    core.subscribe(subscription, health)
    put(core, 1, status, **changes)
    return core


def put(core: Core, number: int, status: DeliveryStatus, **changes: Any) -> DeliveryKey:
    at = changes.pop("archived_at", NOW)
    parcel = core.archived(KEY, an_event(number), at=at)
    key = parcel.key
    outcome = changes.pop("outcome", Outcome.RETRYABLE)
    due = changes.pop("due_at", NOW - GRACE)
    retrying = status is DeliveryStatus.RETRYING
    core.world.deliveries[key] = a_delivery(
        key=key,
        archived_at=at,
        pointer=parcel.pointer,
        status=status,
        outcome=outcome,
        attempt_count=changes.get("attempt_count", 1),
        settled=not retrying,
        next_attempt_at=due if retrying else None,
    )
    core.world.owed[key, at] = an_owed(
        key=key,
        archived_at=at,
        pointer=parcel.pointer,
        status=status,
        outcome=outcome,
        due_at=due,
        expires_at=at + RETENTION,
        **changes,
    )
    return key


def item(core: Core, number: int = 1) -> Any:
    return core.world.owed_of(a_delivery_key(number))


def swept(core: Core) -> dict[str, int]:
    """What the sweep says it has done, in its words."""
    result = core.sweep()
    assert result.errors == []
    return told(result)


def told(result: Swept) -> dict[str, int]:
    return {word: count for word, count in result.done.items() if count}


# ── owed items ───────────────────────────────────────────────────────────────────────────────────


def test_bb_18_an_overdue_retry_without_a_message_is_sent_on_its_own_lane() -> None:
    core = owing()
    assert swept(core) == {"sent": 1}
    (parcel,) = core.queued("deliveries")
    assert (parcel.attempt, parcel.lane, parcel.body) == (2, Lane.LIVE, None)
    assert item(core).due_at == NOW + 5 * MINUTE, "should that message be lost too, it is sent again"


@pytest.mark.parametrize("due_at, taken", [(NOW - GRACE, True), (NOW - GRACE + SECOND, False)])
def test_an_items_own_queued_retry_comes_first(due_at: datetime, *, taken: bool) -> None:
    assert swept(owing(due_at=due_at)) == ({"sent": 1} if taken else {})


@pytest.mark.parametrize("status", [DeliveryStatus.HELD, DeliveryStatus.EXHAUSTED])
def test_what_no_recovery_moves_is_sent_on_the_backfill_lane(status: DeliveryStatus) -> None:
    core = owing(status)
    assert swept(core) == {"sent": 1}
    (parcel,) = core.queued("backfill")
    assert (parcel.lane, parcel.recovery_id) == (Lane.BACKFILL, None)


@pytest.mark.parametrize(
    "changes",
    [{"outcome": Outcome.PERMANENT, "automatic_left": False}, {"automatic_left": False}],
    ids=["permanent", "after its automatic recovery"],
)
def test_what_waits_for_a_person_waits_until_its_owner_is_told(changes: dict[str, Any]) -> None:
    core = owing(DeliveryStatus.EXHAUSTED, **changes)
    assert swept(core) == {"left_to_people": 1}
    assert item(core).due_at == EXPIRY - 24 * HOUR
    assert core.queued("backfill") == []


@pytest.mark.parametrize("status", [DeliveryStatus.HELD, DeliveryStatus.EXHAUSTED])
def test_while_a_recovery_runs_what_it_moves_is_left_to_it_unmarked(status: DeliveryStatus) -> None:
    core = owing(status, health=a_health(recovery=RUNNING), taken_by="rec_dead:1")
    assert swept(core) == {"left_to_recovery": 1}
    assert (item(core).due_at, item(core).taken_by) == (NOW + 15 * MINUTE, "")


def test_a_retry_is_the_sweeps_though_a_recovery_runs() -> None:
    assert swept(owing(health=a_health(recovery=RUNNING))) == {"sent": 1}


OUTAGES = [
    pytest.param(a_suspended_subscription(), a_health(outage_from=NOW), id="suspended"),
    pytest.param(
        a_subscription(),
        a_health(outage_from=NOW, circuit=Circuit(open_until=NOW + HOUR, wake_at=NOW + HOUR)),
        id="circuit open",
    ),
]


@pytest.mark.parametrize("subscription, health", OUTAGES)
@pytest.mark.parametrize("status", [DeliveryStatus.RETRYING, DeliveryStatus.HELD, DeliveryStatus.EXHAUSTED])
def test_in_an_outage_it_is_held_for_the_recovery(
    status: DeliveryStatus, subscription: Subscription, health: Health
) -> None:
    core = owing(status, subscription=subscription, health=health)
    assert swept(core) == {"held": 1}
    assert (item(core).status, item(core).due_at) == (DeliveryStatus.HELD, EXPIRY)
    assert core.delivery(a_delivery_key()).next_attempt_at is None
    assert core.queued() == core.queued("backfill") == []


@pytest.mark.parametrize("status", sorted(s for s in DeliveryStatus if a_delivery(status=s).final))
def test_story_15_an_item_beside_a_final_record_is_deleted(status: DeliveryStatus) -> None:
    core = owing()
    core.world.deliveries[a_delivery_key()] = a_delivered(status=status)
    assert swept(core) == {"leftovers_deleted": 1}
    assert core.world.owed == {}


def test_an_item_without_a_record_is_deleted() -> None:
    core = owing()
    core.world.deliveries.clear()
    assert swept(core) == {"leftovers_deleted": 1}


@pytest.mark.parametrize("status", [DeliveryStatus.RETRYING, DeliveryStatus.HELD, DeliveryStatus.EXHAUSTED])
def test_story_16_what_has_left_retention_is_expired(status: DeliveryStatus) -> None:
    core = owing(status, archived_at=NOW - RETENTION)
    assert swept(core) == {"expired": 1}
    assert core.delivery(a_delivery_key()).status is DeliveryStatus.EXPIRED
    assert core.world.owed == {}


def test_story_16_what_waits_for_a_person_who_never_comes_expires() -> None:
    core = owing(DeliveryStatus.EXHAUSTED, outcome=Outcome.PERMANENT, automatic_left=False)
    core.sweep()
    core.later(RETENTION - 24 * HOUR + GRACE)
    assert swept(core) == {"warned": 1}
    core.later(24 * HOUR - SECOND)
    assert "expired" not in swept(core)
    core.later(SECOND)
    assert swept(core)["expired"] == 1


def test_after_a_revocation_it_is_discarded() -> None:
    core = owing(subscription=a_subscription(status=Status.REVOKED))
    assert swept(core) == {"discarded": 1}
    assert core.delivery(a_delivery_key()).status is DeliveryStatus.DISCARDED


def test_two_sweeps_at_once_send_it_once() -> None:
    core = owing()

    def another(call: str) -> None:
        if call == "Ledger.move_due":
            core.world.before_call = None
            core.sweep()

    core.world.before_call = another
    assert swept(core) == {"taken_by_others": 1}
    assert len(core.queued()) == 1


def test_an_item_that_was_settled_since_is_not_sent_twice() -> None:
    core = owing()

    def settled(call: str) -> None:
        if call == "Ledger.move_due":
            core.world.before_call = None
            core.deliver(a_parcel(attempt=2))

    core.world.before_call = settled
    core.sweep()
    core.deliver(*core.take())
    assert len(core.world.requests) == 1


def test_story_14_a_settled_sequence_is_followed_by_the_next_and_each_counts_once() -> None:
    core = owing(DeliveryStatus.EXHAUSTED)
    core.answer = lambda _: Answer(status_code=404)
    core.sweep()
    (parcel,) = core.take("backfill")
    core.deliver(parcel, parcel)
    core.deliver(parcel)
    assert core.delivery(a_delivery_key()).sequence == 2
    assert core.health(KEY).consecutive_failures == 1


# ── circuits ─────────────────────────────────────────────────────────────────────────────────────


def broken(**changes: Any) -> Core:
    """A circuit that opened an hour ago and wants waking."""
    core = Core()
    health = a_health(circuit=opened(Circuit(), RULES, now=NOW - HOUR), outage_from=NOW - 2 * HOUR)
    core.subscribe(health=replace(health, **changes))
    return core


def test_where_no_message_comes_the_least_tried_owed_item_is_sent_to_try() -> None:
    core = broken()
    put(core, 1, DeliveryStatus.HELD, due_at=EXPIRY, attempt_count=6)
    put(core, 2, DeliveryStatus.EXHAUSTED, due_at=EXPIRY, attempt_count=1, outcome=Outcome.PERMANENT)
    put(core, 3, DeliveryStatus.HELD, due_at=EXPIRY, attempt_count=3)
    assert swept(core) == {"circuits_woken": 1}
    (parcel,) = core.queued("backfill")
    assert parcel.key == a_delivery_key(2)
    core.deliver(*core.take("backfill"))
    assert not core.health(KEY).circuit.is_open


def test_a_retry_that_is_not_due_yet_can_be_the_one_that_tries() -> None:
    core = broken()
    put(core, 1, DeliveryStatus.RETRYING, due_at=NOW + 2 * HOUR)
    assert swept(core) == {"circuits_woken": 1}
    core.deliver(*core.take())
    assert len(core.world.requests) == 1
    assert not core.health(KEY).circuit.is_open


def test_else_the_first_event_of_the_window_that_has_no_record_is_sent() -> None:
    core = broken()
    known = core.archived(KEY, an_event(1), at=NOW - 90 * MINUTE)
    core.world.deliveries[known.key] = a_delivered(key=known.key)
    core.archived(KEY, an_event(2), at=NOW - 80 * MINUTE)
    core.archived(KEY, an_event(3), at=NOW - 70 * MINUTE)
    assert swept(core) == {"circuits_woken": 1}
    assert [parcel.key for parcel in core.queued("backfill")] == [a_delivery_key(2)]


def test_an_event_from_right_after_the_first_activation_is_one_to_try() -> None:
    """It is owed as a recovery would owe it: its activation was not in force everywhere yet."""
    core = broken()
    core.world.subscriptions[KEY] = a_subscription(first_active_at=NOW - 80 * MINUTE)
    core.archived(KEY, an_event(1), at=NOW - 80 * MINUTE - 11 * SECOND)
    core.archived(KEY, an_event(2), at=NOW - 80 * MINUTE - 9 * SECOND)
    assert swept(core) == {"circuits_woken": 1}
    assert [parcel.key for parcel in core.queued("backfill")] == [a_delivery_key(2)]


@pytest.mark.parametrize(
    "at", [NOW - 2 * HOUR - SECOND, NOW - MARGIN + SECOND], ids=["before the outage", "may still be live"]
)
def test_story_3_where_there_is_nothing_to_try_it_closes_and_puts_the_windows_recovery(at: datetime) -> None:
    core = broken()
    core.archived(KEY, an_event(), at=at)
    assert swept(core) == {"circuits_closed": 1}
    health = core.health(KEY)
    assert (health.circuit.is_open, health.outage_from) == (False, None)
    assert health.recovery.windows == (Window(start=NOW - 2 * HOUR, end=NOW),)
    assert health.recovery.status is RecoveryStatus.WAITING


def test_an_archive_too_long_to_search_is_no_reason_to_stay_shut(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(wake_circuit, "EVENTS", 10)
    core = broken()
    core.world.subscriptions[KEY] = a_subscription(event_types=("order.*",))
    for n in range(1, 12):
        core.archived(KEY, an_event(n), at=NOW - 90 * MINUTE)
    core.archived(KEY, an_event(12, type="order.sent"), at=NOW - 80 * MINUTE)
    assert swept(core) == {"circuits_closed": 1}
    assert core.health(KEY).recovery.windows != ()


def test_each_wake_makes_the_next_one_later_up_to_an_hour() -> None:
    core = broken()
    put(core, 1, DeliveryStatus.HELD, due_at=EXPIRY)
    waits = []
    for _ in range(8):
        assert swept(core) == {"circuits_woken": 1}
        core.world.queues["backfill"].clear()
        wake_at = core.health(KEY).circuit.wake_at
        assert wake_at is not None
        waits.append((wake_at - core.now) // MINUTE)
        core.world.now = wake_at
    assert waits == [2, 4, 8, 16, 32, 60, 60, 60]


@pytest.mark.parametrize(
    "changes",
    [
        {"not_before": NOW + MINUTE},
        {"circuit": Circuit(open_until=NOW - HOUR, wake_at=NOW, trial_lease_until=NOW + MINUTE)},
        {"circuit": Circuit(open_until=NOW + MINUTE, wake_at=NOW)},
        {"circuit": Circuit(open_until=NOW - HOUR, wake_at=NOW + SECOND)},
    ],
    ids=["it asked for quiet", "another tries", "not yet", "not due"],
)
def test_it_is_not_woken_before_it_may_be_tried(changes: dict[str, Any]) -> None:
    core = broken(**changes)
    put(core, 1, DeliveryStatus.HELD, due_at=EXPIRY)
    assert swept(core) == {}
    assert core.health(KEY).circuit.is_open


def test_a_suspended_subscriptions_circuit_is_never_woken() -> None:
    core = broken()
    core.world.subscriptions[KEY] = a_suspended_subscription()
    assert swept(core) == {}


# ── recoveries ───────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    "lease_until, status, started",
    [
        (NOW, RecoveryStatus.WAITING, True),
        (NOW, RecoveryStatus.RUNNING, True),
        (NOW, RecoveryStatus.PAUSED, True),
        (NOW, RecoveryStatus.PROBING, True),
        (NOW + SECOND, RecoveryStatus.RUNNING, False),
        (NOW, RecoveryStatus.COMPLETED, False),
        (NOW, RecoveryStatus.CANCELLED, False),
        (NOW, RecoveryStatus.STOPPED, False),
    ],
)
def test_a_recovery_that_waits_or_whose_execution_died_is_started(
    lease_until: datetime, status: RecoveryStatus, *, started: bool
) -> None:
    core = Core()
    core.subscribe(health=a_health(recovery=a_lock(status=status, lease_until=lease_until, generation=4)))
    assert swept(core) == ({"recoveries_started": 1} if started else {})
    options = [options for _, options in core.world.executions.values()]
    assert [(o["recovery_id"], o["generation"], o["kind"]) for o in options] == (
        [(a_recovery().id, 4, "reenable")] if started else []
    )


def test_two_sweeps_of_one_minute_start_one_execution() -> None:
    core = Core()
    core.subscribe(health=a_health(recovery=a_lock(lease_until=NOW)))
    core.sweep()
    core.sweep()
    assert len(core.world.executions) == 1
    core.later(MINUTE)
    core.sweep()
    assert len(core.world.executions) == 2, "one that came to nothing is followed by another"


def test_a_name_fits_step_functions() -> None:
    core = Core()
    lock = RecoveryLock(
        id=f"rec_{'x' * 26}", generation=10**6, status=RecoveryStatus.WAITING, lease_until=NOW
    )
    core.subscribe(health=a_health(recovery=lock))
    core.sweep()
    assert all(len(name) <= 80 for name in core.world.executions)


# ── tokens and notices ───────────────────────────────────────────────────────────────────────────


def test_f43_a_token_that_ended_revokes_its_subscription() -> None:
    core = Core()
    core.subscribe(a_pending_subscription(token_expires_at=NOW))
    core.subscribe(a_pending_subscription(key=a_key(2), token_expires_at=NOW + SECOND))
    assert swept(core) == {"tokens_expired": 1}
    assert [core.present(a_key(n)).status for n in (1, 2)] == [Status.REVOKED, Status.PENDING]


def test_a_notice_that_nobody_has_sent_is_asked_for_again() -> None:
    core = Core()
    core.subscribe()
    core.notices.put(a_notice())
    assert swept(core) == {}
    core.later(2 * MINUTE)
    assert swept(core) == {"notices_sent_again": 1}
    assert core.world.notice_queue == [(KEY.scope, (a_notice().id,))]


def test_t58_notices_of_one_owner_are_asked_for_together_and_no_others_with_them() -> None:
    core = Core()
    notices = [a_notice(key=a_key(n)) for n in range(40)]
    elsewhere = [
        a_notice(key=a_key(50), owner_email="b@else.example"),
        a_notice(key=a_key(51, a_scope("rival"))),
    ]
    for notice in (*notices, *elsewhere):
        core.notices.put(notice)
    core.later(2 * MINUTE)
    assert swept(core) == {"notices_sent_again": 42}
    asked = sorted(core.world.notice_queue, key=lambda each: len(each[1]))
    assert [len(ids) for _, ids in asked] == [1, 1, 40]
    assert sorted(asked[2][1]) == sorted(notice.id for notice in notices)


# ── one bad thing ────────────────────────────────────────────────────────────────────────────────


def failing_once(core: Core, call: str) -> None:
    left = [1]

    def before(name: str) -> None:
        if name == call and left[0]:
            left[0] -= 1
            raise OwnFaultError(call)

    core.world.before_call = before


@pytest.mark.parametrize(
    "call, done",
    [
        ("Ledger.due", {"tokens_expired": 1}),
        ("Ledger.move_due", {"sent": 1, "tokens_expired": 1}),
        ("Ledger.read_batch", {"tokens_expired": 1}),
        ("HealthStore.due", {"sent": 2, "tokens_expired": 1}),
        ("Subscriptions.expired_tokens", {"sent": 2}),
        ("Subscriptions.transition", {"sent": 2}),
        ("Notices.stuck", {"sent": 2, "tokens_expired": 1}),
    ],
)
def test_what_fails_is_told_and_stays_due_and_all_else_is_moved(call: str, done: dict[str, int]) -> None:
    core = owing()
    put(core, 2, DeliveryStatus.RETRYING)
    core.subscribe(a_pending_subscription(key=a_key(2), token_expires_at=NOW))
    failing_once(core, call)
    result = core.sweep()
    assert told(result) == done
    assert [type(error) for error in result.errors] == [OwnFaultError]
    core.world.before_call = None
    again = core.sweep()
    assert again.errors == []
    assert Counter(told(result)) + Counter(told(again)) == {"sent": 2, "tokens_expired": 1}


def test_a_malformed_item_does_not_stand_before_all_others_for_ever() -> None:
    core = owing()
    put(core, 2, DeliveryStatus.RETRYING, due_at=NOW - HOUR)
    many: Any = "many"
    record = core.delivery(a_delivery_key(2))
    core.world.deliveries[record.key] = replace(record, attempt_count=many)
    result = core.sweep()
    assert told(result) == {"sent": 1}
    assert [type(error) for error in result.errors] == [TypeError]


def test_an_idle_sweep_does_nothing() -> None:
    core = Core()
    core.subscribe()
    assert swept(core) == {}
    assert core.sweep().errors == []

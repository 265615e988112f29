"""Health changes only from where it was read, in its epoch, and nothing that is due stays hidden."""

from collections.abc import Callable
from dataclasses import replace
from datetime import datetime, timedelta

import pytest
from hookkeeper.domain.circuit import CircuitRules, closed, fed, opened, trial_failed, trial_taken
from hookkeeper.domain.health import Health
from hookkeeper.domain.recovery import (
    HOLDING,
    Cursor,
    RecoveryKind,
    RecoveryStatus,
    Rounds,
    Tally,
    Window,
    joined,
)
from hookkeeper.domain.replay import Only, Replay
from hookkeeper.domain.subscription import Status
from hookkeeper.domain.tenancy import SubscriptionKey

from tests.builders import (
    HOUR,
    MINUTE,
    NOW,
    a_health,
    a_key,
    a_lock,
    a_notice,
    a_recovery,
    a_scope,
    a_subscription,
    a_suspended_subscription,
)
from tests.contracts.stores import Stores

RULES = CircuitRules()
CLOSED = a_health().circuit
OPEN = opened(CLOSED, RULES, now=NOW)
OUTAGE = NOW - 5 * MINUTE
WINDOW = Window(
    start=OUTAGE, end=NOW, cursor=Cursor(archived_at=NOW - timedelta(microseconds=1), event_id="evt_1")
)
WHEN_DUE: dict[str, dict[str, object]] = {
    "wake": {"circuit": OPEN},
    "check": {"check_at": NOW + MINUTE},
    "warning": {"warn_at": NOW + 2 * MINUTE},
    "lease": {"recovery": a_lock()},
}


def due(stores: Stores, now: datetime) -> list[SubscriptionKey]:
    return list(stores.health.due(now, limit=10))


# ── the circuit ──────────────────────────────────────────────────────────────────────────────────


def test_a_circuit_opens_with_its_outage(stores: Stores) -> None:
    before = stores.have(a_subscription()).health
    assert stores.health.write_circuit(before, OPEN, outage_from=OUTAGE)
    assert stores.standing(a_key()).health == replace(before, circuit=OPEN, outage_from=OUTAGE)


def test_a_circuit_written_without_an_outage_leaves_it(stores: Stores) -> None:
    before = stores.have(a_subscription(), a_health(circuit=OPEN, outage_from=OUTAGE)).health
    taken = trial_taken(OPEN, by="msg_1", now=NOW)
    assert stores.health.write_circuit(before, taken)
    assert stores.standing(a_key()).health == replace(before, circuit=taken)


def test_of_two_that_take_the_trial_the_second_loses(stores: Stores) -> None:
    before = stores.have(a_subscription(), a_health(circuit=OPEN)).health
    first, second = (trial_taken(OPEN, by=by, now=NOW) for by in ("msg_1", "msg_2"))
    assert stores.health.write_circuit(before, first)
    assert not stores.health.write_circuit(before, second)
    assert stores.standing(a_key()).health.circuit == first


def test_who_took_the_trial_and_asks_again_still_has_it(stores: Stores) -> None:
    before = stores.have(a_subscription(), a_health(circuit=OPEN)).health
    taken = trial_taken(OPEN, by="msg_1", now=NOW)
    assert stores.health.write_circuit(before, taken)
    assert stores.health.write_circuit(before, taken)


def test_a_circuit_of_another_epoch_is_not_written(stores: Stores) -> None:
    before = stores.have(a_subscription(), a_health(epoch=2)).health
    assert not stores.health.write_circuit(replace(before, epoch=1), OPEN, outage_from=OUTAGE)
    assert stores.standing(a_key()).health == before


def test_a_lock_or_check_in_between_defeats_no_circuit_and_stays(stores: Stores) -> None:
    before = stores.have(a_subscription()).health
    assert stores.health.write_lock(before, a_lock(), a_recovery())
    stores.health.set_check(a_key(), epoch=1, check_at=NOW)
    assert stores.health.write_circuit(before, OPEN, outage_from=OUTAGE)
    after = stores.standing(a_key()).health
    assert (after.circuit, after.recovery, after.check_at) == (OPEN, a_lock(), NOW)
    assert due(stores, NOW) == [a_key()]


# ── the end of an outage ─────────────────────────────────────────────────────────────────────────


def an_open_health() -> Health:
    return a_health(circuit=trial_taken(OPEN, by="msg_1", now=NOW), outage_from=OUTAGE)


def test_a_circuit_closes_with_the_recovery_of_its_window(stores: Stores) -> None:
    before = stores.have(a_subscription(), an_open_health()).health
    recovery = a_recovery(kind=RecoveryKind.AUTOMATIC, status=RecoveryStatus.WAITING)
    lock = joined(
        before.recovery, window=WINDOW, recovery_id=recovery.id, kind=RecoveryKind.AUTOMATIC, now=NOW
    )
    assert stores.health.close_circuit(before, closed(before.circuit), lock, recovery)
    after = stores.standing(a_key()).health
    assert after == replace(before, circuit=closed(before.circuit), outage_from=None, recovery=lock)
    assert stores.recoveries.get(a_scope(), recovery.id) == recovery
    assert stores.health.close_circuit(before, closed(before.circuit), lock, recovery)


def test_a_window_joins_the_recovery_that_runs(stores: Stores) -> None:
    before = stores.have(a_subscription(), replace(an_open_health(), recovery=a_lock())).health
    lock = joined(before.recovery, window=WINDOW, recovery_id="rec_new", kind=RecoveryKind.AUTOMATIC, now=NOW)
    assert stores.health.close_circuit(before, closed(before.circuit), lock, None)
    after = stores.standing(a_key()).health
    assert (after.recovery.id, after.recovery.windows) == (a_recovery().id, (WINDOW,))
    assert stores.recoveries.of(a_key(), limit=9) == []


@pytest.mark.parametrize(
    "stored",
    [
        replace(an_open_health(), epoch=2),
        replace(an_open_health(), circuit=closed(an_open_health().circuit)),
        replace(an_open_health(), recovery=a_lock(version=9)),
    ],
    ids=["epoch", "circuit", "lock"],
)
def test_a_closing_loses_to_whoever_changed_what_it_read(stores: Stores, stored: Health) -> None:
    before = stores.have(a_subscription(), stored).health
    read = an_open_health()
    assert not stores.health.close_circuit(read, closed(read.circuit), a_lock(), a_recovery())
    assert stores.standing(a_key()).health == before
    assert stores.recoveries.get(a_scope(), a_recovery().id) is None


@pytest.mark.parametrize("status", [Status.SUSPENDED, Status.REVOKED, Status.PENDING])
def test_only_an_active_subscription_s_circuit_closes(stores: Stores, status: Status) -> None:
    before = stores.have(a_subscription(status=status), an_open_health()).health
    assert not stores.health.close_circuit(before, closed(before.circuit), a_lock(), a_recovery())
    assert stores.standing(a_key()).health == before
    assert stores.recoveries.get(a_scope(), a_recovery().id) is None


# ── the recovery's lock ──────────────────────────────────────────────────────────────────────────


def test_a_lock_is_taken_with_its_record_and_notice(stores: Stores) -> None:
    before = stores.have(a_suspended_subscription()).health
    lock = a_lock(windows=(WINDOW,))
    assert stores.health.write_lock(before, lock, a_recovery(), notice=a_notice())
    assert stores.standing(a_key()).health == replace(before, recovery=lock)
    assert stores.recoveries.get(a_scope(), a_recovery().id) == a_recovery()
    assert stores.told(a_key()) == [a_notice().id]


def test_of_two_that_take_the_lock_the_second_loses(stores: Stores) -> None:
    before = stores.have(a_suspended_subscription()).health
    assert stores.health.write_lock(before, a_lock(a_recovery(1)), a_recovery(1))
    assert not stores.health.write_lock(before, a_lock(a_recovery(2)), a_recovery(2), notice=a_notice())
    assert stores.standing(a_key()).health.recovery.id == a_recovery(1).id
    assert stores.recoveries.get(a_scope(), a_recovery(2).id) is None
    assert stores.told(a_key()) == []


def test_who_took_the_lock_and_asks_again_still_has_it(stores: Stores) -> None:
    before = stores.have(a_suspended_subscription()).health
    assert stores.health.write_lock(before, a_lock(), a_recovery())
    assert stores.health.write_lock(before, a_lock(), a_recovery())


def test_a_lock_of_another_epoch_is_not_written(stores: Stores) -> None:
    before = stores.have(a_subscription(), a_health(epoch=2)).health
    assert not stores.health.write_lock(replace(before, epoch=1), a_lock(), a_recovery())
    assert stores.standing(a_key()).health == before


@pytest.mark.parametrize("flowing", [True, False])
def test_a_slice_s_cursor_passes_only_while_traffic_flows(stores: Stores, *, flowing: bool) -> None:
    stores.have(a_suspended_subscription(key=a_key(1)))
    stores.have(a_subscription(key=a_key(2)), a_health(key=a_key(2), circuit=OPEN))
    stores.have(a_subscription(key=a_key(3)))
    passed = [
        stores.health.write_lock(
            stores.standing(a_key(n)).health,
            a_lock(a_recovery(n)),
            a_recovery(n, key=a_key(n)),
            flowing=flowing,
        )
        for n in (1, 2, 3)
    ]
    assert passed == [not flowing, not flowing, True]
    found = [stores.recoveries.get(a_scope(), a_recovery(n).id) is not None for n in (1, 2, 3)]
    assert found == passed


def test_a_circuit_that_opens_in_between_stops_the_cursor_though_the_lock_is_as_read(stores: Stores) -> None:
    before = stores.have(a_subscription()).health
    assert stores.health.write_circuit(before, OPEN, outage_from=OUTAGE)
    assert not stores.health.write_lock(before, a_lock(), a_recovery(), flowing=True)
    assert stores.health.write_lock(before, a_lock(), a_recovery())


def test_failures_that_open_nothing_do_not_stop_the_cursor(stores: Stores) -> None:
    before = stores.have(a_subscription()).health
    counted = fed(CLOSED, RULES, failures=1, any_success=False, now=NOW)
    assert stores.health.write_circuit(before, counted)
    assert stores.health.write_lock(before, a_lock(), a_recovery(), flowing=True)
    assert stores.standing(a_key()).health.circuit == counted


def test_a_notice_told_before_defeats_no_lock(stores: Stores) -> None:
    before = stores.have(a_suspended_subscription()).health
    assert stores.notices.put(a_notice())
    assert stores.health.write_lock(before, a_lock(), a_recovery(), notice=a_notice(facts={}))
    assert stores.notices.of(a_key(), limit=9) == [a_notice()]


def test_a_lock_that_is_taken_over_ends_the_record_of_who_had_it(stores: Stores) -> None:
    first = stores.have(a_subscription()).health
    assert stores.health.write_lock(first, a_lock(status=RecoveryStatus.WAITING), a_recovery())
    stores.recoveries.add_counts(a_key(), a_recovery().id, succeeded=2, failed=0, troubled=0)
    taker = a_recovery(2, started_at=NOW + HOUR)
    held = stores.standing(a_key()).health
    assert stores.health.write_lock(held, a_lock(taker, version=2), taker)
    former = stores.recoveries.get(a_scope(), a_recovery().id)
    assert former == replace(a_recovery(), status=RecoveryStatus.STOPPED, ended_at=NOW + HOUR, succeeded=2)
    assert stores.recoveries.get(a_scope(), taker.id) == taker


def test_a_former_holder_without_a_record_defeats_no_lock(stores: Stores) -> None:
    """Records go after ninety days, a paused recovery may stay longer; none is made anew by its end."""
    health = a_health(recovery=a_lock(a_recovery(9)))
    before = stores.have(a_subscription(), health).health
    notice = a_notice()
    assert stores.health.write_lock(before, a_lock(version=2), a_recovery(), notice=notice)
    assert stores.recoveries.get(a_scope(), a_recovery(9).id) is None
    assert stores.told(a_key()) == [notice.id]


def test_the_record_s_counts_are_only_written_at_the_end(stores: Stores) -> None:
    health = stores.have(a_subscription()).health
    assert stores.health.write_lock(health, a_lock(), a_recovery())
    stores.recoveries.add_counts(a_key(), a_recovery().id, succeeded=5, failed=1, troubled=1)
    later = a_recovery(sent=9, rate_per_second=2.5, canaries=("evt_1",), flowing=True)
    assert stores.health.write_lock(stores.standing(a_key()).health, a_lock(version=2), later)
    assert stores.recoveries.get(a_scope(), later.id) == replace(later, succeeded=5, failed=1, troubled=1)
    stores.recoveries.add_counts(a_key(), a_recovery().id, succeeded=1, failed=0, troubled=0)
    ended = replace(
        later,
        status=RecoveryStatus.COMPLETED,
        ended_at=NOW + HOUR,
        lower_bound=None,
        succeeded=8,
        failed=0,
        canaries=(),
    )
    assert stores.health.write_lock(stores.standing(a_key()).health, a_lock(version=3), ended)
    assert stores.recoveries.get(a_scope(), ended.id) == replace(ended, troubled=1)


def test_counts_add_up(stores: Stores) -> None:
    health = stores.have(a_subscription()).health
    assert stores.health.write_lock(health, a_lock(), a_recovery())
    for _ in range(3):
        stores.recoveries.add_counts(a_key(), a_recovery().id, succeeded=2, failed=1, troubled=1)
    found = stores.recoveries.get(a_scope(), a_recovery().id)
    assert found is not None
    assert (found.succeeded, found.failed, found.troubled) == (6, 3, 3)


def test_what_a_recovery_sent_is_known_each_event_once_and_each_recovery_s_own(stores: Stores) -> None:
    mine = {f"evt_{n:060d}" for n in range(12_000)}
    stores.recoveries.note_sent(a_key(), "rec_1", sorted(mine), now=NOW)
    stores.recoveries.note_sent(a_key(), "rec_1", ["evt_again", min(mine)], now=NOW + HOUR)
    stores.recoveries.note_sent(a_key(), "rec_2", ["evt_2"], now=NOW)
    assert stores.recoveries.sent_by(a_key(), "rec_1") == mine | {"evt_again"}
    assert stores.recoveries.sent_by(a_key(), "rec_2") == {"evt_2"}
    assert stores.recoveries.sent_by(a_key(), "rec_3") == set()


def test_a_replay_s_plan_comes_back_as_it_was_asked(stores: Stores) -> None:
    health = stores.have(a_subscription()).health
    replay = Replay(start=NOW - HOUR, until=NOW, only=Only.ALL, event_types=("invoice.*", "order.paid"))
    asked = a_recovery(
        kind=RecoveryKind.REPLAY,
        replay=replay,
        replay_cursor=Cursor(NOW, "evt_1"),
        tally=Tally(after="evt_1", succeeded=3),
    )
    lock = a_lock(asked, rounds=Rounds(at=(NOW - HOUR, NOW), rest=HOUR))
    assert stores.health.write_lock(health, lock, asked)
    assert stores.recoveries.get(a_scope(), asked.id) == asked
    assert stores.standing(a_key()).health.recovery == lock


def test_recoveries_are_listed_newest_first_each_subscription_its_own(stores: Stores) -> None:
    for number, key in enumerate((a_key(1), a_key(2), a_key(1), a_key(1)), start=1):
        if stores.subscriptions.get(key) is None:
            stores.have(a_subscription(key=key))
        before = stores.standing(key).health
        lock = a_lock(a_recovery(number), version=before.recovery.version + 1)
        assert stores.health.write_lock(before, lock, a_recovery(number, key=key))
    newest = [recovery.id for recovery in stores.recoveries.of(a_key(1), limit=2)]
    assert newest == [a_recovery(4).id, a_recovery(3).id]
    rest = stores.recoveries.of(a_key(1), limit=2, before=newest[-1])
    assert [recovery.id for recovery in rest] == [a_recovery(1).id]
    assert len(stores.recoveries.of(a_key(1), limit=10)) == 3
    assert stores.recoveries.get(a_scope("other"), a_recovery(1).id) is None


# ── not before, checks, and what is due ──────────────────────────────────────────────────────────


def test_not_before_only_rises_and_only_in_its_epoch(stores: Stores) -> None:
    stores.have(a_subscription(), a_health(epoch=2))

    def raised(minutes: int, *, epoch: int = 2) -> datetime | None:
        stores.health.raise_not_before(a_key(), epoch=epoch, not_before=NOW + minutes * MINUTE)
        return stores.standing(a_key()).health.not_before

    assert raised(9, epoch=1) is None
    assert raised(2) == NOW + 2 * MINUTE
    assert raised(1) == NOW + 2 * MINUTE
    assert raised(3) == NOW + 3 * MINUTE


def test_a_check_is_set_and_taken_back_in_its_epoch_alone(stores: Stores) -> None:
    stores.have(a_subscription(), a_health(epoch=2))
    stores.health.set_check(a_key(), epoch=1, check_at=NOW)
    assert stores.standing(a_key()).health.check_at is None
    stores.health.set_check(a_key(), epoch=2, check_at=NOW)
    assert stores.standing(a_key()).health.check_at == NOW
    stores.health.set_check(a_key(), epoch=1, check_at=None)
    assert due(stores, NOW) == [a_key()]
    stores.health.set_check(a_key(), epoch=2, check_at=None)
    assert due(stores, NOW + 24 * HOUR) == []


def test_a_warning_is_set_and_taken_back_in_its_epoch_alone(stores: Stores) -> None:
    stores.have(a_subscription(), a_health(epoch=2, check_at=NOW + HOUR))
    stores.health.set_warning(a_key(), epoch=1, warn_at=NOW)
    assert due(stores, NOW) == []
    stores.health.set_warning(a_key(), epoch=2, warn_at=NOW)
    assert due(stores, NOW) == [a_key()]
    assert stores.standing(a_key()).health == a_health(epoch=2, check_at=NOW + HOUR, warn_at=NOW)
    stores.health.set_warning(a_key(), epoch=2, warn_at=None)
    assert due(stores, NOW) == []
    assert due(stores, NOW + HOUR) == [a_key()]


@pytest.mark.parametrize("reason", list(WHEN_DUE))
def test_health_is_due_from_its_moment_on(stores: Stores, reason: str) -> None:
    health = a_health(**WHEN_DUE[reason])
    moment = health.circuit.wake_at or health.check_at or health.warn_at or health.recovery.lease_until
    assert moment is not None
    stores.have(a_subscription(), health)
    assert due(stores, moment - timedelta(microseconds=1)) == []
    assert due(stores, moment) == [a_key()]


def test_health_is_due_at_the_earliest_of_its_reasons_over_all_tenants(stores: Stores) -> None:
    keys = [a_key(1), a_key(2, a_scope("other")), a_key(3)]
    moments = ((3, 9), (9, 1), (2, None))
    for key, (lease, check) in zip(keys, moments, strict=True):
        check_at = NOW + check * MINUTE if check is not None else None
        lock = a_lock(lease_until=NOW + lease * MINUTE)
        stores.have(a_subscription(key=key), a_health(key=key, recovery=lock, check_at=check_at))
    assert due(stores, NOW + 9 * MINUTE) == [keys[1], keys[2], keys[0]]
    assert list(stores.health.due(NOW + 9 * MINUTE, limit=2)) == [keys[1], keys[2]]


@pytest.mark.parametrize("status", list(RecoveryStatus))
def test_only_a_held_lock_s_lease_is_due(stores: Stores, status: RecoveryStatus) -> None:
    stores.have(a_subscription(), a_health(recovery=a_lock(status=status)))
    assert due(stores, NOW + HOUR) == ([a_key()] if status in HOLDING else [])


def a_wake(stores: Stores, health: Health) -> bool:
    return stores.health.write_circuit(health, trial_failed(health.circuit, RULES, now=NOW + HOUR))


def a_closing(stores: Stores, health: Health) -> bool:
    return stores.health.close_circuit(health, closed(health.circuit), a_lock(status=None), None)


def a_renewal(stores: Stores, health: Health) -> bool:
    lock = a_lock(version=health.recovery.version + 1, lease_until=NOW + 2 * HOUR)
    return stores.health.write_lock(health, lock, a_recovery())


@pytest.mark.parametrize("write", [a_wake, a_closing, a_renewal])
def test_no_write_hides_a_check_that_was_asked_for_since_it_read(
    stores: Stores, write: Callable[[Stores, Health], bool]
) -> None:
    read = stores.have(a_subscription(), a_health(circuit=OPEN, outage_from=OUTAGE)).health
    stores.health.set_check(a_key(), epoch=1, check_at=NOW)
    assert write(stores, read)
    assert stores.standing(a_key()).health.check_at == NOW
    assert due(stores, NOW) == [a_key()]


def test_what_is_put_off_is_due_again_at_its_new_moment_only(stores: Stores) -> None:
    health = stores.have(a_subscription(), a_health(circuit=OPEN)).health
    assert a_wake(stores, health)
    later = stores.standing(a_key()).health.circuit.wake_at
    assert later is not None
    assert due(stores, NOW + HOUR) == []
    assert due(stores, later) == [a_key()]


# ── absent items ─────────────────────────────────────────────────────────────────────────────────


def test_nothing_is_written_of_health_that_does_not_exist(stores: Stores) -> None:
    absent = a_health()
    stores.health.raise_not_before(a_key(), epoch=1, not_before=NOW)
    stores.health.set_check(a_key(), epoch=1, check_at=NOW)
    assert not stores.health.write_circuit(absent, OPEN, outage_from=OUTAGE)
    assert not stores.health.write_lock(absent, a_lock(), a_recovery(), notice=a_notice())
    assert not stores.health.close_circuit(absent, closed(OPEN), a_lock(), a_recovery())
    stores.recoveries.add_counts(a_key(), a_recovery().id, succeeded=1, failed=1, troubled=1)
    assert stores.subscriptions.standing(a_key()) is None
    assert stores.recoveries.get(a_scope(), a_recovery().id) is None
    assert stores.told(a_key()) == []
    assert due(stores, NOW + 24 * HOUR) == []

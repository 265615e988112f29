"""A recovery, slice by slice: what it sends, at which pace, what stops it, and when it is done."""

from collections import Counter
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

import pytest
from hookkeeper.domain.circuit import Circuit
from hookkeeper.domain.config import RuntimeConfig
from hookkeeper.domain.delivery import DeliveryStatus, Lane
from hookkeeper.domain.errors import OwnFaultError
from hookkeeper.domain.notice import NoticeKind
from hookkeeper.domain.outcome import Answer, Outcome
from hookkeeper.domain.recovery import (
    RETENTION,
    Cursor,
    Pace,
    Recovery,
    RecoveryKind,
    RecoveryStatus,
    Window,
)
from hookkeeper.domain.subscription import FilterChange, Status
from hookkeeper.domain.tenancy import DeliveryKey
from hookkeeper.usecases import owed
from hookkeeper.usecases.backfill import backfill

from tests.builders import (
    HOUR,
    MINUTE,
    NOW,
    a_delivered,
    a_delivery,
    a_health,
    a_key,
    a_lock,
    a_recovery,
    a_subscription,
    an_event,
    an_event_item,
    an_owed,
)
from tests.core import Core

SECOND = timedelta(seconds=1)
MARGIN = timedelta(minutes=5)
KEY = a_key()
WINDOW = Window(start=NOW - 2 * HOUR, end=NOW - HOUR)
"""An outage that ended an hour ago: it may be read to its very end."""

RETRYABLE, PERMANENT = Outcome.RETRYABLE, Outcome.PERMANENT


def recovering(
    kind: RecoveryKind = RecoveryKind.REENABLE, *, windows: tuple[Window, ...] = (WINDOW,), **changes: Any
) -> Core:
    """A running recovery of KEY that is past its canaries, at 5 a second."""
    core = Core()
    plain = {"flowing": True, "lower_bound": NOW - RETENTION}
    recovery = a_recovery(kind=kind, **{**plain, **changes})
    core.world.recoveries[KEY.scope, recovery.id] = recovery
    core.subscribe(a_subscription(first_active_at=NOW - 30 * 24 * HOUR))
    core.set_health(KEY, recovery=a_lock(recovery, windows=windows))
    return core


def record(core: Core) -> Recovery:
    return core.world.recoveries[KEY.scope, a_recovery().id]


def archived(core: Core, *numbers: int, at: datetime = NOW - 90 * MINUTE) -> list[str]:
    """These events, archived one soon after the other; answers their ids."""
    for offset, n in enumerate(numbers):
        core.archived(KEY, an_event(n), at=at + offset * timedelta(milliseconds=10))
    return [an_event(n).id for n in numbers]


def owing(core: Core, number: int, status: DeliveryStatus = DeliveryStatus.HELD, **changes: Any) -> str:
    """An owed item of that event with its ledger record; `changes` are the item's."""
    at = changes.pop("archived_at", NOW - 3 * HOUR)
    parcel = core.archived(KEY, an_event(number), at=at)
    outcome = changes.pop("outcome", None)
    core.world.deliveries[parcel.key] = a_delivery(
        key=parcel.key,
        archived_at=at,
        pointer=parcel.pointer,
        status=status,
        outcome=outcome,
        settled=True,
        next_attempt_at=None,
    )
    core.world.owed[parcel.key, at] = an_owed(
        key=parcel.key,
        archived_at=at,
        pointer=parcel.pointer,
        status=status,
        outcome=outcome,
        due_at=changes.pop("due_at", at + RETENTION),
        expires_at=at + RETENTION,
        **changes,
    )
    return parcel.key.event_id


def sent(core: Core) -> list[str]:
    """Ids of the events on the backfill queue."""
    return [parcel.key.event_id for parcel in core.queued("backfill")]


def clear(core: Core) -> None:
    core.world.queues["backfill"].clear()


# ── what is owed ─────────────────────────────────────────────────────────────────────────────────


def test_owed_items_come_first_then_the_windows_in_order_of_archiving() -> None:
    core = recovering()
    fresh = archived(core, 3, 1, 2)
    held = [owing(core, 9), owing(core, 8, archived_at=NOW - 2 * HOUR)]
    core.slice(KEY)
    assert sent(core) == held + fresh


def test_a_message_says_whose_it_is_and_for_which_second() -> None:
    core = recovering()
    archived(core, 1)
    owing(core, 2)
    core.slice(KEY)
    held, fresh = core.queued("backfill")
    for parcel in (held, fresh):
        assert (parcel.lane, parcel.recovery_id, parcel.generation) == (Lane.BACKFILL, a_recovery().id, 1)
        assert parcel.at == NOW
    assert (held.attempt, held.body) == (2, None)
    assert (fresh.attempt, fresh.body) == (1, an_event(1).body)


@pytest.mark.parametrize(
    "kind, status, outcome, automatic_left, taken",
    [
        (RecoveryKind.REENABLE, DeliveryStatus.HELD, None, True, True),
        (RecoveryKind.REENABLE, DeliveryStatus.HELD, PERMANENT, False, True),
        (RecoveryKind.REENABLE, DeliveryStatus.EXHAUSTED, RETRYABLE, True, True),
        (RecoveryKind.REENABLE, DeliveryStatus.EXHAUSTED, RETRYABLE, False, True),
        (RecoveryKind.REENABLE, DeliveryStatus.EXHAUSTED, PERMANENT, False, True),
        (RecoveryKind.REENABLE, DeliveryStatus.RETRYING, RETRYABLE, True, False),
        (RecoveryKind.AUTOMATIC, DeliveryStatus.HELD, None, True, True),
        (RecoveryKind.AUTOMATIC, DeliveryStatus.HELD, PERMANENT, False, True),
        (RecoveryKind.AUTOMATIC, DeliveryStatus.EXHAUSTED, RETRYABLE, True, True),
        (RecoveryKind.AUTOMATIC, DeliveryStatus.EXHAUSTED, Outcome.FATAL, True, True),
        (RecoveryKind.AUTOMATIC, DeliveryStatus.EXHAUSTED, RETRYABLE, False, False),
        (RecoveryKind.AUTOMATIC, DeliveryStatus.EXHAUSTED, PERMANENT, False, False),
        (RecoveryKind.AUTOMATIC, DeliveryStatus.RETRYING, RETRYABLE, True, False),
    ],
)
def test_which_owed_items_a_recovery_takes(
    kind: RecoveryKind,
    status: DeliveryStatus,
    outcome: Outcome | None,
    *,
    automatic_left: bool,
    taken: bool,
) -> None:
    core = recovering(kind)
    event_id = owing(core, 1, status, outcome=outcome, automatic_left=automatic_left)
    core.slice(KEY)
    assert sent(core) == ([event_id] if taken else [])


def test_what_this_recovery_has_tried_in_vain_is_not_sent_again_by_it() -> None:
    core = recovering()
    owing(core, 1, DeliveryStatus.EXHAUSTED, outcome=RETRYABLE, tried_by=a_recovery().id)
    other = owing(core, 2, DeliveryStatus.EXHAUSTED, outcome=RETRYABLE, tried_by="rec_before")
    core.slice(KEY)
    assert sent(core) == [other]


@pytest.mark.parametrize(
    "at, owed_by_it",
    [
        (WINDOW.start - SECOND, False),
        (WINDOW.start, True),
        (WINDOW.end, True),
        (WINDOW.end + MARGIN, True),
        (WINDOW.end + MARGIN + SECOND, False),
    ],
    ids=["before", "start", "end", "margin", "after"],
)
def test_f24_a_window_is_read_from_its_start_to_its_end_and_the_margin(
    at: datetime, *, owed_by_it: bool
) -> None:
    core = recovering()
    ids = archived(core, 1, at=at)
    core.slice(KEY)
    assert sent(core) == (ids if owed_by_it else [])


def test_f60_the_archives_clock_decides_and_no_id_falls_behind_a_cursor() -> None:
    core = recovering(windows=(replace(WINDOW, cursor=Cursor(NOW - 90 * MINUTE, "evt_z")),))
    archived(core, 5, at=NOW - 90 * MINUTE)
    later = archived(core, 1, at=NOW - 89 * MINUTE)
    core.slice(KEY)
    assert sent(core) == later


def test_what_the_ledger_knows_is_over_or_held_and_not_sent_from_the_archive() -> None:
    core = recovering()
    for n, status in enumerate(sorted(DeliveryStatus), start=1):
        (event_id,) = archived(core, n)
        key = DeliveryKey(KEY, event_id)
        core.world.deliveries[key] = a_delivered(key=key, status=status)
    core.slice(KEY)
    assert sent(core) == []


@pytest.mark.parametrize("kind", RecoveryKind)
def test_what_it_tried_in_vain_and_an_outage_has_held_since_is_its_own_again(kind: RecoveryKind) -> None:
    """Nobody else moves it: the recovery of that outage's window is this one."""
    core = recovering(kind)
    held = owing(core, 1, tried_by=a_recovery().id, outcome=RETRYABLE)
    core.slice(KEY)
    assert sent(core) == [held]


def test_an_event_beside_its_stale_entry_is_sent_once() -> None:
    """fan_out archived it, died, and archived it again: one chunk of the archive holds both."""
    core = recovering()
    archived(core, 1)
    archived(core, 1, at=NOW - 89 * MINUTE)
    first, second = core.world.archived()
    item = core.world.event_items[KEY.scope, an_event(1).id]
    assert first.pointer != second.pointer
    for pointer, at in ((second.pointer, second.archived_at), (first.pointer, first.archived_at)):
        clear(core)
        core.world.event_items[KEY.scope, an_event(1).id] = replace(item, pointer=pointer, archived_at=at)
        core.set_health(KEY, recovery=replace(core.health(KEY).recovery, windows=(WINDOW,)))
        core.later(MINUTE)
        core.slice(KEY)
        assert [(p.key.event_id, p.pointer) for p in core.queued("backfill")] == [(an_event(1).id, pointer)]


def test_a_stale_archive_entry_is_not_sent() -> None:
    """A run that crashed has archived the event; the run that routed it did so anew, after the window."""
    core = recovering()
    archived(core, 1)
    (entry,) = core.archive.put([an_event(1)], now=NOW - MINUTE)
    core.world.event_items[a_key().scope, an_event(1).id] = an_event_item(
        an_event(1), archived_at=NOW - MINUTE, pointer=entry.pointer
    )
    core.slice(KEY)
    assert sent(core) == []


def test_only_what_matched_when_it_was_archived_and_ever_since_is_sent() -> None:
    core = recovering()
    core.world.subscriptions[KEY] = replace(core.present(KEY), event_types=("invoice.paid",))
    core.world.filters[KEY] = {
        at: FilterChange(at=at, event_types=types)
        for at, types in (
            (NOW - 9 * HOUR, ("*",)),
            (NOW - 95 * MINUTE, ("order.sent",)),
            (NOW - 85 * MINUTE, ("invoice.paid",)),
        )
    }
    archived(core, 1, at=NOW - 100 * MINUTE)
    archived(core, 2, at=NOW - 90 * MINUTE)
    (kept,) = archived(core, 3, at=NOW - 80 * MINUTE)
    core.archived(KEY, an_event(4, type="order.sent"), at=NOW - 80 * MINUTE)
    core.slice(KEY)
    assert sent(core) == [kept]


def test_events_from_before_the_first_activation_are_not_sent() -> None:
    core = recovering()
    core.world.subscriptions[KEY] = replace(core.present(KEY), first_active_at=NOW - 80 * MINUTE)
    archived(core, 1, at=NOW - 81 * MINUTE)
    (kept,) = archived(core, 2, at=NOW - 79 * MINUTE)
    core.slice(KEY)
    assert sent(core) == [kept]


def test_story_15_an_owed_item_beside_a_final_record_is_deleted_on_the_way() -> None:
    core = recovering()
    event_id = owing(core, 1)
    key = DeliveryKey(KEY, event_id)
    core.world.deliveries[key] = a_delivered(key=key)
    core.slice(KEY)
    assert (sent(core), core.world.owed) == ([], {})


def test_f26_what_has_left_retention_is_counted_expired_and_reported() -> None:
    core = recovering(
        windows=(Window(start=NOW - 9 * 24 * HOUR, end=NOW - HOUR),), lower_bound=NOW - RETENTION
    )
    archived(core, 1, 2, at=NOW - 8 * 24 * HOUR)
    (kept,) = archived(core, 3)
    owing(core, 4, archived_at=NOW - 8 * 24 * HOUR)
    swept = core.archived(KEY, an_event(5), at=NOW - 8 * 24 * HOUR).key
    core.world.deliveries[swept] = a_delivery(key=swept, status=DeliveryStatus.EXPIRED)
    core.slice(KEY)
    assert sent(core) == [kept]
    assert record(core).expired == 4, "each once, what a sweep has expired too"
    assert core.delivery(DeliveryKey(KEY, an_event(4).id)).status is DeliveryStatus.EXPIRED


def test_what_came_right_after_the_first_activation_and_has_left_retention_is_counted_expired() -> None:
    core = recovering(
        windows=(Window(start=NOW - 9 * 24 * HOUR, end=NOW - HOUR),), lower_bound=NOW - RETENTION
    )
    first = NOW - 8 * 24 * HOUR
    core.world.subscriptions[KEY] = replace(core.present(KEY), first_active_at=first)
    archived(core, 1, at=first - 11 * SECOND)
    archived(core, 2, at=first - 9 * SECOND)
    core.slice(KEY)
    assert record(core).expired == 1


def test_the_lower_bound_does_not_slide_while_it_runs() -> None:
    core = recovering(windows=(Window(start=NOW - RETENTION, end=NOW - HOUR),), lower_bound=NOW - RETENTION)
    (kept,) = archived(core, 1, at=NOW - RETENTION)
    core.later(9 * HOUR)
    core.slice(KEY)
    assert sent(core) == [kept]


def test_without_backfill_nothing_is_sent_until_an_outage_joins() -> None:
    core = recovering(windows=(), backfill=False)
    held = owing(core, 1)
    core.slice(KEY)
    assert sent(core) == []
    assert record(core).status is RecoveryStatus.COMPLETED

    core = recovering(windows=(WINDOW,), backfill=False)
    held = owing(core, 1)
    fresh = archived(core, 2)
    core.slice(KEY)
    assert sent(core) == [held, *fresh]


# ── an unfinished window ─────────────────────────────────────────────────────────────────────────


def test_what_may_still_be_on_its_way_to_the_archive_is_not_read_past() -> None:
    core = recovering(windows=(Window(start=NOW - HOUR, end=NOW),))
    early = archived(core, 1, at=NOW - MARGIN)
    late = archived(core, 2, at=NOW - MARGIN + SECOND)
    core.slice(KEY)
    assert sent(core) == early
    core.later(2 * SECOND)
    core.slice(KEY)
    assert sent(core) == early + late


def test_it_is_not_done_before_the_margin_of_its_last_window_has_passed() -> None:
    core = recovering(windows=(Window(start=NOW - HOUR, end=NOW),))
    assert core.slice(KEY).wait == MARGIN
    core.later(MARGIN - SECOND)
    assert core.slice(KEY).wait == SECOND
    core.later(SECOND)
    assert core.slice(KEY).wait is None
    assert record(core).status is RecoveryStatus.COMPLETED


# ── canaries ─────────────────────────────────────────────────────────────────────────────────────


def with_canaries(kind: RecoveryKind = RecoveryKind.REENABLE, *, answer: int = 200) -> Core:
    """A recovery at its very beginning, 20 events in its window."""
    core = recovering(kind, flowing=False, rate_per_second=0.0)
    core.answer = lambda _: Answer(status_code=answer, latency_ms=50)
    archived(core, *range(1, 21))
    return core


def step(core: Core) -> timedelta | None:
    """A slice, and the time that it asks for."""
    wait = core.slice(KEY).wait
    core.later(max(wait or SECOND, SECOND))
    return wait


def test_three_canaries_go_ahead_and_the_rest_waits_for_them() -> None:
    core = with_canaries()
    core.slice(KEY)
    assert len(sent(core)) == 3
    core.later(2 * SECOND)
    assert core.slice(KEY).wait == 5 * SECOND
    assert len(sent(core)) == 3


def test_canaries_that_arrived_let_the_rest_go_at_five_a_second() -> None:
    core = with_canaries()
    core.slice(KEY)
    core.deliver(*core.take("backfill"))
    core.later(2 * SECOND)
    core.slice(KEY)
    core.later(SECOND)
    core.slice(KEY)
    seconds = Counter(at for at, _ in core.world.queues["backfill"])
    assert len(sent(core)) == 17
    assert max(seconds.values()) == 5
    assert record(core).rate_per_second == 5


def fail_canaries(core: Core) -> timedelta | None:
    """One round: canaries are sent, attempted in vain, and looked at."""
    core.slice(KEY)
    core.deliver(*core.take("backfill"))
    core.world.queues["backfill"].clear()
    core.later(2 * SECOND)
    return step(core)


def test_a_canary_that_failed_holds_the_rest_back_for_a_minute_then_two() -> None:
    core = with_canaries(answer=404)
    assert fail_canaries(core) == MINUTE
    assert fail_canaries(core) == 2 * MINUTE
    assert len(core.world.requests) == 6


def test_three_rounds_in_vain_pause_it_and_its_owner_is_told() -> None:
    core = with_canaries(answer=404)
    for _ in range(3):
        fail_canaries(core)
    assert record(core).status is RecoveryStatus.PAUSED
    assert core.health(KEY).recovery.status is RecoveryStatus.PAUSED
    (notice,) = core.world.notices_of(NoticeKind.RECOVERY_PAUSED)
    assert notice.facts["sent"] == "9"
    assert {"failures", "last_status", "waiting", "recoverable_until"} <= set(notice.facts)
    core.later(HOUR)
    core.slice(KEY)
    assert len(core.world.requests) == 9, "paused: nothing is sent, and the lock is kept"
    assert core.health(KEY).recovery.held


def test_a_recovery_that_nobody_asked_for_is_never_paused_but_takes_its_time() -> None:
    core = with_canaries(RecoveryKind.AUTOMATIC, answer=404)
    waits = [fail_canaries(core) for _ in range(5)]
    assert all(wait is not None and wait >= MINUTE for wait in waits)
    assert record(core).status is not RecoveryStatus.PAUSED
    assert core.world.notices == {}


def test_canaries_that_do_not_come_back_are_waited_for_two_minutes_and_then_others_go() -> None:
    core = with_canaries()
    core.slice(KEY)
    clear(core)
    core.later(2 * MINUTE + 2 * SECOND)
    core.slice(KEY)
    core.later(SECOND)
    core.slice(KEY)
    assert sent(core) == [an_event(n).id for n in (4, 5, 6)]


def lose_canaries(core: Core) -> None:
    """One round: canaries are sent, and none comes back in time."""
    core.slice(KEY)
    clear(core)
    core.later(2 * MINUTE + 2 * SECOND)
    core.slice(KEY)
    core.later(SECOND)


def test_canaries_that_were_never_attempted_are_no_failure_and_no_round_of_an_automatic_recovery() -> None:
    core = with_canaries(RecoveryKind.AUTOMATIC)
    before = core.health(KEY).recovery.rounds
    for _ in range(4):
        lose_canaries(core)
        assert core.health(KEY).recovery.rounds == before
    core.slice(KEY)
    assert sent(core) == [an_event(n).id for n in (13, 14, 15)], "others went at once, four times"
    assert record(core).canaries_failed == 0


@pytest.mark.parametrize("kind", RecoveryKind)
def test_canaries_that_were_never_attempted_do_not_pause_a_recovery(kind: RecoveryKind) -> None:
    core = with_canaries(kind)
    for _ in range(4):
        lose_canaries(core)
    assert (record(core).status, record(core).canaries_failed) == (RecoveryStatus.RUNNING, 0)


def test_a_circuit_that_opens_before_the_canaries_arrive_costs_an_automatic_recovery_its_rest() -> None:
    core = with_canaries(RecoveryKind.AUTOMATIC)
    core.slice(KEY)
    core.set_health(KEY, circuit=Circuit(open_until=NOW + MINUTE), outage_from=NOW - MARGIN)
    core.later(2 * SECOND)
    core.slice(KEY)
    core.set_health(KEY, circuit=Circuit(), outage_from=None)
    clear(core)
    core.later(MINUTE)
    assert core.slice(KEY).wait == timedelta(minutes=5) - MINUTE - 2 * SECOND
    assert (sent(core), record(core).canaries_failed) == ([], 0)


def test_what_was_discarded_on_arrival_is_no_failed_canary() -> None:
    core = with_canaries()
    core.slice(KEY)
    core.world.subscriptions[KEY] = replace(core.present(KEY), event_types=("order.*",))
    core.deliver(*core.take("backfill"))
    core.later(2 * SECOND)
    core.slice(KEY)
    assert record(core).flowing


# ── pace ─────────────────────────────────────────────────────────────────────────────────────────


def test_i9_the_pace_doubles_while_clean_from_five_a_second_to_the_most() -> None:
    core = recovering(rate_per_second=5.0, next_slice_at=None)
    core.world.config = RuntimeConfig(pace=Pace(most_per_second=30))
    archived(core, *range(1, 6001))
    rates: list[int] = []
    for _ in range(5):
        core.slice(KEY)
        seconds = Counter(at for at, _ in core.world.queues["backfill"])
        rates.append(max(seconds.values()))
        clear(core)
        core.later(61 * SECOND)
    assert rates == [5, 10, 20, 30, 30]


def test_trouble_halves_it() -> None:
    core = recovering(rate_per_second=40.0, next_slice_at=NOW)
    archived(core, *range(1, 5000))
    core.recoveries.add_counts(KEY, a_recovery().id, succeeded=0, failed=0, troubled=1)
    core.slice(KEY)
    assert record(core).rate_per_second == 20
    core.later(61 * SECOND)
    core.slice(KEY)
    assert record(core).rate_per_second == 40, "the trouble is answered"


def test_a_pace_that_was_asked_for_is_not_exceeded_and_its_slices_are_long() -> None:
    core = recovering(rate_per_second=2.0, max_rate=2.0, next_slice_at=NOW)
    archived(core, *range(1, 4000))
    core.slice(KEY)
    assert len(sent(core)) == 2 * 600
    waits = [at - NOW for at, _ in core.world.queues["backfill"]]
    assert max(waits) < timedelta(minutes=15)
    assert record(core).rate_per_second == 2


def test_a_slice_is_not_begun_before_the_last_has_been_sent() -> None:
    core = recovering(rate_per_second=5.0, next_slice_at=None)
    archived(core, *range(1, 1000))
    wait = core.slice(KEY).wait
    assert wait == 60 * SECOND
    core.later(30 * SECOND)
    clear(core)
    assert core.slice(KEY).wait == 30 * SECOND
    assert sent(core) == []


def test_searching_an_archive_in_vain_earns_no_faster_pace(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(owed, "LOOK_AT_MOST", 100)
    core = recovering(rate_per_second=5.0, next_slice_at=None)
    core.world.subscriptions[KEY] = replace(core.present(KEY), event_types=("order.*",))
    archived(core, *range(1, 501))
    steps = 0
    while record(core).status is not RecoveryStatus.COMPLETED:
        step(core)
        steps += 1
        assert record(core).rate_per_second == 5
    assert steps == 6, "the cursor moves on though none of them is owed"


def test_large_bodies_do_not_fill_a_functions_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(owed, "SLICE_BODY_BYTES", 100_000)
    core = recovering(rate_per_second=100.0, next_slice_at=None)
    for n in range(1, 11):
        core.archived(KEY, an_event(n, body=b"x" * 40_000), at=NOW - 90 * MINUTE + n * SECOND)
    core.archived(KEY, an_event(11, body=b"x" * 70_000), at=NOW - 80 * MINUTE)
    sizes = []
    for _ in range(4):
        core.slice(KEY)
        sizes.append(len(sent(core)))
        core.later(MINUTE)
    assert sizes == [3, 6, 9, 11]
    assert core.queued("backfill")[-1].body is None, "over 64 KiB it travels by reference"


# ── what stands in the way ───────────────────────────────────────────────────────────────────────


def test_while_the_circuit_is_open_it_waits_and_begins_with_canaries_again() -> None:
    core = recovering()
    archived(core, 1)
    core.set_health(KEY, circuit=Circuit(open_until=NOW + MINUTE), outage_from=NOW)
    assert core.slice(KEY).wait == MINUTE
    assert sent(core) == []
    assert not record(core).flowing


def test_an_endpoint_that_asked_for_quiet_is_left_alone() -> None:
    core = recovering()
    archived(core, 1)
    core.set_health(KEY, not_before=NOW + MINUTE)
    assert core.slice(KEY).wait == MINUTE
    assert sent(core) == []


def test_it_never_waits_longer_than_its_lease_allows() -> None:
    core = recovering()
    core.set_health(KEY, not_before=NOW + 2 * HOUR)
    assert core.slice(KEY).wait == timedelta(minutes=15)
    lease = core.health(KEY).recovery.lease_until
    assert lease is not None
    assert lease >= NOW + timedelta(minutes=30)


@pytest.mark.parametrize(
    "end, status, windows",
    [
        (Core.pause, RecoveryStatus.STOPPED, (WINDOW,)),
        (Core.revoke, RecoveryStatus.CANCELLED, ()),
    ],
)
def test_it_ends_with_the_subscription_and_leaves_its_windows_to_the_next(
    end: Any, status: RecoveryStatus, windows: tuple[Window, ...]
) -> None:
    core = recovering()
    archived(core, 1)
    end(core, KEY)
    assert core.slice(KEY).wait is None
    assert sent(core) == []
    assert (record(core).status, record(core).ended_at) == (status, NOW)
    assert core.health(KEY).recovery.windows == windows


def test_a_superseded_execution_ends_and_leaves_the_record_to_the_next() -> None:
    core = recovering()
    core.set_health(KEY, recovery=a_lock(generation=2, windows=(WINDOW,)))
    archived(core, 1)
    sliced = backfill(
        KEY,
        recovery_id=a_recovery().id,
        generation=1,
        now=NOW,
        config=core.world.config,
        margins=core.margins,
        ports=core.backfill_ports,
    )
    assert sliced.wait is None
    assert record(core).ended_at is None
    assert sent(core) == []


# ── kills and refusals ───────────────────────────────────────────────────────────────────────────


def test_f29_a_suspension_between_the_sending_and_the_cursor_leaves_the_cursor() -> None:
    core = recovering()
    archived(core, 1)

    def suspended(call: str) -> None:
        if call == "HealthStore.write_lock":
            core.world.before_call = None
            core.pause(KEY)

    core.world.before_call = suspended
    core.slice(KEY)
    assert core.health(KEY).recovery.windows == (WINDOW,)


def test_a_circuit_that_opens_between_the_sending_and_the_cursor_leaves_the_cursor() -> None:
    core = recovering()
    archived(core, 1)

    def opened(call: str) -> None:
        if call == "HealthStore.write_lock":
            core.set_health(KEY, circuit=Circuit(version=9, open_until=NOW + MINUTE))

    core.world.before_call = opened
    core.slice(KEY)
    assert core.health(KEY).recovery.windows == (WINDOW,)


def test_f16_what_the_queue_refused_is_sent_again_before_the_cursor_moves() -> None:
    core = recovering()
    fresh = archived(core, *range(1, 6))
    held = owing(core, 9)
    core.lanes.refuses = lambda parcel: parcel.key.event_id in (fresh[2], held)
    assert core.slice(KEY).wait == 15 * SECOND
    assert core.health(KEY).recovery.windows == (WINDOW,)
    core.lanes.refuses = lambda _: False
    core.later(15 * SECOND)
    core.slice(KEY)
    assert {fresh[2], held} <= set(sent(core))
    assert core.health(KEY).recovery.windows != (WINDOW,)


@pytest.mark.parametrize("call", ["Lanes.send", "Ledger.move_due", "HealthStore.write_lock"])
@pytest.mark.parametrize("after", [False, True], ids=["before it", "after it"])
def test_story_5_a_step_that_is_killed_anywhere_is_taken_again_whole(call: str, *, after: bool) -> None:
    core = recovering()
    fresh = archived(core, 1, 2)
    held = [owing(core, 8), owing(core, 9)]

    def kill(name: str) -> None:
        if name == call:
            raise OwnFaultError(name)

    core.world.before_call, core.world.after_call = (None, kill) if after else (kill, None)
    with pytest.raises(OwnFaultError):
        core.slice(KEY)
    core.world.before_call = core.world.after_call = None
    core.later(2 * SECOND)
    core.slice(KEY)
    assert set(sent(core)) == {*fresh, *held}


def test_a_lost_message_of_an_owed_item_is_sent_again_when_it_is_overdue() -> None:
    core = recovering(windows=())
    held = owing(core, 1)
    core.slice(KEY)
    assert sent(core) == [held]
    clear(core)
    core.later(MINUTE)
    assert core.slice(KEY).wait == 15 * SECOND, "it may still come"
    core.later(15 * MINUTE)
    core.slice(KEY)
    assert sent(core) == [held]


def test_the_sweep_takes_the_mark_off_an_overdue_item_and_the_recovery_sends_it_again() -> None:
    core = recovering(windows=())
    held = owing(core, 1)
    core.slice(KEY)
    clear(core)
    core.later(16 * MINUTE)
    assert core.sweep().done["left_to_recovery"] == 1
    core.slice(KEY)
    assert sent(core) == [held]


def test_items_that_a_dead_generation_took_are_sent_by_the_next() -> None:
    core = recovering(windows=())
    held = owing(core, 1)
    core.slice(KEY)
    clear(core)
    core.later(HOUR)
    core.take_up(KEY)
    core.slice(KEY)
    assert sent(core) == [held]
    assert core.queued("backfill")[0].generation == 2


@pytest.mark.parametrize("status_code", [200, 404])
def test_a_message_that_was_dealt_with_before_its_mark_is_not_waited_for(status_code: int) -> None:
    core = recovering(windows=())
    owing(core, 1)
    core.answer = lambda _: Answer(status_code=status_code)

    def delivered_at_once(call: str) -> None:
        if call == "Ledger.move_due":
            core.world.before_call = None
            core.deliver(*core.take("backfill"))

    core.world.before_call = delivered_at_once
    core.slice(KEY)
    core.later(2 * SECOND)
    assert core.slice(KEY).wait is None
    assert len(core.world.requests) == 1


# ── done ─────────────────────────────────────────────────────────────────────────────────────────


def test_it_is_done_when_nothing_is_left_and_says_so_with_numbers() -> None:
    core = recovering(next_slice_at=None)
    archived(core, 1, 2, 3)
    core.slice(KEY)
    for _ in range(3):
        core.deliver(*core.take("backfill"))
        core.later(SECOND)
    assert core.slice(KEY).wait is None
    assert (record(core).status, record(core).sent, record(core).succeeded) == (
        RecoveryStatus.COMPLETED,
        3,
        3,
    )
    lock = core.health(KEY).recovery
    assert (lock.held, lock.windows, lock.lease_until) == (False, (), None)
    (notice,) = core.world.notices_of(NoticeKind.RECOVERED)
    assert notice.facts["succeeded"] == "3"


def test_an_automatic_recovery_sends_no_mail() -> None:
    core = recovering(RecoveryKind.AUTOMATIC)
    core.slice(KEY)
    core.slice(KEY)
    assert record(core).status is RecoveryStatus.COMPLETED
    assert core.world.notices == {}


def test_story_9_a_window_that_joins_while_it_would_be_done_is_read_first() -> None:
    core = recovering()
    joining = Window(start=NOW - 30 * MINUTE, end=NOW)

    def joined(call: str) -> None:
        if call == "HealthStore.write_lock":
            core.world.before_call = None
            core.set_health(KEY, recovery=a_lock(windows=(joining,), version=9))

    core.world.before_call = joined
    fresh = archived(core, 1, at=NOW - 20 * MINUTE)
    assert core.slice(KEY).wait == SECOND
    assert core.health(KEY).recovery.held
    core.later(SECOND)
    core.slice(KEY)
    assert sent(core) == fresh


def test_it_is_not_done_while_what_it_sent_may_still_come_back_to_owed() -> None:
    core = recovering(windows=())
    owing(core, 1)
    core.slice(KEY)
    core.later(10 * SECOND)
    assert core.slice(KEY).wait == 15 * SECOND
    assert record(core).ended_at is None


def test_an_item_that_appears_at_the_last_moment_is_sent_and_not_left() -> None:
    core = recovering(windows=())

    def appears(call: str) -> None:
        reads.append(call)
        if reads.count("Ledger.owed") == 2 and call == "Ledger.owed":
            core.world.before_call = None
            owing(core, 1)

    reads: list[str] = []
    core.world.before_call = appears
    assert core.slice(KEY).wait == SECOND
    core.later(SECOND)
    core.slice(KEY)
    assert sent(core) == [an_event(1).id]


def test_f28_everything_from_before_during_and_after_a_suspension_arrives_once() -> None:
    core = Core()
    core.subscribe(a_subscription(first_active_at=NOW - 30 * 24 * HOUR))
    core.answer = lambda _: Answer(status_code=404)
    core.deliver(*(core.archived(KEY, an_event(n)) for n in (1, 2, 3)))
    core.pause(KEY)
    core.later(MINUTE)
    core.deliver(*(core.archived(KEY, an_event(n)) for n in (4, 5)))
    core.later(HOUR)
    core.answer = lambda _: Answer(status_code=200)
    core.reenable(KEY)
    core.deliver(core.archived(KEY, an_event(6)))
    core.world.requests.clear()
    for _ in range(30):
        step(core)
        core.deliver(*core.take("backfill"))
    arrived = Counter(dict(request.headers)["webhook-id"] for request in core.world.requests)
    assert arrived == {an_event(n).id: 1 for n in range(1, 6)}
    assert core.world.owed == {}
    assert core.present(KEY).status is Status.ACTIVE


def test_a_recovery_that_is_not_there_has_nothing_to_do() -> None:
    core = Core()
    core.subscribe(health=a_health(recovery=a_lock()))
    assert core.slice(KEY).wait is None


def test_what_may_have_been_routed_right_after_the_first_activation_is_owed_too() -> None:
    """An outage that follows at once must not swallow it."""
    core = recovering()
    core.world.subscriptions[KEY] = replace(core.present(KEY), first_active_at=NOW - 80 * MINUTE)
    routed = archived(core, 1, at=NOW - 80 * MINUTE - 9 * SECOND)
    core.slice(KEY)
    assert sent(core) == routed

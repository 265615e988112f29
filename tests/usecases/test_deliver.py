"""A batch of deliveries, from arrival to what is written down of it."""

from collections import Counter
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from hookkeeper.domain.arrival import Arrival
from hookkeeper.domain.circuit import Circuit, CircuitRules, opened, trial_taken
from hookkeeper.domain.delivery import DeliveryStatus, Lane, Parcel
from hookkeeper.domain.errors import OwnFaultError
from hookkeeper.domain.health import Streak
from hookkeeper.domain.outbound import OutboundRequest
from hookkeeper.domain.outcome import OWN_FAULTS, Answer, Fault, Outcome
from hookkeeper.domain.recovery import RETENTION, RecoveryKind, RecoveryStatus, Window
from hookkeeper.domain.subscription import Status
from hookkeeper.domain.tenancy import DeliveryKey
from hookkeeper.usecases.deliver import Delivered, Fate

from tests.builders import (
    HOUR,
    MINUTE,
    NOW,
    a_delivered,
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
)
from tests.core import Core, backfill_of, counts

SECOND = timedelta(seconds=1)
LATENCY = timedelta(milliseconds=50)
OUTAGE = timedelta(minutes=5)
RULES = CircuitRules()
KEY = a_key()
OPEN = opened(Circuit(), RULES, now=NOW - HOUR)
"""Open for an hour: whoever comes may try."""


def says(status_code: int, **changes: Any) -> Answer:
    return Answer(status_code=status_code, latency_ms=50, **changes)


def answering(*answers: Answer) -> Core:
    """A core whose endpoint gives these answers in turn, the last for ever."""
    left = list(answers)
    return Core(answer=lambda _: left.pop(0) if len(left) > 1 else left[0])


def messages(core: Core, count: int, *, first: int = 1) -> list[Parcel]:
    return [core.archived(KEY, an_event(n)) for n in range(first, first + count)]


def fates(delivered: Delivered) -> list[Fate]:
    return [report.fate for report in delivered.reports]


def arrivals(delivered: Delivered) -> list[Arrival | None]:
    return [report.arrival for report in delivered.reports]


def calls_of(core: Core) -> Counter[str]:
    """How often each port is called from now on."""
    calls: Counter[str] = Counter()
    core.world.before_call = lambda name: calls.update([name])
    return calls


def refusing(core: Core, call: str, *, times: int = 99) -> None:
    """The next calls of one port's method fail by our own fault."""
    left = [times]

    def before(name: str) -> None:
        if name == call and left[0]:
            left[0] -= 1
            raise OwnFaultError(f"{call} is throttled")

    core.world.before_call = before


# ── success ──────────────────────────────────────────────────────────────────────────────────────


def test_a_clean_batch_is_one_read_and_one_write() -> None:
    core = Core()
    core.subscribe(health=a_health(last_success_at=NOW - MINUTE))
    parcels = messages(core, 25)
    calls = calls_of(core)
    delivered = core.deliver(*parcels)
    del calls["Secrets.signing"]  # opened once per container
    assert calls == {"Ledger.read_batch": 1, "Sender.send": 1, "Ledger.put_clean": 1}
    assert fates(delivered) == [Fate.DONE] * 25
    assert {core.delivery(p.key).status for p in parcels} == {DeliveryStatus.SUCCEEDED}


def test_the_first_success_of_an_hour_refreshes_health_once_for_the_whole_batch() -> None:
    core = Core()
    core.subscribe()
    parcels = messages(core, 25)
    calls = calls_of(core)
    core.deliver(*parcels)
    assert calls["Ledger.settle"] == 1
    assert core.health(KEY).last_success_at == NOW


def test_a_success_ends_every_streak() -> None:
    core = Core()
    core.subscribe(health=a_failing_health(24))
    (parcel,) = messages(core, 1)
    core.deliver(parcel)
    health = core.health(KEY)
    assert (counts(health), health.consecutive_failures, health.first_failure_at) == ({}, 0, None)


def test_a_retry_that_arrives_leaves_nothing_owed() -> None:
    core = answering(says(500), says(200))
    core.subscribe()
    core.deliver(*messages(core, 1))
    core.later(MINUTE)
    core.deliver(*core.take())
    assert core.world.owed == {}
    delivery = core.delivery(a_delivery_key())
    assert (delivery.status, [a.status_code for a in delivery.attempts]) == (
        DeliveryStatus.SUCCEEDED,
        [500, 200],
    )


def test_what_a_batch_could_not_write_comes_back() -> None:
    core = Core()
    core.subscribe(health=a_health(last_success_at=NOW))
    parcels = messages(core, 3)
    core.ledger.unwritten = {parcels[1].key}
    assert fates(core.deliver(*parcels)) == [Fate.DONE, Fate.AGAIN_LATER, Fate.DONE]


# ── failure ──────────────────────────────────────────────────────────────────────────────────────


def test_a_first_failure_is_retried_in_five_seconds_by_queue_and_owed_item() -> None:
    core = answering(says(503))
    core.subscribe()
    delivered = core.deliver(*messages(core, 1))
    (report,) = delivered.reports
    assert (report.outcome, report.status, report.counted) == (
        Outcome.RETRYABLE,
        DeliveryStatus.RETRYING,
        False,
    )
    due = NOW + LATENCY + 5 * SECOND
    ((visible_at, retry),) = core.world.queues["deliveries"]
    assert (visible_at, retry.attempt, retry.body) == (due, 2, an_event().body)
    owed = core.world.owed_of(a_delivery_key())
    assert owed is not None
    assert (owed.status, owed.due_at) == (DeliveryStatus.RETRYING, due)
    assert counts(core.health(KEY)) == {}, "a sequence counts when it is over"


def test_a_gap_longer_than_a_queue_can_wait_is_the_owed_items_alone() -> None:
    core = answering(says(500))
    core.subscribe()
    core.world.deliveries[a_delivery_key()] = a_delivery(sequence_attempts=3, attempt_count=3)
    core.deliver(a_parcel(attempt=4, archived_at=NOW))
    assert core.queued() == []
    owed = core.world.owed_of(a_delivery_key())
    assert owed is not None
    assert owed.due_at == NOW + LATENCY + 30 * MINUTE


def test_a_whole_sequence_in_vain_counts_once_from_its_first_attempt() -> None:
    core = answering(says(500))
    core.subscribe()
    core.deliver(*messages(core, 1))
    while (owed := core.world.owed_of(a_delivery_key())) and owed.status is DeliveryStatus.RETRYING:
        core.later(owed.due_at - core.now)
        core.take()
        core.deliver(replace(a_parcel(attempt=core.delivery(a_delivery_key()).attempt_count + 1)))
    health = core.health(KEY)
    assert core.delivery(a_delivery_key()).attempt_count == 6
    assert health.streaks == {Outcome.RETRYABLE: Streak(1, NOW)}
    assert (health.consecutive_failures, health.last_status_code, health.last_error) == (1, 500, "http_500")


@pytest.mark.parametrize(
    "answer, outcome",
    [
        (says(404, excerpt="no such\thing"), Outcome.PERMANENT),
        (says(301), Outcome.PERMANENT),
        (Answer(fault=Fault.TLS_EXPIRED), Outcome.PERMANENT),
        (Answer(fault=Fault.BLOCKED_ADDRESS), Outcome.PERMANENT),
        (Answer(fault=Fault.DNS_NOT_FOUND), Outcome.FATAL),
    ],
    ids=lambda value: getattr(value, "error", None),
)
def test_permanent_and_fatal_are_over_at_once_and_counted(answer: Answer, outcome: Outcome) -> None:
    core = answering(answer)
    core.subscribe()
    (report,) = core.deliver(*messages(core, 1)).reports
    assert (report.outcome, report.status, report.counted) == (outcome, DeliveryStatus.EXHAUSTED, True)
    assert core.health(KEY).streaks == {outcome: Streak(1, NOW)}
    assert core.queued() == []


def test_what_health_keeps_of_an_error_is_short() -> None:
    core = answering(says(404, excerpt="x" * 5000))
    core.subscribe()
    core.deliver(*messages(core, 1))
    assert len(core.health(KEY).last_error or "") == 500


@pytest.mark.parametrize("reset", ["last_success_at", "epoch_at"])
def test_a_streak_never_reaches_back_beyond_the_last_reset(reset: str) -> None:
    core = answering(says(404))
    core.subscribe(health=a_health(**{reset: NOW - MINUTE}))
    core.world.deliveries[a_delivery_key()] = a_delivery(sequence_began_at=NOW - 2 * HOUR)
    core.deliver(a_parcel(attempt=2))
    assert core.health(KEY).first_failure_at == NOW - MINUTE


def test_a_failure_of_an_older_epoch_is_recorded_and_not_counted() -> None:
    """F35: re-enabled while the request was on its way."""
    core = Core()
    core.subscribe()

    def reenabled_meanwhile(_: OutboundRequest) -> Answer:
        core.set_health(KEY, epoch=8)
        return says(404)

    core.answer = reenabled_meanwhile
    (report,) = core.deliver(*messages(core, 1)).reports
    assert (report.status, report.counted) == (DeliveryStatus.EXHAUSTED, False)
    assert core.health(KEY).streaks == {}


def test_a_success_of_an_older_epoch_changes_no_status_and_no_streak() -> None:
    """F36."""
    core = Core()
    core.subscribe()

    def suspended_meanwhile(_: OutboundRequest) -> Answer:
        core.world.subscriptions[KEY] = a_suspended_subscription()
        core.set_health(KEY, epoch=8, streaks={Outcome.FATAL: Streak(3, NOW)}, consecutive_failures=3)
        return says(200)

    core.answer = suspended_meanwhile
    core.deliver(*messages(core, 1))
    assert core.delivery(a_delivery_key()).status is DeliveryStatus.SUCCEEDED
    assert core.present(KEY).status is Status.SUSPENDED
    assert counts(core.health(KEY)) == {"fatal": 3}


@pytest.mark.parametrize("answer", [says(200), says(404), says(500)], ids=lambda a: a.status_code)
def test_a_retry_by_hand_counts_for_nothing(answer: Answer) -> None:
    core = answering(answer)
    before = a_failing_health(24)
    core.subscribe(health=before)
    exhausted = a_delivery(status=DeliveryStatus.EXHAUSTED, settled=True, next_attempt_at=None)
    core.world.deliveries[a_delivery_key()] = exhausted
    for n in range(5):
        core.deliver(a_parcel(attempt=2 + n, lane=Lane.REPLAY, replay_id=f"rpl_{n}"))
    health = core.health(KEY)
    assert (health.streaks, health.circuit) == (before.streaks, before.circuit)
    assert len(core.world.requests) == 5


@pytest.mark.parametrize("counted_epoch, again", [(None, True), (1, False), (0, True)], ids=str)
@pytest.mark.parametrize("answer", [says(404), Answer(fault=Fault.DNS_NOT_FOUND)], ids=lambda a: a.error)
@pytest.mark.parametrize(
    "sent, health, counts",
    [
        ({"lane": Lane.BACKFILL}, {}, None),
        ({"lane": Lane.BACKFILL, "recovery_id": "rec_1", "generation": 1}, {}, None),
        ({"lane": Lane.REPLAY, "recovery_id": "rec_1", "generation": 1}, {}, True),
        ({"lane": Lane.REPLAY, "replay_id": "rpl_1"}, {}, False),
        ({"lane": Lane.BACKFILL}, {"circuit": OPEN, "outage_from": NOW - HOUR}, True),
    ],
    ids=["by the sweep", "by a recovery", "by a replay", "by hand", "as a trial"],
)
def test_what_nobody_asked_for_counts_a_delivery_once_an_epoch(
    sent: dict[str, Any],
    health: dict[str, Any],
    answer: Answer,
    counted_epoch: int | None,
    *,
    counts: bool | None,
    again: bool,
) -> None:
    """`counted_epoch` 0 is one before a re-enablement or a swap, whose backfill begins the count anew."""
    core = answering(answer)
    lock = a_lock(id="rec_1", generation=1, kind=RecoveryKind.AUTOMATIC)
    core.subscribe(health=a_health(recovery=lock, **health))
    core.world.deliveries[a_delivery_key()] = a_delivery(
        status=DeliveryStatus.EXHAUSTED, settled=True, next_attempt_at=None, counted_epoch=counted_epoch
    )
    (report,) = core.deliver(a_parcel(attempt=2, **sent)).reports
    expected = again if counts is None else counts
    assert (report.counted, core.health(KEY).consecutive_failures) == (expected, int(expected))
    assert core.delivery(a_delivery_key()).counted_epoch == (1 if expected else counted_epoch)


def test_an_automatic_recovery_that_arrives_ends_the_streak() -> None:
    core = answering(says(200))
    core.subscribe(health=a_failing_health(3))
    core.world.deliveries[a_delivery_key()] = a_delivery(
        status=DeliveryStatus.EXHAUSTED, settled=True, next_attempt_at=None, counted_epoch=1
    )
    core.deliver(a_parcel(attempt=2, lane=Lane.BACKFILL))
    assert core.health(KEY).consecutive_failures == 0


# ── duplicates ───────────────────────────────────────────────────────────────────────────────────


def test_two_copies_in_one_batch_are_one_request() -> None:
    core = Core()
    core.subscribe()
    (parcel,) = messages(core, 1)
    delivered = core.deliver(parcel, parcel)
    assert arrivals(delivered) == [Arrival.ATTEMPT, Arrival.DROP]
    assert len(core.world.requests) == 1


def test_a_copy_that_comes_later_is_dropped_without_a_write() -> None:
    core = Core()
    core.subscribe()
    (parcel,) = messages(core, 1)
    core.deliver(parcel)
    calls = calls_of(core)
    core.deliver(parcel)
    assert calls == {"Ledger.read_batch": 1, "Ledger.owed_item": 1}
    assert len(core.world.requests) == 1


def test_bb_13_the_copies_of_one_outcome_count_once_and_not_after_a_reset() -> None:
    core = answering(says(404), says(404), says(200), says(404))
    core.subscribe(health=a_failing_health(23, streaks={Outcome.PERMANENT: Streak(23, NOW - MINUTE)}))
    parcels = messages(core, 2)
    core.deliver(parcels[0], parcels[0])
    core.deliver(parcels[0])
    assert core.health(KEY).consecutive_failures == 24
    core.answer = lambda _: says(200)
    core.deliver(parcels[1])
    core.later(HOUR)
    delivered = core.deliver(parcels[0])
    assert fates(delivered) == [Fate.DONE]
    assert core.health(KEY).consecutive_failures == 0


def test_two_in_flight_at_once_may_both_be_sent_and_the_ledger_settles_once() -> None:
    core = Core()
    core.subscribe()
    (parcel,) = messages(core, 1)
    inner: list[Delivered] = []

    def another_copy_meanwhile(_: OutboundRequest) -> Answer:
        core.answer = lambda _: says(404)
        core.later(SECOND)
        inner.append(core.deliver(parcel))
        return says(404)

    core.answer = another_copy_meanwhile
    outer = core.deliver(parcel)
    assert len(core.world.requests) == 2
    assert [inner[0].reports[0].counted, outer.reports[0].counted] == [True, False]
    assert core.health(KEY).consecutive_failures == 1


def test_the_owed_item_of_what_is_over_goes_with_the_message_that_meets_it() -> None:
    """Story 15: two copies, one in vain, then the other's success is put over the record."""
    core = Core()
    core.subscribe(health=a_health(last_success_at=NOW))
    (parcel,) = messages(core, 1)
    inner: list[Delivered] = []

    def another_copy_fails_meanwhile(_: OutboundRequest) -> Answer:
        core.answer = lambda _: says(500)
        inner.append(core.deliver(parcel))
        return says(200)

    core.answer = another_copy_fails_meanwhile
    core.deliver(parcel)
    assert core.delivery(parcel.key).status is DeliveryStatus.SUCCEEDED
    assert core.world.owed_of(parcel.key) is not None
    core.later(5 * SECOND + LATENCY)
    core.deliver(*core.take())
    assert core.world.owed_of(parcel.key) is None
    assert len(core.world.requests) == 2


# ── not wanted, not there ────────────────────────────────────────────────────────────────────────


def test_what_is_no_longer_wanted_is_discarded_with_its_owed_item() -> None:
    core = answering(says(500))
    core.subscribe()
    core.deliver(*messages(core, 1))
    core.world.subscriptions[KEY] = a_subscription(event_types=("order.*",))
    core.later(MINUTE)
    delivered = core.deliver(*core.take())
    assert arrivals(delivered) == [Arrival.DISCARD]
    assert core.delivery(a_delivery_key()).status is DeliveryStatus.DISCARDED
    assert core.world.owed == {}
    assert len(core.world.requests) == 1


def test_bb_48_after_a_revocation_nothing_is_sent_whatever_is_queued() -> None:
    core = answering(says(500))
    core.subscribe()
    core.deliver(*messages(core, 3))
    fresh = messages(core, 3, first=4)
    core.revoke(KEY)
    sent = len(core.world.requests)
    core.later(MINUTE)
    delivered = core.deliver(*core.take(), *fresh)
    assert arrivals(delivered) == [Arrival.DISCARD] * 6
    assert len(core.world.requests) == sent
    assert core.world.owed == {}


def test_f46_a_subscription_that_is_not_there_is_dropped_and_leaves_no_ghost() -> None:
    core = Core()
    assert arrivals(core.deliver(a_parcel())) == [Arrival.DROP]
    assert (core.world.health, core.world.deliveries) == ({}, {})


def test_what_has_left_the_archive_is_expired() -> None:
    core = Core()
    core.subscribe()
    delivered = core.deliver(a_parcel(body=None))
    assert delivered.reports[0].status is DeliveryStatus.EXPIRED
    assert fates(delivered) == [Fate.DONE]
    assert core.delivery(a_delivery_key()).status is DeliveryStatus.EXPIRED


def test_a_large_body_is_read_from_the_archive_for_the_attempt() -> None:
    core = Core()
    core.subscribe()
    (parcel,) = messages(core, 1)
    core.deliver(replace(parcel, body=None))
    assert core.world.requests[0].body == an_event().body


# ── in an outage ─────────────────────────────────────────────────────────────────────────────────


def test_for_a_suspended_endpoint_any_number_of_messages_cost_one_read_a_batch() -> None:
    core = Core()
    core.subscribe(a_suspended_subscription(), a_health(outage_from=NOW - HOUR))
    parcels = messages(core, 250)
    calls = calls_of(core)
    for start in range(0, 250, 25):
        core.deliver(*parcels[start : start + 25])
    assert calls == {"Ledger.read_batch": 10}


def test_in_an_outage_a_retry_is_held_until_its_expiry() -> None:
    core = answering(says(500))
    core.subscribe()
    core.deliver(*messages(core, 1))
    core.pause(KEY)
    core.later(MINUTE)
    core.deliver(*core.take())
    owed = core.world.owed_of(a_delivery_key())
    assert owed is not None
    assert (owed.status, owed.due_at) == (DeliveryStatus.HELD, NOW + RETENTION)
    assert core.delivery(a_delivery_key()).next_attempt_at is None


def test_what_is_held_already_is_not_written_again() -> None:
    core = Core()
    core.subscribe(a_suspended_subscription(), a_health(outage_from=NOW))
    core.world.deliveries[a_delivery_key()] = a_delivery(status=DeliveryStatus.HELD, next_attempt_at=None)
    calls = calls_of(core)
    core.deliver(a_parcel(attempt=2))
    assert calls == {"Ledger.read_batch": 1}


def test_what_is_older_than_the_outage_is_held() -> None:
    core = Core()
    core.subscribe(a_suspended_subscription(), a_health(outage_from=NOW))
    core.deliver(core.archived(KEY, an_event(), at=NOW - SECOND))
    assert core.delivery(a_delivery_key()).status is DeliveryStatus.HELD


# ── the circuit ──────────────────────────────────────────────────────────────────────────────────


def test_a_batch_of_five_failures_opens_the_circuit_with_its_margin() -> None:
    core = answering(says(500))
    core.subscribe()
    delivered = core.deliver(*messages(core, 5))
    health = core.health(KEY)
    assert delivered.opened == [KEY]
    assert (health.circuit.open_until, health.outage_from) == (NOW + 30 * SECOND, NOW - OUTAGE)


@pytest.mark.parametrize("status_code", [400, 402, 405, 408, 422, 425, 429, 499])
def test_an_answer_to_one_event_says_nothing_of_the_endpoint(status_code: int) -> None:
    core = answering(says(status_code))
    core.subscribe()
    assert core.deliver(*messages(core, 25)).opened == []


@pytest.mark.parametrize(
    "answer",
    [*map(says, (401, 403, 404, 410, 500, 503, 301)), Answer(fault=Fault.TIMEOUT)],
    ids=lambda answer: str(answer.error),
)
def test_every_other_failure_feeds_it(answer: Answer) -> None:
    core = answering(answer)
    core.subscribe()
    assert core.deliver(*messages(core, 5)).opened == [KEY]


def test_a_success_in_the_batch_keeps_it_shut_and_resets_it() -> None:
    core = answering(says(500))
    core.subscribe()
    core.deliver(*messages(core, 4))
    core.answer = lambda request: says(200 if dict(request.headers)["webhook-id"].endswith("9") else 500)
    assert core.deliver(*messages(core, 5, first=5)).opened == []
    assert core.health(KEY).circuit == Circuit(version=2)


def test_an_earlier_outage_keeps_its_beginning_when_the_circuit_opens() -> None:
    core = answering(says(500))
    core.subscribe(health=a_health(outage_from=NOW - HOUR))
    core.deliver(*messages(core, 5))
    assert core.health(KEY).outage_from == NOW - HOUR


def test_two_instances_feed_one_circuit() -> None:
    """The other's batch is written between this one's read and its write."""
    core = Core()
    core.subscribe()
    parcels = messages(core, 6)
    inner: list[Delivered] = []

    def others_fail_meanwhile(_: OutboundRequest) -> Answer:
        core.answer = lambda _: says(500)
        core.later(SECOND)
        inner.append(core.deliver(*parcels[:3]))
        return says(500)

    core.answer = others_fail_meanwhile
    assert core.deliver(*parcels[3:]).opened == [KEY]


def test_when_it_is_open_one_message_of_all_tries_the_endpoint() -> None:
    core = Core()
    core.subscribe(health=a_health(circuit=OPEN, outage_from=NOW - HOUR))
    delivered = core.deliver(*messages(core, 10))
    assert arrivals(delivered) == [Arrival.TRIAL] + [Arrival.LEAVE_TO_OUTAGE] * 9
    assert len(core.world.requests) == 1


def test_who_loses_the_race_for_the_trial_does_not_try() -> None:
    core = Core()
    core.subscribe(health=a_health(circuit=OPEN, outage_from=NOW - HOUR))

    def taken(call: str) -> None:
        if call == "HealthStore.write_circuit":
            core.world.before_call = None
            core.set_health(KEY, circuit=trial_taken(OPEN, by="another", now=NOW))

    parcels = messages(core, 1)
    core.world.before_call = taken
    assert arrivals(core.deliver(*parcels)) == [Arrival.LEAVE_TO_OUTAGE]
    assert core.world.requests == []


def test_a_good_trial_closes_the_circuit_and_puts_the_recovery_of_its_window() -> None:
    core = Core()
    core.subscribe(health=a_health(circuit=OPEN, outage_from=NOW - HOUR))
    delivered = core.deliver(*messages(core, 1))
    health = core.health(KEY)
    assert delivered.closed == [KEY]
    assert (health.circuit.is_open, health.outage_from) == (False, None)
    assert health.recovery.windows == (Window(start=NOW - HOUR, end=NOW),)
    assert (health.recovery.status, health.recovery.kind) == (
        RecoveryStatus.WAITING,
        RecoveryKind.AUTOMATIC,
    )
    assert core.world.recoveries[KEY.scope, health.recovery.id or ""].status is RecoveryStatus.WAITING


def test_a_trial_in_vain_opens_it_for_twice_as_long_and_counts_one_failure() -> None:
    core = answering(says(500))
    core.subscribe(health=a_health(circuit=OPEN, outage_from=NOW - HOUR))
    core.deliver(*messages(core, 1))
    health = core.health(KEY)
    assert health.circuit.open_until == NOW + MINUTE
    assert counts(health) == {"retryable": 1}
    assert core.delivery(a_delivery_key()).status is DeliveryStatus.HELD
    assert core.queued() == []


def test_a_closing_is_made_again_where_a_recovery_renewed_its_lease() -> None:
    core = Core()
    running = a_recovery(kind=RecoveryKind.AUTOMATIC)
    core.world.recoveries[KEY.scope, running.id] = running
    core.subscribe(health=a_health(circuit=OPEN, outage_from=NOW - HOUR, recovery=a_lock(running)))

    def renewed(_: OutboundRequest) -> Answer:
        core.set_health(KEY, recovery=a_lock(running, version=2, lease_until=NOW + 9 * HOUR))
        return says(200)

    core.answer = renewed
    assert core.deliver(*messages(core, 1)).closed == [KEY]
    lock = core.health(KEY).recovery
    assert (lock.id, lock.lease_until, lock.windows) == (
        running.id,
        NOW + 9 * HOUR,
        (Window(start=NOW - HOUR, end=NOW),),
    )


def test_story_4_a_late_success_that_is_not_the_trials_leaves_the_circuit_open() -> None:
    core = Core()
    core.subscribe(health=a_health(circuit=Circuit(recent_failures=(NOW,))))

    def opened_meanwhile(_: OutboundRequest) -> Answer:
        core.set_health(KEY, circuit=opened(Circuit(), RULES, now=NOW), outage_from=NOW - OUTAGE)
        return says(200)

    core.answer = opened_meanwhile
    core.deliver(*messages(core, 1))
    health = core.health(KEY)
    assert (health.circuit.is_open, health.outage_from) == (True, NOW - OUTAGE)


# ── our own faults ───────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("fault", sorted(OWN_FAULTS - {Fault.NO_PLACE}))
def test_bb_04_our_own_fault_is_nobodys_outcome(fault: Fault) -> None:
    core = answering(Answer(fault=fault))
    core.subscribe()
    delivered = core.deliver(*messages(core, 25))
    now_or_later = Fate.AGAIN_NOW if fault is Fault.OUT_OF_TIME else Fate.AGAIN_LATER
    assert fates(delivered) == [now_or_later] * 25
    assert (core.world.deliveries, core.world.owed) == ({}, {})
    assert core.health(KEY) == a_health()


def test_f19_without_its_secret_nothing_is_sent_and_nothing_counted() -> None:
    core = Core()
    core.subscribe()
    core.secrets.unavailable = True
    parcels = messages(core, 3)
    assert fates(core.deliver(*parcels)) == [Fate.AGAIN_LATER] * 3
    assert core.world.requests == []
    core.secrets.unavailable = False
    assert fates(core.deliver(*parcels)) == [Fate.DONE] * 3


@pytest.mark.parametrize("fault", sorted(OWN_FAULTS))
def test_a_trial_that_our_own_fault_stopped_is_free_again(fault: Fault) -> None:
    core = answering(Answer(fault=fault))
    core.subscribe(health=a_health(circuit=OPEN, outage_from=NOW - HOUR))
    core.deliver(*messages(core, 1))
    circuit = core.health(KEY).circuit
    assert (circuit.is_open, circuit.trial_free(NOW)) == (True, True)


def test_a_trial_of_what_left_the_archive_is_free_again() -> None:
    core = Core()
    core.subscribe(health=a_health(circuit=OPEN, outage_from=NOW - HOUR))
    core.deliver(a_parcel(body=None))
    assert core.health(KEY).circuit.trial_free(NOW)


def test_what_came_back_unread_is_handed_back_and_never_read_as_absent() -> None:
    core = Core()
    core.subscribe()
    parcels = messages(core, 2)
    core.ledger.unread = {parcels[0].key}
    assert fates(core.deliver(*parcels)) == [Fate.AGAIN_LATER, Fate.DONE]
    assert len(core.world.requests) == 1


@pytest.mark.parametrize(
    "call, answer",
    [
        ("Secrets.signing", says(200)),
        ("Ledger.settle", says(404)),
        ("Ledger.put_clean", says(200)),
        ("Lanes.send", says(500)),
        ("HealthStore.raise_not_before", says(429, retry_after="60")),
    ],
)
def test_f09_what_our_own_side_refuses_for_one_message_comes_back_and_spares_its_neighbours(
    call: str, answer: Answer
) -> None:
    core = answering(answer)
    core.subscribe(health=a_health(last_success_at=NOW))
    parcels = messages(core, 2)
    refusing(core, call, times=1)
    delivered = core.deliver(*parcels)
    back = [report for report in delivered.reports if report.fate is Fate.AGAIN_LATER]
    assert len(back) == (2 if call == "Ledger.put_clean" else 1)
    assert all(isinstance(report.error, OwnFaultError) for report in back)


@pytest.mark.parametrize(
    "call, answer",
    [("HealthStore.write_circuit", says(500)), ("Subscriptions.standing", says(404))],
)
def test_what_fails_after_the_messages_were_dealt_with_hands_none_back(call: str, answer: Answer) -> None:
    core = answering(answer)
    core.subscribe()
    parcels = messages(core, 2)
    refusing(core, call)
    delivered = core.deliver(*parcels)
    assert fates(delivered) == [Fate.DONE] * 2
    assert [type(error) for error in delivered.errors] == [OwnFaultError]


def test_f03_what_there_was_no_time_for_is_handed_back_at_once() -> None:
    core = Core()
    core.subscribe()
    left = iter([says(200)] + [Answer(fault=Fault.OUT_OF_TIME)] * 9)
    core.answer = lambda _: next(left)
    delivered = core.deliver(*messages(core, 10))
    assert Counter(fates(delivered)) == {Fate.DONE: 1, Fate.AGAIN_NOW: 9}


@pytest.mark.parametrize("call", ["Ledger.read_batch", "HealthStore.write_circuit", "Secrets.signing"])
def test_f03_what_is_read_before_the_requests_takes_of_their_time_and_not_of_what_is_kept_for_writing(
    call: str,
) -> None:
    core = Core()
    core.subscribe(health=a_health(circuit=OPEN, outage_from=NOW - HOUR))
    core.world.after_call = lambda name: core.later(3 * SECOND if name == call else timedelta())

    def seconds_left() -> float:
        return 20 - (core.now - NOW).total_seconds()

    core.deliver(*messages(core, 1), seconds_left=seconds_left)
    assert core.sender.stops == [17.0]


def test_what_found_no_place_beside_others_of_a_slow_endpoint_is_queued_anew_and_counts_for_nothing() -> None:
    core = Core()
    core.subscribe()
    left = iter([says(200)] * 10 + [Answer(fault=Fault.NO_PLACE)] * 15)
    core.answer = lambda _: next(left)
    parcels = messages(core, 25)
    delivered = core.deliver(*parcels)
    assert fates(delivered) == [Fate.DONE] * 25
    assert [report.arrival for report in delivered.reports[10:]] == [Arrival.POSTPONE] * 15
    assert {report.answer for report in delivered.reports[10:]} == {None}, "no fault of ours to alarm"
    later = NOW + timedelta(seconds=5)
    assert core.world.queues["deliveries"] == [(later, parcel) for parcel in parcels[10:]]
    assert len(core.world.deliveries) == 10
    assert core.health(KEY).clean


def test_what_found_no_place_and_no_queue_comes_back() -> None:
    core = answering(Answer(fault=Fault.NO_PLACE))
    core.subscribe()
    core.lanes.refuses = lambda _: True
    assert fates(core.deliver(*messages(core, 1))) == [Fate.AGAIN_LATER]


# ── Retry-After ──────────────────────────────────────────────────────────────────────────────────


def test_retry_after_holds_this_retry_and_the_whole_endpoint() -> None:
    core = answering(says(429, retry_after="600"))
    core.subscribe()
    core.deliver(*messages(core, 1))
    assert core.health(KEY).not_before == NOW + LATENCY + 600 * SECOND
    ((visible_at, _),) = core.world.queues["deliveries"]
    assert visible_at == NOW + LATENCY + 600 * SECOND


def test_the_last_attempts_retry_after_is_heeded_too() -> None:
    core = answering(says(503, retry_after="600"))
    core.subscribe()
    core.world.deliveries[a_delivery_key()] = a_delivery(sequence_attempts=5, attempt_count=5)
    core.deliver(a_parcel(attempt=6))
    assert core.delivery(a_delivery_key()).status is DeliveryStatus.EXHAUSTED
    assert core.health(KEY).not_before == NOW + LATENCY + 600 * SECOND


@pytest.mark.parametrize("status_code", [200, 404, 500])
def test_only_429_and_503_may_ask_for_quiet(status_code: int) -> None:
    core = answering(says(status_code, retry_after="600"))
    core.subscribe()
    core.deliver(*messages(core, 1))
    assert core.health(KEY).not_before is None


def test_a_message_in_the_quiet_goes_back_with_its_delay() -> None:
    core = Core()
    core.subscribe(health=a_health(not_before=NOW + 10 * MINUTE))
    (parcel,) = messages(core, 1)
    delivered = core.deliver(parcel)
    assert (arrivals(delivered), fates(delivered)) == ([Arrival.POSTPONE], [Fate.DONE])
    ((visible_at, back),) = core.world.queues["deliveries"]
    assert (visible_at, back.attempt) == (NOW + 10 * MINUTE, 1)
    assert core.world.requests == []


def test_quiet_beyond_what_a_queue_can_wait_is_an_owed_item() -> None:
    core = Core()
    core.subscribe(health=a_health(not_before=NOW + HOUR))
    core.deliver(*messages(core, 1))
    owed = core.world.owed_of(a_delivery_key())
    assert owed is not None
    assert (owed.status, owed.due_at, core.queued()) == (DeliveryStatus.RETRYING, NOW + HOUR, [])


def test_a_message_that_no_queue_took_back_is_not_lost() -> None:
    core = Core()
    core.subscribe(health=a_health(not_before=NOW + MINUTE))
    parcels = messages(core, 1)
    core.lanes.refuses = lambda _: True
    assert fates(core.deliver(*parcels)) == [Fate.AGAIN_LATER]


# ── recoveries' messages ─────────────────────────────────────────────────────────────────────────


def recovering(core: Core, **lock: Any) -> Parcel:
    """A running recovery's message of one event."""
    recovery = a_recovery()
    core.world.recoveries[KEY.scope, recovery.id] = recovery
    core.subscribe(health=a_health(recovery=a_lock(recovery, **lock)))
    return backfill_of(messages(core, 1)[0], recovery, at=NOW)


def test_a_backfill_delivery_counts_in_its_recoverys_progress() -> None:
    core = answering(says(404))
    parcel = recovering(core)
    core.deliver(parcel)
    progress = core.world.recoveries[KEY.scope, parcel.recovery_id or ""]
    assert (progress.succeeded, progress.failed, progress.troubled) == (0, 1, 0)
    core.answer = lambda _: says(503)
    core.deliver(replace(parcel, key=DeliveryKey(KEY, "evt_2")))
    progress = core.world.recoveries[KEY.scope, parcel.recovery_id or ""]
    assert (progress.succeeded, progress.failed, progress.troubled) == (0, 1, 1)


def test_a_backfill_retry_stays_with_its_recovery_and_its_moment() -> None:
    core = answering(says(500))
    core.deliver(recovering(core))
    ((visible_at, retry),) = core.world.queues["backfill"]
    assert (retry.recovery_id, retry.generation) == (a_recovery().id, 1)
    assert retry.at == visible_at == NOW + LATENCY + 5 * SECOND


@pytest.mark.parametrize(
    "lock, due_at",
    [
        ({"generation": 2}, NOW + 15 * MINUTE),
        ({"status": RecoveryStatus.CANCELLED}, NOW + RETENTION),
    ],
    ids=["superseded: the sweep looks again", "cancelled: the next recovery takes it"],
)
def test_a_message_of_a_recovery_that_does_not_stand_goes_back_to_owed(
    lock: dict[str, Any], due_at: Any
) -> None:
    core = Core()
    parcel = recovering(core, **lock)
    core.deliver(parcel)
    owed = core.world.owed_of(parcel.key)
    assert owed is not None
    assert (owed.status, owed.due_at, owed.taken_by) == (DeliveryStatus.HELD, due_at, None)
    assert core.world.requests == []


def test_bb_12_each_replay_by_hand_is_one_request_and_its_copy_none() -> None:
    core = Core()
    core.subscribe()
    core.world.deliveries[a_delivery_key()] = a_delivered()
    parcels = messages(core, 1)
    for n in (1, 2, 3):
        replay = replace(parcels[0], attempt=1 + n, lane=Lane.REPLAY, replay_id=f"rpl_{n}")
        core.deliver(replay)
        core.deliver(replay)
    assert len(core.world.requests) == 3
    assert {dict(r.headers)["webhook-id"] for r in core.world.requests} == {a_delivery_key().event_id}
    assert core.delivery(a_delivery_key()).replays == ("rpl_1", "rpl_2", "rpl_3")

"""What becomes of a message when it arrives: each row of SPEC §8, and what stands before what."""

from datetime import timedelta
from typing import Any

import pytest
from hookkeeper.domain.arrival import EARLY, Arrival, Judged, judge, next_attempt, numbered
from hookkeeper.domain.circuit import Circuit
from hookkeeper.domain.delivery import Delivery, DeliveryStatus, Lane, Parcel
from hookkeeper.domain.health import Health
from hookkeeper.domain.recovery import SEND_GRACE, RecoveryStatus
from hookkeeper.domain.subscription import Status, Subscription

from tests.builders import (
    HOUR,
    MINUTE,
    NOW,
    a_delivered,
    a_delivery,
    a_health,
    a_lock,
    a_parcel,
    a_recovery,
    a_subscription,
    a_suspended_subscription,
)

TICK = timedelta(microseconds=1)
SUSPENDED = a_suspended_subscription()
OUTAGE = a_health(outage_from=NOW - HOUR)
OPEN = Circuit(open_until=NOW + MINUTE)
UNTRIED = Circuit(open_until=NOW)
"""Open, and whoever comes now may take the trial."""

RETRY = a_parcel(attempt=2)
DUE = a_delivery(next_attempt_at=NOW)
HELD = a_delivery(status=DeliveryStatus.HELD, next_attempt_at=None)


def a_backfill_parcel(**changes: Any) -> Parcel:
    """A message of `a_lock()`'s recovery, meant for now."""
    plain = {"lane": Lane.BACKFILL, "recovery_id": a_recovery().id, "generation": 1, "at": NOW}
    return a_parcel(**{**plain, **changes})


def verdict(
    parcel: Parcel,
    *,
    subscription: Subscription | None = None,
    health: Health | None = None,
    delivery: Delivery | None = None,
) -> Judged:
    return judge(
        parcel,
        subscription=subscription or a_subscription(),
        health=health or a_health(),
        delivery=delivery,
        now=NOW,
    )


# ── attempted ────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    "parcel, delivery",
    [
        (a_parcel(), None),
        (RETRY, DUE),
        (RETRY, a_delivery(next_attempt_at=NOW + EARLY)),
        (RETRY, HELD),
        (
            a_parcel(attempt=7),
            a_delivery(status=DeliveryStatus.EXHAUSTED, attempt_count=6, next_attempt_at=None),
        ),
    ],
    ids=["first", "retry", "retry a little early", "held", "exhausted"],
)
def test_what_is_owed_and_has_the_next_number_is_attempted(parcel: Parcel, delivery: Delivery | None) -> None:
    assert verdict(parcel, delivery=delivery) == Judged(Arrival.ATTEMPT)


# ── duplicates ───────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    "status", [DeliveryStatus.SUCCEEDED, DeliveryStatus.DISCARDED, DeliveryStatus.EXPIRED]
)
def test_what_is_final_is_dropped_even_with_the_next_number(status: DeliveryStatus) -> None:
    assert verdict(RETRY, delivery=a_delivered(status=status)) == Judged(Arrival.DROP)


@pytest.mark.parametrize("attempt", [1, 3, 20])
def test_any_number_but_the_next_is_a_duplicate(attempt: int) -> None:
    assert verdict(a_parcel(attempt=attempt), delivery=DUE) == Judged(Arrival.DROP)
    assert verdict(a_parcel(attempt=attempt), delivery=HELD) == Judged(Arrival.DROP)


def test_a_retry_of_a_delivery_that_the_ledger_does_not_know_is_a_duplicate() -> None:
    assert verdict(RETRY) == Judged(Arrival.DROP)


def test_a_retry_that_comes_early_is_a_duplicate() -> None:
    early = a_delivery(next_attempt_at=NOW + EARLY + TICK)
    assert verdict(RETRY, delivery=early) == Judged(Arrival.DROP)


def test_a_message_of_a_subscription_that_is_not_there_is_dropped() -> None:
    judged = judge(a_parcel(), subscription=None, health=None, delivery=None, now=NOW)
    assert judged == Judged(Arrival.DROP)


@pytest.mark.parametrize("delivery", [a_delivered(), a_delivery(next_attempt_at=NOW + HOUR)])
def test_a_replay_that_the_ledger_has_not_seen_repeats_what_is_over_and_does_not_wait(
    delivery: Delivery,
) -> None:
    replay = a_parcel(attempt=2, lane=Lane.REPLAY, replay_id="rpl_1")
    assert verdict(replay, delivery=delivery) == Judged(Arrival.ATTEMPT)


def test_a_replay_that_the_ledger_has_seen_is_a_duplicate() -> None:
    replay = a_parcel(attempt=3, lane=Lane.REPLAY, replay_id="rpl_1")
    seen = a_delivered(attempt_count=2, replays=("rpl_1",))
    assert verdict(replay, delivery=seen) == Judged(Arrival.DROP)


def test_a_replays_own_retry_is_attempted_when_it_is_due() -> None:
    replay = a_parcel(attempt=2, lane=Lane.REPLAY, replay_id="rpl_1")
    assert verdict(replay, delivery=a_delivery(next_attempt_at=NOW, replays=("rpl_1",))) == Judged(
        Arrival.ATTEMPT
    )


# ── no longer wanted ─────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    "subscription",
    [
        a_subscription(status=Status.REVOKED),
        a_subscription(event_types=("order.*",)),
        a_subscription(resource_id="r_1"),
        a_suspended_subscription(event_types=("order.*",)),
    ],
    ids=["revoked", "filter", "resource", "filter, while suspended"],
)
@pytest.mark.parametrize("parcel, delivery", [(a_parcel(), None), (RETRY, DUE), (RETRY, HELD)])
def test_what_is_no_longer_wanted_is_discarded(
    subscription: Subscription, parcel: Parcel, delivery: Delivery | None
) -> None:
    assert verdict(parcel, subscription=subscription, delivery=delivery) == Judged(Arrival.DISCARD)


def test_what_succeeded_stays_so_though_it_is_no_longer_wanted() -> None:
    replay = a_parcel(attempt=2, lane=Lane.REPLAY, replay_id="rpl_1")
    revoked = a_subscription(status=Status.REVOKED)
    assert verdict(replay, subscription=revoked, delivery=a_delivered()) == Judged(Arrival.DROP)


# ── in an outage ─────────────────────────────────────────────────────────────────────────────────

IN_OUTAGE = [
    pytest.param(SUSPENDED, OUTAGE, id="suspended"),
    pytest.param(a_subscription(), a_health(outage_from=NOW - HOUR, circuit=OPEN), id="circuit open"),
]


@pytest.mark.parametrize("subscription, health", IN_OUTAGE)
@pytest.mark.parametrize(
    "parcel, delivery, arrival",
    [
        (a_parcel(), None, Arrival.LEAVE_TO_OUTAGE),
        (a_parcel(archived_at=NOW - HOUR), None, Arrival.LEAVE_TO_OUTAGE),
        (a_parcel(archived_at=NOW - HOUR - TICK), None, Arrival.HOLD),
        (RETRY, DUE, Arrival.HOLD),
        (RETRY, HELD, Arrival.HOLD),
        (a_backfill_parcel(), None, Arrival.HOLD),
        (a_parcel(lane=Lane.REPLAY, replay_id="rpl_1"), None, Arrival.HOLD),
        (a_parcel(attempt=3), DUE, Arrival.DROP),
    ],
    ids=["new", "at its very start", "older", "retry", "held", "backfill", "replay", "duplicate"],
)
def test_in_an_outage_its_window_keeps_what_is_new_and_an_owed_item_all_else(
    subscription: Subscription, health: Health, parcel: Parcel, delivery: Delivery | None, arrival: Arrival
) -> None:
    judged = verdict(parcel, subscription=subscription, health=health, delivery=delivery)
    assert judged == Judged(arrival)


@pytest.mark.parametrize(
    "parcel, delivery, otherwise",
    [(a_parcel(), None, Arrival.LEAVE_TO_OUTAGE), (RETRY, DUE, Arrival.HOLD)],
)
def test_after_open_until_whoever_comes_may_try(
    parcel: Parcel, delivery: Delivery | None, otherwise: Arrival
) -> None:
    health = a_health(outage_from=NOW - HOUR, circuit=UNTRIED)
    assert verdict(parcel, health=health, delivery=delivery) == Judged(Arrival.TRIAL, otherwise=otherwise)


def test_a_trial_that_another_holds_is_not_taken() -> None:
    circuit = Circuit(open_until=NOW, trial_by="t", trial_lease_until=NOW + MINUTE)
    health = a_health(outage_from=NOW - HOUR, circuit=circuit)
    assert verdict(a_parcel(), health=health) == Judged(Arrival.LEAVE_TO_OUTAGE)


def test_no_trial_disturbs_an_endpoint_that_asked_for_quiet() -> None:
    health = a_health(outage_from=NOW - HOUR, circuit=UNTRIED, not_before=NOW + MINUTE)
    assert verdict(a_parcel(), health=health) == Judged(Arrival.LEAVE_TO_OUTAGE)


def test_a_suspended_endpoint_is_never_tried_by_a_delivery() -> None:
    health = a_health(outage_from=NOW - HOUR, circuit=UNTRIED)
    assert verdict(a_parcel(), subscription=SUSPENDED, health=health) == Judged(Arrival.LEAVE_TO_OUTAGE)


# ── a recovery's messages ────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    "parcel, lock, arrival",
    [
        (a_backfill_parcel(), a_lock(), Arrival.ATTEMPT),
        (a_backfill_parcel(at=NOW - SEND_GRACE), a_lock(), Arrival.ATTEMPT),
        (a_backfill_parcel(at=NOW - SEND_GRACE - TICK), a_lock(), Arrival.REVIEW),
        (a_backfill_parcel(), a_lock(generation=2), Arrival.REVIEW),
        (a_backfill_parcel(generation=2), a_lock(), Arrival.REVIEW),
        (a_backfill_parcel(), a_lock(a_recovery(2)), Arrival.REVIEW),
        (a_backfill_parcel(), a_lock(status=RecoveryStatus.PAUSED), Arrival.ATTEMPT),
        (a_backfill_parcel(), a_lock(status=RecoveryStatus.COMPLETED), Arrival.ATTEMPT),
        (a_backfill_parcel(), a_lock(status=RecoveryStatus.CANCELLED), Arrival.RETURN),
        (a_backfill_parcel(), a_lock(status=RecoveryStatus.STOPPED), Arrival.RETURN),
        (a_backfill_parcel(), a_lock(generation=2, status=RecoveryStatus.CANCELLED), Arrival.RETURN),
        (a_backfill_parcel(recovery_id=None, generation=None, at=None), a_lock(), Arrival.ATTEMPT),
        (a_parcel(), a_lock(status=RecoveryStatus.CANCELLED), Arrival.ATTEMPT),
    ],
    ids=[
        "its present generation",
        "as late as it may be",
        "later",
        "superseded",
        "of a generation to come",
        "another recovery",
        "paused",
        "done",
        "cancelled",
        "stopped",
        "cancelled in a later generation",
        "the sweep's own",
        "live",
    ],
)
def test_a_backfill_message_is_attempted_only_for_the_recovery_that_stands(
    parcel: Parcel, lock: Any, arrival: Arrival
) -> None:
    assert verdict(parcel, health=a_health(recovery=lock)) == Judged(arrival)


def test_a_cancelled_recovery_does_not_try_the_endpoint_either() -> None:
    lock = a_lock(status=RecoveryStatus.CANCELLED)
    health = a_health(outage_from=NOW - HOUR, circuit=UNTRIED, recovery=lock)
    assert verdict(a_backfill_parcel(), health=health) == Judged(Arrival.RETURN)


# ── quiet ────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    "not_before, arrival",
    [(NOW + TICK, Arrival.POSTPONE), (NOW, Arrival.ATTEMPT), (NOW - HOUR, Arrival.ATTEMPT)],
)
def test_nothing_is_sent_before_the_endpoint_may_be_asked_again(not_before: Any, arrival: Arrival) -> None:
    assert verdict(a_parcel(), health=a_health(not_before=not_before)) == Judged(arrival)


def test_in_an_outage_quiet_is_not_waited_for_in_a_queue() -> None:
    health = a_health(outage_from=NOW - HOUR, circuit=OPEN, not_before=NOW + MINUTE)
    assert verdict(a_parcel(), health=health) == Judged(Arrival.LEAVE_TO_OUTAGE)


@pytest.mark.parametrize("delivery, number", [(None, 1), (a_delivery(), 2), (a_delivery(attempt_count=6), 7)])
def test_the_next_number_follows_the_ledgers_count(delivery: Delivery | None, number: int) -> None:
    assert next_attempt(delivery) == number


# ── replays of what is over ──────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    "health",
    [
        a_health(recovery=a_lock(status=RecoveryStatus.CANCELLED)),
        a_health(recovery=a_lock(generation=2)),
        a_health(outage_from=NOW - HOUR, circuit=OPEN),
        a_health(not_before=NOW + HOUR, recovery=a_lock()),
    ],
    ids=["cancelled", "superseded", "circuit open", "quiet for longer than a queue can wait"],
)
def test_what_succeeded_is_never_owed_again_by_a_replay_that_is_not_made(health: Health) -> None:
    replay = a_backfill_parcel(lane=Lane.REPLAY, replay_id="rpl_1", attempt=2)
    assert verdict(replay, health=health, delivery=a_delivered()) == Judged(Arrival.DROP)


def test_a_replay_of_what_succeeded_waits_for_a_short_quiet_and_may_be_the_trial() -> None:
    replay = a_backfill_parcel(lane=Lane.REPLAY, replay_id="rpl_1", attempt=2)
    quiet = a_health(not_before=NOW + MINUTE, recovery=a_lock())
    assert verdict(replay, health=quiet, delivery=a_delivered()) == Judged(Arrival.POSTPONE)
    untried = a_health(outage_from=NOW - HOUR, circuit=UNTRIED, recovery=a_lock())
    assert verdict(replay, health=untried, delivery=a_delivered()) == Judged(
        Arrival.TRIAL, otherwise=Arrival.DROP
    )


def test_a_replay_is_known_by_its_id_and_takes_the_number_its_attempt_has_by_then() -> None:
    replay = a_parcel(attempt=2, lane=Lane.REPLAY, replay_id="rpl_2")
    retried_meanwhile = a_delivered(attempt_count=4, replays=("rpl_1",))
    assert numbered(replay, retried_meanwhile).attempt == 5
    seen = a_delivered(attempt_count=4, replays=("rpl_1", "rpl_2"))
    assert numbered(replay, seen) is replay
    plain = a_parcel(attempt=2)
    assert numbered(plain, retried_meanwhile) is plain

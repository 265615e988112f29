"""What comes back from a dead-letter queue by SQS's own redrive is judged like any other message (F23)."""

from dataclasses import replace
from datetime import timedelta

import pytest
from hookkeeper.domain.arrival import Arrival
from hookkeeper.domain.delivery import DeliveryStatus, Lane, Parcel
from hookkeeper.domain.recovery import RecoveryStatus
from hookkeeper.domain.subscription import Status
from hookkeeper.domain.tenancy import SubscriptionKey
from hookkeeper.usecases.deliver import Fate

from tests.builders import (
    HOUR,
    MINUTE,
    NOW,
    a_delivered,
    a_health,
    a_key,
    a_lock,
    a_pending_subscription,
    a_recovery,
    a_subscription,
    a_suspended_subscription,
    an_event,
)
from tests.core import Core, backfill_of

HOURS_AGO = NOW - 6 * HOUR
"""When the messages died."""


def dead_letter(core: Core, key: SubscriptionKey, number: int = 1) -> Parcel:
    return core.archived(key, an_event(number), at=HOURS_AGO)


def test_f23_of_five_dead_letters_the_active_endpoints_alone_is_sent() -> None:
    core = Core()
    subscriptions = [
        a_subscription(key=a_key(1)),
        a_suspended_subscription(key=a_key(2)),
        a_subscription(key=a_key(3), status=Status.REVOKED),
        a_pending_subscription(key=a_key(4)),
        a_subscription(key=a_key(5), event_types=("order.*",)),
    ]
    for subscription in subscriptions:
        core.subscribe(subscription, a_health(outage_from=HOURS_AGO) if not subscription.enabled else None)
    before = {key: core.health(key) for key in core.world.health}
    letters = [dead_letter(core, s.key, n) for n, s in enumerate(subscriptions, start=1)]
    delivered = core.deliver(*letters)
    assert [report.fate for report in delivered.reports] == [Fate.DONE] * 5
    assert [dict(r.headers)["hookkeeper-subscription-id"] for r in core.world.requests] == [
        a_key(1).subscription_id
    ]
    statuses = [d.status if (d := core.world.deliveries.get(p.key)) else None for p in letters]
    assert statuses == [
        DeliveryStatus.SUCCEEDED,
        None,
        DeliveryStatus.DISCARDED,
        None,
        DeliveryStatus.DISCARDED,
    ]
    unchanged = {key: health for key, health in before.items() if key != a_key(1)}
    assert {key: core.health(key) for key in unchanged} == unchanged
    assert core.world.notices == {}


def test_f23_one_whose_event_is_older_than_the_outage_is_held_for_its_recovery() -> None:
    core = Core()
    key = core.subscribe(a_suspended_subscription(), a_health(outage_from=NOW - HOUR))
    letter = dead_letter(core, key)
    assert core.deliver(letter).reports[0].arrival is Arrival.HOLD
    owed = core.world.owed_of(letter.key)
    assert owed is not None
    assert (owed.status, owed.due_at) == (DeliveryStatus.HELD, owed.expires_at)
    assert core.world.requests == []


def test_f23_one_that_was_delivered_meanwhile_is_dropped() -> None:
    core = Core()
    key = core.subscribe()
    letter = dead_letter(core, key)
    core.world.deliveries[letter.key] = a_delivered(key=letter.key)
    assert core.deliver(letter).reports[0].arrival is Arrival.DROP
    assert core.world.requests == []


def test_f23_after_a_swap_of_the_endpoint_it_goes_to_the_one_that_was_verified() -> None:
    core = Core()
    key = core.subscribe()
    letter = dead_letter(core, key)
    core.world.subscriptions[key] = replace(core.present(key), endpoint_url="https://new.example.com/in")
    core.set_health(key, epoch=2, epoch_at=NOW - HOUR)
    core.deliver(letter)
    assert [request.url for request in core.world.requests] == ["https://new.example.com/in"]


@pytest.mark.parametrize("copies", [2, 25])
def test_f23_a_letter_that_is_redriven_twice_is_sent_once(copies: int) -> None:
    core = Core()
    key = core.subscribe()
    letter = dead_letter(core, key)
    core.deliver(*[letter] * copies)
    core.later(MINUTE)
    core.deliver(letter)
    assert len(core.world.requests) == 1


def test_f23_a_dead_backfill_message_goes_back_to_owed_whoever_runs_now() -> None:
    core = Core()
    recovery = a_recovery(status=RecoveryStatus.COMPLETED)
    key = core.subscribe(health=a_health(recovery=a_lock(recovery, generation=3)))
    letter = backfill_of(dead_letter(core, key), recovery, at=HOURS_AGO)
    assert core.deliver(letter).reports[0].arrival is Arrival.REVIEW
    owed = core.world.owed_of(letter.key)
    assert owed is not None
    assert owed.due_at == NOW + timedelta(minutes=15)
    core.later(16 * MINUTE)
    core.sweep()
    (moved,) = (*core.queued(), *core.queued("backfill"))
    assert moved.lane is Lane.BACKFILL
    core.deliver(moved)
    assert core.delivery(letter.key).status is DeliveryStatus.SUCCEEDED

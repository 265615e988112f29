"""A queue of 20,000 messages for a suspended endpoint drains for nothing, and all of them come back."""

from collections import Counter
from datetime import timedelta

import pytest
from hookkeeper.domain.delivery import Parcel
from hookkeeper.domain.recovery import RecoveryStatus
from hookkeeper.domain.subscription import Status
from hookkeeper.usecases.deliver import Fate

from tests.builders import HOUR, an_event
from tests.model.product import Product

MESSAGES = 20_000
BATCH = 25


class Calls(Counter[str]):
    """Every call of every port, by name."""

    def note(self, call: str) -> None:
        self[call] += 1


@pytest.fixture(scope="module")
def drained() -> tuple[Product, Calls, list[Fate]]:
    """A subscription with all those messages queued, paused, and its queue then emptied by deliver."""
    product = Product()
    key = product.subscribe()
    events = [an_event(n) for n in range(MESSAGES)]
    product.emitted = {event.id: event for event in events}
    for start in range(0, MESSAGES, 100):
        product.core.fan_out(*events[start : start + 100])
        product.core.later(timedelta(milliseconds=20))
    product.pause(key)
    queued: list[Parcel] = [parcel for _, parcel in product.world.queues["deliveries"]]
    product.world.queues["deliveries"] = []
    calls, between = Calls(), product.world.before_call
    product.world.before_call = calls.note
    fates: list[Fate] = []
    for start in range(0, len(queued), BATCH):
        fates += [report.fate for report in product.core.deliver(*queued[start : start + BATCH]).reports]
    product.world.before_call = between
    return product, calls, fates


def test_twenty_thousand_messages_of_a_suspended_endpoint_cost_one_read_a_batch_and_nothing_else(
    drained: tuple[Product, Calls, list[Fate]],
) -> None:
    product, calls, fates = drained
    assert fates == [Fate.DONE] * MESSAGES
    assert calls == {"Ledger.read_batch": MESSAGES // BATCH}
    assert product.world.requests == []
    assert product.world.deliveries == {}
    assert product.world.owed == {}


def test_all_twenty_thousand_come_back_by_the_recovery(drained: tuple[Product, Calls, list[Fate]]) -> None:
    product, _, _ = drained
    (key,) = product.world.subscriptions
    product.reenable(key)
    product.run(HOUR)
    assert product.present(key).status is Status.ACTIVE
    accepted = product.endpoint(key).accepted
    assert set(accepted) == set(product.emitted)
    assert set(accepted.values()) == {1}
    assert product.world.owed == {}
    (recovery,) = product.world.recoveries.values()
    assert (recovery.status, recovery.sent, recovery.succeeded) == (
        RecoveryStatus.COMPLETED,
        MESSAGES,
        MESSAGES,
    )

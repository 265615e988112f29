"""Deliveries are found in order, each once, and no further than was asked."""

from dataclasses import replace
from datetime import datetime
from typing import Any

import pytest
from hookkeeper.domain.delivery import Delivery, DeliveryStatus
from hookkeeper.domain.errors import NotFoundError
from hookkeeper.domain.recovery import Cursor
from hookkeeper.domain.tenancy import Scope
from hookkeeper.usecases.deliveries import (
    MOST_EXAMINED,
    DeliveryPage,
    deliveries_of_event,
    get_delivery,
    list_deliveries,
)

from tests.builders import (
    HOUR,
    MINUTE,
    NOW,
    a_delivered,
    a_delivery,
    a_delivery_key,
    a_key,
    a_scope,
    a_subscription,
    an_event,
    an_owed,
)
from tests.fakes import FakeArchive, FakeLedger, FakeSubscriptions, World


def a_world() -> World:
    world = World()
    world.add(a_subscription())
    return world


def archived(world: World, number: int, at: datetime) -> None:
    FakeArchive(world).put([an_event(number)], now=at)


def delivered(world: World, number: int, at: datetime, **changes: Any) -> Delivery:
    archived(world, number, at)
    record = a_delivered(key=a_delivery_key(number), archived_at=at, **changes)
    world.deliveries[record.key] = record
    return record


def held(world: World, number: int, at: datetime, status: DeliveryStatus = DeliveryStatus.HELD) -> None:
    archived(world, number, at)
    key = a_delivery_key(number)
    world.deliveries[key] = a_delivery(key=key, archived_at=at, status=status)
    world.owed[key, at] = an_owed(key=key, archived_at=at, status=status)


def listed(world: World, **changes: Any) -> DeliveryPage:
    given: dict[str, Any] = {
        "since": NOW - 24 * HOUR,
        "limit": 100,
        "subscriptions": FakeSubscriptions(world),
        "ledger": FakeLedger(world),
        "archive": FakeArchive(world),
    }
    return list_deliveries(a_key(), **(given | changes))


def numbers(page: DeliveryPage) -> list[int]:
    return [int(delivery.key.event_id[-4:]) for delivery in page.deliveries]


def walked(world: World, **changes: Any) -> list[int]:
    found: list[int] = []
    after: Cursor | None = None
    while True:
        page = listed(world, after=after, **changes)
        found += numbers(page)
        after = page.next_after
        if after is None:
            return found


@pytest.mark.parametrize("limit", [1, 2, 3, 7, 100])
def test_every_page_goes_on_where_the_one_before_ended(limit: int) -> None:
    world = a_world()
    for n in range(1, 8):
        delivered(world, n, NOW + n * MINUTE)
    held(world, 8, NOW)
    assert walked(world, limit=limit) == [7, 6, 5, 4, 3, 2, 1, 8]
    assert listed(world, limit=8).next_after is None


@pytest.mark.parametrize("limit", [1, 2, 100])
def test_what_is_owed_comes_oldest_first_by_its_status(limit: int) -> None:
    world = a_world()
    for n in (1, 2, 3):
        held(world, n, NOW + n * MINUTE)
    held(world, 4, NOW, DeliveryStatus.EXHAUSTED)
    delivered(world, 5, NOW)
    assert walked(world, limit=limit, status=DeliveryStatus.HELD) == [1, 2, 3]
    assert walked(world, limit=limit, status=DeliveryStatus.EXHAUSTED) == [4]
    assert walked(world, limit=limit, status=DeliveryStatus.RETRYING) == []
    assert walked(world, limit=limit, status=DeliveryStatus.SUCCEEDED) == [5]


@pytest.mark.parametrize("status", [None, DeliveryStatus.HELD])
def test_both_bounds_are_inside(status: DeliveryStatus | None) -> None:
    world = a_world()
    for n in range(1, 6):
        held(world, n, NOW + n * MINUTE)
    page = listed(world, status=status, since=NOW + 2 * MINUTE, until=NOW + 4 * MINUTE)
    assert sorted(numbers(page)) == [2, 3, 4]


def test_an_event_that_was_archived_twice_is_one_delivery() -> None:
    world = a_world()
    delivered(world, 1, NOW)
    archived(world, 1, NOW + HOUR)
    assert walked(world) == [1]


def test_events_that_are_not_this_subscriptions_are_not_listed_and_a_sparse_page_goes_on() -> None:
    world = a_world()
    delivered(world, 1, NOW)
    FakeArchive(world).put([an_event(n) for n in range(100, 100 + MOST_EXAMINED)], now=NOW + HOUR)
    page = listed(world, limit=5)
    assert numbers(page) == []
    assert page.next_after is not None
    assert walked(world, limit=5) == [1]


def test_nothing_is_listed_of_a_subscription_that_is_not_there() -> None:
    with pytest.raises(NotFoundError):
        listed(World())


@pytest.mark.parametrize(
    "delivery_id", ["", "dlv_", "dlv_a", "dlv_a.b.c", "sub_1.evt_1", "dlv_a#b.c", "dlv_1.é"]
)
def test_what_cannot_be_an_id_is_not_found(delivery_id: str) -> None:
    with pytest.raises(NotFoundError):
        found(a_scope(), delivery_id, World())


def found(scope: Scope, delivery_id: str, world: World) -> Delivery:
    ports: dict[str, Any] = {"subscriptions": FakeSubscriptions(world), "ledger": FakeLedger(world)}
    return get_delivery(scope, delivery_id, **ports)


def test_a_delivery_is_found_within_its_own_tenant_alone() -> None:
    world = a_world()
    record = delivered(world, 1, NOW)
    assert found(a_scope(), record.key.delivery_id, world) == record
    with pytest.raises(NotFoundError):
        found(a_scope("beta"), record.key.delivery_id, world)


def test_an_events_deliveries_are_gathered_over_the_subscriptions() -> None:
    world = World()
    for n in range(1, 4):
        key = world.add(a_subscription(key=a_key(n)))
        if n != 2:
            record = a_delivered(key=replace(a_delivery_key(1), subscription=key))
            world.deliveries[record.key] = record
    ports: dict[str, Any] = {"subscriptions": FakeSubscriptions(world), "ledger": FakeLedger(world)}
    event_id = a_delivery_key(1).event_id
    found = deliveries_of_event(a_scope(), event_id, most=100, **ports)
    assert sorted(d.key.subscription for d in found) == [a_key(1), a_key(3)]
    assert len(deliveries_of_event(a_scope(), event_id, most=1, **ports)) == 1

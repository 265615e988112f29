"""`explain` says in one call where an event is, and which clause kept it away."""

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from hookkeeper.domain.circuit import Circuit
from hookkeeper.domain.config import Margins, RuntimeConfig
from hookkeeper.domain.delivery import DeliveryStatus
from hookkeeper.domain.errors import NotFoundError
from hookkeeper.domain.health import Health
from hookkeeper.domain.recovery import RETENTION, Cursor, Window
from hookkeeper.domain.subscription import FilterChange, Status, Subscription
from hookkeeper.usecases.explain import Explanation, Waits, explain

from tests.builders import (
    HOUR,
    MINUTE,
    NOW,
    a_delivered,
    a_delivery,
    a_health,
    a_key,
    a_lock,
    a_subscription,
    a_suspended_subscription,
    an_attempt,
    an_audit_record,
    an_event,
    an_event_item,
    an_owed,
)
from tests.fakes import FakeAudit, FakeConsents, FakeEventItems, FakeLedger, FakeSubscriptions, World

EVENT = an_event().id


def a_world(
    subscription: Subscription | None = None,
    health: Health | None = None,
    *,
    routed: bool = True,
    **item: Any,
) -> World:
    world = World()
    world.add(subscription or a_subscription(), health)
    if routed:
        event = an_event_item(**({"matches": 1} | item))
        world.event_items[event.scope, event.id] = event
    return world


def explained(world: World, event_id: str = EVENT, *, now: Any = NOW) -> Explanation:
    return explain(
        a_key(),
        event_id,
        now=now,
        config=RuntimeConfig(),
        subscriptions=FakeSubscriptions(world),
        events=FakeEventItems(world),
        ledger=FakeLedger(world),
        audit=FakeAudit(world),
        consents=FakeConsents(world),
        margins=Margins(),
    )


def with_delivery(world: World, status: DeliveryStatus, **owed: Any) -> World:
    record = a_delivery(status=status)
    world.deliveries[record.key] = record
    world.owed[record.key, NOW] = an_owed(status=status, **owed)
    return world


@pytest.mark.parametrize("event_id", [EVENT, "evt.1", "", "é", "a#b"])
def test_what_was_not_archived_says_so(event_id: str) -> None:
    told = explained(a_world(routed=False), event_id)
    assert [(f.step, f.ok) for f in told.findings] == [("archived", False)]
    assert told.waits_for is Waits.NOTHING


def test_a_subscription_that_is_not_there_is_not_found() -> None:
    with pytest.raises(NotFoundError):
        explained(World())


@pytest.mark.parametrize(
    "subscription,clause",
    [
        (a_subscription(resource_id="shop_7"), "resource: "),
        (a_subscription(event_types=("customer.*",)), "type: invoice.paid matches none"),
        (a_subscription(first_active_at=None, status=Status.PENDING), "status: it has never been active"),
        (a_subscription(first_active_at=NOW + MINUTE), "status: its first activation"),
    ],
)
def test_the_clause_that_failed_is_named(subscription: Subscription, clause: str) -> None:
    told = explained(a_world(subscription))
    assert [(f.step, f.ok) for f in told.findings] == [("archived", True), ("matched", False)]
    assert told.summary.startswith(clause)
    assert told.waits_for is Waits.NOTHING


def test_a_filter_that_came_later_is_named() -> None:
    world = a_world()
    world.filters[a_key()] = {
        at: FilterChange(at=at, event_types=types)
        for at, types in ((NOW - HOUR, ("a",)), (NOW + MINUTE, ("*",)))
    }
    assert explained(world).summary == "type: the event types in force when it was archived did not match"


def test_the_status_then_in_force_is_told() -> None:
    world = a_world()
    for n, at, status in ((1, NOW - HOUR, "suspended"), (2, NOW + HOUR, "active")):
        record = an_audit_record(n, at=at, after={"status": status})
        world.audit[record.scope, record.subject, record.id] = record
    assert explained(world).findings[1].detail == "matched by *; the subscription was suspended then"


def test_each_attempt_is_told_in_order() -> None:
    world = a_world()
    record = a_delivered(
        attempts=(
            an_attempt(1, status_code=None, error="timeout", latency_ms=15000),
            an_attempt(2, status_code=500, error="http_500"),
            an_attempt(3, status_code=204),
        )
    )
    world.deliveries[record.key] = record
    told = explained(world)
    assert [(f.step, f.ok, f.detail) for f in told.findings[2:]] == [
        ("attempt", False, "attempt 1, live: timeout after 15000 ms"),
        ("attempt", False, "attempt 2, live: HTTP 500 after 80 ms"),
        ("attempt", True, "attempt 3, live: HTTP 204 after 80 ms"),
        ("now", True, "succeeded"),
    ]


SUSPENDED = a_suspended_subscription()
OPEN = a_health(circuit=Circuit(open_until=NOW + MINUTE), outage_from=NOW - HOUR)


@pytest.mark.parametrize(
    "world,waits,until",
    [
        (a_world(), Waits.QUEUE, None),
        (a_world(SUSPENDED), Waits.SUSPENSION, None),
        (a_world(None, OPEN), Waits.CIRCUIT, NOW + MINUTE),
        (a_world(None, a_health(not_before=NOW + MINUTE)), Waits.RETRY, NOW + MINUTE),
        (with_delivery(a_world(), DeliveryStatus.RETRYING), Waits.RETRY, NOW + timedelta(seconds=5)),
        (with_delivery(a_world(SUSPENDED), DeliveryStatus.RETRYING), Waits.SUSPENSION, None),
        (with_delivery(a_world(None, OPEN), DeliveryStatus.HELD), Waits.CIRCUIT, NOW + MINUTE),
        (with_delivery(a_world(), DeliveryStatus.HELD), Waits.RECOVERY, None),
        (
            with_delivery(a_world(), DeliveryStatus.EXHAUSTED, due_at=NOW + HOUR),
            Waits.RECOVERY,
            NOW + HOUR,
        ),
        (
            with_delivery(a_world(), DeliveryStatus.EXHAUSTED, automatic_left=False),
            Waits.PERSON,
            NOW + RETENTION,
        ),
        (with_delivery(a_world(SUSPENDED), DeliveryStatus.EXHAUSTED), Waits.SUSPENSION, None),
        (with_delivery(a_world(), DeliveryStatus.DISCARDED), Waits.NOTHING, None),
        (with_delivery(a_world(), DeliveryStatus.EXPIRED), Waits.NOTHING, None),
        (a_world(a_subscription(status=Status.REVOKED)), Waits.NOTHING, None),
    ],
)
def test_what_it_waits_for_and_until_when(world: World, waits: Waits, until: Any) -> None:
    told = explained(world)
    assert (told.waits_for, told.until) == (waits, until)
    assert told.findings[-1].step == "now"
    assert not told.findings[-1].ok


@pytest.mark.parametrize(
    "cursor,waits",
    [
        (None, Waits.RECOVERY),
        (Cursor(NOW - MINUTE, "evt_0"), Waits.RECOVERY),
        (Cursor(NOW + MINUTE, "evt_9"), Waits.QUEUE),
    ],
)
def test_an_outages_window_owes_it_until_it_was_read(cursor: Cursor | None, waits: Waits) -> None:
    window = Window(start=NOW - HOUR, end=NOW + HOUR, cursor=cursor)
    assert explained(a_world(None, a_health(recovery=a_lock(windows=(window,))))).waits_for is waits


def test_what_outlived_retention_is_expired() -> None:
    world = with_delivery(a_world(), DeliveryStatus.HELD)
    assert explained(world, now=NOW + RETENTION - MINUTE).waits_for is Waits.RECOVERY
    told = explained(world, now=NOW + RETENTION)
    assert told.summary.startswith("expired")
    assert told.waits_for is Waits.NOTHING


def test_a_delivery_that_the_filter_dropped_later_still_tells_its_attempts() -> None:
    world = a_world(replace(a_subscription(), event_types=("other",)))
    record = a_delivered()
    world.deliveries[record.key] = record
    assert [f.step for f in explained(world).findings] == ["archived", "matched", "attempt", "now"]

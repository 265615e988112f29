"""Consent withdrawn is nothing handed over, at once and for good; granted again, it starts afresh."""

from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

import pytest
from hookkeeper.domain.config import Margins, RuntimeConfig
from hookkeeper.domain.consent import Consent
from hookkeeper.domain.delivery import DeliveryStatus
from hookkeeper.domain.errors import InvalidInputError, NotAllowedError, NotFoundError
from hookkeeper.domain.notice import NoticeKind
from hookkeeper.domain.subscription import DisabledReason, Status
from hookkeeper.domain.tenancy import DeliveryKey, SubscriptionKey
from hookkeeper.usecases.consent import grant, withdraw
from hookkeeper.usecases.deliveries import OWED, get_delivery, list_deliveries, still_owed
from hookkeeper.usecases.reenable import reenable

from tests.builders import (
    ACTOR,
    HOUR,
    MINUTE,
    NOW,
    a_key,
    a_pending_subscription,
    a_scope,
    a_subscription,
    a_suspended_subscription,
)
from tests.fakes import (
    FakeArchive,
    FakeConsents,
    FakeIds,
    FakeLedger,
    FakeSubscriptions,
    FakeWorkflow,
    World,
)
from tests.model.product import DOWN, WELL, Product

APP = "erp"
DAY_AGO = NOW - 24 * HOUR


def given(world: World, *patterns: str, now: datetime = DAY_AGO) -> Consent:
    return grant(
        a_scope(),
        APP,
        patterns or ["*"],
        granted_by="ada",
        actor=ACTOR,
        now=now,
        consents=FakeConsents(world),
        ids=FakeIds(world),
    )


def taken_back(world: World, *, now: datetime = NOW) -> Consent:
    return withdraw(
        a_scope(),
        APP,
        actor=ACTOR,
        now=now,
        margins=Margins(),
        consents=FakeConsents(world),
        subscriptions=FakeSubscriptions(world),
        ids=FakeIds(world),
    )


def test_grant_and_withdrawal_say_in_the_audit_who_what_and_when() -> None:
    world = World()
    given(world, "a.*")
    taken_back(world)
    first, second = sorted(world.audit.values(), key=lambda record: record.id)
    assert (first.action, first.subject, first.actor) == ("consent.granted", "consent:erp", ACTOR)
    assert (first.before, first.after, first.detail) == ({}, {"event_types": "a.*"}, "ada")
    assert (second.action, second.before, second.after) == ("consent.withdrawn", {"event_types": "a.*"}, {})


def test_what_cannot_be_granted() -> None:
    world = World()
    with pytest.raises(InvalidInputError):
        given(world, "a..b")
    with pytest.raises(InvalidInputError):
        grant(
            a_scope(),
            "a#b",
            ["*"],
            granted_by="",
            actor=ACTOR,
            now=NOW,
            consents=FakeConsents(world),
            ids=FakeIds(world),
        )
    with pytest.raises(NotFoundError):
        taken_back(world)


def test_withdrawal_suspends_the_application_s_own_at_once_and_no_others() -> None:
    world = World()
    given(world)
    kinds: dict[str, Any] = {
        "active": a_subscription(key=a_key(1), application_id=APP),
        "pending": a_pending_subscription(key=a_key(2), application_id=APP),
        "suspended": a_suspended_subscription(key=a_key(3), application_id=APP),
        "tenant's": a_subscription(key=a_key(4)),
        "another's": a_subscription(key=a_key(5), application_id="other"),
    }
    keys = {kind: world.add(subscription) for kind, subscription in kinds.items()}
    present = {kind: lambda key=key: world.subscriptions[key] for kind, key in keys.items()}
    taken_back(world)
    for kind in ("active", "suspended"):
        told = present[kind]()
        assert (told.status, told.disabled_reason) == (Status.SUSPENDED, DisabledReason.CONSENT_WITHDRAWN), (
            kind
        )
        assert told.status_reason == "consent_withdrawn"
    assert present["pending"]().status is Status.REVOKED
    assert present["tenant's"]().status is present["another's"]().status is Status.ACTIVE
    (notice,) = world.notices_of(NoticeKind.CONSENT_WITHDRAWN)
    assert notice.key == keys["active"]
    assert world.health[keys["active"]].outage_from == NOW - Margins().outage


def test_withdrawal_may_be_made_again_and_finishes_what_a_crash_left() -> None:
    world = World()
    given(world)
    world.add(a_subscription(application_id=APP))

    def die(call: str) -> None:
        if call == "Subscriptions.transition":
            raise ConnectionError

    world.before_call = die
    with pytest.raises(ConnectionError):
        taken_back(world)
    world.before_call = None
    assert not world.consents[a_scope(), APP].in_force, "no delivery is made from here on"
    assert world.subscriptions[a_key()].status is Status.ACTIVE
    taken_back(world)
    taken_back(world)
    assert world.subscriptions[a_key()].status is Status.SUSPENDED
    assert len(world.notices_of(NoticeKind.CONSENT_WITHDRAWN)) == 1


def test_without_consent_nobody_re_enables_it() -> None:
    world = World()
    given(world)
    world.add(a_subscription(application_id=APP))
    taken_back(world)

    def ask() -> None:
        reenable(
            a_key(),
            actor=ACTOR,
            now=NOW + HOUR,
            config=RuntimeConfig(),
            subscriptions=FakeSubscriptions(world),
            consents=FakeConsents(world),
            workflow=FakeWorkflow(world),
        )

    with pytest.raises(NotAllowedError):
        ask()
    given(world, now=NOW + HOUR)
    ask()
    assert world.executions


# ── at delivery ──────────────────────────────────────────────────────────────────────────────────


def a_product(*patterns: str) -> tuple[Product, SubscriptionKey]:
    product = Product()
    given(product.world, *patterns)
    return product, product.subscribe(application_id=APP)


def test_an_application_receives_what_was_granted_alone() -> None:
    product, key = a_product("orders.*")
    wanted = product.emit("orders.made")
    product.emit("invoice.paid")
    product.run(MINUTE)
    assert set(+product.endpoint(key).accepted) == {wanted.id}


def test_t43_consent_withdrawn_with_100_deliveries_queued_is_no_request_more() -> None:
    product, key = a_product()
    for _ in range(100):
        product.emit()
    product.fan_out(100)
    assert len(product.world.queues["deliveries"]) == 100
    taken_back(product.world, now=product.now)
    product.run(HOUR)
    assert product.endpoint(key).received == []
    assert {d.status for d in product.world.deliveries.values()} == {DeliveryStatus.DISCARDED}
    assert product.world.owed == {}


def test_t43_the_record_alone_stops_deliveries_while_the_subscription_is_still_active() -> None:
    product, key = a_product()
    product.emit()
    product.fan_out()
    place = (a_scope(), APP)
    product.world.consents[place] = replace(product.world.consents[place], withdrawn_at=product.now)
    product.run(MINUTE)
    assert product.present(key).status is Status.ACTIVE
    assert product.endpoint(key).received == []


def test_a_later_grant_hands_over_nothing_from_before_it() -> None:
    product, key = a_product()
    product.endpoint(key).answer = lambda _: DOWN
    for _ in range(6):
        product.emit()
        product.run(20 * timedelta(seconds=1))
    assert product.world.owed, "retries are owed"
    taken_back(product.world, now=product.now)
    product.emit()
    product.run(10 * MINUTE)
    product.emit()
    given(product.world, now=product.now)
    product.endpoint(key).answer = lambda _: WELL
    product.endpoint(key).received.clear()
    product.reenable(key)
    product.run(HOUR)
    assert product.present(key).status is Status.ACTIVE
    assert product.endpoint(key).received == []
    fresh = product.emit()
    product.run(HOUR)
    assert set(+product.endpoint(key).accepted) == {fresh.id}
    assert product.world.owed == {}


def told_as_owed(product: Product, key: SubscriptionKey) -> list[str]:
    """Ids of what anyone is shown as owed, by count and by each list."""
    world, subscription = product.world, product.present(key)
    counted = still_owed(subscription, limit=100, ledger=FakeLedger(world))
    lists = [
        list_deliveries(
            key,
            status=status,
            since=DAY_AGO,
            limit=100,
            subscriptions=FakeSubscriptions(world),
            ledger=FakeLedger(world),
            archive=FakeArchive(world),
        ).deliveries
        for status in (None, *sorted(OWED))
    ]
    shown = [each.key.event_id for listed in lists for each in listed if each.status in OWED]
    return sorted({item.key.event_id for item in counted} | set(shown))


def test_nothing_is_shown_as_owed_from_the_withdrawal_on_though_its_items_are_there_yet() -> None:
    product, key = a_product()
    product.endpoint(key).answer = lambda _: DOWN
    events = [product.emit().id for _ in range(3)]
    product.run(20 * timedelta(seconds=1))
    assert told_as_owed(product, key) == sorted(events)
    taken_back(product.world, now=product.now)
    assert product.world.owed, "nobody has come by yet to discard them"
    assert told_as_owed(product, key) == []
    delivery_id = DeliveryKey(key, events[0]).delivery_id
    seen = get_delivery(
        key.scope,
        delivery_id,
        subscriptions=FakeSubscriptions(product.world),
        ledger=FakeLedger(product.world),
    )
    assert (seen.status, seen.next_attempt_at) == (DeliveryStatus.DISCARDED, None)
    (held,) = [item for item in product.world.owed.values() if item.status is DeliveryStatus.HELD]
    product.run(HOUR)
    assert list(product.world.owed.values()) == [held], "the sweep comes by when it is due"
    product.world.now = held.due_at
    product.run(MINUTE)
    assert product.world.owed == {}
    assert {each.status for each in product.world.deliveries.values()} == {DeliveryStatus.DISCARDED}


def test_a_later_grant_brings_back_no_count_of_what_was_owed_before() -> None:
    product, key = a_product()
    product.endpoint(key).answer = lambda _: DOWN
    for _ in range(3):
        product.emit()
    product.run(20 * timedelta(seconds=1))
    taken_back(product.world, now=product.now)
    given(product.world, now=product.now)
    product.endpoint(key).answer = lambda _: WELL
    before = dict(product.world.owed)
    product.reenable(key)
    product.run(MINUTE)
    assert product.present(key).status is Status.ACTIVE
    product.world.owed |= before
    assert told_as_owed(product, key) == []

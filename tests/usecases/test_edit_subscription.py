"""An edit changes what it names, over the version that was read, and forgets nothing that is owed."""

from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

import pytest
from hookkeeper.domain.config import Margins, RuntimeConfig
from hookkeeper.domain.errors import (
    ConflictError,
    IllegalTransitionError,
    InvalidInputError,
    NotFoundError,
    StaleVersionError,
)
from hookkeeper.domain.subscription import Status, matched_since
from hookkeeper.usecases.edit_subscription import (
    Changes,
    Edited,
    edit_subscription,
    set_maintenance,
)
from hookkeeper.usecases.guarded_edit import TRIES

from tests.builders import ACTOR, HOUR, NOW, a_key, a_pending_subscription, a_profile, a_subscription
from tests.fakes import FakeIds, FakeSubscriptions, World

SECOND = timedelta(seconds=1)


def edited(world: World, *, version: int | None = None, now: datetime = NOW, **changes: Any) -> Edited:
    return edit_subscription(
        a_key(),
        Changes(**changes),
        version=version,
        actor=ACTOR,
        now=now,
        margins=Margins(),
        config=RuntimeConfig(),
        subscriptions=FakeSubscriptions(world),
        ids=FakeIds(world),
    )


def a_world(**changes: Any) -> World:
    world = World()
    world.add(a_subscription(**({"event_types": ("a",)} | changes)))
    return world


def owed(world: World, event_type: str, *, archived_at: datetime) -> bool:
    return matched_since(
        world.subscriptions[a_key()],
        FakeSubscriptions(world).filters(a_key()),
        event_type=event_type,
        resource_id=None,
        archived_at=archived_at,
    )


def test_a_new_pattern_is_in_force_once_every_routing_cache_has_seen_it() -> None:
    world = a_world()
    in_force = edited(world, event_types=["a", "b"]).event_types_in_force_at
    assert in_force == NOW + 10 * SECOND
    assert not owed(world, "b", archived_at=NOW + 9 * SECOND)
    assert owed(world, "b", archived_at=in_force)
    assert owed(world, "a", archived_at=NOW - HOUR)


def test_what_a_narrowing_dropped_is_not_owed_even_if_it_comes_back() -> None:
    world = a_world(event_types=("a", "b"))
    assert edited(world, event_types=["a"]).event_types_in_force_at == NOW
    edited(world, event_types=["a", "b"], now=NOW + HOUR)
    assert not owed(world, "b", archived_at=NOW - HOUR)
    assert not owed(world, "b", archived_at=NOW + HOUR)
    assert owed(world, "b", archived_at=NOW + HOUR + 10 * SECOND)
    assert owed(world, "a", archived_at=NOW - HOUR)


def test_a_narrowing_right_after_a_widening_does_not_stand_before_it() -> None:
    world = a_world()
    wide = edited(world, event_types=["a", "b"]).event_types_in_force_at
    narrow = edited(world, event_types=["a"], now=NOW + SECOND).event_types_in_force_at
    assert wide is not None
    assert narrow is not None
    assert narrow > wide
    edited(world, event_types=["a", "b"], now=NOW + HOUR)
    assert not owed(world, "b", archived_at=NOW + 30 * SECOND)


def test_a_pending_subscription_has_no_history_to_keep() -> None:
    world = World()
    world.add(a_pending_subscription(event_types=("a",)))
    assert edited(world, event_types=["b"]).event_types_in_force_at is None
    assert not any(world.filters.values())


def test_the_version_that_was_read_must_still_stand() -> None:
    world = a_world(version=7)
    for stale in (6, 8):
        with pytest.raises(StaleVersionError) as caught:
            edited(world, version=stale, description="x")
        assert caught.value.version == 7
    assert edited(world, version=7, description="x").subscription.version == 8


def test_an_edit_that_loses_the_race_is_stale() -> None:
    world = a_world()

    def another(call: str) -> None:
        if call == "Subscriptions.edit":
            stored = world.subscriptions[a_key()]
            world.subscriptions[a_key()] = replace(stored, version=stored.version + 1)

    world.before_call = another
    with pytest.raises(StaleVersionError):
        edited(world, version=1, description="x")
    assert world.profiles[a_key()] == a_profile()


def test_an_edit_that_changes_nothing_writes_nothing() -> None:
    world = a_world()
    assert edited(world, event_types=["a"], description="orders").subscription.version == 1
    assert not world.audit


def test_the_audit_tells_what_changed_and_no_headers_value() -> None:
    world = a_world(headers={"x-a": "t0p"})
    edited(world, headers={"x-b": "s3cret"}, owner_email="new@customer.example", policy="patient")
    (record,) = world.audit.values()
    assert record.action == "subscription.edited"
    assert record.before == {
        "headers": "x-a",
        "owner_email": "owner@customer.example",
        "policy": "graded",
    }
    assert record.after == {
        "headers": "x-a, x-b",
        "owner_email": "new@customer.example",
        "policy": "patient",
    }
    assert "t0p" not in repr(record)
    assert "s3cret" not in repr(record)


@pytest.mark.parametrize(
    "changes",
    [
        {"event_types": ["a..b"]},
        {"event_types": []},
        {"owner_email": "x"},
        {"headers": {"host": "x"}},
        {"metadata": {"a": "x" * 501}},
        {"policy": "x"},
        {"timeout_seconds": 0},
        {"description": "x" * 501},
    ],
)
def test_an_edit_is_held_to_the_rules_of_creating(changes: dict[str, Any]) -> None:
    world = a_world()
    with pytest.raises(InvalidInputError):
        edited(world, **changes)
    assert world.subscriptions[a_key()].version == 1


def test_what_is_revoked_or_not_there_is_not_edited() -> None:
    with pytest.raises(IllegalTransitionError):
        edited(a_world(status=Status.REVOKED), description="x")
    with pytest.raises(NotFoundError):
        edited(World(), description="x")


def test_an_edit_never_changes_the_status_or_defeats_a_transition() -> None:
    world = a_world(status=Status.SUSPENDED)
    assert edited(world, description="x").subscription.status is Status.SUSPENDED


def test_maintenance_is_set_over_whatever_comes_between_but_not_for_ever() -> None:
    world = a_world()
    ports: dict[str, Any] = {"subscriptions": FakeSubscriptions(world), "ids": FakeIds(world)}
    races = [0]

    def another(call: str) -> None:
        if call == "Subscriptions.edit" and races[0]:
            races[0] -= 1
            stored = world.subscriptions[a_key()]
            world.subscriptions[a_key()] = replace(stored, version=stored.version + 1)

    world.before_call = another
    races[0] = TRIES - 1
    assert set_maintenance(a_key(), NOW + HOUR, actor=ACTOR, now=NOW, **ports).maintenance_until == NOW + HOUR
    races[0] = TRIES
    with pytest.raises(ConflictError):
        set_maintenance(a_key(), None, actor=ACTOR, now=NOW, **ports)

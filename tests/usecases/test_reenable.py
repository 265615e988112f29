"""A re-enablement is started once, answered with the one that runs, and never in the way of its successor."""

from dataclasses import replace
from typing import Any

import pytest
from hookkeeper.domain.config import RuntimeConfig
from hookkeeper.domain.errors import IllegalTransitionError, NotFoundError
from hookkeeper.domain.recovery import RecoveryKind, RecoveryStatus
from hookkeeper.domain.subscription import Status
from hookkeeper.usecases.reenable import Reenabling, reenable

from tests.builders import (
    ACTOR,
    HOUR,
    NOW,
    a_health,
    a_key,
    a_lock,
    a_recovery,
    a_subscription,
    a_suspended_subscription,
)
from tests.fakes import FakeConsents, FakeSubscriptions, FakeWorkflow, World


def a_world(**health: Any) -> World:
    world = World()
    world.add(a_suspended_subscription(), a_health(**health))
    return world


def asked(world: World, **changes: Any) -> Reenabling:
    given: dict[str, Any] = {
        "actor": ACTOR,
        "now": NOW,
        "config": RuntimeConfig(),
        "subscriptions": FakeSubscriptions(world),
        "consents": FakeConsents(world),
        "workflow": FakeWorkflow(world),
    }
    return reenable(a_key(), **(given | changes))


def test_the_execution_is_told_what_was_asked_and_by_whom() -> None:
    world = a_world()
    asked(world, probe=False, backfill=False, rate=7.5)
    ((key, options),) = world.executions.values()
    assert key == a_key()
    assert options == {
        "kind": "reenable",
        "probe": False,
        "backfill": False,
        "rate": 7.5,
        "actor": ACTOR.id,
        "source_ip": ACTOR.source_ip,
    }


@pytest.mark.parametrize("policy,probed", [("graded", True), ("strict", False), ("patient", True)])
def test_the_policy_says_whether_to_probe_unless_the_owner_does(policy: str, *, probed: bool) -> None:
    world = World()
    world.add(a_suspended_subscription(policy=policy))
    assert asked(world).probe is probed
    assert asked(world, probe=not probed).probe is not probed


def test_two_clicks_are_one_execution_and_a_try_after_a_failed_probe_is_another() -> None:
    world = a_world()
    asked(world)
    asked(world)
    assert len(world.executions) == 1
    failed = a_lock(a_recovery(status=RecoveryStatus.PROBE_FAILED), version=2, lease_until=None)
    world.health[a_key()] = a_health(recovery=failed)
    assert asked(world).recovery_id is None
    assert len(world.executions) == 2
    asked(world, now=NOW + HOUR)
    assert len(world.executions) == 3, "an execution that died before its lock must not be in the way"
    assert all(len(name) <= 80 for name in world.executions)


def test_the_one_that_runs_is_the_answer() -> None:
    lock = a_lock(a_recovery(status=RecoveryStatus.PROBING))
    world = a_world(recovery=lock)
    assert asked(world).recovery_id == a_recovery().id
    assert not world.executions


@pytest.mark.parametrize("change", [{"kind": RecoveryKind.AUTOMATIC}, {"lease_until": NOW}])
def test_an_automatic_or_a_dead_recovery_is_taken_over(change: dict[str, Any]) -> None:
    world = a_world(recovery=replace(a_lock(), **change))
    assert asked(world).recovery_id is None
    assert len(world.executions) == 1


@pytest.mark.parametrize("status", [Status.PENDING, Status.ACTIVE, Status.REVOKED])
def test_only_what_is_suspended_is_reenabled(status: Status) -> None:
    world = World()
    world.add(a_subscription(status=status))
    with pytest.raises(IllegalTransitionError):
        asked(world)
    assert not world.executions
    with pytest.raises(NotFoundError):
        asked(World())

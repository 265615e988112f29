"""Before a document is put in force, an operator sees whom it would suspend."""

from datetime import timedelta
from typing import Any

import pytest
from hookkeeper.domain.config import RuntimeConfig
from hookkeeper.domain.health import Streak
from hookkeeper.domain.outcome import Outcome
from hookkeeper.domain.tenancy import Mode
from hookkeeper.runtime_document import RuntimeDocument
from hookkeeper.usecases.preview import WouldSuspend, preview

from tests.builders import NOW, a_health, a_key, a_scope, a_subscription, a_suspended_subscription, a_tenant
from tests.core import Core
from tests.fakes import FakeAccess

HOUR = timedelta(hours=1)


def row(count: int, hours: float) -> dict[str, Any]:
    limits = {"retryable": {"count": count, "age_seconds": hours * 3600}}
    return {"presets": {"graded": {"limits": limits}}}


def failing(core: Core, number: int, *, count: int, hours: float, **changes: Any) -> None:
    scope = changes.pop("scope", a_scope())
    key, began = a_key(number, scope), NOW - hours * HOUR
    core.subscribe(
        a_subscription(key=key, endpoint_url=f"https://h{number}.example.com/", **changes),
        a_health(
            key=key,
            streaks={Outcome.RETRYABLE: Streak(count, began)},
            consecutive_failures=count,
            first_failure_at=began,
            last_attempt_at=NOW,
        ),
    )


@pytest.fixture
def core() -> Core:
    core = Core()
    FakeAccess(core.world).create_tenant(a_tenant("acme"))
    return core


def previewed(
    core: Core, document: dict[str, Any], present: dict[str, Any] | None = None
) -> list[WouldSuspend]:
    configs = [RuntimeDocument.model_validate(each).config() for each in (document, present or {})]
    return list(
        preview(
            configs[0],
            present=configs[1],
            access=FakeAccess(core.world),
            subscriptions=core.subscriptions,
        )
    )


def numbers(found: list[WouldSuspend]) -> list[int]:
    return [int(each.standing.subscription.id[-2:], 10) for each in found]


@pytest.mark.parametrize(
    "document, expected",
    [
        ({}, []),
        (row(10, 5), [1]),
        (row(11, 5), []),
        (row(10, 6.1), []),
        (row(10, 5) | {"auto_suspend": "observe"}, []),
        (row(10, 5) | {"auto_suspend": "off"}, []),
        (row(10, 5) | {"tenant_policies": {"acme": "patient"}}, []),
        (
            {
                "presets": {"short": {"limits": row(1, 0)["presets"]["graded"]["limits"]}},
                "tenant_policies": {"acme": "short"},
            },
            [1],
        ),
    ],
    ids=str,
)
def test_whoever_would_cross_the_wanted_limits_by_count_and_age_is_listed(
    core: Core, document: dict[str, Any], expected: list[int]
) -> None:
    failing(core, 1, count=10, hours=6)
    assert numbers(previewed(core, document)) == expected


def test_the_last_attempt_is_what_ages_are_counted_to_since_silence_is_not_failure(core: Core) -> None:
    failing(core, 1, count=10, hours=6)
    core.world.now += 100 * HOUR
    assert previewed(core, row(10, 7)) == []


def test_who_is_suspended_healthy_or_in_announced_maintenance_is_not(core: Core) -> None:
    core.subscribe(a_suspended_subscription(key=a_key(1), endpoint_url="https://h1.example.com/"))
    core.subscribe(a_subscription(key=a_key(2), endpoint_url="https://h2.example.com/"))
    failing(core, 3, count=10, hours=6, maintenance_until=NOW + HOUR)
    assert previewed(core, row(1, 0)) == []


def test_all_tenants_and_both_modes_are_looked_at(core: Core) -> None:
    FakeAccess(core.world).create_tenant(a_tenant("bolt"))
    for number, scope in enumerate([a_scope("acme"), a_scope("acme", Mode.TEST), a_scope("bolt")], start=1):
        failing(core, number, count=10, hours=6, scope=scope)
    assert sorted(numbers(previewed(core, row(10, 5)))) == [1, 2, 3]


def test_who_has_crossed_the_present_limits_too_is_told_apart(core: Core) -> None:
    failing(core, 1, count=10, hours=6)
    failing(core, 2, count=30, hours=13)
    found = previewed(core, row(10, 5))
    assert {number: each.already for number, each in zip(numbers(found), found, strict=True)} == {
        1: False,
        2: True,
    }
    assert {(each.policy, each.gate.count_limit) for each in found} == {("graded", 10)}


def test_wider_limits_suspend_nobody_new(core: Core) -> None:
    failing(core, 1, count=24, hours=11)
    assert previewed(core, row(100, 72)) == []
    assert RuntimeConfig().policy_of(a_subscription()).limits[Outcome.RETRYABLE].count == 25

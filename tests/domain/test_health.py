"""The policy's verdict, row by row and on both sides of each threshold."""

import json
from collections.abc import Mapping
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from hookkeeper.domain.config import RuntimeConfig
from hookkeeper.domain.health import (
    FAILURES,
    FRESH,
    PRESETS,
    AutoSuspend,
    Health,
    Policy,
    Streak,
    should_suspend,
)
from hookkeeper.domain.outcome import Outcome

from tests.builders import HOUR, MINUTE, NOW, a_failing_health, a_health, a_subscription

CASES = json.loads((Path(__file__).parents[1] / "vectors" / "policy.json").read_text())["cases"]
GRADED = PRESETS["graded"]
TICK = timedelta(microseconds=1)


def failing(streaks: Mapping[Outcome, tuple[int, timedelta]], **changes: Any) -> Health:
    """Health with these streaks: count and age by class."""
    first = {outcome: NOW - age for outcome, (_, age) in streaks.items()}
    return a_health(
        streaks={outcome: Streak(count, first[outcome]) for outcome, (count, _) in streaks.items()},
        consecutive_failures=sum(count for count, _ in streaks.values()),
        first_failure_at=min(first.values(), default=None),
        **changes,
    )


def of_one_class(outcome: Outcome, count: int, age: timedelta) -> Health:
    return failing({outcome: (count, age)})


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case['preset']}: {case['case']}")
def test_every_row_of_the_policy_table(case: dict[str, Any]) -> None:
    health = failing(
        {
            Outcome(name): (streak["count"], streak["age_minutes"] * MINUTE)
            for name, streak in case["streaks"].items()
        }
    )
    maintenance = NOW + HOUR if case.get("maintenance") else None
    verdict = should_suspend(health, PRESETS[case["preset"]], NOW, maintenance_until=maintenance)
    assert verdict.suspend is case["suspend"]


LIMITS = [(policy, outcome, limit) for policy in PRESETS.values() for outcome, limit in policy.limits.items()]


@pytest.mark.parametrize("policy, outcome, limit", LIMITS, ids=lambda value: getattr(value, "name", None))
def test_each_limit_is_crossed_at_its_count_and_its_age_and_at_neither_short_of_one(
    policy: Policy, outcome: Outcome, limit: Any
) -> None:
    def suspends(count: int, age: timedelta) -> bool:
        return should_suspend(of_one_class(outcome, count, age), policy, NOW).suspend

    assert suspends(limit.count, limit.age)
    assert suspends(limit.count * 40, limit.age * 40)
    assert not suspends(limit.count - 1, limit.age * 40)
    assert limit.age == timedelta(0) or not suspends(limit.count * 40, limit.age - TICK)


def test_a_class_without_a_row_never_suspends_by_itself() -> None:
    assert not should_suspend(of_one_class(Outcome.FATAL, 1000, 1000 * HOUR), PRESETS["strict"], NOW).suspend


def test_a_first_failure_in_the_future_has_no_age() -> None:
    """Another instance's clock is ahead (F42): no exception, and no suspension."""
    verdict = should_suspend(of_one_class(Outcome.RETRYABLE, 1000, -5 * MINUTE), GRADED, NOW)
    assert not verdict.suspend
    assert [gate.age for gate in verdict.gates] == [timedelta(0)]


def test_the_verdict_names_the_gate_and_where_every_gate_stands() -> None:
    health = failing({Outcome.RETRYABLE: (20, 13 * HOUR), Outcome.PERMANENT: (6, 2 * HOUR)})
    verdict = should_suspend(health, GRADED, NOW)
    standing = {gate.outcome: (gate.count, gate.count_limit, gate.crossed) for gate in verdict.gates}
    assert standing == {
        Outcome.PERMANENT: (6, 5, True),
        Outcome.RETRYABLE: (20, 25, False),
        None: (26, 25, True),
    }
    assert verdict.gate is not None
    assert verdict.gate.outcome is Outcome.PERMANENT


def test_the_total_is_a_gate_only_where_classes_are_mixed() -> None:
    verdict = should_suspend(of_one_class(Outcome.RETRYABLE, 3, HOUR), GRADED, NOW)
    assert [gate.outcome for gate in verdict.gates] == [Outcome.RETRYABLE]


def test_the_total_is_aged_by_the_oldest_class() -> None:
    health = failing({Outcome.RETRYABLE: (23, 11 * HOUR), Outcome.FATAL: (2, 12 * HOUR)})
    verdict = should_suspend(health, GRADED, NOW)
    assert verdict.suspend
    assert verdict.gate is not None
    assert verdict.gate.outcome is None


@pytest.mark.parametrize(
    "until, suspends",
    [(NOW - TICK, True), (NOW, True), (NOW + TICK, False), (NOW + HOUR, False), (None, True)],
)
def test_maintenance_holds_the_verdict_off_until_it_ends(until: Any, *, suspends: bool) -> None:
    verdict = should_suspend(a_failing_health(), GRADED, NOW, maintenance_until=until)
    assert verdict.suspend is suspends
    assert verdict.gate is not None, "the arithmetic is told all the same"


@pytest.mark.parametrize(
    "count, age, at_risk",
    [
        (13, 6 * HOUR, True),
        (12, 6 * HOUR, False),
        (13, 6 * HOUR - TICK, False),
        (25, 6 * HOUR, True),
        (0, 6 * HOUR, False),
    ],
)
def test_the_owner_is_warned_at_half_of_count_and_age(count: int, age: timedelta, *, at_risk: bool) -> None:
    assert should_suspend(of_one_class(Outcome.RETRYABLE, count, age), GRADED, NOW).at_risk is at_risk


def test_no_streak_is_neither_suspended_nor_at_risk() -> None:
    verdict = should_suspend(a_health(), GRADED, NOW)
    assert (verdict.suspend, verdict.gate, verdict.gates, verdict.at_risk) == (False, None, (), False)


@pytest.mark.parametrize(
    "health, fresh",
    [
        (a_health(last_success_at=NOW), True),
        (a_health(last_success_at=NOW - FRESH + TICK), True),
        (a_health(last_success_at=NOW - FRESH), False),
        (a_health(), False),
        (a_failing_health(1, last_success_at=NOW), False),
    ],
)
def test_a_success_tells_nothing_new_only_on_clean_health_within_the_hour(
    health: Health, *, fresh: bool
) -> None:
    assert health.fresh(NOW) is fresh


def test_the_failures_are_every_outcome_but_success() -> None:
    assert set(FAILURES) == set(Outcome) - {Outcome.SUCCESS}


@pytest.mark.parametrize("mode", [AutoSuspend.OBSERVE, AutoSuspend.OFF])
def test_a_milder_switch_for_all_holds_over_every_policy(mode: AutoSuspend) -> None:
    config = RuntimeConfig(auto_suspend=mode)
    assert config.policy_of(a_subscription(policy="strict")).auto_suspend is mode


def test_a_tenants_override_is_before_the_subscriptions_own_preset() -> None:
    config = RuntimeConfig(tenant_policies={"acme": "patient"})
    assert config.policy_of(a_subscription(policy="strict")).name == "patient"


def test_an_unknown_preset_is_graded() -> None:
    assert RuntimeConfig().policy_of(a_subscription(policy="of yesterday")) is GRADED

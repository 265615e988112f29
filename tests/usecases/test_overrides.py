"""Which policy holds for whom, and what it does where it is observed, off, or held off by maintenance."""

import pytest
from hookkeeper.domain.config import RuntimeConfig
from hookkeeper.domain.health import AutoSuspend
from hookkeeper.domain.outcome import Answer
from hookkeeper.domain.subscription import Status
from hookkeeper.runtime_document import RuntimeDocument
from hookkeeper.usecases.suspend import Ruling

from tests.builders import (
    HOUR,
    MINUTE,
    NOW,
    a_failing_health,
    a_key,
    a_subscription,
    an_event,
)
from tests.core import Core

KEY = a_key()
ENFORCE, OBSERVE, OFF = AutoSuspend
GONE = Answer(status_code=410, latency_ms=5)


def config(**document: object) -> RuntimeConfig:
    return RuntimeDocument.model_validate(document).config()


@pytest.mark.parametrize(
    "own, tenant, subscription, held_to",
    [
        ("graded", None, None, "graded"),
        ("patient", None, None, "patient"),
        ("patient", "strict", None, "strict"),
        ("patient", None, "strict", "strict"),
        ("patient", "strict", "calm", "calm"),
        ("gone", None, None, "graded"),
    ],
)
def test_the_narrowest_override_holds(
    own: str, tenant: str | None, subscription: str | None, held_to: str
) -> None:
    overrides = config(
        presets={"calm": {"like": "patient"}},
        tenant_policies={KEY.scope.tenant_id: tenant} if tenant else {},
        subscription_policies={KEY.subscription_id: subscription} if subscription else {},
    )
    assert overrides.policy_of(a_subscription(policy=own)).name == held_to


def test_another_tenants_or_subscriptions_override_is_not_ours() -> None:
    overrides = config(
        tenant_policies={"other": "strict"}, subscription_policies={a_key(2).subscription_id: "strict"}
    )
    assert overrides.policy_of(a_subscription()).name == "graded"


@pytest.mark.parametrize(
    "document, preset, held",
    [
        (ENFORCE, ENFORCE, ENFORCE),
        (ENFORCE, OBSERVE, OBSERVE),
        (ENFORCE, OFF, OFF),
        (OBSERVE, ENFORCE, OBSERVE),
        (OBSERVE, OFF, OFF),
        (OFF, ENFORCE, OFF),
        (OFF, OBSERVE, OFF),
    ],
)
def test_of_document_and_preset_the_milder_holds(
    document: AutoSuspend, preset: AutoSuspend, held: AutoSuspend
) -> None:
    overrides = config(auto_suspend=document, presets={"graded": {"auto_suspend": preset}})
    assert overrides.policy_of(a_subscription()).auto_suspend is held


@pytest.mark.parametrize(
    "document, ruling",
    [
        ({}, Ruling.SUSPENDED),
        ({"auto_suspend": "observe"}, Ruling.OBSERVED),
        ({"auto_suspend": "off"}, Ruling.FINE),
        ({"presets": {"graded": {"auto_suspend": "observe"}}}, Ruling.OBSERVED),
        ({"presets": {"graded": {"auto_suspend": "off"}}}, Ruling.FINE),
        (
            {"presets": {"tame": {"auto_suspend": "observe"}}, "tenant_policies": {"acme": "tame"}},
            Ruling.OBSERVED,
        ),
        (
            {
                "presets": {"tame": {"auto_suspend": "off"}},
                "subscription_policies": {KEY.subscription_id: "tame"},
            },
            Ruling.FINE,
        ),
    ],
)
def test_a_failure_over_the_limit_counts_whatever_the_policy_does_about_it(
    document: dict[str, object], ruling: Ruling
) -> None:
    core = Core()
    core.subscribe(health=a_failing_health())
    core.world.config = config(**document)
    core.answer = lambda _: GONE
    delivered = core.deliver(core.archived(KEY, an_event()))
    assert delivered.rulings[KEY].ruling is ruling
    assert core.health(KEY).consecutive_failures == 26
    assert core.present(KEY).enabled is (ruling is not Ruling.SUSPENDED)


def test_what_is_observed_says_by_which_arithmetic_and_takes_no_place_in_the_fuse() -> None:
    core = Core()
    core.subscribe(health=a_failing_health())
    core.world.config = config(auto_suspend="observe")
    verdict = core.suspend(KEY).verdict
    assert verdict is not None
    assert verdict.gate is not None
    assert (verdict.gate.count, verdict.gate.count_limit) == (25, 25)
    assert core.world.fuse.let_through == {}
    assert core.world.notices == {}
    assert core.world.audit == {}


def test_maintenance_holds_off_while_counting_goes_on_and_the_first_failure_after_it_suspends() -> None:
    core = Core()
    core.subscribe(a_subscription(maintenance_until=NOW + HOUR), a_failing_health())
    core.answer = lambda _: GONE
    for n, after in enumerate((0 * MINUTE, 59 * MINUTE), start=1):
        core.world.now = NOW + after
        assert core.deliver(core.archived(KEY, an_event(n))).rulings[KEY].ruling is not Ruling.SUSPENDED
    assert core.health(KEY).consecutive_failures == 27
    core.world.now = NOW + HOUR
    core.sweep()
    assert core.present(KEY).enabled, "silence is not failure: nothing has failed since it ended"
    assert core.deliver(core.archived(KEY, an_event(3))).rulings[KEY].ruling is Ruling.SUSPENDED
    assert core.present(KEY).status is Status.SUSPENDED

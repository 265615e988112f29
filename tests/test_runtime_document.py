"""An operator's document means what it says, and a mistake in it is refused with its place."""

from datetime import timedelta
from typing import Any

import pytest
from hookkeeper.domain.config import RuntimeConfig
from hookkeeper.domain.fuse import FuseRules
from hookkeeper.domain.health import PRESETS, AutoSuspend, Limit
from hookkeeper.domain.outcome import Outcome
from hookkeeper.runtime_document import RuntimeDocument
from pydantic import ValidationError


def config(document: dict[str, Any]) -> RuntimeConfig:
    return RuntimeDocument.model_validate(document).config()


def test_nothing_said_is_nothing_changed() -> None:
    assert config({}) == RuntimeConfig()
    assert config({"circuit": {}, "retries": {}, "pace": {}, "presets": {"graded": {}}}) == RuntimeConfig()


def test_every_field_of_every_rule_can_be_changed() -> None:
    changed = config(
        {
            "auto_suspend": "off",
            "retention_days": 14,
            "circuit": {
                "opens_at": 6,
                "opens_within_seconds": 61,
                "first_open_seconds": 31,
                "longest_open_seconds": 301,
                "first_wake_seconds": 62,
                "longest_wake_seconds": 3601,
            },
            "retries": {
                "live_seconds": [1, 2.5],
                "short_seconds": [3],
                "automatic_recovery_after_seconds": 1800,
            },
            "pace": {
                "canaries": 4,
                "start_per_second": 6,
                "most_per_second": 101,
                "slice_seconds": 61,
                "longest_slice_seconds": 900,
                "slow_below_per_second": 21,
            },
            "mail": {"gather_seconds": 301, "mails_a_day": 21},
        }
    )
    defaults = RuntimeConfig()
    for part in ("circuit", "retries", "pace", "mail"):
        rules, before = getattr(changed, part), getattr(defaults, part)
        same = {name for name in rules.__dataclass_fields__ if getattr(rules, name) == getattr(before, name)}
        assert same <= {"longest_slice_seconds"}
    assert changed.retries.live == (timedelta(seconds=1), timedelta(seconds=2.5))
    assert changed.circuit.opens_within == timedelta(seconds=61)
    assert changed.pace.slice_seconds == 61
    assert (changed.auto_suspend, changed.retention) == (AutoSuspend.OFF, timedelta(days=14))


def test_a_row_is_changed_kept_or_taken_away() -> None:
    limits = {"retryable": {"count": 50, "age_seconds": 3600}, "fatal": None}
    graded = config({"presets": {"graded": {"limits": limits}}}).policies["graded"]
    assert graded.limits == {
        Outcome.RETRYABLE: Limit(50, timedelta(hours=1)),
        Outcome.PERMANENT: PRESETS["graded"].limits[Outcome.PERMANENT],
    }
    assert graded.rules == PRESETS["graded"].rules


def test_a_new_preset_begins_as_the_one_it_is_like() -> None:
    policies = config({"presets": {"calm": {"like": "strict", "auto_suspend": "observe"}}}).policies
    assert policies["calm"].rules == PRESETS["strict"].rules
    assert (policies["calm"].name, policies["calm"].auto_suspend) == ("calm", AutoSuspend.OBSERVE)
    assert policies["calm"].probe_on_reenable is False
    assert {**policies} == {**PRESETS, "calm": policies["calm"]}


def test_a_tenant_may_be_held_to_a_new_preset() -> None:
    assert config({"presets": {"calm": {}}, "tenant_policies": {"acme": "calm"}}).tenant_policies == {
        "acme": "calm"
    }


@pytest.mark.parametrize(
    "document",
    [
        {"unknown": 1},
        {"circuit": {"opens_at": 0}},
        {"circuit": {"opens_within": 60}},
        {"circuit": {"first_open_seconds": 301}},
        {"circuit": {"first_wake_seconds": 3601}},
        {"retries": {"live_seconds": []}},
        {"retries": {"live_seconds": [1] * 10}},
        {"retries": {"live_seconds": [-1]}},
        {"pace": {"slice_seconds": 901}},
        {"pace": {"start_per_second": 101}},
        {"pace": {"most_per_second": 0}},
        {"mail": {"gather_seconds": 3601}},
        {"mail": {"mails_a_day": 0}},
        {"retention_days": 15},
        {"retention_days": 0},
        {"auto_suspend": "maybe"},
        {"presets": {"graded": {"limits": {"success": {"count": 1, "age_seconds": 0}}}}},
        {"presets": {"graded": {"limits": {"fatal": {"count": 0, "age_seconds": 0}}}}},
        {"presets": {"graded": {"limits": {"fatal": {"count": 1}}}}},
        {"presets": {"calm": {"like": "calm"}}},
        {"tenant_policies": {"acme": "calm"}},
    ],
    ids=str,
)
def test_a_mistake_is_refused(document: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        RuntimeDocument.model_validate(document)


def test_the_fuse_can_be_set_and_its_canary_silenced() -> None:
    fuse = config(
        {
            "fuse": {
                "least_hosts": 3,
                "share_of_hosts": 0.1,
                "span_seconds": 60,
                "canary_url": "https://Status.Example.com:443",
            }
        }
    ).fuse
    assert fuse == FuseRules(
        least_hosts=3,
        share_of_hosts=0.1,
        span=timedelta(seconds=60),
        canary_url="https://status.example.com/",
    )
    assert config({"fuse": {"least_hosts": 9}}).fuse.canary_url == FuseRules().canary_url
    assert config({"fuse": {"canary_url": None}}).fuse.canary_url is None


@pytest.mark.parametrize(
    "document",
    [
        {"fuse": {"least_hosts": 0}},
        {"fuse": {"least_hosts": 501}},
        {"fuse": {"share_of_hosts": 0}},
        {"fuse": {"share_of_hosts": 1.1}},
        {"fuse": {"canary_url": "http://status.example.com"}},
        {"fuse": {"canary_url": "https://192.0.2.1/"}},
        {"subscription_policies": {"sub_1": "lenient"}},
    ],
)
def test_a_fuse_or_an_override_that_cannot_be_is_refused(document: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        config(document)

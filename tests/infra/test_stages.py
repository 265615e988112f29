"""Which stages there are, what they refuse, and the arithmetic their numbers must obey."""

import json
from dataclasses import FrozenInstanceError
from typing import Any

import aws_cdk as cdk
import pytest

from infra.app import main
from infra.config import ROUTING_CACHE_SECONDS, Size, StageConfig, StageRefusedError, stage_config

STAGES = [
    pytest.param({"stage": "dev", "sender": "a@example.com"}, id="dev"),
    pytest.param({"stage": "prod", "sender": "a@example.com"}, id="prod"),
    pytest.param({"stage": "local"}, id="local"),
]


@pytest.mark.parametrize("stage", ["dev", "prod"])
def test_a_stage_without_a_sender_address_is_refused_with_the_option_to_give(stage: str) -> None:
    with pytest.raises(StageRefusedError, match="-c sender="):
        stage_config({"stage": stage}.get)


def test_without_a_word_the_stage_is_dev() -> None:
    assert stage_config({"sender": "a@example.com"}.get).stage == "dev"


def test_an_unknown_stage_is_refused_by_name() -> None:
    with pytest.raises(StageRefusedError, match=r"'staging'.*dev, prod, local"):
        stage_config({"stage": "staging", "sender": "a@example.com"}.get)


@pytest.mark.parametrize(
    "widening",
    [
        {"allowed_private_cidrs": "10.0.0.0/8"},
        {"allowed_hosts": "localhost"},
        {"extra_ca_file": "/etc/ca.pem"},
    ],
)
def test_production_refuses_whatever_would_let_it_reach_private_addresses(widening: dict[str, str]) -> None:
    with pytest.raises(StageRefusedError, match="public addresses only"):
        stage_config({"stage": "prod", "sender": "a@example.com", **widening}.get)


def test_dev_may_name_private_ranges() -> None:
    context = {"sender": "a@example.com", "allowed_private_cidrs": "10.0.0.0/8,fd00::/8"}
    assert stage_config(context.get).allowed_private_cidrs == ("10.0.0.0/8", "fd00::/8")


def test_a_range_that_is_none_is_refused() -> None:
    with pytest.raises(StageRefusedError, match=r"10\.0\.0\.1/8 .*host bits"):
        stage_config({"sender": "a@example.com", "allowed_private_cidrs": "10.0.0.1/8"}.get)


@pytest.mark.parametrize("context", STAGES)
def test_the_outage_margin_covers_one_fan_out_the_routing_cache_and_one_batch(
    context: dict[str, str],
) -> None:
    config = stage_config(context.get)
    path = config.fan_out.timeout_seconds + ROUTING_CACHE_SECONDS + config.deliver.timeout_seconds
    assert config.margin_seconds >= path


def test_longer_time_outs_lengthen_the_margin() -> None:
    config = StageConfig(stage="dev", sender="a@example.com", fan_out=Size(512, 300), deliver=Size(512, 300))
    assert config.margin_seconds == 610


def test_production_keeps_a_margin_of_five_minutes() -> None:
    assert stage_config({"stage": "prod", "sender": "a@example.com"}.get).margin_seconds == 300


@pytest.mark.parametrize("context", STAGES)
def test_the_sweep_ends_before_the_next_begins(context: dict[str, str]) -> None:
    assert stage_config(context.get).sweep.timeout_seconds < 60


@pytest.mark.parametrize("context", STAGES)
def test_a_big_batch_has_its_window_and_a_concurrency_that_lambda_takes(context: dict[str, str]) -> None:
    config = stage_config(context.get)
    for feed in config.feeds:
        assert feed.window_seconds >= 1 or feed.batch_size <= 10
        assert 2 <= feed.max_concurrency <= 1000
        assert feed.receives >= 10


# ── what a stage may be told ─────────────────────────────────────────────────────────────────────

PROD = {"stage": "prod", "sender": "webhooks@hooks.example.com"}


@pytest.mark.parametrize(
    "told, why",
    [
        ({"sender": None}, "-c sender="),
        ({"allowed_private_cidrs": "10.0.0.0/8"}, "public addresses only"),
        ({"runtime_document": '{"tenant_policies": {"acme": "lenient"}}'}, "'lenient', which is no preset"),
        ({"runtime_document": '{"presets": {"mine": {"like": "kind"}}}'}, "'kind', which is none of graded"),
        ({"runtime_document": {"retention_days": 99}}, "/retention_days"),
        ({"runtime_document": "{"}, "Invalid JSON"),
        ({"sender_domain": "other.example.com"}, "is no address of sender_domain"),
        ({"sender_domain": "example.com"}, "is no address of sender_domain"),
        ({"hosted_zone_id": "Z1"}, "records of a sender_domain"),
        ({"static_ips": "4"}, "0 to 3"),
        ({"static_ips": "-1"}, "0 to 3"),
        ({"static_ips": "two"}, "must be a number"),
        ({"account_concurrency": "many"}, "must be a number"),
    ],
    ids=str,
)
def test_production_refuses_what_cannot_be_meant_and_says_why(told: dict[str, Any], why: str) -> None:
    with pytest.raises(StageRefusedError, match=why):
        stage_config((PROD | told).get)


def test_the_first_runtime_document_is_checked_and_taken_as_it_is() -> None:
    document = {"tenant_policies": {"acme": "patient"}, "auto_suspend": "observe"}
    for told in (document, json.dumps(document)):
        assert stage_config((PROD | {"runtime_document": told}).get).runtime_document == document
    assert stage_config(PROD.get).runtime_document == {}


@pytest.mark.parametrize("limit, most", [(10, 10), (100, 50), (1000, 500), (5000, 2500)])
def test_event_sources_leave_half_of_the_accounts_concurrency_to_others(limit: int, most: int) -> None:
    config = stage_config((PROD | {"account_concurrency": str(limit)}).get)
    together = sum(feed.max_concurrency for feed in config.feeds)
    assert together <= most
    assert min(feed.max_concurrency for feed in config.feeds) >= 2


def test_a_stage_is_one_frozen_dataclass() -> None:
    config = stage_config(PROD.get)
    with pytest.raises(FrozenInstanceError):
        config.sender = "else@example.com"  # type: ignore[misc]


def test_cdk_synth_ends_with_the_sentence_and_not_with_a_traceback(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    context = {"stage": "prod", "sender": "a@example.com", "allowed_private_cidrs": "10.0.0.0/8"}
    app = cdk.App(context=context)
    monkeypatch.setattr(cdk, "App", lambda: app)
    with pytest.raises(SystemExit, match="hookkeeper: a production stage reaches public addresses only"):
        main()

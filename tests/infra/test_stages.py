"""Which stages there are, what they refuse, and the arithmetic their numbers must obey."""

import pytest

from infra.config import ROUTING_CACHE_SECONDS, Feed, Size, StageConfig, StageRefusedError, stage_config

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
    feeds: list[Feed] = [config.events, config.deliveries, config.backfill, config.notices, config.contacts]
    for feed in feeds:
        assert feed.window_seconds >= 1 or feed.batch_size <= 10
        assert 2 <= feed.max_concurrency <= 1000
        assert feed.receives >= 10

"""A subscription begins pending, sealed and recorded, or not at all."""

from datetime import timedelta
from typing import Any

import pytest
from hookkeeper.domain.config import RuntimeConfig
from hookkeeper.domain.errors import DuplicateSubscriptionError, InvalidInputError, LimitedError
from hookkeeper.domain.signature import token_matches
from hookkeeper.domain.subscription import Status
from hookkeeper.usecases.challenge_rate import MOST_A_HOST, MOST_A_TENANT, MOST_A_TENANT_AND_HOST, HostRules
from hookkeeper.usecases.subscribe import TOKEN_LIFE, Subscribed, Wanted, subscribe

from tests.builders import ACTOR, NOW, a_scope, a_secret
from tests.fakes import FakeContacts, FakeIds, FakeSecrets, FakeSubscriptions, World
from tests.functions.api_bench import FakeHosts, FakeRates

TOKEN = "t" * 43


class CrashError(Exception):
    """The function died here."""


def wanted(**changes: Any) -> Wanted:
    plain: dict[str, Any] = {
        "endpoint_url": "HTTPS://Hooks.Customer-Test.com:443/in#here",
        "event_types": ["invoice.paid", "invoice.*", "invoice.paid"],
        "owner_email": "owner@customer-test.com",
    }
    return Wanted(**(plain | changes))


def subscribed(world: World, *, rates: FakeRates | None = None, **changes: Any) -> Subscribed:
    return subscribe(
        wanted(**changes),
        scope=a_scope(),
        actor=ACTOR,
        now=NOW,
        secret=a_secret(),
        token=TOKEN,
        config=RuntimeConfig(),
        rules=HostRules(),
        hosts=FakeHosts(),
        rates=rates or FakeRates(),
        subscriptions=FakeSubscriptions(world),
        secrets=FakeSecrets(world),
        contacts=FakeContacts(world),
        ids=FakeIds(world),
    )


def test_what_was_typed_is_kept_in_the_audit_record_alone() -> None:
    world = World()
    made = subscribed(world).subscription
    assert made.endpoint_url == "https://hooks.customer-test.com/in"
    assert made.event_types == ("invoice.paid", "invoice.*")
    (record,) = world.audit.values()
    assert record.detail == "typed as HTTPS://Hooks.Customer-Test.com:443/in#here"
    assert record.after["endpoint_url"] == made.endpoint_url
    assert "HTTPS" not in repr(world.subscriptions) + repr(world.profiles)


def test_the_token_is_stored_hashed_and_ends_in_a_day() -> None:
    world = World()
    made = subscribed(world).subscription
    assert made.status is Status.PENDING
    assert token_matches(TOKEN, made.token_hash or "")
    assert made.token_expires_at == NOW + TOKEN_LIFE
    assert TOKEN not in repr(world.subscriptions)
    assert world.challenges == [(made.key, TOKEN)]


def test_t12_a_duplicate_asks_for_no_challenge_spends_none_and_seals_no_secret() -> None:
    world, rates = World(), FakeRates()
    first = subscribed(world, rates=rates).subscription.id
    spent = rates.taken.copy()
    for _ in range(3):
        with pytest.raises(DuplicateSubscriptionError) as caught:
            subscribed(world, rates=rates, endpoint_url="https://hooks.customer-test.com/in/")
        assert caught.value.existing_id == first
    assert len(world.challenges) == len(world.secrets) == 1
    assert rates.taken == spent


@pytest.mark.parametrize("call", ["Secrets.create", "Subscriptions.create", "Contacts.challenge"])
@pytest.mark.parametrize("moment", ["before_call", "after_call"])
def test_a_crash_between_any_two_calls_leaves_no_subscription_without_its_secret(
    call: str, moment: str
) -> None:
    world = World()

    def crash(name: str) -> None:
        if name == call:
            raise CrashError

    setattr(world, moment, crash)
    with pytest.raises(CrashError):
        subscribed(world)
    for subscription in world.subscriptions.values():
        assert (subscription.key, subscription.secret_ref) in world.secrets
        assert len(world.audit) == 1


@pytest.mark.parametrize(
    "changes",
    [
        {"event_types": ["a..b"]},
        {"owner_email": "nobody"},
        {"headers": {"Host": "x"}},
        {"policy": "none"},
        {"timeout_seconds": 31},
        {"resource_id": "a#b"},
        {"endpoint_url": "http://hooks.customer-test.com/in"},
    ],
)
def test_nothing_is_sealed_for_what_is_refused(changes: dict[str, Any]) -> None:
    world = World()
    with pytest.raises(InvalidInputError):
        subscribed(world, **changes)
    assert not world.secrets
    assert not world.subscriptions
    assert not world.challenges


@pytest.mark.parametrize(
    "name,most",
    [
        ("challenges of acme#live", MOST_A_TENANT),
        ("challenges of acme#live to hooks.customer-test.com", MOST_A_TENANT_AND_HOST),
        ("challenges to hooks.customer-test.com", MOST_A_HOST),
    ],
)
def test_the_sender_is_not_turned_on_a_third_party(name: str, most: int) -> None:
    world, rates = World(), FakeRates()
    rates.taken[name, "2026-12-01T12"] = most - 1
    subscribed(world, rates=rates)
    with pytest.raises(LimitedError) as caught:
        subscribed(world, rates=rates, resource_id="r")
    assert caught.value.again_at == NOW + timedelta(hours=1)
    assert len(world.subscriptions) == len(world.challenges) == 1

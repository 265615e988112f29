"""A challenge verifies once, in its day, and by its own token alone."""

import threading
from dataclasses import replace
from datetime import datetime, timedelta

import pytest
from hookkeeper.domain.config import Margins
from hookkeeper.domain.errors import IllegalTransitionError, InvalidInputError, NotFoundError
from hookkeeper.domain.signature import token_hash
from hookkeeper.domain.subscription import Status, Subscription
from hookkeeper.usecases import transition
from hookkeeper.usecases.challenge_rate import HostRules
from hookkeeper.usecases.verify import renew_challenge, verify

from tests.builders import ACTOR, NOW, a_key, a_pending_subscription, a_subscription
from tests.fakes import FakeContacts, FakeIds, FakeSubscriptions, World
from tests.functions.api_bench import FakeRates

TOKEN = "t" * 43
END = NOW + timedelta(hours=24)
SECOND = timedelta(seconds=1)


def a_world(subscription: Subscription | None = None) -> World:
    world = World()
    world.add(subscription or a_pending_subscription(token_hash=token_hash(TOKEN), token_expires_at=END))
    return world


def verified(world: World, token: str = TOKEN, *, now: datetime = NOW) -> Subscription:
    return verify(
        a_key(),
        token,
        actor=ACTOR,
        now=now,
        margins=Margins(),
        subscriptions=FakeSubscriptions(world),
        ids=FakeIds(world),
    )


def test_events_are_owed_from_when_every_routing_cache_has_seen_it() -> None:
    subscription = verified(a_world())
    assert subscription.status is Status.ACTIVE
    assert subscription.first_active_at == NOW + timedelta(seconds=10)
    assert subscription.token_hash is None


def test_f43_a_token_counts_up_to_its_last_second() -> None:
    assert verified(a_world(), now=END - SECOND).status is Status.ACTIVE
    for late in (END, END + SECOND):
        with pytest.raises(InvalidInputError) as caught:
            verified(a_world(), now=late)
        assert caught.value.code == "challenge_expired"


@pytest.mark.parametrize("token", ["", "é", TOKEN[:1], TOKEN[:-1], TOKEN + "\0", "x" * 2_000_000, "\ud800"])
def test_t16_whatever_is_not_the_token_does_not_verify_and_does_not_crash(token: str) -> None:
    world = a_world()
    with pytest.raises(InvalidInputError) as caught:
        verified(world, token)
    assert caught.value.code == "challenge_mismatch"
    assert world.subscriptions[a_key()].status is Status.PENDING


def test_verified_again_is_answered_as_it_stands() -> None:
    world = a_world()
    first = verified(world)
    assert verified(world, "anything") == world.subscriptions[a_key()]
    assert world.subscriptions[a_key()].version == first.version
    assert len(world.audit) == 1


@pytest.mark.parametrize("status", [Status.SUSPENDED, Status.REVOKED])
def test_only_what_is_pending_is_verified(status: Status) -> None:
    with pytest.raises(IllegalTransitionError):
        verified(a_world(a_subscription(status=status)))


def test_what_is_not_there_is_not_found() -> None:
    with pytest.raises(NotFoundError):
        verified(World())


def test_f43_verification_and_expiry_have_one_winner() -> None:
    for _ in range(40):
        world = a_world()
        barrier, wins = threading.Barrier(2), list[str]()

        def owner(world: World = world, barrier: threading.Barrier = barrier, wins: list[str] = wins) -> None:
            barrier.wait()
            try:
                verified(world, now=END - SECOND)
                wins.append("verified")
            except (IllegalTransitionError, InvalidInputError):
                pass

        def sweep(world: World = world, barrier: threading.Barrier = barrier, wins: list[str] = wins) -> None:
            barrier.wait()
            ports = {"subscriptions": FakeSubscriptions(world), "ids": FakeIds(world)}
            if transition.expire(a_key(), now=END, **ports):  # type: ignore[arg-type]
                wins.append("expired")

        threads = [threading.Thread(target=owner), threading.Thread(target=sweep)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert len(wins) == 1
        assert len(world.audit) == 1
        expected = Status.ACTIVE if wins == ["verified"] else Status.REVOKED
        assert world.subscriptions[a_key()].status is expected


def renewed(world: World, token: str, *, now: datetime = NOW) -> Subscription:
    return renew_challenge(
        a_key(),
        token=token,
        actor=ACTOR,
        now=now,
        rules=HostRules(),
        rates=FakeRates(),
        subscriptions=FakeSubscriptions(world),
        contacts=FakeContacts(world),
        ids=FakeIds(world),
    )


def test_a_fresh_challenge_has_its_own_day_and_ends_the_one_before() -> None:
    world = a_world()
    fresh = renewed(world, "fresh", now=NOW + SECOND)
    assert fresh.token_expires_at == END + SECOND
    assert world.challenges == [(a_key(), "fresh")]
    with pytest.raises(InvalidInputError):
        verified(world)
    assert verified(world, "fresh").status is Status.ACTIVE


@pytest.mark.parametrize("status", [Status.ACTIVE, Status.SUSPENDED, Status.REVOKED])
def test_only_what_is_pending_gets_a_fresh_challenge(status: Status) -> None:
    world = a_world(a_subscription(status=status))
    with pytest.raises(IllegalTransitionError):
        renewed(world, "fresh")
    assert not world.challenges


def test_an_edit_that_comes_between_does_not_stop_a_fresh_challenge() -> None:
    world = a_world()
    once = [True]

    def edited(call: str) -> None:
        if call == "Subscriptions.edit" and once.pop(0) if once else False:
            stored = world.subscriptions[a_key()]
            world.subscriptions[a_key()] = replace(stored, timeout_seconds=3, version=stored.version + 1)

    world.before_call = edited
    assert renewed(world, "fresh").timeout_seconds == 3


def test_a_fresh_challenge_that_comes_between_is_not_expired_with_the_old_one() -> None:
    """The sweep's look was before it, its transaction after: 24 h were promised by then."""
    world = a_world()
    between = iter([True])

    def fresh_first(call: str) -> None:
        if call == "Subscriptions.transition" and next(between, False):
            renewed(world, "fresh", now=END)

    world.before_call = fresh_first
    expired = transition.expire(a_key(), now=END, subscriptions=FakeSubscriptions(world), ids=FakeIds(world))
    assert expired is None
    assert verified(world, "fresh", now=END + SECOND).status is Status.ACTIVE

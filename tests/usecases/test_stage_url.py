"""Another endpoint is staged, proven, swapped in: nothing goes astray, nobody is redirected in silence."""

import threading
from contextlib import suppress
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

import pytest
from hookkeeper.domain.circuit import CircuitRules, opened
from hookkeeper.domain.config import Margins, RuntimeConfig
from hookkeeper.domain.errors import (
    ConflictError,
    DuplicateSubscriptionError,
    IllegalTransitionError,
    InvalidInputError,
    LimitedError,
)
from hookkeeper.domain.notice import NoticeKind
from hookkeeper.domain.outbound import OutboundRequest
from hookkeeper.domain.outcome import Answer
from hookkeeper.domain.recovery import RecoveryKind, RecoveryStatus, Window
from hookkeeper.domain.signature import token_hash
from hookkeeper.domain.subscription import Status, Subscription
from hookkeeper.domain.tenancy import SubscriptionKey
from hookkeeper.usecases import transition
from hookkeeper.usecases.challenge import Echo, challenge
from hookkeeper.usecases.challenge_rate import MOST_A_HOST, MOST_A_TENANT_AND_HOST, HostRules
from hookkeeper.usecases.edit_subscription import Changes, Edited, edit_subscription
from hookkeeper.usecases.reenable import reenable
from hookkeeper.usecases.stage_url import Staging, drop_expired_url
from hookkeeper.usecases.verify import renew_challenge, verify

from tests.builders import (
    ACTOR,
    HOUR,
    MINUTE,
    NOW,
    a_failing_health,
    a_health,
    a_key,
    a_pending_subscription,
    a_profile,
    a_secret,
    a_subscription,
    a_suspended_subscription,
    an_answer,
)
from tests.fakes import (
    FakeConsents,
    FakeContacts,
    FakeHosts,
    FakeIds,
    FakeSecrets,
    FakeSender,
    FakeSubscriptions,
    FakeWorkflow,
    World,
)
from tests.functions.api_bench import FakeRates
from tests.model.product import DOWN, WELL, KilledError, Product

OLD = "https://old.customer-test.com/in"
NEW = "https://new.customer-test.com/in"
TOKEN = "t" * 43
DAY = timedelta(hours=24)


def a_world(subscription: Subscription | None = None, **health: Any) -> World:
    world = World()
    world.add(replace(subscription or a_subscription(), endpoint_url=OLD), a_health(**health))
    FakeSecrets(world).create(a_key(), a_secret(), version=1, now=NOW)
    return world


def staged(
    world: World, url: str = NEW, *, token: str = TOKEN, rates: FakeRates | None = None, **changes: Any
) -> Edited:
    return edit_subscription(
        a_key(),
        Changes(endpoint_url=url, **changes),
        version=None,
        actor=ACTOR,
        now=NOW,
        margins=Margins(),
        config=RuntimeConfig(),
        subscriptions=FakeSubscriptions(world),
        ids=FakeIds(world),
        staging=Staging(
            token=token,
            rules=HostRules(own_hosts=frozenset({"api.hookkeeper.example"})),
            hosts=FakeHosts(world),
            rates=rates or FakeRates(),
            contacts=FakeContacts(world),
        ),
    )


def verified(world: World, token: str = TOKEN, *, now: datetime = NOW + MINUTE) -> Subscription:
    return verify(
        a_key(),
        token,
        actor=ACTOR,
        now=now,
        margins=Margins(),
        subscriptions=FakeSubscriptions(world),
        ids=FakeIds(world),
    )


def test_t35_the_old_endpoint_keeps_receiving_until_the_new_one_has_echoed() -> None:
    world = a_world()
    edited = staged(world)
    present = world.subscriptions[a_key()]
    assert (present.endpoint_url, present.pending_endpoint_url, present.status) == (OLD, NEW, Status.ACTIVE)
    assert edited.challenged
    assert world.challenges == [(a_key(), TOKEN)]
    swapped = verified(world)
    assert (swapped.endpoint_url, swapped.pending_endpoint_url, swapped.status) == (NEW, None, Status.ACTIVE)


def test_t35_owner_and_audit_are_told_at_staging_and_swap() -> None:
    world = a_world()
    staged(world, owner_email="thief@evil.example")
    (told,) = world.notices_of(NoticeKind.URL_STAGED)
    assert told.owner_email == a_profile().owner_email, "the address that stood before the change"
    assert (told.endpoint_url, told.facts) == (OLD, {"new_endpoint": NEW})
    verified(world)
    (changed,) = world.notices_of(NoticeKind.URL_CHANGED)
    assert (changed.endpoint_url, changed.facts) == (NEW, {"former_endpoint": OLD})
    first, second = sorted(world.audit.values(), key=lambda record: record.id)
    assert (first.before["pending_endpoint_url"], first.after["pending_endpoint_url"]) == ("", NEW)
    assert (second.before, second.after) == ({"endpoint_url": OLD}, {"endpoint_url": NEW})
    assert (second.action, second.actor) == ("subscription.url_changed", ACTOR)


def test_both_endpoints_are_reserved_while_one_is_staged_and_the_old_one_is_free_after_the_swap() -> None:
    world = a_world()
    staged(world)
    other = world.add(a_subscription(key=a_key(2)))
    mine = {url for (_, url, _), holder in world.urls.items() if holder == a_key().subscription_id}
    assert mine == {OLD, NEW}
    with pytest.raises(DuplicateSubscriptionError) as caught:
        edit_other(world, other, NEW)
    assert caught.value.existing_id == a_key().subscription_id
    verified(world)
    edit_other(world, other, OLD)
    assert world.subscriptions[other].pending_endpoint_url == OLD


def edit_other(world: World, key: SubscriptionKey, url: str) -> None:
    edit_subscription(
        key,
        Changes(endpoint_url=url),
        version=None,
        actor=ACTOR,
        now=NOW,
        margins=Margins(),
        config=RuntimeConfig(),
        subscriptions=FakeSubscriptions(world),
        ids=FakeIds(world),
        staging=Staging(
            token="o" * 43,
            rules=HostRules(),
            hosts=FakeHosts(world),
            rates=FakeRates(),
            contacts=FakeContacts(world),
        ),
    )


def test_asking_for_the_present_url_takes_back_what_was_staged() -> None:
    world = a_world()
    staged(world)
    staged(world, OLD)
    present = world.subscriptions[a_key()]
    assert (present.pending_endpoint_url, present.token_hash, present.token_expires_at) == (None, None, None)
    assert NEW not in {url for _, url, _ in world.urls}
    assert verified(world).endpoint_url == OLD, "its challenge is dead"


def test_asking_for_the_staged_url_again_sends_no_second_challenge() -> None:
    world = a_world()
    version = staged(world).subscription.version
    assert staged(world, token="u" * 43).subscription.version == version
    assert len(world.challenges) == 1


def test_one_trailing_slash_more_needs_no_second_reservation() -> None:
    world = a_world()
    staged(world, OLD + "/")
    assert verified(world).endpoint_url == OLD + "/"
    assert list(world.urls.values()) == [a_key().subscription_id]


def test_f44_a_pending_subscription_takes_the_url_at_once_and_the_old_token_is_dead() -> None:
    first = token_hash("first")
    world = a_world(a_pending_subscription(token_hash=first))
    staged(world)
    present = world.subscriptions[a_key()]
    assert (present.endpoint_url, present.pending_endpoint_url, present.status) == (NEW, None, Status.PENDING)
    assert {url for _, url, _ in world.urls} == {NEW}
    assert world.notices_of(NoticeKind.URL_STAGED) == []
    with pytest.raises(InvalidInputError) as caught:
        verified(world, "first")
    assert caught.value.code == "challenge_mismatch"
    assert verified(world).status is Status.ACTIVE


def test_f44_an_echo_that_was_checked_before_the_url_changed_puts_nothing_in_force() -> None:
    world = a_world(a_pending_subscription(token_hash=token_hash("first")))
    staged(world)
    with pytest.raises(ConflictError):
        transition.verify(
            a_key(),
            token_hash=token_hash("first"),
            actor=ACTOR,
            now=NOW,
            margins=Margins(),
            subscriptions=FakeSubscriptions(world),
            ids=FakeIds(world),
        )
    assert world.subscriptions[a_key()].status is Status.PENDING


@pytest.mark.parametrize(
    "url,code",
    [
        ("http://new.customer-test.com/", "scheme"),
        ("https://api.hookkeeper.example/", "own_host"),
        ("https://127.0.0.1/", "ip_literal"),
    ],
)
def test_a_url_that_no_subscription_may_have_is_not_staged(url: str, code: str) -> None:
    world = a_world()
    with pytest.raises(InvalidInputError):
        staged(world, url)
    assert world.subscriptions[a_key()].pending_endpoint_url is None, code
    assert world.challenges == []


def test_t12_staging_counts_against_the_limits_of_tenant_and_host() -> None:
    world, rates = a_world(), FakeRates()
    for n in range(MOST_A_TENANT_AND_HOST):
        staged(world, f"{NEW}/{n}", token=f"token {n}", rates=rates)
    with pytest.raises(LimitedError):
        staged(world, f"{NEW}/one-more", rates=rates)
    assert len(world.challenges) == MOST_A_TENANT_AND_HOST < MOST_A_HOST, "others still reach the host"
    staged(world, "https://third.customer-test.com/in", rates=rates)


def test_t12_what_another_subscription_has_is_refused_before_anything_is_spent() -> None:
    world, rates = a_world(), FakeRates()
    world.add(replace(a_subscription(key=a_key(2)), endpoint_url=NEW))
    with pytest.raises(DuplicateSubscriptionError):
        staged(world, rates=rates)
    assert not rates.taken


def test_a_revoked_subscription_stages_nothing_and_frees_both_endpoints() -> None:
    world = a_world()
    staged(world)
    subscriptions, ids = FakeSubscriptions(world), FakeIds(world)
    transition.revoke(a_key(), actor=ACTOR, now=NOW, subscriptions=subscriptions, ids=ids)
    assert world.urls == {}
    assert world.subscriptions[a_key()].awaited_url is None
    with pytest.raises(IllegalTransitionError):
        staged(world)
    with pytest.raises(IllegalTransitionError):
        verified(world)


# ── the challenge ────────────────────────────────────────────────────────────────────────────────


def challenged(world: World, answer: Any, *, token: str = TOKEN) -> Echo:
    return challenge(
        a_key(),
        token=token,
        webhook_id="msg_1",
        now=NOW,
        margins=Margins(),
        subscriptions=FakeSubscriptions(world),
        secrets=FakeSecrets(world),
        sender=FakeSender(world, answer),
        ids=FakeIds(world),
    ).echo


def echo(request: OutboundRequest) -> Answer:
    return an_answer(body=request.body.split(b'"challenge":')[1].strip(b' "}'))


def test_the_challenge_goes_to_the_staged_url_and_its_echo_swaps() -> None:
    world = a_world()
    staged(world)
    assert challenged(world, echo) is Echo.VERIFIED
    assert [request.url for request in world.requests] == [NEW]
    assert world.subscriptions[a_key()].endpoint_url == NEW


def test_an_endpoint_that_does_not_echo_gets_no_event() -> None:
    world = a_world()
    staged(world)
    assert challenged(world, lambda _: an_answer(body=b"ok")) is Echo.NOT_ECHOED
    assert world.subscriptions[a_key()].endpoint_url == OLD


def test_a_challenge_of_a_url_that_was_staged_before_reaches_nobody() -> None:
    world = a_world()
    staged(world)
    staged(world, f"{NEW}/2", token="u" * 43)
    assert challenged(world, echo) is Echo.STALE
    assert world.requests == []


def test_a_fresh_challenge_can_be_asked_for_the_staged_url() -> None:
    world = a_world()
    staged(world)
    rates = FakeRates()
    renew_challenge(
        a_key(),
        token="fresh",
        actor=ACTOR,
        now=NOW,
        rules=HostRules(),
        rates=rates,
        subscriptions=FakeSubscriptions(world),
        contacts=FakeContacts(world),
        ids=FakeIds(world),
    )
    assert "challenges to new.customer-test.com" in {name for name, _ in rates.taken}
    with pytest.raises(InvalidInputError):
        verified(world)
    assert verified(world, "fresh").endpoint_url == NEW


# ── expiry ───────────────────────────────────────────────────────────────────────────────────────


def dropped(world: World, *, after: timedelta) -> bool:
    return drop_expired_url(
        a_key(), now=NOW + after, subscriptions=FakeSubscriptions(world), ids=FakeIds(world)
    )


def test_a_staged_url_that_nobody_echoed_in_a_day_is_dropped_and_the_old_one_stays() -> None:
    world = a_world()
    staged(world)
    assert not dropped(world, after=DAY - timedelta(seconds=1))
    assert FakeSubscriptions(world).expired_tokens(NOW + DAY, limit=10) == [a_key()]
    assert dropped(world, after=DAY)
    present = world.subscriptions[a_key()]
    assert (present.endpoint_url, present.pending_endpoint_url, present.status) == (OLD, None, Status.ACTIVE)
    assert {url for _, url, _ in world.urls} == {OLD}
    assert FakeSubscriptions(world).expired_tokens(NOW + DAY, limit=10) == []
    assert not dropped(world, after=DAY)


def test_the_sweep_drops_it() -> None:
    product = Product()
    key = product.subscribe(endpoint_url=OLD)
    staged(product.world)
    product.world.now += DAY
    product.sweep()
    assert product.present(key).pending_endpoint_url is None


@pytest.mark.parametrize("turn", range(20))
def test_f43_a_late_echo_and_the_expiry_have_one_winner(turn: int) -> None:  # noqa: ARG001  # again and again
    world = a_world()
    staged(world)
    barrier, wins = threading.Barrier(2), list[str]()

    def owner() -> None:
        barrier.wait()
        with suppress(ConflictError):
            if verified(world, now=NOW + DAY - timedelta(seconds=1)).endpoint_url == NEW:
                wins.append("swapped")

    def sweep() -> None:
        barrier.wait()
        if dropped(world, after=DAY):
            wins.append("dropped")

    threads = [threading.Thread(target=each) for each in (owner, sweep)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(wins) == 1, wins
    assert world.subscriptions[a_key()].endpoint_url == (NEW if wins == ["swapped"] else OLD)


# ── health ───────────────────────────────────────────────────────────────────────────────────────


def test_the_new_endpoint_starts_with_a_clean_sheet() -> None:
    world = a_world(a_subscription())
    circuit = opened(a_health().circuit, CircuitRules(), now=NOW)
    world.health[a_key()] = a_failing_health(circuit=circuit, epoch=7, not_before=NOW + HOUR, check_at=NOW)
    staged(world)
    verified(world)
    health = world.health[a_key()]
    assert (health.epoch, health.clean, health.streaks, health.check_at) == (8, True, {}, None)
    assert not health.circuit.is_open
    assert not health.quiet(NOW + 2 * MINUTE)


def test_while_active_the_swap_ends_the_outage_and_puts_the_recovery_of_its_window() -> None:
    world = a_world(outage_from=NOW - HOUR)
    staged(world)
    verified(world)
    health = world.health[a_key()]
    assert health.outage_from is None
    assert health.recovery.windows == (Window(start=NOW - HOUR, end=NOW + MINUTE),)
    recovery = world.recoveries[a_key().scope, health.recovery.id or ""]
    assert (recovery.kind, recovery.status) == (RecoveryKind.AUTOMATIC, RecoveryStatus.WAITING)
    assert health.recovery.lease_until == NOW + MINUTE, "the sweep starts it at once"


def test_while_active_and_well_the_swap_puts_a_recovery_of_what_was_owed() -> None:
    world = a_world()
    staged(world)
    verified(world)
    assert world.health[a_key()].recovery.held
    assert world.health[a_key()].recovery.windows == ()


def test_while_suspended_the_outage_goes_on_over_the_swap() -> None:
    world = a_world(a_suspended_subscription(), outage_from=NOW - HOUR)
    staged(world)
    swapped = verified(world)
    assert (swapped.status, swapped.endpoint_url) == (Status.SUSPENDED, NEW)
    health = world.health[a_key()]
    assert health.outage_from == NOW - HOUR
    assert not health.recovery.held


@pytest.mark.parametrize(
    "asked,probed",
    [(None, False), (True, True), (False, False)],
    ids=["by policy", "asked for", "not wanted"],
)
def test_a_swap_while_suspended_counts_as_the_probe(*, asked: bool | None, probed: bool) -> None:
    world = a_world(a_suspended_subscription())

    def started() -> bool:
        return reenable(
            a_key(),
            probe=asked,
            actor=ACTOR,
            now=NOW + HOUR,
            config=RuntimeConfig(),
            subscriptions=FakeSubscriptions(world),
            consents=FakeConsents(world),
            workflow=FakeWorkflow(world),
        ).probe

    assert started() is (asked is not False)
    staged(world)
    verified(world)
    assert started() is probed


def test_a_swap_before_the_suspension_is_no_probe() -> None:
    assert not a_suspended_subscription(verified_at=NOW - 2 * HOUR).proven
    assert not a_subscription(verified_at=NOW).proven


def test_story_12_what_was_missed_while_suspended_reaches_the_new_endpoint() -> None:
    product = Product()
    key = product.subscribe(endpoint_url=OLD)
    product.endpoint(key).answer = lambda _: DOWN
    for _ in range(4):
        product.emit()
        product.run(MINUTE)
    product.pause(key)
    for _ in range(20):
        product.emit()
        product.run(MINUTE)
    now = product.now
    staged(product.world)
    verified(product.world, now=now)
    assert product.present(key).endpoint_url == NEW
    product.endpoint(key).answer = lambda _: WELL
    product.run(10 * MINUTE)
    assert not +product.endpoint(key).accepted, "suspended it stays"
    product.reenable(key)
    product.run(2 * HOUR)
    assert dict(+product.endpoint(key).accepted) == dict.fromkeys(product.emitted, 1)
    assert {request.url for request in product.world.requests[-20:]} == {NEW}


@pytest.mark.parametrize("seed", range(8))
def test_nothing_is_lost_over_swaps_whatever_is_killed(seed: int) -> None:
    product = Product(seed=seed)
    key = product.subscribe(endpoint_url=OLD)
    rng = product.random
    for step in range(40):
        product.arrange(rng.randint(1, 60), product.kill)
        product.emit()
        product.endpoint(key).answer = lambda _: DOWN if rng.random() < 0.7 else WELL
        product.run(timedelta(seconds=rng.choice([1, 20, 120, 900])))
        if rng.random() < 0.1:
            product.pause(key)
        if rng.random() < 0.1:
            product.reenable(key)
        if rng.random() < 0.3:
            swap(product, f"{NEW}/{step}", f"token {step}")
    product.arranged.clear()
    product.endpoint(key).answer = lambda _: WELL
    product.run(6 * HOUR)
    for _ in range(3):
        product.pause(key)
        product.reenable(key)
        product.run(3 * HOUR)
    assert [event_id for event_id in product.emitted if not product.endpoint(key).accepted[event_id]] == []


def swap(product: Product, url: str, token: str) -> None:
    with suppress(KilledError):
        staged(product.world, url, token=token)
    if product.present(a_key()).token_hash == token_hash(token):
        with suppress(KilledError):
            verified(product.world, token, now=product.now)


def test_a_swap_whose_answer_was_lost_is_known_as_ones_own() -> None:
    world = a_world()
    staged(world)
    calls = 0

    def die_once(call: str) -> None:
        nonlocal calls
        if call == "Subscriptions.transition":
            calls += 1
            if calls == 1:
                raise ConnectionError

    world.after_call = die_once
    with pytest.raises(ConnectionError):
        verified(world)
    world.after_call = None
    assert verified(world).endpoint_url == NEW
    assert len(world.notices_of(NoticeKind.URL_CHANGED)) == 1

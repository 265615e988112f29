"""Twelve at once: exactly one wins each round, and everything is written once."""

import sys
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any

import boto3
import pytest
from hookkeeper.adapters.dynamodb import encoded
from hookkeeper.adapters.dynamodb_expressions import update_item
from hookkeeper.adapters.dynamodb_health import effect_update
from hookkeeper.adapters.dynamodb_keys import core_key, health_key
from hookkeeper.domain.circuit import CircuitRules, opened, trial_taken
from hookkeeper.domain.outcome import Outcome
from hookkeeper.domain.subscription import Status
from hookkeeper.domain.tenancy import SubscriptionKey
from hookkeeper.ports import HealthEffect, Transition

from tests.builders import (
    MINUTE,
    NOW,
    a_failing_health,
    a_health,
    a_key,
    a_lock,
    a_notice,
    a_profile,
    a_recovery,
    a_subscription,
    a_suspended_subscription,
    a_transition,
    an_audit_record,
    an_edit,
)
from tests.contracts.conftest import AT_ONCE, Aws
from tests.contracts.stores import Stores, over_dynamodb, over_fakes
from tests.fakes import World

RACERS = 12
MANY, ROUNDS = 40, 8
"""The suspension is raced over many rounds, and so is what proves the bench; the others over a few."""

Run = Callable[[Stores, int, int], bool]
"""One racer's move: its own ports, its number, the round."""


@pytest.fixture(autouse=True)
def _threads_switch_at_once() -> Iterator[None]:
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    yield
    sys.setswitchinterval(interval)


def _clients() -> list[Any]:
    make: Any = boto3.client
    return [make("dynamodb", region_name="us-east-1") for _ in range(RACERS)]


@pytest.fixture(params=["fake", "dynamodb"])
def racers(request: pytest.FixtureRequest, world: World) -> list[Stores]:
    """Each racer's own client of one backend."""
    if request.param == "fake":
        return [over_fakes(world)] * RACERS
    aws = request.getfixturevalue("aws")
    return [over_dynamodb(aws, client) for client in _clients()]


def race(
    racers: list[Stores], run: Run, rounds: int = ROUNDS, prepare: Callable[[], None] | None = None
) -> list[int]:
    """How many won each round; all start each round together, after `prepare`."""
    barrier = threading.Barrier(len(racers), action=prepare)

    def one(number: int) -> list[bool]:
        won = []
        for round_number in range(rounds):
            barrier.wait(timeout=60)
            won.append(run(racers[number], number, round_number))
        return won

    with ThreadPoolExecutor(len(racers)) as pool:
        results = list(pool.map(one, range(len(racers))))
    return [sum(won) for won in zip(*results, strict=True)]


def key_of(round_number: int) -> SubscriptionKey:
    return a_key(round_number + 1)


def a_suspension(stores: Stores, number: int) -> Transition | None:
    standing = stores.standing(a_key())
    if standing.subscription.status is not Status.ACTIVE:
        return None
    epoch = standing.health.epoch
    after = replace(standing.subscription, status=Status.SUSPENDED)
    health = replace(standing.health, epoch=epoch + 1, outage_from=NOW - 5 * MINUTE)
    notice = a_notice(dedupe=f"epoch-{epoch}")
    audit_number = RACERS * epoch + number
    return a_transition(standing, after, number=audit_number, health=health, notice=notice, holds_streak=True)


def active_again(stores: Stores) -> None:
    standing = stores.standing(a_key())
    if standing.subscription.status is Status.SUSPENDED:
        after = replace(standing.subscription, status=Status.ACTIVE)
        health = replace(standing.health, epoch=standing.health.epoch + 1, outage_from=None)
        number = RACERS * standing.health.epoch
        assert stores.subscriptions.transition(a_transition(standing, after, number=number, health=health))


def test_one_of_twelve_suspends(racers: list[Stores]) -> None:
    before = racers[0].have(a_subscription(), a_failing_health())

    def suspend(stores: Stores, number: int, _: int) -> bool:
        transition = a_suspension(stores, number)
        return transition is not None and stores.subscriptions.transition(transition)

    assert race(racers, suspend, MANY, prepare=lambda: active_again(racers[0])) == [1] * MANY
    after = racers[0].standing(a_key())
    changes = 2 * MANY - 1
    assert after.subscription.status is Status.SUSPENDED
    assert after.subscription.version == before.subscription.version + changes
    assert after.health.epoch == before.health.epoch + changes
    assert len(racers[0].audit.of(after.subscription.scope, after.subscription.id, limit=999)) == 1 + changes
    assert len(racers[0].told(a_key())) == MANY
    assert racers[0].routed(after.subscription, "x") == []


def test_one_of_twelve_takes_the_trial(racers: list[Stores]) -> None:
    circuit = opened(a_health().circuit, CircuitRules(), now=NOW)
    for round_number in range(ROUNDS):
        key = key_of(round_number)
        racers[0].have(a_subscription(key=key), a_health(key=key, circuit=circuit))

    def take(stores: Stores, number: int, round_number: int) -> bool:
        health = a_health(key=key_of(round_number), circuit=circuit)
        return stores.health.write_circuit(health, trial_taken(circuit, by=f"run_{number}", now=NOW))

    assert race(racers, take) == [1] * ROUNDS


def test_one_of_twelve_gets_the_recovery_s_lock(racers: list[Stores]) -> None:
    for round_number in range(ROUNDS):
        racers[0].have(a_suspended_subscription(key=key_of(round_number)))

    def lock(stores: Stores, number: int, round_number: int) -> bool:
        recovery = a_recovery(100 * round_number + number, key=key_of(round_number))
        return stores.health.write_lock(a_health(key=recovery.key), a_lock(recovery), recovery)

    assert race(racers, lock) == [1] * ROUNDS
    assert all(len(racers[0].recoveries.of(key_of(n), limit=99)) == 1 for n in range(ROUNDS))


def test_one_of_twelve_gets_the_endpoint(racers: list[Stores]) -> None:
    def create(stores: Stores, number: int, round_number: int) -> bool:
        key = a_key(100 * round_number + number + 1)
        subscription = a_subscription(key=key, endpoint_url=f"https://h.example/{round_number}")
        audit = an_audit_record(1, subject=subscription.id)
        return stores.subscriptions.create(subscription, a_profile(), a_health(key=key), audit) is None

    assert race(racers, create) == [1] * ROUNDS


def test_one_of_twelve_edits_a_version(racers: list[Stores]) -> None:
    before = [racers[0].have(a_subscription(key=key_of(n))).subscription for n in range(ROUNDS)]

    def edit(stores: Stores, number: int, round_number: int) -> bool:
        return stores.subscriptions.edit(an_edit(before[round_number], number=number + 1))

    assert race(racers, edit) == [1] * ROUNDS


def test_one_of_twelve_claims_a_notice(racers: list[Stores]) -> None:
    for round_number in range(ROUNDS):
        racers[0].notices.put(a_notice(key=key_of(round_number)))

    def claim(stores: Stores, number: int, round_number: int) -> bool:
        notice = a_notice(key=key_of(round_number))
        return stores.notices.claim(notice, by=f"run_{number}", now=NOW, lease=MINUTE)

    assert race(racers, claim) == [1] * ROUNDS


def test_no_failure_of_twelve_is_lost_from_the_count(aws: Aws) -> None:
    client, table = aws.client("dynamodb"), aws.table("Subscriptions")
    stores = over_dynamodb(aws, client)
    for round_number in range(ROUNDS):
        stores.have(a_subscription(key=key_of(round_number)))

    def fail(_: Stores, number: int, round_number: int) -> bool:
        outcome = (Outcome.RETRYABLE, Outcome.PERMANENT)[number % 2]
        expression = effect_update(
            key_of(round_number), HealthEffect(epoch=1, outcome=outcome, at=NOW, first_failure_at=NOW)
        )
        return update_item(client, table, health_key(key_of(round_number)), expression, AT_ONCE)

    assert race([stores] * RACERS, fail) == [RACERS] * ROUNDS
    for round_number in range(ROUNDS):
        health = stores.standing(key_of(round_number)).health
        assert health.consecutive_failures == RACERS
        assert {streak.count for streak in health.streaks.values()} == {RACERS / 2}


def test_this_bench_sees_a_suspension_that_reads_and_then_writes(aws: Aws) -> None:
    clients = _clients()
    racers = [over_dynamodb(aws, client) for client in clients]
    racers[0].have(a_subscription(), a_failing_health())

    def broken(stores: Stores, number: int, _: int) -> bool:
        transition = a_suspension(stores, number)
        if transition is None:
            return False
        clients[number].update_item(
            TableName=aws.table("Subscriptions"),
            Key=core_key(a_key()),
            UpdateExpression="SET #status = :status",
            ExpressionAttributeNames={"#status": "status"},
            ExpressionAttributeValues=encoded({":status": transition.after.status}),
        )
        return True

    assert max(race(racers, broken, MANY, prepare=lambda: active_again(racers[0]))) > 1

"""sweep as Lambda runs it, every minute: what is due moves once, and one thing's fault is not another's."""

import logging
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from botocore.exceptions import ClientError
from hookkeeper.domain.circuit import Circuit
from hookkeeper.domain.delivery import Delivery, DeliveryStatus, Owed
from hookkeeper.domain.health import Streak
from hookkeeper.domain.outcome import Outcome
from hookkeeper.domain.recovery import RecoveryKind
from hookkeeper.domain.subscription import Status
from hookkeeper.domain.tenancy import DeliveryKey
from hookkeeper.ports import Settlement
from hookkeeper.settings import SweepSettings

from tests import faults
from tests.builders import (
    a_delivery,
    a_health,
    a_key,
    a_lock,
    a_notice,
    a_pending_subscription,
    a_recovery,
    a_subscription,
    an_event,
    an_owed,
)
from tests.contracts.conftest import Aws
from tests.functions.conftest import ColdStart, Started, a_sample
from tests.functions.stage import Stage, configured, metric

MINUTE = timedelta(minutes=1)
HOUR = timedelta(hours=1)
DAY = timedelta(days=1)


@pytest.fixture
def stage(aws: Aws) -> Stage:
    return Stage(aws)


@pytest.fixture
def sweep(stage: Stage, cold_start: ColdStart) -> Started:
    return configured(cold_start("sweep", stage.settings(SweepSettings)))


def owe(stage: Stage, number: int = 1, *, event: int = 1, **changes: Any) -> DeliveryKey:
    """A delivery that failed once and whose retry was due a minute ago."""
    now = datetime.now(UTC)
    pointer = stage.archived(an_event(event)).pointer
    shared = {"key": DeliveryKey(a_key(number), an_event(event).id), "archived_at": now - HOUR}
    due_at = changes.pop("due_at", now - MINUTE)
    expires_at = changes.pop("expires_at", now + DAY)
    delivery: Delivery = a_delivery(
        **shared, pointer=pointer, sequence_began_at=now - HOUR, next_attempt_at=now - MINUTE, **changes
    )
    owed: Owed = an_owed(
        **shared, pointer=pointer, status=delivery.status, due_at=due_at, expires_at=expires_at
    )
    assert stage.ledger.settle(Settlement(before=None, after=delivery, owed=owed)).written
    return delivery.key


def opened(*, wake_at: datetime) -> Circuit:
    return Circuit(version=1, open_until=wake_at - MINUTE, wake_at=wake_at)


# ── each kind of due thing, moved once: seed it, and look what has come of it ─────────────────────

Look = Callable[[], Any]


def a_lost_retry(stage: Stage) -> Look:
    stage.add(a_subscription())
    owe(stage)
    queued: list[tuple[str, int]] = []

    def look() -> Any:
        queued.extend((body["event_id"], body["attempt"]) for body in stage.bodies("deliveries"))
        return queued == [(an_event().id, 2)]

    return look


def what_has_left_retention(stage: Stage) -> Look:
    stage.add(a_subscription())
    key = owe(stage, expires_at=datetime.now(UTC) - MINUTE)

    def look() -> Any:
        delivery = stage.delivery(key)
        ended = delivery is not None and delivery.status is DeliveryStatus.EXPIRED
        return ended and not stage.ledger.owed(a_key(), limit=9) and not stage.bodies("deliveries")

    return look


def what_a_revoked_one_is_owed(stage: Stage) -> Look:
    stage.add(a_subscription(status=Status.REVOKED))
    key = owe(stage)

    def look() -> Any:
        delivery = stage.delivery(key)
        return delivery is not None and delivery.status is DeliveryStatus.DISCARDED

    return look


def an_open_circuit_with_something_to_try(stage: Stage) -> Look:
    now = datetime.now(UTC)
    stage.add(a_subscription(), a_health(circuit=opened(wake_at=now - MINUTE), outage_from=now - HOUR))
    owe(stage, status=DeliveryStatus.HELD, settled=True, due_at=now + DAY)
    queued: list[str] = []

    def look() -> Any:
        queued.extend(body["event_id"] for body in stage.bodies("backfill"))
        wake_at = stage.standing().health.circuit.wake_at
        return queued == [an_event().id] and wake_at is not None and wake_at > now

    return look


def an_open_circuit_with_nothing_to_try(stage: Stage) -> Look:
    now = datetime.now(UTC)
    stage.add(a_subscription(), a_health(circuit=opened(wake_at=now - MINUTE), outage_from=now - MINUTE))

    def look() -> Any:
        health = stage.standing().health
        lock = health.recovery
        return (health.circuit.is_open, health.outage_from, lock.kind, lock.held) == (
            *(False, None, RecoveryKind.AUTOMATIC, True),
        )

    return look


def a_recovery_whose_execution_has_died(stage: Stage) -> Look:
    stage.add(a_subscription())
    recovery = a_recovery()
    lock = a_lock(recovery, execution="arn:dead", lease_until=datetime.now(UTC) - MINUTE)
    assert stage.health.write_lock(stage.standing().health, lock, recovery)

    def look() -> Any:
        machine = stage.state_machine_arn
        started = stage.aws.client("stepfunctions").list_executions(stateMachineArn=machine)["executions"]
        return [execution["name"].startswith(f"{recovery.id}-1-") for execution in started] == [True]

    return look


def a_policy_nobody_asked(stage: Stage) -> Look:
    now = datetime.now(UTC)
    began = now - 3 * DAY
    failing = {
        "streaks": {Outcome.RETRYABLE: Streak(99, began)},
        "consecutive_failures": 99,
        "first_failure_at": began,
        "last_attempt_at": now - MINUTE,
        "check_at": now - MINUTE,
    }
    stage.add(a_subscription(), a_health(**failing))

    def look() -> Any:
        told = [notice.kind for notice in stage.notices.of(a_key(), limit=9)]
        return stage.standing().subscription.status is Status.SUSPENDED and told == ["suspended"]

    return look


def an_old_challenge(stage: Stage) -> Look:
    stage.add(a_pending_subscription(token_expires_at=datetime.now(UTC) - MINUTE))

    def look() -> Any:
        subscription = stage.standing().subscription
        actions = [item["action"]["S"] for item in stage.aws.items("Audit")]
        return subscription.token_hash is None and len(actions) == 2

    return look


DUE = [
    (a_lost_retry, "sent"),
    (what_has_left_retention, "expired"),
    (what_a_revoked_one_is_owed, "discarded"),
    (an_open_circuit_with_something_to_try, "circuits_woken"),
    (an_open_circuit_with_nothing_to_try, "circuits_closed"),
    (a_recovery_whose_execution_has_died, "recoveries_started"),
    (a_policy_nobody_asked, "policy_suspended"),
    (an_old_challenge, "tokens_expired"),
]


@pytest.mark.parametrize("seed, word", DUE, ids=[seed.__name__ for seed, _ in DUE])
def test_what_is_due_moves_once_however_often_it_is_swept(
    stage: Stage, sweep: Started, seed: Callable[[Stage], Look], word: str
) -> None:
    look = seed(stage)
    assert not look()
    first = sweep(a_sample("sweep"))
    assert {name: count for name, count in first.items() if count} == {word: 1}
    assert look()
    sweep(a_sample("sweep"))
    assert look()


def test_a_notice_that_nothing_has_sent_is_asked_for_until_it_is(stage: Stage, sweep: Started) -> None:
    stage.notices.put(a_notice(at=datetime.now(UTC) - 5 * MINUTE))
    for _ in range(2):
        assert sweep(a_sample("sweep"))["notices_sent_again"] == 1
        (message,) = stage.bodies("notices")
        assert (message["tenant"], message["v"]) == ("acme", 1)


@pytest.mark.usefixtures("stage")
def test_where_nothing_is_due_nothing_is_done_and_that_is_said(sweep: Started) -> None:
    assert not any(sweep(a_sample("sweep")).values())
    assert len(sweep.lines("sweep.ended")) == 1


def test_what_fails_is_told_at_the_end_when_all_else_has_moved(
    stage: Stage, sweep: Started, capsys: pytest.CaptureFixture[str]
) -> None:
    stage.add(a_subscription())
    owe(stage)
    stage.add(a_pending_subscription(key=a_key(2), token_expires_at=datetime.now(UTC) - MINUTE))
    faults.refuse(sweep.module.dynamodb, "Query", code="InternalServerError")
    with pytest.raises(ClientError, match="InternalServerError"):
        sweep(a_sample("sweep"))
    assert stage.standing(a_key(2)).subscription.token_hash is None
    assert stage.bodies("deliveries") == []
    assert len(sweep.lines("sweep.failed_in_part")) == 1
    assert metric(capsys.readouterr().out, "VerificationsExpired") == 1
    assert sweep(a_sample("sweep"))["sent"] == 1


def test_h11_neither_bodies_nor_addresses_are_logged(
    stage: Stage, sweep: Started, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG, logger="hookkeeper")
    stage.notices.put(a_notice(at=datetime.now(UTC) - 5 * MINUTE, facts={"last_error": "4111111111111111"}))
    for number in (1, 2):
        stage.add(a_subscription(key=a_key(number)))
    owe(stage, 1)
    owe(stage, 2, event=2, expires_at=datetime.now(UTC) - MINUTE)
    faults.refuse(sweep.module.sqs, "SendMessageBatch", code="ServiceUnavailable", times=3)
    sweep(a_sample("sweep"))
    logged = sweep.log.getvalue() + caplog.text
    assert "sweep.ended" in logged
    for canary in ("4111111111111111", "owner@customer.example", '"n":1', "hooks.customer.example"):
        assert canary not in logged

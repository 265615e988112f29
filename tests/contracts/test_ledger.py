"""A delivery is settled once, by whoever is first; what is owed is found in order, and moved by one alone."""

import threading
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Any

import pytest
from hookkeeper.adapters.dynamodb import Backoff
from hookkeeper.adapters.dynamodb_ledger import DynamoDBLedger
from hookkeeper.adapters.dynamodb_subscriptions import DynamoDBSubscriptions
from hookkeeper.domain.delivery import LEDGER_LIFE, SHARDS, DeliveryStatus, Lane, Owed
from hookkeeper.domain.errors import OwnFaultError
from hookkeeper.domain.event import MAX_TYPE_LENGTH
from hookkeeper.domain.health import Health, Streak
from hookkeeper.domain.outcome import SUCCESS_EXCERPT_BYTES, Outcome
from hookkeeper.domain.recovery import Cursor
from hookkeeper.domain.subscription import Subscription
from hookkeeper.domain.tenancy import DeliveryKey, Mode, SubscriptionKey
from hookkeeper.ports import HealthEffect, Ledger, Settled, Settlement, Subscriptions

from tests.builders import (
    HOUR,
    MINUTE,
    NOW,
    a_delivered,
    a_delivery,
    a_delivery_key,
    a_health,
    a_key,
    a_pointer,
    a_profile,
    a_scope,
    a_subscription,
    an_attempt,
    an_audit_record,
    an_owed,
)
from tests.contracts.conftest import AT_ONCE, Aws
from tests.contracts.sizes import size_bytes
from tests.fakes import FakeLedger, FakeSubscriptions, World
from tests.faults import counted, lose_answer, refuse

SECOND = timedelta(seconds=1)
TICK = timedelta(microseconds=1)
WON = Settled(written=True, counted=True)
WON_UNCOUNTED = Settled(written=True, counted=False)
LOST = Settled(written=False, counted=False)
THROTTLES = ("ProvisionedThroughputExceededException", "RequestLimitExceeded", "ThrottlingException")


@dataclass
class Bench:
    """The port under test, and the subscriptions that its readings tell of."""

    ledger: Ledger
    subscriptions: Subscriptions

    def subscribed(self, subscription: Subscription | None = None, health: Health | None = None) -> Health:
        subscription = subscription or a_subscription()
        health = health or a_health(key=subscription.key)
        audit = an_audit_record(int(subscription.id[-5:]), scope=subscription.scope)
        assert self.subscriptions.create(subscription, a_profile(), health, audit) is None
        return health

    def health(self, key: SubscriptionKey | None = None) -> Health:
        standing = self.subscriptions.standing(key or a_key())
        assert standing is not None
        return standing.health

    def record(self, key: DeliveryKey | None = None) -> Any:
        key = key or a_delivery_key()
        return self.ledger.read([key]).get(key)

    def owed(self, **changes: Any) -> Owed:
        """An owed item with its ledger record."""
        owed = an_owed(**changes)
        delivery = a_delivery(key=owed.key, archived_at=owed.archived_at, status=owed.status)
        before = self.record(owed.key)
        assert self.ledger.settle(Settlement(before=before, after=delivery, owed=owed)).written
        return owed


def adapters(aws: Aws) -> Bench:
    dynamodb = aws.client("dynamodb")
    return Bench(
        DynamoDBLedger(
            dynamodb,
            deliveries_table=aws.table("Deliveries"),
            subscriptions_table=aws.table("Subscriptions"),
            backoff=AT_ONCE,
        ),
        DynamoDBSubscriptions(
            dynamodb,
            subscriptions_table=aws.table("Subscriptions"),
            audit_table=aws.table("Audit"),
            notices_table=aws.table("Notices"),
        ),
    )


@pytest.fixture(params=["fake", "dynamodb"])
def bench(request: pytest.FixtureRequest, world: World) -> Bench:
    if request.param == "fake":
        return Bench(FakeLedger(world), FakeSubscriptions(world))
    return adapters(request.getfixturevalue("aws"))


@pytest.fixture
def real(aws: Aws) -> Bench:
    return adapters(aws)


def a_failure(**changes: Any) -> HealthEffect:
    failure: dict[str, Any] = {
        "epoch": 1,
        "outcome": Outcome.RETRYABLE,
        "at": NOW,
        "first_failure_at": NOW - MINUTE,
        "status_code": 500,
        "error": "http_500",
    }
    return HealthEffect(**{**failure, **changes})


def a_second_attempt(**changes: Any) -> Any:
    """`a_delivery()` after its second failure."""
    later = an_attempt(2, at=NOW + 5 * SECOND)
    return a_delivery(attempts=(an_attempt(), later), attempt_count=2, sequence_attempts=2, **changes)


# ── reading ──────────────────────────────────────────────────────────────────────────────────────


def test_a_batch_is_read_whole_subscriptions_health_and_records(bench: Bench) -> None:
    keys = [a_delivery_key(n, a_key(n % 3 + 1)) for n in range(25)]
    for n in (1, 2, 3):
        bench.subscribed(a_subscription(key=a_key(n)), a_health(key=a_key(n), epoch=n))
    bench.ledger.put_clean([a_delivered(key=key) for key in keys[:5]])
    readings = bench.ledger.read_batch(keys)
    assert {key: standing.health.epoch for key, standing in readings.standings.items()} == {
        a_key(n): n for n in (1, 2, 3)
    }
    assert readings.standings[a_key(1)].subscription.endpoint_url == a_subscription().endpoint_url
    assert readings.deliveries == {key: a_delivered(key=key) for key in keys[:5]}
    assert readings.unread == frozenset()


def test_what_does_not_exist_is_absent_and_not_unread(bench: Bench) -> None:
    readings = bench.ledger.read_batch([a_delivery_key()])
    assert (readings.standings, readings.deliveries, readings.unread) == ({}, {}, frozenset())


def test_the_same_delivery_twice_in_a_batch_is_read_once(bench: Bench) -> None:
    bench.subscribed()
    bench.ledger.put_clean([a_delivered()])
    readings = bench.ledger.read_batch([a_delivery_key(), a_delivery_key()])
    assert readings.deliveries == {a_delivery_key(): a_delivered()}


def test_a_batch_over_twenty_five_is_refused(bench: Bench) -> None:
    with pytest.raises(ValueError, match="25"):
        bench.ledger.read_batch([a_delivery_key(n) for n in range(26)])


@pytest.mark.parametrize("scope", [a_scope("other"), a_scope(mode=Mode.TEST)], ids=["tenant", "mode"])
def test_another_scope_with_the_same_ids_sees_nothing(bench: Bench, scope: Any) -> None:
    bench.subscribed()
    bench.owed()
    foreign = a_delivery_key(subscription=a_key(scope=scope))
    readings = bench.ledger.read_batch([foreign])
    assert (readings.standings, readings.deliveries) == ({}, {})
    assert list(bench.ledger.owed(foreign.subscription, limit=10)) == []
    assert bench.ledger.owed_item(foreign, archived_at=NOW) is None


def test_a_batch_of_twenty_five_is_one_call(aws: Aws, real: Bench) -> None:
    calls = counted(aws.client("dynamodb"))
    real.ledger.read_batch([a_delivery_key(n, a_key(n)) for n in range(25)])
    assert calls == {"BatchGetItem": 1}


@pytest.mark.parametrize("parts", [{"core"}, {"health"}, {"core", "health"}], ids=sorted)
def test_what_stays_unprocessed_is_unread_and_never_absent(aws: Aws, real: Bench, parts: set[str]) -> None:
    for n in (1, 2, 3):
        real.subscribed(a_subscription(key=a_key(n)))
    keys = [a_delivery_key(n, a_key(n)) for n in (1, 2, 3)]
    real.ledger.put_clean([a_delivered(key=key) for key in keys])
    leave_unprocessed(aws, "Deliveries", lambda key: key["sk"]["S"] == keys[0].event_id)
    leave_unprocessed(
        aws,
        "Subscriptions",
        lambda key: a_key(2).subscription_id in key["pk"]["S"] and key["sk"]["S"] in parts,
    )
    readings = real.ledger.read_batch(keys)
    assert readings.unread == {keys[0], keys[1]}
    assert a_key(2) not in readings.standings
    assert readings.deliveries[keys[2]] == a_delivered(key=keys[2])
    with pytest.raises(OwnFaultError):
        real.ledger.read(keys)


def leave_unprocessed(aws: Aws, table: str, which: Callable[[dict[str, Any]], bool]) -> None:
    """Every read hands the keys back that `which` names."""

    def hand_back(parsed: dict[str, Any], **_: Any) -> None:
        items = parsed.get("Responses", {}).get(table, [])
        kept = [item for item in items if not which(item)]
        left = [{"pk": item["pk"], "sk": item["sk"]} for item in items if which(item)]
        if left:
            parsed["Responses"][table] = kept
            parsed.setdefault("UnprocessedKeys", {})[table] = {"Keys": left}

    aws.client("dynamodb").meta.events.register("after-call.dynamodb.BatchGetItem", hand_back)


def test_a_batch_whose_read_is_throttled_to_the_end_is_all_unread(aws: Aws, real: Bench) -> None:
    refuse(aws.client("dynamodb"), "BatchGetItem", code=THROTTLES[0], times=99)
    assert real.ledger.read_batch([a_delivery_key()]).unread == {a_delivery_key()}


@pytest.mark.parametrize("code, times", [(THROTTLES[0], 1), (THROTTLES[1], 4), (THROTTLES[2], 2)])
def test_a_read_that_is_throttled_for_a_while_is_made(aws: Aws, real: Bench, code: str, times: int) -> None:
    real.ledger.put_clean([a_delivered()])
    refuse(aws.client("dynamodb"), "BatchGetItem", code=code, times=times)
    assert real.ledger.read_batch([a_delivery_key()]).deliveries == {a_delivery_key(): a_delivered()}


def test_half_a_subscription_is_our_fault(aws: Aws, real: Bench) -> None:
    real.subscribed()
    (health,) = (item for item in aws.items("Subscriptions") if item["sk"]["S"] == "health")
    aws.client("dynamodb").delete_item(
        TableName="Subscriptions", Key={"pk": health["pk"], "sk": health["sk"]}
    )
    assert real.ledger.read_batch([a_delivery_key()]).unread == {a_delivery_key()}


# ── clean successes ──────────────────────────────────────────────────────────────────────────────


def test_clean_successes_are_written_whole(bench: Bench) -> None:
    deliveries = [a_delivered(key=a_delivery_key(n), resource_id=f"r_{n}") for n in range(60)]
    assert list(bench.ledger.put_clean(deliveries)) == []
    assert bench.ledger.read([d.key for d in deliveries]) == {d.key: d for d in deliveries}


def test_two_copies_in_one_batch_are_one_record(bench: Bench) -> None:
    assert list(bench.ledger.put_clean([a_delivered(), a_delivered()])) == []
    assert bench.record() == a_delivered()


def test_a_clean_success_is_one_write_unit_with_the_longest_names_there_are(aws: Aws, real: Bench) -> None:
    subscription = SubscriptionKey(a_scope("t" * 64), "sub_" + "s" * 26)
    longest = a_delivered(
        key=DeliveryKey(subscription, "e" * 64),
        event_type="t" * MAX_TYPE_LENGTH,
        resource_id="r" * 64,
        pointer=a_pointer(object_key="events/2026120112/" + "k" * 16, offset=9**9, length=9**9, line=9999),
        attempts=(an_attempt(status_code=200, excerpt="x" * SUCCESS_EXCERPT_BYTES),),
    )
    real.ledger.put_clean([longest])
    (item,) = aws.items("Deliveries")
    assert size_bytes(item) <= 1024
    assert "due_pk" not in item
    assert int(item["ttl"]["N"]) >= (NOW + LEDGER_LIFE).timestamp()


def test_twenty_five_clean_successes_are_one_call(aws: Aws, real: Bench) -> None:
    calls = counted(aws.client("dynamodb"))
    real.ledger.put_clean([a_delivered(key=a_delivery_key(n)) for n in range(25)])
    assert calls == {"BatchWriteItem": 1}


def test_what_a_batch_leaves_unwritten_is_named(aws: Aws, real: Bench) -> None:
    refuse(aws.client("dynamodb"), "BatchWriteItem", code=THROTTLES[0], times=5)
    keys = [a_delivery_key(n) for n in range(30)]
    assert list(real.ledger.put_clean([a_delivered(key=key) for key in keys])) == keys[:25]
    assert set(real.ledger.read(keys)) == set(keys[25:])


def test_what_is_unprocessed_once_is_written_in_the_end(aws: Aws, real: Bench) -> None:
    for code in THROTTLES:
        refuse(aws.client("dynamodb"), "BatchWriteItem", code=code)
    assert list(real.ledger.put_clean([a_delivered()])) == []
    assert real.record() == a_delivered()


# ── settling ─────────────────────────────────────────────────────────────────────────────────────


def test_a_failure_puts_record_owed_item_and_health_at_once(bench: Bench) -> None:
    bench.subscribed()
    settlement = Settlement(before=None, after=a_delivery(), owed=an_owed(), effect=a_failure())
    assert bench.ledger.settle(settlement) == WON
    assert bench.record() == a_delivery()
    assert bench.ledger.owed_item(a_delivery_key(), archived_at=NOW) == an_owed()
    health = bench.health()
    assert health.streaks == {Outcome.RETRYABLE: Streak(1, NOW - MINUTE)}
    assert (health.consecutive_failures, health.first_failure_at) == (1, NOW - MINUTE)
    assert (health.last_status_code, health.last_error, health.last_attempt_at) == (500, "http_500", NOW)


def test_a_success_deletes_the_owed_item_and_clears_every_streak(bench: Bench) -> None:
    bench.subscribed()
    bench.ledger.settle(Settlement(before=None, after=a_delivery(), owed=an_owed(), effect=a_failure()))
    after = a_second_attempt(status=DeliveryStatus.SUCCEEDED, outcome=Outcome.SUCCESS, settled=True)
    success = HealthEffect(epoch=1, outcome=Outcome.SUCCESS, at=NOW + HOUR, status_code=200)
    assert bench.ledger.settle(Settlement(before=a_delivery(), after=after, effect=success)) == WON
    assert list(bench.ledger.owed(a_key(), limit=10)) == []
    health = bench.health()
    assert (health.clean, health.streaks, health.last_success_at) == (True, {}, NOW + HOUR)


def test_a_record_keeps_all_that_was_told_of_it(bench: Bench) -> None:
    attempts = tuple(
        an_attempt(
            n,
            lane=list(Lane)[n % 5],
            at=NOW + n * SECOND,
            status_code=None if n % 2 else 503,
            error="timeout" if n % 2 else "http_503",
            excerpt='{"quote":"\\"", "é": "\U0001f980"}',
        )
        for n in range(3, 13)
    )
    full = a_delivery(
        resource_id="r_1",
        pointer=a_pointer(object_key="events/x:y/z", offset=7, length=8, line=9),
        status=DeliveryStatus.EXHAUSTED,
        lane=Lane.REPLAY,
        sequence=3,
        settled=True,
        sequence_attempts=4,
        sequence_began_at=NOW - TICK,
        attempts=attempts,
        attempt_count=12,
        next_attempt_at=None,
        outcome=Outcome.FATAL,
        recovery_id="rec_1",
        replays=("rpl_1", "rpl_2"),
        own_recoveries=1,
        counted_epoch=7,
    )
    owed = an_owed(
        resource_id="r_1",
        status=DeliveryStatus.EXHAUSTED,
        due_at=NOW + TICK,
        outcome=Outcome.FATAL,
        attempt_count=12,
        taken_by="rec_1:2",
        tried_by="rec_0",
        automatic_left=False,
    )
    bench.ledger.settle(Settlement(before=None, after=full, owed=owed))
    assert bench.record() == full
    assert bench.ledger.owed_item(full.key, archived_at=NOW) == owed


STALE = [
    ("absent, but it is there", None),
    ("another attempt_count", a_delivery(attempt_count=7)),
    ("another sequence", a_delivery(sequence=2)),
    ("another status", a_delivery(status=DeliveryStatus.HELD)),
]


@pytest.mark.parametrize("effect", [None, a_failure()], ids=["without health", "with health"])
@pytest.mark.parametrize("before", [b for _, b in STALE], ids=[name for name, _ in STALE])
def test_a_record_that_changed_since_it_was_read_is_left_alone(
    bench: Bench, before: Any, effect: HealthEffect | None
) -> None:
    bench.subscribed()
    bench.owed()
    late = Settlement(before=before, after=a_second_attempt(), owed=None, effect=effect)
    assert bench.ledger.settle(late) == LOST
    assert bench.record() == a_delivery()
    assert bench.ledger.owed_item(a_delivery_key(), archived_at=NOW) == an_owed()
    assert bench.health().clean


def test_one_that_is_gone_since_it_was_read_is_not_made_anew(bench: Bench) -> None:
    bench.subscribed()
    assert bench.ledger.settle(Settlement(before=a_delivery(), after=a_second_attempt())) == LOST
    assert bench.record() is None


@pytest.mark.parametrize("owed", [None, an_owed()], ids=["settled", "owed"])
def test_on_another_epoch_health_alone_is_left_out(bench: Bench, owed: Owed | None) -> None:
    bench.subscribed(health=a_health(epoch=2))
    settlement = Settlement(before=None, after=a_delivery(), owed=owed, effect=a_failure(epoch=1))
    assert bench.ledger.settle(settlement) == WON_UNCOUNTED
    assert bench.record() == a_delivery()
    assert bench.ledger.owed_item(a_delivery_key(), archived_at=NOW) == owed
    assert bench.health().clean


def test_a_settlement_without_effect_or_owed_item_is_guarded_too(bench: Bench) -> None:
    assert bench.ledger.settle(Settlement(before=None, after=a_delivered())) == WON_UNCOUNTED
    assert bench.ledger.settle(Settlement(before=None, after=a_delivery())) == LOST
    assert bench.record() == a_delivered()


def test_a_repeated_fan_outs_delivery_meets_the_record_of_the_first(bench: Bench) -> None:
    bench.ledger.put_clean([a_delivered()])
    again = a_delivery(archived_at=NOW + MINUTE)
    assert bench.ledger.settle(Settlement(before=None, after=again, owed=an_owed())) == LOST


def test_a_record_that_vanishes_with_its_subscription_makes_no_ghost_of_health(bench: Bench) -> None:
    settlement = Settlement(before=None, after=a_delivery(), owed=an_owed(), effect=a_failure())
    assert bench.ledger.settle(settlement) == WON_UNCOUNTED
    assert bench.subscriptions.standing(a_key()) is None


def test_a_thousand_duplicates_count_once(bench: Bench) -> None:
    bench.subscribed()
    settlement = Settlement(before=None, after=a_delivery(), owed=an_owed(), effect=a_failure())
    bench.ledger.settle(settlement)
    rival = replace(settlement, after=a_delivery(attempts=(an_attempt(at=NOW + SECOND),)))
    assert {bench.ledger.settle(rival) for _ in range(20)} == {LOST}
    assert bench.health().consecutive_failures == 1


# ── settling on a bad day ────────────────────────────────────────────────────────────────────────

SHAPES = {
    "record alone": ("PutItem", Settlement(before=None, after=a_delivered()), WON_UNCOUNTED),
    "record and owed item": (
        "TransactWriteItems",
        Settlement(before=None, after=a_delivery(), owed=an_owed()),
        WON_UNCOUNTED,
    ),
    "record, owed item and health": (
        "TransactWriteItems",
        Settlement(before=None, after=a_delivery(), owed=an_owed(), effect=a_failure()),
        WON,
    ),
    "record held without an attempt": (
        "TransactWriteItems",
        Settlement(
            before=None,
            after=a_delivery(status=DeliveryStatus.HELD, attempts=(), attempt_count=0),
            owed=an_owed(status=DeliveryStatus.HELD),
        ),
        WON_UNCOUNTED,
    ),
}


@pytest.fixture(params=list(SHAPES))
def shape(request: pytest.FixtureRequest) -> tuple[str, Settlement, Settled]:
    return SHAPES[request.param]


def test_a_write_whose_answer_was_lost_is_known_as_ones_own(
    aws: Aws, real: Bench, shape: tuple[str, Settlement, Settled]
) -> None:
    operation, settlement, expected = shape
    real.subscribed()
    lose_answer(aws.client("dynamodb"), operation)
    assert real.ledger.settle(settlement) == expected
    assert real.record() == settlement.after
    assert real.health().consecutive_failures == expected.counted


def test_ones_own_write_is_known_even_when_the_next_attempt_stands_on_it(real: Bench) -> None:
    real.subscribed()
    mine = Settlement(before=None, after=a_delivery(), owed=an_owed(), effect=a_failure())
    real.ledger.settle(mine)
    real.ledger.settle(Settlement(before=a_delivery(), after=a_second_attempt(), owed=an_owed()))
    assert real.ledger.settle(mine) == WON
    assert real.record() == a_second_attempt()
    assert real.health().consecutive_failures == 1


@pytest.mark.parametrize("code, times", [(THROTTLES[0], 1), (THROTTLES[1], 4), (THROTTLES[2], 2)])
def test_a_write_that_is_throttled_for_a_while_is_made_once(
    aws: Aws, real: Bench, shape: tuple[str, Settlement, Settled], code: str, times: int
) -> None:
    operation, settlement, expected = shape
    real.subscribed()
    refuse(aws.client("dynamodb"), operation, code=code, times=times)
    assert real.ledger.settle(settlement) == expected
    assert real.health().consecutive_failures == expected.counted


def test_a_write_that_stays_throttled_is_our_fault_and_changes_nothing(
    aws: Aws, real: Bench, shape: tuple[str, Settlement, Settled]
) -> None:
    operation, settlement, _ = shape
    real.subscribed()
    refuse(aws.client("dynamodb"), operation, code=THROTTLES[0], times=99)
    with pytest.raises(OwnFaultError):
        real.ledger.settle(settlement)
    assert real.record() is None
    assert real.health().clean


def cancelled(*codes: str) -> dict[str, Any]:
    return {"code": "TransactionCanceledException", "CancellationReasons": [{"Code": code} for code in codes]}


@pytest.mark.parametrize(
    "codes",
    [
        ("TransactionConflict", "None", "None"),
        ("None", "None", "TransactionConflict"),
        ("None", "ThrottlingError", "ProvisionedThroughputExceeded"),
    ],
)
def test_a_conflict_with_another_transaction_is_tried_again(
    aws: Aws, real: Bench, codes: tuple[str, ...]
) -> None:
    real.subscribed()
    refuse(aws.client("dynamodb"), "TransactWriteItems", times=4, **cancelled(*codes))
    settlement = Settlement(before=None, after=a_delivery(), owed=an_owed(), effect=a_failure())
    assert real.ledger.settle(settlement) == WON
    assert real.health().consecutive_failures == 1


def test_a_lost_guard_beside_a_conflict_is_still_lost(aws: Aws, real: Bench) -> None:
    real.subscribed()
    calls = counted(aws.client("dynamodb"))
    refuse(
        aws.client("dynamodb"),
        "TransactWriteItems",
        times=99,
        **cancelled("ConditionalCheckFailed", "None", "TransactionConflict"),
    )
    settlement = Settlement(before=None, after=a_delivery(), owed=an_owed(), effect=a_failure())
    assert real.ledger.settle(settlement) == LOST
    assert calls["TransactWriteItems"] == 1


def test_the_write_without_health_may_lose_its_answer_too(aws: Aws, real: Bench) -> None:
    real.subscribed(health=a_health(epoch=2))
    refuse(
        aws.client("dynamodb"),
        "TransactWriteItems",
        **cancelled("None", "None", "ConditionalCheckFailed"),
    )
    lose_answer(aws.client("dynamodb"), "TransactWriteItems")
    settlement = Settlement(before=None, after=a_delivery(), owed=an_owed(), effect=a_failure())
    assert real.ledger.settle(settlement) == WON_UNCOUNTED


@pytest.mark.usefixtures("one_at_a_time")
def test_of_twelve_that_settle_at_the_same_moment_one_wins(real: Bench) -> None:
    real.subscribed()
    results: list[Settled] = []
    barrier = threading.Barrier(12)

    def settle(n: int) -> None:
        mine = a_delivery(attempts=(an_attempt(at=NOW + n * TICK),))
        barrier.wait()
        results.append(
            real.ledger.settle(Settlement(before=None, after=mine, owed=an_owed(), effect=a_failure()))
        )

    threads = [threading.Thread(target=settle, args=(n,)) for n in range(12)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(results, key=lambda r: r.written) == [LOST] * 11 + [WON]
    assert real.health().consecutive_failures == 1


def test_a_settled_first_success_costs_one_write_unit(aws: Aws, real: Bench) -> None:
    calls = counted(aws.client("dynamodb"))
    real.ledger.settle(Settlement(before=None, after=a_delivered()))
    assert calls == {"PutItem": 1}


# ── owed items ───────────────────────────────────────────────────────────────────────────────────


def test_owed_items_come_in_order_of_their_archiving_over_all_shards(bench: Bench) -> None:
    owed = [
        bench.owed(key=a_delivery_key(n), archived_at=NOW + (n * 7 % 50) * SECOND, due_at=NOW + n * SECOND)
        for n in range(50)
    ]
    bench.owed(key=a_delivery_key(1, a_key(2)))
    found = list(bench.ledger.owed(a_key(), limit=100))
    assert found == sorted(owed, key=lambda o: (o.archived_at, o.key.event_id))
    assert list(bench.ledger.owed(a_key(), limit=7)) == found[:7]


def test_a_cursor_parts_the_owed_items_at_every_place(bench: Bench) -> None:
    for n in range(2 * SHARDS):
        bench.owed(key=a_delivery_key(n), archived_at=NOW + n % 3 * TICK)
    found = list(bench.ledger.owed(a_key(), limit=100))
    for place, owed in enumerate(found):
        after = Cursor(archived_at=owed.archived_at, event_id=owed.key.event_id)
        assert list(bench.ledger.owed(a_key(), limit=3, after=after)) == found[place + 1 : place + 4]


def test_an_owed_item_is_found_under_its_records_archived_at(bench: Bench) -> None:
    owed = bench.owed(archived_at=NOW - HOUR)
    assert bench.ledger.owed_item(owed.key, archived_at=NOW - HOUR) == owed
    assert bench.ledger.owed_item(owed.key, archived_at=NOW) is None
    assert bench.ledger.owed_item(a_delivery_key(2), archived_at=NOW - HOUR) is None


def test_due_items_come_longest_due_first_across_tenants(bench: Bench) -> None:
    owed = [
        bench.owed(
            key=a_delivery_key(n, a_key(n % 4, a_scope("other") if n % 2 else None)),
            due_at=NOW - (n * 7 % 30) * SECOND,
        )
        for n in range(30)
    ]
    bench.owed(key=a_delivery_key(99), due_at=NOW + TICK)
    due = sorted(owed, key=lambda o: o.due_at)
    assert list(bench.ledger.due(NOW, limit=100)) == due
    assert list(bench.ledger.due(NOW, limit=11)) == due[:11]
    assert list(bench.ledger.due(NOW - HOUR, limit=100)) == []


def test_moving_changes_what_is_named_and_nothing_else(bench: Bench) -> None:
    owed = bench.owed(due_at=NOW)
    assert bench.ledger.move_due(owed, due_at=NOW + HOUR)
    assert stored(bench, owed) == replace(owed, due_at=NOW + HOUR)
    moved = replace(owed, due_at=NOW + HOUR)
    assert bench.ledger.move_due(moved, due_at=NOW + 2 * HOUR, taken_by="rec_1:1", automatic_left=False)
    assert stored(bench, owed) == replace(
        owed, due_at=NOW + 2 * HOUR, taken_by="rec_1:1", automatic_left=False
    )
    assert list(bench.ledger.due(NOW + HOUR, limit=10)) == []


def stored(bench: Bench, owed: Owed) -> Owed | None:
    return bench.ledger.owed_item(owed.key, archived_at=owed.archived_at)


@pytest.mark.parametrize("due_at", [NOW, NOW + 0.4 * SECOND, NOW + TICK])
def test_of_two_that_move_an_item_one_wins(bench: Bench, due_at: Any) -> None:
    owed = bench.owed(due_at=due_at)
    assert bench.ledger.move_due(owed, due_at=NOW + HOUR)
    assert not bench.ledger.move_due(owed, due_at=NOW + HOUR)


def test_an_item_that_is_gone_is_not_made_anew_by_moving_it(bench: Bench) -> None:
    owed = an_owed()
    assert not bench.ledger.move_due(owed, due_at=NOW + HOUR)
    assert stored(bench, owed) is None


def test_a_leftover_beside_a_final_record_is_deleted(bench: Bench) -> None:
    owed = bench.owed()
    bench.ledger.put_clean([a_delivered()])
    bench.ledger.delete_owed(owed)
    bench.ledger.delete_owed(owed)
    assert stored(bench, owed) is None


@pytest.mark.parametrize("operation", ["TransactWriteItems", "UpdateItem"])
def test_a_lost_answer_loses_no_owed_item(aws: Aws, real: Bench, operation: str) -> None:
    owed = real.owed(due_at=NOW)
    lose_answer(aws.client("dynamodb"), operation)
    assert real.ledger.move_due(owed, due_at=NOW + HOUR)
    assert not real.ledger.move_due(owed, due_at=NOW + HOUR)
    real.ledger.put_clean([a_delivered()])
    real.ledger.delete_owed(owed)
    assert stored(real, owed) is None


def test_an_item_that_is_owed_again_since_is_not_deleted_as_a_leftover(real: Bench) -> None:
    owed = real.owed()
    real.ledger.delete_owed(owed)
    assert stored(real, owed) == owed


@pytest.mark.parametrize("times", [1, 4])
def test_moving_is_tried_again_when_it_is_throttled(aws: Aws, real: Bench, times: int) -> None:
    owed = real.owed(due_at=NOW)
    refuse(aws.client("dynamodb"), "UpdateItem", code=THROTTLES[0], times=times)
    assert real.ledger.move_due(owed, due_at=NOW + HOUR)


def test_an_owed_item_outlives_any_sweep_that_must_write_it_expired(aws: Aws, real: Bench) -> None:
    real.owed()
    (item,) = (item for item in aws.items("Deliveries") if "due_pk" in item)
    assert int(item["ttl"]["N"]) >= (NOW + LEDGER_LIFE).timestamp()
    assert item["pk"]["S"].startswith("acme#live#owed#")


def test_a_subscriptions_records_are_spread_over_its_shards(aws: Aws, real: Bench) -> None:
    real.ledger.put_clean([a_delivered(key=a_delivery_key(n)) for n in range(200)])
    partitions = [item["pk"]["S"] for item in aws.items("Deliveries")]
    assert len(set(partitions)) == SHARDS
    assert max(partitions.count(p) for p in set(partitions)) < 60


def test_between_tries_it_waits_longer_each_time_and_never_over_two_seconds_in_all() -> None:
    waits: list[float] = []
    assert list(Backoff(sleep=waits.append).attempts()) == [0, 1, 2, 3, 4]
    assert len(waits) == 4
    assert sum(waits) < 2

"""How a delivery could be lost, doubled or stranded, told on the whole product: sixteen counter-examples.

Each was found by walking a model at random with one sentence of the design missing. Here the sentence is in
place, and what was lost arrives.
"""

from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from functools import partial
from typing import Any

import pytest
from hookkeeper.domain.delivery import DeliveryStatus, Parcel
from hookkeeper.domain.outcome import Answer, Outcome
from hookkeeper.domain.recovery import RecoveryStatus
from hookkeeper.domain.signature import token_hash
from hookkeeper.domain.subscription import Status
from hookkeeper.domain.tenancy import DeliveryKey, SubscriptionKey
from hookkeeper.usecases import fan_out as fan_out_module
from hookkeeper.usecases.replay import Asked, replay
from hookkeeper.usecases.verify import verify

from tests.builders import ACTOR, HOUR, MINUTE, a_key, a_pending_subscription
from tests.fakes import FakeAudit, FakeWorkflow
from tests.model.product import DOWN, GONE, SECOND, WELL, Endpoint, Product
from tests.model.rules import Rules

RETENTION = timedelta(days=7)
ROUTED_AFTER = timedelta(seconds=10)
"""How long a routing cache may not know of a pattern or an activation."""


def a_product(**changes: Any) -> tuple[Product, SubscriptionKey]:
    """A product with one subscription that works since an hour."""
    product = Product(**changes)
    key = product.subscribe()
    product.run(HOUR)
    return product, key


def answers(product: Product, key: SubscriptionKey, answer: Answer) -> None:
    product.endpoint(key).answer = lambda _: answer


def emitted(product: Product, number: int = 1) -> list[str]:
    return [product.emit().id for _ in range(number)]


def arrived(product: Product, key: SubscriptionKey) -> dict[str, int]:
    """How often each of the provider's events was accepted."""
    return {
        event_id: n
        for event_id, n in product.endpoint(key).accepted.items()
        if n and event_id in product.emitted
    }


def once(*event_ids: str) -> dict[str, int]:
    return dict.fromkeys(event_ids, 1)


def taken_off(product: Product, queue: str = "deliveries") -> list[Parcel]:
    """A queue's messages, held up somewhere until they are put back."""
    parcels = [parcel for _, parcel in product.world.queues[queue]]
    product.world.queues[queue].clear()
    return parcels


def put_back(product: Product, parcels: list[Parcel], queue: str = "deliveries") -> None:
    product.world.queues[queue] += [(product.now, parcel) for parcel in parcels]


def breaks(product: Product, key: SubscriptionKey, answer: Answer = DOWN) -> list[str]:
    """The endpoint answers so from now on, and five events at once open its circuit."""
    answers(product, key, answer)
    ids = emitted(product, 5)
    product.work()
    assert product.core.health(key).circuit.is_open
    return ids


def missed(product: Product, key: SubscriptionKey, number: int) -> list[str]:
    """So many events of a subscription that is paused."""
    product.pause(key)
    product.run(10 * MINUTE)
    ids = emitted(product, number)
    product.run(10 * MINUTE)
    return ids


def starts_recovering(product: Product, key: SubscriptionKey) -> None:
    """Re-enabled, and run until its canaries have arrived and its first slice is queued."""
    product.reenable(key)
    while len(product.world.queues["backfill"]) < 10:
        product.run(SECOND)


def is_given_back(product: Product, key: SubscriptionKey) -> None:
    """The endpoint is well and active again, and time passes."""
    answers(product, key, WELL)
    if product.present(key).status is Status.SUSPENDED:
        product.reenable(key)
    product.run(6 * HOUR)


# ── 1, 2: what was archived before a suspension and routed after it ───────────────────────────────


def by_its_owner(product: Product, key: SubscriptionKey) -> None:
    product.pause(key)


def by_the_policy(product: Product, _: SubscriptionKey) -> None:
    """The fifth 404 within an hour is delivered meanwhile."""
    product.deliver()


@pytest.mark.parametrize("suspend", [by_its_owner, by_the_policy])
def test_story_1_an_event_archived_before_a_suspension_and_routed_after_it_comes_back(
    suspend: Callable[[Product, SubscriptionKey], None],
) -> None:
    product, key = a_product()
    answers(product, key, GONE)
    early = emitted(product)
    product.run(30 * MINUTE)
    for _ in range(3):
        early += emitted(product)
        product.run(10 * MINUTE)
    early += emitted(product)
    product.fan_out()
    (late,) = emitted(product)

    def slowly() -> None:
        product.wait(69.5)
        suspend(product, key)

    product.at("Routes.matching", slowly)
    product.fan_out()
    assert product.present(key).status is Status.SUSPENDED
    assert late not in {parcel.key.event_id for parcel in product.queued()}
    is_given_back(product, key)
    assert arrived(product, key) == once(*early, late)


@pytest.mark.parametrize("late", [15 * MINUTE, 40 * MINUTE], ids=str)
@pytest.mark.parametrize("meanwhile", ["suspended", "active again", "active all along"])
def test_story_2_a_page_of_a_wide_fan_out_comes_when_the_suspension_has_begun(
    monkeypatch: pytest.MonkeyPatch, late: timedelta, meanwhile: str
) -> None:
    monkeypatch.setattr(fan_out_module, "WIDE", 1)
    product = Product()
    first, second = product.subscribe(key=a_key(1)), product.subscribe(key=a_key(2))
    product.run(HOUR)
    (event_id,) = emitted(product)
    product.fan_out()
    pages, product.pages = product.pages, []
    assert len(pages) == 2
    if meanwhile != "active all along":
        product.run(6 * MINUTE)
        product.pause(second)
    if meanwhile == "active again":
        product.reenable(second)
    product.run(late)
    product.pages = [(product.now, page) for _, page in pages]
    product.run(MINUTE)
    is_given_back(product, second)
    for key in (first, second):
        assert arrived(product, key) == once(event_id)


# ── 3, 4: how a circuit closes ────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("answer", [GONE, DOWN], ids=["permanent", "retryable"])
def test_story_3_what_was_deleted_before_an_open_circuit_comes_back_when_it_closes(answer: Answer) -> None:
    product, key = a_product()
    first = breaks(product, key, answer)
    later = []
    for _ in range(20):
        later += emitted(product)
        product.run(SECOND)
    assert product.queued() == [], "deleted without a write: the outage owes them"
    assert set(later).isdisjoint(delivery.event_id for delivery in product.world.deliveries)
    answers(product, key, WELL)
    product.run(3 * HOUR)
    by_itself = {*first, *later} if answer is DOWN else {*later}
    assert by_itself <= set(arrived(product, key))
    assert set(arrived(product, key).values()) == {1}


def test_story_3_where_nothing_is_left_to_try_the_closing_still_owes_the_window() -> None:
    product, key = a_product()
    breaks(product, key, GONE)
    product.edit_filter(key, "order.*")
    product.run(20 * SECOND)
    late = product.emit("order.sent").id
    product.run(SECOND)
    assert product.queued() == []
    assert DeliveryKey(key, late) not in product.world.deliveries
    for item in list(product.world.owed.values()):
        product.retry(product.world.deliveries[item.key])
    product.deliver()
    assert product.world.owed == {}, "they are wanted no more"
    answers(product, key, WELL)
    product.run(3 * HOUR)
    assert arrived(product, key) == once(late)


def test_story_4_a_success_that_began_before_the_circuit_opened_does_not_close_it() -> None:
    product, key = a_product()
    answers(product, key, DOWN)
    owed = emitted(product, 3)
    product.work()
    (slow,) = emitted(product)
    product.fan_out()

    def answer(event_id: str) -> Answer:
        if event_id != slow:
            return DOWN
        product.wait(5)
        owed.extend(emitted(product, 5))
        product.fan_out()
        product.deliver()
        owed.extend(emitted(product, 5))
        product.fan_out()
        product.deliver()
        return WELL

    product.endpoint(key).answer = answer
    product.deliver()
    health = product.core.health(key)
    assert (health.circuit.is_open, health.outage_from is not None) == (True, True)
    answers(product, key, WELL)
    product.run(3 * HOUR)
    assert arrived(product, key) == once(slow, *owed)


# ── 5 to 11: recoveries ───────────────────────────────────────────────────────────────────────────


def dies(product: Product, _: SubscriptionKey) -> None:
    product.kill()


def meets_an_open_circuit(product: Product, key: SubscriptionKey) -> None:
    breaks(product, key)


@pytest.mark.parametrize("happens", [dies, meets_an_open_circuit])
@pytest.mark.parametrize("after", [False, True], ids=["before it is queued", "after"])
def test_story_5_a_slice_that_was_found_and_not_queued_is_found_again(
    happens: Callable[[Product, SubscriptionKey], None], *, after: bool
) -> None:
    product, key = a_product()
    ids = missed(product, key, 400)
    starts_recovering(product, key)
    product.run(MINUTE / 2)
    product.at("Lanes.send", partial(happens, product, key), after=after)
    while product.awaited:
        product.run_executions()
        product.world.now += SECOND
    product.run(5 * MINUTE)
    is_given_back(product, key)
    assert set(arrived(product, key)) == set(product.emitted) >= set(ids)


@pytest.mark.parametrize("late", [31 * SECOND, HOUR], ids=str)
def test_story_6_a_recoverys_last_messages_come_when_it_is_done(late: timedelta) -> None:
    product, key = a_product()
    ids = missed(product, key, 3)
    product.reenable(key)
    while not (parcels := taken_off(product, "backfill")):
        product.run_executions()
        product.world.now += SECOND
    product.run(late)
    put_back(product, parcels, "backfill")
    product.work()
    assert arrived(product, key) == {}, "too late for the recovery's own pace"
    product.run(3 * HOUR)
    assert arrived(product, key) == once(*ids)


def test_story_7_what_is_exhausted_outside_of_any_outage_is_sent_again_by_itself() -> None:
    product, key = a_product()
    (unlucky,) = emitted(product)
    product.endpoint(key).answer = lambda event_id: DOWN if event_id == unlucky else WELL
    for _ in range(200):
        emitted(product)
        product.run(MINUTE)
    item = product.world.owed_of(DeliveryKey(key, unlucky))
    assert item is not None
    assert item.status is DeliveryStatus.EXHAUSTED
    assert product.core.health(key).outage_from is None
    answers(product, key, WELL)
    product.run(2 * HOUR)
    assert arrived(product, key)[unlucky] == 1
    assert product.world.owed == {}


def test_story_8_the_automatic_recovery_takes_what_is_held_whatever_its_class() -> None:
    product, key = a_product()
    never_tried = emitted(product)
    product.fan_out()
    delayed = taken_off(product)
    product.run(10 * MINUTE)
    tried = breaks(product, key)
    put_back(product, delayed)
    product.run(31 * SECOND)
    answers(product, key, GONE)
    tried += emitted(product)
    product.run(SECOND)
    outcomes = {item.outcome for item in product.world.owed.values() if item.status is DeliveryStatus.HELD}
    assert outcomes == {None, Outcome.RETRYABLE, Outcome.PERMANENT}
    answers(product, key, WELL)
    product.run(3 * HOUR)
    assert arrived(product, key) == once(*never_tried, *tried)


def test_story_9_a_window_joins_the_recovery_in_the_moment_it_is_done() -> None:
    product, key = a_product()
    breaks(product, key)
    answers(product, key, WELL)
    store, joined = product.core.health_store, list[str]()
    write_lock = store.write_lock

    def meanwhile(before: Any, lock: Any, recovery: Any, **options: Any) -> bool:
        """Another outage, from its beginning to its end, before the recovery writes that it is done."""
        if lock.status is RecoveryStatus.COMPLETED and not joined:
            joined.extend(breaks(product, key))
            for _ in range(5):
                joined.extend(emitted(product))
                product.fan_out()
                product.deliver()
            answers(product, key, WELL)
            product.wait(31)
            joined.extend(emitted(product))
            product.fan_out()
            product.deliver()
            assert not product.core.health(key).circuit.is_open
        return write_lock(before, lock, recovery, **options)

    store.write_lock = meanwhile  # type: ignore[method-assign]
    product.run(3 * HOUR)
    assert len(joined) == 11
    assert set(arrived(product, key)) == set(product.emitted)


def test_story_10_a_suspension_in_the_middle_of_a_recovery_does_not_keep_it_from_being_re_enabled() -> None:
    product, key = a_product()
    ids = missed(product, key, 400)
    starts_recovering(product, key)
    product.pause(key)
    product.run(HOUR)
    assert product.present(key).status is Status.SUSPENDED
    is_given_back(product, key)
    assert product.present(key).status is Status.ACTIVE
    assert arrived(product, key) == once(*ids)


def re_enabled(product: Product, key: SubscriptionKey) -> None:
    product.pause(key)
    product.reenable(key)


def the_circuit_closes(product: Product, key: SubscriptionKey) -> None:
    breaks(product, key)
    answers(product, key, WELL)


def replayed_by_hand(product: Product, key: SubscriptionKey) -> None:
    """Of the last minute alone; what an ended recovery left comes along."""
    replay(
        key,
        Asked(since=product.now - MINUTE, until=product.now),
        actor=ACTOR,
        now=product.now,
        config=product.world.config,
        subscriptions=product.core.subscriptions,
        health=product.core.health_store,
        audit=FakeAudit(product.world),
        workflow=FakeWorkflow(product.world),
        ids=product.core.ids,
    )
    product.sweep()


@pytest.mark.parametrize("goes_on", [re_enabled, the_circuit_closes, replayed_by_hand])
def test_story_11_after_a_cancel_what_is_owed_waits_for_the_next_recovery_of_any_kind(
    goes_on: Callable[[Product, SubscriptionKey], None],
) -> None:
    product, key = a_product()
    ids = missed(product, key, 400)
    starts_recovering(product, key)
    product.steer(key, "cancel")
    product.run(6 * HOUR)
    assert 0 < len(arrived(product, key)) < 400
    Rules(product).hold()
    goes_on(product, key)
    product.run(6 * HOUR)
    assert set(arrived(product, key)) == set(product.emitted) >= set(ids)


# ── 12, 13: other endpoints and filters ───────────────────────────────────────────────────────────
# Story 12, the swap of a URL while suspended, is told beside the other stories of a staged endpoint.


def verified(product: Product, token: str) -> SubscriptionKey:
    """A subscription whose owner shows the challenge now."""
    pending = a_pending_subscription(key=a_key(2), token_hash=token_hash(token))
    key = product.core.subscribe(pending)
    product.endpoints[key] = Endpoint()
    verify(
        key,
        token,
        actor=ACTOR,
        now=product.now,
        margins=product.core.margins,
        subscriptions=product.core.subscriptions,
        ids=product.core.ids,
    )
    return key


def test_story_13_a_first_activation_is_owed_what_is_archived_once_every_router_knows_it() -> None:
    product, _ = a_product(stale_routes=ROUTED_AFTER)
    key, watch = verified(product, "t" * 43), Rules(product)
    in_force_at = product.present(key).first_active_at
    assert in_force_at == product.now + ROUTED_AFTER
    ids = []
    for _ in range(20):
        ids += emitted(product)
        product.fan_out()
        watch.hold()
        product.run(SECOND)
    assert arrived(product, key) == once(*ids[10:])


def test_story_13_a_new_pattern_is_owed_what_is_archived_once_every_router_knows_it() -> None:
    product = Product(stale_routes=ROUTED_AFTER)
    key, watch = product.subscribe(event_types=("order.*",)), Rules(product)
    product.run(HOUR)
    product.edit_filter(key, "order.*", "invoice.*")
    ids = []
    for _ in range(20):
        ids += emitted(product)
        product.fan_out()
        watch.hold()
        product.run(SECOND)
    assert arrived(product, key) == once(*ids[10:])


# ── 14 to 16: the ledger ──────────────────────────────────────────────────────────────────────────


def test_story_14_a_recoverys_message_that_comes_late_is_sent_as_another_sequence() -> None:
    product, key = a_product()
    watch = Rules(product)
    (event_id,) = emitted(product)
    answers(product, key, DOWN)
    product.run(2.7 * HOUR)
    delivery = DeliveryKey(key, event_id)
    first = product.world.deliveries[delivery]
    assert (first.status, first.sequence, first.settled) == (DeliveryStatus.EXHAUSTED, 1, True)
    product.pause(key)
    product.reenable(key, probe=False)
    while not (parcels := taken_off(product, "backfill")):
        product.run_executions()
        product.world.now += SECOND
    product.run(31 * SECOND)
    put_back(product, parcels, "backfill")
    product.work()
    assert product.world.deliveries[delivery].status is DeliveryStatus.HELD
    product.steer(key, "cancel")
    answers(product, key, GONE)
    product.run(HOUR)
    watch.hold()
    record = product.world.deliveries[delivery]
    assert (record.sequence, record.settled, record.outcome) == (2, True, Outcome.PERMANENT)
    assert watch.counted == {(delivery, 1), (delivery, 2)}


def by_its_retry(product: Product) -> None:
    product.wait(7)
    product.deliver()


def by_the_sweep(product: Product) -> None:
    product.wait(60)
    product.sweep()


@pytest.mark.parametrize("met", [by_its_retry, by_the_sweep])
def test_story_15_an_owed_item_that_a_copys_success_left_behind_goes_with_whoever_meets_it(
    met: Callable[[Product], None],
) -> None:
    product, key = a_product()
    emitted(product)
    product.run(SECOND)
    (event_id,) = emitted(product)
    product.fan_out()
    (parcel,) = taken_off(product)
    copies = [parcel, replace(parcel)]

    def answer(_: str) -> Answer:
        """Of the first copy, while whose request is on its way the second fails, and is written down."""
        if not copies:
            return DOWN
        product.core.deliver(copies.pop())
        return WELL

    product.endpoint(key).answer = answer
    product.may_be_sent = {key: True}
    product.core.deliver(copies.pop())
    delivery = DeliveryKey(key, event_id)
    assert product.world.deliveries[delivery].status is DeliveryStatus.SUCCEEDED
    assert product.world.owed_of(delivery) is not None
    answers(product, key, WELL)
    before = len(product.endpoint(key).received)
    met(product)
    assert product.world.owed == {}
    assert len(product.endpoint(key).received) == before


def test_story_16_a_permanent_failure_waits_for_a_person_who_never_comes_and_expires() -> None:
    product, key = a_product()
    answers(product, key, GONE)
    (event_id,) = emitted(product)
    product.run(RETENTION - MINUTE)
    record = product.world.deliveries[DeliveryKey(key, event_id)]
    assert record.status is DeliveryStatus.EXHAUSTED
    product.run(5 * MINUTE)
    assert product.world.deliveries[record.key].status is DeliveryStatus.EXPIRED
    assert product.world.owed == {}
    assert len(product.endpoint(key).received) == 1

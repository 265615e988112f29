"""What good, bad and dead endpoints cost over hours and weeks, on the virtual clock."""

from datetime import timedelta
from itertools import pairwise

import pytest
from hookkeeper.domain.outcome import Answer
from hookkeeper.domain.subscription import DisabledReason, Status

from tests.builders import NOW
from tests.model.product import DOWN, GONE, HOUR, MINUTE, SECOND, UNKNOWN_HOST, WELL, Product

WEEK = timedelta(days=7)


def test_four_per_cent_errors_at_a_hundred_deliveries_a_second_never_open_the_circuit() -> None:
    product = Product()
    key = product.subscribe()
    product.endpoint(key).answer = lambda _: DOWN if product.random.random() < 0.04 else WELL
    failed = 0
    for _ in range(60):
        for _ in range(100):
            product.emit()
        for _ in range(10):
            product.fan_out()
        for _ in range(4):
            delivered = product.deliver(limit=25)
            assert delivered is not None
            failed += sum(report.outcome == "retryable" for report in delivered.reports)
            assert delivered.opened == []
        product.world.now += SECOND
    assert failed > 200
    assert not product.core.health(key).circuit.is_open
    product.run(4 * HOUR)
    assert set(product.endpoint(key).accepted) >= set(product.emitted)


def test_a_dead_endpoint_gets_a_request_in_five_minutes_and_is_suspended_after_twelve_hours() -> None:
    product = Product()
    key = product.subscribe()
    product.endpoint(key).answer = lambda _: DOWN
    counted_at: dict[int, timedelta] = {}
    while product.present(key).status is Status.ACTIVE:
        for _ in range(5):
            product.emit()
        product.run(MINUTE)
        counted_at.setdefault(product.core.health(key).consecutive_failures, product.now - NOW)
    assert counted_at[25] < 4 * HOUR, "counted well before the age is reached"
    suspended = product.now - NOW
    assert 12 * HOUR <= suspended < 12 * HOUR + 10 * MINUTE
    assert product.present(key).disabled_reason is DisabledReason.REPEATED_FAILURE
    settled = [at for at, _ in product.endpoint(key).received if at - NOW > HOUR]
    apart = [after - before for before, after in pairwise(settled)]
    assert min(apart) >= 5 * MINUTE
    assert len(product.emitted) > 3_000
    assert len(product.world.deliveries) + len(product.world.owed) < 400, "and its events cost nothing"


@pytest.mark.parametrize("answer", [GONE, DOWN, UNKNOWN_HOST], ids=["permanent", "retryable", "fatal"])
def test_one_event_a_week_to_a_dead_endpoint_is_counted_once_a_week(answer: Answer) -> None:
    product = Product()
    key = product.subscribe()
    product.endpoint(key).answer = lambda _: answer
    weeks = 2 if answer is UNKNOWN_HOST else 4
    for week in range(1, weeks + 1):
        product.emit()
        product.run(WEEK)
        assert product.core.health(key).consecutive_failures == week
    assert product.present(key).status is Status.ACTIVE
    attempts = {GONE: 1, DOWN: 6 + 3, UNKNOWN_HOST: 1 + 1}[answer]
    assert len(product.endpoint(key).received) == weeks * attempts, "the automatic recovery's among them"


def test_f39_an_unknown_host_with_an_event_a_minute_is_suspended_within_half_an_hour() -> None:
    product = Product()
    key = product.subscribe()
    product.endpoint(key).answer = lambda _: UNKNOWN_HOST
    while product.present(key).status is Status.ACTIVE:
        product.emit()
        product.run(MINUTE)
    assert 15 * MINUTE <= product.now - NOW <= 30 * MINUTE
    assert product.present(key).disabled_reason is DisabledReason.PERMANENT_ERROR


def test_f45_after_a_revocation_a_router_that_does_not_know_yet_causes_no_request() -> None:
    product = Product(stale_routes=timedelta(seconds=10))
    key = product.subscribe()
    product.run(MINUTE)
    product.emit()
    product.run(MINUTE)
    assert len(product.endpoint(key).received) == 1
    product.revoke(key)
    product.emit()
    product.fan_out()
    assert len(product.queued()) == 1, "the stale route queued it"
    product.run(HOUR)
    assert len(product.endpoint(key).received) == 1

"""Random walks with kills at any call: whatever happens, what is owed is delivered in the end."""

from datetime import timedelta

import pytest
from hookkeeper.domain.subscription import Status

from tests.model.product import DOWN, GONE, UNKNOWN_HOST, WELL, Product

STEPS = 120


@pytest.mark.parametrize("seed", range(40))
def test_nothing_is_lost_whatever_is_killed(seed: int) -> None:
    product = Product(seed=seed)
    key = product.subscribe()
    product.kill_chance = 0.01 if seed % 2 else 0.0
    product.meddle_chance = 0.02 if seed % 3 else 0.0
    product.meddle = lambda: _meddle(product, key)
    for _ in range(STEPS):
        _step(product, key)
    product.kill_chance = product.meddle_chance = 0.0
    product.endpoint(key).answer = lambda _: WELL
    _calm_down(product, key)
    accepted = product.endpoint(key).accepted
    lost = [event_id for event_id in product.emitted if not accepted[event_id]]
    assert lost == []
    twice = {event_id: n for event_id, n in accepted.items() if n > 1 and event_id in product.emitted}
    if not seed % 6:
        assert twice == {}, "one at a time and nothing killed: each exactly once, duplicates of SQS included"


def _step(product: Product, key: object) -> None:
    rng = product.random
    action = rng.choices(
        ["emit", "time", "mood", "pause", "reenable", "sweep", "duplicate"],
        weights=[10, 8, 3, 0.7, 1.5, 1, 2],
    )[0]
    if action == "emit":
        for _ in range(rng.choice([1, 1, 3, 8])):
            product.emit()
    elif action == "time":
        product.run(timedelta(seconds=rng.choice([0.2, 1, 5, 30, 60, 300, 1800, 7200])))
    elif action == "mood":
        mood = rng.choice([WELL, WELL, DOWN, GONE, UNKNOWN_HOST])
        flaky = rng.random() < 0.3
        product.endpoint(key).answer = (lambda _: WELL if rng.random() < 0.6 else mood) if flaky else (lambda _: mood)
    elif action == "pause":
        product.guarded(lambda: product.pause(key))
    elif action == "reenable":
        product.reenable(key)
    elif action == "duplicate":
        product.duplicate()
    else:
        product.sweep()


def _meddle(product: Product, key: object) -> None:
    rng = product.random
    action = rng.choice(["time", "deliver", "backfill", "sweep", "pause", "executions", "fan_out", "reenable"])
    if action == "time":
        product.world.now += timedelta(seconds=rng.choice([1, 10, 60, 110]))
    elif action == "deliver":
        product.deliver("deliveries")
    elif action == "backfill":
        product.deliver("backfill")
    elif action == "sweep":
        product.sweep()
    elif action == "pause" and rng.random() < 0.5:
        product.guarded(lambda: product.pause(key))
    elif action == "executions":
        product.run_executions()
    elif action == "fan_out":
        product.fan_out(2)
    elif action == "reenable":
        product.reenable(key)


def _calm_down(product: Product, key: object) -> None:
    """The endpoint is well, time passes, and its owner re-enables until all is quiet."""
    product.run(timedelta(hours=6))
    for _ in range(4):
        if product.present(key).status is Status.ACTIVE:
            product.pause(key)
        product.reenable(key)
        product.run(timedelta(hours=3))
        if product.present(key).status is Status.ACTIVE and not product.world.owed:
            break
    assert product.present(key).status is Status.ACTIVE

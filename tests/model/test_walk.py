"""Random walks with kills, meddlers, duplicates and lost messages: the one rule holds after every step."""

from collections.abc import Callable
from datetime import timedelta
from functools import partial

import hypothesis.strategies as st
from hookkeeper.domain.errors import OwnFaultError
from hookkeeper.domain.outcome import Answer
from hookkeeper.domain.subscription import Status
from hookkeeper.domain.tenancy import SubscriptionKey
from hypothesis import settings
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from tests.builders import a_key
from tests.model.product import DOWN, GONE, UNKNOWN_HOST, WELL, Product, status
from tests.model.rules import Rules

KEYS = st.sampled_from([a_key(1), a_key(1), a_key(2)])
SPANS = st.sampled_from([0.2, 1, 5, 30, 60, 300, 1800, 7200])
MOODS = st.sampled_from([WELL, DOWN, DOWN, GONE, UNKNOWN_HOST, status(429, retry_after="90"), None])
"""How an endpoint answers; None is one that is well six times of ten, and down else."""

BURSTS = st.lists(st.tuples(st.sampled_from([1, 1, 3, 8]), SPANS), min_size=1, max_size=4)
"""So many events, and the time after them."""

PEOPLE = ("pause", "reenable", "reenable", "cancel", "hold", "resume", "edit", "retry", "revoke")
QUEUES = ("duplicate", "lose", "bury", "redrive", "refuse")
MEDDLERS = ("kill", "break", "vanish", "throttle", "wait", "pause", "reenable")
INSTANCES = ("deliver", "backfill", "sweep", "executions", "fan_out")
THROTTLED_CALLS = 5


class Walk(RuleBasedStateMachine):
    """Two subscriptions of one tenant; the second takes invoices only."""

    @initialize(seed=st.integers(0, 2**16), stale=st.sampled_from([0, 10]))
    def begin(self, seed: int, stale: int) -> None:
        self.product = Product(seed=seed, stale_routes=timedelta(seconds=stale))
        self.product.subscribe(key=a_key(1))
        self.product.subscribe(key=a_key(2), event_types=("invoice.*",))
        self.watch = Rules(self.product)
        self.clean = True

    @rule(key=KEYS, mood=MOODS, bursts=BURSTS)
    def events_come(self, key: SubscriptionKey, mood: Answer | None, bursts: list[tuple[int, float]]) -> None:
        coin = self.product.random

        def moody(_: str) -> Answer:
            return mood or (WELL if coin.random() < 0.6 else DOWN)

        self.product.endpoint(key).answer = moody
        for count, seconds in bursts:
            for _ in range(count):
                self.product.emit(coin.choice(["invoice.paid", "order.sent"]))
            self.product.run(timedelta(seconds=seconds))

    @rule(key=KEYS, seconds=SPANS)
    def the_endpoint_is_mended(self, key: SubscriptionKey, seconds: float) -> None:
        self.product.endpoint(key).answer = lambda _: WELL
        self.product.run(timedelta(seconds=seconds))

    @rule(key=KEYS, verb=st.sampled_from(PEOPLE), seconds=SPANS)
    def someone_acts(self, key: SubscriptionKey, verb: str, seconds: float) -> None:
        product = self.product
        acts: dict[str, Callable[[], object]] = {
            "pause": partial(product.pause, key),
            "reenable": partial(product.reenable, key, probe=product.random.choice([None, False])),
            "cancel": partial(product.steer, key, "cancel"),
            "hold": partial(product.steer, key, "pause"),
            "resume": partial(product.steer, key, "resume"),
            "edit": partial(
                product.edit_filter, a_key(1), product.random.choice(["*", "invoice.*", "order.*"])
            ),
            "retry": self.retry_by_hand,
            "revoke": partial(product.revoke, a_key(2)),
        }
        acts[verb]()
        product.run(timedelta(seconds=seconds))

    def retry_by_hand(self) -> None:
        items = [
            item for item in self.product.world.owed.values() if item.key in self.product.world.deliveries
        ]
        if items:
            self.clean = False  # asked for twice, it may be sent twice
            self.product.retry(self.product.world.deliveries[self.product.random.choice(items).key])

    @rule(what=st.sampled_from(QUEUES))
    def a_queue_acts(self, what: str) -> None:
        if what == "refuse":
            self.product.core.lanes.refuses = lambda _: self.product.random.random() < 0.5
            self.product.run(timedelta(seconds=2))
            self.product.core.lanes.refuses = lambda _: False
        else:
            getattr(self.product, what)()

    @rule(calls=st.integers(1, 80), what=st.sampled_from(MEDDLERS + INSTANCES), key=KEYS)
    def in_between(self, calls: int, what: str, key: SubscriptionKey) -> None:
        """Something happens in the middle of what comes next, so many calls from now."""
        product = self.product
        acts: dict[str, Callable[[], object]] = {
            "kill": product.kill,
            "break": product.break_execution,
            "vanish": partial(product.break_execution, told=False),
            "throttle": throttled,
            "wait": self.wait,
            "pause": partial(product.pause, key),
            "reenable": partial(product.reenable, key),
            "deliver": product.deliver,
            "backfill": partial(product.deliver, "backfill"),
            "sweep": product.sweep,
            "executions": product.run_executions,
            "fan_out": partial(product.fan_out, 2),
        }
        self.clean = False
        for n in range(THROTTLED_CALLS if what == "throttle" else 1):
            product.arrange(calls + n, acts[what])

    def wait(self) -> None:
        self.product.world.now += timedelta(seconds=self.product.random.choice([1, 10, 60, 110]))

    # ── what holds ───────────────────────────────────────────────────────────────────────────────

    @invariant()
    def the_rules_hold(self) -> None:
        if hasattr(self, "watch"):
            self.watch.hold()

    def teardown(self) -> None:
        if not hasattr(self, "watch"):
            return
        self.calm_down()
        self.watch.hold()
        self.watch.at_rest()
        self.give_a_hand()
        self.watch.all_arrived()
        if self.clean:
            self.watch.each_once()

    def calm_down(self) -> None:
        """Everything is well again, and time passes until all has settled that settles by itself."""
        product = self.product
        product.arranged.clear()
        product.redrive()
        for key, endpoint in product.endpoints.items():
            endpoint.answer = lambda _: WELL
            product.steer(key, "resume")
        product.run(timedelta(hours=6))
        for key in product.endpoints:
            product.reenable(key)
        product.run(timedelta(hours=6))

    def give_a_hand(self) -> None:
        """A person sees to what waits for one."""
        product = self.product
        for key in product.endpoints:
            if product.present(key).status is not Status.REVOKED:
                product.pause(key)
                product.reenable(key)
        product.run(timedelta(hours=3))


def throttled() -> None:
    raise OwnFaultError("throttled")


TestWalk = Walk.TestCase
TestWalk.settings = settings(max_examples=60, stateful_step_count=20, derandomize=True)

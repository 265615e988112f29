"""Random walks with kills, meddlers, duplicates and lost messages: the one rule holds after every step."""

from collections.abc import Callable
from datetime import timedelta
from functools import partial

import hypothesis.strategies as st
import pytest
from hookkeeper.domain.config import RuntimeConfig
from hookkeeper.domain.errors import OwnFaultError
from hookkeeper.domain.outcome import Answer
from hookkeeper.domain.subscription import Status
from hookkeeper.domain.tenancy import SubscriptionKey
from hookkeeper.usecases import fan_out
from hookkeeper.usecases.fan_out import WIDE
from hypothesis import settings
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from tests.builders import a_key
from tests.model.product import DOWN, GONE, UNKNOWN_HOST, WELL, Product, status
from tests.model.rules import Rules

KEYS = st.sampled_from([1, 1, 2]).map(a_key)
SPANS = st.sampled_from([0.2, 1, 5, 30, 60, 300, 1800, 7200])
MOODS = {
    "well": WELL,
    "down": DOWN,
    "gone": GONE,
    "no such host": UNKNOWN_HOST,
    "too many": status(429, retry_after="90"),
}
"""How an endpoint answers; or it is "flaky": well six times of ten, and down else."""

BURSTS = st.lists(st.tuples(st.sampled_from([1, 3, 8, 8]), SPANS), min_size=1, max_size=4)
"""So many events, and the time after them."""

PEOPLE = ("pause", "reenable", "edit", "swap", "retry", "revoke", "resume", "outage")
DISTURBERS = ("pause", "cancel", "hold", "resume", "down", "swap", "break", "vanish", "outage", "events")
QUEUES = ("duplicate", "lose", "bury", "redrive", "hold_up", "refuse")
BETWEEN = {
    "events": (
        ("Archive.put", "Routes.matching", "Pages.send", "Lanes.send", "EventItems.put"),
        ("kill", "kill", "pause", "outage", "edit", "swap", "reenable", "fan_out"),
    ),
    "deliveries": (
        (
            *("Ledger.read_batch", "Sender.send", "Ledger.settle", "Ledger.put_clean", "Lanes.send"),
            *("HealthStore.write_circuit", "HealthStore.close_circuit", "Subscriptions.transition"),
        ),
        ("kill", "kill", "pause", "opening", "outage", "swap", "throttle", "deliver", "sweep"),
    ),
    "a recovery": (
        (
            *("Subscriptions.transition", "Archive.events", "Ledger.owed", "Recoveries.note_sent"),
            *("Lanes.send", "Ledger.move_due", "HealthStore.write_lock", "Ledger.read"),
        ),
        (
            *("kill", "kill", "kill", "pause", "opening", "outage", "cancel", "break", "vanish"),
            *("executions", "backfill", "down", "hold_up", "hold_up"),
        ),
    ),
    "the sweep": (
        ("Ledger.due", "Ledger.read_batch", "Ledger.move_due", "Lanes.send", "HealthStore.due"),
        ("kill", "pause", "throttle", "deliver", "executions", "sweep"),
    ),
}
"""What is at work; the calls in the middle of which something may happen; and what may."""

SECONDS = {"events": 1, "deliveries": 10, "a recovery": 60, "the sweep": 120}
MEETINGS = st.sampled_from(sorted(BETWEEN)).flatmap(
    lambda work: st.tuples(st.just(work), *map(st.sampled_from, BETWEEN[work]))
)


class Walk(RuleBasedStateMachine):
    """Two subscriptions of one tenant; the second takes invoices only."""

    def __init__(self) -> None:
        super().__init__()
        self.patch = pytest.MonkeyPatch()

    @initialize(
        seed=st.integers(0, 2**16),
        stale=st.sampled_from([0, 10]),
        wide=st.sampled_from([WIDE, 1]),
        retention=st.sampled_from([168, 168, 12]),
        strays=st.sampled_from([0, 0, 0.1]),
    )
    def begin(self, seed: int, stale: int, wide: int, retention: int, strays: float) -> None:
        self.patch.setattr(fan_out, "WIDE", wide)
        self.product = Product(seed=seed, stale_routes=timedelta(seconds=stale), strays=strays)
        self.product.world.config = RuntimeConfig(retention=timedelta(hours=retention))
        self.product.subscribe(key=a_key(1))
        self.product.subscribe(key=a_key(2), event_types=("invoice.*",))
        self.watch = Rules(self.product)
        self.clean = True

    @rule(key=KEYS, mood=st.sampled_from(["well", "down", *MOODS, "flaky"]), bursts=BURSTS)
    def events_come(self, key: SubscriptionKey, mood: str, bursts: list[tuple[int, float]]) -> None:
        self.turn(key, mood)
        for count, seconds in bursts:
            self.emit(count)
            self.run(seconds)

    @precondition(lambda self: self.in_outage())
    @rule(seconds=SPANS, probe=st.sampled_from([None, False]))
    def an_outage_ends(self, seconds: float, *, probe: bool | None) -> None:
        for key in self.in_outage():
            self.turn(key, "well")
            self.product.reenable(key, probe=probe)
        self.run(seconds)

    @precondition(lambda self: self.recovering())
    @rule(what=st.sampled_from(DISTURBERS), seconds=SPANS)
    def a_recovery_is_disturbed(self, what: str, seconds: float) -> None:
        for key in self.recovering():
            self.act(what, key)
        self.run(seconds)

    @rule(key=KEYS, verb=st.sampled_from(PEOPLE), seconds=SPANS)
    def someone_acts(self, key: SubscriptionKey, verb: str, seconds: float) -> None:
        self.act(verb, key)
        self.run(seconds)

    @rule(what=st.sampled_from(QUEUES))
    def a_queue_acts(self, what: str) -> None:
        if what == "refuse":
            self.product.core.lanes.refuses = lambda _: self.product.random.random() < 0.5
            self.run(2)
            self.product.core.lanes.refuses = lambda _: False
        else:
            getattr(self.product, what)()

    @rule(
        meeting=MEETINGS,
        nth=st.sampled_from([1, 1, 2, 3]),
        after=st.booleans(),
        seconds=st.sampled_from([0, 90]),
        mood=st.sampled_from(["well", "down", "flaky"]),
        key=KEYS,
    )
    def something_comes_between(
        self,
        meeting: tuple[str, str, str],
        nth: int,
        seconds: int,
        mood: str,
        key: SubscriptionKey,
        *,
        after: bool,
    ) -> None:
        """Time passes, and something happens, in the middle of what is at work."""
        self.clean = False
        work, call, what = meeting

        def happens() -> None:
            self.product.wait(seconds)
            self.act(what, key)

        self.turn(key, mood)
        if work == "deliveries":
            self.comes(2)
        elif work == "a recovery":
            self.begin_recovery(key)
        self.product.at(call, happens, nth=nth, after=after)
        if work in ("events", "deliveries"):
            self.emit(3)
        self.run(SECONDS[work])

    def begin_recovery(self, key: SubscriptionKey) -> None:
        if not self.recovering():
            self.product.pause(key)
            self.emit(8)
            self.run(1)
            self.turn(key, "well")
            self.product.reenable(key)

    # ── the acts ─────────────────────────────────────────────────────────────────────────────────

    def act(self, what: str, key: SubscriptionKey) -> None:
        product = self.product
        acts: dict[str, Callable[[], object]] = {
            "nothing": lambda: None,
            "pause": partial(product.pause, key),
            "reenable": partial(product.reenable, key),
            "cancel": partial(product.steer, key, "cancel"),
            "hold": partial(product.steer, key, "pause"),
            "resume": partial(product.steer, key, "resume"),
            "edit": self.edit_filter,
            "swap": partial(product.swap_url, key),
            "retry": self.retry_by_hand,
            "revoke": partial(product.revoke, a_key(2)),
            "down": partial(self.turn, key, "down"),
            "opening": partial(self.open_circuit, key),
            "outage": partial(self.outage, key),
            "events": partial(self.emit, 8),
            "kill": product.kill,
            "throttle": throttled,
            "break": product.break_execution,
            "vanish": partial(product.break_execution, told=False),
            "deliver": product.deliver,
            "backfill": partial(product.deliver, "backfill"),
            "sweep": product.sweep,
            "executions": product.run_executions,
            "fan_out": partial(product.fan_out, 2),
            "hold_up": product.hold_up,
        }
        acts[what]()

    def turn(self, key: SubscriptionKey, mood: str) -> None:
        coin = self.product.random

        def moody(_: str) -> Answer:
            return MOODS.get(mood) or (WELL if coin.random() < 0.6 else DOWN)

        self.product.endpoint(key).answer = moody

    def open_circuit(self, key: SubscriptionKey) -> None:
        """Failures alone, then it is well again."""
        self.turn(key, "down")
        self.comes(8)
        self.turn(key, "well")

    def outage(self, key: SubscriptionKey) -> None:
        """One from its beginning to its end."""
        self.open_circuit(key)
        self.comes(3)
        self.product.wait(31)
        self.comes(1)

    def comes(self, count: int) -> None:
        """So many events, taken in and delivered at once."""
        self.emit(count)
        self.product.fan_out()
        self.product.deliver()

    def emit(self, count: int) -> None:
        for _ in range(count):
            self.product.emit(self.product.random.choice(["invoice.paid", "order.sent"]))

    def run(self, seconds: float) -> None:
        self.product.run(timedelta(seconds=seconds))

    def edit_filter(self) -> None:
        self.product.edit_filter(a_key(1), self.product.random.choice(["*", "invoice.*", "order.*"]))

    def retry_by_hand(self) -> None:
        world = self.product.world
        items = [item for item in world.owed.values() if item.key in world.deliveries]
        if items:
            self.clean = False  # asked for twice, it may be sent twice
            self.product.retry(world.deliveries[self.product.random.choice(items).key])

    def in_outage(self) -> list[SubscriptionKey]:
        return [
            key
            for key, health in self.product.world.health.items()
            if health.circuit.is_open or self.product.present(key).status is Status.SUSPENDED
        ]

    def recovering(self) -> list[SubscriptionKey]:
        return [key for key, health in self.product.world.health.items() if health.recovery.held]

    # ── what holds ───────────────────────────────────────────────────────────────────────────────

    @invariant()
    def the_rules_hold(self) -> None:
        if hasattr(self, "watch"):
            self.watch.hold()

    def teardown(self) -> None:
        try:
            if hasattr(self, "watch"):
                self.end_well()
        finally:
            self.patch.undo()

    def end_well(self) -> None:
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
        product.awaited.clear()
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
TestWalk.settings = settings(max_examples=200, stateful_step_count=25, derandomize=True)

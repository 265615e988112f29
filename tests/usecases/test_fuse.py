"""The fuse between verdict and suspension: our own faults suspend nobody, a dead host is suspended."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from datetime import timedelta

import pytest
from hookkeeper.domain.circuit import Circuit
from hookkeeper.domain.config import RuntimeConfig
from hookkeeper.domain.delivery import DeliveryStatus
from hookkeeper.domain.fuse import CANARY_URL, FuseRules, counted
from hookkeeper.domain.health import Streak
from hookkeeper.domain.notice import NoticeKind
from hookkeeper.domain.outbound import OutboundRequest
from hookkeeper.domain.outcome import Answer, Fault, Outcome
from hookkeeper.domain.subscription import Status
from hookkeeper.domain.tenancy import Mode
from hookkeeper.usecases.count_hosts import CountPorts, count_hosts
from hookkeeper.usecases.deliver import Delivered
from hookkeeper.usecases.suspend import Ruled, Ruling

from tests.builders import (
    HOUR,
    MINUTE,
    NOW,
    a_health,
    a_key,
    a_scope,
    a_subscription,
    a_suspended_subscription,
    a_tenant,
    an_event,
)
from tests.core import Core
from tests.fakes import FakeAccess
from tests.model.product import WELL, Product

DEAD = Answer(status_code=500, latency_ms=50)
NO_LOOK_UP = Answer(fault=Fault.DNS_TEMPORARY, latency_ms=50)


class Fleet(Core):
    """Subscriptions on the brink: each fails since 13 h, and its next failure crosses the limit."""

    def __init__(self, count: int, *, hosts: int | None = None) -> None:
        super().__init__()
        first = NOW - 13 * HOUR
        self.keys = [a_key(n) for n in range(count)]
        for n, key in enumerate(self.keys):
            health = a_health(
                streaks={Outcome.RETRYABLE: Streak(24, first)},
                consecutive_failures=24,
                first_failure_at=first,
                last_attempt_at=NOW - 5 * MINUTE,
                circuit=Circuit(version=9, open_until=NOW, interval=timedelta(minutes=5)),
                outage_from=first - 5 * MINUTE,
            )
            url = f"https://h{n % (hosts or count)}.example.com/{n}"
            self.subscribe(a_subscription(key=key, endpoint_url=url), health)

    def fail(self, answer: Answer = DEAD, *, canary: Answer = WELL) -> Sequence[Delivered]:
        """One trial of each, in batches, answered so."""

        def says(request: OutboundRequest) -> Answer:
            return canary if request.url == CANARY_URL else answer

        self.answer = says
        event = an_event(self.world.ids_made + 1)
        parcels = [self.archived(key, event) for key in self.keys if self.present(key).enabled]
        return [self.deliver(*parcels[n : n + 25]) for n in range(0, len(parcels), 25)]

    def suspended(self) -> int:
        return sum(self.present(key).status is Status.SUSPENDED for key in self.keys)

    def failures(self) -> set[int]:
        return {self.health(key).consecutive_failures for key in self.keys if self.present(key).enabled}


def rulings(batches: Sequence[Delivered]) -> Counter[Ruling]:
    return Counter(ruled.ruling for batch in batches for ruled in batch.rulings.values())


# ── our own fault ────────────────────────────────────────────────────────────────────────────────


def test_f40_500_subscriptions_that_fail_together_by_our_resolver_are_not_suspended_and_get_everything() -> (
    None
):
    fleet = Fleet(500)
    batches = fleet.fail(NO_LOOK_UP, canary=NO_LOOK_UP)
    assert fleet.suspended() == 0
    assert fleet.failures() == {25}, "counting goes on"
    assert rulings(batches) == {Ruling.WAITS: 500}
    assert batches[0].latched
    waiting = []
    for _ in range(5):
        fleet.later(6 * MINUTE)
        swept = fleet.sweep().done
        waiting.append(swept["policy_waits"])
        assert swept["policy_suspended"] == 0
    assert {0, 500} == set(waiting), "what the one alarm looks at, and it ends"
    assert fleet.suspended() == 0, "the latch has opened, but nothing was tried since"
    fleet.answer = lambda _: WELL
    for key in fleet.keys:
        fleet.deliver(fleet.archived(key, an_event(999)))
    assert fleet.suspended() == 0
    assert fleet.failures() == {0}
    assert len(fleet.world.recoveries) == 500, "each circuit closed with the recovery of what it owes"
    some = fleet.keys[::25]
    for key in some:
        fleet.take_up(key)
        fleet.slice(key)
    while parcels := fleet.take("backfill"):
        fleet.deliver(*parcels)
    arrived = [d.status for d in fleet.world.deliveries.values() if d.key.subscription in some]
    assert arrived == [DeliveryStatus.SUCCEEDED] * 2 * len(some), "what failed, and what came after it"


def test_f40_thirteen_hours_without_a_resolver_cost_nobody_a_delivery_or_a_suspension() -> None:
    product = Product()
    product.world.config = RuntimeConfig(fuse=FuseRules(canary_url=None))
    keys = [product.subscribe(key=a_key(n), endpoint_url=f"https://h{n}.example.com/in") for n in range(12)]
    for key in keys:
        product.endpoint(key).answer = lambda _: NO_LOOK_UP
    waited = 0
    for _ in range(13 * 6):
        for _ in range(5):
            product.emit()
        product.run(10 * MINUTE)
        waited += product.world.fuse.latched_at is not None
    assert waited
    assert {product.present(key).status for key in keys} == {Status.ACTIVE}
    for key in keys:
        product.endpoint(key).answer = lambda _: WELL
    product.run(3 * HOUR)
    assert {product.present(key).status for key in keys} == {Status.ACTIVE}
    assert product.world.notices_of(NoticeKind.SUSPENDED) == []
    for key in keys:
        assert set(product.endpoint(key).accepted) == set(product.emitted)
    assert product.world.owed == {}


def test_f19_while_no_secret_can_be_opened_nothing_is_sent_counted_or_suspended() -> None:
    fleet = Fleet(8)
    fleet.secrets.unavailable = True
    batches = fleet.fail(WELL)
    assert batches[0].latched
    assert fleet.world.requests == []
    assert fleet.failures() == {24}
    fleet.secrets.unavailable = False
    assert rulings(fleet.fail(DEAD)) == {Ruling.WAITS: 8}
    fleet.later(10 * MINUTE)
    assert rulings(fleet.fail(DEAD))[Ruling.SUSPENDED] == 5


def test_a_canary_that_is_silent_stops_what_the_bucket_would_let_through() -> None:
    fleet = Fleet(40)
    timeout = Answer(fault=Fault.CONNECT_TIMEOUT, latency_ms=3000)
    fleet.fail(timeout, canary=timeout)
    assert fleet.suspended() == 5, "until the bucket was full, nothing spoke against us"
    for _ in range(5):
        fleet.later(5 * MINUTE)
        assert rulings(fleet.fail(timeout, canary=timeout)) == {Ruling.WAITS: 35}
    assert fleet.suspended() == 5


def test_the_canary_is_asked_once_a_minute_and_only_while_verdicts_wait() -> None:
    fleet = Fleet(100)
    fleet.fail(DEAD)
    asked = [request for request in fleet.world.requests if request.url == CANARY_URL]
    assert len(asked) == 1
    assert asked[0].body == b"{}"
    few = Fleet(5)
    few.fail(DEAD)
    assert CANARY_URL not in {request.url for request in few.world.requests}


def test_a_stage_without_a_canary_asks_nobody() -> None:
    fleet = Fleet(10)
    fleet.world.config = RuntimeConfig(fuse=FuseRules(canary_url=None))
    fleet.fail(DEAD)
    assert len(fleet.world.requests) == 10


# ── theirs ───────────────────────────────────────────────────────────────────────────────────────


def test_one_customers_twelve_subscriptions_on_one_dead_host_are_suspended_all_the_same() -> None:
    fleet = Fleet(12, hosts=1)
    fleet.fail(DEAD)
    assert fleet.suspended() == 12


def test_f40_where_most_endpoints_fail_together_five_are_suspended_and_the_others_wait() -> None:
    fleet = Fleet(30)
    batches = fleet.fail(DEAD)
    assert rulings(batches) == {Ruling.SUSPENDED: 5, Ruling.WAITS: 25}
    assert fleet.failures() == {25}


def test_what_waits_is_suspended_span_by_span_though_nothing_fails_any_more() -> None:
    fleet = Fleet(12)
    fleet.fail(DEAD)
    seen = []
    for _ in range(26):
        fleet.later(MINUTE)
        fleet.sweep()
        seen.append(fleet.suspended())
    assert seen[:9] == [5] * 9
    assert seen[15] == 10
    assert seen[-1] == 12
    assert len(fleet.world.notices_of(NoticeKind.SUSPENDED)) == 12, "each owner is told once"


def test_what_waits_is_forgiven_by_a_success() -> None:
    fleet = Fleet(6)
    fleet.fail(DEAD)
    (waiting,) = (key for key in fleet.keys if fleet.present(key).enabled)
    fleet.later(6 * MINUTE)
    fleet.answer = lambda _: WELL
    fleet.deliver(fleet.archived(waiting, an_event(99)))
    for _ in range(20):
        fleet.later(MINUTE)
        fleet.sweep()
    assert fleet.present(waiting).enabled
    assert fleet.health(waiting).check_at is None, "nothing is asked for ever"


def test_a_hundred_active_hosts_widen_the_bucket_once_verdicts_wait() -> None:
    fleet = Fleet(200)
    FakeAccess(fleet.world).create_tenant(a_tenant(fleet.keys[0].scope.tenant_id))
    fleet.fail(DEAD)
    assert fleet.suspended() == 5
    fleet.later(5 * MINUTE)
    assert fleet.sweep().done["hosts_counted"] == 195
    fleet.later(5 * MINUTE)
    fleet.sweep()
    assert fleet.suspended() == 5 + 9


# ── what it costs, and a crash ───────────────────────────────────────────────────────────────────


def test_a_delivery_never_asks_the_fuse_but_for_a_suspension_or_a_fault_of_ours() -> None:
    core, calls = Core(), list[str]()
    key = core.subscribe()
    core.world.before_call = calls.append
    answers = iter([WELL, DEAD, Answer(status_code=404, latency_ms=5)])
    core.answer = lambda _: next(answers)
    for n in range(3):
        core.deliver(core.archived(key, an_event(n)))
    assert not [call for call in calls if "Fuse" in call]


class KilledError(BaseException):
    pass


@pytest.mark.parametrize("call", ["Fuse.read", "Fuse.write", "Subscriptions.transition"])
def test_a_crash_between_the_fuse_and_the_suspension_is_made_good_by_the_sweep(call: str) -> None:
    fleet = Fleet(1)

    def kill(name: str) -> None:
        if name == call:
            raise KilledError

    fleet.world.before_call = kill
    with pytest.raises(KilledError):
        fleet.fail(DEAD)
    fleet.world.before_call = None
    fleet.later(3 * MINUTE)
    fleet.sweep()
    assert fleet.suspended() == 1


def test_a_fuse_that_cannot_be_read_hands_no_message_back_and_suspends_nobody() -> None:
    fleet = Fleet(1)

    def refuse(name: str) -> None:
        if name.startswith("Fuse"):
            raise OSError("the table is away")

    fleet.world.before_call = refuse
    (batch,) = fleet.fail(DEAD)
    assert {report.fate for report in batch.reports} == {"done"}
    assert len(batch.errors) == 1
    assert fleet.suspended() == 0


def test_of_a_bucket_that_is_full_each_ruling_says_by_which_arithmetic() -> None:
    fleet = Fleet(6)
    fleet.fail(DEAD)
    (waiting,) = (key for key in fleet.keys if fleet.present(key).enabled)
    ruled: Ruled = fleet.suspend(waiting)
    assert ruled.ruling is Ruling.WAITS
    assert ruled.verdict is not None
    assert ruled.verdict.gate is not None
    assert ruled.verdict.gate.count == 25


# ── the count of hosts ───────────────────────────────────────────────────────────────────────────


def counting(core: Core) -> CountPorts:
    return CountPorts(access=FakeAccess(core.world), subscriptions=core.subscriptions, fuse=core.fuse)


def test_hosts_are_counted_once_over_tenants_and_modes_and_only_while_active() -> None:
    core = Core()
    for tenant in ("acme", "bolt"):
        FakeAccess(core.world).create_tenant(a_tenant(tenant))
    scopes = [a_scope("acme"), a_scope("acme", Mode.TEST), a_scope("bolt")]
    for n, scope in enumerate(scopes):
        core.subscribe(a_subscription(key=a_key(1, scope), endpoint_url=f"https://a.example.com/{n}"))
        core.subscribe(a_subscription(key=a_key(2, scope), endpoint_url=f"https://b{n}.example.com/"))
    core.subscribe(
        a_suspended_subscription(key=a_key(3, scopes[0]), endpoint_url="https://dead.example.com/")
    )
    assert count_hosts(now=NOW, rules=FuseRules(), ports=counting(core)) == 4
    assert core.fuse.read().active_hosts == 4


def test_a_count_serves_for_a_day() -> None:
    core = Core()
    assert count_hosts(now=NOW, rules=FuseRules(), ports=counting(core)) == 0
    for at, expected in ((NOW + 24 * HOUR - MINUTE, None), (NOW + 24 * HOUR, 0)):
        assert count_hosts(now=at, rules=FuseRules(), ports=counting(core)) == expected


def test_a_count_ends_where_the_bucket_grows_no_more() -> None:
    core = Core()
    FakeAccess(core.world).create_tenant(a_tenant("acme"))
    for n in range(700):
        core.subscribe(a_subscription(key=a_key(n), endpoint_url=f"https://h{n}.example.com/"))
    rules = FuseRules(share_of_hosts=1.0)
    assert count_hosts(now=NOW, rules=rules, ports=counting(core)) == 500
    state = replace(core.fuse.read(), version=0)
    assert rules.limit(counted(state, hosts=500, now=NOW).active_hosts) == 500

"""Recoveries told as stories: outages, suspensions and replays over simulated days, and their numbers."""

from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import replace
from datetime import datetime, timedelta
from itertools import pairwise

import pytest
from hookkeeper.domain.delivery import DeliveryStatus
from hookkeeper.domain.health import PRESETS, AutoSuspend
from hookkeeper.domain.ladder import AutoProbe
from hookkeeper.domain.notice import NoticeKind
from hookkeeper.domain.outcome import Answer
from hookkeeper.domain.recovery import Recovery, RecoveryKind, RecoveryStatus
from hookkeeper.domain.replay import Only
from hookkeeper.domain.subscription import Status
from hookkeeper.domain.tenancy import SubscriptionKey
from hookkeeper.usecases.replay import Asked, replay
from hookkeeper.usecases.retry import retry

from tests.builders import ACTOR, HOUR, MINUTE, a_key
from tests.fakes import FakeAudit, FakeWorkflow
from tests.model.product import DOWN, GONE, WELL, Product, status

DAY = 24 * HOUR
SECOND = timedelta(seconds=1)
BAD_REQUEST = status(400)
OBSERVE = AutoSuspend.OBSERVE


def suspended(product: Product, **changes: object) -> SubscriptionKey:
    """A subscription that is suspended a moment after it began."""
    key = product.subscribe(**changes)
    product.run(10 * MINUTE)
    product.pause(key)
    return key


def missed(product: Product, number: int, *, every: timedelta, event_type: str = "invoice.paid") -> list[str]:
    """So many events, each archived when it is emitted, and nothing else happening meanwhile."""
    ids = []
    for _ in range(number):
        ids.append(product.emit(event_type).id)
        product.fan_out()
        product.world.now += every
    return ids


def back_again(product: Product, key: SubscriptionKey, *, within: timedelta = HOUR) -> Recovery:
    """Re-enabled, and its recovery run to its end."""
    product.reenable(key)
    until = product.now + within
    while product.now < until:
        product.run(MINUTE)
        lock = product.core.health(key).recovery
        if not lock.held:
            return recovery_of(product, key)
    raise AssertionError(f"{lock} is not done within {within}")


def recovery_of(product: Product, key: SubscriptionKey) -> Recovery:
    return product.world.recoveries[key.scope, product.core.health(key).recovery.id or ""]


def numbers(recovery: Recovery) -> dict[str, int]:
    names = ("found", "sent", "succeeded", "failed", "expired")
    return {name: getattr(recovery, name) for name in names if getattr(recovery, name)}


def accepted(product: Product, key: SubscriptionKey) -> Counter[str]:
    """How often each event of the provider's arrived."""
    arrived = product.endpoint(key).accepted
    return Counter({event_id: n for event_id, n in arrived.items() if event_id in product.emitted and n})


def refusing(bad: set[str]) -> Callable[[str], Answer]:
    """An endpoint that answers 400 to these."""
    return lambda event_id: BAD_REQUEST if event_id in bad else WELL


def always(answer: Answer) -> Callable[[str], Answer]:
    return lambda _: answer


# ── what comes back after a suspension ───────────────────────────────────────────────────────────


def test_of_30_days_suspension_exactly_the_retention_comes_back_and_the_rest_is_told_expired() -> None:
    product = Product()
    key = suspended(product)
    ids = missed(product, 30 * 24, every=HOUR)
    edge = product.now - product.world.config.retention
    archived = {a.event.id: a.archived_at for a in product.world.archived()}
    kept = [event_id for event_id in ids if archived[event_id] >= edge]
    recovery = back_again(product, key)
    assert len(kept) == 7 * 24
    assert accepted(product, key) == Counter(kept)
    assert recovery.status is RecoveryStatus.COMPLETED
    assert numbers(recovery) == {
        "found": 30 * 24,
        "sent": 7 * 24,
        "succeeded": 7 * 24,
        "expired": 23 * 24,
    }


def test_f26_bytes_that_have_left_the_archive_do_not_stop_the_count() -> None:
    product = Product()
    key = suspended(product)
    missed(product, 20, every=DAY)
    archive, edge = product.core.archive, product.now - product.world.config.retention
    plain = archive.events

    def events(scope: object, *, start: datetime, until: datetime, after: object = None) -> object:
        assert start >= edge, "the objects before it are gone"
        return plain(scope, start=start, until=until, after=after)  # type: ignore[arg-type]

    archive.events = events  # type: ignore[method-assign,assignment]
    recovery = back_again(product, key)
    assert (recovery.sent, recovery.expired) == (7, 13)


def test_a_filter_edited_twice_in_the_middle_takes_what_it_took_at_the_time() -> None:
    product = Product()
    key = suspended(product, event_types=("invoice.*", "order.*"))
    first = [missed(product, 20, every=SECOND, event_type=t) for t in ("invoice.paid", "order.paid")]
    product.edit_filter(key, "invoice.*")
    product.world.now += MINUTE
    second = [missed(product, 20, every=SECOND, event_type=t) for t in ("invoice.paid", "order.paid")]
    product.edit_filter(key, "invoice.*", "user.*")
    product.world.now += MINUTE
    third = [missed(product, 20, every=SECOND, event_type=t) for t in ("invoice.paid", "user.added")]
    none = missed(product, 20, every=SECOND, event_type="order.paid")
    recovery = back_again(product, key)
    wanted = [*first[0], *second[0], *third[0], *third[1]]
    assert accepted(product, key) == Counter(wanted)
    assert none
    assert numbers(recovery) == {"found": 80, "sent": 80, "succeeded": 80}


def test_f24_what_comes_before_and_after_the_edges_of_a_suspension_comes_once() -> None:
    product = Product(stale_routes=10 * SECOND)
    key = product.subscribe()
    product.run(HOUR)
    for _ in range(30):
        product.emit()
        product.run(2 * SECOND)
    product.pause(key)
    for _ in range(30):
        product.emit()
        product.run(2 * SECOND)
    product.reenable(key)
    for _ in range(60):
        product.emit()
        product.run(2 * SECOND)
    product.run(HOUR)
    assert accepted(product, key) == Counter(list(product.emitted))


@pytest.mark.parametrize("delay", [SECOND, MINUTE, 4 * MINUTE])
@pytest.mark.parametrize("across", ["suspension", "activation"])
def test_story_1_a_fan_out_delayed_across_either_edge_loses_nothing(delay: timedelta, across: str) -> None:
    product = Product()
    key = product.subscribe()
    product.run(HOUR)
    if across == "activation":
        product.pause(key)
        product.run(HOUR)
        product.reenable(key)
        product.run(SECOND / 2)
    put = product.core.archive.put

    def slow(events: object, *, now: datetime) -> object:
        archived = put(events, now=now)  # type: ignore[arg-type]
        product.world.now += delay / 2
        if across == "suspension":
            product.pause(key)
        else:
            product.run_executions()
        product.world.now += delay / 2
        return archived

    for _ in range(5):
        product.emit()
    product.core.archive.put = slow  # type: ignore[method-assign,assignment]
    product.core.fan_out(*product.emitted.values())
    product.incoming.clear()
    product.core.archive.put = put  # type: ignore[method-assign]
    product.run(HOUR)
    if product.present(key).status is Status.SUSPENDED:
        back_again(product, key)
    product.run(HOUR)
    assert accepted(product, key) == Counter(list(product.emitted))


# ── when the receiver breaks again ───────────────────────────────────────────────────────────────


def test_f29_a_receiver_that_breaks_at_half_of_the_backfill_gets_the_other_half_later() -> None:
    product = Product()
    key = suspended(product)
    ids = missed(product, 200, every=SECOND)
    broken_until: list[datetime] = []

    def answer(event_id: str) -> Answer:
        if not broken_until and sum(accepted(product, key).values()) >= 100:
            broken_until.append(product.now + 3 * MINUTE)
        broken = broken_until and product.now < broken_until[0]
        return DOWN if broken and event_id != "probe" else WELL

    product.endpoint(key).answer = answer
    recovery = back_again(product, key, within=6 * HOUR)
    assert broken_until
    assert accepted(product, key) == Counter(ids)
    assert numbers(recovery) == {"found": 200, "sent": 200, "succeeded": 200}


def test_f29_suspended_again_in_the_middle_it_leaves_the_rest_to_the_next_re_enablement() -> None:
    product = Product()
    key = suspended(product)
    ids = missed(product, 200, every=SECOND)

    def answer(_: str) -> Answer:
        return WELL if sum(accepted(product, key).values()) < 100 else GONE

    product.endpoint(key).answer = answer
    product.reenable(key)
    for _ in range(40):
        ids.append(product.emit().id)
        product.run(5 * MINUTE)
    assert product.present(key).status is Status.SUSPENDED
    first = next(iter(product.world.recoveries.values()))
    assert first.status is RecoveryStatus.STOPPED
    product.endpoint(key).answer = lambda _: WELL
    back_again(product, key)
    product.run(HOUR)
    assert accepted(product, key) == Counter(ids)


def test_f30_revoked_in_the_middle_nothing_more_is_sent_and_the_url_s_next_holder_gets_none_of_it() -> None:
    product = Product()
    key = suspended(product)
    missed(product, 200, every=SECOND)
    product.reenable(key)
    while len(accepted(product, key)) < 60:
        product.run(SECOND)
    received = len(product.endpoint(key).received)
    product.revoke(key)
    again = product.subscribe(key=a_key(2), endpoint_url=product.present(key).endpoint_url)
    product.run(2 * HOUR)
    assert len(product.endpoint(key).received) == received
    assert product.endpoint(again).received == []
    assert recovery_of(product, key).status is RecoveryStatus.CANCELLED
    assert (product.queued(), product.world.owed) == ([], {})
    event = product.emit()
    product.run(MINUTE)
    assert accepted(product, again) == Counter([event.id])


@pytest.mark.parametrize("rate", [None, 7.0])
def test_at_no_second_are_there_more_requests_than_the_pace(rate: float | None) -> None:
    product = Product()
    key = suspended(product)
    ids = missed(product, 1500, every=SECOND)
    started = product.core.lock(key, rate=rate, execution="exe_1")
    assert started.recovery is not None
    product.core.activate(key, started.recovery)
    sent: Counter[int] = Counter()
    allowed: dict[int, float] = {}
    until = product.now + HOUR
    while product.core.health(key).recovery.held and product.now < until:
        product.core.slice(key)
        rate_now = recovery_of(product, key).rate_per_second or 3
        for _ in range(60):
            second = int(product.now.timestamp())
            allowed[second] = max(rate_now, allowed.get(second, 0))
            before = len(product.endpoint(key).received)
            while product.deliver("backfill", limit=25):
                pass
            sent[second] += len(product.endpoint(key).received) - before
            product.world.now += SECOND
            if not any(product.world.queues.values()):
                break
    assert accepted(product, key) == Counter(ids)
    over = {second: n for second, n in sent.items() if n > max(3, allowed[second])}
    assert over == {}
    assert max(sent.values()) <= (rate or 100)


# ── automatic recoveries, and their limits ───────────────────────────────────────────────────────


def automatic(product: Product) -> list[Recovery]:
    return [r for r in product.world.recoveries.values() if r.kind is RecoveryKind.AUTOMATIC]


def test_a_short_outage_is_given_back_by_the_sweep_without_a_state_machine() -> None:
    product = Product()
    key = product.subscribe()
    product.endpoint(key).answer = lambda _: DOWN
    for _ in range(60):
        product.emit()
        product.run(2 * SECOND)
    product.endpoint(key).answer = lambda _: WELL
    product.run(HOUR)
    assert accepted(product, key) == Counter(list(product.emitted))
    (recovery,) = automatic(product)
    assert recovery.status is RecoveryStatus.COMPLETED
    assert recovery.succeeded == recovery.sent
    assert not product.world.executions
    assert not product.world.notices


def test_a_long_outage_takes_a_state_machine() -> None:
    product = Product()
    key = product.subscribe()
    product.endpoint(key).answer = lambda _: DOWN
    for _ in range(400):
        product.emit()
        product.run(2 * SECOND)
    product.endpoint(key).answer = lambda _: WELL
    product.run(2 * HOUR)
    assert accepted(product, key) == Counter(list(product.emitted))
    assert product.world.executions


def test_an_endpoint_that_refuses_some_events_for_days_is_never_recovered_by_itself() -> None:
    product = Product(seed=3)
    key = product.subscribe()
    refused: dict[str, bool] = {}

    def answer(event_id: str) -> Answer:
        if event_id not in refused:
            refused[event_id] = product.random.random() < 0.3
        return BAD_REQUEST if refused[event_id] else WELL

    product.endpoint(key).answer = answer
    until = product.now + 3 * DAY
    while product.now < until:
        for _ in range(product.random.choice([1, 1, 2, 6])):
            product.emit()
        product.run(product.random.choice([SECOND, 20 * SECOND, 5 * MINUTE, 20 * MINUTE]))
    product.run(3 * HOUR)
    assert automatic(product) == []
    assert not product.world.executions
    waiting = {owed.key.event_id for owed in product.world.owed.values()}
    assert waiting == {event_id for event_id, bad in refused.items() if bad}
    tries = Counter(event_id for _, event_id in product.endpoint(key).received)
    assert set(tries.values()) == {1}


@pytest.mark.parametrize(
    "period, span",
    [(70 * SECOND, 8 * HOUR), (10 * MINUTE, 30 * HOUR), (30 * MINUTE, 30 * HOUR)],
)
def test_an_endpoint_that_flaps_is_recovered_at_most_once_an_hour_and_24_times_in_24_hours(
    period: timedelta, span: timedelta
) -> None:
    """The first follow each other by 5, 10, 20 and 40 min; one that flaps each minute keeps just one busy."""
    product = Product()
    product.world.config = replace(product.world.config, auto_suspend=AutoSuspend.OBSERVE)
    key = product.subscribe()
    begun = product.now
    rounds: dict[datetime, timedelta] = {}
    while product.now < begun + span:
        product.endpoint(key).answer = lambda _: DOWN
        for _ in range(5):
            product.emit()
        product.run(period / 4)
        product.endpoint(key).answer = lambda _: WELL
        for _ in range(3):
            product.run(period / 4)
            product.emit()
        rounds |= {at: at - begun for at in product.core.health(key).recovery.rounds.at}
    late = [at for at in rounds.values() if at >= span / 2]
    assert 0 < len(late) <= span / 2 / HOUR
    assert most_in_a_day(rounds) <= 24
    assert len(automatic(product)) <= len(rounds) + 1, "one at most waits to set out"
    product.run(12 * HOUR)
    arrived = accepted(product, key)
    assert [event_id for event_id in product.emitted if not arrived[event_id]] == []


def most_in_a_day(moments: Iterable[datetime]) -> int:
    """How many of them the fullest 24 hours hold."""
    ordered = sorted(moments)
    return max(sum(first <= at < first + DAY for at in ordered) for first in ordered)


# ── the ladder of probes ─────────────────────────────────────────────────────────────────────────


def policy_with(product: Product, wanted: AutoProbe) -> None:
    graded = replace(PRESETS["graded"], auto_probe=wanted)
    product.world.config = replace(product.world.config, policies={**PRESETS, "graded": graded})


def suspended_by_policy(product: Product) -> SubscriptionKey:
    key = product.subscribe()
    product.endpoint(key).answer = lambda _: GONE
    fail_until_suspended(product, key)
    return key


def fail_until_suspended(product: Product, key: SubscriptionKey) -> None:
    for _ in range(200):
        if product.present(key).status is Status.SUSPENDED:
            return
        product.emit()
        product.run(2 * MINUTE)
    raise AssertionError("it is never suspended")


def probes(product: Product) -> list[timedelta]:
    """The gaps between the probes made so far, from the suspension on."""
    key = next(iter(product.endpoints))
    at = product.present(key).disabled_at
    starts = sorted(r.started_at for r in product.world.recoveries.values() if r.actor == "auto-probe")
    assert at is not None
    return [later - earlier for earlier, later in pairwise([at, *starts])]


@pytest.mark.parametrize("wanted", [AutoProbe.NOTIFY, AutoProbe.RESUME])
def test_a_suspended_endpoint_is_asked_by_the_ladder_and_its_owner_not_told_of_each_try(
    wanted: AutoProbe,
) -> None:
    product = Product()
    policy_with(product, wanted)
    suspended_by_policy(product)
    product.run(28 * HOUR)
    ladder = [10 * MINUTE, 30 * MINUTE, HOUR, 3 * HOUR, 6 * HOUR, 6 * HOUR, 6 * HOUR]
    gaps = probes(product)
    assert len(gaps) == len(ladder)
    assert all(abs(gap - rung) <= 2 * MINUTE for gap, rung in zip(gaps, ladder, strict=True)), gaps
    assert [n.kind for n in product.world.notices.values() if n.kind is not NoticeKind.AT_RISK] == [
        NoticeKind.SUSPENDED
    ]


def test_without_the_policy_nobody_asks() -> None:
    product = Product()
    suspended_by_policy(product)
    product.run(30 * HOUR)
    assert product.world.recoveries == {}


def test_probes_that_are_turned_on_later_reach_who_is_suspended_already() -> None:
    product = Product()
    key = suspended_by_policy(product)
    product.run(3 * DAY)
    assert product.world.recoveries == {}
    policy_with(product, AutoProbe.RESUME)
    product.endpoint(key).answer = lambda _: WELL
    product.run(12 * HOUR)
    assert product.present(key).status is Status.ACTIVE
    product.run(HOUR)
    (recovery,) = product.world.recoveries.values()
    assert (recovery.actor, recovery.status) == ("auto-probe", RecoveryStatus.COMPLETED)
    assert set(accepted(product, key)) == set(product.emitted)


def test_an_owner_s_own_pause_is_not_probed() -> None:
    product = Product()
    policy_with(product, AutoProbe.RESUME)
    suspended(product)
    product.run(30 * HOUR)
    assert product.world.recoveries == {}


def test_a_passed_probe_resumes_or_tells_the_owner_once_as_the_policy_has_it() -> None:
    for wanted in (AutoProbe.RESUME, AutoProbe.NOTIFY):
        product = Product()
        policy_with(product, wanted)
        key = suspended_by_policy(product)
        product.endpoint(key).answer = lambda _: WELL
        product.run(20 * HOUR)
        told = product.world.notices_of(NoticeKind.PROBE_PASSED)
        if wanted is AutoProbe.NOTIFY:
            assert product.present(key).status is Status.SUSPENDED
            assert len(told) == 1
            assert {"failures", "failing_since", "waiting", "recoverable_until"} <= set(told[0].facts)
        else:
            assert product.present(key).status is Status.ACTIVE
            assert told == []
            assert accepted(product, key) == Counter(list(product.emitted))


def test_an_endpoint_that_passes_the_probe_and_fails_its_events_does_not_go_round() -> None:
    product = Product()
    policy_with(product, AutoProbe.RESUME)
    key = suspended_by_policy(product)
    product.endpoint(key).answer = lambda event_id: WELL if event_id == "probe" else GONE
    suspensions = []
    until = product.now + 3 * DAY
    while product.now < until:
        product.emit()
        product.run(10 * MINUTE)
        at = product.present(key).disabled_at
        if at is not None and at not in suspensions:
            suspensions.append(at)
    resumed = [r for r in product.world.recoveries.values() if r.actor == "auto-probe"]
    assert 3 <= len(suspensions) <= 13, "a probe on the last rung, an hour or more of failures"
    assert all(later.started_at - earlier.started_at > 6 * HOUR for earlier, later in pairwise(resumed))
    told = sorted(n.at for n in product.world.notices_of(NoticeKind.SUSPENDED))
    assert all(later - earlier >= DAY for earlier, later in pairwise(told))
    assert len(told) >= 3
    tries = Counter(event_id for _, event_id in product.endpoint(key).received)
    held_back = [event_id for event_id in product.emitted if not tries[event_id]]
    assert len(held_back) > len(product.emitted) / 4, "canaries hold the rest back"
    product.endpoint(key).answer = lambda _: WELL
    product.run(14 * HOUR)
    arrived = accepted(product, key)
    assert [event_id for event_id in product.emitted if not arrived[event_id]] == []


# ── replays ──────────────────────────────────────────────────────────────────────────────────────


def replayed(product: Product, key: SubscriptionKey, **asked: object) -> Recovery:
    """Asked for by a person, and started."""
    core = product.core
    recovery = replay(
        key,
        Asked(**asked),  # type: ignore[arg-type]
        actor=ACTOR,
        now=product.now,
        config=product.world.config,
        subscriptions=core.subscriptions,
        health=core.health_store,
        audit=FakeAudit(product.world),
        workflow=FakeWorkflow(product.world),
        ids=core.ids,
    )
    product._start_executions()
    return recovery


def ended(product: Product, recovery: Recovery, *, within: timedelta = HOUR) -> Recovery:
    until = product.now + within
    while product.now < until:
        product.run(MINUTE)
        present = product.world.recoveries[recovery.key.scope, recovery.id]
        if present.ended_at is not None:
            return present
    raise AssertionError(f"{present} is not done")


def delivered(product: Product, number: int, **changes: object) -> tuple[SubscriptionKey, list[str]]:
    """A subscription to which so many events were delivered, an hour ago."""
    key = product.subscribe(**changes)
    ids = missed(product, number, every=SECOND)
    product.run(HOUR)
    assert accepted(product, key) == Counter(ids)
    return key, ids


def test_bb12_a_replay_of_all_sends_each_once_more_and_the_next_replay_again() -> None:
    product = Product()
    key, ids = delivered(product, 200)
    for times in (2, 3, 4):
        recovery = ended(product, replayed(product, key, only=Only.ALL))
        assert accepted(product, key) == Counter(dict.fromkeys(ids, times))
        assert numbers(recovery) == {"found": 200, "sent": 200, "succeeded": 200}
    headers = [dict(request.headers) for request in product.world.requests]
    assert {h["webhook-id"] for h in headers} == set(ids)
    assert Counter(h["hookkeeper-lane"] for h in headers) == {"live": 200, "replay": 600}


def test_a_replay_of_what_is_owed_or_failed_sends_nothing_that_succeeded() -> None:
    for only in (Only.OWED, Only.FAILED):
        product = Product()
        key = product.subscribe()
        bad: set[str] = set()
        product.endpoint(key).answer = refusing(bad)
        ids = [product.emit().id for _ in range(40)]
        bad.update(ids[::4])
        product.run(HOUR)
        bad.clear()
        recovery = ended(product, replayed(product, key, only=only))
        assert accepted(product, key) == Counter(ids)
        assert numbers(recovery) == {"found": 10, "sent": 10, "succeeded": 10}


def test_a_replay_keeps_to_its_window_and_its_types() -> None:
    product = Product()
    key, _ = delivered(product, 50)
    start = product.now
    wanted = [product.emit("order.paid").id for _ in range(10)]
    product.run(MINUTE)
    other = [product.emit("user.added").id for _ in range(10)]
    product.run(MINUTE)
    end = product.now
    product.run(SECOND)
    late = [product.emit("order.paid").id for _ in range(10)]
    product.run(HOUR)
    recovery = ended(
        product,
        replayed(product, key, only=Only.ALL, since=start, until=end, event_types=("order.*",)),
    )
    arrived = accepted(product, key)
    assert {arrived[event_id] for event_id in wanted} == {2}
    assert {arrived[event_id] for event_id in other + late} == {1}
    assert numbers(recovery) == {"found": 10, "sent": 10, "succeeded": 10}


def test_a_replay_takes_the_windows_that_a_cancelled_recovery_left() -> None:
    product = Product()
    key = suspended(product)
    ids = missed(product, 300, every=SECOND)
    product.reenable(key)
    product.run(30 * SECOND)
    product.steer(key, "cancel")
    product.run(HOUR)
    before = sum(accepted(product, key).values())
    assert 0 < before < 300
    ended(product, replayed(product, key, since=product.now - SECOND, event_types=("nothing.here",)))
    assert accepted(product, key) == Counter(ids)


@pytest.mark.parametrize("verb", ["cancel", "pause"])
def test_cancel_and_pause_act_within_seconds_on_what_is_on_its_way(verb: str) -> None:
    product = Product()
    key = suspended(product)
    ids = missed(product, 600, every=SECOND)
    product.reenable(key)
    product.run(25 * SECOND)
    product.steer(key, verb)
    sent = len(product.endpoint(key).received)
    product.run(3 * HOUR)
    assert len(product.endpoint(key).received) == sent, "not one more request"
    if verb == "pause":
        product.steer(key, "resume")
        product.run(HOUR)
        assert recovery_of(product, key).status is RecoveryStatus.COMPLETED
    else:
        assert len(product.world.owed) + len(product.core.health(key).recovery.windows) > 0
        ended(product, replayed(product, key))
    assert accepted(product, key) == Counter(ids)


def test_a_cancelled_replay_leaves_what_had_succeeded_as_it_was() -> None:
    product = Product()
    key, ids = delivered(product, 300)
    replayed(product, key, only=Only.ALL)
    product.run(20 * SECOND)
    product.steer(key, "cancel")
    product.run(3 * HOUR)
    assert not product.world.owed
    assert {d.status for d in product.world.deliveries.values()} == {DeliveryStatus.SUCCEEDED}
    assert len(ids) < sum(accepted(product, key).values()) < 2 * len(ids)


def test_a_paused_replay_of_all_goes_on_and_sends_each_once() -> None:
    product = Product()
    key, ids = delivered(product, 300)
    recovery = replayed(product, key, only=Only.ALL)
    product.run(20 * SECOND)
    product.steer(key, "pause")
    product.run(HOUR)
    assert not product.world.owed
    product.steer(key, "resume")
    done = ended(product, recovery)
    assert accepted(product, key) == Counter(dict.fromkeys(ids, 2))
    assert numbers(done) == {"found": 300, "sent": 300, "succeeded": 300}


def test_bb12_one_delivery_is_sent_again_as_often_as_it_is_asked_and_counts_for_nothing() -> None:
    product = Product()
    key, (event_id,) = delivered(product, 1)
    (delivery,) = product.world.deliveries.values()
    health = product.core.health(key)
    for answer in (WELL, DOWN, WELL):
        product.endpoint(key).answer = always(answer)
        retry(
            key.scope,
            delivery.key.delivery_id,
            actor=ACTOR,
            now=product.now,
            subscriptions=product.core.subscriptions,
            ledger=product.core.ledger,
            lanes=product.core.lanes,
            audit=FakeAudit(product.world),
            ids=product.core.ids,
        )
        product.duplicate()
        product.run(SECOND)
    product.run(MINUTE)
    assert len(product.endpoint(key).received) == 4
    assert {request_id for _, request_id in product.endpoint(key).received} == {event_id}
    assert [attempt.n for attempt in product.world.deliveries[delivery.key].attempts] == [1, 2, 3, 4]
    assert replace(product.core.health(key), last_delivery_at=None) == replace(health, last_delivery_at=None)
    assert len([r for r in product.world.audit.values() if r.action == "delivery.retried"]) == 3


# ── the numbers, whatever is killed ──────────────────────────────────────────────────────────────


@pytest.mark.parametrize("seed", range(12))
def test_the_numbers_at_the_end_are_those_of_the_ledger_whatever_was_killed(seed: int) -> None:
    product = Product(seed=seed)
    key = suspended(product)
    ids = missed(product, 120, every=SECOND)
    bad = set(ids[::10])
    product.endpoint(key).answer = lambda event_id: BAD_REQUEST if event_id in bad else WELL
    product.reenable(key)
    for _ in range(6):
        product.arrange(product.random.randrange(1, 150), product.kill)
        product.run(MINUTE)
    for _ in range(600):
        if product.present(key).status is Status.SUSPENDED and not product.core.health(key).recovery.held:
            product.reenable(key)
        if any(r.status is RecoveryStatus.COMPLETED for r in product.world.recoveries.values()):
            break
        product.run(MINUTE)
    (recovery,) = [r for r in product.world.recoveries.values() if r.status is RecoveryStatus.COMPLETED]
    assert numbers(recovery) == {"found": 120, "sent": 120, "succeeded": 108, "failed": 12}
    arrived = accepted(product, key)
    assert [event_id for event_id in ids if event_id not in bad and not arrived[event_id]] == []

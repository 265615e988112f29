"""Hazards that belong to no one module: each is named, and mapped in tests/README.md."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime, timedelta

import pytest
from hookkeeper.domain.errors import OwnFaultError
from hookkeeper.domain.outbound import OutboundRequest
from hookkeeper.domain.outcome import Answer, Fault, Outcome
from hookkeeper.domain.subscription import DisabledReason, Status
from hookkeeper.domain.tenancy import SubscriptionKey
from hookkeeper.usecases.deliver import Fate
from standardwebhooks import Webhook
from typing_extensions import override

from tests.builders import (
    HOUR,
    MINUTE,
    NOW,
    a_delivery_key,
    a_health,
    a_key,
    a_parcel,
    a_subscription,
    an_event,
)
from tests.core import Core, backfill_of, counts
from tests.fakes import FakeHealthStore

KEY = a_key()
SECOND = timedelta(seconds=1)
SUCCESS = Answer(status_code=200, latency_ms=5)
UNAVAILABLE = Answer(status_code=503, latency_ms=5)
NOT_FOUND = Answer(status_code=404, latency_ms=5)
NO_NAME = Answer(fault=Fault.DNS_NOT_FOUND, latency_ms=5)


def settling_at_once(core: Core) -> None:
    """Every failed attempt settles its sequence, so that tests can count by attempts."""
    core.world.config = replace(core.world.config, retries=replace(core.world.config.retries, live=()))


def fail(core: Core, answer: Answer, *, times: int, over: timedelta, start: int) -> None:
    """So many failures from now on, evenly over the span; at its end the last one."""
    core.answer = lambda _: answer
    for n in range(times):
        if n:
            core.later(over / (times - 1))
        core.deliver(core.archived(KEY, an_event(start + n)))
        core.set_health(KEY, circuit=a_health().circuit, outage_from=None)


# ── F02, F49: receives without an attempt ────────────────────────────────────────────────────────


def test_f02_nineteen_receives_that_came_to_nothing_are_no_attempt_and_no_failure() -> None:
    core = Core()
    core.subscribe()
    parcel = core.archived(KEY, an_event())
    for _ in range(19):
        core.ledger.unread = {parcel.key}
        assert core.deliver(parcel).reports[0].fate is Fate.AGAIN_LATER
    core.ledger.unread = set()
    assert core.deliver(parcel).reports[0].fate is Fate.DONE
    (request,) = core.world.requests
    assert dict(request.headers)["hookkeeper-attempt"] == "1"
    assert core.delivery(parcel.key).attempt_count == 1
    assert core.health(KEY).clean


# ── F38: streaks by class ────────────────────────────────────────────────────────────────────────


def test_f38_one_unknown_name_among_many_503s_borrows_no_count() -> None:
    core = Core()
    core.subscribe()
    settling_at_once(core)
    fail(core, UNAVAILABLE, times=24, over=11 * HOUR, start=1)
    fail(core, NO_NAME, times=1, over=timedelta(), start=100)
    assert counts(core.health(KEY)) == {"retryable": 24, "fatal": 1}
    assert core.present(KEY).enabled


def test_f38_three_unknown_names_over_sixteen_minutes_suspend() -> None:
    core = Core()
    core.subscribe()
    fail(core, NO_NAME, times=3, over=16 * MINUTE, start=1)
    assert core.present(KEY).status is Status.SUSPENDED


def test_f38_five_404s_over_an_hour_after_twenty_503s_suspend_as_permanent() -> None:
    core = Core()
    core.subscribe()
    settling_at_once(core)
    fail(core, UNAVAILABLE, times=20, over=HOUR, start=1)
    fail(core, NOT_FOUND, times=5, over=61 * MINUTE, start=100)
    assert core.present(KEY).status is Status.SUSPENDED
    assert core.present(KEY).disabled_reason is DisabledReason.PERMANENT_ERROR


# ── F42: clocks ──────────────────────────────────────────────────────────────────────────────────


def test_f42_workers_whose_clocks_differ_by_ten_minutes_suspend_nobody_early_and_never_crash() -> None:
    core = Core()
    core.subscribe()
    core.answer = lambda _: NOT_FOUND
    for n in range(4):
        core.world.now = NOW + n * MINUTE + (5 if n % 2 else -5) * MINUTE
        core.deliver(core.archived(KEY, an_event(n), at=NOW))
    assert counts(core.health(KEY)) == {"permanent": 4}
    core.world.now = NOW - 10 * MINUTE
    core.deliver(core.archived(KEY, an_event(9), at=NOW))
    assert core.present(KEY).enabled, "a streak that begins in the future has no age"


# ── F47: an index that lags ──────────────────────────────────────────────────────────────────────


class LaggingHealth(FakeHealthStore):
    """Its index still names what was due some time ago."""

    @override
    def due(self, now: datetime, *, limit: int) -> Sequence[SubscriptionKey]:
        return [KEY, a_key(99)][:limit]


def test_f47_what_a_lagging_index_names_is_judged_by_what_the_table_says() -> None:
    core = Core()
    core.subscribe(health=a_health(check_at=None))
    before = (core.health(KEY), core.present(KEY), dict(core.world.notices))

    core.health_store = LaggingHealth(core.world)
    assert +core.sweep().done == Counter()
    assert (core.health(KEY), core.present(KEY), dict(core.world.notices)) == before


# ── F48: a hot row ───────────────────────────────────────────────────────────────────────────────


def test_f48_ten_thousand_successes_write_health_once_and_any_worker_resets_a_failure() -> None:
    core = Core()
    core.subscribe()
    settling_at_once(core)
    writes = Counter[str]()
    core.world.before_call = lambda call: writes.update([call])
    for n in range(0, 10_000, 25):
        core.deliver(*(a_parcel(key=a_delivery_key(m)) for m in range(n, n + 25)))
        core.later(SECOND / 20)
    assert writes["Ledger.settle"] == 1, "the first success on a row that had seen none"
    assert writes["Ledger.put_clean"] == 400
    fail(core, NOT_FOUND, times=1, over=timedelta(), start=20_000)
    assert core.health(KEY).consecutive_failures == 1
    core.answer = lambda _: SUCCESS
    core.deliver(core.archived(KEY, an_event(30_000)))
    assert core.health(KEY).clean
    assert writes["Ledger.settle"] == 3


# ── BB-30: one signature by every way ────────────────────────────────────────────────────────────


def test_bb_30_by_whichever_way_an_event_is_sent_it_is_signed_anew_over_the_same_bytes() -> None:
    core = Core()
    core.subscribe()
    parcel = core.archived(KEY, an_event())
    core.answer = lambda _: UNAVAILABLE
    core.deliver(parcel)
    for _ in range(2):  # two retries from the queue
        core.later(2 * MINUTE)
        (retry,) = core.take()
        core.deliver(retry)
    core.world.queues["deliveries"].clear()  # the third one died, and is redriven an hour later
    core.later(HOUR)
    core.deliver(replace(parcel, attempt=4))
    core.pause(KEY)
    core.later(HOUR)
    recovery = core.reenable(KEY)
    core.answer = lambda _: SUCCESS
    core.deliver(backfill_of(replace(parcel, attempt=5), recovery, at=core.now))
    requests = core.world.requests
    assert [dict(r.headers)["hookkeeper-attempt"] for r in requests] == ["1", "2", "3", "4", "5"]
    assert [dict(r.headers)["hookkeeper-lane"] for r in requests] == ["live"] * 4 + ["backfill"]
    assert {request.body for request in requests} == {an_event().body}
    assert {dict(request.headers)["webhook-id"] for request in requests} == {an_event().id}
    stamps = [int(dict(request.headers)["webhook-timestamp"]) for request in requests]
    assert stamps == sorted(stamps)
    assert len(set(stamps)) == 5
    assert all(map(_signed_once, requests))


def _signed_once(request: OutboundRequest) -> bool:
    headers = dict(request.headers)
    signer = Webhook("whsec_" + "A" * 32)
    at = NOW.fromtimestamp(int(headers["webhook-timestamp"]), tz=NOW.tzinfo)
    return headers["webhook-signature"] == signer.sign(headers["webhook-id"], at, request.body.decode())


# ── a subscription's own choice ──────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("outcome", [Outcome.PERMANENT, Outcome.FATAL])
def test_a_strict_subscription_has_no_fatal_row_and_one_permanent_failure_ends_it(outcome: Outcome) -> None:
    core = Core()
    core.subscribe(a_subscription(policy="strict"))
    core.answer = lambda _: NOT_FOUND if outcome is Outcome.PERMANENT else NO_NAME
    core.deliver(core.archived(KEY, an_event()))
    assert core.present(KEY).enabled is (outcome is Outcome.FATAL)


def test_what_our_table_refuses_to_read_is_no_attempt() -> None:
    core = Core()
    core.subscribe()

    def refuse(call: str) -> None:
        if call == "Ledger.read_batch":
            raise OwnFaultError(call)

    core.world.before_call = refuse
    with pytest.raises(OwnFaultError):
        core.deliver(core.archived(KEY, an_event()))
    assert core.world.requests == []

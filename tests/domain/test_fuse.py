"""The fuse counts distinct hosts, latches on evidence against ourselves, and opens when that has passed."""

from dataclasses import replace
from datetime import datetime, timedelta

import pytest
from hookkeeper.domain.fuse import (
    MOST_HOSTS,
    OURS,
    FuseRules,
    FuseState,
    Passage,
    counted,
    passage,
    suspected,
    with_canary,
    with_host,
    with_suspects,
)
from hookkeeper.domain.outcome import Answer, Fault

from tests.builders import MINUTE, NOW, an_answer

RULES = FuseRules()
MOMENT = timedelta(microseconds=1)


def let_through(*hosts: str, at: datetime = NOW, state: FuseState | None = None) -> FuseState:
    state = state or FuseState()
    for host in hosts:
        state = with_host(state, RULES, host=host, now=at)
    return state


def asked(state: FuseState, host: str = "new.example", *, now: datetime = NOW) -> Passage:
    return passage(state, RULES, host=host, failed_at=now, now=now)


def named(count: int) -> list[str]:
    return [f"h{n}.example" for n in range(count)]


@pytest.mark.parametrize(
    "active_hosts, limit",
    [(0, 5), (100, 5), (119, 5), (120, 6), (500, 25), (10_000, 500), (10**6, MOST_HOSTS)],
)
def test_a_span_takes_five_hosts_or_one_in_twenty(active_hosts: int, limit: int) -> None:
    assert RULES.limit(active_hosts) == limit


def test_the_sixth_host_waits_for_the_next_ten_minutes() -> None:
    state = let_through(*named(4))
    assert asked(state) is Passage.OPEN
    full = let_through("h4.example", at=NOW + MINUTE, state=state)
    assert asked(full, now=NOW + MINUTE) is Passage.FULL
    assert asked(full, now=NOW + 10 * MINUTE - MOMENT) is Passage.FULL
    assert asked(full, now=NOW + 10 * MINUTE) is Passage.OPEN


def test_a_host_that_is_in_the_bucket_passes_as_often_as_it_likes() -> None:
    full = let_through(*named(5))
    assert asked(full, "h0.example") is Passage.OPEN
    assert with_host(full, RULES, host="h0.example", now=NOW) is full


def test_the_count_of_active_hosts_widens_the_bucket() -> None:
    full = let_through(*named(5))
    assert asked(counted(full, hosts=200, now=NOW)) is Passage.OPEN


@pytest.mark.parametrize("fault", [Fault.NO_ROUTE, Fault.RESOLVER_UNREACHABLE, Fault.SECRET_UNAVAILABLE])
def test_a_fault_of_our_own_speaks_against_us_whatever_else_works(fault: Fault) -> None:
    batch = [("a.example", an_answer(fault=fault)), ("b.example", an_answer(200))]
    assert suspected(batch, FuseState(), RULES, now=NOW) == {"a.example"}


@pytest.mark.parametrize("fault", sorted(set(Fault) - OURS - {Fault.DNS_TEMPORARY}))
def test_no_other_fault_speaks_against_us(fault: Fault) -> None:
    assert suspected([("a.example", an_answer(fault=fault))], FuseState(), RULES, now=NOW) == set()


def test_a_look_up_that_fails_for_now_is_the_resolver_only_where_nobody_answers() -> None:
    broken = ("a.example", Answer(fault=Fault.DNS_TEMPORARY))
    assert suspected([broken], FuseState(), RULES, now=NOW) == {"a.example"}
    assert suspected([broken, ("b.example", an_answer(503))], FuseState(), RULES, now=NOW) == set()
    sings = with_canary(FuseState(), answered=True, now=NOW)
    assert suspected([broken], sings, RULES, now=NOW) == set()
    assert suspected([broken], sings, RULES, now=NOW + 10 * MINUTE) == {"a.example"}


def test_one_customers_broken_key_does_not_latch_the_fuse() -> None:
    state = FuseState()
    for minute in range(60):
        state = with_suspects(state, RULES, hosts=["a.example"], now=NOW + minute * MINUTE)
    assert state.latched_at is None


def test_faults_of_ours_on_six_hosts_within_ten_minutes_latch_it() -> None:
    state = with_suspects(FuseState(), RULES, hosts=named(5), now=NOW)
    assert state.latched_at is None
    late = with_suspects(state, RULES, hosts=["x.example"], now=NOW + 10 * MINUTE)
    assert late.latched_at is None
    latched = with_suspects(state, RULES, hosts=["x.example"], now=NOW + 10 * MINUTE - MOMENT)
    assert latched.latched_at == NOW + 10 * MINUTE - MOMENT
    assert asked(latched, now=NOW + 10 * MINUTE) is Passage.LATCHED


def test_it_opens_ten_minutes_after_the_last_evidence() -> None:
    state = with_suspects(FuseState(), RULES, hosts=named(6), now=NOW)
    again = with_suspects(state, RULES, hosts=["h0.example"], now=NOW + 5 * MINUTE)
    assert again.latched_at == NOW + 5 * MINUTE
    assert asked(again, now=NOW + 15 * MINUTE - MOMENT) is Passage.LATCHED
    assert asked(again, now=NOW + 15 * MINUTE) is Passage.OPEN


def test_a_failure_counted_while_we_were_at_fault_proves_nothing_afterwards() -> None:
    latched = with_suspects(FuseState(), RULES, hosts=named(6), now=NOW)
    later = NOW + 30 * MINUTE
    for failed_at, found in ((NOW, Passage.UNPROVEN), (NOW + MOMENT, Passage.OPEN)):
        assert passage(latched, RULES, host="a.example", failed_at=failed_at, now=later) is found


def test_a_silent_canary_is_evidence_by_itself_and_one_that_answers_none() -> None:
    assert with_canary(FuseState(), answered=False, now=NOW).latched(RULES, NOW)
    assert not with_canary(FuseState(), answered=True, now=NOW).latched(RULES, NOW)


def test_the_canary_is_asked_once_a_minute_and_not_at_all_where_there_is_none() -> None:
    state = with_canary(FuseState(), answered=True, now=NOW)
    assert FuseState().canary_wanted(RULES, NOW)
    assert not state.canary_wanted(RULES, NOW + MINUTE - MOMENT)
    assert state.canary_wanted(RULES, NOW + MINUTE)
    assert not state.canary_wanted(replace(RULES, canary_url=None), NOW + MINUTE)


def test_an_outage_of_ours_that_fails_every_host_is_still_a_small_item() -> None:
    state = FuseState()
    for n in range(0, 10_000, 25):
        state = with_suspects(state, RULES, hosts=[f"h{m}.example" for m in range(n, n + 25)], now=NOW)
    assert len(state.suspects) == RULES.limit(0) + 1


def test_every_change_raises_the_version_that_guards_the_next() -> None:
    state = FuseState()
    for after in (
        with_host(state, RULES, host="a.example", now=NOW),
        with_suspects(state, RULES, hosts=["a.example"], now=NOW),
        with_canary(state, answered=True, now=NOW),
        counted(state, hosts=1, now=NOW),
    ):
        assert after.version == 1

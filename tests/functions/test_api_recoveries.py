"""Replays by hand over the API: asked for with their own scope, counted without a trace, steered at once."""

from collections.abc import Iterator
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from hookkeeper.domain.access import TENANT_RIGHTS, Right
from hookkeeper.domain.circuit import Circuit
from hookkeeper.domain.delivery import Lane
from hookkeeper.domain.moment import rfc3339
from hookkeeper.domain.recovery import HOLDING, RecoveryKind, RecoveryStatus, Window
from hookkeeper.domain.subscription import Status
from hookkeeper.domain.tenancy import Mode

from tests.builders import (
    HOUR,
    MINUTE,
    NOW,
    a_delivered,
    a_delivery,
    a_health,
    a_key,
    a_lock,
    a_recovery,
    a_subscription,
    a_suspended_subscription,
    an_event,
    an_event_item,
)
from tests.fakes import FakeArchive, FakeEventItems
from tests.functions.api_bench import ENVIRONMENT, Bench
from tests.functions.cold import cold_start

SUB = a_key().subscription_id
RECOVERIES = f"/v1/subscriptions/{SUB}/recoveries"
STEERED = ("cancel", "pause", "resume")
PAUSABLE = {RecoveryStatus.RUNNING, RecoveryStatus.WAITING}
RESUMABLE = {RecoveryStatus.PAUSED}
DELIVERY = f"/v1/deliveries/{a_delivered().key.delivery_id}"


@pytest.fixture(scope="module")
def started() -> Iterator[Any]:
    with pytest.MonkeyPatch.context() as patch:
        for name, value in ENVIRONMENT.items():
            patch.setenv(name, value)
        yield cold_start("api")


@pytest.fixture
def bench(started: Any) -> Bench:
    bench = Bench(started)
    bench.world.add(a_subscription())
    return bench


def snapshot(bench: Bench) -> str:
    world = bench.world
    return repr([world.health, world.recoveries, world.audit, world.executions, world.queues, world.notices])


def archived(bench: Bench, number: int, *, ago: timedelta, **changes: Any) -> None:
    """An event in the archive, with its event item."""
    event = an_event(number, **changes)
    bench.world.now = NOW - ago
    (entry,) = FakeArchive(bench.world).put([event], now=NOW - ago)
    FakeEventItems(bench.world).put(
        [an_event_item(event, archived_at=entry.archived_at, pointer=entry.pointer)]
    )
    bench.world.now = NOW


def test_a_replay_is_started_with_its_plan_and_told(bench: Bench) -> None:
    body = {
        "from": rfc3339(NOW - HOUR),
        "to": rfc3339(NOW),
        "only": "all",
        "event_types": ["invoice.*"],
        "rate": 7.5,
    }
    answer = bench.ask("POST", RECOVERIES, body, at=NOW)
    assert answer.status == 202, answer.text
    told = answer.body
    assert (told["kind"], told["status"], told["subscription_id"]) == ("replay", "waiting", SUB)
    stored = bench.world.recoveries[a_key().scope, told["id"]]
    assert stored.replay is not None
    assert (stored.max_rate, stored.replay.only, stored.replay.event_types) == (7.5, "all", ("invoice.*",))
    assert (stored.replay.start, stored.replay.until) == (NOW - HOUR, NOW)
    ((key, options),) = bench.world.executions.values()
    assert (key, options["kind"], options["recovery_id"]) == (a_key(), "replay", told["id"])
    (record,) = bench.world.audit.values()
    assert (record.action, record.actor.id, record.detail) == ("recovery.requested", "key_1", told["id"])
    assert bench.ask("GET", f"/v1/recoveries/{told['id']}").body == told


def test_a_replay_asks_for_its_own_scope(bench: Bench) -> None:
    rights = TENANT_RIGHTS - {Right.DELIVERIES_REPLAY}
    before = snapshot(bench)
    for path in (RECOVERIES, DELIVERY + "/retry", *(f"/v1/recoveries/r/{w}" for w in STEERED)):
        assert bench.ask("POST", path, rights=rights).status == 403
    assert snapshot(bench) == before


def test_a_replay_is_clamped_to_what_is_kept_and_what_is_past(bench: Bench) -> None:
    body = {"from": "2020-01-01T00:00:00Z", "to": "2040-01-01T00:00:00Z"}
    answer = bench.ask("POST", RECOVERIES, body, at=NOW)
    plan = bench.world.recoveries[a_key().scope, answer.body["id"]].replay
    assert plan is not None
    assert (plan.start, plan.until) == (NOW - timedelta(days=7), NOW)


@pytest.mark.parametrize(
    "body, code",
    [
        ({"from": rfc3339(NOW), "to": rfc3339(NOW - HOUR)}, "invalid_window"),
        ({"to": rfc3339(NOW - timedelta(days=8))}, "outside_retention"),
        ({"event_types": ["a..b"]}, "invalid_pattern"),
        ({"event_types": []}, "no_patterns"),
        ({"only": "some"}, "wrong_type"),
        ({"rate": 0}, "out_of_range"),
        ({"endpoint_url": "https://elsewhere.example"}, "unknown_key"),
        ({"from": "yesterday"}, "invalid_time"),
    ],
)
def test_what_a_replay_cannot_mean_is_refused_and_leaves_no_trace(
    bench: Bench, body: dict[str, Any], code: str
) -> None:
    before = snapshot(bench)
    answer = bench.ask("POST", RECOVERIES, body, at=NOW)
    assert (answer.status, answer.code) == (422, code)
    assert snapshot(bench) == before


@pytest.mark.parametrize("status", sorted(set(Status) - {Status.ACTIVE}))
@pytest.mark.parametrize("dry_run", [True, False])
def test_only_an_active_subscription_is_replayed(started: Any, status: Status, *, dry_run: bool) -> None:
    bench = Bench(started)
    bench.world.add(a_subscription(status=status))
    before = snapshot(bench)
    answer = bench.ask("POST", RECOVERIES, {"dry_run": dry_run}, at=NOW)
    assert (answer.status, answer.code) == (409, "illegal_transition")
    assert snapshot(bench) == before


@pytest.mark.parametrize("kind", [RecoveryKind.REENABLE, RecoveryKind.REPLAY])
def test_one_recovery_at_a_time_and_the_refusal_names_it(bench: Bench, kind: RecoveryKind) -> None:
    running = a_recovery(kind=kind)
    bench.world.add(a_subscription(), a_health(recovery=a_lock(running)))
    answer = bench.ask("POST", RECOVERIES, at=NOW)
    assert (answer.status, answer.code) == (409, "recovery_running")
    assert running.id in answer.body["detail"]


@pytest.mark.parametrize("held", [True, False])
def test_a_replay_takes_what_others_left_unread_and_an_automatic_recovery_s_lock(
    bench: Bench, *, held: bool
) -> None:
    left = Window(start=NOW - 3 * HOUR, end=NOW - 2 * HOUR)
    status = RecoveryStatus.WAITING if held else RecoveryStatus.STOPPED
    automatic = a_recovery(9, kind=RecoveryKind.AUTOMATIC, status=status)
    bench.world.recoveries[a_key().scope, automatic.id] = automatic
    bench.world.add(a_subscription(), a_health(recovery=a_lock(automatic, windows=(left,), generation=4)))
    told = bench.ask("POST", RECOVERIES, at=NOW).body
    lock = bench.world.health[a_key()].recovery
    assert (lock.id, lock.kind, lock.generation, lock.windows) == (
        told["id"],
        RecoveryKind.REPLAY,
        5,
        (left,),
    )
    former = bench.world.recoveries[a_key().scope, automatic.id]
    assert former.status is RecoveryStatus.STOPPED


@pytest.mark.parametrize("end", ["pause", "revoke", "replay"])
def test_a_recovery_that_never_ran_is_not_said_to_wait_when_it_is_over(bench: Bench, end: str) -> None:
    waiting = a_recovery(9, kind=RecoveryKind.AUTOMATIC, status=RecoveryStatus.WAITING)
    bench.world.recoveries[waiting.key.scope, waiting.id] = waiting
    bench.world.health[a_key()] = a_health(recovery=a_lock(waiting, status=RecoveryStatus.WAITING))
    match end:
        case "pause":
            assert bench.ask("POST", f"/v1/subscriptions/{SUB}/pause", at=NOW).status == 200
        case "revoke":
            assert (
                bench.ask("DELETE", f"/v1/subscriptions/{SUB}", headers={"if-match": "*"}, at=NOW).status
                == 200
            )
        case _:
            assert bench.ask("POST", RECOVERIES, at=NOW).status == 202
    told = bench.ask("GET", f"/v1/recoveries/{waiting.id}").body
    assert told["status"] == ("cancelled" if end == "revoke" else "stopped")
    assert told["ended_at"] == rfc3339(NOW)
    listed = {each["id"]: each for each in bench.ask("GET", RECOVERIES).body["data"]}
    assert listed[waiting.id] == told


def test_a_dry_run_counts_and_writes_nothing(bench: Bench) -> None:
    for number, hours in enumerate((1, 2, 3, 200), start=1):
        archived(bench, number, ago=hours * HOUR)
    archived(bench, 5, ago=HOUR, type="order.paid")
    archived(bench, 6, ago=MINUTE)
    key = a_delivered().key
    bench.world.deliveries[key] = replace(a_delivered(), key=key, archived_at=NOW - HOUR)
    before = snapshot(bench)

    def found(**body: Any) -> int:
        answer = bench.ask("POST", RECOVERIES, body | {"dry_run": True}, at=NOW)
        assert answer.status == 200, answer.text
        assert answer.body["complete"]
        count: int = answer.body["found"]
        return count

    assert found() == 3, "2, 3 and 5: 1 succeeded, 4 left retention, 6 may still be in a queue"
    assert found(only="all") == 4
    assert found(only="failed") == 0
    assert found(event_types=["order.*"]) == 1
    assert found(**{"from": rfc3339(NOW - 2.5 * HOUR)}) == 2
    assert snapshot(bench) == before


# ── steering ─────────────────────────────────────────────────────────────────────────────────────


def running(bench: Bench, status: RecoveryStatus = RecoveryStatus.RUNNING) -> str:
    recovery = a_recovery(kind=RecoveryKind.REPLAY, status=status, sent=12)
    bench.world.recoveries[a_key().scope, recovery.id] = recovery
    window = Window(start=NOW - HOUR, end=NOW)
    lease = None if status is RecoveryStatus.PAUSED else NOW + HOUR
    lock = a_lock(recovery, windows=(window,), lease_until=lease)
    bench.world.health[a_key()] = a_health(recovery=lock)
    return recovery.id


def test_a_cancelled_recovery_gives_back_its_lock_and_leaves_its_windows(bench: Bench) -> None:
    recovery_id = running(bench)
    windows = bench.world.health[a_key()].recovery.windows
    answer = bench.ask("POST", f"/v1/recoveries/{recovery_id}/cancel", at=NOW)
    assert (answer.status, answer.body["status"], answer.body["ended_at"]) == (200, "cancelled", rfc3339(NOW))
    lock = bench.world.health[a_key()].recovery
    assert (lock.held, lock.windows) == (False, windows)
    again = bench.ask("POST", f"/v1/recoveries/{recovery_id}/cancel", at=NOW + HOUR)
    assert (again.status, again.body) == (200, answer.body)
    assert [r.action for r in bench.world.audit.values()] == ["recovery.cancelled"]


def test_a_paused_recovery_keeps_its_lock_in_a_new_generation_and_nobody_else_wakes_it(bench: Bench) -> None:
    recovery_id = running(bench)
    before = bench.world.health[a_key()].recovery
    answer = bench.ask("POST", f"/v1/recoveries/{recovery_id}/pause", at=NOW)
    assert (answer.status, answer.body["status"]) == (200, "paused")
    lock = bench.world.health[a_key()].recovery
    assert (lock.held, lock.generation, lock.lease_until) == (True, before.generation + 1, None)
    assert lock.windows == before.windows
    assert bench.ask("POST", f"/v1/recoveries/{recovery_id}/pause", at=NOW).body == answer.body
    resumed = bench.ask("POST", f"/v1/recoveries/{recovery_id}/resume", at=NOW)
    assert (resumed.status, resumed.body["status"], resumed.body["sent"]) == (200, "waiting", 12)
    ((_, options),) = bench.world.executions.values()
    assert (options["recovery_id"], options["generation"]) == (recovery_id, lock.generation)
    assert [r.action for r in bench.world.audit.values()] == ["recovery.paused", "recovery.resumed"]


@pytest.mark.parametrize(
    "status, word, allowed",
    [
        *[(status, "cancel", status in HOLDING) for status in sorted(RecoveryStatus)],
        *[(status, "pause", status in PAUSABLE) for status in sorted(RecoveryStatus)],
        *[(status, "resume", status in RESUMABLE) for status in sorted(RecoveryStatus)],
    ],
)
def test_each_word_is_for_a_recovery_that_can_be_steered_so(
    bench: Bench, status: RecoveryStatus, word: str, *, allowed: bool
) -> None:
    recovery_id = running(bench, status)
    already = (status, word) in {(RecoveryStatus.CANCELLED, "cancel"), (RecoveryStatus.PAUSED, "pause")}
    going = word == "resume" and status in PAUSABLE
    answer = bench.ask("POST", f"/v1/recoveries/{recovery_id}/{word}", at=NOW)
    assert (answer.status == 200) is (allowed or already or going), answer.text
    if answer.status != 200:
        assert (answer.status, answer.code) == (409, "conflict")


@pytest.mark.parametrize("word", STEERED)
def test_another_tenant_s_recovery_is_none(bench: Bench, word: str) -> None:
    recovery_id = running(bench)
    before = snapshot(bench)
    foreign = bench.ask("POST", f"/v1/recoveries/{recovery_id}/{word}", tenant="beta")
    missing = bench.ask("POST", f"/v1/recoveries/rec_none/{word}", tenant="beta")
    test_mode = bench.ask("POST", f"/v1/recoveries/{recovery_id}/{word}", mode=Mode.TEST)
    assert [foreign.status, missing.status, test_mode.status] == [404, 404, 404]
    assert foreign.body["detail"] == missing.body["detail"]
    assert snapshot(bench) == before


# ── one delivery ─────────────────────────────────────────────────────────────────────────────────


def test_one_delivery_is_sent_again_as_a_replay_of_its_own(bench: Bench) -> None:
    bench.world.deliveries[a_delivered().key] = a_delivered()
    for n in range(3):
        answer = bench.ask("POST", f"{DELIVERY}/retry", headers={"idempotency-key": f"k{n}"}, at=NOW)
        assert (answer.status, answer.body["id"]) == (202, a_delivered().key.delivery_id)
    repeated = bench.ask("POST", f"{DELIVERY}/retry", headers={"idempotency-key": "k1"}, at=NOW)
    assert repeated.headers["idempotency-replayed"] == "true"
    parcels = [parcel for _, parcel in bench.world.queues["deliveries"]]
    assert len(parcels) == len({parcel.replay_id for parcel in parcels}) == 3
    assert {(parcel.lane, parcel.recovery_id) for parcel in parcels} == {(Lane.REPLAY, None)}
    assert [record.action for record in bench.world.audit.values()] == ["delivery.retried"] * 3


@pytest.mark.parametrize(
    "standing, code",
    [
        ((a_suspended_subscription(), a_health()), "illegal_transition"),
        ((a_subscription(status=Status.REVOKED), a_health()), "illegal_transition"),
        ((a_subscription(event_types=("order.*",)), a_health()), "conflict"),
        ((a_subscription(), a_health(circuit=Circuit(open_until=NOW + HOUR))), "conflict"),
    ],
    ids=["suspended", "revoked", "filtered", "circuit open"],
)
def test_a_retry_that_could_not_be_made_now_is_refused(started: Any, standing: Any, code: str) -> None:
    bench = Bench(started)
    bench.world.add(*standing)
    bench.world.deliveries[a_delivery().key] = a_delivery()
    before = snapshot(bench)
    answer = bench.ask("POST", f"{DELIVERY}/retry", at=NOW)
    assert (answer.status, answer.code) == (409, code)
    assert snapshot(bench) == before


def test_a_delivery_that_is_not_there_is_not_retried(bench: Bench) -> None:
    for path in (f"{DELIVERY}/retry", "/v1/deliveries/nonsense/retry"):
        assert bench.ask("POST", path, at=NOW).status == 404

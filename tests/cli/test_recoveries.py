"""A recovery is watched to its end, whatever comes in between, and the exit status says how it ended."""

from typing import Any

import httpx
import pytest
from hookkeeper.domain.recovery import RecoveryStatus

from tests.builders import a_recovery, a_subscription
from tests.cli.conftest import Bench
from tests.cli.shapes import counted, ended_recovery, page, recovery, reenabling

REC = a_recovery().id
SUB = a_subscription().id
AT = f"/v1/recoveries/{REC}"
LIST = f"/v1/subscriptions/{SUB}/recoveries"

PROBING = recovery(status=RecoveryStatus.PROBING)
HALF = recovery(found=10, sent=6, succeeded=5)
DONE = ended_recovery(found=10, sent=10, succeeded=10)


@pytest.mark.parametrize(
    "last, exit_code",
    [
        (DONE, 0),
        (ended_recovery(found=10, sent=10, succeeded=9, failed=1), 5),
        (ended_recovery(found=10, sent=9, succeeded=9, expired=1), 5),
        (ended_recovery(RecoveryStatus.PROBE_FAILED, probe_status_code=503), 1),
        (ended_recovery(RecoveryStatus.STOPPED), 1),
        (ended_recovery(RecoveryStatus.CANCELLED), 1),
    ],
    ids=["completed", "some failed", "some expired", "probe failed", "stopped", "cancelled"],
)
def test_a_watch_ends_with_the_recovery_and_says_how(
    last: dict[str, Any], exit_code: int, bench: Bench
) -> None:
    bench.api.on("GET", AT, PROBING, HALF, HALF, last)
    ran = bench.run("recoveries", "watch", REC)
    assert ran.code == exit_code
    assert len(bench.waited) == 3
    assert ran.err.splitlines()[1] == "running: 5 of 10 delivered, 6 sent, 5/s"
    assert last["status"] in ran.out


def test_a_watch_is_a_line_of_json_per_change(bench: Bench) -> None:
    bench.api.on("GET", AT, PROBING, HALF, HALF, DONE)
    ran = bench.run("recoveries", "watch", REC, "--json")
    assert ran.lines == [PROBING, HALF, DONE]
    assert ran.err == ""


def test_a_watch_outlives_answers_that_do_not_come(bench: Bench) -> None:
    bench.api.on("GET", AT, PROBING, httpx.ReadTimeout("slow"))
    bench.api.refuse("GET", AT, 503, "unavailable", "try again")
    bench.api.on("GET", AT, DONE)
    assert bench.run("recoveries", "watch", REC).code == 0


def test_a_watch_gives_up_where_no_answer_comes_for_a_minute(bench: Bench) -> None:
    bench.api.on("GET", AT, PROBING, httpx.ConnectError("refused"))
    ran = bench.run("recoveries", "watch", REC)
    assert ran.code == 1
    assert sum(bench.waited) == 61


def test_a_subscription_stands_for_its_newest_recovery(bench: Bench) -> None:
    bench.api.on("GET", LIST, page(DONE))
    bench.api.on("GET", AT, DONE)
    assert bench.run("recoveries", "watch", SUB).code == 0


def test_a_subscription_without_recoveries_has_none_to_watch(bench: Bench) -> None:
    bench.api.on("GET", LIST, page())
    ran = bench.run("recoveries", "watch", SUB)
    assert (ran.code, ran.err) == (3, f"✗ {SUB} has had no recovery\n")


def test_a_reenablement_that_is_waited_for_watches_the_recovery_it_began(bench: Bench) -> None:
    before = recovery(2, status=RecoveryStatus.COMPLETED)
    bench.api.on("GET", LIST, page(before), page(before), page(PROBING))
    bench.api.on("POST", f"/v1/subscriptions/{SUB}/reenable", reenabling(), status=202)
    bench.api.on("GET", AT, PROBING, DONE)
    ran = bench.run("subscriptions", "reenable", SUB, "--wait")
    assert ran.code == 0
    assert "10 of 10 found" in ran.out


def test_a_reenablement_that_runs_already_is_the_one_that_is_watched(bench: Bench) -> None:
    bench.api.on("GET", LIST, page(PROBING))
    bench.api.on("POST", f"/v1/subscriptions/{SUB}/reenable", reenabling(REC), status=202)
    bench.api.on("GET", AT, DONE)
    assert bench.run("subscriptions", "reenable", SUB, "--wait").code == 0


def test_a_reenablement_that_never_begins_is_not_waited_for_for_ever(bench: Bench) -> None:
    bench.api.on("GET", LIST, page())
    bench.api.on("POST", f"/v1/subscriptions/{SUB}/reenable", reenabling(), status=202)
    ran = bench.run("subscriptions", "reenable", SUB, "--wait")
    assert ran.code == 1
    assert "no recovery began" in ran.err


def test_recoveries_are_listed_and_shown(bench: Bench) -> None:
    bench.api.on("GET", LIST, page(HALF, DONE))
    bench.api.on("GET", AT, DONE)
    assert [line["status"] for line in bench.run("recoveries", "list", SUB, "--json").lines] == [
        "running",
        "completed",
    ]
    assert "▶ running" in bench.run("recoveries", "list", SUB).out
    shown = bench.run("recoveries", "get", REC).out
    assert "✓ completed" in shown
    assert "2 min" in shown


def test_a_replay_is_counted_and_asked_for_before_it_is_sent(bench: Bench) -> None:
    bench.api.on("POST", LIST, counted(12), recovery(), status=202)
    bench.somebody_answers = True
    ran = bench.run("recoveries", "start", SUB, "--only", "failed", "-t", "invoice.*", stdin="y\n")
    assert ran.code == 0
    assert f"Send 12 events to {SUB} again?" in ran.err
    wanted = {"only": "failed", "event_types": ["invoice.*"]}
    assert bench.api.bodies == [{**wanted, "dry_run": True}, wanted]


def test_a_replay_that_is_not_wanted_or_cannot_be_asked_for_sends_nothing(bench: Bench) -> None:
    bench.api.on("POST", LIST, counted(1000, complete=False))
    assert bench.run("recoveries", "start", SUB).code == 2
    bench.somebody_answers = True
    ran = bench.run("recoveries", "start", SUB, stdin="n\n")
    assert ran.code == 1
    assert "at least 1000 events" in ran.err
    assert all(body["dry_run"] for body in bench.api.bodies)


def test_a_dry_run_counts_and_does_no_more(bench: Bench) -> None:
    bench.api.on("POST", LIST, counted(1))
    ran = bench.run("recoveries", "start", SUB, "--from", "2026-12-01T00:00:00Z", "--dry-run")
    assert (ran.code, len(bench.api.bodies)) == (0, 1)
    assert "would be sent  1 event\n" in ran.out
    assert bench.api.bodies == [{"only": "owed", "from": "2026-12-01T00:00:00Z", "dry_run": True}]


def test_a_replay_that_is_waited_for_ends_as_a_watch_does(bench: Bench) -> None:
    bench.api.on("POST", LIST, recovery(), status=202)
    bench.api.on("GET", AT, HALF, ended_recovery(found=10, sent=10, succeeded=9, failed=1))
    assert bench.run("recoveries", "start", SUB, "--yes", "--wait").code == 5


@pytest.mark.parametrize("how", ["pause", "resume", "cancel"])
def test_a_recovery_is_steered(how: str, bench: Bench) -> None:
    bench.api.on("POST", f"{AT}/{how}", HALF)
    ran = bench.run("recoveries", how, REC, *(["--yes"] if how == "cancel" else []))
    assert ran.code == 0
    assert REC in ran.out


def test_cancelling_is_asked_for(bench: Bench) -> None:
    assert bench.run("recoveries", "cancel", REC).code == 2
    assert not bench.api.requests


def test_what_only_moves_its_eta_is_not_told_again(bench: Bench) -> None:
    later = HALF | {"eta": "2026-12-01T13:00:00Z"}
    bench.api.on("GET", AT, HALF, later, DONE)
    assert len(bench.run("recoveries", "watch", REC, "--json").lines) == 2

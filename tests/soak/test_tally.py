import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.soak.tally import Account, Told, account, grown
from tests.soak.workers import kill, workers


def accounted(
    *arrivals: tuple[str, float],
    emitted: Sequence[str] = ("a", "b"),
    owed: Sequence[str] | None = None,
    ledger: dict[str, Told] | None = None,
    kills: Sequence[float] = (),
) -> Account:
    return account(
        "one",
        emitted=set(emitted),
        owed=set(emitted if owed is None else owed),
        arrivals=arrivals,
        ledger=ledger or {},
        kills=kills,
    )


def test_what_arrived_once_is_good() -> None:
    told = accounted(("a", 1.0), ("b", 2.0))
    assert (told.delivered, told.lost, told.good) == (2, [], True)


@pytest.mark.parametrize("status", ["held", "retrying", "exhausted", "succeeded"])
def test_what_did_not_arrive_is_lost_whatever_the_ledger_hopes(status: str) -> None:
    told = accounted(("a", 1.0), ledger={"b": Told(status)})
    assert (told.lost, told.good) == (["b"], False)
    assert accounted(("a", 1.0)).lost == ["b"]


def test_what_was_discarded_or_has_expired_is_not_lost() -> None:
    assert accounted(("a", 1.0), ledger={"b": Told("discarded")}).discarded == 1
    assert accounted(("a", 1.0), ledger={"b": Told("expired")}).expired == 1
    assert accounted(("a", 1.0), owed=["a"]).discarded == 1, "nobody had to deliver it"


@pytest.mark.parametrize(
    "second, kills, unanswered, why",
    [
        (200.0, [12.0], [], "again_by_kill"),
        (200.0, [36.0], [], None),
        (200.0, [8.0], [], None),
        (200.0, [], [9.0], "again_unanswered"),
        (200.0, [], [90.0], None),
        (14.0, [], [], "again_in_flight"),
        (16.0, [], [], None),
    ],
)
def test_what_arrived_again_has_a_reason_or_is_told(
    second: float, kills: list[float], unanswered: list[float], why: str | None
) -> None:
    told = accounted(
        ("a", 10.0),
        ("b", 10.0),
        ("a", second),
        ledger={"a": Told("succeeded", unanswered)},
        kills=kills,
    )
    reasons = (told.again_by_kill, told.again_unanswered, told.again_in_flight)
    assert sum(reasons) == (why is not None)
    assert told.unexplained == ([] if why else ["a"])
    if why:
        assert getattr(told, why) == 1


def test_growth_is_of_the_last_third_over_the_first() -> None:
    samples = [(float(at), 100.0 + at) for at in range(90)]
    assert grown(samples, seconds=90) == (115.0, 175.0)
    assert grown([], seconds=90) == (0.0, 0.0)


@pytest.mark.skipif(not Path("/proc").is_dir(), reason="only Linux tells of processes so")
def test_only_the_workers_of_ones_own_embedded_aws_are_found_and_killed(tmp_path: Path) -> None:
    script = tmp_path / "ministack-lambda-Stack-Deliver-abc" / "_worker.py"
    script.parent.mkdir()
    script.write_text("import sys; print(flush=True); sys.stdin.read()")
    worker = subprocess.Popen([sys.executable, str(script)], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert worker.stdout is not None
    worker.stdout.readline()
    try:
        (found,) = workers(tmp_path, {"Deliver": "Stack-Deliver", "Sweep": "Stack-Sweep"})
        assert (found.pid, found.function) == (worker.pid, "Deliver")
        assert found.mib > 1
        assert workers(tmp_path / "another", {"Deliver": "Stack-Deliver"}) == []
        assert kill(found)
        assert worker.wait(10) == -9
        assert not kill(found)
    finally:
        worker.kill()
        worker.communicate()

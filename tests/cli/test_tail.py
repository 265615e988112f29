"""What a stack does is told as it comes: each line once, in order, and only what was asked for."""

import json
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

import pytest

from tests.builders import NOW
from tests.cli.conftest import Bench

NOW_MS = int(NOW.timestamp() * 1000)
ATTEMPT = {"level": "INFO", "message": "delivery.attempted", "tenant": "acme", "subscription_id": "sub_1"}
GOOD = ATTEMPT | {"event_id": "evt_1", "outcome": "success", "status_code": 200}
BAD = ATTEMPT | {"event_id": "evt_2", "outcome": "retryable", "status_code": 500, "error": "http_500"}
SUSPENDED = {"level": "WARNING", "message": "subscription.suspended", "tenant": "acme", "mode": "test"}
OTHERS = GOOD | {"tenant": "umbrella", "subscription_id": "sub_2"}
ROUTINE: tuple[dict[str, Any], ...] = (
    {"level": "INFO", "message": "sweep.ended", "done": {}},
    {"level": "INFO", "message": "events.fanned_out", "received": 1},
    {"level": "INFO", "message": "request.answered", "method": "GET", "tenant": "acme"},
)
PAUSE = {"level": "INFO", "message": "request.answered", "method": "POST", "tenant": "acme", "status": 200}


@dataclass
class Lambdas:
    """Names the log group of each function."""

    asked: list[str] = field(default_factory=list)

    def get_function_configuration(self, *, FunctionName: str) -> Any:  # noqa: N803
        self.asked.append(FunctionName)
        return {"LoggingConfig": {"LogGroup": f"/log/{FunctionName}"}}


@dataclass
class Logs:
    """Log groups that grow by one list of lines at each look; two events a page."""

    turns: dict[str, list[list[Any]]] = field(default_factory=dict)
    asked: list[dict[str, Any]] = field(default_factory=list)
    _there: dict[str, list[dict[str, Any]]] = field(default_factory=dict)

    def filter_log_events(self, **asked: Any) -> Any:
        self.asked.append(asked)
        group = asked["logGroupName"]
        there = self._there.setdefault(group, [])
        if "nextToken" not in asked and self.turns.get(group):
            there += map(_event, self.turns[group].pop(0))
        found = [each for each in there if each["timestamp"] >= asked["startTime"]]
        start = int(asked.get("nextToken", 0))
        more = {"nextToken": str(start + 2)} if start + 2 < len(found) else {}
        return {"events": found[start : start + 2], **more}


def _event(given: Any) -> dict[str, Any]:
    seconds, line = given
    text = line if isinstance(line, str) else json.dumps(line)
    return {"logStreamName": "s", "timestamp": NOW_MS + int(seconds * 1000), "message": text}


@pytest.fixture
def logs(bench: Bench) -> Logs:
    outputs = bench.has_local_stack() | {"FunctionDeliver": "deliver", "FunctionApi": "api"}
    outputs |= {"FunctionAuthorizer": "authorizer"}
    stack = json.loads(bench.home.stack.read_text())
    bench.home.stack.write_text(json.dumps(stack | outputs))
    bench.aws |= {"lambda": Lambdas(), "logs": Logs()}
    found: Logs = bench.aws["logs"]
    return found


def told(bench: Bench, *arguments: str) -> list[str]:
    """The names of the lines, in order."""
    ran = bench.run("tail", *arguments, "--json")
    assert ran.code == 0, ran.err
    return [line["message"] for line in ran.lines]


def test_each_line_is_told_once_in_order_of_time_over_all_functions(logs: Logs, bench: Bench) -> None:
    first = [(0, GOOD), (3, BAD), (4, "START RequestId: 1"), (4, {"_aws": {}})]
    logs.turns = {
        "/log/deliver": [first, [(1, SUSPENDED)], [(5, GOOD | {"event_id": "evt_3"})]],
        "/log/api": [[(2, PAUSE)]],
    }
    ran = bench.run("tail", "--since", "30s", "--count", "5", "--json")
    assert [line["message"] for line in ran.lines] == [
        "delivery.attempted",
        "request.answered",
        "delivery.attempted",
        "subscription.suspended",
        "delivery.attempted",
    ]
    assert bench.waited == [2.0, 2.0]


def test_what_came_late_is_told_and_what_was_told_is_not_looked_for_for_ever(
    logs: Logs, bench: Bench
) -> None:
    late = (31, GOOD | {"event_id": "late"})
    logs.turns = {"/log/deliver": [[(50, BAD)], [late], [(60, SUSPENDED)]]}
    ran = bench.run("tail", "--count", "3", "--json")
    assert [line.get("event_id") for line in ran.lines] == ["evt_2", "late", None]
    last = [asked for asked in logs.asked if asked["logGroupName"] == "/log/deliver"][-1]
    assert last["startTime"] == NOW_MS + 30_000


def test_routine_and_reads_are_told_on_request_alone(logs: Logs, bench: Bench) -> None:
    def lines() -> None:
        logs.turns = {"/log/deliver": [[(n, line) for n, line in enumerate((*ROUTINE, PAUSE, GOOD))]]}

    lines()
    assert told(bench, "--since", "1h", "--no-follow") == ["request.answered", "delivery.attempted"]
    assert "authorizer" not in bench.aws["lambda"].asked
    logs._there.clear()
    lines()
    assert len(told(bench, "--since", "1h", "--no-follow", "--all")) == 5
    assert "authorizer" in bench.aws["lambda"].asked


@pytest.mark.parametrize(
    "arguments, events",
    [
        (("--tenant", "umbrella"), ["umbrella"]),
        (("--subscription", "sub_1"), ["acme", "acme"]),
        (("--failures",), ["acme", "acme"]),
        (("--only", "subscription"), ["acme"]),
        (("--only", "delivery", "--failures"), ["acme"]),
    ],
    ids=" ".join,
)
def test_lines_are_chosen(arguments: tuple[str, ...], events: list[str], logs: Logs, bench: Bench) -> None:
    logs.turns = {"/log/deliver": [[(0, GOOD), (1, BAD), (2, SUSPENDED), (3, OTHERS)]]}
    ran = bench.run("tail", "--since", "1min", "--no-follow", "--json", *arguments)
    assert [line["tenant"] for line in ran.lines] == events


def test_cloudwatch_is_asked_for_no_more_than_is_wanted(logs: Logs, bench: Bench) -> None:
    bench.run("tail", "--tenant", "acme", "--subscription", "sub_1", "--since", "2h", "--no-follow")
    since = int((NOW - timedelta(hours=2)).timestamp() * 1000)
    assert {asked["filterPattern"] for asked in logs.asked} == {'"acme" "sub_1"'}
    assert {asked["startTime"] for asked in logs.asked} == {since}


def test_people_read_a_mark_a_name_whose_it_is_and_what_was_answered(logs: Logs, bench: Bench) -> None:
    logs.turns = {"/log/deliver": [[(0, GOOD), (1, BAD), (2, SUSPENDED)]]}
    good, bad, suspended = bench.run("tail", "--since", "1min", "--no-follow").out.splitlines()
    assert good.startswith("12:00:00.000  ✓  delivery.attempted      acme  sub_1  evt_1  ")
    assert "status_code 200" in good
    assert "✗  delivery.attempted" in bad
    assert "error http_500" in bad
    assert "✗  subscription.suspended  acme test" in suspended


@pytest.mark.parametrize(
    "line",
    [
        {"errorType": "Sandbox.Timedout", "errorMessage": "Task timed out after 5.00 seconds"},
        {"type": "platform.report", "record": {"status": "timeout"}},
    ],
    ids=["raised", "timed out"],
)
def test_a_function_that_failed_is_told_of(line: dict[str, Any], logs: Logs, bench: Bench) -> None:
    logs.turns = {
        "/log/deliver": [[(0, line), (1, {"type": "platform.report", "record": {"status": "success"}})]]
    }
    assert told(bench, "--since", "1min", "--no-follow") == ["function.failed"]


def test_words_of_others_cannot_command_the_terminal(logs: Logs, bench: Bench) -> None:
    logs.turns = {"/log/deliver": [[(0, BAD | {"error": "\x1b[31m[red]\u202e"})]]}
    out = bench.run("tail", "--since", "1min", "--no-follow").out
    assert not set(out) & {"\x1b", "\u202e"}


@pytest.mark.parametrize(
    "arguments", [("--since", "soon"), ("--subscription", 'a" ?b'), ("--only", "a b")], ids=" ".join
)
def test_what_cannot_be_meant_is_a_usage_error(arguments: tuple[str, str], logs: Logs, bench: Bench) -> None:
    assert bench.run("tail", "--no-follow", *arguments).code == 2
    assert not logs.asked

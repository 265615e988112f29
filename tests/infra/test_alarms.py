"""Who is woken, by what, and where the runbook says what to do; and what the dashboards draw."""

import ast
import re
from collections.abc import Iterator
from enum import StrEnum
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from hookkeeper.domain.outcome import Outcome
from hookkeeper.domain.subscription import Status
from hookkeeper.usecases.fan_out import Taken
from hookkeeper.usecases.notify import Told

from infra.costs import alarm_metrics
from infra.prices import FREE_DASHBOARD_METRICS
from tests.infra.alarms import Watched, alarms, drawn, watched_by

FUNCTIONS = Path("functions")

BY_AWS = {
    "OldestEvents": ("AWS/SQS", "ApproximateAgeOfOldestMessage", "QueueEvents"),
    "OldestDeliveries": ("AWS/SQS", "ApproximateAgeOfOldestMessage", "QueueDeliveries"),
    "OldestBackfill": ("AWS/SQS", "ApproximateAgeOfOldestMessage", "QueueBackfill"),
    "OldestNotices": ("AWS/SQS", "ApproximateAgeOfOldestMessage", "QueueNotices"),
    "OldestContacts": ("AWS/SQS", "ApproximateAgeOfOldestMessage", "QueueContacts"),
    "SweepStopped": ("AWS/Lambda", "Invocations", "FunctionSweep"),
}
"""Alarms on what AWS counts itself of one resource: namespace, metric, the output that names it."""

OF_THE_ACCOUNT = {"Throttles": ("AWS/Lambda", "Throttles")}
OF_THE_API = {"ApiErrors": ("AWS/ApiGateway", "5XXError")}
OF_THE_LOGS = {"FunctionErrors": ("Hookkeeper", "FunctionErrors")}

BY_US = {
    "DlqNotEmpty": {("sweep", "DeadLetters")},
    "EventsRejected": {("fan_out", "EventsRejected")},
    "SuspensionsSpike": {("sweep", "FuseBlown")},
    "OwnFaults": {("deliver", "OwnFaults")},
    "OwedOverdue": {("sweep", "OwedLateness")},
    "RecoveryStalled": {("sweep", "RecoveryLateness")},
    "AuditChanged": {("watch_audit", "AuditRecordsChanged")},
    "ConfigBad": {("sweep", "ConfigFellBack")},
    "VerificationDrop": {("contact", "ChallengesEchoed")},
    "NoticesFailed": {("notify", "NoticesFailed")},
    "MailsCameBack": {("notify", "MailsCameBack")},
    "NoticesPending": {("sweep", "NoticeAge")},
}
"""Alarms on what our functions write: the function, and the metric. Each is provoked in tests/functions."""


def test_these_are_all_alarms(prod: Any) -> None:
    assert set(alarms(prod)) == {*BY_AWS, *OF_THE_ACCOUNT, *OF_THE_API, *OF_THE_LOGS, *BY_US}


@pytest.mark.parametrize("alarm, wanted", BY_AWS.items())
def test_an_alarm_on_what_aws_counts_names_the_stacks_own_resource(
    prod: Any, alarm: str, wanted: tuple[str, str, str]
) -> None:
    namespace, name, output = wanted
    (watched,) = watched_by(prod, alarms(prod)[alarm])
    ((_, resource),) = watched.dimensions
    assert (watched.namespace, watched.name) == (namespace, name)
    assert resource.strip("<>").split(".")[0] == prod.output(output)


def test_throttles_are_of_the_account_whose_concurrency_all_functions_share(prod: Any) -> None:
    (watched,) = watched_by(prod, alarms(prod)["Throttles"])
    assert watched == Watched("AWS/Lambda", "Throttles", ())


def test_an_answer_of_5xx_of_the_one_api_wakes_someone(prod: Any) -> None:
    (watched,) = watched_by(prod, alarms(prod)["ApiErrors"])
    (api,) = prod.of("AWS::ApiGateway::RestApi").values()
    assert watched == Watched("AWS/ApiGateway", "5XXError", (("ApiName", api["Name"]),))


@pytest.mark.parametrize("alarm, wanted", BY_US.items())
def test_an_alarm_on_what_we_count_names_a_function_and_its_metric(
    prod: Any, alarm: str, wanted: set[tuple[str, str]]
) -> None:
    watched = watched_by(prod, alarms(prod)[alarm])
    assert {(each.service, each.name) for each in watched} == wanted
    assert {each.namespace for each in watched} == {"Hookkeeper"}


# ── what is watched and drawn is what is written ─────────────────────────────────────────────────

FAMILIES: dict[str, type[StrEnum] | tuple[str, ...]] = {
    "Deliveries_": Outcome,
    "Events_": Taken,
    "Notices_": Told,
    "Suspensions_": (*Outcome, "mixed"),
    "Subscriptions_": Status,
}
"""Metrics that a function names by what happened."""


@cache
def written_by(function: str) -> set[str]:
    """Every metric that a function's folder can write, by the names in its source."""
    found: set[str] = set()
    for path in (FUNCTIONS / function).glob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.JoinedStr):
                found |= set(_family(node))
            elif isinstance(node, ast.Constant) and isinstance(node.value, str):
                found.add(node.value)
    return found


def _family(node: ast.JoinedStr) -> Iterator[str]:
    first = node.values[0]
    if isinstance(first, ast.Constant) and first.value in FAMILIES:
        yield from (f"{first.value}{kind}" for kind in FAMILIES[first.value])


def own_metrics(template: Any) -> set[Watched]:
    everywhere = [each for board in drawn(template).values() for each in board]
    everywhere += [each for alarm in alarms(template).values() for each in watched_by(template, alarm)]
    return {each for each in everywhere if each.namespace == "Hookkeeper" and each.dimensions}


def test_every_metric_of_ours_that_is_watched_or_drawn_is_written_by_its_function(prod: Any) -> None:
    metrics = own_metrics(prod)
    assert len(metrics) > 30
    unwritten = {each for each in metrics if each.name not in written_by(each.service)}
    assert unwritten == set()


def test_no_id_is_ever_a_dimension(prod: Any) -> None:
    assert {name for each in own_metrics(prod) for name, _ in each.dimensions} == {"service"}
    for path in FUNCTIONS.rglob("*.py"):
        assert "add_dimension" not in path.read_text(), path
        assert "add_metadata" not in path.read_text(), path


SPEC_LIST = {
    "Deliveries_success", "Deliveries_retryable", "Deliveries_permanent", "Deliveries_fatal",
    "AttemptLatency", "EndToEndLag", "Suspensions_retryable", "Suspensions_permanent", "Suspensions_fatal",
    "Suspensions_mixed", "Challenges", "ChallengesEchoed", "TimeToActive", "DeliveriesOwed",
    "CircuitsOpened", "BackfillSent", "DeadLetters", "Invocations", "NumberOfMessagesSent",
    "ConsumedWriteCapacityUnits", "ConsumedReadCapacityUnits", "Subscriptions_active",
}  # fmt: skip


def test_whatever_an_operator_must_see_is_drawn(prod: Any) -> None:
    assert {each.name for board in drawn(prod).values() for each in board} >= SPEC_LIST


def test_both_dashboards_are_among_the_free_ones(prod: Any) -> None:
    boards = drawn(prod)
    assert len(boards) == 2
    for board in boards.values():
        assert 0 < len(board) <= FREE_DASHBOARD_METRICS


# ── function errors, from the logs ───────────────────────────────────────────────────────────────


def test_every_functions_log_counts_its_errors_into_one_metric(prod: Any) -> None:
    groups = {
        properties["LoggingConfig"]["LogGroup"]["Ref"]
        for properties in prod.of("AWS::Lambda::Function").values()
    }
    filters = prod.of("AWS::Logs::MetricFilter").values()
    assert {each["LogGroupName"]["Ref"] for each in filters} == groups
    for each in filters:
        (told,) = each["MetricTransformations"]
        assert (told["MetricNamespace"], told["MetricName"], told["MetricValue"]) == (
            "Hookkeeper", "FunctionErrors", "1",
        )  # fmt: skip
        assert "DefaultValue" not in told, "a metric that is written each minute costs each month"


# ── to whom, and what to do ──────────────────────────────────────────────────────────────────────


def test_every_alarm_reaches_the_topic_which_cloudwatch_may_publish_to(prod: Any) -> None:
    topic = prod.output("AlarmsTopicArn")
    for alarm in alarms(prod).values():
        assert [prod.literal(action) for action in alarm["AlarmActions"]] == [f"<{topic}>"]
    (policy,) = prod.of("AWS::SNS::TopicPolicy").values()
    allowed = [s for s in policy["PolicyDocument"]["Statement"] if s["Effect"] == "Allow"]
    assert [s["Principal"] for s in allowed] == [{"Service": "cloudwatch.amazonaws.com"}]
    assert "aws:SourceAccount" in allowed[0]["Condition"]["StringEquals"]


def test_a_topic_of_the_operators_own_is_used_where_one_is_given(given: Any) -> None:
    topic = "arn:aws:sns:eu-west-1:123456789012:pager"
    assert {tuple(alarm["AlarmActions"]) for alarm in alarms(given).values()} == {(topic,)}
    assert given.of("AWS::SNS::Topic") == {}


def _runbook(alarm: dict[str, Any]) -> str:
    found = re.search(r" README\.md#runbook-([a-z0-9-]+)$", alarm["AlarmDescription"])
    assert found, alarm["AlarmDescription"]
    return found[1]


def test_every_alarm_names_its_section_of_the_runbook_which_the_readme_has(prod: Any) -> None:
    named = {_runbook(alarm) for alarm in alarms(prod).values()}
    readme = Path("README.md").read_text()
    assert set(re.findall(r"^#+ Runbook: ([a-z0-9-]+)$", readme, re.MULTILINE)) == named


def test_silence_wakes_someone_where_silence_is_the_fault_and_nowhere_else(prod: Any) -> None:
    breaching = {name for name, alarm in alarms(prod).items() if alarm["TreatMissingData"] == "breaching"}
    assert breaching == {"SweepStopped"}


def test_what_the_alarms_cost_is_counted_as_aws_counts_it(prod: Any) -> None:
    counted = sum(len(watched_by(prod, alarm)) for alarm in alarms(prod).values())
    assert alarm_metrics(prod.template) == counted

"""What the stack as a whole keeps, shows and wakes people for."""

from pathlib import Path
from typing import Any

import pytest

TABLES = {
    "Subscriptions": {"lists", "due"},
    "Deliveries": {"due"},
    "Events": set(),
    "Secrets": set(),
    "Access": {"lists"},
    "Audit": set(),
    "Notices": {"due"},
}


def test_the_architecture_fits_on_one_screen() -> None:
    assert len(Path("infra/stack.py").read_text().splitlines()) <= 120


@pytest.mark.parametrize("table, indexes", TABLES.items())
def test_a_table_has_its_indexes_keys_only_and_can_be_restored(
    prod: Any, table: str, indexes: set[str]
) -> None:
    properties = prod.resources[prod.output(f"Table{table}")]["Properties"]
    found = properties.get("GlobalSecondaryIndexes", [])
    assert {index["IndexName"] for index in found} == indexes
    assert {index["Projection"]["ProjectionType"] for index in found} <= {"KEYS_ONLY"}
    (replica,) = properties["Replicas"]
    assert replica["PointInTimeRecoverySpecification"] == {"PointInTimeRecoveryEnabled": True}
    assert properties["TimeToLiveSpecification"] == {"AttributeName": "ttl", "Enabled": True}
    assert properties["BillingMode"] == "PAY_PER_REQUEST"


def test_tables_are_all_in_the_outputs(prod: Any) -> None:
    assert set(prod.outputs("Table").values()) == set(prod.of("AWS::DynamoDB::GlobalTable"))


def test_destroying_production_keeps_its_data(prod: Any) -> None:
    kept = ("AWS::DynamoDB::GlobalTable", "AWS::S3::Bucket", "AWS::KMS::Key")
    for resource in prod.resources.values():
        if resource["Type"] in kept:
            assert resource["DeletionPolicy"] == "Retain"


def test_destroying_the_embedded_stage_leaves_no_data(local: Any) -> None:
    left = {r["Type"] for r in local.resources.values() if r.get("DeletionPolicy") == "Retain"}
    assert left <= {
        "AWS::ApiGateway::Account",
        "AWS::IAM::Role",  # the account's role of API Gateway
        "AWS::AppConfig::HostedConfigurationVersion",
    }


def test_the_archive_outlives_every_queue_and_then_empties_itself(prod: Any) -> None:
    (bucket,) = prod.of("AWS::S3::Bucket").values()
    (rule,) = bucket["LifecycleConfiguration"]["Rules"]
    assert (rule["Prefix"], rule["ExpirationInDays"]) == ("events/", 16)
    assert set(bucket["PublicAccessBlockConfiguration"].values()) == {True}


def test_the_key_is_rotated(prod: Any) -> None:
    (key,) = prod.of("AWS::KMS::Key").values()
    assert key["EnableKeyRotation"] is True


def test_every_queue_that_must_stay_empty_wakes_someone(prod: Any) -> None:
    watched = {
        prod.literal(d["Value"]).split(".")[0].strip("<>")
        for alarm in prod.of("AWS::CloudWatch::Alarm").values()
        if alarm["MetricName"] == "ApproximateNumberOfMessagesVisible" and alarm["Threshold"] == 0
        for d in alarm["Dimensions"]
    }
    assert watched == {*prod.outputs("Dlq").values(), prod.output("QueueRejected")}


def test_a_lane_that_stands_still_wakes_someone(prod: Any) -> None:
    watched = {
        prod.literal(d["Value"]).split(".")[0].strip("<>")
        for alarm in prod.of("AWS::CloudWatch::Alarm").values()
        if alarm["MetricName"] == "ApproximateAgeOfOldestMessage"
        for d in alarm["Dimensions"]
    }
    assert watched == {prod.output(f"Queue{q}") for q in ("Events", "Deliveries", "Backfill", "Notices")}


def test_every_function_that_fails_wakes_someone(prod: Any) -> None:
    watched = {
        prod.literal(d["Value"]).strip("<>")
        for alarm in prod.of("AWS::CloudWatch::Alarm").values()
        if alarm["MetricName"] == "Errors"
        for d in alarm["Dimensions"]
    }
    assert watched == set(prod.outputs("Function").values())


def test_a_sweep_that_does_not_run_wakes_someone(prod: Any) -> None:
    (alarm,) = (a for a in prod.of("AWS::CloudWatch::Alarm").values() if a["MetricName"] == "Invocations")
    assert [prod.literal(d["Value"]) for d in alarm["Dimensions"]] == [f"<{prod.output('FunctionSweep')}>"]
    assert (alarm["ComparisonOperator"], alarm["Threshold"]) == ("LessThanThreshold", 1)
    assert alarm["TreatMissingData"] == "breaching"


def test_what_the_functions_count_themselves_wakes_someone(prod: Any) -> None:
    own = {
        a["MetricName"] for a in prod.of("AWS::CloudWatch::Alarm").values() if a["Namespace"] == "Hookkeeper"
    }
    assert own == {"OwnFaults", "Suspensions", "FuseBlown", "NoticesUnheard", "DeferredNoticeAge"}


def test_every_alarm_reaches_the_topic(prod: Any) -> None:
    topic = [f"<{prod.output('AlarmsTopicArn')}>"]
    for alarm in prod.of("AWS::CloudWatch::Alarm").values():
        assert [prod.literal(action) for action in alarm["AlarmActions"]] == topic


def test_there_is_one_dashboard(prod: Any) -> None:
    assert len(prod.of("AWS::CloudWatch::Dashboard")) == 1


def test_the_sweep_runs_every_minute(prod: Any) -> None:
    (rule,) = (r for r in prod.of("AWS::Events::Rule").values() if "ScheduleExpression" in r)
    assert rule["ScheduleExpression"] == "rate(1 minute)"
    assert prod.literal(rule["Targets"][0]["Arn"]) == f"<{prod.output('FunctionSweep')}.Arn>"


def test_the_runtime_configuration_is_in_force_at_once(prod: Any) -> None:
    (strategy,) = prod.of("AWS::AppConfig::DeploymentStrategy").values()
    assert (strategy["DeploymentDurationInMinutes"], strategy["FinalBakeTimeInMinutes"]) == (0, 0)
    assert strategy["GrowthFactor"] == 100


def test_bounces_and_complaints_of_our_own_mails_come_back_to_notify(prod: Any) -> None:
    (set_,) = prod.of("AWS::SES::ConfigurationSet")
    (destination,) = prod.of("AWS::SES::ConfigurationSetEventDestination").values()
    told = destination["EventDestination"]
    assert prod.literal(destination["ConfigurationSetName"]) == f"<{set_}>"
    assert (told["Enabled"], set(told["MatchingEventTypes"])) == (True, {"bounce", "complaint", "reject"})
    assert prod.literal(told["EventBridgeDestination"]["EventBusArn"]).endswith(":event-bus/default")
    (rule,) = (r for r in prod.of("AWS::Events::Rule").values() if "SES" in r.get("Description", ""))
    pattern = rule["EventPattern"]
    assert pattern["source"] == ["aws.ses"]
    assert set(pattern["detail-type"]) == {"Email Bounced", "Email Complaint Received", "Email Rejected"}
    (name,) = pattern["detail"]["mail"]["tags"]["ses:configuration-set"]
    assert prod.literal(name) == f"<{set_}>"
    (target,) = rule["Targets"]
    assert prod.literal(target["Arn"]) == f"<{prod.output('QueueNotices')}.Arn>"
    assert prod.literal(target["DeadLetterConfig"]["Arn"]) == f"<{prod.output('DlqFeedback')}.Arn>"


def test_bounces_and_complaints_are_counted_against_the_sender(prod: Any) -> None:
    (set_,) = prod.of("AWS::SES::ConfigurationSet").values()
    assert set_["ReputationOptions"] == {"ReputationMetricsEnabled": True}

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

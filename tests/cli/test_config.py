"""The runtime configuration is shown, compared, and replaced only when it is good and somebody agrees."""

import io
import json
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

import pytest
from botocore.exceptions import ClientError
from hookkeeper.adapters.dynamodb_access import DynamoDBAccess
from hookkeeper.adapters.dynamodb_subscriptions import DynamoDBSubscriptions
from hookkeeper.domain.health import Streak
from hookkeeper.domain.outcome import Outcome

from tests.builders import NOW, a_health, a_profile, a_subscription, a_tenant, an_audit_record
from tests.cli.conftest import Bench
from tests.contracts.conftest import Aws, aws

__all__ = ["aws"]

PRESENT = {"pace": {"start_per_second": 5}, "retention_days": 7}
WANTED = {"pace": {"start_per_second": 10}, "auto_suspend": "observe"}


@dataclass
class AppConfig:
    """Hosted versions and deployments that end at once."""

    versions: list[dict[str, Any]] = field(default_factory=lambda: [PRESENT])
    deployed: list[str] = field(default_factory=list)
    state: str = "COMPLETE"
    overtaken: bool = False
    refused: set[int] = field(default_factory=set)

    def list_hosted_configuration_versions(self, **asked: Any) -> Any:
        """The oldest first, two a page."""
        start = int(asked.get("NextToken", 0))
        numbers = range(1, len(self.versions) + 1)[start : start + 2]
        more = {"NextToken": str(start + 2)} if start + 2 < len(self.versions) else {}
        return {"Items": [{"VersionNumber": number} for number in numbers], **more}

    def get_hosted_configuration_version(self, **asked: Any) -> Any:
        return {"Content": io.BytesIO(json.dumps(self.versions[asked["VersionNumber"] - 1]).encode())}

    def create_hosted_configuration_version(self, **asked: Any) -> Any:
        if self.overtaken or asked.get("LatestVersionNumber", 0) != len(self.versions):
            raise ClientError({"Error": {"Code": "ConflictException", "Message": "newer"}}, "Create")
        self.versions.append(json.loads(asked["Content"]))
        return {"VersionNumber": len(self.versions)}

    def list_deployment_strategies(self, **_: Any) -> Any:
        return {"Items": [{"Id": "slow", "DeploymentDurationInMinutes": 10}, _AT_ONCE]}

    def start_deployment(self, **asked: Any) -> Any:
        assert asked["DeploymentStrategyId"] == "at-once"
        self.deployed.append(asked["ConfigurationVersion"])
        return {"DeploymentNumber": 1}

    def list_deployments(self, **_: Any) -> Any:
        """The newest first, and all of them good, but what was `refused`."""
        numbers = range(len(self.versions), 0, -1)
        return {
            "Items": [
                {
                    "DeploymentNumber": number,
                    "ConfigurationVersion": str(number),
                    "State": "ROLLED_BACK" if number in self.refused else "COMPLETE",
                }
                for number in numbers
            ]
        }

    def get_deployment(self, **_: Any) -> Any:
        return {"State": self.state}


_AT_ONCE = {"Id": "at-once", "DeploymentDurationInMinutes": 0, "FinalBakeTimeInMinutes": 0}


@pytest.fixture
def appconfig(bench: Bench) -> AppConfig:
    bench.has_local_stack()
    fake = AppConfig()
    bench.aws["appconfig"] = fake
    return fake


def test_get_prints_the_document_and_nothing_else(appconfig: AppConfig, bench: Bench) -> None:
    ran = bench.run("config", "get")
    assert (ran.json, ran.err) == (appconfig.versions[0], "")


def test_the_newest_of_many_versions_is_the_present_one(appconfig: AppConfig, bench: Bench) -> None:
    appconfig.versions = [PRESENT, {}, {}, {}, WANTED]
    assert bench.run("config", "get").json == WANTED


def test_what_is_in_force_is_the_last_that_was_deployed_and_not_what_was_refused_since(
    appconfig: AppConfig, bench: Bench
) -> None:
    appconfig.versions, appconfig.refused = [PRESENT, WANTED, {}], {2, 3}
    assert bench.run("config", "get").json == PRESENT
    assert bench.run("config", "set", json.dumps(WANTED), "--yes").code == 0
    assert appconfig.deployed == ["4"]


def test_diff_names_each_value_that_would_change(appconfig: AppConfig, bench: Bench) -> None:
    ran = bench.run("config", "diff", json.dumps(WANTED))
    assert ran.out.splitlines() == [
        '+ /auto_suspend  "observe"',
        "~ /pace/start_per_second  5 → 10",
        "- /retention_days  7",
    ]
    assert bench.run("config", "diff", "-", "--json", stdin=json.dumps(WANTED)).lines == [
        {"pointer": "/auto_suspend", "after": "observe"},
        {"pointer": "/pace/start_per_second", "before": 5, "after": 10},
        {"pointer": "/retention_days", "before": 7},
    ]
    assert not appconfig.deployed


def test_set_shows_the_difference_asks_and_deploys(appconfig: AppConfig, bench: Bench) -> None:
    bench.somebody_answers = True
    ran = bench.run("config", "set", json.dumps(WANTED), stdin="y\n")
    assert ran.code == 0
    assert "~ /pace/start_per_second  5 → 10" in ran.err
    assert appconfig.versions[-1] == WANTED
    assert appconfig.deployed == ["2"]


def test_set_after_a_no_changes_nothing(appconfig: AppConfig, bench: Bench) -> None:
    bench.somebody_answers = True
    assert bench.run("config", "set", json.dumps(WANTED), stdin="n\n").code == 1
    assert len(appconfig.versions) == 1


def test_set_where_nobody_can_answer_wants_a_yes(appconfig: AppConfig, bench: Bench) -> None:
    ran = bench.run("config", "set", "-", stdin=json.dumps(WANTED))
    assert ran.code == 2
    assert "--yes" in ran.err
    ran = bench.run("config", "set", "-", "--yes", "--json", stdin=json.dumps(WANTED))
    assert (ran.code, ran.json["version"]) == (0, 2)
    assert appconfig.deployed == ["2"]


def test_set_of_what_is_in_force_does_nothing(appconfig: AppConfig, bench: Bench) -> None:
    ran = bench.run("config", "set", json.dumps(PRESENT))
    assert ran.code == 0
    assert not appconfig.deployed


@pytest.mark.parametrize(
    "document, told",
    [
        ({"no_such_thing": 1}, "/no_such_thing"),
        ({"retention_days": 99}, "/retention_days"),
        ({"pace": {"start_per_second": 50, "most_per_second": 5}}, "start_per_second is more than"),
        ({"tenant_policies": {"acme": "nobody"}}, "'nobody'"),
    ],
)
def test_a_document_that_the_functions_would_refuse_is_never_stored(
    document: dict[str, Any], told: str, appconfig: AppConfig, bench: Bench
) -> None:
    ran = bench.run("config", "set", json.dumps(document), "--yes")
    assert ran.code == 2
    assert told in ran.err
    assert len(appconfig.versions) == 1


def test_somebody_elses_change_in_between_is_a_conflict(appconfig: AppConfig, bench: Bench) -> None:
    appconfig.overtaken = True
    assert bench.run("config", "set", json.dumps(WANTED), "--yes").code == 4
    assert not appconfig.deployed


def test_a_deployment_that_is_rolled_back_is_a_failure(appconfig: AppConfig, bench: Bench) -> None:
    appconfig.state = "ROLLED_BACK"
    ran = bench.run("config", "set", json.dumps(WANTED), "--yes")
    assert ran.code == 1
    assert "ROLLED_BACK" in ran.err


# ── whom it would suspend ────────────────────────────────────────────────────────────────────────

TIGHT = {"presets": {"graded": {"limits": {"retryable": {"count": 5, "age_seconds": 3600}}}}}


@pytest.fixture
def failing(aws: Aws, appconfig: AppConfig, bench: Bench) -> AppConfig:
    """A tenant with a subscription that has failed six times in two hours, in DynamoDB."""
    dynamodb = aws.client("dynamodb")
    for table in ("Access", "Subscriptions", "Audit", "Notices"):
        aws.table(table)
    DynamoDBAccess(dynamodb, access_table="Access").create_tenant(a_tenant())
    began = NOW - timedelta(hours=2)
    health = a_health(
        streaks={Outcome.RETRYABLE: Streak(6, began)},
        consecutive_failures=6,
        first_failure_at=began,
        last_attempt_at=NOW,
    )
    DynamoDBSubscriptions(
        dynamodb, subscriptions_table="Subscriptions", audit_table="Audit", notices_table="Notices"
    ).create(a_subscription(), a_profile(), health, an_audit_record())
    bench.aws["dynamodb"] = dynamodb
    return appconfig


@pytest.mark.parametrize("arguments", [("preview",), ("set", "--dry-run")], ids=" ".join)
def test_whom_a_document_would_suspend_is_listed_and_nothing_is_written(
    failing: AppConfig, bench: Bench, arguments: tuple[str, ...]
) -> None:
    ran = bench.run("config", *arguments, json.dumps(TIGHT), "--json")
    assert ran.code == 0
    assert ran.lines == [
        {
            "tenant_id": "acme",
            "mode": "live",
            "subscription_id": a_subscription().id,
            "endpoint_url": a_subscription().endpoint_url,
            "policy": "graded",
            "crossed": "retryable: 6 of 5, 2 h of 1 h",
            "already": False,
        }
    ]
    assert (len(failing.versions), failing.deployed) == (1, [])
    assert a_subscription().endpoint_url in bench.run("config", *arguments, json.dumps(TIGHT)).out


def test_a_document_that_would_suspend_nobody_says_so(failing: AppConfig, bench: Bench) -> None:
    ran = bench.run("config", "set", "--dry-run", json.dumps(WANTED))
    assert (ran.code, ran.out) == (0, "")
    assert "it would suspend nobody" in ran.err
    assert "~ /pace/start_per_second  5 → 10" in ran.err
    assert not failing.deployed

"""Read and replace the runtime configuration document in AppConfig: in force everywhere within a minute."""

import json
import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

DEPLOYED_WITHIN_SECONDS = 60.0
POLL_SECONDS = 0.5


class ConfigError(Exception):
    """AppConfig refused the document, or did not deploy it in time."""


@dataclass(frozen=True, slots=True)
class ConfigProfile:
    """Where the document lives: the ids that the stack's outputs name."""

    application: str
    environment: str
    profile: str


def read(appconfig: Any, profile: ConfigProfile) -> tuple[dict[str, Any], int | None]:
    """The document in force, and the number of the newest version; `{}` and None where there is none yet.

    They differ where the newest was refused, or never deployed.
    """
    numbers = list(_versions(appconfig, profile))
    if not numbers:
        return {}, None
    newest = max(numbers)
    in_force = max(_deployed(appconfig, profile), default=(0, newest))[1]
    version = appconfig.get_hosted_configuration_version(
        ApplicationId=profile.application,
        ConfigurationProfileId=profile.profile,
        VersionNumber=in_force,
    )
    document: dict[str, Any] = json.loads(version["Content"].read())
    return document, newest


def write(
    appconfig: Any, profile: ConfigProfile, document: dict[str, Any], *, after: int | None = None
) -> int:
    """Store a new version and deploy it at once; answers its number.

    `after` is the version it was made from: AppConfig refuses it where another came in between. Raises
    ConfigError.
    """
    guard = {} if after is None else {"LatestVersionNumber": after}
    version = appconfig.create_hosted_configuration_version(
        ApplicationId=profile.application,
        ConfigurationProfileId=profile.profile,
        ContentType="application/json",
        Content=json.dumps(document).encode(),
        **guard,
    )["VersionNumber"]
    deployment = appconfig.start_deployment(
        ApplicationId=profile.application,
        EnvironmentId=profile.environment,
        ConfigurationProfileId=profile.profile,
        ConfigurationVersion=str(version),
        DeploymentStrategyId=_at_once(appconfig),
    )
    _await(appconfig, profile, deployment["DeploymentNumber"])
    return int(version)


def _deployed(appconfig: Any, profile: ConfigProfile) -> Iterator[tuple[int, int]]:
    """Number and version of every deployment that came to its end, in an environment of this one document."""
    more: dict[str, str] = {}
    while True:
        page = appconfig.list_deployments(
            ApplicationId=profile.application, EnvironmentId=profile.environment, **more
        )
        for each in page["Items"]:
            if each["State"] == "COMPLETE":
                yield int(each["DeploymentNumber"]), int(each["ConfigurationVersion"])
        if not page.get("NextToken"):
            return
        more = {"NextToken": page["NextToken"]}


def _versions(appconfig: Any, profile: ConfigProfile) -> Iterator[int]:
    """The numbers of all versions, whose order AWS does not promise."""
    more: dict[str, str] = {}
    while True:
        page = appconfig.list_hosted_configuration_versions(
            ApplicationId=profile.application, ConfigurationProfileId=profile.profile, **more
        )
        yield from (int(each["VersionNumber"]) for each in page["Items"])
        if not page.get("NextToken"):
            return
        more = {"NextToken": page["NextToken"]}


def _at_once(appconfig: Any) -> str:
    """The stack's own strategy without growth or bake time; AWS's predefined one bakes for ten minutes."""
    strategies = appconfig.list_deployment_strategies(MaxResults=50)["Items"]
    for strategy in strategies:
        if strategy["DeploymentDurationInMinutes"] == 0 and not strategy.get("FinalBakeTimeInMinutes"):
            return str(strategy["Id"])
    raise ConfigError("the account has no deployment strategy that takes effect at once")


def _await(appconfig: Any, profile: ConfigProfile, number: int) -> None:
    deadline = time.monotonic() + DEPLOYED_WITHIN_SECONDS
    while True:
        state = appconfig.get_deployment(
            ApplicationId=profile.application, EnvironmentId=profile.environment, DeploymentNumber=number
        )["State"]
        if state == "COMPLETE":
            return
        if state in ("ROLLED_BACK", "ROLLING_BACK") or time.monotonic() > deadline:
            raise ConfigError(f"deployment {number} of the runtime configuration is {state}")
        time.sleep(POLL_SECONDS)

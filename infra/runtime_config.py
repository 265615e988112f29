"""The numbers an operator may change without a deploy: an AppConfig document, in force within a minute.

The document holds only what differs from the defaults in the code.
"""

import json

from aws_cdk import Aws, Duration
from aws_cdk import aws_appconfig as appconfig
from constructs import Construct

from infra.config import StageConfig
from infra.function import Function


class RuntimeConfig(Construct):
    """Application, environment and the profile `runtime`, with ids as the settings want them."""

    def __init__(self, scope: Construct, id_: str, *, config: StageConfig) -> None:
        super().__init__(scope, id_)
        application = appconfig.Application(self, "Application")
        environment = application.add_environment("Environment")
        at_once = appconfig.DeploymentStrategy(
            self,
            "AtOnce",
            rollout_strategy=appconfig.RolloutStrategy.linear(
                growth_factor=100,
                deployment_duration=Duration.minutes(0),
                final_bake_time=Duration.minutes(0),
            ),
        )
        profile = appconfig.HostedConfiguration(
            self,
            "Runtime",
            application=application,
            content=appconfig.ConfigurationContent.from_inline_json(json.dumps(config.runtime_document)),
            deploy_to=[environment],
            deployment_strategy=at_once,
        )
        self.application = application.application_id
        self.environment = environment.environment_id
        self.profile = profile.configuration_profile_id

    def allow_read(self, function: Function) -> None:
        """Let the function poll the document of this environment."""
        function.may(
            "appconfig:StartConfigurationSession",
            "appconfig:GetLatestConfiguration",
            on=f"arn:{Aws.PARTITION}:appconfig:{Aws.REGION}:{Aws.ACCOUNT_ID}:application/{self.application}"
            f"/environment/{self.environment}/configuration/{self.profile}",
        )

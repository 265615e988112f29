"""The numbers an operator may change without a deploy: an AppConfig document, in force within a minute.

The document holds only what differs from the defaults in the code. AppConfig asks `validate_config` before
it takes one, so the last good one stays deployed whoever writes nonsense, and by whatever tool.
"""

import json

from aws_cdk import Aws, Duration
from aws_cdk import aws_appconfig as appconfig
from constructs import Construct
from hookkeeper.settings import ValidateConfigSettings

from infra.function import Function, Shared


class RuntimeConfig(Construct):
    """Application, environment and the profile `runtime`, with ids as the settings want them."""

    def __init__(self, scope: Construct, id_: str, *, shared: Shared) -> None:
        super().__init__(scope, id_)
        config = shared.config
        self.validate = Function(
            self,
            "validate_config",
            shared=shared,
            size=config.validate_config,
            description="Says whether the functions would take a runtime configuration",
            settings=ValidateConfigSettings(stage=config.stage, log_level=config.log_level),
        )
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
            validators=[appconfig.LambdaValidator.from_function(self.validate)],
            content=appconfig.ConfigurationContent.from_inline_json(json.dumps(config.runtime_document)),
            deploy_to=[environment],
            deployment_strategy=at_once,
        )
        profile.node.add_dependency(self.validate)  # and on AppConfig's permission to ask it
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

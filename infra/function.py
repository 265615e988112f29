"""One Lambda function of Hookkeeper: its code, its log group, its role, its settings, and nothing else."""

from dataclasses import dataclass

import aws_cdk as cdk
from aws_cdk import aws_iam as iam
from aws_cdk import aws_lambda as lambda_
from aws_cdk import aws_logs as logs
from constructs import Construct
from hookkeeper.settings import Settings

from infra.config import Size, StageConfig
from infra.egress import Egress
from infra.layers import RUNTIME, Layers, bundled


@dataclass(frozen=True, slots=True)
class Shared:
    """What every function of a stage is made with."""

    config: StageConfig
    layers: Layers
    egress: Egress


class Function(lambda_.Function):
    """`functions/<verb>`, with a role that may write its own log and what is allowed to it by name."""

    def __init__(
        self,
        scope: Construct,
        verb: str,
        *,
        shared: Shared,
        size: Size,
        settings: Settings,
        description: str,
        role: iam.Role | None = None,
        reaches_out: bool = False,
    ) -> None:
        """`reaches_out` puts it into the stage's VPC with fixed addresses, where the stage has one."""
        id_ = verb.title().replace("_", "")
        log_group = logs.LogGroup(
            scope,
            f"{id_}Log",
            retention=logs.RetentionDays.THREE_MONTHS,
            removal_policy=cdk.RemovalPolicy.DESTROY,
        )
        role = role or execution_role(scope, verb)
        log_group.grant_write(role)
        vpc = shared.egress.vpc if reaches_out else None
        if vpc:
            allow_interfaces(role)
        super().__init__(
            scope,
            id_,
            description=description,
            code=bundled(f"functions/{verb}"),
            handler="handler.handler",
            runtime=RUNTIME,
            # The embedded AWS runs handlers on this machine, whatever it is.
            architecture=None if shared.config.embedded else lambda_.Architecture.ARM_64,
            layers=shared.layers.versions,
            memory_size=size.memory_mib,
            timeout=cdk.Duration.seconds(size.timeout_seconds),
            environment=_environment(verb, settings),
            log_group=log_group,
            logging_format=lambda_.LoggingFormat.JSON,
            application_log_level_v2=lambda_.ApplicationLogLevel[settings.log_level],
            system_log_level_v2=lambda_.SystemLogLevel.WARN,
            # A delivery that comes back to its queue, and a fan-out that sends itself pages, are meant:
            # Lambda would take them for a runaway after sixteen rounds and throw the messages away.
            recursive_loop=lambda_.RecursiveLoop.ALLOW,
            role=role,
            vpc=vpc,
            security_groups=[shared.egress.group] if vpc and shared.egress.group else None,
        )
        self.verb = verb
        self.execution_role = role
        acknowledge(self, {"AwsSolutions-L1": "3.13 is the newest runtime that Hookkeeper is tested on."})

    def may(self, *actions: str, on: str | list[str]) -> None:
        """Allow the role exactly these actions on these ARNs."""
        self.add_to_role_policy(
            iam.PolicyStatement(actions=list(actions), resources=[on] if isinstance(on, str) else on)
        )


def acknowledge(construct: Construct, reasons: dict[str, str]) -> None:
    """Say beside a resource why a cdk-nag rule does not hold for it."""
    cdk.Validations.of(construct).acknowledge(
        *(cdk.Acknowledgment(id=id_, reason=reason) for id_, reason in reasons.items())
    )


def allow_interfaces(role: iam.Role) -> None:
    """What Lambda itself does with a role's rights to put a function into a VPC, with AWS's own policy."""
    name = "service-role/AWSLambdaVPCAccessExecutionRole"
    role.add_managed_policy(iam.ManagedPolicy.from_aws_managed_policy_name(name))
    acknowledge(
        role,
        {
            f"AwsSolutions-IAM4[Policy::arn:<AWS::Partition>:iam::aws:policy/{name}]": "Network interfaces "
            "have no ARN before they are made; Lambda asks for this very policy."
        },
    )


def execution_role(scope: Construct, verb: str) -> iam.Role:
    """A function's role, for when something must trust it before the function exists."""
    return iam.Role(
        scope,
        f"{verb.title().replace('_', '')}Role",
        assumed_by=iam.ServicePrincipal("lambda.amazonaws.com"),
        description=f"What Hookkeeper's {verb} may do",
    )


def _environment(verb: str, settings: Settings) -> dict[str, str]:
    return settings.environment() | {
        "POWERTOOLS_SERVICE_NAME": verb,
        "POWERTOOLS_METRICS_NAMESPACE": "Hookkeeper",
        "POWERTOOLS_LOG_LEVEL": settings.log_level,
    }

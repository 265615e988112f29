"""The console: one function behind /console of the REST API, which lets people in by itself."""

from aws_cdk import aws_apigateway as apigateway
from aws_cdk import aws_iam as iam
from constructs import Construct
from hookkeeper.settings import ConsoleSettings

from infra.api import Api
from infra.function import Function, Shared, acknowledge, execution_role
from infra.queues import Queues
from infra.recovery import state_machine_arn
from infra.runtime_config import RuntimeConfig
from infra.storage import READ, Storage

_OWN_ITEMS = ["session#*", "portal#*", "rate#*"]
"""What it may write in the Access table: never a tenant, never a key."""


class Console(Construct):
    """/console and all below it → console."""

    def __init__(
        self,
        scope: Construct,
        id_: str,
        *,
        shared: Shared,
        storage: Storage,
        queues: Queues,
        runtime: RuntimeConfig,
        api: Api,
        recover: Function,
    ) -> None:
        super().__init__(scope, id_)
        config = shared.config
        role = execution_role(self, "console")
        self.console = Function(
            self,
            "console",
            shared=shared,
            size=config.console,
            description="Shows owners and operators their webhooks, and does what they ask",
            role=role,
            settings=ConsoleSettings(
                stage=config.stage,
                log_level=config.log_level,
                subscriptions_table=storage.subscriptions.table_name,
                deliveries_table=storage.deliveries.table_name,
                events_table=storage.events.table_name,
                secrets_table=storage.secrets.table_name,
                access_table=storage.access.table_name,
                audit_table=storage.audit.table_name,
                notices_table=storage.notices.table_name,
                tenant_role_arn=api.tenant_role.role_arn,
                deliveries_queue_url=queues.deliveries.queue.queue_url,
                contacts_queue_url=queues.contacts.queue.queue_url,
                dead_letter_queues=queues.dead_words,
                state_machine_arn=state_machine_arn(self),
                recover_function=recover.function_name,
                kms_key_id=storage.key.key_arn,
                console_url=api.console_url,
                margin_seconds=config.margin_seconds,
                appconfig_application=runtime.application,
                appconfig_environment=runtime.environment,
                appconfig_profile=runtime.profile,
                allowed_hosts=config.allowed_hosts,
            ),
        )
        api.lend_tenants_to(self.console)
        self._allow(storage, queues)
        self.console.may("lambda:InvokeFunction", on=recover.function_arn)
        runtime.allow_read(self.console)
        self._routes(api.rest)

    def _allow(self, storage: Storage, queues: Queues) -> None:
        console = self.console
        storage.access.allow(console, *READ)
        storage.access.allow_index(console, "lists")
        console.add_to_role_policy(
            iam.PolicyStatement(
                actions=["dynamodb:PutItem", "dynamodb:UpdateItem", "dynamodb:DeleteItem"],
                resources=[storage.access.table_arn],
                conditions={
                    "ForAllValues:StringLike": {"dynamodb:LeadingKeys": _OWN_ITEMS},
                    "Null": {"dynamodb:LeadingKeys": "false"},
                },
            )
        )
        console.may("kms:GenerateDataKey", "kms:Decrypt", on=storage.key.key_arn)
        console.may("states:StartExecution", on=state_machine_arn(self))
        console.may("sqs:GetQueueAttributes", on=[queue.queue_arn for queue in queues.dead.values()])
        for lane in queues.lanes.values():
            console.may("sqs:ReceiveMessage", "sqs:DeleteMessage", on=lane.dead.queue_arn)
            lane.allow_send(console)

    def _routes(self, rest: apigateway.RestApi) -> None:
        integration = apigateway.LambdaIntegration(self.console, proxy=True, allow_test_invoke=False)
        root = rest.root.add_resource("console")
        for resource in (root, root.add_resource("{proxy+}")):
            method = resource.add_method(
                "ANY", integration, authorization_type=apigateway.AuthorizationType.NONE
            )
            acknowledge(
                method,
                {
                    "AwsSolutions-APIG4": "The console has sessions of its own, and a page to sign in.",
                    "AwsSolutions-COG4": "One-use links and API keys let people in, not a user pool.",
                },
            )

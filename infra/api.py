"""The HTTPS API: one REST API, an authorizer, and `api` behind every path; every error is problem+json."""

import json

import aws_cdk as cdk
import jsii
from aws_cdk import aws_apigateway as apigateway
from aws_cdk import aws_iam as iam
from aws_cdk import aws_logs as logs
from constructs import Construct
from hookkeeper.settings import ApiSettings, AuthorizerSettings

from infra.config import StageConfig
from infra.domain import Domain
from infra.firewall import Firewall
from infra.function import Function, Shared, acknowledge, execution_role
from infra.problems import add_problems
from infra.queues import Queues
from infra.recovery import state_machine_arn
from infra.runtime_config import RuntimeConfig
from infra.storage import PUT, QUERY, READ, WRITE, Storage, tenant_policy
from infra.throttling import Throttling

STAGE_NAME = "api"

AUTHORIZER_CACHE = cdk.Duration.seconds(30)
"""A revoked key must be dead within 60 s over all caches together (SPEC §4); the rest is the functions'."""

_KEY_SHAPE = r"^Bearer hk_(live|test|app|op)_[0-9A-Za-z]{38}$"

_PUSH_POLICY = (
    "AwsSolutions-IAM4[Policy::arn:<AWS::Partition>:iam::aws:policy/service-role/"
    "AmazonAPIGatewayPushToCloudWatchLogs]"
)

_OPEN_PATHS = ("healthz", "openapi.json")


class Api(Construct):
    """REST API → authorizer, api.

    `url` is known before any function is, and so are `hosts`, which no endpoint may be on.
    """

    def __init__(
        self,
        scope: Construct,
        id_: str,
        *,
        shared: Shared,
        storage: Storage,
        queues: Queues,
        runtime: RuntimeConfig,
    ) -> None:
        super().__init__(scope, id_)
        self._shared = shared
        self._reader = _NameOf()
        self.rest = _rest_api(self, shared.config)
        stack = cdk.Stack.of(self)
        own = f"{self.rest.rest_api_id}.execute-api.{stack.region}.{stack.url_suffix}"
        self.hosts: tuple[str, ...] = (own,)
        if shared.config.domain_name:
            self.hosts += (shared.config.domain_name,)
        self.url = _url(self.rest, self.hosts, shared.config)
        self.console_url = f"{self.url}/console"
        self.authorizer = self._authorizer(storage)
        self.api = self._api(storage, queues, runtime)
        self._routes()
        add_problems(self.rest)
        Throttling(self, "Throttling", config=shared.config, rest=self.rest, api=self.api.execution_role)
        self._before_it(shared.config)

    def _before_it(self, config: StageConfig) -> None:
        """What a stage may have besides: a name of its own, a firewall."""
        if config.domain_name and config.certificate_arn:
            Domain(
                self,
                "Domain",
                name=config.domain_name,
                certificate_arn=config.certificate_arn,
                rest=self.rest,
            )
        if config.firewall:
            Firewall(self, "Firewall", rest=self.rest)

    def _authorizer(self, storage: Storage) -> Function:
        config = self._shared.config
        authorizer = Function(
            self,
            "authorizer",
            shared=self._shared,
            size=config.authorizer,
            description="Says whose key a call carries and what it may do",
            settings=AuthorizerSettings(
                stage=config.stage, log_level=config.log_level, access_table=storage.access.table_name
            ),
        )
        storage.access.allow(authorizer, "dynamodb:GetItem", "dynamodb:UpdateItem")
        return authorizer

    def _api(self, storage: Storage, queues: Queues, runtime: RuntimeConfig) -> Function:
        config = self._shared.config
        role = execution_role(self, "api")
        self.tenant_role = _tenant_role(self, role, storage)
        api = Function(
            self,
            "api",
            shared=self._shared,
            size=config.api,
            description="Answers the HTTPS API",
            role=role,
            settings=ApiSettings(
                stage=config.stage,
                log_level=config.log_level,
                subscriptions_table=storage.subscriptions.table_name,
                deliveries_table=storage.deliveries.table_name,
                events_table=storage.events.table_name,
                secrets_table=storage.secrets.table_name,
                access_table=storage.access.table_name,
                audit_table=storage.audit.table_name,
                notices_table=storage.notices.table_name,
                tenant_role_arn=self.tenant_role.role_arn,
                events_queue_url=queues.events.queue.queue_url,
                deliveries_queue_url=queues.deliveries.queue.queue_url,
                contacts_queue_url=queues.contacts.queue.queue_url,
                state_machine_arn=state_machine_arn(self),
                recover_function=cdk.Lazy.string(self._reader),
                kms_key_id=storage.key.key_arn,
                rest_api_id=self.rest.rest_api_id,
                usage_plans=tuple(config.plans),
                api_url=self.url,
                console_url=self.console_url,
                margin_seconds=config.margin_seconds,
                appconfig_application=runtime.application,
                appconfig_environment=runtime.environment,
                appconfig_profile=runtime.profile,
                allowed_private_cidrs=config.allowed_private_cidrs,
                allowed_hosts=config.allowed_hosts,
                own_hosts=self.hosts,
            ),
        )
        api.may("sts:AssumeRole", "sts:TagSession", on=self.tenant_role.role_arn)
        storage.access.allow(api, *READ, *WRITE)
        storage.access.allow_index(api, "lists")
        storage.audit.allow(api, *PUT, *QUERY)
        api.may("kms:GenerateDataKey", "kms:Decrypt", on=storage.key.key_arn)
        for lane in (queues.events, queues.deliveries, queues.contacts):
            lane.allow_send(api)
        api.may("states:StartExecution", on=state_machine_arn(self))
        runtime.allow_read(api)
        return api

    def read_events_through(self, recover: Function) -> None:
        """Let `api` ask that function for events' bytes, and invoke no other."""
        self._reader.function = recover
        self.api.may("lambda:InvokeFunction", on=recover.function_arn)

    def lend_tenants_to(self, function: Function) -> None:
        """Let another function than `api` take the tenant role, on the same terms."""
        trust = self.tenant_role.assume_role_policy
        if trust is None:
            raise ValueError("the tenant role has no trust policy")
        _borrower(function.execution_role).add_to_assume_role_policy(trust)
        function.may("sts:AssumeRole", "sts:TagSession", on=self.tenant_role.role_arn)

    def _routes(self) -> None:
        integration = apigateway.LambdaIntegration(self.api, proxy=True, allow_test_invoke=False)
        authorizer = apigateway.TokenAuthorizer(
            self,
            "Keys",
            handler=self.authorizer,
            results_cache_ttl=AUTHORIZER_CACHE,
            validation_regex=_KEY_SHAPE,
        )
        self.rest.root.add_resource("{proxy+}").add_method(
            "ANY",
            integration,
            authorizer=authorizer,
            authorization_type=apigateway.AuthorizationType.CUSTOM,
            api_key_required=True,
        )
        for path in _OPEN_PATHS:
            method = self.rest.root.add_resource(path).add_method(
                "GET", integration, authorization_type=apigateway.AuthorizationType.NONE
            )
            acknowledge(
                method, {"AwsSolutions-APIG4": "Health and the API's own description hold no secret."}
            )


def _url(rest: apigateway.RestApi, hosts: tuple[str, ...], config: StageConfig) -> str:
    if config.gateway_url:
        return f"{config.gateway_url}/{rest.rest_api_id}/{STAGE_NAME}"
    return f"https://{config.domain_name}" if config.domain_name else f"https://{hosts[0]}/{STAGE_NAME}"


def _tenant_role(scope: Construct, api_role: iam.Role, storage: Storage) -> iam.Role:
    """What api and console work under on a tenant's items."""
    role = iam.Role(
        scope,
        "TenantRole",
        description="Work on the items of the tenant and mode that the session is tagged with",
        max_session_duration=cdk.Duration.hours(1),
        assumed_by=_borrower(api_role),
    )
    for statement in tenant_policy(storage):
        role.add_to_policy(statement)
    return role


def _borrower(role: iam.Role) -> iam.SessionTagsPrincipal:
    """A role that may take the tenant role, if it names tenant and mode (SPEC §4)."""
    named = {"Null": {"aws:RequestTag/tenant": "false", "aws:RequestTag/mode": "false"}}
    return iam.SessionTagsPrincipal(iam.ArnPrincipal(role.role_arn).with_conditions(named))


@jsii.implements(cdk.IStableStringProducer)
class _NameOf:
    """The name of a function that is made later."""

    function: Function

    def produce(self) -> str:
        return self.function.function_name


def _rest_api(scope: Construct, config: StageConfig) -> apigateway.RestApi:
    access_log = logs.LogGroup(
        scope,
        "AccessLog",
        retention=logs.RetentionDays.THREE_MONTHS,
        removal_policy=cdk.RemovalPolicy.DESTROY,
    )
    rest = apigateway.RestApi(
        scope,
        "Rest",
        rest_api_name="Hookkeeper",
        description="Hookkeeper's API for customers and operators",
        endpoint_types=[apigateway.EndpointType.REGIONAL],
        api_key_source_type=apigateway.ApiKeySourceType.AUTHORIZER,
        cloud_watch_role=True,
        cloud_watch_role_removal_policy=cdk.RemovalPolicy.RETAIN,
        deploy_options=apigateway.StageOptions(
            stage_name=STAGE_NAME,
            throttling_rate_limit=config.requests_per_second,
            throttling_burst_limit=config.burst,
            access_log_destination=apigateway.LogGroupLogDestination(access_log),
            access_log_format=_access_log_format(),
            logging_level=apigateway.MethodLoggingLevel.ERROR,
            data_trace_enabled=False,
        ),
    )
    rest.node.try_remove_child("Endpoint")  # an output that the stack names ApiUrl
    acknowledge(
        rest,
        {
            "AwsSolutions-APIG2": "`api` validates every request itself, and answers problem+json.",
            "AwsSolutions-APIG3": "Keys, throttling and body limits guard it; a WAF would cost more.",
            "AwsSolutions-COG4": "API keys of our own, checked by a Lambda authorizer.",
            _PUSH_POLICY: "API Gateway's one role of the account, as AWS documents it.",
        },
    )
    return rest


def _access_log_format() -> apigateway.AccessLogFormat:
    """Who, what, how it went: no header, so no key."""
    fields = apigateway.AccessLogField
    return apigateway.AccessLogFormat.custom(
        json.dumps(
            {
                "request_id": fields.context_request_id(),
                "ip": fields.context_identity_source_ip(),
                "key_id": fields.context_authorizer_principal_id(),
                "method": fields.context_http_method(),
                "path": fields.context_path(),
                "status": fields.context_status(),
                "bytes": fields.context_response_length(),
                "latency_ms": fields.context_response_latency(),
                "error": fields.context_error_response_type(),
            }
        )
    )

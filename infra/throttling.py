"""Throttling by owner: usage plans on the API's stage, and the operators' own key of the gateway.

`api` makes a key for each tenant and application, and puts it on its plan; the authorizer says whose key a
call counts against. A plan is found by its name, since `api` is made before the API's stage is.
"""

import aws_cdk as cdk
from aws_cdk import aws_apigateway as apigateway
from aws_cdk import aws_iam as iam
from constructs import Construct
from hookkeeper.domain.access import OPERATORS, gateway_key

from infra.config import OPERATORS_PLAN, Plan, StageConfig


class Throttling(Construct):
    """A usage plan of each name, and who may put keys on them."""

    def __init__(
        self, scope: Construct, id_: str, *, config: StageConfig, rest: apigateway.RestApi, api: iam.IRole
    ) -> None:
        super().__init__(scope, id_)
        self._rest = rest
        plans = [self._plan(name, plan) for name, plan in config.plans.items()]
        operators = self._plan(OPERATORS_PLAN, Plan(config.requests_per_second, config.burst))
        operators.add_api_key(
            apigateway.ApiKey(
                self,
                "OperatorsKey",
                value=gateway_key(rest.rest_api_id, OPERATORS),
                description="Counts the operators' calls",
            )
        )
        self._may_put_keys_on(plans, api)

    def _plan(self, name: str, plan: Plan) -> apigateway.UsagePlan:
        throttle = apigateway.ThrottleSettings(rate_limit=plan.requests_per_second, burst_limit=plan.burst)
        quota = apigateway.QuotaSettings(limit=plan.requests_per_day, period=apigateway.Period.DAY)
        return apigateway.UsagePlan(
            self,
            f"{name.title()}Plan",
            name=f"{self._rest.rest_api_id}-{name}",
            api_stages=[apigateway.UsagePlanPerApiStage(api=self._rest, stage=self._rest.deployment_stage)],
            throttle=throttle,
            quota=quota if plan.requests_per_day else None,
        )

    def _may_put_keys_on(self, plans: list[apigateway.UsagePlan], api: iam.IRole) -> None:
        """A policy of its own: the function's would wait for the stage, which waits for the function."""
        stack = cdk.Stack.of(self)
        root = f"arn:{stack.partition}:apigateway:{stack.region}::"
        on_plans = [f"{root}/usageplans/{plan.usage_plan_id}/keys" for plan in plans]
        policy = iam.Policy(self, "PutsKeys", roles=[api])
        policy.add_statements(
            iam.PolicyStatement(
                actions=["apigateway:GET"], resources=[f"{root}/apikeys", f"{root}/usageplans"]
            ),
            iam.PolicyStatement(actions=["apigateway:POST"], resources=[f"{root}/apikeys", *on_plans]),
        )

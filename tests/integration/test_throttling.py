"""Usage plans on the embedded AWS: who calls too often is told so, and nobody else is."""

from typing import Any

import httpx
import pytest

from infra.cli.client import Api
from infra.local import aws
from infra.local.receiver import Receiver
from infra.local.stack import Stack
from tests.integration.customer import Customer

pytestmark = pytest.mark.integration

BURST = 2


def gateway_key_id(stack: Stack, tenant: str) -> str:
    """The tenant's key is found by what it counts, on whichever page of the keys it is."""
    (key,) = (
        each
        for page in aws.client(stack, "apigateway").get_paginator("get_api_keys").paginate()
        for each in page["items"]
        if each["description"] == f"Counts the calls of {tenant}"
    )
    return str(key["id"])


def move(stack: Stack, tenant: str, plan_id: str) -> None:
    """As an operator would: off the plan that it is on, and on another."""
    gateway = aws.client(stack, "apigateway")
    key_id = gateway_key_id(stack, tenant)
    for plan in gateway.get_usage_plans(keyId=key_id)["items"]:
        if key_id in {each["id"] for each in gateway.get_usage_plan_keys(usagePlanId=plan["id"])["items"]}:
            gateway.delete_usage_plan_key(usagePlanId=plan["id"], keyId=key_id)
    gateway.create_usage_plan_key(usagePlanId=plan_id, keyId=key_id, keyType="API_KEY")


@pytest.fixture(scope="module")
def narrow(stack: Stack) -> str:
    """A plan that lets two calls through, and the next after more than a quarter of an hour."""
    plan: dict[str, Any] = aws.client(stack, "apigateway").create_usage_plan(
        name="narrow",
        apiStages=[{"apiId": stack.outputs["RestApiId"], "stage": "api"}],
        throttle={"rateLimit": 0.001, "burstLimit": BURST},
    )
    return str(plan["id"])


def ask(stack: Stack, key: str) -> httpx.Response:
    headers = {"authorization": f"Bearer {key}", "x-api-key": "of-no-use-to-anyone-at-all"}
    return httpx.get(f"{stack.api_url}/v1/subscriptions", headers=headers, timeout=30)


def test_t34_a_tenant_over_its_plan_is_429_and_its_neighbour_is_not(
    stack: Stack, receiver: Receiver, narrow: str
) -> None:
    busy, calm = (Customer.sign_up(stack, receiver, name) for name in ("busy", "calm"))
    second = Api(stack.api_url, stack.operator_key).post("/v1/tenants/busy/keys", {"mode": "test"})["key"]
    move(stack, "busy", narrow)
    answers = [ask(stack, busy.api.key) for _ in range(BURST)]
    assert [answer.status_code for answer in answers] == [200] * BURST
    for key in (busy.api.key, second):  # one plan for all of the tenant's keys
        refused = ask(stack, key)
        assert (refused.status_code, refused.headers["retry-after"]) == (429, "1")
        assert refused.headers["content-type"] == "application/problem+json"
        assert refused.json()["code"] == "throttled"
    assert [ask(stack, calm.api.key).status_code for _ in range(BURST + 1)] == [200] * (BURST + 1)


def test_a_call_whose_owner_is_on_no_plan_is_403_until_its_next_key(stack: Stack, receiver: Receiver) -> None:
    lost = Customer.sign_up(stack, receiver, "planless")
    aws.client(stack, "apigateway").delete_api_key(apiKey=gateway_key_id(stack, "planless"))
    refused = ask(stack, lost.api.key)
    assert (refused.status_code, refused.json()["code"]) == (403, "no_usage_plan")
    Api(stack.api_url, stack.operator_key).post("/v1/tenants/planless/keys", {"mode": "test"})
    assert ask(stack, lost.api.key).status_code == 200

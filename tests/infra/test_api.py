"""The gateway: who may pass, how often, and what its own errors look like."""

import json
import re
from collections.abc import Iterator
from graphlib import TopologicalSorter
from typing import Any

import pytest
from hookkeeper.domain.access import OPERATORS, gateway_key

ERRORS = {
    "UNAUTHORIZED": (401, "unauthorized"),
    "EXPIRED_TOKEN": (401, "unauthorized"),
    "ACCESS_DENIED": (403, "forbidden"),
    "INVALID_API_KEY": (403, "no_usage_plan"),
    "WAF_FILTERED": (403, "forbidden"),
    "BAD_REQUEST_BODY": (400, "bad_request"),
    "BAD_REQUEST_PARAMETERS": (400, "bad_request"),
    "RESOURCE_NOT_FOUND": (404, "not_found"),
    "MISSING_AUTHENTICATION_TOKEN": (404, "not_found"),
    "REQUEST_TOO_LARGE": (413, "too_large"),
    "UNSUPPORTED_MEDIA_TYPE": (415, "unsupported_media_type"),
    "THROTTLED": (429, "throttled"),
    "QUOTA_EXCEEDED": (429, "quota_exceeded"),
    "AUTHORIZER_FAILURE": (500, "internal_error"),
    "INTEGRATION_FAILURE": (502, "bad_gateway"),
    "INTEGRATION_TIMEOUT": (504, "timeout"),
    "DEFAULT_5XX": (500, "internal_error"),
    "DEFAULT_4XX": (400, "bad_request"),
}


def test_the_table_holds_every_error_that_is_shaped(prod: Any) -> None:
    shaped = {r["ResponseType"] for r in prod.of("AWS::ApiGateway::GatewayResponse").values()}
    assert shaped == set(ERRORS)


@pytest.mark.parametrize("type_, expected", ERRORS.items())
def test_the_gateways_own_error_is_a_problem_document(
    prod: Any, type_: str, expected: tuple[int, str]
) -> None:
    (response,) = (
        r for r in prod.of("AWS::ApiGateway::GatewayResponse").values() if r["ResponseType"] == type_
    )
    problem = json.loads(response["ResponseTemplates"]["application/json"])
    assert (int(response["StatusCode"]), problem["code"]) == expected
    assert problem["status"] == expected[0]
    assert set(problem) == {"type", "title", "status", "detail", "code", "errors", "request_id"}
    content_type = response["ResponseParameters"]["gatewayresponse.header.Content-Type"]
    assert content_type == "'application/problem+json'"


def test_only_health_the_apis_description_and_the_console_are_open(prod: Any) -> None:
    resources = {f"<{id_}>": r for id_, r in prod.of("AWS::ApiGateway::Resource").items()}
    paths = {id_: _path(prod, resources, id_) for id_ in resources}
    access = {
        (paths[prod.literal(m["ResourceId"])], m["HttpMethod"]): m["AuthorizationType"]
        for m in prod.of("AWS::ApiGateway::Method").values()
    }
    assert access == {
        ("{proxy+}", "ANY"): "CUSTOM",
        ("healthz", "GET"): "NONE",
        ("openapi.json", "GET"): "NONE",
        ("console", "ANY"): "NONE",
        ("console/{proxy+}", "ANY"): "NONE",
    }


def _path(prod: Any, resources: Any, id_: str) -> str:
    parent = prod.literal(resources[id_]["ParentId"])
    above = f"{_path(prod, resources, parent)}/" if parent in resources else ""
    return f"{above}{resources[id_]['PathPart']}"


def test_a_revoked_key_outlives_its_revocation_by_less_than_a_minute(prod: Any) -> None:
    (authorizer,) = prod.of("AWS::ApiGateway::Authorizer").values()
    assert 0 < authorizer["AuthorizerResultTtlInSeconds"] <= 30


def test_t27_a_key_is_taken_from_its_header_alone_and_never_from_a_url(prod: Any) -> None:
    (authorizer,) = prod.of("AWS::ApiGateway::Authorizer").values()
    assert (authorizer["Type"], authorizer["IdentitySource"]) == (
        "TOKEN",
        "method.request.header.Authorization",
    )


def test_a_burst_is_throttled(prod: Any) -> None:
    (stage,) = prod.of("AWS::ApiGateway::Stage").values()
    everything = next(m for m in stage["MethodSettings"] if m["ResourcePath"] == "/*")
    assert everything["ThrottlingRateLimit"] > 0
    assert everything["ThrottlingBurstLimit"] > 0


def test_no_key_can_reach_a_log(prod: Any) -> None:
    (stage,) = prod.of("AWS::ApiGateway::Stage").values()
    logged = json.loads(stage["AccessLogSetting"]["Format"])
    assert set(logged) == {
        "request_id", "ip", "key_id", "method", "path", "status", "bytes", "latency_ms", "error",
    }  # fmt: skip
    assert not [value for value in logged.values() if "header" in value.lower()]
    assert all(not m["DataTraceEnabled"] for m in stage["MethodSettings"])


def test_the_gateways_own_errors_are_not_kept_or_guessed_at_either(prod: Any) -> None:
    for response in prod.of("AWS::ApiGateway::GatewayResponse").values():
        told = response["ResponseParameters"]
        assert told["gatewayresponse.header.Cache-Control"] == "'no-store'"
        assert told["gatewayresponse.header.X-Content-Type-Options"] == "'nosniff'"
        assert told["gatewayresponse.header.Strict-Transport-Security"] == "'max-age=63072000'"


def test_a_throttled_caller_is_told_when_to_come_again(prod: Any) -> None:
    waits = {
        r["ResponseType"]: r["ResponseParameters"]["gatewayresponse.header.Retry-After"]
        for r in prod.of("AWS::ApiGateway::GatewayResponse").values()
        if "gatewayresponse.header.Retry-After" in r["ResponseParameters"]
    }
    assert waits == {"THROTTLED": "'1'", "QUOTA_EXCEEDED": "'3600'"}


def test_every_call_with_a_key_counts_against_its_owner_by_the_authorizers_word(prod: Any) -> None:
    (rest,) = prod.of("AWS::ApiGateway::RestApi").values()
    assert rest["ApiKeySourceType"] == "AUTHORIZER"
    counted = {m["AuthorizationType"]: m.get("ApiKeyRequired") for m in _methods(prod)}
    assert counted == {"CUSTOM": True, "NONE": None}


def _methods(prod: Any) -> list[dict[str, Any]]:
    return list(prod.of("AWS::ApiGateway::Method").values())


def test_each_plan_throttles_on_the_apis_own_stage_and_is_found_by_name(prod: Any) -> None:
    (rest,), (stage,) = (prod.of(f"AWS::ApiGateway::{kind}") for kind in ("RestApi", "Stage"))
    plans = prod.of("AWS::ApiGateway::UsagePlan").values()
    names = {prod.literal(plan["UsagePlanName"]) for plan in plans}
    assert names == {f"<{rest}>-standard", f"<{rest}>-operators"}
    for plan in plans:
        assert plan["ApiStages"] == [{"ApiId": {"Ref": rest}, "Stage": {"Ref": stage}, "Throttle": {}}]
        assert plan["Throttle"]["RateLimit"] > 0
        assert plan["Throttle"]["BurstLimit"] > 0


def test_operators_keys_count_against_their_own_plan(prod: Any) -> None:
    (rest,) = prod.of("AWS::ApiGateway::RestApi")
    ((key, told),) = prod.of("AWS::ApiGateway::ApiKey").items()
    assert prod.literal(told["Value"]) == gateway_key(f"<{rest}>", OPERATORS)
    (place,) = prod.of("AWS::ApiGateway::UsagePlanKey").values()
    (plan,) = (i for i in prod.of("AWS::ApiGateway::UsagePlan") if "Operators" in i)
    assert (place["KeyId"], place["UsagePlanId"]) == ({"Ref": key}, {"Ref": plan})


def test_the_api_alone_makes_gateway_keys_and_puts_them_on_tenants_plans_alone(prod: Any) -> None:
    grants = [g for g in prod.grants() if any(a.startswith("apigateway:") for a in g.actions)]
    assert {grant.role for grant in grants} == {prod.role_of("Api")}
    may = {(a, r.rpartition("::")[2]) for grant in grants for a in grant.actions for r in grant.resources}
    (standard,) = (i for i in prod.of("AWS::ApiGateway::UsagePlan") if "Standard" in i)
    assert may == {
        ("apigateway:GET", "/apikeys"),
        ("apigateway:GET", "/usageplans"),
        ("apigateway:POST", "/apikeys"),
        ("apigateway:POST", f"/usageplans/<{standard}>/keys"),
    }


def test_no_resource_waits_for_itself(prod: Any) -> None:
    waits = {id_: set(_named(resource)) & set(prod.resources) for id_, resource in prod.resources.items()}
    assert len(list(TopologicalSorter(waits).static_order())) == len(prod.resources)


def _named(value: Any) -> Iterator[str]:
    match value:
        case {"Ref": str(name)} | {"Fn::GetAtt": [str(name), *_]}:
            yield name
        case {"Fn::Sub": str(text)}:
            yield from re.findall(r"\$\{(\w+)", text)
        case dict():
            yield from ([value["DependsOn"]] if isinstance(value.get("DependsOn"), str) else [])
            yield from value.get("DependsOn", []) if isinstance(value.get("DependsOn"), list) else []
            for each in value.values():
                yield from _named(each)
        case list():
            for each in value:
                yield from _named(each)

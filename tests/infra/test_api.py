"""The gateway: who may pass, how often, and what its own errors look like."""

import json
from typing import Any

import pytest

ERRORS = {
    "UNAUTHORIZED": (401, "unauthorized"),
    "EXPIRED_TOKEN": (401, "unauthorized"),
    "ACCESS_DENIED": (403, "forbidden"),
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

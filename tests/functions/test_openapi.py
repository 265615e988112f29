"""The API is what its description says, whatever a generator asks of it; and that is published."""

import contextlib
import io
import logging
from collections.abc import Iterator
from typing import Any

import hypothesis
import pytest
import schemathesis
from hypothesis import HealthCheck, Phase, settings
from jsonschema import Draft202012Validator
from referencing import Registry
from referencing.jsonschema import DRAFT202012

from tests.builders import (
    NOW,
    a_delivered,
    a_delivery_key,
    a_recovery,
    a_secret,
    a_subscription,
    a_tenant,
    an_event_item,
)
from tests.functions.api_bench import ENVIRONMENT, Bench
from tests.functions.cold import cold_start
from tests.functions.openapi import live, published
from tests.functions.test_route_matrix import OWN
from tests.functions.wsgi import KEY, OPERATOR_KEY, Wsgi

PUBLISHED = published()
OPERATIONS = [(method, path) for path, each in PUBLISHED["paths"].items() for method in each]
EXAMPLES = 12
"""Requests that are made of each operation, half of them meant to be refused."""

FEW = settings(
    max_examples=EXAMPLES // 2,
    deadline=None,
    database=None,
    derandomize=True,
    suppress_health_check=list(HealthCheck),
    phases=[Phase.explicit, Phase.generate],
)

OPERATORS = ("/v1/tenants", "/v1/applications", "/v1/consents", "/v1/operations")
SEMANTIC = ["2xx", 400, 401, 403, 404, 409, 412, 422, 429]
"""What a request may meet that fits its schema: no such host, another list's cursor, an old ETag."""


@pytest.fixture(scope="module")
def started() -> Iterator[Any]:
    with pytest.MonkeyPatch.context() as patch:
        for name, value in ENVIRONMENT.items():
            patch.setenv(name, value)
        module = cold_start("api")
        level = module.logger.log_level
        module.logger.setLevel(logging.CRITICAL)
        yield module
        module.logger.setLevel(level)


def a_bench(started: Any) -> Bench:
    bench = Bench(started)
    key = bench.world.add(a_subscription())
    bench.world.tenants["acme"] = a_tenant()
    bench.world.deliveries[a_delivery_key()] = a_delivered()
    bench.world.recoveries[key.scope, a_recovery().id] = a_recovery()
    item = an_event_item()
    bench.world.event_items[item.scope, item.id] = item
    bench.secrets.create(key, a_secret(), version=1, now=NOW)
    return bench


# ── what is published ────────────────────────────────────────────────────────────────────────────


def test_the_published_description_is_the_live_one(started: Any) -> None:
    assert live(Bench(started)) == PUBLISHED, "write it anew: python -m tests.functions.openapi"


def test_every_operation_says_what_it_is_and_how_it_refuses() -> None:
    for path, operations in PUBLISHED["paths"].items():
        for method, operation in operations.items():
            assert len(operation["summary"]) > 5, (method, path)
            for status in ("4XX", "5XX"):
                assert list(operation["responses"][status]["content"]) == ["application/problem+json"]


def of(name: str) -> Any:
    document = DRAFT202012.create_resource(PUBLISHED)
    registry: Any = Registry().with_resource("urn:openapi", document)
    reference = {"$ref": f"urn:openapi#/components/schemas/{name}"}
    return Draft202012Validator(reference, registry=registry)


def test_every_example_fits_its_schema() -> None:
    schemas = PUBLISHED["components"]["schemas"]
    told = {name: schema["examples"] for name, schema in schemas.items() if schema.get("examples")}
    assert len(told) > 15
    for name, examples in told.items():
        for example in examples:
            assert list(of(name).iter_errors(example)) == [], name


def test_what_we_send_is_described_with_its_headers_and_an_example() -> None:
    assert set(PUBLISHED["webhooks"]) == {
        "invoice.paid",
        "endpoint.verification",
        "endpoint.probe",
        "endpoint.test",
    }
    for name, told in PUBLISHED["webhooks"].items():
        body = told["post"]["requestBody"]["content"]["application/json"]
        assert body["example"]["type"] == name
        assert Draft202012Validator(body["schema"]).is_valid(body["example"])
        headers = {each["name"] for each in told["post"]["parameters"]}
        assert {"webhook-id", "webhook-timestamp", "webhook-signature"} <= headers


# ── what a generator makes of it ─────────────────────────────────────────────────────────────────


@pytest.fixture(scope="module")
def described(started: Any) -> Any:
    config = schemathesis.Config.from_dict(
        {"checks": {"positive_data_acceptance": {"expected-statuses": SEMANTIC}}}
    )
    document = schemathesis.openapi.from_wsgi("/openapi.json", Wsgi(Bench(started)), config=config)
    document.auth(refresh_interval=None)(Keys)
    return document


class Keys:
    """Whose key a call carries: an operator's where nobody else may call."""

    def get(self, _: Any, context: Any) -> str:
        operation = context.operation
        operators_own = (operation.method, operation.path) == ("put", "/v1/event-types/{name}")
        return OPERATOR_KEY if operators_own or operation.path.startswith(OPERATORS) else KEY

    def set(self, case: Any, key: str, _: Any) -> None:
        case.headers["Authorization"] = key


@pytest.mark.parametrize("method,path", OPERATIONS)
def test_no_request_finds_the_api_other_than_described(
    started: Any, described: Any, method: str, path: str
) -> None:
    operation = described[path][method]
    named = {"hookkeeper-tenant": "acme", "hookkeeper-mode": "live"}
    headers = named if path.startswith("/v1/consents") else {}
    turns = iter(range(10_000))

    @FEW
    @hypothesis.given(case=operation.as_strategy(generation_mode=schemathesis.GenerationMode.POSITIVE))
    def accepted(case: Any) -> None:
        if next(turns) % 4:
            case.path_parameters = {name: OWN[name] for name in case.path_parameters}
        checked(case)

    @FEW
    @hypothesis.given(case=operation.as_strategy(generation_mode=schemathesis.GenerationMode.NEGATIVE))
    def refused(case: Any) -> None:
        checked(case)

    def checked(case: Any) -> None:
        with contextlib.redirect_stdout(io.StringIO()):
            case.operation.app = Wsgi(a_bench(started))
            case.call_and_validate(headers=headers)

    accepted()
    with contextlib.suppress(hypothesis.errors.Unsatisfiable):
        refused()

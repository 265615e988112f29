"""api: answers the HTTPS API of customers and operators."""

import time
from datetime import UTC, datetime
from typing import Any

import bodies
import consents
import deliveries
import event_types
import operations
import operators
import portal_sessions
import recoveries
import subscriptions
from aws_lambda_powertools import Logger, Metrics
from aws_lambda_powertools.event_handler import APIGatewayRestResolver, Response
from aws_lambda_powertools.metrics import MetricUnit
from calls import Call, Caller
from delegation import delegated
from description import describe
from hookkeeper import __version__
from hookkeeper.api import HealthzOut
from hookkeeper.settings import ApiSettings
from idempotency import idempotent
from problems import RefusedError, code_of, register, route_of, told
from wiring import reach_of

import events

EACH_ANSWER = {
    "Cache-Control": "no-store",
    "Content-Security-Policy": "default-src 'none'; frame-ancestors 'none'",
    "Referrer-Policy": "no-referrer",
    "Strict-Transport-Security": "max-age=63072000",
    "X-Content-Type-Options": "nosniff",
}
"""Answers are for programs: no browser is to keep, frame, run or guess at one."""

settings = ApiSettings.load()
logger = Logger(service="api", level=settings.log_level)
metrics = Metrics(namespace="Hookkeeper", service="api")
reach = reach_of(settings)


app = APIGatewayRestResolver(
    enable_validation=True, response_validation_error_http_code=500, json_body_deserializer=bodies.read
)
app.use(middlewares=[delegated, bodies.bodiless, idempotent])
for module in (
    subscriptions,
    events,
    event_types,
    deliveries,
    recoveries,
    portal_sessions,
    consents,
    operations,
    operators,
):
    app.include_router(module.router)
register(app, logger)


@app.get("/healthz", tags=["service"])
def healthz() -> HealthzOut:
    """Whether it is up."""
    return HealthzOut(version=__version__)


@app.get("/openapi.json", include_in_schema=False)
def openapi() -> Response[str]:
    return Response(
        200,
        content_type="application/json",
        body=describe(app, server_url=settings.api_url),
        headers={"Cache-Control": "public, max-age=300"},
    )


@metrics.log_metrics
@logger.inject_lambda_context(clear_state=True)
def handler(event: dict[str, Any], context: Any) -> dict[str, Any]:
    began = time.monotonic()
    call = _call(event)
    app.context["call"] = call
    try:
        answer = _refusal(event, call) or app.resolve(bodies.as_json(event), context)
    finally:
        reach.tenants.leave()
    answer["multiValueHeaders"] = {n: [v] for n, v in EACH_ANSWER.items()} | answer["multiValueHeaders"]
    _tell(event, call, answer, latency_ms=round((time.monotonic() - began) * 1000))
    return answer


def _call(event: dict[str, Any]) -> Call:
    told = event["requestContext"]
    return Call(
        reach=reach,
        now=datetime.now(UTC),
        request_id=told["requestId"],
        caller=Caller.of(told),
        headers={name.lower(): value for name, value in (event.get("headers") or {}).items()},
    )


def _refusal(event: dict[str, Any], call: Call) -> dict[str, Any] | None:
    """What is refused before anything is parsed."""
    try:
        bodies.check(event, call.headers)
    except RefusedError as refused:
        return _as_answer(told(refused, request_id=call.request_id))
    return None


def _as_answer(refused: Response[str]) -> dict[str, Any]:
    return {
        "statusCode": refused.status_code,
        "body": refused.body,
        "isBase64Encoded": False,
        "multiValueHeaders": {"Content-Type": [refused.content_type]},
    }


def _tell(event: dict[str, Any], call: Call, answer: dict[str, Any], *, latency_ms: int) -> None:
    """One wide line a request: neither headers, queries, bodies nor the path's own words."""
    status = answer["statusCode"]
    metrics.add_metric("Requests", MetricUnit.Count, 1)
    metrics.add_metric("RequestLatency", MetricUnit.Milliseconds, latency_ms)
    caller = call.caller
    logger.info(
        "request.answered",
        extra={
            "request_id": call.request_id,
            "method": event["httpMethod"],
            "route": route_of(app, event["httpMethod"], event["path"]),
            "status": status,
            "code": code_of(answer),
            "key_id": caller.key_id if caller else None,
            "tenant": call.scope.tenant_id if call.scope else None,
            "mode": call.scope.mode if call.scope else None,
            "latency_ms": latency_ms,
        },
    )

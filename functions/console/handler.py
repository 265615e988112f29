"""console: the pages on which owners see a failing endpoint and mend it, and operators see the fleet."""

import time
from datetime import UTC, datetime
from typing import Any

import assets
import delivery_pages
import entrance
import operator_pages
import recovery_pages
import subscription_actions
import subscription_list
import subscription_pages
from aws_lambda_powertools import Logger, Metrics
from aws_lambda_powertools.event_handler import APIGatewayRestResolver
from aws_lambda_powertools.metrics import MetricUnit
from hookkeeper.settings import ConsoleSettings
from pages import SECURITY
from reach import reach_of
from refusals import register
from visit import guarded, visit_of

settings = ConsoleSettings.load()
logger = Logger(service="console", level=settings.log_level)
metrics = Metrics(namespace="Hookkeeper", service="console")
reach = reach_of(settings)

app = APIGatewayRestResolver()
app.use(middlewares=[guarded])
for module in (
    assets,
    entrance,
    subscription_list,
    subscription_pages,
    subscription_actions,
    delivery_pages,
    recovery_pages,
    operator_pages,
):
    app.include_router(module.router)
refusals = register(app, logger)


@metrics.log_metrics
@logger.inject_lambda_context(clear_state=True)
def handler(event: dict[str, Any], context: Any) -> dict[str, Any]:
    began = time.monotonic()
    cookie, next_cookie = entrance.cookie_names(settings.console_url)
    visit = visit_of(event, reach, now=datetime.now(UTC), cookie=cookie, next_cookie=next_cookie)
    app.context["visit"] = visit
    try:
        answer: dict[str, Any] = app.resolve(event, context)
    finally:
        reach.tenants.leave()
    answer["multiValueHeaders"] |= {name: [value] for name, value in SECURITY.items()}
    session = visit.session
    metrics.add_metric("PagesShown", MetricUnit.Count, 1)
    logger.info(
        "page.shown",
        extra={
            "request_id": visit.request_id,
            "method": visit.method,
            "route": refusals.route_of(visit),
            "status": answer["statusCode"],
            "actor": session.actor if session else None,
            "operator": session.operator if session else None,
            "tenant": visit.scope.tenant_id if visit.scope else None,
            "mode": visit.scope.mode if visit.scope else None,
            "latency_ms": round((time.monotonic() - began) * 1000),
        },
    )
    return answer

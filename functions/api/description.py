"""The API's own description, OpenAPI 3.1: what Powertools reads from the routes, and what it cannot see."""

import json
from functools import cache
from typing import Any

from aws_lambda_powertools.event_handler import APIGatewayRestResolver
from hookkeeper import __version__
from hookkeeper.api import Problem
from hookkeeper.event_in import EventIn

_EXAMPLE = {"type": "invoice.paid", "resource_id": "shop_7", "data": {"invoice": "in_1", "amount": 1.10}}


@cache
def describe(app: APIGatewayRestResolver, *, server_url: str) -> str:
    """The document as JSON; made once per container."""
    document: dict[str, Any] = json.loads(
        app.get_openapi_json_schema(
            title="Hookkeeper",
            version=__version__,
            description="Webhooks that lose no event to a suspension. Order of deliveries is not promised: "
            "`webhook-id` and `timestamp` let receivers sort and dedupe.",
        )
    )
    document["servers"] = [{"url": server_url}]
    components = document.setdefault("components", {})
    components["securitySchemes"] = {"key": {"type": "http", "scheme": "bearer", "bearerFormat": "hk_…"}}
    document["security"] = [{"key": []}]
    schemas = components.setdefault("schemas", {})
    for model in (Problem, EventIn):
        schema = model.model_json_schema(ref_template="#/components/schemas/{model}")
        schemas |= schema.pop("$defs", {})
        schemas[model.__name__] = schema
    document["paths"]["/v1/events"]["post"]["requestBody"] = _events_body()
    document["paths"]["/healthz"]["get"]["security"] = []
    for operations in document["paths"].values():
        for operation in operations.values():
            _describe_problems(operation)
    return json.dumps(document, separators=(",", ":"))


def _events_body() -> dict[str, Any]:
    """Read by the route itself, so that numbers keep their text."""
    one = {"$ref": "#/components/schemas/EventIn"}
    several = {
        "type": "object",
        "required": ["events"],
        "additionalProperties": False,
        "properties": {"events": {"type": "array", "items": one, "minItems": 1, "maxItems": 100}},
    }
    content = {"schema": {"anyOf": [one, several]}, "example": _EXAMPLE}
    return {"required": True, "content": {"application/json": content}}


def _describe_problems(operation: dict[str, Any]) -> None:
    """Every refusal is a Problem; the shape that Powertools assumes for 422 is not ours."""
    content = {"application/problem+json": {"schema": {"$ref": "#/components/schemas/Problem"}}}
    responses = operation["responses"]
    responses.pop("422", None)
    responses["4XX"] = {"description": "The request was refused", "content": content}

"""The API's own description, OpenAPI 3.1: what Powertools reads from the routes, and what it cannot see."""

import inspect
import json
import re
from functools import cache
from typing import Any

import limits
from aws_lambda_powertools.event_handler import APIGatewayRestResolver
from examples import SENT, SHAPES
from hookkeeper import __version__
from hookkeeper.api import Problem
from hookkeeper.event_in import EventIn

Document = dict[str, Any]

_ABOUT = """Webhooks that lose no event to a suspension.

Order of deliveries is not promised: `webhook-id` and `timestamp` let receivers sort and dedupe.
Keys come as `Authorization: Bearer hk_…`. Operators' and applications' keys name the tenant and its mode in
the headers `hookkeeper-tenant` and `hookkeeper-mode`. A POST may carry an `Idempotency-Key`: its answer is
kept for 24 hours, secrets left out. Every refusal is an RFC 9457 problem with a `code` that stays.
"""

_IDS = {
    "subscription_id": "sub_…",
    "recovery_id": "rec_…",
    "delivery_id": "dlv_…: made of the ids of subscription and event.",
    "event_id": "The producer's, or Hookkeeper's own.",
    "tenant_id": "The tenant.",
    "application_id": "The application.",
    "key_id": "key_…",
    "name": "The event type.",
}

_RULES = {
    "delivery_id": {"pattern": r"^dlv_[A-Za-z0-9_-]{1,64}\.[A-Za-z0-9_-]{1,64}$"},
    "name": limits.LIMITS["EventIn"]["type"],
}

_ONE = "/v1/subscriptions/{subscription_id}"
_NEEDS_IF_MATCH = ((_ONE, "patch"), (_ONE, "delete"))


@cache
def describe(app: APIGatewayRestResolver, *, server_url: str) -> str:
    """The document as JSON; made once per container."""
    document: Document = json.loads(
        app.get_openapi_json_schema(title="Hookkeeper", version=__version__, description=_ABOUT)
    )
    document["servers"] = [{"url": server_url}]
    document["security"] = [{"key": []}]
    _complete(document.setdefault("components", {}))
    document["paths"]["/v1/events"]["post"]["requestBody"] = _events_body()
    document["paths"]["/healthz"]["get"]["security"] = []
    for path, method in _NEEDS_IF_MATCH:
        _require_if_match(document["paths"][path][method])
    for route in app._static_routes + app._dynamic_routes:  # Powertools keeps them to itself
        operations = document["paths"].get(route.openapi_path, {})
        if route.method.lower() in operations:
            _describe(operations[route.method.lower()], route.func.__doc__ or "")
    document["webhooks"] = {name: {"post": _sent(name)} for name in SENT}
    return json.dumps(document, separators=(",", ":"), ensure_ascii=False)


def _complete(components: Document) -> None:
    """Security, the shapes that no route names, and an example for each shape that has one."""
    components["securitySchemes"] = {"key": {"type": "http", "scheme": "bearer", "bearerFormat": "hk_…"}}
    schemas = components.setdefault("schemas", {})
    for model in (Problem, EventIn):
        schema = model.model_json_schema(ref_template="#/components/schemas/{model}")
        schemas |= schema.pop("$defs", {})
        schemas[model.__name__] = schema
    for name in ("HTTPValidationError", "ValidationError", "ResponseValidationError"):
        schemas.pop(name, None)
    limits.apply(schemas)
    for name, example in SHAPES.items():
        schemas[name]["examples"] = [example]


def _events_body() -> Document:
    """Read by the route itself, so that numbers keep their text."""
    one = {"$ref": "#/components/schemas/EventIn"}
    several = {
        "type": "object",
        "required": ["events"],
        "additionalProperties": False,
        "properties": {"events": {"type": "array", "items": one, "minItems": 1, "maxItems": 100}},
    }
    event = SHAPES["EventIn"]
    examples = {"one": {"value": event}, "several": {"value": {"events": [event]}}}
    content = {"schema": {"anyOf": [one, several]}, "examples": examples}
    return {"required": True, "content": {"application/json": content}}


def _require_if_match(operation: Document) -> None:
    """Optional to Powertools, so that its absence is our 428 and no 422."""
    (header,) = (each for each in operation["parameters"] if each["name"] == "if-match")
    header["required"] = True
    header["schema"] = {"type": "string", "examples": ['"3"']}


def _describe(operation: Document, words: str) -> None:
    """Say it in the route's own words, and every refusal as a Problem: Powertools assumes other shapes."""
    told = inspect.cleandoc(words)
    operation["summary"] = re.split(r"(?<=[.;?])\s", told)[0].rstrip(".:;")
    operation["description"] = told
    for parameter in operation.get("parameters", ()):
        if parameter["in"] == "path":
            parameter["description"] = _IDS[parameter["name"]]
            parameter["schema"] |= _RULES.get(parameter["name"], limits.ID)
    responses = operation["responses"]
    for status in ("422", "500"):
        responses.pop(status, None)
    responses["4XX"] = _refusal("The request was refused")
    responses["5XX"] = _refusal("Hookkeeper failed, or something it needs; try again")


def _refusal(description: str) -> Document:
    content = {"application/problem+json": {"schema": {"$ref": "#/components/schemas/Problem"}}}
    return {"description": description, "content": content}


def _sent(name: str) -> Document:
    """One of the requests that endpoints receive, as Standard Webhooks has it."""
    about, body = SENT[name]
    schema = {
        "type": "object",
        "required": ["type", "timestamp", "data"],
        "properties": {
            "type": {"type": "string"},
            "timestamp": {"type": "string", "format": "date-time"},
            "data": {"type": "object"},
        },
    }
    return {
        "operationId": f"sent_{name.replace('.', '_')}",
        "summary": name,
        "description": about,
        "tags": ["webhooks"],
        "security": [],
        "parameters": [_header(*header) for header in _HEADERS],
        "requestBody": {
            "required": True,
            "content": {"application/json": {"schema": schema, "example": body}},
        },
        "responses": {
            "2XX": {"description": "Taken. Any 2xx will do, and no redirect is followed"},
            "410": {"description": "Gone: it counts as a permanent failure"},
            "429": {"description": "Later: `Retry-After` is heeded"},
            "default": {"description": "Tried again, as the subscription's policy has it"},
        },
    }


_HEADERS = (
    ("webhook-id", "The event's id: the same over retries, backfills and replays.", "evt_1001"),
    ("webhook-timestamp", "Unix seconds of this attempt; refuse what is over 5 minutes old.", "1796117400"),
    (
        "webhook-signature",
        "HMAC-SHA256 of `id.timestamp.body`, one for each secret in force, parted by a space.",
        "v1,K5oZfzN95Z9UVu1EsfQmfVNQhnkZ2pj9o9NDN/H/pI4=",
    ),
    ("hookkeeper-subscription-id", "Which subscription it is for.", "sub_01k1zq0000e008w7a6n2v4x6c8"),
    ("hookkeeper-attempt", "Which attempt it is.", "1"),
    ("hookkeeper-lane", "live, backfill, replay, probe or test.", "live"),
)


def _header(name: str, description: str, example: str) -> Document:
    return {
        "name": name,
        "in": "header",
        "required": True,
        "description": description,
        "schema": {"type": "string"},
        "example": example,
    }

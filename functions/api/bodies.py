"""What a body may be at all: JSON in UTF-8, read strictly, up to 4 MiB; and none where a route takes none."""

import binascii
import json
import re
from collections.abc import Mapping
from typing import Any

from aws_lambda_powertools.event_handler import APIGatewayRestResolver, Response
from aws_lambda_powertools.event_handler.api_gateway import Route
from aws_lambda_powertools.event_handler.middlewares import NextMiddleware
from hookkeeper.domain import json_text
from hookkeeper.domain.errors import InvalidInputError
from problems import RefusedError

MAX_BODY_BYTES = 4 * 1024 * 1024

_CHARSET = re.compile(r";\s*charset\s*=\s*\"?([^\s;\"]*)", re.IGNORECASE)
_READS_ITS_OWN = frozenset({("POST", "/v1/events")})
_WITHOUT = frozenset({"GET", "HEAD", "OPTIONS"})
"""Methods whose body means nothing (RFC 9110 §9.3.1)."""


def check(event: Mapping[str, Any], headers: Mapping[str, str]) -> None:
    """Raise RefusedError where the body is not looked into: too large, compressed, no UTF-8 or no JSON."""
    try:
        size = len(_bytes(event))
    except ValueError:
        raise RefusedError(422, "invalid_json", "the body is not UTF-8") from None
    if size > MAX_BODY_BYTES:
        raise RefusedError(413, "too_large", "at most 4 MiB a body")
    if headers.get("content-encoding", "identity") != "identity":
        raise RefusedError(415, "compressed", "bodies come uncompressed")
    if size and not _is_json(headers.get("content-type", "")):
        raise RefusedError(415, "unsupported_media_type", "bodies are application/json in UTF-8")


def as_json(event: Mapping[str, Any]) -> dict[str, Any]:
    """The event with its content type as Powertools spells it; `check` has seen the one that was sent."""
    others = {n: v for n, v in (event.get("headers") or {}).items() if n.lower() != "content-type"}
    return {**event, "headers": others | {"Content-Type": "application/json"}}


def read(text: str) -> Any:
    """A body as plain values, after it has been read strictly. Raises InvalidInputError."""
    json_text.read(text)
    try:
        return json.loads(text)
    except ValueError:  # Python makes no number of over 4,300 digits
        raise InvalidInputError("a number is too long", code="out_of_range") from None


def bodiless(app: APIGatewayRestResolver, next_middleware: NextMiddleware) -> Response[Any]:
    """Refuse a body that says something to a route that takes none: whoever sent it expects an effect."""
    route, text = app.context["_route"], app.current_event.decoded_body or ""
    if text.strip() and not _takes_one(route) and json_text.read(text) not in (None, {}):
        raise InvalidInputError("this takes no body", code="unknown_key")
    return next_middleware(app)


def _takes_one(route: Route) -> bool:
    known = route.method in _WITHOUT or (route.method, route.path) in _READS_ITS_OWN
    return known or bool(route.dependant.body_params)


def _is_json(content_type: str) -> bool:
    """An absent one is taken for JSON."""
    media_type = content_type.partition(";")[0].strip().lower()
    charsets = {charset.lower() for charset in _CHARSET.findall(content_type)}
    return media_type in ("", "application/json") and charsets <= {"utf-8", "utf8"}


def _bytes(event: Mapping[str, Any]) -> bytes:
    """The body as UTF-8. Raises ValueError where it is none."""
    body: str = event.get("body") or ""
    if not event.get("isBase64Encoded"):
        return body.encode()
    raw = binascii.a2b_base64(body)
    raw.decode()
    return raw

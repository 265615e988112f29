"""Idempotency-Key on POST: the first call runs, later ones get its answer for 24 h, its secrets left out.

A key belongs to the API key that brings it: what one may see, another of the tenant's may not.
"""

import hashlib
import json
import re
from typing import Any

from aws_lambda_powertools.event_handler import APIGatewayRestResolver, Response
from aws_lambda_powertools.event_handler.middlewares import NextMiddleware
from calls import Call
from hookkeeper.domain.access import KeyKind
from hookkeeper.ports import Idempotency, KeptAnswer
from problems import RefusedError

HEADER = "idempotency-key"
SHOWN_ONCE = ("secret", "key", "url")
"""Fields of answers that are never kept: a repeated answer has null there."""

_KEY = re.compile(r'"?([\x21\x23-\x7e]{1,255})"?')


def idempotent(app: APIGatewayRestResolver, next_middleware: NextMiddleware) -> Response[Any]:
    """Run the route once per key, caller and path; refuse another body (422) and a second meanwhile (409).

    An answer that asks to be sent the same again frees the key, as a failure does.
    """
    call: Call = app.context["call"]
    given = call.headers.get(HEADER)
    if given is None or app.current_event.http_method != "POST" or call.caller is None:
        return next_middleware(app)
    store, owner = _store(call)
    path = app.current_event.path
    key = _sha256(path, call.caller.key_id, _checked(given))
    request_hash = _sha256(app.current_event.decoded_body or "")
    kept = store.begin(owner, key, request_hash=request_hash, now=call.now)
    if kept is not None:
        return _repeated(kept, request_hash)
    call.repeat = _sha256(owner, key, request_hash)
    try:
        answer = next_middleware(app)
    except BaseException:
        store.forget(owner, key)
        raise
    if call.asks_again:
        store.forget(owner, key)
        return answer
    store.finish(
        owner, key, KeptAnswer(request_hash, answer.status_code, _redacted(answer.body)), now=call.now
    )
    return answer


def _sha256(*parts: str) -> str:
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()


def _store(call: Call) -> tuple[Idempotency, str]:
    """Where the caller's keys are kept: with its tenant's items, or with the operators' own."""
    caller = call.caller
    named = "hookkeeper-tenant" in call.headers
    if caller is not None and caller.kind is KeyKind.OPERATOR and not named:
        return call.reach.operator_idempotency, "operator"
    scope = call.enter()
    return call.reach.idempotency, f"{scope.tenant_id}#{scope.mode}"


def _checked(given: str) -> str:
    match = _KEY.fullmatch(given.strip())
    if match is None:
        raise RefusedError(
            422, "invalid_idempotency_key", "an Idempotency-Key is 1 to 255 visible ASCII characters"
        )
    return match[1]


def _repeated(kept: KeptAnswer, request_hash: str) -> Response[str]:
    if kept.request_hash != request_hash:
        raise RefusedError(422, "idempotency_key_reused", "this Idempotency-Key was used with another body")
    if kept.status_code is None:
        raise RefusedError(
            409,
            "idempotency_key_in_use",
            "a request with this Idempotency-Key is being answered",
            headers={"Retry-After": "1"},
        )
    return Response(
        kept.status_code,
        content_type="application/json",
        body=kept.body,
        headers={"Idempotency-Replayed": "true"},
    )


def _redacted(body: Any) -> str:
    if isinstance(body, dict):
        body = {name: None if name in SHOWN_ONCE else value for name, value in body.items()}
    return json.dumps(body, separators=(",", ":"))

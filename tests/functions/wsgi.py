"""The API over the in-memory world as a WSGI application; what API Gateway does is done here."""

import base64
import json
from collections.abc import Callable, Iterable, Mapping
from typing import Any
from urllib.parse import parse_qsl

from hookkeeper.domain.access import TENANT_RIGHTS, KeyKind, Right
from hookkeeper.domain.tenancy import Mode

from tests.functions.api_bench import Bench, sample

KEY = "Bearer hk_live_of_acme"
OPERATOR_KEY = "Bearer hk_op_of_the_house"
OPEN = frozenset({"/healthz", "/openapi.json"})

REFUSED = json.dumps(
    {
        "type": "about:blank",
        "title": "Unauthorized",
        "status": 401,
        "detail": "a key is needed",
        "code": "unauthorized",
        "errors": [],
        "request_id": "r",
    }
).encode()

StartResponse = Callable[[str, list[tuple[str, str]]], object]


class Wsgi:
    """Calls the bench; any other key than KEY and OPERATOR_KEY is refused as the gateway does."""

    def __init__(self, bench: Bench) -> None:
        self.bench = bench

    def __call__(self, environ: Mapping[str, Any], start_response: StartResponse) -> Iterable[bytes]:
        headers = {
            name[5:].replace("_", "-").title(): value
            for name, value in environ.items()
            if name.startswith("HTTP_")
        }
        if environ.get("CONTENT_TYPE"):
            headers["Content-Type"] = environ["CONTENT_TYPE"]
        path = environ["PATH_INFO"].encode("latin-1").decode("utf-8", "replace").removeprefix("/api")
        key = headers.get("Authorization", "")
        if path not in OPEN and key not in (KEY, OPERATOR_KEY):
            start_response("401 Unauthorized", [("Content-Type", "application/problem+json")])
            return [REFUSED]
        answer = self.bench.send(self._event(environ, path, headers, key))
        start_response(f"{answer.status} Told", [(n.title(), v) for n, v in answer.headers.items()])
        return [answer.text.encode()]

    def _event(
        self, environ: Mapping[str, Any], path: str, headers: dict[str, str], key: str
    ) -> dict[str, Any]:
        query = parse_qsl(environ.get("QUERY_STRING", ""), keep_blank_values=True)
        several: dict[str, list[str]] = {}
        for name, value in query:
            several.setdefault(name, []).append(value)
        body = environ["wsgi.input"].read(int(environ.get("CONTENT_LENGTH") or 0))
        event = sample("api_request")
        event |= {
            "httpMethod": environ["REQUEST_METHOD"],
            "path": path,
            "queryStringParameters": dict(query) or None,
            "multiValueQueryStringParameters": several or None,
            "headers": headers,
            "multiValueHeaders": {name: [value] for name, value in headers.items()},
            "body": base64.b64encode(body).decode() if body else None,
            "isBase64Encoded": bool(body),
        }
        context = event["requestContext"]
        context |= {"httpMethod": environ["REQUEST_METHOD"], "path": f"/api{path}"}
        context.pop("authorizer", None)
        if key == KEY:
            context["authorizer"] = _told(KeyKind.LIVE, TENANT_RIGHTS) | {
                "tenant": "acme",
                "mode": str(Mode.LIVE),
            }
        elif key == OPERATOR_KEY:
            context["authorizer"] = _told(KeyKind.OPERATOR, frozenset({Right.OPERATE}))
        return event


def _told(kind: KeyKind, rights: frozenset[Right]) -> dict[str, str]:
    return {"principalId": "key_1", "key_id": "key_1", "kind": str(kind), "rights": " ".join(sorted(rights))}

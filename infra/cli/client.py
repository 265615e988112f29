"""A client of Hookkeeper's HTTPS API: one method a verb, problems as exceptions."""

from dataclasses import dataclass, field
from typing import Any, Self
from urllib.parse import quote

import httpx
from hookkeeper.domain import json_text

PATIENCE_SECONDS = 30.0
LARGEST_PAGE = 100


class ApiError(Exception):
    """The API answered with a problem (RFC 9457); `problem` is its document."""

    def __init__(self, status: int, problem: dict[str, Any]) -> None:
        super().__init__(problem.get("detail") or problem.get("title") or f"HTTP {status}")
        self.status = status
        self.problem = problem

    @property
    def request_id(self) -> str | None:
        return self.problem.get("request_id")


@dataclass(frozen=True, slots=True)
class Api:
    """The API under one key. Operator and application keys name the tenant and mode they act for."""

    url: str
    key: str = field(repr=False)
    tenant: str | None = None
    mode: str = "live"
    http: httpx.Client = field(
        default_factory=lambda: httpx.Client(trust_env=False, timeout=PATIENCE_SECONDS), repr=False
    )

    def acting_for(self, tenant: str, mode: str = "live") -> Self:
        """The same key, for a tenant."""
        return type(self)(self.url, self.key, tenant, mode, self.http)

    def get(self, path: str, **query: Any) -> dict[str, Any]:
        return self.call("GET", path, query={k: v for k, v in query.items() if v is not None})

    def pages(self, path: str, *, most: int | None, **query: Any) -> tuple[list[dict[str, Any]], bool]:
        """The first `most` items of a list (None: all of them), and whether there are more."""
        items: list[dict[str, Any]] = []
        cursor = None
        while True:
            limit = LARGEST_PAGE if most is None else min(LARGEST_PAGE, most - len(items))
            page = self.get(path, **query, limit=limit, cursor=cursor)
            items += page["data"]
            cursor, more = page["next_cursor"], page["has_more"]
            if not more or (most is not None and len(items) >= most):
                return items, more

    def post(self, path: str, body: Any = None, *, headers: dict[str, str] | None = None) -> dict[str, Any]:
        return self.call("POST", path, body={} if body is None else body, headers=headers)

    def put(self, path: str, body: Any) -> dict[str, Any]:
        return self.call("PUT", path, body=body)

    def patch(self, path: str, body: Any, *, etag: str) -> dict[str, Any]:
        return self.call("PATCH", path, body=body, headers={"if-match": etag})

    def delete(self, path: str, *, etag: str | None = None) -> dict[str, Any]:
        return self.call("DELETE", path, headers={"if-match": etag} if etag else None)

    def call(
        self,
        method: str,
        path: str,
        *,
        query: dict[str, Any] | None = None,
        body: Any = None,
        headers: dict[str, str] | None = None,
    ) -> dict[str, Any]:
        """The answer's JSON object, `{}` where it has no body, with `etag` added where it has one.

        Numbers of `body` that json_text has read go out as they were written. Raises ApiError for a problem,
        httpx.HTTPError where there is no answer.
        """
        answer = self.http.request(
            method,
            self.url.rstrip("/") + path,
            params=query,
            content=None if body is None else json_text.write(body).encode(),
            headers={**self._headers(body is not None), **(headers or {})},
        )
        document = _document(answer)
        if not answer.is_success:
            raise ApiError(answer.status_code, document)
        if "etag" in answer.headers:
            document.setdefault("etag", answer.headers["etag"])
        return document

    def _headers(self, has_body: bool) -> dict[str, str]:
        named = {"hookkeeper-tenant": self.tenant, "hookkeeper-mode": self.mode} if self.tenant else {}
        typed = {"content-type": "application/json"} if has_body else {}
        return {"authorization": f"Bearer {self.key}", **typed, **named}


def path(*parts: str) -> str:
    """The path of a resource, whatever is in its ids."""
    return "/v1/" + "/".join(quote(part, safe="") for part in parts)


def _document(answer: httpx.Response) -> dict[str, Any]:
    if not answer.content:
        return {}
    try:
        document = answer.json()
    except ValueError:
        document = None
    if isinstance(document, dict):
        return document
    detail = f"HTTP {answer.status_code} without a JSON object; is this the API's URL? {answer.url}"
    raise ApiError(answer.status_code, {"detail": detail})

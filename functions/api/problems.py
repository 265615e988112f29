"""Every refusal as RFC 9457 problem+json, in one place; none tells more than its caller may know."""

import json
from collections.abc import Mapping, Sequence
from email.utils import format_datetime
from http import HTTPStatus
from typing import Any

from aws_lambda_powertools import Logger
from aws_lambda_powertools.event_handler import APIGatewayRestResolver, Response
from aws_lambda_powertools.event_handler.api_gateway import Route
from aws_lambda_powertools.event_handler.exceptions import NotFoundError as NoSuchRouteError
from aws_lambda_powertools.event_handler.openapi.exceptions import (
    RequestUnsupportedContentType,
    RequestValidationError,
)
from hookkeeper.api import Problem, ProblemItem
from hookkeeper.domain.errors import (
    ConflictError,
    DuplicateSubscriptionError,
    HookkeeperError,
    InvalidInputError,
    LimitedError,
    NotAllowedError,
    NotFoundError,
    OwnFaultError,
    StaleVersionError,
)

CONTENT_TYPE = "application/problem+json"

MOST_ERRORS = 50
"""Named in one answer: a body of 4 MiB has room for more than Lambda could send."""

_CODES = {
    "missing": "missing",
    "extra_forbidden": "unknown_key",
    "enum": "invalid_value",
    "invalid_time": "invalid_time",
    "greater_than": "out_of_range",
    "less_than_equal": "out_of_range",
}
_STATUSES = {"too_large": 413, "invalid_cursor": 400}
"""Codes of InvalidInputError that are not plain 422."""


class RefusedError(HookkeeperError):
    """A refusal that belongs to HTTP alone: 401, 403, 412, 428 and the like."""

    def __init__(
        self,
        status: int,
        code: str,
        detail: str,
        *,
        errors: Sequence[ProblemItem] = (),
        headers: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(detail)
        self.errors = errors
        self.status = status
        self.code = code
        self.detail = detail
        self.headers = dict(headers or {})


def problem(
    status: int,
    code: str,
    detail: str,
    *,
    request_id: str,
    errors: Sequence[ProblemItem] = (),
    headers: Mapping[str, str] | None = None,
) -> Response[str]:
    """The answer; its body is a string, since Powertools does not serialise problem+json."""
    body = Problem(
        title=HTTPStatus(status).phrase,
        status=status,
        detail=detail,
        code=code,
        errors=list(errors),
        request_id=request_id,
    )
    return Response(
        status, content_type=CONTENT_TYPE, body=body.model_dump_json(), headers=dict(headers or {})
    )


def told(error: HookkeeperError, *, request_id: str) -> Response[str]:
    """The problem that an error of ours is told as."""
    match error:
        case RefusedError():
            return problem(
                error.status,
                error.code,
                error.detail,
                request_id=request_id,
                errors=error.errors,
                headers=error.headers,
            )
        case InvalidInputError():
            item = ProblemItem(pointer=error.pointer, code=error.code, detail=error.detail)
            status = _STATUSES.get(error.code, 422)
            return problem(status, error.code, error.detail, request_id=request_id, errors=[item])
        case NotFoundError():
            # Without the id: a foreign id must read the same as one that does not exist.
            return problem(404, "not_found", f"no such {error.kind}", request_id=request_id)
        case DuplicateSubscriptionError():
            item = ProblemItem(pointer="/endpoint_url", code=error.code, detail=error.existing_id)
            return problem(409, error.code, str(error), request_id=request_id, errors=[item])
        case ConflictError() | NotAllowedError():
            status = 409 if isinstance(error, ConflictError) else 403
            return problem(status, error.code, str(error), request_id=request_id)
        case LimitedError():
            headers = {"Retry-After": format_datetime(error.again_at, usegmt=True)}
            return problem(429, "throttled", error.detail, request_id=request_id, headers=headers)
        case StaleVersionError():
            return problem(412, "stale_version", str(error), request_id=request_id)
    return problem(
        503,
        "unavailable",
        "something Hookkeeper needs cannot be reached; try again",
        request_id=request_id,
        headers={"Retry-After": "1"},
    )


def register(app: APIGatewayRestResolver, logger: Logger) -> None:
    """Let every error of a route end as a problem; what nobody foresaw is logged, and told as 500."""
    problems = _Problems(app, logger)
    app.exception_handler(HookkeeperError)(problems.refused)
    app.exception_handler(RequestValidationError)(problems.invalid)
    app.exception_handler(RequestUnsupportedContentType)(problems.unsupported)
    app.exception_handler(Exception)(problems.unforeseen)
    app.not_found(problems.no_such_route)


class _Problems:
    def __init__(self, app: APIGatewayRestResolver, logger: Logger) -> None:
        self._app = app
        self._logger = logger

    def refused(self, error: HookkeeperError) -> Response[str]:
        if isinstance(error, OwnFaultError):
            self._logger.error("api.own_fault", exc_info=error)
        return told(error, request_id=self._request_id)

    def invalid(self, error: RequestValidationError) -> Response[str]:
        items = [_item(each) for each in error.errors()[:MOST_ERRORS]]
        code = items[0].code if len(items) == 1 else "invalid_request"
        detail = f"{items[0].pointer} {items[0].detail}".strip()
        return problem(422, code, detail, request_id=self._request_id, errors=items)

    def unsupported(self, _: RequestUnsupportedContentType) -> Response[str]:
        detail = "bodies are application/json"
        return problem(415, "unsupported_media_type", detail, request_id=self._request_id)

    def no_such_route(self, _: NoSuchRouteError) -> Response[str]:
        methods = ", ".join(_methods_of(self._app, self._app.context["_path"]))
        if not methods:
            return problem(404, "not_found", "no such path", request_id=self._request_id)
        detail, headers = f"this path takes {methods}", {"Allow": methods}
        return problem(405, "method_not_allowed", detail, request_id=self._request_id, headers=headers)

    def unforeseen(self, error: Exception) -> Response[str]:
        self._logger.error("api.failed", exc_info=error)
        detail = "Hookkeeper failed; it has been logged"
        return problem(500, "internal_error", detail, request_id=self._request_id)

    @property
    def _request_id(self) -> str:
        request_id: str = self._app.context["call"].request_id
        return request_id


def route_of(app: APIGatewayRestResolver, method: str, path: str) -> str | None:
    """The route's pattern, for logs: a path's own words may be anything."""
    return next((r.path for r in _routes_of(app, path) if r.method == method), None)


def code_of(answer: Mapping[str, Any]) -> str | None:
    """The code of a problem; None for any other answer."""
    if answer["statusCode"] < HTTPStatus.BAD_REQUEST:
        return None
    code: str = json.loads(answer["body"])["code"]
    return code


def _methods_of(app: APIGatewayRestResolver, path: str) -> list[str]:
    return sorted({route.method for route in _routes_of(app, path)})


def _routes_of(app: APIGatewayRestResolver, path: str) -> list[Route]:
    """The routes whose pattern the path has, whatever the method; Powertools keeps them to itself."""
    return [route for route in app._static_routes + app._dynamic_routes if route.rule.match(path)]


def _item(error: Mapping[str, Any]) -> ProblemItem:
    place, *rest = error["loc"]
    pointer = "".join(f"/{part}" for part in rest) if place == "body" else f"?{rest[0]}" if rest else ""
    code = _CODES.get(error["type"], "wrong_type")
    return ProblemItem(pointer=pointer, code=code, detail=error["msg"])

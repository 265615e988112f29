"""API Gateway's own errors, as problem+json (RFC 9457), so that a client meets one shape of error."""

import json

from aws_cdk import aws_apigateway as apigateway

_PROBLEMS: dict[str, tuple[apigateway.ResponseType, int, str, str]] = {
    "BadBody": (apigateway.ResponseType.BAD_REQUEST_BODY, 400, "bad_request", "Bad Request"),
    "BadParameters": (apigateway.ResponseType.BAD_REQUEST_PARAMETERS, 400, "bad_request", "Bad Request"),
    "Unauthorized": (apigateway.ResponseType.UNAUTHORIZED, 401, "unauthorized", "Unauthorized"),
    "Expired": (apigateway.ResponseType.EXPIRED_TOKEN, 401, "unauthorized", "Unauthorized"),
    "Denied": (apigateway.ResponseType.ACCESS_DENIED, 403, "forbidden", "Forbidden"),
    # Of a caller whose owner is on no usage plan: a key made anew puts it on one.
    "NoPlan": (apigateway.ResponseType.INVALID_API_KEY, 403, "no_usage_plan", "Forbidden"),
    "Filtered": (apigateway.ResponseType.WAF_FILTERED, 403, "forbidden", "Forbidden"),
    "NotFound": (apigateway.ResponseType.RESOURCE_NOT_FOUND, 404, "not_found", "Not Found"),
    # What API Gateway says of a path and method that it does not have.
    "NoSuchRoute": (apigateway.ResponseType.MISSING_AUTHENTICATION_TOKEN, 404, "not_found", "Not Found"),
    "TooLarge": (apigateway.ResponseType.REQUEST_TOO_LARGE, 413, "too_large", "Content Too Large"),
    "MediaType": (
        apigateway.ResponseType.UNSUPPORTED_MEDIA_TYPE,
        415,
        "unsupported_media_type",
        "Unsupported Media Type",
    ),
    "Throttled": (apigateway.ResponseType.THROTTLED, 429, "throttled", "Too Many Requests"),
    "Quota": (apigateway.ResponseType.QUOTA_EXCEEDED, 429, "quota_exceeded", "Too Many Requests"),
    "AuthorizerFailed": (
        apigateway.ResponseType.AUTHORIZER_FAILURE,
        500,
        "internal_error",
        "Internal Server Error",
    ),
    "IntegrationFailed": (apigateway.ResponseType.INTEGRATION_FAILURE, 502, "bad_gateway", "Bad Gateway"),
    "TimedOut": (apigateway.ResponseType.INTEGRATION_TIMEOUT, 504, "timeout", "Gateway Timeout"),
    # Whatever else API Gateway may say, a crash of `api` included.
    "OurFault": (apigateway.ResponseType.DEFAULT_5_XX, 500, "internal_error", "Internal Server Error"),
    "ClientsFault": (apigateway.ResponseType.DEFAULT_4_XX, 400, "bad_request", "Bad Request"),
}


_EACH_ANSWER = {
    "Cache-Control": "'no-store'",
    "Strict-Transport-Security": "'max-age=63072000'",
    "X-Content-Type-Options": "'nosniff'",
}

_RETRY_AFTER_SECONDS = {"throttled": 1, "quota_exceeded": 3600}
"""A bucket fills by the second; a day's quota comes back within the day, and a client need not hammer."""


def add_problems(rest: apigateway.RestApi) -> None:
    """Let the gateway answer as `api` does."""
    for id_, (type_, status, code, title) in _PROBLEMS.items():
        headers = {"Content-Type": "'application/problem+json'", **_EACH_ANSWER}
        if status == 401:
            headers["WWW-Authenticate"] = "'Bearer'"
        if code in _RETRY_AFTER_SECONDS:
            headers["Retry-After"] = f"'{_RETRY_AFTER_SECONDS[code]}'"
        rest.add_gateway_response(
            id_,
            type=type_,
            status_code=str(status),
            response_headers=headers,
            templates={"application/json": _template(status, code, title)},
        )


def _template(status: int, code: str, title: str) -> str:
    """RFC 9457 in the shape of SPEC §5; API Gateway puts the request's id in."""
    return json.dumps(
        {
            "type": "about:blank",
            "title": title,
            "status": status,
            "detail": title,
            "code": code,
            "errors": [],
            "request_id": "$context.requestId",
        }
    )

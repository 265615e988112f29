"""MiniStack with six gaps closed, so that the product's policies and usage plans hold here word for word.

It knows no `dynamodb:LeadingKeys`, puts no policy variables into conditions, takes a request on loopback for
an insecure one, does not tell which identity a mail is sent from, wants a permission of its own for a batch
of SQS messages, and takes a gateway key from a header alone, where our authorizer names it. Every one of them
would refuse what AWS allows.
"""

import json
from collections.abc import Mapping
from contextvars import ContextVar
from typing import Any

from ministack import app
from ministack.core import iam_actions, iam_evaluator
from ministack.services import apigateway_v1, dynamodb

from infra.local.iam_gaps import leading_keys, sender_identity, single_action, with_variables

_authorized = apigateway_v1._authorize_request_v1
_asked = apigateway_v1._invoke_authorizer_lambda
_action_of = iam_actions.extract_iam_action
_conditions_met = iam_evaluator._conditions_met
_dynamodb_context = iam_actions.dynamodb_service_context
_pin_request_origin = app.pin_request_origin
_ses_resource = iam_actions._ses_v2_resource_arn


def dynamodb_context(body: bytes) -> dict[str, Any]:
    keys = leading_keys(json.loads(body or b"{}"), _partition_key_name)
    context: dict[str, Any] = _dynamodb_context(body)
    return context | ({"dynamodb:leadingkeys": keys} if keys else {})


def _partition_key_name(table: str, index: str | None) -> str | None:
    described = dynamodb._tables.get(table.rpartition("/")[2]) or {}
    indexes = {each["IndexName"]: each["KeySchema"] for each in described.get("GlobalSecondaryIndexes", [])}
    schema = indexes.get(index, described.get("KeySchema", []))
    return next((key["AttributeName"] for key in schema if key["KeyType"] == "HASH"), None)


def conditions_met(conditions: dict[str, Any], context: Any) -> bool:
    def value_of(variable: str) -> str | None:
        value = iam_evaluator._resolve_condition_key(variable, context)
        return None if value is None else str(value)

    met: bool = _conditions_met(with_variables(conditions, value_of), context)
    return met


def pin_request_origin(source_ip: str, _: object) -> None:
    _pin_request_origin(source_ip, secure_transport=True)


def ses_resource(method: str, path: str, body: bytes, region: str, account: str) -> str:
    if path.rstrip("/") == "/v2/email/outbound-emails":
        return f"arn:aws:ses:{region}:{account}:identity/{sender_identity(body)}"
    arn: str = _ses_resource(method, path, body, region, account)
    return arn


def action_of(*request: Any) -> str | None:
    action: str | None = _action_of(*request)
    return action and single_action(action)


_NAMED = "usageIdentifierKey"
_usage_key: ContextVar[str | None] = ContextVar("usage_key", default=None)


async def ask_authorizer(*request: Any) -> Any:
    """The authorizer's answer; the key it names rides in the context, which is cached with the policy."""
    answer = await _asked(*request)
    said = answer.get("body") if answer else None
    if isinstance(said, dict) and _NAMED in said:
        said["context"] = {**said.get("context", {}), _NAMED: said[_NAMED]}
    return answer


async def authorize(*request: Any) -> Any:
    refusal, context = await _authorized(*request)
    told = dict(context or {})
    _usage_key.set(told.pop(_NAMED, None))
    return refusal, told if context is not None else None


def usage_key(_headers: Mapping[str, str]) -> str | None:
    return _usage_key.get()


def main() -> None:
    apigateway_v1._authorize_request_v1 = authorize
    apigateway_v1._invoke_authorizer_lambda = ask_authorizer
    apigateway_v1._api_key_from_request = usage_key
    app.pin_request_origin = pin_request_origin
    iam_actions.extract_iam_action = action_of
    iam_actions.dynamodb_service_context = dynamodb_context
    iam_actions._ses_v2_resource_arn = ses_resource
    iam_evaluator._conditions_met = conditions_met
    app.main()


if __name__ == "__main__":
    main()

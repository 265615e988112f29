"""authorizer: says whose key a call carries and what it may do; a revoked key is dead when caches end."""

import os
from datetime import UTC, datetime
from typing import Any

import boto3
from aws_lambda_powertools import Logger
from hookkeeper.adapters.dynamodb_access import DynamoDBAccess
from hookkeeper.domain.access import ApiKey, gateway_key, key_hash, well_formed

# Read as it is: settings bring pydantic along, which would double every caller's first wait.
access = DynamoDBAccess(boto3.client("dynamodb"), access_table=os.environ["HOOKKEEPER_ACCESS_TABLE"])
logger = Logger(service="authorizer", level=os.environ.get("HOOKKEEPER_LOG_LEVEL", "INFO"))

SCHEME = "bearer "


class UnauthorizedError(Exception):
    """API Gateway answers 401 to this very text, and to no other."""

    def __init__(self) -> None:
        super().__init__("Unauthorized")


@logger.inject_lambda_context(clear_state=True)
def handler(event: dict[str, Any], _context: Any) -> dict[str, Any]:
    now = datetime.now(UTC)
    key = _key_of(event.get("authorizationToken"))
    if key is None or not key.usable(now):
        logger.info("key.refused", extra={"key_id": key.id if key else None})
        raise UnauthorizedError
    access.used(key, now=now)
    allowed = {
        "Action": "execute-api:Invoke",
        "Effect": "Allow",
        "Resource": _whole_api(event["methodArn"]),
    }
    return {
        "principalId": key.id,
        "policyDocument": {"Version": "2012-10-17", "Statement": [allowed]},
        "context": _told(key),
        "usageIdentifierKey": gateway_key(_api_id(event["methodArn"]), key.owner),
    }


def _key_of(token: object) -> ApiKey | None:
    """The key, if the text can be one at all and we have it; no table is asked for what cannot."""
    if not isinstance(token, str) or token[: len(SCHEME)].lower() != SCHEME:
        return None
    text = token[len(SCHEME) :]
    return access.key_by_hash(key_hash(text)) if well_formed(text) else None


def _whole_api(method_arn: str) -> str:
    """API Gateway keeps the policy for the key, so it must hold for each path the key may ask for next."""
    api, stage, *_ = method_arn.split("/")
    return f"{api}/{stage}/*"


def _api_id(method_arn: str) -> str:
    return method_arn.partition("/")[0].rpartition(":")[2]


def _told(key: ApiKey) -> dict[str, str]:
    """What `api` is told; API Gateway lets plain values through alone."""
    told = {"key_id": key.id, "kind": str(key.kind), "rights": " ".join(sorted(key.rights))}
    if key.tenant_id is not None and key.mode is not None:
        told |= {"tenant": key.tenant_id, "mode": str(key.mode)}
    if key.application_id is not None:
        told["application"] = key.application_id
    return told

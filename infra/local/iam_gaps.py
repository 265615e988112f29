"""What the embedded AWS must know of a request to judge our policies as AWS does: see server.py."""

import json
import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any

KeyName = Callable[[str, str | None], str | None]
"""The name of the partition key of a table, or of its index."""

_VARIABLE = re.compile(r"\$\{([^}]+)\}")
_EQUALITY = re.compile(r"(#?[\w.-]+)\s*=\s*(:\w+)")
_NO_SUCH_VALUE = "\0"


def leading_keys(request: Mapping[str, Any], key_name: KeyName) -> list[str]:
    """`dynamodb:LeadingKeys`: the partition keys a request names; none for Scan and PartiQL."""
    return [
        str(value)
        for table, operation in _operations(request)
        for value in _partition_keys(operation, key_name(table, operation.get("IndexName")))
        if value is not None
    ]


def _operations(request: Mapping[str, Any]) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """(table, what is done to it) of a single call, a batch or a transaction."""
    if "TableName" in request:
        yield request["TableName"], request
    for table, wanted in request.get("RequestItems", {}).items():
        if isinstance(wanted, dict):
            yield from ((table, {"Key": key}) for key in wanted.get("Keys", []))
        else:
            yield from ((table, operation) for item in wanted for operation in item.values())
    for item in request.get("TransactItems", []):
        yield from ((operation["TableName"], operation) for operation in item.values())


def _partition_keys(operation: Mapping[str, Any], name: str | None) -> Iterator[Any]:
    for attributes in (operation.get("Key"), operation.get("Item")):
        if attributes is not None:
            yield _plain(attributes.get(name))
    if "KeyConditionExpression" in operation:
        names = operation.get("ExpressionAttributeNames") or {}
        values = operation.get("ExpressionAttributeValues") or {}
        compared = {names.get(n, n): v for n, v in _EQUALITY.findall(operation["KeyConditionExpression"])}
        yield _plain(values.get(compared.get(name)))


def _plain(value: Mapping[str, Any] | None) -> Any:
    return next(iter(value.values())) if value else None


def with_variables(conditions: Any, value_of: Callable[[str], str | None]) -> Any:
    """The conditions with `${…}` put in. One that the request does not carry becomes what nothing equals."""

    def put_in(variable: re.Match[str]) -> str:
        value = value_of(variable[1])
        return _NO_SUCH_VALUE if value is None else value

    match conditions:
        case str():
            return _VARIABLE.sub(put_in, conditions)
        case list():
            return [with_variables(each, value_of) for each in conditions]
        case dict():
            return {key: with_variables(each, value_of) for key, each in conditions.items()}
    return conditions


def sender_identity(send_email: bytes) -> str:
    """The identity that a SendEmail request sends from."""
    sender: str = json.loads(send_email).get("FromEmailAddress", "")
    return sender.rpartition("<")[2].rstrip(">")


def single_action(action: str) -> str:
    """SQS authorises a batch as the single action it repeats."""
    return action.removesuffix("Batch") if action.startswith("sqs:") else action

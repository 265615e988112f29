"""A guarded write, put together clause by clause, and the transactions that such writes are parts of."""

from collections.abc import Mapping, Sequence
from typing import Any

from botocore.exceptions import ClientError

from hookkeeper.adapters.dynamodb import (
    CONDITION_FAILED,
    PASSING,
    TRANSACTION_CANCELED,
    Backoff,
    Item,
    cancellation_codes,
    encoded,
    error_code,
)
from hookkeeper.domain.errors import OwnFaultError

CHECK_FAILED = "ConditionalCheckFailed"
MAX_TRANSACTION = 100

Step = dict[str, Any]
"""One element of a transaction: `{"Put": …}`, `{"Update": …}`, `{"Delete": …}`, `{"ConditionCheck": …}`."""


class Expression:
    """What a write changes and what must be true for it; every `require…` must hold.

    A path is an attribute, or `attribute.inner` of a map. Every update requires that the item exists:
    UpdateItem would make a new one (F46).
    """

    def __init__(self, *, creates: bool = False) -> None:
        self._clauses: dict[str, list[str]] = {}
        self._conditions: list[str] = []
        self._names: dict[str, str] = {}
        self._values: dict[str, Any] = {}
        if not creates:
            self._conditions.append("attribute_exists(pk)")

    def put(self, path: str, value: Any) -> None:
        """Write the value; None removes the attribute."""
        if value is None:
            self._clause("REMOVE", self._name(path))
        else:
            self._clause("SET", f"{self._name(path)} = {self._value(value)}")

    def put_first(self, path: str, value: Any) -> None:
        """Write the value where there is none yet."""
        name = self._name(path)
        self._clause("SET", f"{name} = if_not_exists({name}, {self._value(value)})")

    def add(self, path: str, number: int) -> None:
        """Add to a counter; an absent one is 0."""
        self._clause("ADD", f"{self._name(path)} {self._value(number)}")

    def require_same(self, path: str, value: Any) -> None:
        """True while the attribute is still as it was read; None: while it is absent."""
        if value is None:
            self._conditions.append(f"attribute_not_exists({self._name(path)})")
        else:
            self.require(path, "=", value)

    def require(self, path: str, comparison: str, value: Any) -> None:
        self._conditions.append(f"{self._name(path)} {comparison} {self._value(value)}")

    def require_any(self, *alternatives: tuple[str, str, Any]) -> None:
        """True where at least one of (path, comparison, value) holds; value None: where it is absent."""
        told = [
            f"attribute_not_exists({self._name(path)})"
            if value is None
            else f"{self._name(path)} {comparison} {self._value(value)}"
            for path, comparison, value in alternatives
        ]
        self._conditions.append(f"({' OR '.join(told)})")

    def condition(self) -> dict[str, Any]:
        """The parameters of a ConditionCheck, a guarded Delete or a guarded Put."""
        return {
            name: value
            for name, value in {
                "ConditionExpression": " AND ".join(self._conditions),
                "ExpressionAttributeNames": self._names,
                "ExpressionAttributeValues": encoded(self._values),
            }.items()
            if value
        }

    def update(self) -> dict[str, Any]:
        """The parameters of an UpdateItem, but for table and key."""
        clauses = " ".join(f"{verb} {', '.join(parts)}" for verb, parts in self._clauses.items())
        return {"UpdateExpression": clauses, **self.condition()}

    def _clause(self, verb: str, text: str) -> None:
        self._clauses.setdefault(verb, []).append(text)

    def _name(self, path: str) -> str:
        parts = path.split(".")
        self._names.update({f"#{part}": part for part in parts})
        return ".".join(f"#{part}" for part in parts)

    def _value(self, value: Any) -> str:
        placeholder = f":v{len(self._values)}"
        self._values[placeholder] = value
        return placeholder


def updated(table: str, key: Mapping[str, Any], expression: Expression) -> Step:
    return {"Update": {"TableName": table, "Key": dict(key), **expression.update()}}


def checked(table: str, key: Mapping[str, Any], expression: Expression) -> Step:
    return {"ConditionCheck": {"TableName": table, "Key": dict(key), **expression.condition()}}


def put(table: str, item: Item) -> Step:
    return {"Put": {"TableName": table, "Item": item}}


def put_new(table: str, item: Item) -> Step:
    """Put an item whose key must be free."""
    return {"Put": {"TableName": table, "Item": item, "ConditionExpression": "attribute_not_exists(pk)"}}


def deleted(table: str, key: Mapping[str, Any]) -> Step:
    return {"Delete": {"TableName": table, "Key": dict(key)}}


def update_item(
    client: Any, table: str, key: Mapping[str, Any], expression: Expression, backoff: Backoff
) -> bool:
    """One guarded update; False where its guard failed. Raises OwnFaultError when the table stays busy."""
    return transact(client, [updated(table, key, expression)], backoff) is None


def transact(client: Any, steps: Sequence[Step], backoff: Backoff) -> frozenset[int] | None:
    """All the steps or none: None when they were made, else the positions of those whose guard failed.

    A conflict with another transaction, and throttling, are tried again. Raises OwnFaultError when the
    tables stay busy. An update alone needs no transaction, which would cost it double.
    """
    if len(steps) == 1 and "Update" in steps[0]:
        return _update_alone(client, steps[0]["Update"], backoff)
    for _ in backoff.attempts():
        try:
            client.transact_write_items(TransactItems=list(steps))
        except ClientError as error:
            if error_code(error) == TRANSACTION_CANCELED:
                lost = _lost(error)
                if lost:
                    return lost
            elif error_code(error) not in PASSING:
                raise
        else:
            return None
    raise OwnFaultError("the tables stay busy")


_PASSING_REASONS = frozenset(
    {"None", "TransactionConflict", "ProvisionedThroughputExceeded", "ThrottlingError"}
)


def _lost(error: ClientError) -> frozenset[int]:
    """Which guards failed. Raises the error where it was neither a guard nor something that passes."""
    codes = cancellation_codes(error)
    if not set(codes) <= _PASSING_REASONS | {CHECK_FAILED}:
        raise error
    return frozenset(position for position, code in enumerate(codes) if code == CHECK_FAILED)


def _update_alone(client: Any, update: Mapping[str, Any], backoff: Backoff) -> frozenset[int] | None:
    for _ in backoff.attempts():
        try:
            client.update_item(**update)
        except ClientError as error:
            if error_code(error) == CONDITION_FAILED:
                return frozenset({0})
            if error_code(error) not in PASSING:
                raise
        else:
            return None
    raise OwnFaultError(f"{update['TableName']} stays busy")

"""What every DynamoDB adapter shares: attribute values both ways, keys, batches read to the end, patience.

Times are whole microseconds since the epoch. Items, keys and error codes never leave the adapters.
"""

import random
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

from botocore.exceptions import ClientError

from hookkeeper.domain.event import ArchivePointer
from hookkeeper.domain.tenancy import Mode, Scope

Item = dict[str, Any]
"""An item or key as the low-level client has it: `{"pk": {"S": …}}`."""

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
MAX_BATCH_GET = 100
MAX_BATCH_WRITE = 25

CONDITION_FAILED = "ConditionalCheckFailedException"
TRANSACTION_CANCELED = "TransactionCanceledException"
PASSING = frozenset(
    {
        "InternalServerError",
        "ProvisionedThroughputExceededException",
        "RequestLimitExceeded",
        "ThrottlingException",
        "TransactionConflictException",
        "TransactionInProgressException",
    }
)
"""Codes of a call that may be made again as it is."""


def micros(moment: datetime) -> int:
    span = moment - EPOCH
    return (span.days * 86_400 + span.seconds) * 1_000_000 + span.microseconds


def moment(stored: int) -> datetime:
    return EPOCH + timedelta(microseconds=stored)


def prefix(scope: Scope) -> str:
    """What every key of a tenant's mode begins with."""
    return f"{scope.tenant_id}#{scope.mode}#"


def scope_of(key: str) -> tuple[Scope, list[str]]:
    """The scope that a key begins with, and the key's other parts."""
    tenant_id, mode, *rest = key.split("#")
    return Scope(tenant_id, Mode(mode)), rest


def expiry(since: datetime, life: timedelta) -> int:
    """A `ttl`: a day more than the life, since DynamoDB may remove an item as soon as it has passed."""
    return int((since + life + timedelta(days=1)).timestamp())


def packed(pointer: ArchivePointer) -> str:
    """A pointer as one short string: `object:offset:length:line`."""
    return f"{pointer.object_key}:{pointer.offset}:{pointer.length}:{pointer.line}"


def unpacked(stored: str) -> ArchivePointer:
    object_key, offset, length, line = stored.rsplit(":", 3)
    return ArchivePointer(object_key=object_key, offset=int(offset), length=int(length), line=int(line))


def encoded(values: Mapping[str, Any]) -> Item:
    """An item of plain values: str, int, float, bool, bytes, datetime, list, mapping; None is left out."""
    return {name: _encoded(value) for name, value in values.items() if value is not None}


def decoded(item: Item) -> dict[str, Any]:
    """The plain values again; a datetime comes back as its microseconds."""
    return {name: _decoded(value) for name, value in item.items()}


def _encoded(value: Any) -> dict[str, Any]:
    match value:
        case bool():
            return {"BOOL": value}
        case str():
            return {"S": str(value)}
        case int() | float():
            return {"N": str(value)}
        case datetime():
            return {"N": str(micros(value))}
        case bytes():
            return {"B": value}
        case Mapping():
            return {"M": encoded(value)}
        case list() | tuple():
            return {"L": [_encoded(element) for element in value]}
    raise TypeError(f"{type(value).__name__} has no attribute value")


def _decoded(value: Mapping[str, Any]) -> Any:
    ((kind, inner),) = value.items()
    match kind:
        case "N":
            return int(inner) if inner.lstrip("-").isdigit() else float(inner)
        case "M":
            return decoded(inner)
        case "L":
            return [_decoded(element) for element in inner]
    return inner


def error_code(error: ClientError) -> str:
    return str(error.response["Error"].get("Code", ""))


def standing_item(error: ClientError) -> Item:
    """The item that stood in the way of a guarded write, if it asked for ALL_OLD; empty if none did."""
    response: Any = error.response
    return dict(response.get("Item", {}))


def cancellation_codes(error: ClientError) -> list[str]:
    """The code of each item of a cancelled transaction, `None` for those that would have gone through."""
    reasons: Any = error.response.get("CancellationReasons", [])
    return [reason.get("Code") or "None" for reason in reasons]


@dataclass(frozen=True, slots=True)
class Backoff:
    """A few tries with full-jitter waits between them: 1.5 s in all at most, by default."""

    tries: int = 5
    first_seconds: float = 0.05
    sleep: Callable[[float], None] = field(default=time.sleep)

    def attempts(self) -> Iterator[int]:
        for attempt in range(self.tries):
            if attempt:
                self.sleep(random.uniform(0, self.first_seconds * 2**attempt))  # noqa: S311 - a wait
            yield attempt


def batch_get(
    client: Any, keys: Mapping[str, Sequence[Item]], backoff: Backoff
) -> tuple[dict[str, list[Item]], dict[str, list[Item]]]:
    """Read distinct keys (at most 100 in all) consistently: what was found, and what stayed unread."""
    found: dict[str, list[Item]] = {table: [] for table in keys}
    left = {table: list(wanted) for table, wanted in keys.items() if wanted}
    if not left:
        return found, left
    for _ in backoff.attempts():
        answer = _unless_passing(
            lambda: client.batch_get_item(
                RequestItems={
                    table: {"Keys": wanted, "ConsistentRead": True}
                    for table, wanted in left.items()  # noqa: B023 - called at once
                }
            )
        )
        if answer is None:
            continue
        for table, items in answer.get("Responses", {}).items():
            found[table] += items
        left = {table: rest["Keys"] for table, rest in answer.get("UnprocessedKeys", {}).items()}
        if not left:
            break
    return found, left


def batch_put(client: Any, table: str, items: Sequence[Item], backoff: Backoff) -> list[Item]:
    """Put items of distinct keys, unguarded, 25 a call: answers those that were not written."""
    unwritten: list[Item] = []
    for start in range(0, len(items), MAX_BATCH_WRITE):
        unwritten += _batch_put(client, table, items[start : start + MAX_BATCH_WRITE], backoff)
    return unwritten


def _batch_put(client: Any, table: str, items: Sequence[Item], backoff: Backoff) -> list[Item]:
    for _ in backoff.attempts():
        requests = [{"PutRequest": {"Item": item}} for item in items]
        answer = _unless_passing(
            lambda: client.batch_write_item(RequestItems={table: requests})  # noqa: B023 - called at once
        )
        if answer is None:
            continue
        left = answer.get("UnprocessedItems", {}).get(table, [])
        items = [request["PutRequest"]["Item"] for request in left]
        if not items:
            break
    return list(items)


def _unless_passing(call: Callable[[], Any]) -> Any:
    try:
        return call()
    except ClientError as error:
        if error_code(error) not in PASSING:
            raise
        return None


def pages(client: Any, **query: Any) -> Iterator[list[Item]]:
    """The pages of a Query, each asked for when it is wanted."""
    while True:
        answer = client.query(**query)
        yield answer["Items"]
        if "LastEvaluatedKey" not in answer:
            return
        query["ExclusiveStartKey"] = answer["LastEvaluatedKey"]

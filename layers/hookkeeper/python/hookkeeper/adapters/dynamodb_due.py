"""Reading through an index: the keys it names (eventually), then the items themselves (consistently)."""

from collections.abc import Sequence
from datetime import datetime
from typing import Any

from hookkeeper.adapters.dynamodb import MAX_BATCH_GET, Backoff, Item, batch_get, encoded, pages
from hookkeeper.adapters.dynamodb_keys import due_partitions
from hookkeeper.domain.errors import OwnFaultError


def due_keys(client: Any, table: str, *, kind: str, now: datetime, limit: int) -> list[Item]:
    """Keys of items of the kind whose `due_at` has passed, longest due first, over all its partitions."""
    found: list[Item] = []
    for partition in due_partitions(kind):
        answer = client.query(
            TableName=table,
            IndexName="due",
            KeyConditionExpression="due_pk = :pk AND due_at <= :now",
            ExpressionAttributeValues=encoded({":pk": partition, ":now": int(now.timestamp())}),
            Limit=limit,
        )
        found += answer["Items"]
    ordered = sorted(found, key=lambda item: int(item["due_at"]["N"]))
    return [_key(item) for item in ordered[:limit]]


def listed_keys(
    client: Any,
    table: str,
    *,
    listing: str,
    limit: int,
    after: str | None = None,
    newest_first: bool = False,
) -> list[Item]:
    """Keys of a listing's items in order of `list_sk`, beyond `after` in the direction of reading."""
    beyond = f" AND list_sk {'<' if newest_first else '>'} :after" if after is not None else ""
    query = {
        "TableName": table,
        "IndexName": "lists",
        "KeyConditionExpression": f"list_pk = :pk{beyond}",
        "ExpressionAttributeValues": encoded({":pk": listing, ":after": after}),
        "ScanIndexForward": not newest_first,
        "Limit": limit,
    }
    found: list[Item] = []
    for page in pages(client, **query):
        found += page
        if len(found) >= limit:
            break
    return [_key(item) for item in found[:limit]]


def read_all(client: Any, table: str, keys: Sequence[Item], backoff: Backoff) -> list[Item]:
    """The items of these distinct keys, consistent, in no order; absent ones are left out.

    Raises OwnFaultError where any stays unread.
    """
    items: list[Item] = []
    for start in range(0, len(keys), MAX_BATCH_GET):
        found, left = batch_get(client, {table: keys[start : start + MAX_BATCH_GET]}, backoff)
        if left:
            raise OwnFaultError(f"{len(left[table])} items of {table} stayed unread")
        items += found[table]
    return items


def _key(item: Item) -> Item:
    return {"pk": item["pk"], "sk": item["sk"]}

"""The catalogue of event types, in the Access table: one item a type, listed by an index."""

import time
from collections.abc import Callable, Sequence
from typing import Any

from hookkeeper.adapters.dynamodb import Backoff, Item, decoded, encoded
from hookkeeper.adapters.dynamodb_due import listed_keys, read_all
from hookkeeper.adapters.dynamodb_records import record, restored
from hookkeeper.domain.catalogue import EventType

CACHE_LIFE_SECONDS = 30.0
MAX_TYPES = 10_000

_LISTING = "types"


class DynamoDBCatalogue:
    """The Catalogue port."""

    def __init__(
        self,
        client: Any,
        *,
        access_table: str,
        backoff: Backoff | None = None,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._client = client
        self._table = access_table
        self._backoff = backoff or Backoff()
        self._monotonic = monotonic
        self._read_at = float("-inf")
        self._all: Sequence[EventType] = ()

    def get(self, name: str) -> EventType | None:
        answer = self._client.get_item(TableName=self._table, Key=_key(name), ConsistentRead=True)
        return restored(EventType, decoded(answer["Item"])) if "Item" in answer else None

    def all(self) -> Sequence[EventType]:
        now = self._monotonic()
        if now - self._read_at >= CACHE_LIFE_SECONDS:
            keys = listed_keys(self._client, self._table, listing=_LISTING, limit=MAX_TYPES)
            items = read_all(self._client, self._table, keys, self._backoff)
            found = (restored(EventType, decoded(item)) for item in items)
            self._all, self._read_at = sorted(found, key=lambda each: each.name), now
        return self._all

    def put(self, event_type: EventType) -> None:
        listed = {"list_pk": _LISTING, "list_sk": event_type.name}
        self._client.put_item(
            TableName=self._table, Item=_key(event_type.name) | encoded(record(event_type) | listed)
        )
        self._read_at = float("-inf")


def _key(name: str) -> Item:
    return encoded({"pk": f"type#{name}", "sk": "type"})

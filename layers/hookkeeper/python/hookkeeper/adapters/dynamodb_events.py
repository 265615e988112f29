"""What is kept of each routed event, and the API's claims of ids that are not yet enqueued."""

from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from datetime import datetime
from typing import Any

from botocore.exceptions import ClientError

from hookkeeper.adapters.dynamodb import (
    CONDITION_FAILED,
    MAX_BATCH_GET,
    Backoff,
    Item,
    batch_get,
    decoded,
    encoded,
    error_code,
    expiry,
    moment,
    packed,
    prefix,
    scope_of,
    standing_item,
    unpacked,
)
from hookkeeper.domain.delivery import LEDGER_LIFE
from hookkeeper.domain.errors import OwnFaultError
from hookkeeper.domain.event import EventItem
from hookkeeper.domain.tenancy import Scope

CONCURRENT_PUTS = 8


class DynamoDBEvents:
    """Event items and claims, in the Events table."""

    def __init__(self, client: Any, *, events_table: str, backoff: Backoff | None = None) -> None:
        self._client = client
        self._table = events_table
        self._backoff = backoff or Backoff()
        self._pool = ThreadPoolExecutor(CONCURRENT_PUTS)

    def routed(self, ids: Sequence[tuple[Scope, str]]) -> Mapping[tuple[Scope, str], EventItem]:
        distinct = list(dict.fromkeys(ids))
        found: dict[tuple[Scope, str], EventItem] = {}
        for start in range(0, len(distinct), MAX_BATCH_GET):
            keys = [
                _key(scope, event_id, "evt") for scope, event_id in distinct[start : start + MAX_BATCH_GET]
            ]
            read, left = batch_get(self._client, {self._table: keys}, self._backoff)
            if left:
                raise OwnFaultError(f"{len(left[self._table])} event items stayed unread")
            found |= {(item.scope, item.id): item for item in map(_event_item, read[self._table])}
        return found

    def put(self, items: Sequence[EventItem]) -> None:
        # Only PutItem is conditional at one write unit: a batch is unguarded, a transaction costs two.
        puts = [self._pool.submit(self._put_first, _stored(item)) for item in items]
        for done in wait(puts).done:
            done.result()

    def claim(self, scope: Scope, event_id: str, *, body_hash: str, now: datetime) -> str:
        claim = {"body_hash": body_hash, "ttl": expiry(now, LEDGER_LIFE)}
        holder = self._put_first(_key(scope, event_id, "claim") | encoded(claim))
        return holder["body_hash"]["S"] if holder else body_hash

    def _put_first(self, item: Item) -> Item | None:
        """Put the item unless its key is taken; answers who has it then."""
        try:
            self._client.put_item(
                TableName=self._table,
                Item=item,
                ConditionExpression="attribute_not_exists(pk)",
                ReturnValuesOnConditionCheckFailure="ALL_OLD",
            )
        except ClientError as error:
            if error_code(error) != CONDITION_FAILED:
                raise
            return standing_item(error)
        return None


def _key(scope: Scope, event_id: str, kind: str) -> Item:
    return encoded({"pk": f"{prefix(scope)}evt#{event_id}", "sk": kind})


def _stored(item: EventItem) -> Item:
    return _key(item.scope, item.id, "evt") | encoded(
        {
            "type": item.type,
            "resource_id": item.resource_id,
            "archived_at": item.archived_at,
            "pointer": packed(item.pointer),
            "body_hash": item.body_hash,
            "matches": item.matches,
            "ttl": expiry(item.archived_at, LEDGER_LIFE),
        }
    )


def _event_item(item: Item) -> EventItem:
    values = decoded(item)
    scope, (_, event_id) = scope_of(values["pk"])
    return EventItem(
        scope=scope,
        id=event_id,
        type=values["type"],
        resource_id=values.get("resource_id"),
        archived_at=moment(values["archived_at"]),
        pointer=unpacked(values["pointer"]),
        body_hash=values["body_hash"],
        matches=values["matches"],
    )

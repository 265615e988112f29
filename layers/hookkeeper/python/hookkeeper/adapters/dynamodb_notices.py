"""Notices to owners: put once per kind and dedupe, claimed before they are sent, marked afterwards."""

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any

from botocore.exceptions import ClientError

from hookkeeper.adapters.dynamodb import (
    CONDITION_FAILED,
    Backoff,
    Item,
    decoded,
    encoded,
    error_code,
    expiry,
    pages,
)
from hookkeeper.adapters.dynamodb_due import due_keys, read_all
from hookkeeper.adapters.dynamodb_expressions import Expression, update_item
from hookkeeper.adapters.dynamodb_keys import due_partition, partition, subscription_key
from hookkeeper.adapters.dynamodb_records import record, restored
from hookkeeper.domain.notice import Notice, NoticeStatus
from hookkeeper.domain.tenancy import SubscriptionKey

LIFE = timedelta(days=90)
"""As long as a suspension is shown: what an owner was told stays beside it."""

STUCK_AFTER = timedelta(minutes=2)
_KIND = "notice"
_KEYED = frozenset({"key"})


def notice_item(notice: Notice) -> Item:
    pending = notice.status is NoticeStatus.PENDING
    index = {"due_pk": due_partition(_KIND, notice.key), "due_at": _due_seconds(notice)} if pending else {}
    told = record(notice, without=_KEYED) | {"ttl": expiry(notice.at, LIFE)} | index
    return _key(notice.key, notice.kind, notice.dedupe) | encoded(told)


class DynamoDBNotices:
    """The Notices port, in the Notices table."""

    def __init__(self, client: Any, *, notices_table: str, backoff: Backoff | None = None) -> None:
        self._client = client
        self._table = notices_table
        self._backoff = backoff or Backoff()

    def put(self, notice: Notice) -> bool:
        try:
            self._client.put_item(
                TableName=self._table,
                Item=notice_item(notice),
                ConditionExpression="attribute_not_exists(pk)",
            )
        except ClientError as error:
            if error_code(error) != CONDITION_FAILED:
                raise
            return False
        return True

    def get(self, key: SubscriptionKey, notice_id: str) -> Notice | None:
        subscription_id, _, rest = notice_id.partition(".")
        kind, _, dedupe = rest.partition(".")
        if subscription_id != key.subscription_id:
            return None
        answer = self._client.get_item(
            TableName=self._table, Key=_key(key, kind, dedupe), ConsistentRead=True
        )
        return _notice(answer["Item"]) if "Item" in answer else None

    def claim(self, notice: Notice, *, by: str, now: datetime, lease: timedelta) -> bool:
        until = now + lease
        expression = Expression()
        expression.require_same("status", NoticeStatus.PENDING)
        expression.require_any(
            ("claimed_until", "=", None), ("claimed_until", "<=", now), ("claimed_by", "=", by)
        )
        expression.put("claimed_by", by)
        expression.put("claimed_until", until)
        expression.put("due_at", int(max(notice.at + STUCK_AFTER, until).timestamp()))
        return self._update(notice, expression)

    def mark(self, notice: Notice) -> bool:
        expression = Expression()
        expression.require("claimed_by", "=", notice.claimed_by or "")
        expression.put("status", notice.status)
        expression.put("attempts", notice.attempts)
        expression.put("message_id", notice.message_id)
        expression.put("sent_at", notice.sent_at)
        expression.put("claimed_until", notice.claimed_until)
        pending = notice.status is NoticeStatus.PENDING
        expression.put("due_pk", due_partition(_KIND, notice.key) if pending else None)
        expression.put("due_at", _due_seconds(notice) if pending else None)
        return self._update(notice, expression)

    def stuck(self, now: datetime, *, limit: int) -> Sequence[Notice]:
        keys = due_keys(self._client, self._table, kind=_KIND, now=now, limit=limit)
        items = read_all(self._client, self._table, keys, self._backoff)
        notices = [notice for notice in map(_notice, items) if notice.status is NoticeStatus.PENDING]
        return sorted((notice for notice in notices if _due(notice) <= now), key=_due)[:limit]

    def of(self, key: SubscriptionKey, *, limit: int) -> Sequence[Notice]:
        query = {
            "TableName": self._table,
            "KeyConditionExpression": "pk = :pk",
            "ExpressionAttributeValues": encoded({":pk": partition(key)}),
            "ConsistentRead": True,
        }
        notices = [_notice(item) for page in pages(self._client, **query) for item in page]
        return sorted(notices, key=lambda notice: (notice.at, notice.id), reverse=True)[:limit]

    def _update(self, notice: Notice, expression: Expression) -> bool:
        key = _key(notice.key, notice.kind, notice.dedupe)
        return update_item(self._client, self._table, key, expression, self._backoff)


def _key(key: SubscriptionKey, kind: str, dedupe: str) -> Item:
    return encoded({"pk": partition(key), "sk": f"{kind}#{dedupe}"})


def _notice(item: Item) -> Notice:
    values = decoded(item)
    return restored(Notice, values, key=subscription_key(values["pk"]))


def _due(notice: Notice) -> datetime:
    """From when on a pending notice is stuck: two minutes old, and its sender's lease over."""
    return max(notice.at + STUCK_AFTER, notice.claimed_until or notice.at)


def _due_seconds(notice: Notice) -> int:
    return int(_due(notice).timestamp())

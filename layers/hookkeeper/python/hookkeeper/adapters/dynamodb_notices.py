"""Notices to owners: put once per kind and dedupe, claimed before they are sent, marked afterwards."""

from collections.abc import Sequence
from dataclasses import replace
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
from hookkeeper.domain.notice import OPEN, Notice, reopened
from hookkeeper.domain.tenancy import SubscriptionKey

LIFE = timedelta(days=90)
"""As long as a suspension is shown: what an owner was told stays beside it."""

_KIND = "notice"
_KEYED = frozenset({"key"})


def notice_item(notice: Notice) -> Item:
    told = record(notice, without=_KEYED) | {"ttl": expiry(notice.at, LIFE)}
    if notice.open:
        told |= {"due_pk": due_partition(_KIND, notice.key), "due_at": _due_seconds(notice)}
    return notice_key(notice) | encoded(told)


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
        expression.require_any(*_still_open())
        expression.require_any(
            ("claimed_until", "=", None), ("claimed_until", "<=", now), ("claimed_by", "=", by)
        )
        expression.put("claimed_by", by)
        expression.put("claimed_until", until)
        expression.put("due_at", _due_seconds(replace(notice, claimed_until=until)))
        return self._update(notice, expression)

    def mark(self, notice: Notice) -> bool:
        expression = Expression()
        expression.require("claimed_by", "=", notice.claimed_by or "")
        # Still open; or closed by this very mark, whose answer was lost.
        expression.require_any(*_still_open(), ("status", "=", notice.status))
        expression.put("status", notice.status)
        expression.put("attempts", notice.attempts)
        expression.put("message_id", notice.message_id)
        expression.put("sent_at", notice.sent_at)
        expression.put("claimed_until", notice.claimed_until)
        expression.put("operators_told", notice.operators_told)
        expression.put("mail_fault", notice.mail_fault)
        expression.put("due_pk", due_partition(_KIND, notice.key) if notice.open else None)
        expression.put("due_at", _due_seconds(notice) if notice.open else None)
        return self._update(notice, expression)

    def mark_unheard(self, notice: Notice) -> bool:
        expression = Expression()
        expression.require("status", "<>", notice.status)
        expression.put("status", notice.status)
        expression.put("mail_fault", notice.mail_fault)
        expression.put("due_pk", None)
        expression.put("due_at", None)
        return self._update(notice, expression)

    def reopen(self, notice: Notice, *, now: datetime) -> bool:
        """A put of the whole item: who may only put (the tenants' role) needs no more for it."""
        try:
            self._client.put_item(
                TableName=self._table,
                Item=notice_item(reopened(notice, now=now)),
                ConditionExpression="#status = :as_read",
                ExpressionAttributeNames={"#status": "status"},
                ExpressionAttributeValues=encoded({":as_read": notice.status}),
            )
        except ClientError as error:
            if error_code(error) != CONDITION_FAILED:
                raise
            return False
        return True

    def stuck(self, now: datetime, *, limit: int) -> Sequence[Notice]:
        keys = due_keys(self._client, self._table, kind=_KIND, now=now, limit=limit)
        items = read_all(self._client, self._table, keys, self._backoff)
        notices = [notice for notice in map(_notice, items) if notice.open and notice.due_at <= now]
        return sorted(notices, key=lambda notice: notice.due_at)[:limit]

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
        return update_item(self._client, self._table, notice_key(notice), expression, self._backoff)


def _still_open() -> list[tuple[str, str, Any]]:
    return [("status", "=", status) for status in sorted(OPEN)]


def notice_key(notice: Notice) -> Item:
    return _key(notice.key, notice.kind, notice.dedupe)


def _key(key: SubscriptionKey, kind: str, dedupe: str) -> Item:
    return encoded({"pk": partition(key), "sk": f"{kind}#{dedupe}"})


def _notice(item: Item) -> Notice:
    values = decoded(item)
    return restored(Notice, values, key=subscription_key(values["pk"]))


def _due_seconds(notice: Notice) -> int:
    return int(notice.due_at.timestamp())

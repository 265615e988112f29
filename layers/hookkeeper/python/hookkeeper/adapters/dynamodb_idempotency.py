"""Answers to POSTs under their Idempotency-Key, for 24 h; whoever claims a key first runs."""

from datetime import datetime, timedelta
from typing import Any
from uuid import uuid4

from botocore.exceptions import ClientError

from hookkeeper.adapters.dynamodb import CONDITION_FAILED, Item, decoded, encoded, error_code, standing_item
from hookkeeper.ports import KeptAnswer

LIFE = timedelta(hours=24)
LEASE = timedelta(seconds=60)
"""How long a call that has not ended holds its key: over the API's own time-out of 30 s."""


class DynamoDBIdempotency:
    """The Idempotency port; `owner` begins the key, as `<tenant>#<mode>` in a table of tenants."""

    def __init__(self, client: Any, *, table: str) -> None:
        self._client = client
        self._table = table

    def begin(self, owner: str, key: str, *, request_hash: str, now: datetime) -> KeptAnswer | None:
        item = _place(owner, key) | encoded(
            {"request_hash": request_hash, "until": now + LEASE, "ttl": _ttl(now), "claim": uuid4().hex}
        )
        free = "attribute_not_exists(pk)"
        over = "#until <= :now"  # an answer's day, or the lease of a call that died
        try:
            self._client.put_item(
                TableName=self._table,
                Item=item,
                ConditionExpression=f"{free} OR {over}",
                ExpressionAttributeNames={"#until": "until"},
                ExpressionAttributeValues=encoded({":now": now}),
                ReturnValuesOnConditionCheckFailure="ALL_OLD",
            )
        except ClientError as error:
            if error_code(error) != CONDITION_FAILED:
                raise
            standing = standing_item(error)
            # This very claim: its answer was lost, and the SDK wrote it again.
            return None if standing == item else _kept(standing)
        return None

    def finish(self, owner: str, key: str, answer: KeptAnswer, *, now: datetime) -> None:
        values = {
            "request_hash": answer.request_hash,
            "status_code": answer.status_code,
            "body": answer.body,
            "until": now + LIFE,
            "ttl": _ttl(now),
        }
        self._client.put_item(TableName=self._table, Item=_place(owner, key) | encoded(values))

    def forget(self, owner: str, key: str) -> None:
        self._client.delete_item(TableName=self._table, Key=_place(owner, key))


def _place(owner: str, key: str) -> Item:
    return encoded({"pk": f"{owner}#idempotency#{key}", "sk": "answer"})


def _ttl(now: datetime) -> int:
    return int((now + LIFE).timestamp())


def _kept(item: Item) -> KeptAnswer:
    values = decoded(item)
    return KeptAnswer(values["request_hash"], values.get("status_code"), values.get("body", ""))

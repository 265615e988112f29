"""The fuse: one item of the Access table, where all tenants' suspensions meet."""

from typing import Any

from hookkeeper.adapters.dynamodb import Backoff, decoded, encoded
from hookkeeper.adapters.dynamodb_expressions import Expression, update_item
from hookkeeper.adapters.dynamodb_records import record, restored
from hookkeeper.domain.fuse import FuseState

FUSE = "fuse"
"""The item's key: a leading key of its own, so that a role may be held to it."""

_KEY = encoded({"pk": FUSE, "sk": FUSE})


class DynamoDBFuse:
    """The Fuse port. A write whose answer was lost knows its own state again."""

    def __init__(self, client: Any, *, access_table: str, backoff: Backoff | None = None) -> None:
        self._client = client
        self._table = access_table
        self._backoff = backoff or Backoff()

    def read(self) -> FuseState:
        answer = self._client.get_item(TableName=self._table, Key=_KEY, ConsistentRead=True)
        return restored(FuseState, decoded(answer.get("Item", {})))

    def write(self, before: FuseState, after: FuseState) -> bool:
        expression = Expression(creates=True)
        # Nobody has written since the state was read, or ever.
        expression.require_same("version", before.version or None)
        for name, value in record(after).items():
            expression.put(name, value)
        if update_item(self._client, self._table, _KEY, expression, self._backoff):
            return True
        return self.read() == after

"""The key that signs the API's cursors: made once, by whoever comes first, in the Access table."""

import secrets
from typing import Any

from botocore.exceptions import ClientError

from hookkeeper.adapters.dynamodb import CONDITION_FAILED, encoded, error_code, standing_item

KEY_BYTES = 32

_PLACE = {"pk": "signing#cursors", "sk": "key"}


class DynamoDBCursorKey:
    """Reads the key when it is first wanted and keeps it: it never changes."""

    def __init__(self, client: Any, *, access_table: str) -> None:
        self._client = client
        self._table = access_table
        self._key: bytes | None = None

    def get(self) -> bytes:
        if self._key is None:
            self._key = self._stored() or self._made()
        return self._key

    def _stored(self) -> bytes | None:
        answer = self._client.get_item(TableName=self._table, Key=encoded(_PLACE), ConsistentRead=True)
        return bytes(answer["Item"]["value"]["B"]) if "Item" in answer else None

    def _made(self) -> bytes:
        key = secrets.token_bytes(KEY_BYTES)
        try:
            self._client.put_item(
                TableName=self._table,
                Item=encoded(_PLACE | {"value": key}),
                ConditionExpression="attribute_not_exists(pk)",
                ReturnValuesOnConditionCheckFailure="ALL_OLD",
            )
        except ClientError as error:
            if error_code(error) != CONDITION_FAILED:
                raise
            return bytes(standing_item(error)["value"]["B"])
        return key

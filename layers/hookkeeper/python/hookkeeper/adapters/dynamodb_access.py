"""Tenants and API keys, in the Access table: the one whose keys begin with no tenant."""

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
    standing_item,
)
from hookkeeper.adapters.dynamodb_due import listed_keys, read_all
from hookkeeper.adapters.dynamodb_expressions import Expression, update_item
from hookkeeper.adapters.dynamodb_records import record, restored
from hookkeeper.domain.access import ApiKey, Tenant

MAX_KEYS = 1000
"""How many keys of one owner are listed."""

USE_TOLD_AFTER = timedelta(hours=1)
"""How old `last_used_at` may grow: one write a key and hour."""

_TENANTS = "tenants"


class DynamoDBAccess:
    """The Access port. A key's list is an index: a new key is in it after a moment."""

    def __init__(self, client: Any, *, access_table: str, backoff: Backoff | None = None) -> None:
        self._client = client
        self._table = access_table
        self._backoff = backoff or Backoff()

    def create_tenant(self, tenant: Tenant) -> bool:
        item = _tenant_key(tenant.id) | encoded(record(tenant) | {"list_pk": _TENANTS, "list_sk": tenant.id})
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
            return standing_item(error) == item  # this very tenant: the answer was lost
        return True

    def tenant(self, tenant_id: str) -> Tenant | None:
        item = self._item(_tenant_key(tenant_id))
        return restored(Tenant, decoded(item)) if item else None

    def tenants(self, *, limit: int, after: str | None = None) -> Sequence[Tenant]:
        keys = listed_keys(self._client, self._table, listing=_TENANTS, limit=limit, after=after)
        items = read_all(self._client, self._table, keys, self._backoff)
        return sorted((restored(Tenant, decoded(item)) for item in items), key=lambda tenant: tenant.id)

    def put_key(self, key: ApiKey) -> None:
        index = {"list_pk": _keys_of(key.owner), "list_sk": key.id}
        self._client.put_item(TableName=self._table, Item=_key_key(key.sha256) | encoded(record(key) | index))

    def key_by_hash(self, sha256: str) -> ApiKey | None:
        item = self._item(_key_key(sha256))
        return restored(ApiKey, decoded(item)) if item else None

    def keys_of(self, owner: str) -> Sequence[ApiKey]:
        keys = listed_keys(self._client, self._table, listing=_keys_of(owner), limit=MAX_KEYS)
        items = read_all(self._client, self._table, keys, self._backoff)
        return sorted((restored(ApiKey, decoded(item)) for item in items), key=lambda key: key.id)

    def used(self, key: ApiKey, *, now: datetime) -> None:
        if key.last_used_at is not None and now - key.last_used_at < USE_TOLD_AFTER:
            return
        expression = Expression()
        expression.put("last_used_at", now)
        update_item(self._client, self._table, _key_key(key.sha256), expression, self._backoff)

    def revoke_key(self, owner: str, key_id: str, *, now: datetime) -> bool:
        """False where the owner has no such key; revoked again, it keeps its first moment."""
        key = next((key for key in self.keys_of(owner) if key.id == key_id), None)
        if key is None:
            return False
        expression = Expression()
        expression.put_first("revoked_at", now)
        return update_item(self._client, self._table, _key_key(key.sha256), expression, self._backoff)

    def _item(self, key: Item) -> Item | None:
        answer = self._client.get_item(TableName=self._table, Key=key, ConsistentRead=True)
        item: Item | None = answer.get("Item")
        return item


def _tenant_key(tenant_id: str) -> Item:
    return encoded({"pk": f"tenant#{tenant_id}", "sk": "tenant"})


def _key_key(sha256: str) -> Item:
    return encoded({"pk": f"key#{sha256}", "sk": "key"})


def _keys_of(owner: str) -> str:
    return f"keys#{owner}"

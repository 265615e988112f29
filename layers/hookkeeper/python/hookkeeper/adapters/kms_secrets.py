"""Endpoint secrets, sealed with a data key per tenant and mode that KMS wraps.

What seals is bound twice: the data key to its tenant (KMS's encryption context), each secret to its
subscription and version (the cipher's additional data). A ciphertext that was moved does not open.
"""

import os
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from botocore.exceptions import BotoCoreError, ClientError
from cachetools import TTLCache
from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from hookkeeper.adapters.dynamodb import (
    CONDITION_FAILED,
    Item,
    decoded,
    encoded,
    error_code,
    moment,
    prefix,
    standing_item,
)
from hookkeeper.domain.errors import SecretUnavailableError
from hookkeeper.domain.signature import Secret
from hookkeeper.domain.tenancy import Scope, SubscriptionKey

NONCE_BYTES = 12
CACHED_SECONDS = 3600.0
"""A rotation has another ref, which is read anew; a key that is disabled in KMS signs so long at most."""

CACHED_SECRETS = 10_000
CACHED_DATA_KEYS = 1_000
MOST_OVERLAPPING = 2
LOOKED_BACK = 8
"""Versions before the present one that are read: those in overlap, and such as never came into use."""

TAKEN_AT_MOST = 5
"""How many versions may be taken by rotations that came to nothing, before `create` gives up."""


@dataclass(frozen=True, slots=True)
class _Opened:
    secret: Secret
    until: datetime | None


class KmsSecrets:
    """The cache is by secret_ref, which deliver reads anew each time: a rotation is in force at once.

    A version is never overwritten: where it is taken, `create` uses the next. A replaced version signs only
    if `retire` was told, so tell it before the subscription names the successor.
    """

    def __init__(
        self,
        dynamodb: Any,
        kms: Any,
        *,
        secrets_table: str,
        kms_key_id: str,
        timer: Callable[[], float] = time.monotonic,
    ) -> None:
        self._dynamodb = dynamodb
        self._kms = kms
        self._table = secrets_table
        self._kms_key_id = kms_key_id
        self._lock = threading.Lock()
        self._opened: TTLCache[tuple[SubscriptionKey, str], tuple[_Opened, ...]] = TTLCache(
            CACHED_SECRETS, CACHED_SECONDS, timer
        )
        self._data_keys: TTLCache[Scope, bytes] = TTLCache(CACHED_DATA_KEYS, CACHED_SECONDS, timer)

    def create(self, key: SubscriptionKey, secret: Secret, *, version: int, now: datetime) -> str:
        with _as_unavailable(key):
            for number in range(version, version + TAKEN_AT_MOST):
                sealed = self._seal(key, number, secret)
                stored = self._put_first(
                    _secret_key(key, number) | encoded({"sealed": sealed, "created_at": now})
                )
                if stored["sealed"]["B"] == sealed:
                    return f"kms:{key.subscription_id}/versions/{number}"
        raise SecretUnavailableError(f"{key.subscription_id} has no free version from {version} on")

    def retire(self, key: SubscriptionKey, secret_ref: str, *, until: datetime) -> None:
        with _as_unavailable(key):
            self._dynamodb.update_item(
                TableName=self._table,
                Key=_secret_key(key, _version(key, secret_ref)),
                UpdateExpression="SET retired_until = :until",
                ConditionExpression="attribute_exists(pk)",
                ExpressionAttributeValues=encoded({":until": until}),
            )

    def signing(self, key: SubscriptionKey, secret_ref: str, *, now: datetime) -> Sequence[Secret]:
        with self._lock:
            opened = self._opened.get((key, secret_ref))
        if opened is None:
            with _as_unavailable(key):
                opened = tuple(self._open_all(key, _version(key, secret_ref), now))
            with self._lock:
                self._opened[key, secret_ref] = opened
        present, *replaced = opened
        return [present.secret, *(old.secret for old in replaced if old.until and now < old.until)]

    def _open_all(self, key: SubscriptionKey, version: int, now: datetime) -> Iterator[_Opened]:
        """The version, then those before it whose overlap has not ended, newest first."""
        answer = self._dynamodb.query(
            TableName=self._table,
            KeyConditionExpression="pk = :pk AND sk <= :version",
            ExpressionAttributeValues={
                ":pk": _secret_key(key, version)["pk"],
                ":version": _secret_key(key, version)["sk"],
            },
            ConsistentRead=True,
            ScanIndexForward=False,
            Limit=1 + LOOKED_BACK,
        )
        items: list[Item] = answer["Items"]
        if not items or items[0]["sk"] != _secret_key(key, version)["sk"]:
            raise SecretUnavailableError(f"{key.subscription_id} has no secret of version {version}")
        yield self._open(key, items[0])
        in_overlap = [old for old in items[1:] if (until := _until(old)) and now < until]
        for old in in_overlap[:MOST_OVERLAPPING]:
            yield self._open(key, old)

    def _open(self, key: SubscriptionKey, item: Item) -> _Opened:
        version = int(item["sk"]["S"].removeprefix("v#"))
        sealed = decoded(item)["sealed"]
        cipher = AESGCM(self._data_key(key.scope, makes=False))
        plain = cipher.decrypt(sealed[:NONCE_BYTES], sealed[NONCE_BYTES:], _bound_to(key, version))
        return _Opened(Secret(plain), _until(item))

    def _seal(self, key: SubscriptionKey, version: int, secret: Secret) -> bytes:
        nonce = os.urandom(NONCE_BYTES)
        cipher = AESGCM(self._data_key(key.scope, makes=True))
        return nonce + cipher.encrypt(nonce, secret.key, _bound_to(key, version))

    def _data_key(self, scope: Scope, *, makes: bool) -> bytes:
        with self._lock:
            known = self._data_keys.get(scope)
        if known is None:
            known = self._unwrapped(scope, makes=makes)
            with self._lock:
                self._data_keys[scope] = known
        return known

    def _unwrapped(self, scope: Scope, *, makes: bool) -> bytes:
        """The tenant's data key as it is stored; the first of those that are made at once stays."""
        item_key = encoded({"pk": f"{prefix(scope)}datakey", "sk": "datakey"})
        stored = self._dynamodb.get_item(TableName=self._table, Key=item_key, ConsistentRead=True).get("Item")
        if stored is None and not makes:
            raise SecretUnavailableError(f"{scope.tenant_id} has no data key")
        context = {"tenant": scope.tenant_id}
        if stored is None:
            made = self._kms.generate_data_key(
                KeyId=self._kms_key_id, KeySpec="AES_256", EncryptionContext=context
            )
            stored = self._put_first(item_key | encoded({"wrapped": made["CiphertextBlob"]}))
            if stored["wrapped"]["B"] == made["CiphertextBlob"]:
                return bytes(made["Plaintext"])
        wrapped = decoded(stored)["wrapped"]
        return bytes(
            self._kms.decrypt(KeyId=self._kms_key_id, CiphertextBlob=wrapped, EncryptionContext=context)[
                "Plaintext"
            ]
        )

    def _put_first(self, item: Item) -> Item:
        """Put the item unless its key is taken; answers the item that is there then."""
        try:
            self._dynamodb.put_item(
                TableName=self._table,
                Item=item,
                ConditionExpression="attribute_not_exists(pk)",
                ReturnValuesOnConditionCheckFailure="ALL_OLD",
            )
        except ClientError as error:
            if error_code(error) != CONDITION_FAILED:
                raise
            return standing_item(error)
        return item


@contextmanager
def _as_unavailable(key: SubscriptionKey) -> Iterator[None]:
    """Whatever goes wrong with table, KMS or cipher is our own fault, and nothing is sent unsigned."""
    try:
        yield
    except (ClientError, BotoCoreError, InvalidTag) as error:
        raise SecretUnavailableError(
            f"the secret of {key.subscription_id}: {type(error).__name__}"
        ) from error


def _secret_key(key: SubscriptionKey, version: int) -> Item:
    return encoded({"pk": f"{prefix(key.scope)}sub#{key.subscription_id}", "sk": f"v#{version:06d}"})


def _bound_to(key: SubscriptionKey, version: int) -> bytes:
    return f"{prefix(key.scope)}{key.subscription_id}#{version}".encode()


def _version(key: SubscriptionKey, secret_ref: str) -> int:
    """The version that a ref names. Raises SecretUnavailableError for another subscription's, or none."""
    number = secret_ref.removeprefix(f"kms:{key.subscription_id}/versions/")
    if not (number.isascii() and number.isdigit()):
        raise SecretUnavailableError(f"{secret_ref} is no secret of {key.subscription_id}")
    return int(number)


def _until(item: Item) -> datetime | None:
    stored = decoded(item).get("retired_until")
    return None if stored is None else moment(stored)

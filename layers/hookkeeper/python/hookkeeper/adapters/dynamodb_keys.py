"""Keys of a subscription's own items, which several adapters write in one transaction."""

import zlib

from hookkeeper.adapters.dynamodb import Item, encoded, prefix, scope_of
from hookkeeper.domain.tenancy import SubscriptionKey

SHARDS = 4
"""Partitions of each kind in a `due` index: writes of one second spread over them."""


def partition(key: SubscriptionKey) -> str:
    """The partition that a subscription's own items share, in the Subscriptions and Notices tables."""
    return f"{prefix(key.scope)}sub#{key.subscription_id}"


def is_subscriptions(partition_key: str) -> bool:
    """Whether it is a subscription's own partition; the Notices table has mailboxes and mails beside them."""
    return scope_of(partition_key)[1][0] == "sub"


def subscription_key(partition_key: str) -> SubscriptionKey:
    """The subscription whose partition it is."""
    scope, (_, subscription_id) = scope_of(partition_key)
    return SubscriptionKey(scope, subscription_id)


def core_key(key: SubscriptionKey) -> Item:
    return encoded({"pk": partition(key), "sk": "core"})


def health_key(key: SubscriptionKey) -> Item:
    return encoded({"pk": partition(key), "sk": "health"})


def due_partition(kind: str, key: SubscriptionKey) -> str:
    """Which partition of a `due` index a subscription's items of the kind are in."""
    return f"{kind}#{zlib.crc32(key.subscription_id.encode()) % SHARDS}"


def due_partitions(kind: str) -> list[str]:
    return [f"{kind}#{shard}" for shard in range(SHARDS)]

"""Which notice a record of the Notices table's stream is about."""

from collections.abc import Mapping
from typing import Any

from hookkeeper.adapters.dynamodb_keys import is_subscriptions, subscription_key
from hookkeeper.domain.tenancy import SubscriptionKey


def new_notice(record: Mapping[str, Any]) -> tuple[SubscriptionKey, str] | None:
    """The subscription and the notice's id where the record puts a new one; None for any other change."""
    keys = record["dynamodb"]["Keys"]
    if record["eventName"] != "INSERT" or not is_subscriptions(keys["pk"]["S"]):
        return None
    key = subscription_key(keys["pk"]["S"])
    kind, _, dedupe = keys["sk"]["S"].partition("#")
    return key, f"{key.subscription_id}.{kind}.{dedupe}"

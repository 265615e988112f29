"""Which notice a record of the Notices table's stream is about."""

from collections.abc import Mapping
from typing import Any

from hookkeeper.adapters.dynamodb_keys import subscription_key
from hookkeeper.domain.tenancy import SubscriptionKey


def new_notice(record: Mapping[str, Any]) -> tuple[SubscriptionKey, str] | None:
    """The subscription and the notice's id where the record puts a new one; None for any other change."""
    if record["eventName"] != "INSERT":
        return None
    keys = record["dynamodb"]["Keys"]
    key = subscription_key(keys["pk"]["S"])
    kind, _, dedupe = keys["sk"]["S"].partition("#")
    return key, f"{key.subscription_id}.{kind}.{dedupe}"

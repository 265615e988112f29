"""Send an endpoint a test event on request: signed and sent as any other, and counted for nothing."""

from datetime import datetime

from hookkeeper.domain.delivery import Lane
from hookkeeper.domain.outcome import Answer
from hookkeeper.domain.subscription import Status
from hookkeeper.domain.tenancy import SubscriptionKey
from hookkeeper.ports import Secrets, Sender, Subscriptions
from hookkeeper.usecases.reach import reach

TESTABLE = frozenset({Status.ACTIVE, Status.SUSPENDED})
"""Who has shown that the endpoint is theirs; a pending endpoint may be a third party's."""


def send_test(
    key: SubscriptionKey,
    *,
    event_type: str,
    data: str,
    webhook_id: str,
    now: datetime,
    subscriptions: Subscriptions,
    secrets: Secrets,
    sender: Sender,
    stop_at_seconds: float | None = None,
) -> Answer | None:
    """The endpoint's answer, or None where the subscription may not be tested; `data` is JSON text.

    Raises OwnFaultError where our own side failed.
    """
    subscription = subscriptions.get(key)
    if subscription is None or subscription.status not in TESTABLE:
        return None
    return reach(
        subscription,
        webhook_id=webhook_id,
        event_type=event_type,
        data=data,
        lane=Lane.TEST,
        now=now,
        secrets=secrets,
        sender=sender,
        stop_at_seconds=stop_at_seconds,
    )

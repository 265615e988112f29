"""Ask a suspended subscription's endpoint whether it works again. Health is never touched by it."""

import json
from dataclasses import dataclass
from datetime import datetime

from hookkeeper.domain.delivery import Lane
from hookkeeper.domain.errors import NotFoundError
from hookkeeper.domain.subscription import Status
from hookkeeper.domain.tenancy import SubscriptionKey
from hookkeeper.ports import Secrets, Sender, Subscriptions
from hookkeeper.usecases.reach import reach

PROBE_TYPE = "endpoint.probe"


@dataclass(frozen=True, slots=True, kw_only=True)
class Probed:
    """Whether the endpoint passed, by its status or its error's kind (SPEC §8)."""

    passed: bool
    status_code: int | None = None
    error: str | None = None
    latency_ms: int = 0


def probe(
    key: SubscriptionKey,
    *,
    nonce: str,
    webhook_id: str,
    now: datetime,
    subscriptions: Subscriptions,
    secrets: Secrets,
    sender: Sender,
    stop_at_seconds: float | None = None,
) -> Probed:
    """Send one probe; a 2xx passes. One that is not suspended is not asked: `error` is its status then.

    Raises NotFoundError, and OwnFaultError where our own side failed: that is no failed probe.
    """
    subscription = subscriptions.get(key)
    if subscription is None:
        raise NotFoundError("subscription", key.subscription_id)
    if subscription.status is not Status.SUSPENDED:
        return Probed(passed=False, error=str(subscription.status))
    answer = reach(
        subscription,
        webhook_id=webhook_id,
        event_type=PROBE_TYPE,
        data=json.dumps({"nonce": nonce}),
        lane=Lane.PROBE,
        now=now,
        secrets=secrets,
        sender=sender,
        stop_at_seconds=stop_at_seconds,
    )
    return Probed(
        passed=answer.error is None,
        status_code=answer.status_code,
        error=answer.error,
        latency_ms=answer.latency_ms,
    )

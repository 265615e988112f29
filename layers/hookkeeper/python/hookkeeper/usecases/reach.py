"""Reach an endpoint outside of any delivery: one signed event of our own making, ten seconds, no record."""

from datetime import datetime

from hookkeeper.domain.delivery import Lane
from hookkeeper.domain.errors import OwnFaultError
from hookkeeper.domain.outcome import Answer, is_our_fault
from hookkeeper.domain.subscription import Subscription
from hookkeeper.ports import Secrets, Sender
from hookkeeper.usecases.request import build_request, event_body

TIMEOUT_SECONDS = 10
"""What a challenge, a probe or a test may take, whatever the subscription's own time-out (SPEC §3, §10)."""


def reach(
    subscription: Subscription,
    *,
    webhook_id: str,
    event_type: str,
    data: str,
    lane: Lane,
    now: datetime,
    secrets: Secrets,
    sender: Sender,
    stop_at_seconds: float | None = None,
) -> Answer:
    """The endpoint's answer to an event; `data` is JSON text, `stop_at_seconds` the time that is left.

    Raises OwnFaultError where our own side failed: try again, and hold it against nobody.
    """
    request = build_request(
        subscription,
        webhook_id=webhook_id,
        body=event_body(event_type, at=now, data=data),
        secrets=secrets.signing(subscription.key, subscription.secret_ref, now=now),
        attempt=1,
        lane=lane,
        now=now,
        timeout_seconds=TIMEOUT_SECONDS,
    )
    answer = sender.send([request], stop_at_seconds=stop_at_seconds)[0]
    if is_our_fault(answer):
        raise OwnFaultError(f"{subscription.id} was not reached: {answer.fault}")
    return answer

"""Ask an endpoint, new or staged, whether it wants what it will get; a right echo puts it in force."""

import json
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from enum import StrEnum

from hookkeeper.domain.audit import SYSTEM
from hookkeeper.domain.config import Margins
from hookkeeper.domain.delivery import Lane
from hookkeeper.domain.errors import ConflictError, InvalidInputError, NotFoundError
from hookkeeper.domain.outcome import Answer
from hookkeeper.domain.signature import token_matches
from hookkeeper.domain.subscription import Subscription
from hookkeeper.domain.tenancy import SubscriptionKey
from hookkeeper.ports import Ids, Secrets, Sender, Subscriptions
from hookkeeper.usecases.reach import reach
from hookkeeper.usecases.verify import verify

VERIFICATION_TYPE = "endpoint.verification"
MAX_ECHO_BYTES = 1024
"""A longer body is no echo, whatever it holds (HAZARDS T37)."""


class Echo(StrEnum):
    """How a challenge ended."""

    VERIFIED = "verified"
    NOT_ECHOED = "not_echoed"
    STALE = "stale"
    """Nobody waits for this token (any more): verified, revoked, expired, or replaced by a fresh one."""


@dataclass(frozen=True, slots=True)
class Challenged:
    """The end of a challenge, and what the endpoint answered; `answer` is None where it was not asked."""

    echo: Echo
    answer: Answer | None = None


def challenge(
    key: SubscriptionKey,
    *,
    token: str,
    webhook_id: str,
    now: datetime,
    margins: Margins,
    subscriptions: Subscriptions,
    secrets: Secrets,
    sender: Sender,
    ids: Ids,
    stop_at_seconds: float | None = None,
) -> Challenged:
    """Send the token to the endpoint that awaits it, and verify it if the token comes back.

    Raises OwnFaultError where our own side failed, so that the challenge is sent again.
    """
    subscription = subscriptions.get(key)
    if subscription is None or not _awaits(subscription, token, now):
        return Challenged(Echo.STALE)
    answer = reach(
        replace(subscription, endpoint_url=subscription.awaited_url or subscription.endpoint_url),
        webhook_id=webhook_id,
        event_type=VERIFICATION_TYPE,
        data=json.dumps({"challenge": token}),
        lane=Lane.PROBE,  # a receiver that ignores tests must not ignore this
        now=now,
        secrets=secrets,
        sender=sender,
        stop_at_seconds=stop_at_seconds,
    )
    if not echoes(answer, subscription.token_hash or ""):
        return Challenged(Echo.NOT_ECHOED, answer)
    answered_at = now + timedelta(milliseconds=answer.latency_ms)
    return Challenged(_activate(key, token, answered_at, margins, subscriptions, ids), answer)


def echoes(answer: Answer, stored_hash: str) -> bool:
    """Whether a 2xx brings back exactly the token: as `{"challenge": …}`, or as the whole plain text.

    A service that mirrors the request nests the token in `data` and does not pass.
    """
    if answer.error is not None or len(answer.body) > MAX_ECHO_BYTES:
        return False
    in_json = token_matches(_challenge_field(answer.body), stored_hash)
    return token_matches(answer.body.strip(), stored_hash) or in_json


def _challenge_field(body: bytes) -> object:
    try:
        document = json.loads(body)
    except (ValueError, RecursionError):
        return None
    return document.get("challenge") if isinstance(document, dict) else None


def _awaits(subscription: Subscription, token: str, now: datetime) -> bool:
    return (
        subscription.awaited_url is not None
        and subscription.token_expires_at is not None
        and now < subscription.token_expires_at
        and token_matches(token, subscription.token_hash or "")
    )


def _activate(
    key: SubscriptionKey,
    token: str,
    now: datetime,
    margins: Margins,
    subscriptions: Subscriptions,
    ids: Ids,
) -> Echo:
    """Activate, if the token still counts: a fresh one may have been asked for while the endpoint thought."""
    try:
        verify(key, token, actor=SYSTEM, now=now, margins=margins, subscriptions=subscriptions, ids=ids)
    except (ConflictError, InvalidInputError, NotFoundError):
        return Echo.STALE
    return Echo.VERIFIED

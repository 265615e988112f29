"""Build the one signed request that every lane sends: deliveries, challenges, probes and tests (SPEC §8)."""

import json
from collections.abc import Sequence
from datetime import datetime

from hookkeeper import __version__
from hookkeeper.domain.delivery import Lane
from hookkeeper.domain.outbound import OutboundRequest
from hookkeeper.domain.signature import Secret, secret_texts, sign
from hookkeeper.domain.subscription import Subscription

USER_AGENT = f"Hookkeeper/{__version__}"

RESERVED_PREFIXES = ("webhook-", "hookkeeper-", "proxy-", "sec-")
RESERVED_HEADERS = frozenset(
    {"content-type", "user-agent", "accept-encoding"}
    | {"host", "content-length", "content-encoding", "transfer-encoding", "connection", "keep-alive"}
    | {"upgrade", "te", "trailer", "expect"}
)
"""Ours, or those that say where a request goes and where it ends."""


def reserved_header(name: str) -> bool:
    """Whether a custom header may not have this name, in whatever case."""
    name = name.lower()
    return name in RESERVED_HEADERS or name.startswith(RESERVED_PREFIXES)


def build_request(
    subscription: Subscription,
    *,
    webhook_id: str,
    body: bytes,
    secrets: Sequence[Secret],
    attempt: int,
    lane: Lane,
    now: datetime,
    timeout_seconds: float | None = None,
) -> OutboundRequest:
    """One attempt's request, signed for this very moment with every secret that is in force.

    `timeout_seconds` defaults to the subscription's. A stored custom header with a reserved name is left
    out. ValueError without a secret: nothing goes unsigned.
    """
    timestamp = int(now.timestamp())
    ours = (
        ("webhook-id", webhook_id),
        ("webhook-timestamp", str(timestamp)),
        ("webhook-signature", sign(secrets, webhook_id=webhook_id, timestamp=timestamp, body=body)),
        ("content-type", "application/json"),
        ("user-agent", USER_AGENT),
        ("hookkeeper-subscription-id", subscription.id),
        ("hookkeeper-attempt", str(attempt)),
        ("hookkeeper-lane", lane.value),
        ("accept-encoding", "identity"),
    )
    theirs = tuple((name, value) for name, value in subscription.headers.items() if not reserved_header(name))
    return OutboundRequest(
        url=subscription.endpoint_url,
        headers=ours + theirs,
        body=body,
        timeout_seconds=subscription.timeout_seconds if timeout_seconds is None else timeout_seconds,
        endpoint_key=_endpoint_key(subscription),
        secrets_to_hide=_secrets_to_hide(secrets, [value for _, value in theirs]),
    )


def event_body(event_type: str, *, at: datetime, data: str) -> bytes:
    """An event's bytes as Standard Webhooks has them; `data` is JSON text and stays as it is."""
    timestamp = at.strftime("%Y-%m-%dT%H:%M:%SZ")
    return f'{{"type":{json.dumps(event_type)},"timestamp":"{timestamp}","data":{data}}}'.encode()


def _endpoint_key(subscription: Subscription) -> str:
    scope = subscription.scope
    return f"{scope.tenant_id}#{scope.mode}#{subscription.endpoint_url}"


def _secrets_to_hide(secrets: Sequence[Secret], header_values: Sequence[str]) -> tuple[str, ...]:
    """Signing secrets, and custom headers' values: whole, and without the scheme (`Bearer`) before them."""
    texts = [text for secret in secrets for text in secret_texts(secret)]
    bare = [value.split()[-1] for value in header_values if value.split()]
    return tuple(dict.fromkeys([*texts, *header_values, *bare]))

"""What we send is verified by the libraries that Standard Webhooks and Svix publish, rotation included."""

from datetime import UTC, datetime
from typing import Any

import pytest
import standardwebhooks
import svix
from hookkeeper.domain.delivery import Lane
from hookkeeper.domain.signature import Secret, encode_secret
from hookkeeper.usecases.request import build_request, event_body

from tests.builders import a_secret, a_subscription

LIBRARIES: dict[str, Any] = {
    "standardwebhooks": (standardwebhooks.Webhook, standardwebhooks.webhooks.WebhookVerificationError),
    "svix": (svix.Webhook, svix.webhooks.WebhookVerificationError),
}
BODIES = {
    "an event": b'{"type":"invoice.paid","timestamp":"2026-12-01T09:30:00Z","data":{"amount":1.10}}',
    "beyond ASCII": '{"type":"a","timestamp":"2026-12-01T09:30:00Z","data":{"note":"café ✓ 🎉"}}'.encode(),
    "a challenge": event_body("endpoint.verification", at=datetime.now(UTC), data='{"challenge":"x"}'),
    "a probe": event_body("endpoint.probe", at=datetime.now(UTC), data='{"nonce":"n"}'),
}
OLD, NEW, OTHER = a_secret(1), a_secret(2), a_secret(3)


def sent(body: bytes, *secrets: Secret, lane: Lane = Lane.LIVE, attempt: int = 1) -> dict[str, str]:
    request = build_request(
        a_subscription(headers={"x-own": "1"}),
        webhook_id="evt_1001",
        body=body,
        secrets=secrets,
        attempt=attempt,
        lane=lane,
        now=datetime.now(UTC),
    )
    assert request.body == body
    return dict(request.headers)


@pytest.mark.parametrize("library", LIBRARIES)
@pytest.mark.parametrize("body", BODIES.values(), ids=BODIES.keys())
@pytest.mark.parametrize("lane", Lane)
def test_every_lane_s_requests_verify(library: str, body: bytes, lane: Lane) -> None:
    webhook, _ = LIBRARIES[library]
    webhook(encode_secret(OLD.key)).verify(body.decode(), sent(body, OLD, lane=lane, attempt=7))


@pytest.mark.parametrize("library", LIBRARIES)
def test_during_rotation_both_secrets_verify_and_no_other(library: str) -> None:
    webhook, refused = LIBRARIES[library]
    body = BODIES["an event"]
    headers = sent(body, NEW, OLD)
    for secret in (NEW, OLD):
        webhook(encode_secret(secret.key)).verify(body.decode(), headers)
    with pytest.raises(refused):
        webhook(encode_secret(OTHER.key)).verify(body.decode(), headers)


@pytest.mark.parametrize("library", LIBRARIES)
def test_after_rotation_the_old_secret_verifies_nothing(library: str) -> None:
    webhook, refused = LIBRARIES[library]
    body = BODIES["an event"]
    with pytest.raises(refused):
        webhook(encode_secret(OLD.key)).verify(body.decode(), sent(body, NEW))


@pytest.mark.parametrize("library", LIBRARIES)
def test_other_bytes_do_not_verify(library: str) -> None:
    webhook, refused = LIBRARIES[library]
    body = BODIES["an event"]
    with pytest.raises(refused):
        webhook(encode_secret(OLD.key)).verify(body.decode().replace("1.10", "1.1"), sent(body, OLD))

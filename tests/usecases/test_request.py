import json
from datetime import UTC, datetime, timedelta

import pytest
import standardwebhooks
from hookkeeper.domain.delivery import Lane
from hookkeeper.domain.outbound import OutboundRequest
from hookkeeper.domain.signature import encode_secret, secret_texts
from hookkeeper.domain.subscription import Subscription
from hookkeeper.usecases.request import build_request, event_body, reserved_header

from tests.builders import NOW, a_key, a_scope, a_secret, a_subscription

BODY = b'{"type":"invoice.paid","timestamp":"2026-12-01T12:00:00Z","data":{"n":1}}'


def built(
    subscription: Subscription | None = None, *, lane: Lane = Lane.LIVE, now: datetime = NOW
) -> OutboundRequest:
    return build_request(
        subscription or a_subscription(),
        webhook_id="evt_1",
        body=BODY,
        secrets=[a_secret(1), a_secret(2)],
        attempt=3,
        lane=lane,
        now=now + timedelta(microseconds=999_999),
    )


def test_a_request_has_exactly_the_headers_of_the_specification_in_their_order() -> None:
    subscription = a_subscription(headers={"X-Team": "orders", "Authorization": "Bearer t0ken-of-theirs"})
    request = built(subscription)
    assert [name for name, _ in request.headers] == [
        "webhook-id",
        "webhook-timestamp",
        "webhook-signature",
        "content-type",
        "user-agent",
        "hookkeeper-subscription-id",
        "hookkeeper-attempt",
        "hookkeeper-lane",
        "accept-encoding",
        "X-Team",
        "Authorization",
    ]
    headers = dict(request.headers)
    assert headers["webhook-id"] == "evt_1"
    assert headers["webhook-timestamp"] == str(int(NOW.timestamp()))
    assert headers["content-type"] == "application/json"
    assert headers["user-agent"].startswith("Hookkeeper/")
    assert headers["hookkeeper-subscription-id"] == subscription.id
    assert headers["hookkeeper-attempt"] == "3"
    assert headers["accept-encoding"] == "identity"


@pytest.mark.parametrize("lane", list(Lane))
def test_every_lane_is_named_in_its_header(lane: Lane) -> None:
    assert dict(built(lane=lane).headers)["hookkeeper-lane"] == lane.value


@pytest.mark.parametrize("number", [1, 2])
def test_the_standard_library_of_receivers_accepts_a_request_with_each_secret_in_force(number: int) -> None:
    request = built(now=datetime.now(UTC))  # the library holds it against the wall clock
    verifier = standardwebhooks.Webhook(encode_secret(a_secret(number).key))
    assert verifier.verify(request.body, dict(request.headers)) == json.loads(BODY)


@pytest.mark.parametrize(
    "name",
    [
        *(
            "webhook-id",
            "Webhook-Signature",
            "USER-AGENT",
            "hookkeeper-lane",
            "Hookkeeper-Other",
            "Content-Type",
        ),
        *(
            "host",
            "Content-Length",
            "transfer-encoding",
            "Connection",
            "accept-encoding",
            "proxy-authorization",
        ),
    ],
)
def test_a_stored_header_never_overrides_ours_or_the_framing(name: str) -> None:
    assert reserved_header(name)
    assert built(a_subscription(headers={name: "theirs"})).headers == built(a_subscription()).headers


@pytest.mark.parametrize("name", ["authorization", "X-Webhook-Id", "cookie", "accept", "traceparent"])
def test_other_names_are_the_customers(name: str) -> None:
    assert not reserved_header(name)
    assert built(a_subscription(headers={name: "theirs"})).headers[-1] == (name, "theirs")


def test_the_time_out_is_the_subscriptions_unless_the_lane_has_its_own() -> None:
    subscription = a_subscription(timeout_seconds=7)
    assert built(subscription).timeout_seconds == 7
    probe = build_request(
        subscription,
        webhook_id="evt_1",
        body=BODY,
        secrets=[a_secret()],
        attempt=1,
        lane=Lane.PROBE,
        now=NOW,
        timeout_seconds=10,
    )
    assert probe.timeout_seconds == 10


def test_connections_are_never_shared_between_tenants_modes_or_endpoints() -> None:
    url = "https://hooks.customer.example/in"
    mine = built(a_subscription(endpoint_url=url)).endpoint_key
    other_tenant = a_subscription(key=a_key(1, a_scope("rival")), endpoint_url=url)
    other_path = a_subscription(endpoint_url=url + "/2")
    assert len({mine, built(other_tenant).endpoint_key, built(other_path).endpoint_key}) == 3


def test_secrets_and_custom_values_are_hidden_from_excerpts_and_from_the_requests_own_text() -> None:
    request = built(a_subscription(headers={"Authorization": "Bearer t0ken-of-theirs"}))
    assert {*secret_texts(a_secret(1)), *secret_texts(a_secret(2))} <= set(request.secrets_to_hide)
    assert {"Bearer t0ken-of-theirs", "t0ken-of-theirs"} <= set(request.secrets_to_hide)
    assert "t0ken" not in repr(request)
    assert encode_secret(a_secret(1).key) not in repr(request)


def test_nothing_goes_unsigned() -> None:
    with pytest.raises(ValueError, match="unsigned"):
        build_request(
            a_subscription(), webhook_id="evt_1", body=BODY, secrets=[], attempt=1, lane=Lane.LIVE, now=NOW
        )


def test_an_events_data_is_kept_byte_for_byte() -> None:
    body = event_body("invoice.paid", at=NOW, data='{"amount": 1.10, "n":1}')
    expected = b'{"type":"invoice.paid","timestamp":"2026-12-01T12:00:00Z","data":{"amount": 1.10, "n":1}}'
    assert body == expected

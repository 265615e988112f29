"""What requests, answers and webhooks look like, one example a shape; a test holds each to its schema."""

from typing import Any

_AT = "2026-12-01T09:30:00.000000Z"
_LATER = "2026-12-02T09:30:00.000000Z"
_SUBSCRIPTION_ID = "sub_01k1zq0000e008w7a6n2v4x6c8"
_DELIVERY_ID = "dlv_01k1zq0000e008w7a6n2v4x6c8.evt_1001"
_SECRET = "whsec_AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8="

_HEALTH: dict[str, Any] = {
    "consecutive_failures": 2,
    "streaks": {"retryable": {"count": 2, "first_failure_at": _AT}},
    "first_failure_at": _AT,
    "last_outcome": "retryable",
    "last_status_code": 503,
    "last_error": "http_503",
    "last_attempt_at": _AT,
    "last_success_at": "2026-12-01T09:00:00.000000Z",
    "last_delivery_at": "2026-12-01T09:00:00.000000Z",
    "circuit": {"state": "closed", "open_until": None},
    "outage_from": None,
    "recovery_id": None,
    "owed": 2,
    "owed_more": False,
}

_SUBSCRIPTION: dict[str, Any] = {
    "id": _SUBSCRIPTION_ID,
    "tenant_id": "acme",
    "mode": "live",
    "application_id": None,
    "resource_id": None,
    "endpoint_url": "https://hooks.example.com/hookkeeper",
    "pending_endpoint_url": None,
    "event_types": ["invoice.paid", "customer.*"],
    "secret_ref": f"kms:{_SUBSCRIPTION_ID}/versions/1",
    "status": "active",
    "enabled": True,
    "owner_email": "ops@example.com",
    "description": "Orders",
    "metadata": {"team": "billing"},
    "headers": {"x-api-key": "***"},
    "policy": "graded",
    "timeout_seconds": 15,
    "maintenance_until": None,
    "archived": False,
    "version": 3,
    "created_at": _AT,
    "updated_at": _AT,
    "first_active_at": _AT,
    "disabled_at": None,
    "disabled_reason": None,
    "last_failure_status": None,
    "status_reason": None,
    "health": _HEALTH,
}

_DELIVERY: dict[str, Any] = {
    "id": _DELIVERY_ID,
    "event_id": "evt_1001",
    "event_type": "invoice.paid",
    "subscription_id": _SUBSCRIPTION_ID,
    "status": "retrying",
    "lane": "live",
    "attempts": [
        {
            "n": 1,
            "at": _AT,
            "lane": "live",
            "status_code": 503,
            "latency_ms": 120,
            "error": "http_503",
            "excerpt": "try later",
        }
    ],
    "attempt_count": 1,
    "next_attempt_at": "2026-12-01T09:30:05.000000Z",
    "archived_at": _AT,
}

_CONSENT = {
    "application_id": "erp_sync",
    "event_types": ["invoice.*"],
    "granted_by": "ada@example.com",
    "granted_at": _AT,
    "withdrawn_at": None,
}

_KEY: dict[str, Any] = {
    "id": "key_01k1zq0000e008w7a6n2v4x6c8",
    "mode": "live",
    "application_id": None,
    "scopes": ["events:write", "subscriptions:read"],
    "last4": "x7Qa",
    "created_at": _AT,
    "expires_at": None,
    "revoked_at": None,
    "last_used_at": _AT,
}

SHAPES: dict[str, Any] = {
    "SubscriptionIn": {
        "endpoint_url": "https://hooks.example.com/hookkeeper",
        "event_types": ["invoice.paid", "customer.*"],
        "owner_email": "ops@example.com",
    },
    "SubscriptionPatch": {"event_types": ["invoice.*"], "metadata": {"team": None}},
    "SubscriptionOut": _SUBSCRIPTION,
    "SubscriptionCreated": _SUBSCRIPTION
    | {
        "status": "pending",
        "enabled": False,
        "version": 1,
        "first_active_at": None,
        "secret": _SECRET,
        "challenged": True,
        "warnings": [],
    },
    "SubscriptionEdited": _SUBSCRIPTION
    | {"health": None, "event_types_in_force_at": _AT, "challenged": None, "warnings": []},
    "SecretOut": {
        "id": _SUBSCRIPTION_ID,
        "secret_ref": f"kms:{_SUBSCRIPTION_ID}/versions/2",
        "secret": _SECRET,
        "old_signs_until": _LATER,
    },
    "ReenablingOut": {"subscription_id": _SUBSCRIPTION_ID, "probe": True, "recovery_id": None},
    "DeliveryOut": _DELIVERY,
    "RecoveryOut": {
        "id": "rec_01k1zq0000e008w7a6n2v4x6c8",
        "subscription_id": _SUBSCRIPTION_ID,
        "kind": "reenable",
        "status": "running",
        "found": 1200,
        "sent": 300,
        "succeeded": 298,
        "failed": 2,
        "expired": 0,
        "rate_per_second": 20.0,
        "eta": "2026-12-01T09:31:00.000000Z",
        "started_at": _AT,
        "ended_at": None,
        "probe_status_code": 200,
        "probe_error": None,
    },
    "ExplanationOut": {
        "event_id": "evt_1001",
        "subscription_id": _SUBSCRIPTION_ID,
        "summary": "retrying: the next attempt has its time",
        "findings": [
            {"step": "archived", "ok": True, "detail": "invoice.paid, archived and routed", "at": _AT},
            {"step": "now", "ok": False, "detail": "retrying: the next attempt has its time", "at": None},
        ],
        "waits_for": "retry",
        "until": "2026-12-01T09:30:05.000000Z",
    },
    "EventIn": {
        "id": "evt_1001",
        "type": "invoice.paid",
        "resource_id": "shop_7",
        "data": {"invoice": "in_1", "amount": 1.10},
    },
    "EventOut": {
        "id": "evt_1001",
        "type": "invoice.paid",
        "resource_id": "shop_7",
        "archived_at": _AT,
        "data": {"invoice": "in_1", "amount": 1.10},
        "matches": 1,
        "deliveries": [_DELIVERY],
    },
    "EventsAccepted": {
        "events": [
            {"id": "evt_1001"},
            {
                "id": None,
                "error": {
                    "pointer": "/events/1/type",
                    "code": "invalid_event_type",
                    "detail": "an event type is dotted lower-case words of at most 128 characters",
                },
            },
        ]
    },
    "EventTypeOut": {
        "name": "invoice.paid",
        "description": "An invoice was paid in full.",
        "json_schema": {"type": "object", "required": ["invoice"]},
        "example": {"invoice": "in_1"},
        "strict": True,
        "updated_at": _AT,
    },
    "AuditOut": {
        "id": "aud_01k1zq0000e008w7a6n2v4x6c8",
        "at": _AT,
        "action": "subscription.edited",
        "actor": "key_01k1zq0000e008w7a6n2v4x6c8",
        "source_ip": "198.51.100.7",
        "subject": _SUBSCRIPTION_ID,
        "before": {"event_types": "invoice.paid"},
        "after": {"event_types": "invoice.*"},
        "detail": "",
    },
    "KeyOut": _KEY,
    "KeyCreated": _KEY | {"key": "hk_live_0123456789ABCDEFGHIJKLMNOPQRSTUV2fKx7Q", "last_used_at": None},
    "ConsentOut": _CONSENT,
    "Problem": {
        "type": "about:blank",
        "title": "Unprocessable Content",
        "status": 422,
        "detail": "'invoice..paid' is no event type, no type followed by '.*', and not '*'",
        "code": "invalid_pattern",
        "errors": [
            {
                "pointer": "/event_types/0",
                "code": "invalid_pattern",
                "detail": "'invoice..paid' is no event type, no type followed by '.*', and not '*'",
            }
        ],
        "request_id": "c6af9ac6-7b61-11e6-9a41-93e8deadbeef",
    },
}
"""By the name of the schema."""

SENT: dict[str, tuple[str, dict[str, Any]]] = {
    "invoice.paid": (
        "An event of a type that the subscription asked for, whatever the provider emits.",
        {"type": "invoice.paid", "timestamp": _AT, "data": {"invoice": "in_1", "amount": 1.10}},
    ),
    "endpoint.verification": (
        'Asks a new or staged endpoint for consent: answer 2xx with `{"challenge": "…"}` or its text.',
        {
            "type": "endpoint.verification",
            "timestamp": "2026-12-01T09:30:00Z",
            "data": {"challenge": "Zm9ydHktdGhyZWUgY2hhcmFjdGVycyBvZiByYW5kb20"},
        },
    ),
    "endpoint.probe": (
        "Asks an endpoint that is to be re-enabled whether it is well: answer 2xx.",
        {
            "type": "endpoint.probe",
            "timestamp": "2026-12-01T09:30:00Z",
            "data": {"nonce": "nonce_01k1zq0000e008w7a6n2v4x6c8"},
        },
    ),
    "endpoint.test": (
        "A test event that the owner asked for; it counts for nothing.",
        {"type": "endpoint.test", "timestamp": "2026-12-01T09:30:00Z", "data": {}},
    ),
}
"""By event type: what it is for, and a body."""

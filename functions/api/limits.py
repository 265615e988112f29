"""Rules that the use cases judge, told in JSON Schema as well: documentation, and input for generators."""

from typing import Any

from hookkeeper.domain.event import EVENT_TYPE, MAX_PATTERNS, MAX_TYPE_LENGTH

Rules = dict[str, Any]

ID: Rules = {"pattern": "^[A-Za-z0-9_-]{1,64}$"}
_URL: Rules = {"format": "uri", "pattern": "^[Hh][Tt][Tt][Pp][Ss]://", "maxLength": 2048}
_TYPE: Rules = {"pattern": f"^{EVENT_TYPE}$", "maxLength": MAX_TYPE_LENGTH}
_PATTERNS: Rules = {
    "minItems": 1,
    "maxItems": MAX_PATTERNS,
    "items": {
        "type": "string",
        "pattern": rf"^(\*|{EVENT_TYPE}(\.\*)?)$",
        "maxLength": MAX_TYPE_LENGTH,
    },
}
_EMAIL: Rules = {
    "format": "email",
    "pattern": r"^[^@\s]{1,64}@[A-Za-z0-9.-]+\.[A-Za-z0-9-]+$",
    "maxLength": 254,
}
_TEXT: Rules = {"maxLength": 500}
_METADATA: Rules = {"maxProperties": 20, "propertyNames": {"pattern": "^[A-Za-z0-9_.-]{1,64}$"}}
_HEADERS: Rules = {"maxProperties": 20, "propertyNames": {"pattern": "^[A-Za-z0-9!#$%&'*+.^_`|~-]{1,64}$"}}
_TIMEOUT: Rules = {"minimum": 1, "maximum": 30}

_SUBSCRIPTION: dict[str, Rules] = {
    "endpoint_url": _URL,
    "event_types": _PATTERNS,
    "owner_email": _EMAIL,
    "description": _TEXT,
    "metadata": _METADATA,
    "headers": _HEADERS,
    "timeout_seconds": _TIMEOUT,
}

LIMITS: dict[str, dict[str, Rules]] = {
    "SubscriptionIn": _SUBSCRIPTION | {"resource_id": ID},
    "SubscriptionPatch": _SUBSCRIPTION,
    "ReplayIn": {"event_types": _PATTERNS},
    "RotateIn": {"overlap_hours": {"minimum": 0, "maximum": 168}},
    "TestIn": {"event_type": _TYPE},
    "PortalSessionIn": {"tenant_id": ID, "ttl_seconds": {"minimum": 60, "maximum": 3600}},
    "TenantIn": {"id": ID, "name": {"minLength": 1, "maxLength": 200}},
    "KeyIn": {"scopes": {"minItems": 1}},
    "ApplicationKeyIn": {"scopes": {"minItems": 1}},
    "ConsentIn": {"application_id": ID, "event_types": _PATTERNS, "granted_by": {"maxLength": 200}},
    "EventTypeIn": {"description": {"maxLength": 2000}},
    "EventIn": {"id": ID, "type": _TYPE, "resource_id": ID, "occurred_at": {"format": "date-time"}},
}
"""By the schema's name, then the property's."""


def apply(schemas: dict[str, Any]) -> None:
    """Write the rules into the schemas; of what may be null, into the other branch."""
    for name, rules in LIMITS.items():
        for field, rule in rules.items():
            told = schemas[name]["properties"][field]
            branches = [each for each in told.get("anyOf", ()) if each.get("type") != "null"]
            (branches[0] if branches else told).update(rule)

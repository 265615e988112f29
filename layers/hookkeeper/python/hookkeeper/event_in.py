"""An event as producers give it, by API, SQS and EventBridge, and the one way it becomes an Event."""

import hashlib
from collections.abc import Mapping
from datetime import datetime
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from hookkeeper.domain import json_text
from hookkeeper.domain.errors import InvalidInputError
from hookkeeper.domain.event import Event, checked_event_id, checked_event_type
from hookkeeper.domain.json_text import Json
from hookkeeper.domain.moment import parse_rfc3339, rfc3339
from hookkeeper.domain.tenancy import Mode, Scope, checked_id

MAX_BODY_BYTES = 256 * 1024
"""What is signed and sent of one event (SPEC §6)."""

_CODES = {"missing": "missing", "extra_forbidden": "unknown_key", "enum": "invalid_value"}


class EventIn(BaseModel):
    """An event by its producer's words; contents are checked where it becomes an Event."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)

    id: Annotated[
        str | None,
        Field(
            description="Yours, or made by Hookkeeper; the same id twice is one event.", examples=["evt_1001"]
        ),
    ] = None
    type: Annotated[str, Field(description="Dotted lower-case words.", examples=["invoice.paid"])]
    resource_id: Annotated[
        str | None, Field(description="What it happened to; narrows who gets it.", examples=["shop_7"])
    ] = None
    occurred_at: Annotated[
        str | None,
        Field(
            description="RFC 3339; the moment of acceptance where absent.", examples=["2026-12-01T09:30:00Z"]
        ),
    ] = None
    data: Annotated[
        dict[str, Any],
        Field(
            description="Sent as it is, numbers to the digit.", examples=[{"invoice": "in_1", "amount": 1.10}]
        ),
    ]


class TenantEventIn(EventIn):
    """An event from a queue, which names its tenant itself."""

    tenant_id: str
    mode: Annotated[Mode, Field(strict=False)] = Mode.LIVE


def parse_event(
    raw: bytes | str | Mapping[str, Json],
    *,
    fallback_id: str,
    accepted_at: datetime,
    scope: Scope | None = None,
) -> Event:
    """The event that `raw` tells of; its body is `{"type","timestamp","data"}`, at most 256 KiB.

    With `scope` (the API) tenant and mode are the key's and refused in `raw`. Without (a queue), `raw`
    names its tenant, or is EventBridge's envelope: `detail-type` is the type, `detail` the rest, and its
    `id` and `time` stand in for what is missing. `accepted_at` must be the same on redelivery (SQS's
    SentTimestamp): it is part of the bytes. Raises InvalidInputError.
    """
    given = json_text.read(raw) if isinstance(raw, bytes | str) else raw
    if not isinstance(given, Mapping):
        raise InvalidInputError("an event is a JSON object", code="wrong_type")
    json_text.check(given)
    if scope is None and "detail-type" in given:
        given, fallback_id, accepted_at = _unwrapped(given, fallback_id, accepted_at)
    told = _validated(EventIn if scope is not None else TenantEventIn, given)
    if isinstance(told, TenantEventIn):
        scope = Scope(told.tenant_id, told.mode)
    assert scope is not None  # noqa: S101  # one of the two has set it
    if told.resource_id is not None:
        checked_id(told.resource_id, field="resource_id")
    return Event(
        scope=scope,
        id=checked_event_id(fallback_id if told.id is None else told.id),
        type=checked_event_type(told.type),
        resource_id=told.resource_id,
        body=_body(told, accepted_at),
    )


def content_hash(event: Event) -> str:
    """What tells whether two events of one id are the same: type, resource and data, SHA-256 in hex.

    The timestamp is left out: a producer that sends again may leave it to us, or stamp anew.
    """
    resource = event.resource_id or ""
    return hashlib.sha256(f"{event.type}\n{resource}\n{data_text(event)}".encode()).hexdigest()


def queue_text(event: Event) -> str:
    """The event as an SQS message body; `parse_event` makes the very same Event of it again."""
    resource = {} if event.resource_id is None else {"resource_id": event.resource_id}
    told = {
        "id": event.id,
        "tenant_id": event.scope.tenant_id,
        "mode": str(event.scope.mode),
        "type": event.type,
        **resource,
        "occurred_at": _timestamp(event),
    }
    return f'{json_text.write(told)[:-1]},"data":{data_text(event)}}}'


def _validated(model: type[EventIn], given: Mapping[str, Json]) -> EventIn:
    try:
        return model.model_validate(given)
    except ValidationError as error:
        first = error.errors(include_url=False, include_context=False, include_input=False)[0]
        pointer = "".join(f"/{part}" for part in first["loc"])
        code = _CODES.get(first["type"], "wrong_type")
        raise InvalidInputError(first["msg"], code=code, pointer=pointer) from None


def _unwrapped(
    envelope: Mapping[str, Json], fallback_id: str, accepted_at: datetime
) -> tuple[Mapping[str, Json], str, datetime]:
    detail = envelope.get("detail")
    if not isinstance(detail, Mapping):
        raise InvalidInputError("detail is a JSON object", code="wrong_type", pointer="/detail")
    if "type" in detail:
        raise InvalidInputError("the type is detail-type", code="unknown_key", pointer="/detail/type")
    bus_id, time = envelope.get("id"), envelope.get("time")
    if isinstance(time, str):
        accepted_at = parse_rfc3339(time, pointer="/time")
    told = {**detail, "type": envelope["detail-type"]}
    return told, bus_id if isinstance(bus_id, str) else fallback_id, accepted_at


def _body(told: EventIn, accepted_at: datetime) -> bytes:
    moment = accepted_at
    if told.occurred_at is not None:
        moment = parse_rfc3339(told.occurred_at, pointer="/occurred_at")
    parts: dict[str, Json] = {"type": told.type, "timestamp": rfc3339(moment), "data": told.data}
    body = json_text.write(parts).encode()
    if len(body) > MAX_BODY_BYTES:
        detail = f"an event has at most {MAX_BODY_BYTES} bytes, this one {len(body)}"
        raise InvalidInputError(detail, code="too_large", pointer="/data")
    return body


def data_text(event: Event) -> str:
    """The event's data, as the JSON text that is sent."""
    return event.body[_BEFORE_DATA + len(event.type) : -1].decode()


# The body's shape is fixed by `_body`: a type without quotes, a timestamp of 27 characters, then the data.
_BEFORE_TIMESTAMP = len('{"type":"","timestamp":"')
_TIMESTAMP = len("2026-12-01T09:30:00.000000Z")
_BEFORE_DATA = _BEFORE_TIMESTAMP + _TIMESTAMP + len('","data":')


def _timestamp(event: Event) -> str:
    start = _BEFORE_TIMESTAMP + len(event.type)
    return event.body[start : start + _TIMESTAMP].decode()

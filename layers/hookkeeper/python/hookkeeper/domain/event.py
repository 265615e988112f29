"""The fact a provider emits, where it lies in the archive, and which patterns its type matches."""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime

from hookkeeper.domain.errors import InvalidInputError
from hookkeeper.domain.tenancy import Scope, checked_id

EVENT_TYPE = r"[a-z][a-z0-9_]*(\.[a-z0-9_]+)*"
MAX_TYPE_LENGTH = 128
MAX_PATTERNS = 64
WILDCARD = "*"

_TYPE = re.compile(EVENT_TYPE, re.ASCII)
_PATTERN = re.compile(rf"\*|{EVENT_TYPE}(\.\*)?", re.ASCII)


@dataclass(frozen=True, slots=True, kw_only=True)
class ArchivePointer:
    """One tenant's gzip member inside an S3 object, and the event's line in it.

    `offset` and `length` are bytes of the object; `line` counts from 0.
    """

    object_key: str
    offset: int
    length: int
    line: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """An accepted event. `body` is the exact bytes that are archived, signed and sent."""

    scope: Scope
    id: str
    type: str
    body: bytes
    resource_id: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ArchivedEvent:
    """An event with its place in the archive; `archived_at` is fan_out's clock."""

    event: Event
    archived_at: datetime
    pointer: ArchivePointer


@dataclass(frozen=True, slots=True, kw_only=True)
class EventItem:
    """What is kept of a routed event: it serves explain, GET /v1/events/{id} and stale archive entries."""

    scope: Scope
    id: str
    type: str
    archived_at: datetime
    pointer: ArchivePointer
    body_hash: str
    resource_id: str | None = None
    matches: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class RoutePage:
    """A part of a wide fan-out: the subscriptions whose deliveries are still to be queued."""

    archived: ArchivedEvent
    subscription_ids: tuple[str, ...]


def checked_event_type(value: str, *, pointer: str = "/type") -> str:
    """`value`, if it is an event type. Raises InvalidInputError (`invalid_event_type`)."""
    if len(value) > MAX_TYPE_LENGTH or not _TYPE.fullmatch(value):
        raise InvalidInputError(
            f"an event type is dotted lower-case words of at most {MAX_TYPE_LENGTH} characters",
            code="invalid_event_type",
            pointer=pointer,
        )
    return value


def checked_event_id(value: str) -> str:
    """`value`, if it may be an event's id. Raises InvalidInputError (`invalid_id`)."""
    return checked_id(value, field="id")


def checked_patterns(patterns: Iterable[str]) -> tuple[str, ...]:
    """The patterns, each once, in the order given: 1 to 64 of a type, `type.*` or `*`.

    Raises InvalidInputError (`invalid_pattern`, `too_many_patterns`, `no_patterns`).
    """
    unique = tuple(dict.fromkeys(patterns))
    if not unique:
        raise InvalidInputError(
            "at least one event type is needed", code="no_patterns", pointer="/event_types"
        )
    if len(unique) > MAX_PATTERNS:
        raise InvalidInputError(
            f"at most {MAX_PATTERNS} event types", code="too_many_patterns", pointer="/event_types"
        )
    for position, pattern in enumerate(unique):
        if len(pattern) > MAX_TYPE_LENGTH or not _PATTERN.fullmatch(pattern):
            raise InvalidInputError(
                f"{pattern!r} is no event type, no type followed by '.*', and not '*'",
                code="invalid_pattern",
                pointer=f"/event_types/{position}",
            )
    return unique


def candidate_patterns(event_type: str) -> tuple[str, ...]:
    """Every pattern that matches `event_type`: k segments give k + 1 of them.

    >>> candidate_patterns("invoice.line.added")
    ('invoice.line.added', 'invoice.line.*', 'invoice.*', '*')
    """
    segments = event_type.split(".")
    below = tuple(".".join(segments[:depth]) + ".*" for depth in range(len(segments) - 1, 0, -1))
    return (event_type, *below, WILDCARD)


def matches(patterns: Iterable[str], event_type: str) -> bool:
    """Whether any of the patterns matches the type."""
    return not set(candidate_patterns(event_type)).isdisjoint(patterns)

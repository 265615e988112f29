"""List an event type in the catalogue, or say anew what it is."""

from datetime import datetime

from hookkeeper.domain.access import HOUSE
from hookkeeper.domain.audit import Actor, AuditRecord
from hookkeeper.domain.catalogue import EventType
from hookkeeper.domain.errors import InvalidInputError
from hookkeeper.domain.event import checked_event_type
from hookkeeper.ports import Audit, Catalogue, Ids, Schemas

MAX_DESCRIPTION_CHARACTERS = 2_000
MAX_SCHEMA_BYTES = 64 * 1024
"""Of the schema and of the example, each; both share a DynamoDB item's 400 KB."""


def list_event_type(
    name: str,
    *,
    description: str,
    json_schema: str | None,
    example: str | None,
    strict: bool,
    actor: Actor,
    now: datetime,
    catalogue: Catalogue,
    schemas: Schemas,
    audit: Audit,
    ids: Ids,
) -> EventType:
    """Put the entry in its present one's place; `json_schema` and `example` are JSON text.

    Raises InvalidInputError: `invalid_event_type`, `too_long`, `too_large`, `invalid_schema`,
    `schema_mismatch` for an example that does not fit, `schema_needed` for a strict one without.
    """
    wanted = EventType(
        name=checked_event_type(name, pointer=""),
        description=description,
        json_schema=json_schema,
        example=example,
        strict=strict,
        updated_at=now,
    )
    _check(wanted, schemas)
    before = catalogue.get(name)
    audit.put(
        AuditRecord(
            scope=HOUSE,
            id=ids.new("aud"),
            at=now,
            action="event_type.listed",
            actor=actor,
            subject=f"type:{name}",
            before=_told(before) if before else {},
            after=_told(wanted),
        )
    )
    catalogue.put(wanted)
    return wanted


def _check(wanted: EventType, schemas: Schemas) -> None:
    if len(wanted.description) > MAX_DESCRIPTION_CHARACTERS:
        detail = f"at most {MAX_DESCRIPTION_CHARACTERS} characters"
        raise InvalidInputError(detail, code="too_long", pointer="/description")
    for field, text in (("json_schema", wanted.json_schema), ("example", wanted.example)):
        if text is not None and len(text.encode()) > MAX_SCHEMA_BYTES:
            raise InvalidInputError(
                f"at most {MAX_SCHEMA_BYTES} bytes", code="too_large", pointer=f"/{field}"
            )
    if wanted.json_schema is not None:
        schemas.check_schema(wanted.json_schema)
        if wanted.example is not None:
            schemas.check(wanted.json_schema, wanted.example, pointer="/example")
    elif wanted.strict:
        raise InvalidInputError("what is strict needs a schema", code="schema_needed", pointer="/json_schema")


def _told(entry: EventType) -> dict[str, str]:
    return {
        "description": entry.description,
        "strict": str(entry.strict),
        "json_schema": entry.json_schema or "",
    }

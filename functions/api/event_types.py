"""/v1/event-types: the catalogue of what the provider emits, and what a pattern matches of it."""

import json
from typing import Annotated, Any

from aws_lambda_powertools.event_handler.openapi.params import Query
from calls import as_operator, current, new_router
from cursors import Cursors
from hookkeeper.api import EventTypeIn, EventTypeOut, Page
from hookkeeper.domain.access import Right
from hookkeeper.domain.catalogue import matched
from hookkeeper.domain.errors import InvalidInputError
from hookkeeper.domain.event import checked_patterns
from hookkeeper.usecases.catalogue import list_event_type

router = new_router()


@router.get("/v1/event-types", tags=["event types"])
def list_all(
    pattern: Annotated[str | None, Query(description="Those that this pattern would match.")] = None,
    limit: Annotated[int, Query(ge=1, le=100, description="At most so many.")] = 100,
    cursor: Annotated[str | None, Query(description="`next_cursor` of the part before.")] = None,
) -> Page[EventTypeOut]:
    """The event types that the provider lists; with `pattern` those that it would match."""
    call = current(router)
    call.allow(Right.SUBSCRIPTIONS_READ)
    cursors = Cursors(call.reach.cursor_key(), None, "event-types", pattern)
    place = cursors.open(cursor)
    found = call.reach.catalogue.all()
    if pattern is not None:
        found = matched(_checked(pattern), found)
    rest = [each for each in found if place is None or each.name > place[0]]
    more = len(rest) > limit
    return Page(
        data=[EventTypeOut.of(each) for each in rest[:limit]],
        has_more=more,
        next_cursor=cursors.seal([rest[limit - 1].name] if more else None),
    )


@router.put("/v1/event-types/<name>", tags=["event types"])
def put(name: str, wanted: EventTypeIn) -> EventTypeOut:
    """List an event type, or say anew what it is; in force everywhere within half a minute."""
    call = as_operator(router)
    entry = list_event_type(
        name,
        description=wanted.description,
        json_schema=_text(wanted.json_schema),
        example=_text(wanted.example),
        strict=wanted.strict,
        actor=call.actor,
        now=call.now,
        catalogue=call.reach.catalogue,
        schemas=call.reach.schemas,
        audit=call.reach.operator_audit,
        ids=call.reach.ids,
    )
    return EventTypeOut.of(entry)


def _text(document: dict[str, Any] | None) -> str | None:
    return None if document is None else json.dumps(document, separators=(",", ":"))


def _checked(pattern: str) -> str:
    try:
        (checked,) = checked_patterns([pattern])
    except InvalidInputError as error:
        raise InvalidInputError(error.detail, code=error.code, pointer="?pattern") from None
    return checked

"""/v1/events: emit one or up to a hundred, and see what became of one."""

import hashlib
import json
from collections.abc import Mapping, Sequence
from typing import Annotated, Any

from aws_lambda_powertools.event_handler import Response
from aws_lambda_powertools.event_handler.openapi.params import Path
from calls import Call, in_tenant, is_id, new_router
from hookkeeper.api import DeliveryOut, EventAccepted, EventOut, EventRefused, EventsAccepted, ProblemItem
from hookkeeper.domain import json_text
from hookkeeper.domain.access import Right
from hookkeeper.domain.errors import ConflictError, InvalidInputError, NotFoundError, OwnFaultError
from hookkeeper.domain.event import EventItem
from hookkeeper.domain.json_text import Json
from hookkeeper.domain.tenancy import Scope
from hookkeeper.event_in import content_hash, data_text, parse_event, queue_text
from hookkeeper.usecases.deliveries import deliveries_of_event
from hookkeeper.usecases.emit import Acceptance, Submission, emit
from problems import RefusedError

MAX_EVENTS = 100
MOST_SUBSCRIPTIONS = 500
"""How many of a tenant's subscriptions are asked for an event's deliveries."""

router = new_router()


@router.post("/v1/events", tags=["events"], status_code=202)
def accept() -> Response[EventAccepted | EventsAccepted]:
    """One event, or `{"events": […]}`; order of delivery is not promised.

    Of several, each is taken or refused by itself; where none is taken, the answer is a problem.
    """
    call, scope = in_tenant(router, Right.EVENTS_WRITE)
    given = json_text.read(router.current_event.decoded_body or "")
    if isinstance(given, Mapping) and "events" in given:
        return _accept_many(call, scope, _several(given))
    told = _parsed(call, scope, given, 0)
    acceptance = _emit(call, [told])[0]
    _raise_unless_accepted(acceptance, told)
    return _answer(EventAccepted(id=told.event.id))


def _several(given: Mapping[str, Json]) -> Sequence[Json]:
    events = given["events"]
    if len(given) > 1:
        unknown = next(name for name in given if name != "events")
        raise InvalidInputError("unknown beside events", code="unknown_key", pointer=f"/{unknown}")
    if not isinstance(events, Sequence) or isinstance(events, str):
        raise InvalidInputError("a list of events", code="wrong_type", pointer="/events")
    if not 1 <= len(events) <= MAX_EVENTS:
        raise InvalidInputError(f"1 to {MAX_EVENTS} events", code="too_many_events", pointer="/events")
    return events


def _accept_many(call: Call, scope: Scope, given: Sequence[Json]) -> Response[EventAccepted | EventsAccepted]:
    answers: dict[int, EventAccepted | EventRefused] = {}
    told: dict[int, Submission] = {}
    first_error: InvalidInputError | None = None
    for position, each in enumerate(given):
        try:
            told[position] = _parsed(call, scope, each, position)
        except InvalidInputError as error:
            first_error = first_error or error
            answers[position] = _refused(position, error.code, error.detail, pointer=error.pointer)
    for (position, submission), acceptance in zip(
        told.items(), _emit(call, list(told.values())), strict=True
    ):
        if acceptance is Acceptance.ACCEPTED:
            answers[position] = EventAccepted(id=submission.event.id)
        else:
            detail = _DETAILS[acceptance]
            answers[position] = _refused(position, acceptance, detail, event_id=submission.event.id)
            call.asks_again |= acceptance is Acceptance.UNAVAILABLE
    if not any(isinstance(answer, EventAccepted) for answer in answers.values()):
        _raise_for_none(answers, first_error)
    return _answer(EventsAccepted(events=[answers[position] for position in range(len(given))]))


def _raise_for_none(
    answers: Mapping[int, EventAccepted | EventRefused], first_error: InvalidInputError | None
) -> None:
    """A client that looks at the status alone must not take a batch for accepted of which nothing was."""
    errors = [answer.error for answer in answers.values() if isinstance(answer, EventRefused)]
    if any(error.code == Acceptance.UNAVAILABLE for error in errors):
        raise OwnFaultError("the events queue took nothing")
    status, code = (422, "invalid_events") if first_error is not None else (409, "conflict")
    raise RefusedError(status, code, "none of the events was accepted", errors=errors)


def _refused(
    position: int, code: str, detail: str, *, pointer: str = "", event_id: str | None = None
) -> EventRefused:
    item = ProblemItem(pointer=f"/events/{position}{pointer}", code=code, detail=detail)
    return EventRefused(id=event_id, error=item)


_DETAILS = {
    Acceptance.CONFLICT: "the id was used for another event",
    Acceptance.UNAVAILABLE: "the queue did not take it; send it again",
}


def _parsed(call: Call, scope: Scope, given: Json, position: int) -> Submission:
    if not isinstance(given, Mapping):
        raise InvalidInputError("an event is a JSON object", code="wrong_type")
    event = parse_event(given, fallback_id=_fallback_id(call, position), accepted_at=call.now, scope=scope)
    call.reach.event_rules.check(event.type, data_text(event))
    return Submission(event=event, content_hash=content_hash(event), text=queue_text(event))


def _fallback_id(call: Call, position: int) -> str:
    """The id of an event that brings none: under an Idempotency-Key, the same call has the same all day.

    So a call that was cut short, or answered that a part was not taken, is made again without a duplicate.
    """
    if call.repeat is None:
        return call.reach.ids.new("evt")
    told = f"{call.repeat}\n{call.now:%Y-%m-%d}\n{position}"
    return f"evt_{hashlib.sha256(told.encode()).hexdigest()[:32]}"


def _emit(call: Call, told: Sequence[Submission]) -> Sequence[Acceptance]:
    return emit(told, now=call.now, events=call.reach.events, queue=call.reach.event_queue)


def _raise_unless_accepted(acceptance: Acceptance, told: Submission) -> None:
    if acceptance is Acceptance.CONFLICT:
        raise ConflictError(f"the id {told.event.id} was used for another event")
    if acceptance is Acceptance.UNAVAILABLE:
        raise OwnFaultError("the events queue did not take the event")


def _answer(body: EventAccepted | EventsAccepted) -> Response[EventAccepted | EventsAccepted]:
    return Response(202, content_type="application/json", body=body)


@router.get("/v1/events/<event_id>", tags=["events"])
def read(event_id: Annotated[str, Path()]) -> EventOut:
    """The event and its deliveries, once it has been routed."""
    call, scope = in_tenant(router, Right.DELIVERIES_READ)
    place = (scope, event_id)
    item = call.reach.events.routed([place]).get(place) if is_id(event_id) else None
    if item is None:
        raise NotFoundError("event", event_id)
    deliveries = deliveries_of_event(
        scope,
        event_id,
        most=MOST_SUBSCRIPTIONS,
        subscriptions=call.reach.subscriptions,
        ledger=call.reach.ledger,
    )
    return EventOut(
        id=item.id,
        type=item.type,
        resource_id=item.resource_id,
        archived_at=item.archived_at,
        data=_data(call, item),
        matches=item.matches,
        deliveries=[DeliveryOut.of(delivery) for delivery in deliveries],
    )


def _data(call: Call, item: EventItem) -> dict[str, Any] | None:
    """What the event carries; None once retention is over."""
    try:
        body = call.reach.event_bodies.body(item.scope, item.pointer)
    except NotFoundError:
        return None
    data: dict[str, Any] = json.loads(body)["data"]
    return data

"""The three ways by which an event comes in: the API, the events queue, the EventBridge bus."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from http import HTTPStatus
from typing import Any

from hookkeeper.domain import json_text
from hookkeeper.domain.json_text import Json

from infra.cli.client import ApiError, path
from infra.cli.session import Session

SOURCE = "hookkeeper.cli"
WAITS_SECONDS = (1, 2, 4, 8, 16, 30)
"""Between tries where the API says that it is too much, or that it cannot just now."""

Event = Mapping[str, Json]


class Via(StrEnum):
    API = "api"
    SQS = "sqs"
    EVENTBRIDGE = "eventbridge"


@dataclass(frozen=True, slots=True)
class Refusal:
    """Why one event was not taken."""

    event_id: str
    code: str
    detail: str


@dataclass(frozen=True, slots=True)
class Way:
    """`send` takes at most `most` events of `most_bytes` together and answers those it refused."""

    send: Callable[[Sequence[Event]], Sequence[Refusal]]
    most: int
    most_bytes: int


def way_of(via: Via, session: Session) -> Way:
    """Raises UsageError where the way needs to know more."""
    if via is Via.API:
        return Way(_by_api(session), most=100, most_bytes=3 * 1024 * 1024)
    scope: Event = {"tenant_id": session.named_tenant(), "mode": str(session.mode)}
    by = _by_sqs if via is Via.SQS else _by_eventbridge
    return Way(by(session, scope), most=10, most_bytes=256 * 1024)


def _by_api(session: Session) -> Callable[[Sequence[Event]], Sequence[Refusal]]:
    api = session.tenant_api

    def send(events: Sequence[Event]) -> Sequence[Refusal]:
        answer = _patiently(session, lambda: api.post(path("events"), _body(events)))
        return [_refusal(each) for each in answer.get("events", []) if each.get("error")]

    return send


def _body(events: Sequence[Event]) -> Any:
    """One goes by itself, so that a problem names its own places."""
    return events[0] if len(events) == 1 else {"events": events}


def _patiently(session: Session, ask: Callable[[], dict[str, Any]]) -> dict[str, Any]:
    for wait in WAITS_SECONDS:
        try:
            return ask()
        except ApiError as error:
            if error.status not in (HTTPStatus.TOO_MANY_REQUESTS, HTTPStatus.SERVICE_UNAVAILABLE):
                raise
            session.screen.note(f"{error}; again in {wait} s")
            session.outside.pause(wait)
    return ask()


def _refusal(answer: Mapping[str, Any]) -> Refusal:
    error = answer["error"]
    return Refusal(str(answer.get("id")), error["code"], f"{error['pointer']} {error['detail']}")


def _by_sqs(session: Session, scope: Event) -> Callable[[Sequence[Event]], Sequence[Refusal]]:
    from hookkeeper.adapters.sqs import safe_text

    sqs, url = session.deployment.client("sqs"), session.deployment.output("EventsQueueUrl")

    def send(events: Sequence[Event]) -> Sequence[Refusal]:
        entries = [
            {"Id": str(n), "MessageBody": safe_text(json_text.write({**event, **scope}))}
            for n, event in enumerate(events)
        ]
        failed = sqs.send_message_batch(QueueUrl=url, Entries=entries).get("Failed", [])
        return [
            Refusal(str(events[int(each["Id"])]["id"]), each["Code"], each.get("Message", ""))
            for each in failed
        ]

    return send


def _by_eventbridge(session: Session, scope: Event) -> Callable[[Sequence[Event]], Sequence[Refusal]]:
    bus, name = session.deployment.client("events"), session.deployment.output("EventBusName")

    def send(events: Sequence[Event]) -> Sequence[Refusal]:
        entries = [
            {
                "EventBusName": name,
                "Source": SOURCE,
                "DetailType": event["type"],
                "Detail": json_text.write({**_without_type(event), **scope}),
            }
            for event in events
        ]
        answers = bus.put_events(Entries=entries)["Entries"]
        return [
            Refusal(str(event["id"]), answer["ErrorCode"], answer.get("ErrorMessage", ""))
            for event, answer in zip(events, answers, strict=True)
            if answer.get("ErrorCode")
        ]

    return send


def _without_type(event: Event) -> Event:
    return {name: value for name, value in event.items() if name != "type"}

"""Take events from the API: claim each id, then queue it, so that parallel publishes of one are one event."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

from hookkeeper.domain.event import Event
from hookkeeper.ports import EventItems, EventQueue


class Acceptance(StrEnum):
    """What became of a submitted event."""

    ACCEPTED = "accepted"
    CONFLICT = "conflict"
    """Its id is another event's: same id, other type, resource or data."""
    UNAVAILABLE = "unavailable"
    """The queue did not take it; sent again, it is the same event."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Submission:
    """An event with what tells it from another of its id, and as the queue takes it."""

    event: Event
    content_hash: str
    text: str


def emit(
    submissions: Sequence[Submission], *, now: datetime, events: EventItems, queue: EventQueue
) -> Sequence[Acceptance]:
    """What became of each, in order.

    An id that was claimed for this very event is queued again: whoever claimed it may have died before
    queueing it, and fan_out drops what it has routed.
    """
    acceptances = [_claimed(submission, now, events) for submission in submissions]
    first: dict[str, int] = {}
    for position, submission in enumerate(submissions):
        if acceptances[position] is Acceptance.ACCEPTED:
            first.setdefault(submission.event.id, position)
    queued = list(first.values())
    refused = {queued[n] for n in queue.send([submissions[n].text for n in queued])} if queued else set()
    return [
        Acceptance.UNAVAILABLE
        if acceptance is Acceptance.ACCEPTED and first[submission.event.id] in refused
        else acceptance
        for submission, acceptance in zip(submissions, acceptances, strict=True)
    ]


def _claimed(submission: Submission, now: datetime, events: EventItems) -> Acceptance:
    event = submission.event
    holder = events.claim(event.scope, event.id, body_hash=submission.content_hash, now=now)
    return Acceptance.ACCEPTED if holder == submission.content_hash else Acceptance.CONFLICT

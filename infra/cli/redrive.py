"""`hookkeeper redrive`: put dead letters back into the queue they came from: receive, send, delete.

A crash in between repeats a message and never loses one; repeats are harmless by the ledger.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Annotated, Any

import typer
from hookkeeper.domain import json_text
from hookkeeper.domain.errors import InvalidInputError
from hookkeeper.domain.json_text import Json
from hookkeeper.domain.moment import rfc3339
from rich.text import Text

from infra.cli.batches import batches
from infra.cli.command import FAILED, NOT_FOUND, PARTIAL, Yes
from infra.cli.session import Deployment, Failure, Session
from infra.cli.show import Rows

PREFIX = "Dlq"
BATCH = 10
BATCH_BYTES = 1024 * 1024
HIDDEN_SECONDS = 600
"""How long messages that were looked at stay hidden from the next look; given back at the end."""

WAIT_SECONDS = 2
"""Long polling, so that an empty answer means an empty queue."""

_OTHERWISE = {"Ingest": "EventsQueueUrl"}
"""Where the letters go that EventBridge could not deliver: to where its rule sends."""

Message = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Lane:
    """A dead-letter queue and the queue that its letters go back to; None where there is none."""

    name: str
    dead_url: str
    queue_url: str | None


@dataclass(slots=True)
class _Tally:
    moved: int = 0
    refused: int = 0
    left: int = 0


def redrive(
    session: Session,
    queue: Annotated[
        str | None, typer.Argument(metavar="QUEUE", help="Its name; left out: lists them with their depth.")
    ] = None,
    match: Annotated[str | None, typer.Option(help="Only messages that hold this text.")] = None,
    most: Annotated[int | None, typer.Option("--limit", min=1, help="At most so many.")] = None,
    yes: Yes = False,
) -> None:
    """Put dead letters back into their queue, once what killed them is mended. 5: some could not be."""
    lanes = {lane.name.lower(): lane for lane in _lanes(session.deployment)}
    sqs = session.deployment.client("sqs")
    if queue is None:
        _list(session, sqs, list(lanes.values()))
        return
    lane = lanes.get(queue.lower())
    if lane is None:
        raise Failure(f"no queue {queue}; there are {', '.join(lanes)}", exit_code=NOT_FOUND)
    if lane.queue_url is None:
        raise Failure(f"the letters of {queue} came from no queue, so there is none to put them back into")
    _redrive(session, sqs, lane, match=match, most=most, yes=yes)


def _lanes(deployment: Deployment) -> Iterator[Lane]:
    for output, url in sorted(deployment.outputs.items()):
        name = output.removeprefix(PREFIX)
        if output.startswith(PREFIX) and name:
            source = _OTHERWISE.get(name, f"Queue{name}")
            yield Lane(name, url, deployment.outputs.get(source))


def _list(session: Session, sqs: Any, lanes: list[Lane]) -> None:
    depths = [{"queue": lane.name.lower(), "messages": _depth(sqs, lane.dead_url)} for lane in lanes]

    def shown() -> Rows:
        rows = Rows("dead letters of", "messages", right=["messages"])
        for each in depths:
            count = each["messages"]
            rows.add(str(each["queue"]), Text(str(count), "red" if count else "dim"))
        return rows

    session.screen.show_all(depths, shown, none="the stack has no dead-letter queues")


def _depth(sqs: Any, url: str) -> int:
    """About how many messages lie there."""
    name = "ApproximateNumberOfMessages"
    return int(sqs.get_queue_attributes(QueueUrl=url, AttributeNames=[name])["Attributes"][name])


def _redrive(
    session: Session, sqs: Any, lane: Lane, *, match: str | None, most: int | None, yes: bool
) -> None:
    name, depth = lane.name.lower(), _depth(sqs, lane.dead_url)
    if depth == 0:
        session.done({"queue": name, "moved": 0, "refused": 0, "left": 0}, f"no dead letters of {name}")
        return
    which = "" if match is None else f" that hold {match!r}"
    upto = "" if most is None else f"up to {most} of "
    session.confirm(f"Put {upto}about {depth} dead letters{which} back into {name}?", yes=yes)
    tally = _move(session, sqs, lane, wanted=lambda text: match is None or match in text, most=most)
    told = f"{tally.moved} put back into {name}" + (f", {tally.left} left" if tally.left else "")
    session.done({"queue": name, "moved": tally.moved, "refused": tally.refused, "left": tally.left}, told)
    if tally.refused:
        session.screen.failure(f"{tally.refused} were refused by {name} and stay where they were")
        raise typer.Exit(PARTIAL if tally.moved else FAILED)


def _move(
    session: Session, sqs: Any, lane: Lane, *, wanted: Callable[[str], bool], most: int | None
) -> _Tally:
    """Move what is wanted; what was looked at and stays shows again at once."""
    tally = _Tally()
    kept: list[str] = []
    try:
        with session.screen.err.status(f"redriving {lane.name.lower()}"):
            for messages in _received(sqs, lane.dead_url):
                chosen = [message for message in messages if wanted(message["Body"])]
                chosen = chosen if most is None else chosen[: most - tally.moved - tally.refused]
                moved = _sent(sqs, lane, chosen)
                kept += [m["ReceiptHandle"] for m in messages if m["MessageId"] not in moved]
                tally.moved += len(moved)
                tally.refused += len(chosen) - len(moved)
                if most is not None and tally.moved + tally.refused >= most:
                    break
    finally:
        tally.left = len(kept)
        _give_back(sqs, lane.dead_url, kept)
    return tally


def _received(sqs: Any, url: str) -> Iterator[list[Message]]:
    """Each message once, until none is left or those come again that were seen."""
    seen: set[str] = set()
    while True:
        messages = sqs.receive_message(
            QueueUrl=url,
            MaxNumberOfMessages=BATCH,
            VisibilityTimeout=HIDDEN_SECONDS,
            WaitTimeSeconds=WAIT_SECONDS,
            MessageSystemAttributeNames=["MessageGroupId", "SentTimestamp"],
            MessageAttributeNames=["All"],
        ).get("Messages", [])
        fresh = [message for message in messages if message["MessageId"] not in seen]
        if not fresh:
            return
        seen |= {message["MessageId"] for message in fresh}
        yield fresh


def _sent(sqs: Any, lane: Lane, messages: list[Message]) -> set[str]:
    """Send them to their queue and delete those it took; answers their ids."""
    moved: set[str] = set()
    for batch in batches(messages, most=BATCH, most_bytes=BATCH_BYTES, size_of=_size):
        entries = [_entry(lane, n, message) for n, message in enumerate(batch)]
        answer = sqs.send_message_batch(QueueUrl=lane.queue_url, Entries=entries)
        taken = [batch[int(each["Id"])] for each in answer.get("Successful", [])]
        deleted = [
            {"Id": str(n), "ReceiptHandle": message["ReceiptHandle"]} for n, message in enumerate(taken)
        ]
        if deleted:
            sqs.delete_message_batch(QueueUrl=lane.dead_url, Entries=deleted)
        moved |= {message["MessageId"] for message in taken}
    return moved


def _size(message: Message) -> int:
    return len(message["Body"].encode()) + 1024


def _entry(lane: Lane, n: int, message: Message) -> dict[str, Any]:
    body = _named(message) if lane.name == "Events" else message["Body"]
    entry: dict[str, Any] = {"Id": str(n), "MessageBody": body}
    if group := message.get("Attributes", {}).get("MessageGroupId"):
        entry["MessageGroupId"] = group
    if attributes := message.get("MessageAttributes"):
        entry["MessageAttributes"] = {name: _attribute(value) for name, value in attributes.items()}
    return entry


def _attribute(value: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value[name] for name in ("DataType", "StringValue", "BinaryValue") if name in value}


def _named(message: Message) -> str:
    """An event that its first message named and dated keeps both, though the new message has its own."""
    from hookkeeper.adapters.sqs import safe_text
    from hookkeeper.messages import is_page

    body: str = message["Body"]
    try:
        event = json_text.read(body)
        if not isinstance(event, Mapping) or "detail-type" in event or is_page(body):
            return body
    except InvalidInputError:
        return body
    sent_at = datetime.fromtimestamp(int(message["Attributes"]["SentTimestamp"]) / 1000, UTC)
    own = {"id": message["MessageId"], "occurred_at": rfc3339(sent_at)}
    missing: dict[str, Json] = {name: value for name, value in own.items() if event.get(name) is None}
    return safe_text(json_text.write({**event, **missing})) if missing else body


def _give_back(sqs: Any, url: str, receipts: list[str]) -> None:
    for batch in batches(receipts, most=BATCH, most_bytes=BATCH_BYTES, size_of=len):
        entries = [
            {"Id": str(n), "ReceiptHandle": receipt, "VisibilityTimeout": 0}
            for n, receipt in enumerate(batch)
        ]
        sqs.change_message_visibility_batch(QueueUrl=url, Entries=entries)

"""`hookkeeper emit`: put events in by any of the three ways, one or many, at a pace."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Annotated

import typer
from hookkeeper.domain import json_text
from hookkeeper.domain.json_text import Json
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from infra.cli.batches import batches
from infra.cli.client import ApiError
from infra.cli.command import FAILED, PARTIAL, json_object
from infra.cli.session import Session
from infra.cli.show import words
from infra.cli.ways import Event, Refusal, Via, Way, way_of

BATCH_SECONDS = 0.25
"""With a rate, how much of it goes in one batch: small steps rather than bursts."""


@dataclass(slots=True)
class _Tally:
    accepted: int = 0
    refused: int = 0
    began: float = field(default=0)


def emit(
    session: Session,
    event_type: Annotated[str, typer.Argument(metavar="TYPE", help="Such as invoice.paid.")],
    data: Annotated[
        str, typer.Option("--data", "-d", help="A JSON object: @file, - for stdin, or the text.")
    ] = "{}",
    via: Annotated[Via, typer.Option(help="By which way.")] = Via.API,
    event_id: Annotated[
        str | None, typer.Option("--id", help="The same id twice is one event; of several: ID_1, ID_2 …")
    ] = None,
    resource_id: Annotated[str | None, typer.Option("--resource", help="What it happened to.")] = None,
    count: Annotated[int, typer.Option("--count", "-n", min=1, help="How many.")] = 1,
    rate: Annotated[float | None, typer.Option(min=0.01, help="At most so many a second.")] = None,
) -> None:
    """Emit events. Their ids are on stdout, one a line; 5: some were refused.

    By sqs and eventbridge it takes AWS credentials, or the local stack, and --tenant.
    """
    given: dict[str, Json] = {"type": event_type, "data": json_object(data)}
    if resource_id is not None:
        given["resource_id"] = resource_id
    events = (dict(given, id=each) for each in _ids(event_id, count))
    tally = _emit(session, events, way_of(via, session), count=count, rate=rate)
    _end(session, tally)


def _ids(event_id: str | None, count: int) -> Iterator[str]:
    if event_id is None:
        from hookkeeper.adapters.ids import TypeIds

        yield from (TypeIds().new("evt") for _ in range(count))
    elif count == 1:
        yield event_id
    else:
        yield from (f"{event_id}_{n}" for n in range(1, count + 1))


def _emit(session: Session, events: Iterator[Event], way: Way, *, count: int, rate: float | None) -> _Tally:
    tally = _Tally(began=session.outside.clock())
    most = way.most if rate is None else min(way.most, max(1, int(rate * BATCH_SECONDS)))
    with _progress(session, count) as progress:
        task = progress.add_task("events", total=count)
        for batch in batches(events, most=most, most_bytes=way.most_bytes, size_of=_size):
            _keep_pace(session, tally, rate)
            if not _sent(session, batch, way, tally):
                break
            progress.update(task, completed=tally.accepted + tally.refused)
    return tally


def _size(event: Event) -> int:
    return len(json_text.write(event).encode()) + 256


def _keep_pace(session: Session, tally: _Tally, rate: float | None) -> None:
    """Wait until what was sent is no more than the rate allows."""
    if rate is not None:
        due = tally.began + (tally.accepted + tally.refused) / rate
        session.outside.pause(max(0.0, due - session.outside.clock()))


def _sent(session: Session, batch: Sequence[Event], way: Way, tally: _Tally) -> bool:
    """Whether to go on: not where the API refuses a whole batch after it took others."""
    try:
        refusals = {each.event_id: each for each in way.send(batch)}
    except ApiError as error:
        if not tally.accepted:
            raise
        session.screen.problem(error.status, error.problem)
        tally.refused += len(batch)
        return False
    for event in batch:
        _tell(session, str(event["id"]), refusals.get(str(event["id"])))
    tally.refused += len(refusals)
    tally.accepted += len(batch) - len(refusals)
    return True


def _tell(session: Session, event_id: str, refusal: Refusal | None) -> None:
    if session.json:
        error = {"error": {"code": refusal.code, "detail": refusal.detail}} if refusal else {}
        session.screen.line({"id": event_id, "accepted": refusal is None, **error})
    elif refusal is None:
        session.screen.word(event_id)
    else:
        session.screen.failure(f"{event_id}: {refusal.detail} ({refusal.code})")


def _progress(session: Session, count: int) -> Progress:
    console = session.screen.err
    columns = (TextColumn("emitting"), BarColumn(bar_width=30), MofNCompleteColumn(), TimeRemainingColumn())
    return Progress(*columns, console=console, transient=True, disable=count == 1 or not console.is_terminal)


def _end(session: Session, tally: _Tally) -> None:
    seconds = max(session.outside.clock() - tally.began, 0.001)
    if tally.accepted > 1:
        told = f"{tally.accepted} events in {seconds:.1f} s, {tally.accepted / seconds:.0f}/s"
        session.screen.note(words("✓ ", "green") + words(told))
    if tally.refused:
        session.screen.failure(f"{tally.refused} events were refused")
        raise typer.Exit(PARTIAL if tally.accepted else FAILED)

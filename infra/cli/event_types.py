"""`hookkeeper event-types`: the catalogue of what the provider emits."""

import json
from typing import Annotated, Any

import typer
from hookkeeper.domain import json_text
from rich.table import Table

from infra.cli.client import path
from infra.cli.command import NOT_FOUND, All, Most, command, json_object
from infra.cli.session import Failure, Session
from infra.cli.show import Rows, ago, at, facts, words

app = typer.Typer(help="The catalogue of what is emitted.", no_args_is_help=True)

Name = Annotated[str, typer.Argument(metavar="TYPE", help="Such as invoice.paid.")]
Document = "A JSON object: @file, - for stdin, or the text."


@command(app, "list")
def list_all(
    session: Session,
    pattern: Annotated[str | None, typer.Option(help="Those that `type.*` or `*` would match.")] = None,
    most: Most = 20,
    everything: All = False,
) -> None:
    """List event types by name."""
    found, more = session.api.pages(path("event-types"), most=None if everything else most, pattern=pattern)

    def shown() -> Rows:
        rows = Rows("type", "description", "schema", "changed", flexible=["description"])
        for each in found:
            rows.add(
                words(each["name"]),
                words(each["description"]),
                _schema(each),
                ago(each["updated_at"], session.now),
            )
        return rows

    session.screen.show_all(found, shown, more=more, none="none listed: hookkeeper event-types put TYPE")


@command(app, "get")
def get(session: Session, name: Name) -> None:
    """Show one event type with its schema and example."""
    found = session.api.get(path("event-types"), pattern=name)["data"]
    if not found:
        raise Failure(f"no event type {name} is listed", exit_code=NOT_FOUND)
    session.screen.show(found[0], lambda: _whole(found[0], session))


@command(app, "put")
def put(
    session: Session,
    name: Name,
    description: Annotated[str, typer.Option(help="For people.")] = "",
    schema: Annotated[str | None, typer.Option(help=f"JSON Schema of its data. {Document}")] = None,
    example: Annotated[str | None, typer.Option(help=f"Data that fits. {Document}")] = None,
    strict: Annotated[bool, typer.Option("--strict", help="Reject events that do not fit.")] = False,
) -> None:
    """List an event type, or say anew what it is (operator keys)."""
    wanted: dict[str, Any] = {"description": description, "strict": strict}
    wanted |= {"json_schema": json_object(schema)} if schema is not None else {}
    wanted |= {"example": json_object(example)} if example is not None else {}
    listed = session.api.put(path("event-types", name), wanted)
    session.screen.show(listed, lambda: _whole(listed, session))


def _schema(event_type: dict[str, Any]) -> str:
    if event_type["json_schema"] is None:
        return "–"
    return "enforced" if event_type["strict"] else "told"


def _whole(event_type: dict[str, Any], session: Session) -> Table:
    return facts(
        {
            "type": event_type["name"],
            "description": event_type["description"],
            "schema": _schema(event_type),
            "": _pretty(event_type["json_schema"]),
            "example": _pretty(event_type["example"]),
            "changed": at(event_type["updated_at"], session.now),
        }
    )


def _pretty(document: dict[str, Any] | None) -> str | None:
    if document is None:
        return None
    return json.dumps(json.loads(json_text.write(document)), ensure_ascii=False, indent=2)

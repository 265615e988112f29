"""`hookkeeper explain`: where is this event? What is so, in order, and what its delivery waits for."""

from typing import Annotated, Any

import typer
from rich.console import Group
from rich.table import Table
from rich.text import Text

from infra.cli.client import path
from infra.cli.command import NOT_FOUND
from infra.cli.session import Session
from infra.cli.show import clock, due, words


def explain(
    session: Session,
    subscription_id: Annotated[str, typer.Argument(metavar="SUBSCRIPTION", help="sub_…")],
    event_id: Annotated[str, typer.Argument(metavar="EVENT", help="Its id.")],
) -> None:
    """Where is my event? Archived, matched, each attempt, and what it waits for. 3: it never arrived."""
    told = session.tenant_api.get(path("subscriptions", subscription_id, "explain"), event_id=event_id)
    session.screen.show(told, lambda: _story(told, session))
    if not told["findings"][0]["ok"]:
        raise typer.Exit(NOT_FOUND)


def _story(told: dict[str, Any], session: Session) -> Group:
    rows = Table.grid(padding=(0, 2))
    rows.add_column(no_wrap=True)
    rows.add_column(no_wrap=True, style="dim")
    rows.add_column(no_wrap=True)
    rows.add_column(overflow="fold")
    for finding in told["findings"]:
        rows.add_row(
            _shape(finding, told["waits_for"]),
            clock(finding["at"]) if finding["at"] else "",
            finding["step"],
            words(finding["detail"]),
        )
    head = words(told["event_id"], "bold") + Text(" → ", "dim") + words(told["subscription_id"])
    return Group(head, rows, _waits(told, session))


def _shape(finding: dict[str, Any], waits_for: str) -> Text:
    if finding["step"] == "now" and waits_for != "nothing":
        return Text("…", "yellow")
    return Text("✓", "green") if finding["ok"] else Text("✗", "red")


def _waits(told: dict[str, Any], session: Session) -> Text:
    if told["waits_for"] == "nothing":
        return Text("It waits for nothing.", "dim")
    until = Text(", ") + due(told["until"], session.now) if told["until"] else Text("")
    return Text("It waits for: ") + words(told["waits_for"], "yellow") + until

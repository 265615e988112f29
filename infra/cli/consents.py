"""`hookkeeper consents`: what a tenant lets applications receive (operator keys)."""

from typing import Annotated, Any

import typer
from rich.text import Text

from infra.cli.client import path
from infra.cli.command import Yes, command
from infra.cli.session import Session
from infra.cli.show import Rows, ago, facts, words

app = typer.Typer(help="What a tenant lets applications receive.", no_args_is_help=True)

Application = Annotated[str, typer.Argument(metavar="APPLICATION", help="Its id.")]


@command(app, "grant")
def grant(
    session: Session,
    application_id: Application,
    event_types: Annotated[
        list[str], typer.Option("--type", "-t", help="A type, `type.*` or `*`. Repeatable.")
    ],
    granted_by: Annotated[str, typer.Option("--by", help="Who, at the tenant, has granted it.")] = "",
) -> None:
    """Let an application subscribe to these types of --tenant; nothing older is handed over."""
    session.named_tenant()
    wanted = {"application_id": application_id, "event_types": event_types, "granted_by": granted_by}
    consent = session.api.post(path("consents"), wanted)
    session.screen.show(consent, lambda: facts(_facts(consent, session)))


@command(app, "list")
def list_all(session: Session) -> None:
    """List the consents of --tenant, withdrawn ones too."""
    session.named_tenant()
    consents = session.api.get(path("consents"))["data"]

    def shown() -> Rows:
        rows = Rows("application", "in force", "types", "granted", "by", flexible=["types", "by"])
        for each in consents:
            rows.add(
                each["application_id"],
                _in_force(each, session),
                words(", ".join(each["event_types"])),
                ago(each["granted_at"], session.now),
                words(each["granted_by"]),
            )
        return rows

    session.screen.show_all(consents, shown, none="no consents")


@command(app, "withdraw")
def withdraw(session: Session, application_id: Application, yes: Yes = False) -> None:
    """Withdraw it: its subscriptions are suspended, and what is owed to them is discarded for good."""
    tenant = session.named_tenant()
    question = f"Withdraw {tenant}'s consent to {application_id}? What is owed to it is discarded."
    session.confirm(question, yes=yes)
    consent = session.api.delete(path("consents", application_id))
    session.done(consent, f"{application_id} receives nothing of {tenant} any more")


def _in_force(consent: dict[str, Any], session: Session) -> Text:
    if consent["withdrawn_at"] is None:
        return Text("yes", "green")
    return Text("withdrawn ", "red") + ago(consent["withdrawn_at"], session.now)


def _facts(consent: dict[str, Any], session: Session) -> dict[str, object]:
    return {
        "application": consent["application_id"],
        "in force": _in_force(consent, session),
        "types": ", ".join(consent["event_types"]),
        "granted by": consent["granted_by"],
        "granted": ago(consent["granted_at"], session.now),
    }

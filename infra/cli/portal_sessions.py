"""`hookkeeper portal-sessions`: one-use links into the console."""

from typing import Annotated, Any

import typer
from rich.text import Text

from infra.cli.client import path
from infra.cli.command import command
from infra.cli.session import APPLICATION_KEY, OPERATOR_KEY, Session
from infra.cli.show import due, words

app = typer.Typer(help="One-use links into the console.", no_args_is_help=True)


@command(app, "create")
def create(
    session: Session,
    minutes: Annotated[
        int, typer.Option(min=1, max=60, help="How long the session lasts that it opens.")
    ] = 60,
) -> None:
    """Make a link that lets one browser in, once, within five minutes: stdout holds it alone."""
    wanted: dict[str, Any] = {"ttl_seconds": 60 * minutes}
    if session.tenant_api.key.startswith((OPERATOR_KEY, APPLICATION_KEY)):
        wanted |= {"tenant_id": session.named_tenant(), "mode": str(session.mode)}
    link = session.tenant_api.post(path("portal-sessions"), wanted)
    if session.json:
        session.screen.document(link)
        return
    session.screen.word(link["url"])
    told = words("it opens once, and its time is up ", "dim") + due(link["expires_at"], session.now)
    session.screen.note(told + Text(f"; the session lasts {minutes} min", "dim"))

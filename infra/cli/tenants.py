"""`hookkeeper tenants`: the provider's customers (operator keys)."""

from typing import Annotated

import typer

from infra.cli.client import path
from infra.cli.command import All, Most, command
from infra.cli.session import Session
from infra.cli.show import Rows, ago, facts, words

app = typer.Typer(help="The provider's customers.", no_args_is_help=True)


@command(app, "create")
def create(
    session: Session,
    name: Annotated[str, typer.Argument(help="For people.")],
    tenant_id: Annotated[
        str | None, typer.Option("--id", help="Yours, of letters, digits, _ and -; made where left out.")
    ] = None,
    plan: Annotated[
        str | None,
        typer.Option(help="The usage plan: how often it may call; `standard` where left out."),
    ] = None,
) -> None:
    """Make a tenant. It needs keys of its own: `hookkeeper keys create`."""
    given = {"id": tenant_id, "plan": plan}
    told = {field: value for field, value in given.items() if value is not None}
    tenant = session.api.post(path("tenants"), {"name": name, **told})
    session.screen.show(tenant, lambda: facts({"tenant": tenant["id"], "name": tenant["name"]}))


@command(app, "list")
def list_all(session: Session, most: Most = 20, everything: All = False) -> None:
    """List tenants."""
    tenants, more = session.api.pages(path("tenants"), most=None if everything else most)

    def shown() -> Rows:
        rows = Rows("tenant", "name", "plan", "since", flexible=["name"])
        for tenant in tenants:
            since = ago(tenant["created_at"], session.now)
            rows.add(tenant["id"], words(tenant["name"]), tenant["plan"], since)
        return rows

    session.screen.show_all(tenants, shown, more=more, none="no tenants yet: hookkeeper tenants create NAME")

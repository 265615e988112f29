"""`hookkeeper`: everything an operator does, from one terminal."""

from typing import Annotated

import typer
from hookkeeper import __version__

from infra.cli import (
    config,
    consents,
    deliveries,
    emit,
    event_types,
    explain,
    keys,
    listen,
    local,
    operations,
    operator_keys,
    portal_sessions,
    recoveries,
    redrive,
    subscriptions,
    tail,
    tenants,
)
from infra.cli.command import API, AWS, LOCAL, command

app = typer.Typer(
    name="hookkeeper",
    help="Sends webhooks, and loses none.\n\n"
    "Without --url and --key, commands speak to the local stack (hookkeeper up), as its operator.",
    epilog="Exit status: 0 done, 1 failed, 2 usage, 3 not found, 4 conflict, 5 partly done. "
    "Completion: hookkeeper --install-completion.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(__version__)
        raise typer.Exit


@app.callback()
def main(
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print it and end.")
    ] = False,
) -> None:
    """What stands before every command."""


for name, function in {
    "up": local.up,
    "down": local.down,
    "status": local.status,
    "demo": local.demo,
}.items():
    command(app, name, shares=LOCAL, panel="The local stack")(function)

command(app, "emit", shares=API, panel="Events")(emit.emit)
command(app, "explain", shares=API, panel="Events")(explain.explain)
command(app, "listen", shares=API, panel="Events")(listen.listen)

for group, name in (
    (subscriptions.app, "subscriptions"),
    (deliveries.app, "deliveries"),
    (recoveries.app, "recoveries"),
    (tenants.app, "tenants"),
    (keys.app, "keys"),
    (consents.app, "consents"),
    (event_types.app, "event-types"),
    (portal_sessions.app, "portal-sessions"),
):
    app.add_typer(group, name=name, rich_help_panel="Customers")

command(app, "tail", shares=AWS, panel="Operations")(tail.tail)
command(app, "at-risk", shares=API, panel="Operations")(operations.at_risk)
command(app, "fuse", shares=API, panel="Operations")(operations.fuse)
app.add_typer(operator_keys.app, name="operator-keys", rich_help_panel="Operations")
app.add_typer(config.app, name="config", rich_help_panel="Operations")
command(app, "redrive", shares=AWS, panel="Operations")(redrive.redrive)

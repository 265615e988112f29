"""`hookkeeper keys`: API keys of one tenant, each for one mode (operator keys make them)."""

from datetime import datetime, timedelta
from typing import Annotated, Any

import typer
from hookkeeper.domain.access import TENANT_RIGHTS, Right
from hookkeeper.domain.moment import rfc3339
from rich.text import Text

from infra.cli.client import path
from infra.cli.command import Yes, command
from infra.cli.session import Session, UsageError
from infra.cli.show import Rows, ago, words

app = typer.Typer(help="API keys of a tenant, each for one mode.", no_args_is_help=True)


@command(app, "create")
def create(
    session: Session,
    scopes: Annotated[
        list[Right] | None,
        typer.Option("--scope", help="What it may do; all of a tenant's where left out. Repeatable."),
    ] = None,
    days: Annotated[float | None, typer.Option("--days", min=0, help="How long it lives.")] = None,
) -> None:
    """Make a key for --tenant and --mode. It is shown this once: stdout holds it and nothing else."""
    tenant = session.named_tenant()
    if Right.OPERATE in (scopes or ()):
        raise UsageError(f"a tenant's key has these scopes: {', '.join(sorted(TENANT_RIGHTS))}")
    wanted: dict[str, Any] = {"mode": str(session.mode)}
    if scopes:
        wanted["scopes"] = [str(scope) for scope in scopes]
    if days is not None:
        wanted["expires_at"] = rfc3339(session.now + timedelta(days=days))
    key = session.api.post(path("tenants", tenant, "keys"), wanted)
    if session.json:
        session.screen.document(key)
        return
    session.screen.word(key["key"])
    session.screen.note(f"{key['id']} for {tenant}, {key['mode']}; keep the key, it cannot be shown again")


@command(app, "list")
def list_all(session: Session) -> None:
    """List the keys of --tenant, of both modes: their last four characters alone."""
    keys = session.api.get(path("tenants", session.named_tenant(), "keys"))["data"]

    def shown() -> Rows:
        rows = Rows("key", "mode", "ends in", "made", "valid", "scopes", flexible=["scopes"])
        for key in keys:
            rows.add(
                key["id"],
                key["mode"],
                words(f"…{key['last4']}"),
                ago(key["created_at"], session.now),
                validity(key, session.now),
                words(_scopes(key["scopes"])),
            )
        return rows

    session.screen.show_all(keys, shown, none="no keys: hookkeeper keys create --tenant …")


@command(app, "revoke")
def revoke(session: Session, key_id: Annotated[str, typer.Argument()], yes: Yes = False) -> None:
    """End a key of --tenant for good, within a minute."""
    tenant = session.named_tenant()
    session.confirm(f"Revoke {key_id} of {tenant}? Whoever uses it is locked out.", yes=yes)
    session.api.delete(path("tenants", tenant, "keys", key_id))
    session.done({"id": key_id, "revoked": True}, f"{key_id} is revoked, everywhere within a minute")


def validity(key: dict[str, Any], now: datetime) -> Text:
    """Until when a key is good: for ever, until some moment, or no more."""
    if key["revoked_at"]:
        return Text("revoked ", "red") + ago(key["revoked_at"], now)
    if key["expires_at"]:
        return Text("until ") + ago(key["expires_at"], now)
    return Text("yes", "green")


def _scopes(scopes: list[str]) -> str:
    return "all" if set(scopes) == {str(right) for right in TENANT_RIGHTS} else ", ".join(scopes)

"""`hookkeeper operator-keys`: keys that make all others, under AWS credentials: no route makes one."""

import os
from datetime import timedelta
from typing import Annotated, Any

import typer
from hookkeeper.adapters.dynamodb_access import DynamoDBAccess
from hookkeeper.adapters.dynamodb_audit import DynamoDBAudit
from hookkeeper.adapters.ids import TypeIds
from hookkeeper.domain.access import OPERATORS, ApiKey
from hookkeeper.domain.audit import Actor
from hookkeeper.domain.errors import NotFoundError
from hookkeeper.domain.moment import rfc3339
from hookkeeper.usecases.access import create_operator_key, revoke_key

from infra.cli.command import AWS, NOT_FOUND, Yes, command
from infra.cli.keys import validity
from infra.cli.session import Failure, Session
from infra.cli.show import Rows, ago, words

app = typer.Typer(
    help="Operators' keys, made under AWS credentials: the first one of a new stack, too.",
    no_args_is_help=True,
)


@command(app, "create", shares=AWS)
def create(
    session: Session,
    days: Annotated[
        float | None, typer.Option("--days", min=1, help="How long it lives; for ever where left out.")
    ] = None,
) -> None:
    """Make an operator's key. It is shown this once: stdout holds it and nothing else."""
    expires_at = session.now + timedelta(days=days) if days is not None else None
    new = create_operator_key(expires_at=expires_at, entropy=os.urandom(32), **_ports(session))
    if session.json:
        session.screen.document(_told(new.key) | {"key": new.text})
        return
    session.screen.word(new.text)
    session.screen.note(f"{new.key.id}; keep the key, it cannot be shown again")


@command(app, "list", shares=AWS)
def list_all(session: Session) -> None:
    """List operators' keys: their last four characters alone."""
    keys = [_told(key) for key in _access(session).keys_of(OPERATORS)]

    def shown() -> Rows:
        rows = Rows("key", "ends in", "made", "used", "valid")
        for key in keys:
            rows.add(
                key["id"],
                words(f"…{key['last4']}"),
                ago(key["created_at"], session.now),
                ago(key["last_used_at"], session.now),
                validity(key, session.now),
            )
        return rows

    session.screen.show_all(keys, shown, none="no operator's key: hookkeeper operator-keys create")


@command(app, "revoke", shares=AWS)
def revoke(session: Session, key_id: Annotated[str, typer.Argument()], yes: Yes = False) -> None:
    """End an operator's key for good, within a minute."""
    session.confirm(f"Revoke {key_id}? Whoever operates by it is locked out.", yes=yes)
    try:
        revoke_key(OPERATORS, key_id, **_ports(session))
    except NotFoundError as error:
        raise Failure(str(error), exit_code=NOT_FOUND) from None
    session.done({"id": key_id, "revoked": True}, f"{key_id} is revoked, everywhere within a minute")


def _ports(session: Session) -> dict[str, Any]:
    """Of a change, which is audited under whoever's credentials make it."""
    deployment = session.deployment
    identity = deployment.client("sts").get_caller_identity()
    return {
        "actor": Actor(id=identity["Arn"]),
        "now": session.now,
        "access": _access(session),
        "audit": DynamoDBAudit(deployment.client("dynamodb"), audit_table=deployment.output("TableAudit")),
        "ids": TypeIds(),
    }


def _access(session: Session) -> DynamoDBAccess:
    deployment = session.deployment
    return DynamoDBAccess(deployment.client("dynamodb"), access_table=deployment.output("TableAccess"))


def _told(key: ApiKey) -> dict[str, Any]:
    moments = {
        name: rfc3339(moment) if (moment := getattr(key, name)) else None
        for name in ("created_at", "expires_at", "revoked_at", "last_used_at")
    }
    return {"id": key.id, "last4": key.last4} | moments

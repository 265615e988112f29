"""`hookkeeper config`: the runtime configuration, in force within a minute of a change, without a deploy."""

import json
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Annotated, Any

import typer
from hookkeeper.domain import json_text
from rich.text import Text

from infra.cli import runtime_config
from infra.cli.command import AWS, Yes, command, json_object
from infra.cli.runtime_config import ConfigProfile
from infra.cli.session import Deployment, Session, UsageError
from infra.cli.show import Rows, words

if TYPE_CHECKING:
    from hookkeeper.usecases.preview import WouldSuspend

app = typer.Typer(help="The runtime configuration: thresholds, retries, pace.", no_args_is_help=True)

DryRun = Annotated[bool, typer.Option("--dry-run", help="Show what would change, and whom it would suspend.")]
Given = Annotated[str, typer.Argument(metavar="DOCUMENT", help="@file, - for stdin, or the JSON itself.")]
_NOTHING = object()


@command(app, "get", shares=AWS)
def get(session: Session) -> None:
    """Print the document: only what differs from the defaults."""
    document, _ = runtime_config.read(_appconfig(session), _profile(session))
    session.screen.document(document)


@command(app, "diff", shares=AWS)
def diff(session: Session, given: Given) -> None:
    """Show what `set` would change; nothing on stdout where that is nothing."""
    wanted = _checked(given)
    present, _ = runtime_config.read(_appconfig(session), _profile(session))
    changes = list(_changes(present, wanted))
    session.screen.show_all(changes, lambda: _shown(changes), none="no difference")


@command(app, "preview", shares=AWS)
def preview(session: Session, given: Given) -> None:
    """List whom the document would suspend at once, as their health stands."""
    wanted = _checked(given)
    present, _ = runtime_config.read(_appconfig(session), _profile(session))
    _show_preview(session, wanted, present)


@command(app, "set", shares=AWS)
def replace(session: Session, given: Given, yes: Yes = False, dry_run: DryRun = False) -> None:
    """Replace the document: checked, shown against the present one, asked for, deployed at once.

    4: somebody else has changed it meanwhile.
    """
    wanted = _checked(given)
    appconfig, profile = _appconfig(session), _profile(session)
    present, version = runtime_config.read(appconfig, profile)
    changes = list(_changes(present, wanted))
    if dry_run:
        session.screen.err.print(_shown(changes))
        _show_preview(session, wanted, present)
        return
    if not changes:
        session.done({"version": version, "changes": []}, "no difference; nothing to do")
        return
    session.screen.err.print(_shown(changes))
    session.confirm("Put this in force?", yes=yes)
    version = runtime_config.write(appconfig, profile, wanted, after=version)
    told = f"version {version} is deployed; in force everywhere within a minute"
    session.done({"version": version, "changes": changes}, told)


def _appconfig(session: Session) -> Any:
    return session.deployment.client("appconfig")


def _profile(session: Session) -> ConfigProfile:
    names = ("AppConfigApplication", "AppConfigEnvironment", "AppConfigProfile")
    return ConfigProfile(*(session.deployment.output(name) for name in names))


def _checked(given: str) -> dict[str, Any]:
    """The document, if the functions would take it. Raises UsageError with every fault."""
    from hookkeeper.runtime_document import faults_of

    text = json_text.write(json_object(given))
    if faults := faults_of(text):
        raise UsageError("the functions would refuse it: " + "; ".join(faults))
    document: dict[str, Any] = json.loads(text)
    return document


def _show_preview(session: Session, wanted: dict[str, Any], present: dict[str, Any]) -> None:
    """Read with the operator's own rights on the tables, since it is over all tenants."""
    from hookkeeper.usecases.suspend import describe

    found: list[dict[str, Any]] = [
        {
            "tenant_id": each.standing.subscription.scope.tenant_id,
            "mode": str(each.standing.subscription.scope.mode),
            "subscription_id": each.standing.subscription.id,
            "endpoint_url": each.standing.subscription.endpoint_url,
            "policy": each.policy,
            "crossed": describe(each.gate),
            "already": each.already,
        }
        for each in _would_suspend(session.deployment, wanted, present)
    ]

    def shown() -> Rows:
        columns = ("tenant", "subscription", "endpoint", "policy", "crossed", "")
        rows = Rows(*columns, flexible=["endpoint"])
        for each in found:
            test = " test" if each["mode"] == "test" else ""
            rows.add(
                words(f"{each['tenant_id']}{test}"),
                each["subscription_id"],
                words(each["endpoint_url"]),
                words(each["policy"]),
                each["crossed"],
                "already so" if each["already"] else "",
            )
        return rows

    session.screen.show_all(found, shown, none="it would suspend nobody")


def _would_suspend(
    deployment: Deployment, wanted: dict[str, Any], present: dict[str, Any]
) -> "Iterator[WouldSuspend]":
    from hookkeeper.adapters.dynamodb_access import DynamoDBAccess
    from hookkeeper.adapters.dynamodb_subscriptions import DynamoDBSubscriptions
    from hookkeeper.runtime_document import RuntimeDocument
    from hookkeeper.usecases.preview import preview

    dynamodb = deployment.client("dynamodb")
    return preview(
        RuntimeDocument.model_validate(wanted).config(),
        present=RuntimeDocument.model_validate(present).config(),
        access=DynamoDBAccess(dynamodb, access_table=deployment.output("TableAccess")),
        subscriptions=DynamoDBSubscriptions(
            dynamodb,
            subscriptions_table=deployment.output("TableSubscriptions"),
            audit_table=deployment.output("TableAudit"),
            notices_table=deployment.output("TableNotices"),
        ),
    )


def _changes(before: Any, after: Any, pointer: str = "") -> Iterator[dict[str, Any]]:
    """Every value that differs, by its JSON pointer; `before` or `after` is absent where there is none."""
    if isinstance(before, Mapping) and isinstance(after, Mapping):
        for name in sorted({*before, *after}):
            place = f"{pointer}/{name.replace('~', '~0').replace('/', '~1')}"
            yield from _changes(before.get(name, _NOTHING), after.get(name, _NOTHING), place)
    elif before != after:
        sides = {"before": before, "after": after}
        yield {"pointer": pointer, **{name: value for name, value in sides.items() if value is not _NOTHING}}


def _shown(changes: list[dict[str, Any]]) -> Text:
    return Text("\n").join(map(_line, changes))


def _line(change: dict[str, Any]) -> Text:
    before, after = (json.dumps(change.get(side), ensure_ascii=False) for side in ("before", "after"))
    if "before" not in change:
        return words(f"+ {change['pointer']}  {after}", "green")
    if "after" not in change:
        return words(f"- {change['pointer']}  {before}", "red")
    return words(f"~ {change['pointer']}  ") + words(before, "red") + Text(" → ") + words(after, "green")

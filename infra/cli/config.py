"""`hookkeeper config`: the runtime configuration, in force within a minute of a change, without a deploy."""

import json
from collections.abc import Iterator, Mapping
from typing import Annotated, Any

import typer
from hookkeeper.domain import json_text
from rich.text import Text

from infra.cli import runtime_config
from infra.cli.command import AWS, Yes, command, json_object
from infra.cli.runtime_config import ConfigProfile
from infra.cli.session import Session, UsageError
from infra.cli.show import words

app = typer.Typer(help="The runtime configuration: thresholds, retries, pace.", no_args_is_help=True)

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


@command(app, "set", shares=AWS)
def replace(session: Session, given: Given, yes: Yes = False) -> None:
    """Replace the document: checked, shown against the present one, asked for, deployed at once.

    4: somebody else has changed it meanwhile.
    """
    wanted = _checked(given)
    appconfig, profile = _appconfig(session), _profile(session)
    present, version = runtime_config.read(appconfig, profile)
    changes = list(_changes(present, wanted))
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
    from hookkeeper.runtime_document import RuntimeDocument
    from pydantic import ValidationError

    document: dict[str, Any] = json.loads(json_text.write(json_object(given)))
    try:
        RuntimeDocument.model_validate(document)
    except ValidationError as error:
        faults = [
            "/" + "/".join(map(str, each["loc"])) + f" {each['msg']}"
            for each in error.errors(include_url=False, include_context=False)
        ]
        raise UsageError("the functions would refuse it: " + "; ".join(faults)) from None
    return document


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

"""How every command is made: shared options, one Session, and every failure a sentence and an exit status.

0 done, 1 failed, 2 usage, 3 not found, 4 conflict, 5 partly done.
"""

import inspect
import os
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from http import HTTPStatus
from pathlib import Path
from typing import Annotated, Any

import httpx
import typer
from hookkeeper.domain import json_text
from hookkeeper.domain.errors import InvalidInputError
from hookkeeper.domain.json_text import Json
from hookkeeper.domain.tenancy import Mode

from infra.cli.client import ApiError
from infra.cli.runtime_config import ConfigError
from infra.cli.session import Failure, Outside, Session, UsageError
from infra.cli.show import Screen
from infra.local.home import Home
from infra.local.ministack import ServerError
from infra.local.stack import DeployError, NotUpError

FAILED, USAGE, NOT_FOUND, CONFLICT, PARTIAL = 1, 2, 3, 4, 5

Yes = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")]
Most = Annotated[int, typer.Option("--limit", min=1, help="At most so many.")]
All = Annotated[bool, typer.Option("--all", help="All there are.")]

_STATUSES: Mapping[int, int] = {
    HTTPStatus.NOT_FOUND: NOT_FOUND,
    HTTPStatus.CONFLICT: CONFLICT,
    HTTPStatus.PRECONDITION_FAILED: CONFLICT,
}
_AWS_CODES: Mapping[str, int] = {
    "ResourceNotFoundException": NOT_FOUND,
    "AWS.SimpleQueueService.NonExistentQueue": NOT_FOUND,
    "ConflictException": CONFLICT,
}
_PANEL = "Connection"


def _output(
    json: Annotated[
        bool, typer.Option("--json", help="One JSON document, or a line each for a list.")
    ] = False,
) -> None: ...


def _stack(
    stack_name: Annotated[
        str | None,
        typer.Option(
            "--stack",
            envvar="HOOKKEEPER_STACK",
            help="CloudFormation stack, reached with your AWS credentials; else the local one.",
            rich_help_panel=_PANEL,
        ),
    ] = None,
) -> None: ...


def _api(
    url: Annotated[
        str | None,
        typer.Option(envvar="HOOKKEEPER_URL", help="The API's URL.", rich_help_panel=_PANEL),
    ] = None,
    key: Annotated[
        str | None,
        typer.Option(
            envvar="HOOKKEEPER_KEY",
            help="An API key; the local stack's operator key where it is left out.",
            rich_help_panel=_PANEL,
            show_default=False,
        ),
    ] = None,
    tenant: Annotated[
        str | None,
        typer.Option(
            envvar="HOOKKEEPER_TENANT", help="For which tenant an operator acts.", rich_help_panel=_PANEL
        ),
    ] = None,
    mode: Annotated[
        Mode, typer.Option(envvar="HOOKKEEPER_MODE", help="And in which mode.", rich_help_panel=_PANEL)
    ] = Mode.LIVE,
) -> None: ...


LOCAL = (_output,)
API = (_output, _api, _stack)
AWS = (_output, _stack)


def command(
    app: typer.Typer, name: str, *, shares: Sequence[Callable[..., None]] = API, panel: str | None = None
) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Make a function `(session, …)` a command of the app, with the options of the groups it shares."""

    def register(function: Callable[..., None]) -> Callable[..., None]:
        own = list(inspect.signature(function, eval_str=True).parameters.values())[1:]
        shared = [p for group in shares for p in inspect.signature(group).parameters.values()]
        names = [parameter.name for parameter in shared]

        def run(ctx: typer.Context, **given: Any) -> None:
            connection = {name: given.pop(name) for name in names}
            screen = Screen(json=connection.pop("json"))
            outside = ctx.obj if isinstance(ctx.obj, Outside) else _world()
            with _told(screen):
                function(Session(outside, screen, **connection), **given)

        context = inspect.Parameter("ctx", inspect.Parameter.KEYWORD_ONLY, annotation=typer.Context)
        parameters = [each.replace(kind=inspect.Parameter.KEYWORD_ONLY) for each in (*own, *shared)]
        run.__signature__ = inspect.Signature([context, *parameters])  # type: ignore[attr-defined]
        run.__annotations__ = {each.name: each.annotation for each in (context, *parameters)}
        run.__doc__, run.__name__ = function.__doc__, function.__name__
        app.command(name, rich_help_panel=panel)(run)
        return function

    return register


def _world() -> Outside:
    """HOOKKEEPER_HOME: the folder of an embedded AWS other than the checkout's own."""
    folder = os.environ.get("HOOKKEEPER_HOME")
    return Outside(home=Home(Path(folder).absolute())) if folder else Outside()


@contextmanager
def _told(screen: Screen) -> Iterator[None]:
    """End with the failure's exit status after its sentence; what nobody foresaw goes up as it is."""
    try:
        yield
    except ApiError as error:
        screen.problem(error.status, error.problem)
        raise typer.Exit(_STATUSES.get(error.status, FAILED)) from None
    except httpx.RequestError as error:
        url = error.request.url
        screen.failure(
            f"no answer from {url.scheme}://{url.netloc.decode()}: {str(error) or type(error).__name__}"
        )
        raise typer.Exit(FAILED) from None
    except (UsageError, InvalidInputError, httpx.InvalidURL, UnicodeEncodeError) as error:
        screen.failure(str(error))
        raise typer.Exit(USAGE) from None
    except Failure as error:
        screen.failure(str(error))
        raise typer.Exit(error.exit_code) from None
    except (ConfigError, NotUpError, ServerError, DeployError) as error:
        screen.failure(str(error))
        raise typer.Exit(FAILED) from None
    except _aws_errors() as error:
        screen.failure(f"AWS: {error}")
        code = getattr(error, "response", {}).get("Error", {}).get("Code")
        raise typer.Exit(_AWS_CODES.get(code, FAILED)) from None


def _aws_errors() -> tuple[type[Exception], ...]:
    """botocore's, which most commands never load."""
    if "botocore" not in sys.modules:
        return ()
    from botocore.exceptions import BotoCoreError, ClientError

    return (BotoCoreError, ClientError)


def json_object(text: str) -> Mapping[str, Json]:
    """A JSON object given as `@file`, `-` (stdin) or the text itself, its numbers as they were written.

    Raises UsageError or InvalidInputError.
    """
    value = json_text.read(_source(text))
    if not isinstance(value, Mapping):
        raise UsageError("a JSON object is wanted")
    return value


def _source(text: str) -> str:
    if text == "-":
        return typer.get_text_stream("stdin").read()
    if text.lstrip().startswith(("{", "[")):
        return text
    file = Path(text.removeprefix("@"))
    try:
        return file.read_text()
    except (OSError, UnicodeDecodeError) as error:
        why = getattr(error, "strerror", None) or str(error)
        raise UsageError(f"a JSON object, @file or - is wanted; {file} cannot be read: {why}") from None


def pairs(given: Sequence[str], *, what: str) -> dict[str, str]:
    """`name=value` texts as a mapping. Raises UsageError."""
    split = [each.partition("=") for each in given]
    for name, equals, _ in split:
        if not (name and equals):
            raise UsageError(f"{what} is given as name=value, not {name!r}")
    return {name: value for name, _, value in split}

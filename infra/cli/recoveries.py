"""`hookkeeper recoveries`: runs that deliver what is owed, and how far they are."""

from collections.abc import Iterator
from contextlib import contextmanager
from http import HTTPStatus
from typing import Annotated, Any

import httpx
import typer
from hookkeeper.domain.recovery import HOLDING
from hookkeeper.domain.replay import Only
from rich.progress import BarColumn, Progress, TaskID, TextColumn
from rich.table import Table
from rich.text import Text

from infra.cli.client import ApiError, path
from infra.cli.command import FAILED, NOT_FOUND, PARTIAL, Yes, command
from infra.cli.session import Failure, Session
from infra.cli.show import Rows, ago, at, due, facts, mark, moment, span, words

app = typer.Typer(help="Runs that deliver what is owed.", no_args_is_help=True)

POLL_SECONDS = 1.0
PATIENCE_POLLS = 60
"""How often it is looked for a recovery that was asked for, and asked again where there is no answer."""

_PASSING = {
    HTTPStatus.TOO_MANY_REQUESTS,
    HTTPStatus.BAD_GATEWAY,
    HTTPStatus.SERVICE_UNAVAILABLE,
    HTTPStatus.GATEWAY_TIMEOUT,
}


Id = Annotated[str, typer.Argument(metavar="RECOVERY", help="rec_…")]


@command(app, "list")
def list_all(
    session: Session,
    subscription_id: Annotated[str, typer.Argument(metavar="SUBSCRIPTION", help="sub_…")],
    most: Annotated[int, typer.Option("--limit", min=1, max=100, help="At most so many.")] = 20,
) -> None:
    """List a subscription's recoveries, the newest first."""
    found = session.tenant_api.get(path("subscriptions", subscription_id, "recoveries"), limit=most)["data"]

    def shown() -> Rows:
        rows = Rows("status", "recovery", "delivered", "not", "kind", "started", flexible=["kind", "started"])
        for each in found:
            lost = [f"{each[word]} {word}" for word in ("failed", "expired") if each[word]]
            rows.add(
                mark(each["status"]),
                each["id"],
                f"{each['succeeded']} of {each['found']}",
                Text(", ".join(lost), "red"),
                each["kind"],
                ago(each["started_at"], session.now),
            )
        return rows

    session.screen.show_all(found, shown, none="no recoveries")


@command(app, "get")
def get(session: Session, recovery_id: Id) -> None:
    """Show one recovery."""
    found = session.tenant_api.get(path("recoveries", recovery_id))
    session.screen.show(found, lambda: _whole(found, session))


@command(app, "start")
def start(
    session: Session,
    subscription_id: Annotated[str, typer.Argument(metavar="SUBSCRIPTION", help="sub_…")],
    since: Annotated[str | None, typer.Option("--from", help="Archived at or after it, RFC 3339.")] = None,
    until: Annotated[str | None, typer.Option("--to", help="Archived at or before it, RFC 3339.")] = None,
    only: Annotated[
        Only, typer.Option(help="owed; failed: attempted in vain; all: what succeeded, too.")
    ] = Only.OWED,
    event_types: Annotated[
        list[str] | None, typer.Option("--type", "-t", help="A type, `type.*` or `*`. Repeatable.")
    ] = None,
    rate: Annotated[float | None, typer.Option(help="At most so many a second.")] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only count what would be sent.")] = False,
    wait: Annotated[bool, typer.Option("--wait", help="Watch until it has ended.")] = False,
    yes: Yes = False,
) -> None:
    """Replay a window of the archive to a subscription: counted first, then asked for.

    With --wait it ends as `recoveries watch` does. 4: another recovery runs.
    """
    given = {"from": since, "to": until, "event_types": event_types, "rate": rate}
    wanted: dict[str, Any] = {"only": str(only)}
    wanted |= {name: value for name, value in given.items() if value is not None}
    at_path = path("subscriptions", subscription_id, "recoveries")
    if dry_run or not yes:
        counted = session.tenant_api.post(at_path, {**wanted, "dry_run": True})
        if dry_run:
            session.screen.show(counted, lambda: _counted(counted, session))
            return
        session.confirm(f"Send {_how_many(counted)} to {subscription_id} again?", yes=yes)
    recovery = session.tenant_api.post(at_path, wanted)
    if wait:
        watch(session, recovery["id"])
        return
    told = f"{recovery['id']} is on its way; see: hookkeeper recoveries watch {recovery['id']}"
    session.done(recovery, told)


@command(app, "cancel")
def cancel(session: Session, recovery_id: Id, yes: Yes = False) -> None:
    """End a recovery for good; what it had still to send stays owed, for the next one."""
    session.confirm(f"Cancel {recovery_id}? What it had still to send stays owed.", yes=yes)
    _steered(session, recovery_id, "cancel")


@command(app, "pause")
def pause(session: Session, recovery_id: Id) -> None:
    """Stop a recovery where it is, within seconds."""
    _steered(session, recovery_id, "pause")


@command(app, "resume")
def resume(session: Session, recovery_id: Id) -> None:
    """Let a paused recovery go on from where it stopped."""
    _steered(session, recovery_id, "resume")


@command(app, "watch")
def watch_it(
    session: Session,
    recovery_id: Annotated[
        str, typer.Argument(metavar="RECOVERY", help="rec_…, or a subscription for its newest.")
    ],
) -> None:
    """Watch a recovery until it has ended: 0 all delivered, 1 stopped, 5 some failed or expired."""
    if recovery_id.startswith("sub_"):
        present = newest(session, recovery_id)
        if present is None:
            raise Failure(f"{recovery_id} has had no recovery", exit_code=NOT_FOUND)
        recovery_id = present
    watch(session, recovery_id)


def _steered(session: Session, recovery_id: str, how: str) -> None:
    recovery = session.tenant_api.post(path("recoveries", recovery_id, how))
    session.screen.show(recovery, lambda: _whole(recovery, session))


def _how_many(counted: dict[str, Any]) -> str:
    """`12 events`, `at least 1000 events`."""
    plural = "event" if counted["found"] == 1 else "events"
    return f"{'' if counted['complete'] else 'at least '}{counted['found']} {plural}"


def _counted(counted: dict[str, Any], session: Session) -> Table:
    return facts(
        {
            "would be sent": Text(_how_many(counted), "bold"),
            "which": f"{counted['only']}, of {', '.join(counted['event_types'])}",
            "archived from": at(counted["from"], session.now),
            "to": at(counted["to"], session.now),
            "subscription": counted["subscription_id"],
        }
    )


def newest(session: Session, subscription_id: str) -> str | None:
    """The id of the subscription's newest recovery."""
    found = session.tenant_api.get(path("subscriptions", subscription_id, "recoveries"), limit=1)["data"]
    return str(found[0]["id"]) if found else None


def wait_for_next(session: Session, subscription_id: str, *, before: str | None) -> str:
    """The id of the recovery that follows. Raises Failure where none begins within a minute."""
    for _ in range(PATIENCE_POLLS):
        present = newest(session, subscription_id)
        if present is not None and present != before:
            return present
        session.outside.pause(POLL_SECONDS)
    raise Failure(
        "it was asked for, but no recovery began within a minute; see the state machine's executions"
    )


def watch(session: Session, recovery_id: str) -> None:
    """Show the recovery as it goes, then how it ended. Raises Exit with the status it deserves."""
    recovery: dict[str, Any] = {}
    with _live(session) as live:
        for recovery in _states(session, recovery_id):
            live.tell(recovery)
    if not session.json:
        session.screen.print(_whole(recovery, session))
    if recovery["status"] != "completed":
        raise typer.Exit(FAILED)
    if recovery["failed"] or recovery["expired"]:
        raise typer.Exit(PARTIAL)


def _states(session: Session, recovery_id: str) -> Iterator[dict[str, Any]]:
    """The recovery after each change but of its eta, up to the one that ends it."""
    told: dict[str, Any] = {}
    unanswered = 0
    while True:
        try:
            recovery = session.tenant_api.get(path("recoveries", recovery_id))
            unanswered = 0
        except (httpx.RequestError, ApiError) as error:
            unanswered += 1
            final = isinstance(error, ApiError) and error.status not in _PASSING
            if final or unanswered > PATIENCE_POLLS:
                raise
        else:
            if {**recovery, "eta": None} != told:
                told = {**recovery, "eta": None}
                yield recovery
            if recovery["status"] not in HOLDING:
                return
        session.outside.pause(POLL_SECONDS)


class _Live:
    """A bar for people, a line per change for files, JSON lines for programs."""

    def __init__(self, session: Session, progress: Progress, task: TaskID) -> None:
        self._session = session
        self._progress = progress
        self._task = task

    def tell(self, recovery: dict[str, Any]) -> None:
        if self._session.json:
            self._session.screen.line(recovery)
        elif not self._progress.disable:
            self._move(recovery)
        else:
            self._session.screen.note(f"{recovery['status']}: {_numbers(recovery)}")

    def _move(self, recovery: dict[str, Any]) -> None:
        done = recovery["succeeded"] + recovery["failed"] + recovery["expired"]
        self._progress.update(
            self._task,
            total=recovery["found"] or None,
            completed=done,
            status=mark(recovery["status"]).markup,
            told=f"{done} of {recovery['found']}{_eta(recovery, self._session)}",
        )


@contextmanager
def _live(session: Session) -> Iterator[_Live]:
    console = session.screen.err
    progress = Progress(
        TextColumn("{task.fields[status]}"),
        BarColumn(bar_width=24),
        TextColumn("{task.fields[told]}"),
        console=console,
        transient=True,
        disable=session.json or not console.is_terminal,
    )
    with progress:
        yield _Live(session, progress, progress.add_task("", total=None, status="", told=""))


def _numbers(recovery: dict[str, Any]) -> str:
    told = f"{recovery['succeeded']} of {recovery['found']} delivered, {recovery['sent']} sent"
    told += "".join(f", {recovery[word]} {word}" for word in ("failed", "expired") if recovery[word])
    return f"{told}, {recovery['rate_per_second']:g}/s"


def _eta(recovery: dict[str, Any], session: Session) -> str:
    pace = f", {recovery['rate_per_second']:g}/s" if recovery["status"] in HOLDING else ""
    return f"{pace}, all sent {due(recovery['eta'], session.now)}" if recovery["eta"] else pace


def _whole(recovery: dict[str, Any], session: Session) -> Table:
    now = session.now
    probe = recovery["probe_status_code"] or recovery["probe_error"]
    return facts(
        {
            "recovery": words(recovery["id"] + "  ") + mark(recovery["status"]),
            "kind": recovery["kind"],
            "subscription": recovery["subscription_id"],
            "probe": words(f"answered {probe}") if probe else None,
            "delivered": f"{recovery['succeeded']} of {recovery['found']} found, {recovery['sent']} sent",
            "failed": Text(str(recovery["failed"]), "red") if recovery["failed"] else None,
            "expired": Text(str(recovery["expired"]), "yellow") if recovery["expired"] else None,
            "pace": f"{recovery['rate_per_second']:g}/s" if recovery["status"] in HOLDING else None,
            "all sent": at(recovery["eta"], now),
            "started": at(recovery["started_at"], now),
            "ended": at(recovery["ended_at"], now),
            "took": _took(recovery),
        }
    )


def _took(recovery: dict[str, Any]) -> str | None:
    if not recovery["ended_at"]:
        return None
    return span((moment(recovery["ended_at"]) - moment(recovery["started_at"])).total_seconds())

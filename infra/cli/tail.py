"""`hookkeeper tail`: what a stack does, as it does it, read from its functions' logs."""

import contextlib
import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Annotated, Any

import typer
from hookkeeper.domain.moment import rfc3339
from rich.text import Text

from infra.cli.session import Session, UsageError
from infra.cli.show import clock, words

PREFIX = "Function"
POLL_SECONDS = 2.0
"""Every log is asked each time: eight calls, within the five a second that an account may make."""

LATE_SECONDS = 20
"""How much is read again each time: CloudWatch shows a line some seconds after it was written."""

QUIET = frozenset({"Authorizer"})
"""Functions whose lines are told with --all alone."""

NOISE = frozenset({"events.fanned_out", "sweep.ended", "page.shown", "recovery.stepped"})
READS = frozenset({"GET", "HEAD"})
FAILED = "function.failed"
BAD_LEVELS = frozenset({"WARNING", "ERROR", "CRITICAL"})

_NAMED = ("tenant", "mode", "subscription_id", "event_id")
_HIDDEN = frozenset(
    {
        *_NAMED,
        "at",
        "level",
        "location",
        "message",
        "timestamp",
        "service",
        "cold_start",
        "arrival",
        "fate",
        "request_id",
        "exception",
        "stack_trace",
        "xray_trace_id",
        "correlation_id",
        "execution",
        "history",
        "generation",
        "key_id",
        "notice_id",
        "message_id",
    }
)
_SPAN = re.compile(r"(\d+)(s|min|m|h|d)")
_UNITS = {"s": "seconds", "m": "minutes", "min": "minutes", "h": "hours", "d": "days"}

Line = Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """Which lines are told; a part that is None or False asks for nothing."""

    tenant: str | None = None
    subscription_id: str | None = None
    only: str | None = None
    failures: bool = False
    everything: bool = False

    def takes(self, line: Line) -> bool:
        what = str(line["message"])
        if self.tenant is not None and line.get("tenant") != self.tenant:
            return False
        if self.subscription_id is not None and line.get("subscription_id") != self.subscription_id:
            return False
        if self.only is not None and not what.startswith(self.only):
            return False
        if self.failures and not failed(line):
            return False
        return self.everything or failed(line) or not _noise(line)

    @property
    def pattern(self) -> str:
        """What CloudWatch may leave out by itself: lines that are not ours, or are of others."""
        return " ".join(f'"{term}"' for term in (self.tenant, self.subscription_id, self.only) if term)


def tail(
    session: Session,
    tenant: Annotated[
        str | None, typer.Option(envvar="HOOKKEEPER_TENANT", help="Only what is about this tenant.")
    ] = None,
    subscription_id: Annotated[
        str | None, typer.Option("--subscription", help="Only what is about this one.")
    ] = None,
    only: Annotated[
        str | None, typer.Option(help="Only lines whose name begins so, such as subscription.suspended.")
    ] = None,
    failures: Annotated[bool, typer.Option("--failures", help="Only what went wrong.")] = False,
    everything: Annotated[
        bool, typer.Option("--all", help="Reads, pages and routine as well, of every function.")
    ] = False,
    since: Annotated[
        str | None, typer.Option(metavar="SPAN", help="Begin so far back: 30s, 10min, 2h, 1d.")
    ] = None,
    follow: Annotated[bool, typer.Option(help="Go on until Ctrl-C.")] = True,
    count: Annotated[int | None, typer.Option("--count", min=1, help="End after so many lines.")] = None,
) -> None:
    """Follow deliveries, suspensions, circuits, recoveries, notices and changes as they come.

    Reads the functions' logs in CloudWatch, so it needs AWS credentials, or the local stack.
    """
    wanted = Wanted(
        tenant=tenant,
        subscription_id=_quotable(subscription_id, "--subscription"),
        only=_quotable(only, "--only"),
        failures=failures,
        everything=everything,
    )
    start = session.now - (_span(since) if since else timedelta())
    lines = _lines(session, wanted, start=start, follow=follow)
    with contextlib.suppress(KeyboardInterrupt):
        for told, line in enumerate(lines, 1):
            _tell(session, line)
            if told == count:
                return


@dataclass(slots=True)
class _Log:
    """One function's log: `since` is where the next look begins, `seen` what was told since then."""

    group: str
    since: int
    seen: dict[tuple[str, int, str], int] = field(default_factory=dict)

    def new(self, logs: Any, pattern: str) -> Iterator[Line]:
        """Every line that was not there at the look before."""
        for event in _events(logs, self.group, self.since, pattern):
            key = (event["logStreamName"], event["timestamp"], event["message"])
            if key in self.seen:
                continue
            self.seen[key] = event["timestamp"]
            line = _parsed(event)
            if line is not None:
                yield line
        newest = max(self.seen.values(), default=self.since)
        self.since = max(self.since, newest - LATE_SECONDS * 1000)
        self.seen = {key: at for key, at in self.seen.items() if at >= self.since}


def _lines(session: Session, wanted: Wanted, *, start: datetime, follow: bool) -> Iterator[Line]:
    """The lines that are wanted, in order of time within each look."""
    logs = session.deployment.client("logs")
    since = int(start.timestamp() * 1000)
    every = [_Log(group, since) for group in _groups(session, everything=wanted.everything)]
    while True:
        found = [line for log in every for line in log.new(logs, wanted.pattern)]
        yield from sorted(filter(wanted.takes, found), key=lambda line: str(line["at"]))
        if not follow:
            return
        session.outside.pause(POLL_SECONDS)


def _groups(session: Session, *, everything: bool) -> Iterator[str]:
    """The log group of each function, as the function itself names it. Raises UsageError for no stack."""
    lambdas = session.deployment.client("lambda")
    for output, name in sorted(session.deployment.outputs.items()):
        if output.startswith(PREFIX) and (everything or output.removeprefix(PREFIX) not in QUIET):
            told = lambdas.get_function_configuration(FunctionName=name)
            yield str(told["LoggingConfig"]["LogGroup"])


def _events(logs: Any, group: str, since: int, pattern: str) -> Iterator[dict[str, Any]]:
    more: dict[str, str] = {}
    while True:
        page = logs.filter_log_events(logGroupName=group, startTime=since, filterPattern=pattern, **more)
        yield from page["events"]
        if not page.get("nextToken"):
            return
        more = {"nextToken": page["nextToken"]}


def _parsed(event: dict[str, Any]) -> Line | None:
    """A line of ours, or one of Lambda's that a function failed; None for its others, and for metrics."""
    try:
        line = json.loads(event["message"])
    except ValueError:
        return None
    if not isinstance(line, dict):
        return None
    if "message" not in line:
        line = _crash(line)
    at = rfc3339(datetime.fromtimestamp(event["timestamp"] / 1000, UTC))
    return {"at": at, **line} if line else None


def _crash(line: Line) -> dict[str, Any]:
    """What Lambda writes of a function that raised or ran out of time, in our words; `{}` for the rest."""
    record = line.get("record")
    status = record.get("status") if isinstance(record, dict) else None
    error = line.get("errorType") or (status if status not in (None, "success") else None)
    if error is None:
        return {}
    told = {"message": FAILED, "level": "ERROR", "error": error, "detail": line.get("errorMessage")}
    return {name: value for name, value in told.items() if value}


def failed(line: Line) -> bool:
    """Whether the line tells of something that went wrong, on whichever side."""
    if line.get("level") in BAD_LEVELS or line.get("error"):
        return True
    return line.get("passed") is False or line.get("outcome") not in (None, "success")


def _noise(line: Line) -> bool:
    what = line["message"]
    if what == "request.answered":
        return line.get("method") in READS
    return what in NOISE and not line.get("done")


def _tell(session: Session, line: Line) -> None:
    if session.json:
        session.screen.line(line)
        return
    bad = failed(line)
    test = " test" if line.get("mode") == "test" else ""
    parts = [
        Text(clock(line["at"]), "dim"),
        Text("✗", "red") if bad else Text("✓", "green"),
        words(f"{line['message']:<22}", "red" if bad else ""),
        words(f"{line['tenant']}{test}") if line.get("tenant") else Text("–", "dim"),
        *(words(line[name]) for name in ("subscription_id", "event_id") if line.get(name)),
        words(_details(line), "dim"),
    ]
    session.screen.out.print(Text("  ").join(parts), soft_wrap=True)


def _details(line: Line) -> str:
    """What else the line says: `attempt 1, lane live, status_code 200`."""
    told = {name: value for name, value in line.items() if not name.startswith("function_")}
    return ", ".join(
        f"{name} {value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)}"
        for name, value in told.items()
        if name not in _HIDDEN and value not in (None, "", [], {})
    )


def _span(text: str) -> timedelta:
    """Raises UsageError."""
    found = _SPAN.fullmatch(text.replace(" ", ""))
    if found is None:
        raise UsageError("--since is a span such as 30s, 10min, 2h or 1d")
    return timedelta(**{_UNITS[found[2]]: int(found[1])})


def _quotable(text: str | None, option: str) -> str | None:
    """The text, if CloudWatch's filter can hold it. Raises UsageError."""
    if text is not None and not re.fullmatch(r"[A-Za-z0-9_.-]+", text):
        raise UsageError(f"{option} has letters, digits, dots, _ and - alone")
    return text

"""`hookkeeper listen`: an HTTPS receiver on this machine that checks signatures, and fails when told to."""

import contextlib
import signal
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated, Any

import typer
from hookkeeper.domain.moment import rfc3339
from rich.text import Text

from infra.cli.client import path
from infra.cli.session import Failure, Session, UsageError
from infra.cli.show import clock, words

if TYPE_CHECKING:
    from infra.local.receiver import Behaviour, Received, Receiver

PORT = 8443
TURN_SECONDS = 0.5
OWN = "endpoint."
"""How types begin that are Hookkeeper's own: challenge, probe, test."""

CHALLENGED_WITHIN_SECONDS = 30.0
FAILING_STATUS = 500
OWNER = "owner@customer.test"


def listen(
    session: Session,
    port: Annotated[int, typer.Option(min=0, max=65535, help="0: a free one.")] = PORT,
    where: Annotated[str, typer.Option("--path", help="Where it is checked.")] = "/hooks",
    secrets: Annotated[
        list[str] | None,
        typer.Option(
            "--secret",
            envvar="HOOKKEEPER_SECRET",
            help="whsec_…; other signatures get 401. Repeatable.",
            show_default=False,
        ),
    ] = None,
    event_types: Annotated[
        list[str] | None,
        typer.Option("--subscribe", help="Subscribe for this type while it listens. Repeatable."),
    ] = None,
    owner_email: Annotated[str, typer.Option("--owner", help="Who owns what --subscribe makes.")] = OWNER,
    status: Annotated[int | None, typer.Option(min=100, max=599, help="Answer so.")] = None,
    delay: Annotated[float, typer.Option(min=0, help="Seconds before each answer.")] = 0,
    reset: Annotated[bool, typer.Option("--reset", help="Cut the connection instead of answering.")] = False,
    fail_first: Annotated[
        int, typer.Option("--fail-first", min=0, help="Fail so many requests, then be well.")
    ] = 0,
    count: Annotated[int | None, typer.Option("--count", min=1, help="End after so many requests.")] = None,
) -> None:
    """Listen for deliveries on https://localhost, a line each; challenges and probes are echoed.

    Its certificate is of the authority that the local stack trusts. Ctrl-C ends it.
    """
    from infra.local.authority import ensure_authority, server_context
    from infra.local.receiver import Receiver

    if not where.startswith("/"):
        raise UsageError("--path begins with /")
    home = session.outside.home
    home.prepare()
    ensure_authority(home.ca_certificate, home.ca_key)
    context = server_context(home.ca_certificate, home.ca_key)
    script = _script(status, delay, reset=reset, fail_first=fail_first)
    log = _Log(session)
    receiver = Receiver(context, port=port, welcoming=bool(event_types))
    with _open(receiver, port), _ended_by_signals():
        session.screen.note(f"listening on {receiver.url(where)}; Ctrl-C ends it")
        if secrets:
            receiver.trust(where, *secrets)
        receiver.behave(*script)
        with _subscribed(session, receiver, where, event_types or (), owner_email):
            log.follow(receiver, count)
    log.sum_up()


@contextlib.contextmanager
def _open(receiver: "Receiver", port: int) -> Iterator[None]:
    """Raises Failure where the port is taken."""
    with contextlib.ExitStack() as stack:
        try:
            stack.enter_context(receiver)
        except OSError as error:
            raise Failure(f"cannot listen on port {port}: {error.strerror}") from None
        yield


@contextlib.contextmanager
def _ended_by_signals() -> Iterator[None]:
    """SIGTERM ends it as Ctrl-C does: in order, and as a success."""
    before = signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        with contextlib.suppress(KeyboardInterrupt):
            yield
    finally:
        signal.signal(signal.SIGTERM, before)


def _script(status: int | None, delay: float, *, reset: bool, fail_first: int) -> "Sequence[Behaviour]":
    from infra.local.receiver import HEALTHY, Behaviour

    failing = Behaviour(status=status or FAILING_STATUS, delay_seconds=delay, reset=reset)
    if fail_first:
        return (*[failing] * fail_first, HEALTHY)
    return (Behaviour(status=status or HEALTHY.status, delay_seconds=delay, reset=reset),)


@contextlib.contextmanager
def _subscribed(
    session: Session, receiver: "Receiver", where: str, event_types: Sequence[str], owner_email: str
) -> Iterator[None]:
    """A subscription of the receiver for as long as it listens, whose secret it trusts.

    Its challenges are answered well, whatever else it was told.
    """
    if not event_types:
        yield
        return
    api = session.tenant_api
    wanted = {
        "endpoint_url": receiver.url(where),
        "event_types": list(event_types),
        "owner_email": owner_email,
    }
    made = api.post(path("subscriptions"), wanted)
    receiver.trust(where, made["secret"])
    session.screen.note(f"subscribed as {made['id']} for {', '.join(event_types)}, until this ends")
    try:
        if not receiver.wait_until(_challenged, timeout_seconds=CHALLENGED_WITHIN_SECONDS):
            session.screen.note("no challenge has come yet; it is pending until one is echoed")
        yield
    finally:
        api.delete(path("subscriptions", made["id"]), etag="*")


def _challenged(receiver: "Receiver") -> bool:
    from infra.local.receiver import CHALLENGE

    return any(each.event.get("type") == CHALLENGE for each in receiver.received)


@dataclass(slots=True)
class _Log:
    """What came, told as it comes; how often each event came, and how often it was accepted (2xx)."""

    session: Session
    told: int = 0
    came: Counter[str] = field(default_factory=Counter)
    accepted: Counter[str] = field(default_factory=Counter)

    def follow(self, receiver: "Receiver", count: int | None) -> None:
        while count is None or self.told < count:
            receiver.wait_until(lambda it: len(it.received) > self.told, timeout_seconds=TURN_SECONDS)
            for each in receiver.received[self.told :][: None if count is None else count - self.told]:
                self.told += 1
                self._tell(each)

    def sum_up(self) -> None:
        again = sum(n > 1 for n in self.accepted.values())
        told = f"{self.told} requests, {sum(n > 0 for n in self.accepted.values())} events accepted"
        self.session.screen.note(told + (f", {again} more than once" if again else ""))

    def _tell(self, each: "Received") -> None:
        if not str(each.event.get("type")).startswith(OWN):
            self.came[each.event_id] += 1
            self.accepted[each.event_id] += _well(each)
        if self.session.json:
            self.session.screen.line(_document(each))
        else:
            self.session.screen.out.print(self._line(each), soft_wrap=True)

    def _line(self, each: "Received") -> Text:
        return Text("  ").join(
            [
                Text(clock(_at(each)), "dim"),
                Text(str(each.status or "cut"), "green" if _well(each) else "red"),
                _SIGNED[each.verified],
                words(f"{each.event.get('type', '?'):<24}"),
                words(each.event_id),
                *self._again(each),
            ]
        )

    def _again(self, each: "Received") -> Iterator[Text]:
        if _well(each) and self.accepted[each.event_id] > 1:
            yield Text(f"accepted {self.accepted[each.event_id]} times", "yellow")
        elif self.came[each.event_id] > 1:
            yield Text(f"request {self.came[each.event_id]}", "dim")


def _well(each: "Received") -> bool:
    return each.status is not None and each.status < 300


_SIGNED = {True: Text("✓ signed", "green"), False: Text("✗ forged", "red"), None: Text("· unread", "dim")}


def _at(each: "Received") -> str:
    return rfc3339(datetime.fromtimestamp(each.at, UTC))


def _document(each: "Received") -> dict[str, Any]:
    return {
        "at": _at(each),
        "path": each.path,
        "verified": each.verified,
        "status": each.status,
        "event_id": each.event_id,
        "event": each.event,
    }

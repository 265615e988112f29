"""A customer's HTTPS endpoint on loopback: checks signatures, answers challenges, and fails when told to.

It serves from a thread of its own, so that tests, the demo and the command line can ask it from theirs.
"""

import asyncio
import contextlib
import json
import ssl
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Self

from standardwebhooks.webhooks import Webhook, WebhookVerificationError

MAX_HEADER_BYTES = 64 * 1024
CHALLENGE = "endpoint.verification"


@dataclass(frozen=True, slots=True)
class Received:
    """One request. `verified` is None where the receiver knew no secret for the path."""

    at: float
    path: str
    headers: dict[str, str]
    body: bytes
    verified: bool | None
    status: int | None
    """What was answered; None for a connection that was reset."""

    @property
    def event_id(self) -> str:
        return self.headers.get("webhook-id", "")

    @property
    def event(self) -> dict[str, Any]:
        """`{"type", "timestamp", "data"}`; empty where the body is no JSON object."""
        return _json_object(self.body)


@dataclass(frozen=True, slots=True)
class Behaviour:
    """How to answer. The delay comes before the answer or the reset."""

    status: int = 200
    delay_seconds: float = 0
    reset: bool = False
    headers: tuple[tuple[str, str], ...] = ()


HEALTHY = Behaviour()


class Receiver:
    """Listens on a free port of 127.0.0.1 while it is entered: `with Receiver(context) as receiver`.

    One that is `welcoming` answers every challenge well, however it was told to behave.
    """

    def __init__(self, context: ssl.SSLContext, *, port: int = 0, welcoming: bool = False) -> None:
        self._context = context
        self._port = port
        self._welcoming = welcoming
        self._secrets: dict[str, list[str]] = {}
        self._scripts: dict[str | None, deque[Behaviour]] = {None: deque([HEALTHY])}
        self._received: list[Received] = []
        self._changed = threading.Condition()
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="receiver", daemon=True)
        self._open: set[asyncio.StreamWriter] = set()

    def __enter__(self) -> Self:
        self._thread.start()
        self._server = self._await(
            asyncio.start_server(
                self._serve, "127.0.0.1", self._port, ssl=self._context, limit=MAX_HEADER_BYTES, backlog=512
            )
        )
        self._port = self._server.sockets[0].getsockname()[1]
        return self

    def __exit__(self, *_: object) -> None:
        self._await(self._close())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    def url(self, path: str = "/hooks") -> str:
        return f"https://localhost:{self._port}{path}"

    def trust(self, path: str, *secrets: str) -> None:
        """From now on, requests to the path must be signed with one of these `whsec_…`; others get 401."""
        self._secrets[path] = list(secrets)

    def behave(self, *script: Behaviour, path: str | None = None) -> None:
        """Answer so from now on: each once, the last for ever. Without a path: wherever none is set."""
        self._scripts[path] = deque(script or [HEALTHY])

    @property
    def received(self) -> Sequence[Received]:
        with self._changed:
            return tuple(self._received)

    def deliveries(self, path: str = "/hooks") -> Sequence[Received]:
        """What came to the path but for Hookkeeper's own `endpoint.…` events."""
        return [
            each
            for each in self.received
            if each.path == path and not str(each.event.get("type")).startswith("endpoint.")
        ]

    def wait_until(self, done: Callable[[Self], bool], *, timeout_seconds: float = 30) -> bool:
        """Ask again after every request; False where the time is over first."""
        deadline = time.monotonic() + timeout_seconds
        with self._changed:
            while not done(self):
                if not self._changed.wait(deadline - time.monotonic()):
                    return done(self)
            return True

    def _await(self, coroutine: Any) -> Any:
        return asyncio.run_coroutine_threadsafe(coroutine, self._loop).result(timeout=10)

    async def _close(self) -> None:
        self._server.close()
        for writer in list(self._open):
            writer.transport.abort()
        await asyncio.sleep(0)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._open.add(writer)
        try:
            with contextlib.suppress(asyncio.IncompleteReadError, ConnectionError, asyncio.LimitOverrunError):
                while await self._exchange(reader, writer):
                    pass
        finally:
            self._open.discard(writer)
            writer.close()

    async def _exchange(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        """One request and its answer. False where the connection ends with it."""
        path, headers = _parsed(await reader.readuntil(b"\r\n\r\n"))
        body = await reader.readexactly(int(headers.get("content-length", 0)))
        welcome = self._welcoming and _json_object(body).get("type") == CHALLENGE
        behaviour = HEALTHY if welcome else self._next_behaviour(path)
        verified = self._verified(path, headers, body)
        status = 401 if verified is False else behaviour.status
        await asyncio.sleep(behaviour.delay_seconds)
        self._record(
            Received(time.time(), path, headers, body, verified, None if behaviour.reset else status)
        )
        if behaviour.reset:
            writer.transport.abort()
            return False
        writer.write(_answer(status, behaviour.headers, _echo(body) if status < 300 else b""))
        await writer.drain()
        return headers.get("connection", "").lower() != "close"

    def _next_behaviour(self, path: str) -> Behaviour:
        script = self._scripts.get(path) or self._scripts[None]
        return script.popleft() if len(script) > 1 else script[0]

    def _verified(self, path: str, headers: dict[str, str], body: bytes) -> bool | None:
        secrets = self._secrets.get(path)
        return any(_signed_with(secret, headers, body) for secret in secrets) if secrets else None

    def _record(self, received: Received) -> None:
        with self._changed:
            self._received.append(received)
            self._changed.notify_all()


def _signed_with(secret: str, headers: dict[str, str], body: bytes) -> bool:
    try:
        Webhook(secret).verify(body.decode(), headers)
    except (WebhookVerificationError, UnicodeDecodeError):
        return False
    return True


def _parsed(head: bytes) -> tuple[str, dict[str, str]]:
    request, *lines = head.decode("latin-1").split("\r\n")
    _, target, _ = request.split(" ", 2)
    return target, dict(_fields(lines))


def _fields(lines: Sequence[str]) -> Iterator[tuple[str, str]]:
    for line in filter(None, lines):
        name, _, value = line.partition(":")
        yield name.strip().lower(), value.strip()


def _answer(status: int, headers: tuple[tuple[str, str], ...], body: bytes) -> bytes:
    fields = (("content-type", "application/json"), ("content-length", str(len(body))), *headers)
    head = "".join(f"{name}: {value}\r\n" for name, value in fields)
    return f"HTTP/1.1 {status} \r\n{head}\r\n".encode("latin-1") + body


def _echo(body: bytes) -> bytes:
    """What a challenge or a probe wants to read back."""
    data = _json_object(body).get("data")
    wanted = {k: data[k] for k in ("challenge", "nonce") if k in data} if isinstance(data, dict) else {}
    return json.dumps(wanted).encode()


def _json_object(body: bytes) -> dict[str, Any]:
    try:
        value = json.loads(body)
    except ValueError:
        return {}
    return value if isinstance(value, dict) else {}

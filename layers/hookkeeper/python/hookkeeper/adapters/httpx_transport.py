"""The vetted way to an endpoint, as an httpx transport: resolve, vet, dial what was vetted, exchange.

httpx's own pool looks names up by itself and slows down with concurrency; this one keeps few connections,
each no longer than its vetting lasts, and never shares one between two endpoints.
"""

import asyncio
import errno
import socket
import ssl
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass

import httpx

from hookkeeper.adapters.dns_resolver import vet
from hookkeeper.adapters.egress_faults import (
    NO_ROUTE_ERRNOS,
    AttemptFaultError,
    connection_fault,
    lookup_fault,
)
from hookkeeper.adapters.httptools_connection import HttpConnection, StaleConnectionError
from hookkeeper.domain.endpoint import HTTPS_PORT
from hookkeeper.domain.outcome import Fault

CONNECT_SECONDS = 3.0
KEEPALIVE_SECONDS = 60.0
MAX_IDLE_CONNECTIONS = 64
_HANDSHAKE_SECONDS = 60.0
"""Never reached: the deadline ends a handshake."""
_SHUTDOWN_SECONDS = 1.0

_OWN_ERRNOS = NO_ROUTE_ERRNOS | {errno.EADDRNOTAVAIL, errno.EACCES, errno.EPERM}
"""What connect() itself answers, before a packet leaves: no route, no free port, our own firewall."""

Resolve = Callable[[str, int], Awaitable[Sequence[str]]]
Dial = Callable[[str, int], Awaitable[socket.socket]]


async def dial(address: str, port: int) -> socket.socket:
    """A TCP connection to a literal address.

    Raises AttemptFaultError (`no_route`) where our own host cannot even begin, which shows before a packet
    leaves; what comes back from the network is an OSError, and the endpoint's.
    """
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    try:
        sock = socket.socket(family, socket.SOCK_STREAM)
    except OSError as error:
        raise AttemptFaultError(Fault.NO_ROUTE, f"no socket: errno {error.errno}") from error
    try:
        await _connect(sock, address, port)
    except BaseException:
        sock.close()
        raise
    return sock


async def _connect(sock: socket.socket, address: str, port: int) -> None:
    sock.settimeout(0)
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    code = sock.connect_ex((address, port))
    if code in _OWN_ERRNOS:
        raise AttemptFaultError(Fault.NO_ROUTE, f"{address}: errno {code}")
    if code == errno.EINPROGRESS:
        await _writable(sock)
        code = sock.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
    if code:
        raise OSError(code, errno.errorcode.get(code, "connect"))


async def _writable(sock: socket.socket) -> None:
    loop = asyncio.get_running_loop()
    ready: asyncio.Future[None] = loop.create_future()
    loop.add_writer(sock, _wake, ready)
    try:
        await ready
    finally:
        loop.remove_writer(sock)


def _wake(ready: asyncio.Future[None]) -> None:
    if not ready.done():
        ready.set_result(None)


@dataclass(frozen=True, slots=True)
class _Vetting:
    """When addresses were vetted, by both clocks: a frozen Lambda may stop one, a correction move one."""

    monotonic: float
    wall: float

    @classmethod
    def now(cls) -> "_Vetting":
        return cls(time.monotonic(), time.time())

    def younger_than(self, seconds: float) -> bool:
        now = _Vetting.now()
        return now.monotonic - self.monotonic < seconds and 0 <= now.wall - self.wall < seconds


_Key = tuple[str, str, int]


@dataclass(frozen=True, slots=True)
class _Kept:
    connection: HttpConnection
    vetting: _Vetting

    def usable(self, keepalive_seconds: float) -> bool:
        return self.connection.usable and self.vetting.younger_than(keepalive_seconds)


class _IdleConnections:
    """Connections that wait for their endpoint's next request, the longest idle endpoints first."""

    def __init__(self, *, limit: int, keepalive_seconds: float) -> None:
        self._kept: dict[_Key, list[_Kept]] = {}
        self._limit = limit
        self._keepalive_seconds = keepalive_seconds
        self._count = 0

    def take(self, key: _Key) -> _Kept | None:
        while waiting := self._kept.get(key):
            kept = self._pop(key, waiting)
            if kept.usable(self._keepalive_seconds):
                return kept
            kept.connection.abort()
        return None

    def put(self, key: _Key, kept: _Kept) -> None:
        waiting = self._kept.pop(key, [])
        waiting.append(kept)
        self._kept[key] = waiting
        self._count += 1
        while self._count > self._limit:
            oldest = next(iter(self._kept))
            self._pop(oldest, self._kept[oldest]).connection.abort()

    def _pop(self, key: _Key, waiting: list[_Kept]) -> _Kept:
        kept = waiting.pop()
        self._count -= 1
        if not waiting:
            del self._kept[key]
        return kept

    def abort_all(self) -> None:
        for waiting in self._kept.values():
            for kept in waiting:
                kept.connection.abort()
        self._kept.clear()
        self._count = 0


class VettedTransport(httpx.AsyncBaseTransport):
    """Sends one request to an address that was vetted, or raises AttemptFaultError.

    Each request brings the extensions `deadline` (the loop's clock), `target` (bytes of the request line)
    and `endpoint_key`. The response carries the raw body, at most 16 KiB, and of the headers Retry-After
    and Location alone.
    """

    def __init__(
        self,
        *,
        tls: ssl.SSLContext,
        resolve: Resolve,
        dial: Dial = dial,
        allowed_private_cidrs: tuple[str, ...] = (),
        connect_seconds: float = CONNECT_SECONDS,
        keepalive_seconds: float = KEEPALIVE_SECONDS,
        max_idle_connections: int = MAX_IDLE_CONNECTIONS,
    ) -> None:
        self._tls = tls
        self._resolve = resolve
        self._dial = dial
        self._allowed_private_cidrs = allowed_private_cidrs
        self._connect_seconds = connect_seconds
        self._idle = _IdleConnections(limit=max_idle_connections, keepalive_seconds=keepalive_seconds)
        self._lookups: dict[tuple[str, int], asyncio.Task[Sequence[str]]] = {}

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        deadline: float = request.extensions["deadline"]
        host, port = request.url.raw_host.decode("ascii"), request.url.port or HTTPS_PORT
        key = request.extensions["endpoint_key"], host, port
        payload = _payload(request)
        kept = self._idle.take(key) or await self._connected(key, deadline=deadline)
        try:
            reply = await kept.connection.exchange(payload, deadline=deadline)
        except StaleConnectionError:
            kept = await self._connected(key, deadline=deadline)
            reply = await kept.connection.exchange(payload, deadline=deadline)
        if kept.connection.usable:
            self._idle.put(key, kept)
        return httpx.Response(reply.status, headers=reply.headers, content=reply.body)

    async def aclose(self) -> None:
        self._idle.abort_all()
        await asyncio.sleep(0)

    async def _connected(self, key: _Key, *, deadline: float) -> _Kept:
        _, host, port = key
        addresses = vet(
            await self._looked_up(host, port, deadline=deadline),
            allowed_private_cidrs=self._allowed_private_cidrs,
        )
        vetting = _Vetting.now()
        sock = await self._dialled(addresses, port, deadline=deadline)
        return _Kept(await self._secured(sock, host, deadline=deadline), vetting)

    async def _looked_up(self, host: str, port: int, *, deadline: float) -> Sequence[str]:
        """The name's answers; requests that need it at the same moment share one look-up."""
        lookup = self._lookups.get((host, port))
        if lookup is None:
            lookup = self._lookups[host, port] = asyncio.ensure_future(self._lookup(host, port))
            lookup.add_done_callback(lambda done: self._forget(host, port, done))
        try:
            async with asyncio.timeout_at(deadline):
                return await asyncio.shield(lookup)
        except TimeoutError as error:
            self._forget(host, port, lookup)
            raise AttemptFaultError(Fault.DNS_TEMPORARY, "no answer in time") from error

    async def _lookup(self, host: str, port: int) -> Sequence[str]:
        try:
            return await self._resolve(host, port)
        except UnicodeError as error:
            raise AttemptFaultError(Fault.INVALID_CONFIG, "no DNS name") from error
        except OSError as error:
            raise AttemptFaultError(lookup_fault(error), f"getaddrinfo: {error.errno}") from error

    def _forget(self, host: str, port: int, lookup: asyncio.Task[Sequence[str]]) -> None:
        if self._lookups.get((host, port)) is lookup:
            del self._lookups[host, port]
        if lookup.done() and not lookup.cancelled():
            lookup.exception()

    async def _dialled(self, addresses: Sequence[str], port: int, *, deadline: float) -> socket.socket:
        """The first vetted address that answers, each within three seconds and all within the deadline."""
        loop = asyncio.get_running_loop()
        failures: list[AttemptFaultError] = []
        for address in addresses:
            try:
                async with asyncio.timeout_at(min(deadline, loop.time() + self._connect_seconds)):
                    return await self._dial(address, port)
            except TimeoutError:
                failures.append(AttemptFaultError(Fault.CONNECT_TIMEOUT, address))
            except AttemptFaultError as error:
                failures.append(error)
            except OSError as error:
                failures.append(AttemptFaultError(connection_fault(error), f"{address}: errno {error.errno}"))
            if loop.time() >= deadline:
                break
        raise _worth_telling(failures, any_v4=any(":" not in address for address in addresses))

    async def _secured(self, sock: socket.socket, host: str, *, deadline: float) -> HttpConnection:
        loop = asyncio.get_running_loop()
        try:
            async with asyncio.timeout_at(deadline):
                _, connection = await loop.create_connection(
                    HttpConnection,
                    sock=sock,
                    ssl=self._tls,
                    server_hostname=host,
                    ssl_handshake_timeout=_HANDSHAKE_SECONDS,
                    ssl_shutdown_timeout=_SHUTDOWN_SECONDS,
                )
        except OSError as error:
            raise AttemptFaultError(connection_fault(error), f"TLS: {error.errno}") from error
        return connection


def _worth_telling(failures: Sequence[AttemptFaultError], *, any_v4: bool) -> AttemptFaultError:
    """What the endpoint did, before what we could not; that we have no IPv6 is no fault to alarm about."""
    for failure in reversed(failures):
        if failure.fault is not Fault.NO_ROUTE:
            return failure
    return failures[-1] if any_v4 else AttemptFaultError(Fault.UNREACHABLE, "only IPv6, and we have none")


def _payload(request: httpx.Request) -> bytes:
    """The request as it goes out: the target byte for byte, never as httpx would spell it."""
    lines = [b"%s %s HTTP/1.1" % (request.method.encode("ascii"), request.extensions["target"])]
    lines += [b"%s: %s" % header for header in request.headers.raw]
    return b"\r\n".join([*lines, b"", request.content])

"""Sends requests to endpoints: all of a batch at once, each with its own deadline, each ending as an Answer.

The only module that reaches out: deliveries, challenges, probes and tests all pass here.
"""

import asyncio
import math
import re
from collections import defaultdict
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from urllib.parse import urlsplit

import httpx

from hookkeeper.adapters.dns_resolver import system_lookup
from hookkeeper.adapters.egress_faults import AttemptFaultError
from hookkeeper.adapters.httpx_transport import KEEPALIVE_SECONDS, Dial, Resolve, VettedTransport, dial
from hookkeeper.adapters.tls_context import tls_context
from hookkeeper.domain.endpoint import MAX_HOST_CHARACTERS, EndpointRefusedError, canonical_url
from hookkeeper.domain.outbound import OutboundRequest
from hookkeeper.domain.outcome import (
    FAILURE_EXCERPT_BYTES,
    SUCCESS_EXCERPT_BYTES,
    Answer,
    Fault,
    clean_excerpt,
)

MAX_IN_FLIGHT_PER_ENDPOINT = 10
PLACE_PATIENCE_SECONDS = 3.0
"""How long a request waits for its place: an endpoint that needs longer must not keep a whole batch."""

START_MARGIN_SECONDS = 0.5
"""Left over after a request's deadline for building its answer; the caller keeps its own time for writes."""

_LOOKUP_THREADS = 32
"""A look-up that hangs keeps its thread; the others must not wait for it."""

_NAME = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]{1,64}")
_VALUE = re.compile(r"(?:[\x21-\x7e](?:[\x20-\x7e]{0,4094}[\x21-\x7e])?)?")
_FRAMING = frozenset(
    {"host", "content-length", "transfer-encoding", "connection", "keep-alive", "upgrade", "te", "trailer"}
    | {"expect", "proxy-authorization", "proxy-connection"}
)
"""Names that say where a request goes or ends; they are ours alone."""


class HttpxSender:
    """The `Sender` port. Its loop and kept connections live over all calls; for one thread."""

    def __init__(
        self,
        *,
        allowed_private_cidrs: tuple[str, ...] = (),
        allowed_hosts: tuple[str, ...] = (),
        own_hosts: tuple[str, ...] = (),
        extra_ca_file: str | None = None,
        resolve: Resolve | None = None,
        dial: Dial = dial,
        keepalive_seconds: float = KEEPALIVE_SECONDS,
    ) -> None:
        self._allowed_hosts = frozenset(allowed_hosts)
        self._own_hosts = frozenset(own_hosts)
        self._runner = asyncio.Runner()
        self._threads = ThreadPoolExecutor(_LOOKUP_THREADS, thread_name_prefix="lookup")
        self._transport = VettedTransport(
            tls=tls_context(extra_ca_file=extra_ca_file),
            resolve=resolve or self._system_resolve,
            dial=dial,
            allowed_private_cidrs=allowed_private_cidrs,
            keepalive_seconds=keepalive_seconds,
        )

    def send(
        self, requests: Sequence[OutboundRequest], *, stop_at_seconds: float | None = None
    ) -> Sequence[Answer]:
        """All at once, at most ten in flight per endpoint; answers in the requests' order.

        `stop_at_seconds` is what is left of the caller's time: a request that could not end within it is
        not begun, and its answer is `out_of_time`; nor is one whose endpoint is too slow to make room for it,
        and its answer is `no_place`.
        """
        return self._runner.run(self._send_all(requests, stop_at_seconds))

    def close(self) -> None:
        self._runner.run(self._transport.aclose())
        self._runner.close()
        self._threads.shutdown(wait=False, cancel_futures=True)

    async def _send_all(
        self, requests: Sequence[OutboundRequest], stop_at_seconds: float | None
    ) -> Sequence[Answer]:
        stop_at = math.inf if stop_at_seconds is None else _now() + stop_at_seconds
        places: dict[str, asyncio.Semaphore] = defaultdict(
            lambda: asyncio.Semaphore(MAX_IN_FLIGHT_PER_ENDPOINT)
        )
        return await asyncio.gather(
            *(self._in_turn(request, places[request.endpoint_key], stop_at) for request in requests)
        )

    async def _in_turn(self, request: OutboundRequest, place: asyncio.Semaphore, stop_at: float) -> Answer:
        try:
            async with asyncio.timeout(PLACE_PATIENCE_SECONDS):
                await place.acquire()
        except TimeoutError:
            return Answer(fault=Fault.NO_PLACE)
        try:
            return await self._in_place(request, stop_at)
        finally:
            place.release()

    async def _in_place(self, request: OutboundRequest, stop_at: float) -> Answer:
        started = _now()
        if started + request.timeout_seconds + START_MARGIN_SECONDS > stop_at:
            return Answer(fault=Fault.OUT_OF_TIME)
        try:
            response = await self._transport.handle_async_request(self._outgoing(request, started))
        except AttemptFaultError as error:
            return Answer(fault=error.fault, latency_ms=_since(started), operator_note=error.note)
        except Exception as error:  # noqa: BLE001  # one request's surprise is never the batch's
            note = type(error).__name__
            return Answer(fault=Fault.OTHER, latency_ms=_since(started), operator_note=note)
        return _answer(response, latency_ms=_since(started), secrets=request.secrets_to_hide)

    def _outgoing(self, request: OutboundRequest, started: float) -> httpx.Request:
        """The request under today's rules; what was stored under others ends as `invalid_config`."""
        _check_headers(request.headers)
        try:
            url = canonical_url(request.url, own_hosts=self._own_hosts, allowed_hosts=self._allowed_hosts)
        except EndpointRefusedError as error:
            raise AttemptFaultError(Fault.INVALID_CONFIG, f"endpoint_url: {error.code}") from error
        if url.text != request.url:
            raise AttemptFaultError(Fault.INVALID_CONFIG, "endpoint_url is not canonical")
        return httpx.Request(
            "POST",
            f"https://{url.host}:{url.port}/",
            headers=request.headers,
            content=request.body,
            extensions={
                "deadline": started + request.timeout_seconds,
                "endpoint_key": request.endpoint_key,
                "target": url.target.encode("ascii"),
            },
        )

    async def _system_resolve(self, host: str, port: int) -> Sequence[str]:
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self._threads, system_lookup, host, port)


def _now() -> float:
    return asyncio.get_running_loop().time()


def _since(started: float) -> int:
    return round((_now() - started) * 1000)


def _check_headers(headers: Sequence[tuple[str, str]]) -> None:
    names = [name.lower() for name, _ in headers]
    well_formed = all(_NAME.fullmatch(name) and _VALUE.fullmatch(value) for name, value in headers)
    if not well_formed or len(set(names)) < len(names) or not _FRAMING.isdisjoint(names):
        raise AttemptFaultError(Fault.INVALID_CONFIG, "headers")


def _answer(response: httpx.Response, *, latency_ms: int, secrets: Sequence[str]) -> Answer:
    limit = SUCCESS_EXCERPT_BYTES if response.is_success else FAILURE_EXCERPT_BYTES
    return Answer(
        status_code=response.status_code,
        latency_ms=latency_ms,
        excerpt=clean_excerpt(response.content, limit, secrets),
        retry_after=response.headers.get("retry-after"),
        location_host=_host(response.headers.get("location")),
        body=response.content,
    )


def _host(location: str | None) -> str | None:
    """The host alone: where a redirect points is never fetched, and its query is nobody's business."""
    try:
        host = urlsplit(location or "").hostname
    except ValueError:
        return None
    return clean_excerpt(host.encode(), MAX_HOST_CHARACTERS) if host else None

"""One HTTP/1.1 connection to an endpoint: a request out, a capped response in, one deadline over both."""

import asyncio
from dataclasses import dataclass
from typing import cast

import httptools

from hookkeeper.adapters.egress_faults import AttemptFaultError, connection_fault
from hookkeeper.domain.outcome import Fault

MAX_HEAD_BYTES = 64 * 1024
MAX_HEAD_LINES = 100
MAX_BODY_BYTES = 16 * 1024
MAX_FRAMING_BYTES = 64 * 1024
"""Raw bytes after the head: room for a body in tiny chunks, an end to endless chunk extensions."""

_SLICE_BYTES = 16 * 1024
_FIRST_FINAL_STATUS = 200
_KEPT_HEADERS = frozenset({b"retry-after", b"location"})


class StaleConnectionError(AttemptFaultError):
    """A kept connection ended before a byte of the response: nothing says that the request was seen."""


@dataclass(frozen=True, slots=True)
class Reply:
    """A final status, the few headers we read, and as much of the raw body as came (at most 16 KiB)."""

    status: int
    headers: list[tuple[bytes, bytes]]
    body: bytes


class ResponseReader:
    """Reads one final response under the caps; `done` is set when it has ended, well or not.

    The `on_…` methods are httptools' callbacks.
    """

    def __init__(self, done: asyncio.Future[None]) -> None:
        self.done = done
        self.status: int | None = None
        self.headers: list[tuple[bytes, bytes]] = []
        self.body = bytearray()
        self.fault: Fault | None = None
        self.touched = False
        self.clean = False
        self._parser = httptools.HttpResponseParser(self)
        self._fed_bytes = 0
        self._head_bytes = 0
        self._head_lines = 0
        self._informational = False
        self.complete = False

    def feed(self, data: bytes) -> None:
        self.touched = True
        for start in range(0, len(data), _SLICE_BYTES):
            if self.done.done():
                self.clean = False
                return
            self._feed_slice(data[start : start + _SLICE_BYTES])

    def _feed_slice(self, data: bytes) -> None:
        self._fed_bytes += len(data)
        try:
            self._parser.feed_data(data)
        except (httptools.HttpParserError, httptools.HttpParserUpgrade):
            self.clean = False
            self._end(Fault.MALFORMED_RESPONSE)
            return
        if self.complete:
            self._end()
        elif self.status is None:
            if self._fed_bytes > MAX_HEAD_BYTES or self._head_lines > MAX_HEAD_LINES:
                self._end(self._flood())
        elif len(self.body) >= MAX_BODY_BYTES or self._fed_bytes > self._head_bytes + MAX_FRAMING_BYTES:
            self._end()

    def eof(self) -> None:
        self._end(Fault.CLOSED_EARLY)

    def lost(self, error: Exception | None) -> None:
        self._end(connection_fault(error))

    def out_of_time(self) -> None:
        self.touched = True
        self._end(Fault.ENDLESS_INFORMATIONAL if self._informational else Fault.TIMEOUT)

    def _end(self, fault: Fault | None = None) -> None:
        """A status that has arrived stands, whatever became of the body."""
        if not self.done.done():
            self.fault = fault if self.status is None else None
            self.done.set_result(None)

    def _flood(self) -> Fault:
        return Fault.ENDLESS_INFORMATIONAL if self._informational else Fault.HEADERS_TOO_LARGE

    def on_message_begin(self) -> None:
        if self.complete:
            self.clean = False

    def on_header(self, name: bytes, value: bytes) -> None:
        self._head_lines += 1
        self._head_bytes += len(name) + len(value) + len(b": \r\n")
        if self.status is None and name.lower() in _KEPT_HEADERS:
            self.headers.append((name.lower(), value))

    def on_headers_complete(self) -> None:
        if self.complete:
            return
        status = self._parser.get_status_code()
        if status < _FIRST_FINAL_STATUS:
            self._informational = True
            self.headers.clear()
        elif self._head_bytes > MAX_HEAD_BYTES or self._head_lines > MAX_HEAD_LINES:
            self._end(self._flood())
        else:
            self.status = status

    def on_body(self, data: bytes) -> None:
        if not self.complete:
            self.body += data[: MAX_BODY_BYTES - len(self.body)]

    def on_message_complete(self) -> None:
        if self.status is not None and not self.complete:
            self.complete = True
            self.clean = self._parser.should_keep_alive()

    def reply(self) -> Reply:
        if self.status is None:
            raise AttemptFaultError(self.fault or Fault.OTHER)
        return Reply(self.status, self.headers, bytes(self.body))


class HttpConnection(asyncio.Protocol):
    """Carries one exchange at a time; between two of them any byte from the peer closes it."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._transport: asyncio.Transport
        self._reader: ResponseReader | None = None
        self._lost = False
        self._served = 0

    @property
    def usable(self) -> bool:
        return not self._lost and not self._transport.is_closing()

    async def exchange(self, request: bytes, *, deadline: float) -> Reply:
        """Send the bytes and read the answer until `deadline` (the loop's clock).

        Raises AttemptFaultError when no final status came, StaleConnectionError where a kept connection
        turned out to be dead. A connection that cannot serve another exchange is closed.
        """
        reader = ResponseReader(self._loop.create_future())
        if not self.usable:
            reader.lost(None)
        self._reader = reader
        timer = self._loop.call_at(deadline, reader.out_of_time)
        try:
            self._transport.write(request)
            await reader.done
        finally:
            timer.cancel()
            self._reader = None
            self._settle(reader)
        if reader.fault is not None and not reader.touched and self._served > 1:
            raise StaleConnectionError(reader.fault)
        return reader.reply()

    def _settle(self, reader: ResponseReader) -> None:
        self._served += 1
        if not reader.complete:
            self._transport.abort()
        elif not reader.clean or self._transport.get_write_buffer_size() > 0:
            self._transport.close()

    def abort(self) -> None:
        self._transport.abort()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)

    def data_received(self, data: bytes) -> None:
        if self._reader is None:
            self.abort()
        else:
            self._reader.feed(data)

    def eof_received(self) -> None:
        if self._reader is not None:
            self._reader.eof()

    def connection_lost(self, exc: Exception | None) -> None:
        self._lost = True
        if self._reader is not None:
            self._reader.lost(exc)

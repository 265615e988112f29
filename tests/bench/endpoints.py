"""Endpoints on loopback over TLS, in a process of their own, that answer at once, or when told.

A path that begins with `/new` closes its connection after each answer; `/slow` answers after 100 ms.
"""

import asyncio
import multiprocessing
import ssl
from collections.abc import Iterator
from contextlib import contextmanager
from multiprocessing.connection import Connection
from pathlib import Path
from typing import cast

import httptools

from infra.local.authority import server_context

SLOW_SECONDS = 0.1
_HEAD = b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 2\r\n"


class _Exchange(asyncio.Protocol):
    def __init__(self) -> None:
        self._transport: asyncio.Transport
        self._parser = httptools.HttpRequestParser(self)
        self._path = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)

    def data_received(self, data: bytes) -> None:
        self._parser.feed_data(data)

    def on_url(self, url: bytes) -> None:
        self._path = url

    def on_message_complete(self) -> None:
        if self._path.startswith(b"/slow"):
            asyncio.get_running_loop().call_later(SLOW_SECONDS, self._answer)
        else:
            self._answer()

    def _answer(self) -> None:
        closes = self._path.startswith(b"/new")
        self._transport.write(_HEAD + (b"connection: close\r\n" if closes else b"") + b"\r\nok")
        if closes:
            self._transport.close()


@contextmanager
def endpoints(certificate: Path, key: Path) -> Iterator[str]:
    """Their base URL."""
    ours, theirs = multiprocessing.Pipe()
    process = multiprocessing.get_context("spawn").Process(
        target=_serve, args=(certificate, key, theirs), daemon=True
    )
    process.start()
    try:
        yield f"https://localhost:{ours.recv()}"
    finally:
        process.terminate()
        process.join()


def _serve(certificate: Path, key: Path, told: Connection) -> None:
    asyncio.run(_serving(server_context(certificate, key), told))


async def _serving(context: ssl.SSLContext, told: Connection) -> None:
    server = await asyncio.get_running_loop().create_server(
        _Exchange, "127.0.0.1", 0, ssl=context, backlog=512
    )
    told.send(server.sockets[0].getsockname()[1])
    await server.serve_forever()

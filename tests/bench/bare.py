"""The two loops that `deliver` is held against: they send, and do nothing else."""

import asyncio
import ssl
from collections.abc import Sequence
from typing import cast
from urllib.parse import urlsplit

import httptools
import httpx


class BareHttpx:
    """`httpx.AsyncClient` as it comes, kept over all batches; ten requests at once."""

    def __init__(self, tls: ssl.SSLContext) -> None:
        self._runner = asyncio.Runner()
        self._client = httpx.AsyncClient(verify=tls, trust_env=False)

    def send(self, urls: Sequence[str], headers: dict[str, str], body: bytes) -> None:
        self._runner.run(self._send(urls, headers, body))

    async def _send(self, urls: Sequence[str], headers: dict[str, str], body: bytes) -> None:
        sent = (self._client.post(url, headers=headers, content=body) for url in urls)
        for response in await asyncio.gather(*sent):
            response.raise_for_status()

    def close(self) -> None:
        self._runner.run(self._client.aclose())
        self._runner.close()


class _Exchange(asyncio.Protocol):
    def __init__(self) -> None:
        self.transport: asyncio.Transport
        self.done: asyncio.Future[int]
        self.kept = False
        self.parser = httptools.HttpResponseParser(self)

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast("asyncio.Transport", transport)

    def data_received(self, data: bytes) -> None:
        self.parser.feed_data(data)

    def on_message_complete(self) -> None:
        self.kept = self.parser.should_keep_alive()
        self.done.set_result(self.parser.get_status_code())


class BareSmall:
    """A protocol of thirty lines over httptools; a connection for each URL, kept while it may be."""

    def __init__(self, tls: ssl.SSLContext) -> None:
        self._runner = asyncio.Runner()
        self._tls = tls
        self._kept: dict[str, _Exchange] = {}

    def send(self, urls: Sequence[str], headers: dict[str, str], body: bytes) -> None:
        lines = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
        tail = f"content-length: {len(body)}\r\n{lines}\r\n".encode() + body
        self._runner.run(self._send(urls, tail))

    async def _send(self, urls: Sequence[str], tail: bytes) -> None:
        assert set(await asyncio.gather(*(self._one(url, tail) for url in urls))) == {200}

    async def _one(self, url: str, tail: bytes) -> int:
        loop, parts = asyncio.get_running_loop(), urlsplit(url)
        host, port = parts.hostname or "", parts.port or 443
        exchange = self._kept.pop(url, None)
        if exchange is None or exchange.transport.is_closing():
            _, exchange = await loop.create_connection(_Exchange, host, port, ssl=self._tls)
        exchange.done = loop.create_future()
        exchange.transport.write(f"POST {parts.path} HTTP/1.1\r\nhost: {parts.netloc}\r\n".encode() + tail)
        status = await exchange.done
        if exchange.kept:
            self._kept[url] = exchange
        else:
            exchange.transport.close()
        return status

    def close(self) -> None:
        for exchange in self._kept.values():
            exchange.transport.abort()
        self._runner.close()

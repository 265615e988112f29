"""The console over the in-memory world, served on loopback as API Gateway would, for a real browser."""

import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Self

from typing_extensions import override

from tests.functions.cold import LambdaContext
from tests.functions.console_bench import BASE, ConsoleBench, request_event


class ServedConsole:
    """A bench behind a port. `sent` holds (path, bytes) of every answer."""

    def __init__(self, module: Any) -> None:
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), _handler_of(self))
        self.origin = f"http://127.0.0.1:{self._server.server_address[1]}"
        self.url = f"{self.origin}{BASE}"
        self.bench = ConsoleBench(module, console_url=self.url, now=None)
        self.lock = threading.Lock()
        self.sent: list[tuple[str, int]] = []

    def __enter__(self) -> Self:
        threading.Thread(
            target=self._server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True
        ).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()

    def answer(self, method: str, path: str, body: str, headers: dict[str, str]) -> dict[str, Any]:
        """One at a time, as one Lambda does."""
        with self.lock:
            answered: dict[str, Any] = self.bench.module.handler(
                request_event(method, path, body, headers), LambdaContext()
            )
        return answered


def _handler_of(served: ServedConsole) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            self._answer()

        def do_POST(self) -> None:
            self._answer()

        def _answer(self) -> None:
            if not self.path.startswith(BASE):
                self.send_error(404)
                return
            body = self.rfile.read(int(self.headers.get("content-length", 0))).decode()
            headers = {name.lower(): value for name, value in self.headers.items()}
            answered = served.answer(self.command, self.path.removeprefix(BASE) or "/", body, headers)
            content = (answered["body"] or "").encode()
            served.sent.append((self.path, len(content)))
            self.send_response(answered["statusCode"])
            for name, values in answered["multiValueHeaders"].items():
                for value in values:
                    self.send_header(name, value)
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        @override
        def log_message(self, format: str, *args: Any) -> None:
            """Nothing: the function tells what it did."""

    return Handler

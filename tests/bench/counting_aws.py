"""An AWS that the real boto3 adapters talk to: it answers, and counts the calls and their units.

For clocks on loopback, in a process of its own (`in_process`); for counts, without a wire (`in_memory`).
"""

import base64
import io
import json
import multiprocessing
import threading
import urllib.request
import uuid
from collections import Counter, defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from multiprocessing.connection import Connection
from typing import Any
from urllib.parse import unquote, urlsplit

import boto3
from botocore.awsrequest import AWSPreparedRequest, AWSResponse
from botocore.compat import HTTPHeaders

from tests.bench.tables import CanceledError, GuardFailedError, Tables

DATA_KEY = base64.b64encode(b"k" * 32).decode()

Reply = tuple[int, dict[str, str], bytes]


class CountingAws:
    """Tables, queues (by the last part of their URL) and objects; `calls` by service and operation."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.calls = Counter[str]()
        self.tables = Tables()
        self.queues: defaultdict[str, list[dict[str, Any]]] = defaultdict(list)
        self.objects: dict[str, bytes] = {}
        self.document = b"{}"

    def answer(self, method: str, path: str, headers: dict[str, str], body: bytes) -> Reply:
        with self.lock:
            target = headers.get("x-amz-target")
            if target is None:
                return self._rest(method, path, headers, body)
            service, operation = target.split(".")
            name = {"DynamoDB_20120810": "dynamodb", "AmazonSQS": "sqs", "TrentService": "kms"}[service]
            self.calls[f"{name}.{operation}"] += 1
            asked = json.loads(body)
            try:
                answer = getattr(self, f"_{name}")(operation, asked)
            except GuardFailedError as error:
                kind = "com.amazonaws.dynamodb.v20120810#ConditionalCheckFailedException"
                more = {"Item": error.item} if error.item else {}
                return 400, {}, json.dumps({"__type": kind, "message": str(error), **more}).encode()
            except CanceledError as error:
                kind = "com.amazonaws.dynamodb.v20120810#TransactionCanceledException"
                reasons = [{"Code": code} for code in error.codes]
                told = {"__type": kind, "Message": str(error), "CancellationReasons": reasons}
                return 400, {}, json.dumps(told).encode()
            return 200, {}, json.dumps(answer).encode()

    def _dynamodb(self, operation: str, asked: Any) -> Any:
        method = "".join(f"_{c.lower()}" if c.isupper() else c for c in operation).lstrip("_")
        return getattr(self.tables, method)(asked)

    def _sqs(self, operation: str, asked: Any) -> Any:
        name = asked["QueueUrl"].rpartition("/")[2]
        if operation == "SendMessage":
            self.queues[name].append(asked)
            return {"MessageId": str(uuid.uuid4())}
        if operation == "SendMessageBatch":
            self.queues[name] += asked["Entries"]
        return {"Successful": [{"Id": entry["Id"], "MessageId": "m"} for entry in asked["Entries"]]}

    def _kms(self, operation: str, _: Any) -> Any:
        answer = {"Plaintext": DATA_KEY, "KeyId": "k"}
        return answer | ({"CiphertextBlob": DATA_KEY} if operation == "GenerateDataKey" else {})

    def _rest(self, method: str, path: str, headers: dict[str, str], body: bytes) -> Reply:
        parts = urlsplit(path)
        if parts.path == "/configurationsessions":
            self.calls["appconfigdata.StartConfigurationSession"] += 1
            return 201, {}, b'{"InitialConfigurationToken": "t"}'
        if parts.path == "/configuration":
            self.calls["appconfigdata.GetLatestConfiguration"] += 1
            return 200, {"Next-Poll-Configuration-Token": "t"}, self.document
        if parts.path == "/_counted":
            counted = {"calls": self.calls, "writes": self.tables.writes.total()}
            return 200, {}, json.dumps(counted).encode()
        self.calls["s3.PutObject" if method == "PUT" else "s3.GetObject"] += 1
        key = unquote(parts.path)
        if method == "PUT":
            self.objects[key] = body
            return 200, {"ETag": '"e"'}, b""
        first, last = headers["range"].removeprefix("bytes=").split("-")
        return 206, {}, self.objects[key][int(first) : int(last) + 1]

    def reset(self) -> None:
        """Forget what was counted and queued; what is stored stays."""
        with self.lock:
            self.calls.clear()
            self.tables.units.clear()
            self.tables.writes.clear()
            self.queues.clear()


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 64

    def __init__(self, aws: CountingAws) -> None:
        self.aws = aws
        super().__init__(("127.0.0.1", 0), _Handler)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}"


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    server: _Server

    def _reply(self) -> None:
        headers = {name.lower(): value for name, value in self.headers.items()}
        body = self.rfile.read(int(headers.get("content-length", 0)))
        status, more, answer = self.server.aws.answer(self.command, self.path, headers, body)
        fields = {"Content-Type": "application/x-amz-json-1.0", "Content-Length": str(len(answer))} | more
        head = "".join(f"{name}: {value}\r\n" for name, value in fields.items())
        self.wfile.write(f"HTTP/1.1 {status} \r\n{head}\r\n".encode() + answer)

    do_GET = do_PUT = do_POST = _reply  # noqa: N815  # the names that http.server calls

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002  # as http.server names it
        """Nothing: a line per call would be most of its work."""


class _Raw(io.BytesIO):
    """A body as botocore reads it off the wire."""

    def stream(self, **_: Any) -> list[bytes]:
        return [self.read()]


@contextmanager
def in_memory() -> Iterator[CountingAws]:
    """Every client that boto3 makes meanwhile asks this AWS; all is as always but for the socket."""
    aws, before = CountingAws(), boto3.DEFAULT_SESSION

    def answered(request: AWSPreparedRequest, **_: Any) -> AWSResponse:
        parts = urlsplit(request.url)
        headers = {name.lower(): _text(value) for name, value in request.headers.items()}
        path = f"{parts.path}?{parts.query}"
        status, more, answer = aws.answer(str(request.method), path, headers, _bytes(request.body))
        told = HTTPHeaders()
        for name, value in (more | {"Content-Length": str(len(answer))}).items():
            told[name] = value
        return AWSResponse(request.url, status, told, _Raw(answer))

    session = boto3.DEFAULT_SESSION = boto3.Session()
    events: Any = session.events
    events.register("before-send.*.*", answered)
    try:
        yield aws
    finally:
        boto3.DEFAULT_SESSION = before


def _bytes(body: Any) -> bytes:
    """Text, bytes, or something to read."""
    if isinstance(body, str):
        return body.encode()
    return bytes(body.read() if hasattr(body, "read") else body or b"")


def _text(value: str | bytes) -> str:
    return value.decode() if isinstance(value, bytes) else value


def counted(url: str) -> Any:
    """What an AWS of another process has counted so far: `{"calls": {operation: n}, "writes": n}`."""
    with urllib.request.urlopen(f"{url}/_counted") as answer:
        return json.load(answer)


@contextmanager
def in_process() -> Iterator[str]:
    """The endpoint's URL of an AWS whose work is not this process's."""
    ours, theirs = multiprocessing.Pipe()
    process = multiprocessing.get_context("spawn").Process(target=_serve, args=(theirs,), daemon=True)
    process.start()
    try:
        yield ours.recv()
    finally:
        process.terminate()
        process.join()


def _serve(told: Connection) -> None:
    with _Server(CountingAws()) as server:
        told.send(server.url)
        server.serve_forever()

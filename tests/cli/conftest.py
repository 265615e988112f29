"""The command as an operator runs it, over an API, an AWS and a clock of its own."""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import Any

import httpx
import pytest
from hookkeeper.api import Problem
from typer.testing import CliRunner

from infra.cli.main import app
from infra.cli.session import Outside
from infra.local.home import Home
from infra.local.stack import Stack
from tests.builders import NOW

URL = "https://api.hookkeeper.test"
TENANT_KEY = "hk_live_" + "0" * 38
OPERATOR_KEY = "hk_op_" + "0" * 38

NO_SUCH_THING = {"detail": "no such thing", "code": "not_found", "request_id": "req-0"}

Answer = Callable[[httpx.Request], httpx.Response]


@dataclass
class FakeApi:
    """Answers what was laid down for a method and path; anything else is a 404 problem."""

    answers: dict[tuple[str, str], list[Answer]] = field(default_factory=dict)
    requests: list[httpx.Request] = field(default_factory=list)

    def on(self, method: str, path: str, *bodies: Any, status: int = 200, **headers: str) -> None:
        """Answer so, in turn; the last for ever."""
        answers = [_answering(status, body, headers) for body in bodies or (None,)]
        self.answers.setdefault((method, path), []).extend(answers)

    def refuse(self, method: str, path: str, status: int, code: str, detail: str, **more: Any) -> None:
        body = Problem(
            title="No", status=status, detail=detail, code=code, request_id="req-1", **more
        ).model_dump(mode="json")
        self.on(method, path, body, status=status)

    def __call__(self, request: httpx.Request) -> httpx.Response:
        self.requests.append(request)
        answers = self.answers.get((request.method, request.url.path))
        if not answers:
            return httpx.Response(404, json=NO_SUCH_THING)
        return (answers.pop(0) if len(answers) > 1 else answers[0])(request)

    @property
    def bodies(self) -> list[Any]:
        return [json.loads(request.content) for request in self.requests if request.content]


def _answering(status: int, body: Any, headers: Mapping[str, str]) -> Answer:
    def answer(request: httpx.Request) -> httpx.Response:
        if isinstance(body, Exception):
            raise body
        told = body(request) if callable(body) else body
        return httpx.Response(status, json=told, headers=headers) if told is not None else httpx.Response(204)

    return answer


@dataclass(frozen=True)
class Ran:
    """How a command ended and what it said."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        return json.loads(self.out)

    @property
    def lines(self) -> list[Any]:
        return [json.loads(line) for line in self.out.splitlines()]


@dataclass
class Bench:
    """Runs commands; `waited` holds every pause, which takes no time but moves the clock."""

    home: Home
    api: FakeApi = field(default_factory=FakeApi)
    aws: dict[str, Any] = field(default_factory=dict)
    somebody_answers: bool = False
    waited: list[float] = field(default_factory=list)
    environment: dict[str, str] = field(
        default_factory=lambda: {"HOOKKEEPER_URL": URL, "HOOKKEEPER_KEY": TENANT_KEY}
    )

    def run(self, *arguments: str, stdin: str | bytes | None = None) -> Ran:
        outside = Outside(
            home=self.home,
            http=lambda _: httpx.Client(transport=httpx.MockTransport(self.api)),
            aws=self._client,
            now=lambda: NOW + timedelta(seconds=sum(self.waited)),
            clock=lambda: sum(self.waited),
            pause=self.waited.append,
            interactive=lambda: self.somebody_answers,
        )
        result = CliRunner(env=dict.fromkeys(_OURS) | self.environment).invoke(
            app, arguments, obj=outside, input=stdin
        )
        if result.exception is not None and not isinstance(result.exception, SystemExit):
            raise result.exception
        return Ran(result.exit_code, result.stdout, result.stderr)

    def has_local_stack(self) -> dict[str, Any]:
        """A stack.json with everything that a deployed stack's has."""
        self.home.prepare()
        outputs = {
            "ApiUrl": f"{URL}/local",
            "ConsoleUrl": f"{URL}/console",
            "EventsQueueUrl": "queue:events",
            "EventBusName": "bus",
            "ArchiveBucketName": "archive",
            "RecoveryStateMachineArn": "arn:machine",
            "AppConfigApplication": "app1",
            "AppConfigEnvironment": "env1",
            "AppConfigProfile": "pro1",
            "QueueEvents": "queue:events",
            "QueueDeliveries": "queue:deliveries",
            **{f"Table{name}": name for name in ("Access", "Subscriptions", "Audit", "Notices")},
            "DlqEvents": "dead:events",
            "DlqDeliveries": "dead:deliveries",
            "DlqIngest": "dead:ingest",
            "DlqRecovery": "dead:recovery",
        }
        reached = {
            "AwsEndpointUrl": "http://127.0.0.1:1",
            "AwsRegion": "eu-west-1",
            "AwsAccessKeyId": "1",
            "AwsSecretAccessKey": "local",
            "OperatorKey": OPERATOR_KEY,
            "CaCertificate": str(self.home.ca_certificate),
            "CaKey": str(self.home.ca_key),
            "Functions": {},
            "Queues": {"Events": "queue:events", "Deliveries": "queue:deliveries"},
            "DeadLetterQueues": {"Events": "dead:events"},
            "Tables": {},
        }
        self.home.stack.write_text(json.dumps(outputs | reached))
        return outputs

    def _client(self, service: str, stack: Stack | None) -> Any:
        return self.aws[service if stack is not None else f"ordinary {service}"]


_NAMES = ("URL", "KEY", "TENANT", "MODE", "STACK", "SECRET", "HOME")
_OURS = (*(f"HOOKKEEPER_{name}" for name in _NAMES), "NO_COLOR", "FORCE_COLOR", "COLUMNS")


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    return Bench(Home(tmp_path / "home"))

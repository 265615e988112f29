"""Cold starts: a function's environment on AWS in this process, and its handler executed from its file."""

import io
import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from botocore import session
from hookkeeper.settings import Settings

from tests.contracts.conftest import Aws, aws
from tests.functions import cold

__all__ = ["aws"]

ROOT = Path(__file__).parents[2]
REGION = "us-east-1"


@pytest.fixture(scope="session", autouse=True)
def _models_are_read_once() -> Iterator[None]:
    """moto gives every test a new session, and each would parse botocore's models anew."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(session, "create_loader", cache(session.create_loader))
        yield


@dataclass(frozen=True)
class Context:
    """What Lambda hands over besides the event; time is left as told."""

    seconds_left: float = 60
    function_name: str = "a-function"
    memory_limit_in_mb: int = 512
    invoked_function_arn: str = f"arn:aws:lambda:{REGION}:123456789012:function:a-function"
    aws_request_id: str = "a-request"

    def get_remaining_time_in_millis(self) -> int:
        return int(self.seconds_left * 1000)


@dataclass(frozen=True)
class Started:
    """A warm function, and all that it has logged."""

    module: Any
    log: io.StringIO

    def __call__(self, event: dict[str, Any], *, seconds_left: float = 60) -> dict[str, Any]:
        answer = self.module.handler(json.loads(json.dumps(event)), Context(seconds_left))
        json.dumps(answer)
        return dict(answer)

    def lines(self, message: str) -> list[dict[str, Any]]:
        """What was logged under this message."""
        logged = [json.loads(line) for line in self.log.getvalue().splitlines()]
        return [line for line in logged if line["message"] == message]


ColdStart = Callable[[str, Settings], Started]


@pytest.fixture
def cold_start(aws: Aws, monkeypatch: pytest.MonkeyPatch) -> ColdStart:  # noqa: ARG001  # AWS first
    def start(verb: str, settings: Settings) -> Started:
        monkeypatch.setenv("AWS_DEFAULT_REGION", REGION)
        for name, value in settings.environment().items():
            monkeypatch.setenv(name, value)
        module = cold.cold_start(verb)
        log = io.StringIO()
        module.logger.registered_handler.setStream(log)
        return Started(module, log)

    return start


def a_sample(name: str) -> dict[str, Any]:
    """A payload of `events/`, as it comes from AWS."""
    document = json.loads((ROOT / "events" / f"{name}.json").read_text())
    assert isinstance(document, dict)
    return document

"""Cold starts: a function's environment on AWS in this process, and its handler executed from its file."""

import importlib.util
import io
import itertools
import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from hookkeeper.settings import Settings

from tests.contracts.conftest import Aws, aws

__all__ = ["aws"]

ROOT = Path(__file__).parents[2]
REGION = "us-east-1"
_numbers = itertools.count(1)


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


ColdStart = Callable[[str, Settings], Started]


@pytest.fixture
def cold_start(aws: Aws, monkeypatch: pytest.MonkeyPatch) -> ColdStart:  # noqa: ARG001  # AWS first
    def start(verb: str, settings: Settings) -> Started:
        monkeypatch.setenv("AWS_DEFAULT_REGION", REGION)
        for name, value in settings.environment().items():
            monkeypatch.setenv(name, value)
        path = ROOT / "functions" / verb / "handler.py"
        spec = importlib.util.spec_from_file_location(f"{verb}_handler_{next(_numbers)}", path)
        assert spec is not None
        assert spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        log = io.StringIO()
        module.logger.registered_handler.setStream(log)
        return Started(module, log)

    return start


def a_sample(name: str) -> dict[str, Any]:
    """A payload of `events/`, as it comes from AWS."""
    document = json.loads((ROOT / "events" / f"{name}.json").read_text())
    assert isinstance(document, dict)
    return document

"""An event's bytes come from the one function that may read them, for one tenant and mode."""

import io
import json
from dataclasses import dataclass, field
from typing import Any

import pytest
from hookkeeper.adapters.lambda_event_bodies import LambdaEventBodies
from hookkeeper.domain.errors import NotFoundError, OwnFaultError
from hookkeeper.messages import ReadEvent

from tests.builders import a_pointer, a_scope


@dataclass
class FakeLambda:
    """Answers each invocation with `answer`; keeps what it was asked."""

    answer: dict[str, Any]
    error: str | None = None
    asked: list[tuple[str, ReadEvent]] = field(default_factory=list)

    def invoke(self, *, FunctionName: str, Payload: bytes) -> dict[str, Any]:  # noqa: N803  # as boto3 has it
        self.asked.append((FunctionName, ReadEvent.model_validate_json(Payload)))
        payload = io.BytesIO(json.dumps(self.answer).encode())
        return {"Payload": payload} | ({"FunctionError": self.error} if self.error else {})


def bodies(client: FakeLambda) -> LambdaEventBodies:
    return LambdaEventBodies(client, function_name="recover")


def test_it_asks_recover_for_this_tenant_and_mode_and_gets_the_exact_bytes() -> None:
    client = FakeLambda({"v": 1, "body": '{"note":"café","amount":1.10}'})
    body = bodies(client).body(a_scope(), a_pointer(line=7))
    assert body == '{"note":"café","amount":1.10}'.encode()
    ((name, wanted),) = client.asked
    assert (name, wanted.scope(), wanted.pointer.pointer()) == ("recover", a_scope(), a_pointer(line=7))


def test_what_the_archive_no_longer_has_is_not_found() -> None:
    with pytest.raises(NotFoundError):
        bodies(FakeLambda({"v": 1, "body": None})).body(a_scope(), a_pointer())


def test_a_reader_that_fails_is_our_own_fault() -> None:
    with pytest.raises(OwnFaultError):
        bodies(FakeLambda({"errorType": "ValueError"}, error="Unhandled")).body(a_scope(), a_pointer())

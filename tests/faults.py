"""What AWS does on a bad day, put upon a boto3 client: refusals, lost answers, and a count of the calls."""

import threading
from collections import Counter
from collections.abc import Callable, Container
from types import SimpleNamespace
from typing import Any

from botocore.awsrequest import AWSResponse
from botocore.compat import HTTPHeaders

Answer = Callable[[dict[str, Any]], dict[str, Any] | None]


def counted(client: Any) -> Counter[str]:
    """How often each operation is called from now on, by name."""
    calls = Counter[str]()

    def count(model: Any, **_: Any) -> None:
        calls[model.name] += 1

    client.meta.events.register("before-call.*.*", count)
    return calls


def refuse(client: Any, operation: str, *, code: str, times: int = 1, **details: Any) -> None:
    """The next calls have no effect and fail with `code`, past the SDK's own retries."""
    error = {"Error": {"Code": code, "Message": "refused by a test"}, "ResponseMetadata": {}, **details}
    _answer_instead(client, operation, lambda _: error, status=400, times=times)


def answer(client: Any, operation: str, answers: list[dict[str, Any] | Exception | None]) -> None:
    """The next calls have no effect and are answered so, or raise; where None, the call goes through."""
    left = iter(answers)

    def next_answer(_: dict[str, Any]) -> dict[str, Any] | None:
        given = next(left)
        if isinstance(given, Exception):
            raise given
        return given

    _answer_instead(client, operation, next_answer, status=200, times=len(answers))


def _answer_instead(client: Any, operation: str, make: Answer, *, status: int, times: int) -> None:
    left = [times]

    def instead(params: dict[str, Any], **_: Any) -> tuple[Any, dict[str, Any]] | None:
        if left[0] == 0:
            return None
        left[0] -= 1
        parsed = make(params)
        return None if parsed is None else (SimpleNamespace(status_code=status), parsed)

    client.meta.events.register_first(f"before-call.{_service(client)}.{operation}", instead)


def lose_answer(client: Any, operation: str, *, times: int = 1) -> None:
    """The next calls take effect, but their answer is a server error; the SDK calls again (F08)."""
    left = [times]

    def lost(request: Any, **_: Any) -> AWSResponse | None:
        if left[0] == 0:
            return None
        left[0] -= 1
        return AWSResponse(request.url, 500, HTTPHeaders(), _Empty())

    client.meta.events.register_first(f"before-send.{_service(client)}.{operation}", lost)


def lose_every_answer(client: Any, operations: Container[str]) -> Counter[str]:
    """Each call of these from now on takes effect and is not answered, so that the SDK makes it again (H3).

    Answers how often, by operation. Safe for adapters that write from several threads.
    """
    lost, waiting = Counter[str](), threading.local()

    def begin(model: Any, **_: Any) -> None:
        waiting.operation = model.name if model.name in operations else None

    def lose(request: Any, **_: Any) -> AWSResponse | None:
        operation, waiting.operation = getattr(waiting, "operation", None), None
        if operation is None:
            return None
        lost[operation] += 1
        return AWSResponse(request.url, 500, HTTPHeaders(), _Empty())

    def again_at_once(response: Any, **_: Any) -> int | None:
        return 0 if response is not None and response[0].status_code == 500 else None

    client.meta.events.register(f"before-call.{_service(client)}.*", begin)
    client.meta.events.register_first(f"before-send.{_service(client)}.*", lose)
    client.meta.events.register_first(f"needs-retry.{_service(client)}.*", again_at_once)
    return lost


class _Empty:
    def stream(self, **_: Any) -> list[bytes]:
        return [b""]


def _service(client: Any) -> str:
    return str(client.meta.service_model.service_id.hyphenize())

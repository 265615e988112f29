"""Asks `recover`, which may read the archive, for one event's bytes."""

import json
from typing import Any

from hookkeeper.domain.errors import NotFoundError, OwnFaultError
from hookkeeper.domain.event import ArchivePointer
from hookkeeper.domain.tenancy import Scope
from hookkeeper.messages import EventBody, PointerMessage, ReadEvent


class LambdaEventBodies:
    """The EventBodies port."""

    def __init__(self, client: Any, *, function_name: str) -> None:
        self._client = client
        self._function_name = function_name

    def body(self, scope: Scope, pointer: ArchivePointer) -> bytes:
        wanted = ReadEvent(tenant=scope.tenant_id, mode=scope.mode, pointer=PointerMessage.of(pointer))
        answer = self._client.invoke(
            FunctionName=self._function_name, Payload=wanted.model_dump_json().encode()
        )
        payload = answer["Payload"].read()
        if "FunctionError" in answer:
            raise OwnFaultError(f"{self._function_name} could not read an event: {answer['FunctionError']}")
        found = EventBody.model_validate(json.loads(payload))
        if found.body is None:
            raise NotFoundError("archived event", f"{pointer.object_key}:{pointer.line}")
        return found.body.encode()

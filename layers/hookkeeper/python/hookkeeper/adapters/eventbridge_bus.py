"""Tells operators: events on the provider's bus, with Hookkeeper as their source."""

import json
import random
import time
from collections.abc import Callable, Mapping
from typing import Any

from botocore.exceptions import BotoCoreError, ClientError

from hookkeeper.domain.errors import OwnFaultError

SOURCE = "hookkeeper"
"""The ingest rule leaves this source out: what Hookkeeper tells is no customer's event."""

TRIES = 3
FIRST_WAIT_SECONDS = 0.1


class EventBridgeBus:
    """The OperatorBus port. Raises OwnFaultError where the bus does not take an event."""

    def __init__(self, client: Any, *, bus_name: str, sleep: Callable[[float], None] = time.sleep) -> None:
        self._client = client
        self._bus_name = bus_name
        self._sleep = sleep

    def publish(self, detail_type: str, detail: Mapping[str, str]) -> None:
        entry = {
            "EventBusName": self._bus_name,
            "Source": SOURCE,
            "DetailType": detail_type,
            "Detail": json.dumps(dict(detail)),
        }
        fault = ""
        for attempt in range(TRIES):
            if attempt:
                self._sleep(random.uniform(0, FIRST_WAIT_SECONDS * 2**attempt))  # noqa: S311 - a wait
            try:
                answer = self._client.put_events(Entries=[entry])
            except (ClientError, BotoCoreError) as error:
                fault = type(error).__name__
                continue
            if not answer["FailedEntryCount"]:
                return
            fault = str(answer["Entries"][0].get("ErrorCode"))
        raise OwnFaultError(f"the bus did not take {detail_type}: {fault}")

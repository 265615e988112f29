"""Batches for SQS that end with every entry accepted or named: what lanes and the other queues send with."""

import logging
import math
import random
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

from botocore.exceptions import BotoCoreError, ClientError

MAX_ENTRIES = 10
MAX_BYTES = 1024 * 1024
"""Of one message, and of one batch; a batch over it is refused whole."""

MAX_DELAY_SECONDS = 900
TRIES = 3
FIRST_WAIT_SECONDS = 0.05

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """One message: text of the XML character set (`safe_text`), its fair group, delay, text attributes."""

    body: str
    group: str | None = None
    delay: timedelta = timedelta(0)
    attributes: Mapping[str, str] = field(default_factory=dict)

    @property
    def size_bytes(self) -> int:
        """As SQS counts it: the body, and each attribute's name, type and value."""
        own = sum(len(name) + len("String") + len(value.encode()) for name, value in self.attributes.items())
        return len(self.body.encode()) + own


def safe_text(document: str) -> str:
    """A JSON text without the two characters that SQS refuses and JSON lets through bare."""
    return document.replace("\ufffe", "\\ufffe").replace("\uffff", "\\uffff")


def delay_seconds(delay: timedelta) -> int:
    """Whole seconds, rounded up: a message is never early. ValueError for more than 15 minutes."""
    seconds = math.ceil(delay.total_seconds())
    if not 0 <= seconds <= MAX_DELAY_SECONDS:
        raise ValueError(f"SQS delays a message by 0 to {MAX_DELAY_SECONDS} seconds, not {seconds}")
    return seconds


def send_entries(
    client: Any, queue_url: str, entries: Sequence[Entry], *, sleep: Callable[[float], None] = time.sleep
) -> list[int]:
    """Send them all; answers the positions of those that were not accepted.

    An entry counts as accepted only where the answer names it; only those that failed, or that neither
    list mentions, are sent again. What is the sender's own fault is not.
    """
    refused: list[int] = []
    for batch in _batches(entries):
        refused += _send_batch(client, queue_url, entries, batch, sleep)
    return sorted(refused)


def _batches(entries: Sequence[Entry]) -> Iterator[list[int]]:
    """Positions in order, by 10 and by 1 MiB; one that is too large by itself goes alone, and is refused."""
    batch: list[int] = []
    size = 0
    for position, entry in enumerate(entries):
        if batch and (len(batch) == MAX_ENTRIES or size + entry.size_bytes > MAX_BYTES):
            yield batch
            batch, size = [], 0
        batch.append(position)
        size += entry.size_bytes
    if batch:
        yield batch


def _send_batch(
    client: Any, queue_url: str, entries: Sequence[Entry], batch: list[int], sleep: Callable[[float], None]
) -> list[int]:
    left, refused = batch, list[int]()
    for attempt in range(TRIES):
        if attempt:
            sleep(random.uniform(0, FIRST_WAIT_SECONDS * 2**attempt))  # noqa: S311 - a wait
        try:
            answer = client.send_message_batch(
                QueueUrl=queue_url, Entries=[_request(position, entries[position]) for position in left]
            )
        except (ClientError, BotoCoreError) as error:
            log.warning("sqs.batch_refused", extra={"queue_url": queue_url, "error": type(error).__name__})
            continue
        accepted = {int(entry["Id"]) for entry in answer.get("Successful", [])}
        hopeless = {int(entry["Id"]) for entry in answer.get("Failed", []) if entry.get("SenderFault")}
        refused += [position for position in left if position in hopeless]
        left = [position for position in left if position not in accepted | hopeless]
        if not left:
            break
    if refused or left:
        log.warning("sqs.messages_refused", extra={"queue_url": queue_url, "count": len(refused) + len(left)})
    return refused + left


def _request(position: int, entry: Entry) -> dict[str, Any]:
    request: dict[str, Any] = {"Id": str(position), "MessageBody": entry.body}
    if entry.group is not None:
        request["MessageGroupId"] = entry.group
    if entry.delay:
        request["DelaySeconds"] = delay_seconds(entry.delay)
    if entry.attributes:
        request["MessageAttributes"] = {
            name: {"DataType": "String", "StringValue": value} for name, value in entry.attributes.items()
        }
    return request

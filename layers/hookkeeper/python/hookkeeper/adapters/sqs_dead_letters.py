"""The dead-letter queues: how full they are, and the way back to the lane that each message came from.

SQS's own redrive (StartMessageMoveTask) does the same from AWS's console; here it is a few batches in one
call, so that whoever presses the button sees at once how many went.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from hookkeeper.adapters.sqs import MAX_ENTRIES, Entry, send_entries
from hookkeeper.ports import DeadLetters


@dataclass(frozen=True, slots=True)
class DeadLetterQueue:
    """URLs of the queue and of its lane; None where SQS did not put the messages there."""

    url: str
    lane_url: str | None


class SqsDeadLetterQueues:
    """The DeadLetterQueues port. A message is deleted once its lane has it: twice at worst, never lost."""

    def __init__(
        self,
        client: Any,
        *,
        queues: Mapping[str, DeadLetterQueue],
        sleep: Callable[[float], None] | None = None,
    ) -> None:
        self._client = client
        self._queues = queues
        self._waits = {"sleep": sleep} if sleep else {}

    def depths(self) -> Sequence[DeadLetters]:
        return [
            DeadLetters(name, self._count(queue), queue.lane_url is not None)
            for name, queue in self._queues.items()
        ]

    def redrive(self, name: str, *, most: int) -> int:
        queue = self._queues[name]
        if queue.lane_url is None:
            raise KeyError(name)
        moved = 0
        while moved < most:
            messages = self._receive(queue, min(MAX_ENTRIES, most - moved))
            went = self._send(queue.lane_url, messages)
            if not went:
                break
            self._delete(queue, went)
            moved += len(went)
        return moved

    def _count(self, queue: DeadLetterQueue) -> int:
        name = "ApproximateNumberOfMessages"
        answer = self._client.get_queue_attributes(QueueUrl=queue.url, AttributeNames=[name])
        return int(answer["Attributes"][name])

    def _receive(self, queue: DeadLetterQueue, most: int) -> list[dict[str, Any]]:
        answer = self._client.receive_message(
            QueueUrl=queue.url,
            MaxNumberOfMessages=most,
            MessageAttributeNames=["All"],
            MessageSystemAttributeNames=["MessageGroupId"],
        )
        return list(answer.get("Messages", []))

    def _send(self, lane_url: str, messages: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
        refused = send_entries(self._client, lane_url, [_entry(each) for each in messages], **self._waits)
        return [message for n, message in enumerate(messages) if n not in refused]

    def _delete(self, queue: DeadLetterQueue, messages: Sequence[Mapping[str, Any]]) -> None:
        entries = [{"Id": str(n), "ReceiptHandle": m["ReceiptHandle"]} for n, m in enumerate(messages)]
        self._client.delete_message_batch(QueueUrl=queue.url, Entries=entries)


def _entry(message: Mapping[str, Any]) -> Entry:
    """The message as it was sent: its body, its fair group, its text attributes."""
    attributes = message.get("MessageAttributes", {})
    return Entry(
        body=message["Body"],
        group=message.get("Attributes", {}).get("MessageGroupId"),
        attributes={
            name: value["StringValue"] for name, value in attributes.items() if "StringValue" in value
        },
    )

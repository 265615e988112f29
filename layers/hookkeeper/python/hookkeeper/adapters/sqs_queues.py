"""The queues beside the lanes: contacts, notices, events (from the API, and fan_out's pages), rejected."""

import time
from collections.abc import Callable, Sequence
from typing import Any

from hookkeeper.adapters.sqs import MAX_BYTES, Entry, safe_text, send_entries
from hookkeeper.domain.errors import OwnFaultError
from hookkeeper.domain.tenancy import SubscriptionKey
from hookkeeper.messages import ContactMessage, FanOutPage, Message, NoticeMessage

MAX_REASON_CHARACTERS = 200


class _Queue:
    def __init__(self, client: Any, *, queue_url: str, sleep: Callable[[float], None] = time.sleep) -> None:
        self._client = client
        self._queue_url = queue_url
        self._sleep = sleep

    def _send(self, entries: Sequence[Entry]) -> list[int]:
        return send_entries(self._client, self._queue_url, entries, sleep=self._sleep)

    def _send_all(self, messages: Sequence[Message]) -> None:
        texts = [safe_text(message.model_dump_json(exclude_none=True)) for message in messages]
        if refused := self._send([Entry(body=text) for text in texts]):
            raise OwnFaultError(f"{len(refused)} of {len(messages)} messages were not accepted")


class SqsContacts(_Queue):
    """Asks `contact` to reach an endpoint. Raises OwnFaultError where the queue does not take it."""

    def challenge(self, key: SubscriptionKey, *, token: str) -> None:
        self._send_all(
            [
                ContactMessage(
                    kind="challenge",
                    tenant=key.scope.tenant_id,
                    mode=key.scope.mode,
                    subscription_id=key.subscription_id,
                    token=token,
                )
            ]
        )

    def test(self, key: SubscriptionKey, *, event_type: str, data: str) -> None:
        self._send_all(
            [
                ContactMessage(
                    kind="test",
                    tenant=key.scope.tenant_id,
                    mode=key.scope.mode,
                    subscription_id=key.subscription_id,
                    event_type=event_type,
                    data=data,
                )
            ]
        )


class SqsNotices(_Queue):
    """Asks `notify` to send a notice. Raises OwnFaultError where the queue does not take it."""

    def send(self, key: SubscriptionKey, notice_id: str) -> None:
        self._send_all(
            [
                NoticeMessage(
                    tenant=key.scope.tenant_id,
                    mode=key.scope.mode,
                    subscription_id=key.subscription_id,
                    notice_id=notice_id,
                )
            ]
        )


class SqsEvents(_Queue):
    """The events queue: what the API took in, and the pages that fan_out sends itself."""

    def send(self, texts: Sequence[str]) -> Sequence[int]:
        """Queue events as they came (JSON texts); answers the positions of those that were not accepted."""
        return self._send([Entry(body=safe_text(text)) for text in texts])

    def send_pages(self, pages: Sequence[FanOutPage]) -> None:
        """Raises OwnFaultError where any page was not accepted; the others have been sent then."""
        self._send_all(pages)


class SqsRejected(_Queue):
    """Where an input ends that can never be an event, with the reason beside it."""

    def put(self, text: str, *, reason: str) -> None:
        """Raises OwnFaultError where the queue does not take it. The reason counts as part of the 1 MiB."""
        attributes = {"reason": reason[:MAX_REASON_CHARACTERS] or "unknown"}
        body = _fitting(text) or " "
        if self._send([Entry(body=body, attributes=attributes)]):
            raise OwnFaultError("the rejected queue did not take a message")


def _fitting(text: str) -> str:
    """The text as SQS takes it: only XML's characters, cut to leave room for the attribute."""
    clean = "".join(character if _allowed(character) else "\N{REPLACEMENT CHARACTER}" for character in text)
    return clean.encode()[: MAX_BYTES - 1024].decode(errors="ignore")


def _allowed(character: str) -> bool:
    return (
        character in "\t\n\r"
        or " " <= character <= "\ud7ff"
        or "\ue000" <= character <= "\ufffd"
        or (character >= "\U00010000")
    )

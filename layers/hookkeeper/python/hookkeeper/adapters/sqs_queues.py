"""The queues beside the lanes: contacts, notices, events (from the API, and fan_out's pages), rejected."""

import re
import time
from collections.abc import Callable, Sequence
from typing import Any

from hookkeeper.adapters.sqs import MAX_BYTES, Entry, safe_text, send_entries
from hookkeeper.domain.errors import OwnFaultError
from hookkeeper.domain.event import RoutePage
from hookkeeper.domain.tenancy import Scope, SubscriptionKey
from hookkeeper.messages import ContactMessage, FanOutPage, Message, NoticeMessage

MAX_REASON_BYTES = 512
_UNSENDABLE = re.compile("[^\\t\\n\\r\\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
"""Whatever is not in XML's character set, which SQS keeps to."""


class _Queue:
    def __init__(self, client: Any, *, queue_url: str, sleep: Callable[[float], None] = time.sleep) -> None:
        self._client = client
        self._queue_url = queue_url
        self._sleep = sleep

    def _send(self, entries: Sequence[Entry]) -> list[int]:
        return send_entries(self._client, self._queue_url, entries, sleep=self._sleep)

    def _must_send(self, message: Message) -> None:
        if self._send([_entry(message)]):
            raise OwnFaultError(f"the queue did not take a {type(message).__name__}")


class SqsContacts(_Queue):
    """Asks `contact` to reach an endpoint. Raises OwnFaultError where the queue does not take it."""

    def challenge(self, key: SubscriptionKey, *, token: str) -> None:
        self._must_send(
            ContactMessage(
                kind="challenge",
                tenant=key.scope.tenant_id,
                mode=key.scope.mode,
                subscription_id=key.subscription_id,
                token=token,
            )
        )

    def test(self, key: SubscriptionKey, *, event_type: str, data: str) -> None:
        self._must_send(
            ContactMessage(
                kind="test",
                tenant=key.scope.tenant_id,
                mode=key.scope.mode,
                subscription_id=key.subscription_id,
                event_type=event_type,
                data=data,
            )
        )


class SqsNotices(_Queue):
    """Asks `notify` to tell notices. Raises OwnFaultError where the queue does not take it."""

    def send(self, scope: Scope, notice_ids: Sequence[str]) -> None:
        self._must_send(NoticeMessage(tenant=scope.tenant_id, mode=scope.mode, notice_ids=list(notice_ids)))


class SqsEvents(_Queue):
    """The events queue, as the API puts on it what it has accepted."""

    def send(self, texts: Sequence[str]) -> Sequence[int]:
        return self._send([Entry(body=safe_text(text)) for text in texts])


class SqsPages(_Queue):
    """The events queue, as fan_out sends itself the pages of a wide fan-out."""

    def send(self, page: RoutePage) -> bool:
        return not self._send([_entry(FanOutPage.of(page))])


class SqsRejected(_Queue):
    """Where an input ends that can never be an event, with the reason beside it."""

    def send(self, body: str, *, reason: str) -> None:
        """Raises OwnFaultError where the queue does not take it."""
        attributes = {"reason": _fitting(reason, MAX_REASON_BYTES)}
        if self._send([Entry(body=_fitting(body, MAX_BYTES - 1024), attributes=attributes)]):
            raise OwnFaultError("the rejected queue did not take a message")


def _entry(message: Message) -> Entry:
    return Entry(body=safe_text(message.model_dump_json(exclude_none=True)))


def _fitting(text: str, most_bytes: int) -> str:
    """The text as SQS takes it: not empty, XML's characters alone, and cut to size."""
    clean = _UNSENDABLE.sub("\N{REPLACEMENT CHARACTER}", text) or " "
    return clean.encode()[:most_bytes].decode(errors="ignore")

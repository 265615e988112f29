"""The two queues that carry deliveries: `deliveries`, and `backfill` for what belongs to a recovery."""

import time
from collections.abc import Callable, Sequence
from datetime import timedelta
from typing import Any

from hookkeeper.adapters.sqs import Entry, safe_text, send_entries
from hookkeeper.domain.delivery import Lane, Parcel
from hookkeeper.messages import MAX_INLINE_BODY_BYTES, DeliveryMessage


class SqsLanes:
    """A function names the queues it may send to; the other's parcels are a ValueError.

    Grouped by subscription, so that the queue is fair to each. Bodies over 64 KiB stay in the archive.
    """

    def __init__(
        self,
        client: Any,
        *,
        deliveries_queue_url: str | None = None,
        backfill_queue_url: str | None = None,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._client = client
        self._deliveries = deliveries_queue_url
        self._backfill = backfill_queue_url
        self._sleep = sleep

    def send(
        self, parcels: Sequence[Parcel], *, delays: Sequence[timedelta] | None = None
    ) -> Sequence[Parcel]:
        waits = delays if delays is not None else [timedelta(0)] * len(parcels)
        queues: dict[str, list[tuple[Parcel, timedelta]]] = {}
        for parcel, delay in zip(parcels, waits, strict=True):
            queues.setdefault(self._queue_of(parcel), []).append((parcel, delay))
        refused: list[Parcel] = []
        for queue_url, mine in queues.items():
            entries = [_entry(parcel, delay) for parcel, delay in mine]
            positions = send_entries(self._client, queue_url, entries, sleep=self._sleep)
            refused += [mine[position][0] for position in positions]
        return refused

    def url_of(self, arn: str) -> str:
        """The URL of the one of its queues that has the ARN. Raises ValueError where none has."""
        name = arn.rpartition(":")[2]
        for queue_url in (self._deliveries, self._backfill):
            if queue_url is not None and queue_url.rpartition("/")[2] == name:
                return queue_url
        raise ValueError(f"{name} is no queue of these lanes")

    def _queue_of(self, parcel: Parcel) -> str:
        recovering = parcel.lane is Lane.BACKFILL or parcel.recovery_id is not None
        queue_url = self._backfill if recovering else self._deliveries
        if queue_url is None:
            raise ValueError(f"a {parcel.lane} parcel has no queue here")
        return queue_url


def _entry(parcel: Parcel, delay: timedelta) -> Entry:
    message = DeliveryMessage.of(parcel)
    if parcel.body is not None and len(parcel.body) > MAX_INLINE_BODY_BYTES:
        message = message.model_copy(update={"body": None})
    text = safe_text(message.model_dump_json(exclude_none=True))
    return Entry(body=text, group=parcel.key.subscription.subscription_id, delay=delay)

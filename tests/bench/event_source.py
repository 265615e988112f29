"""The deliveries queue and Lambda's event source on this machine, fair by subscription as SQS is.

Messages of subscriptions with the fewest in flight come first. A batch is full, or as old as its window. It
takes a slot until its function has ended; slots grow from five by five a second to the source's maximum.
"""

import heapq
import itertools
import threading
import time
from collections import Counter, defaultdict, deque
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from typing import Self

from hookkeeper.domain.delivery import Parcel

FIRST_SLOTS = 5
NEW_SLOTS_A_SECOND = 5
TICK_SECONDS = 0.005

Invoke = Callable[[Sequence[Parcel]], Sequence[tuple[Parcel, float]]]
"""One invocation; answers the messages that come back, each with its seconds until then."""


class EventSource:
    """Also the Lanes port of the deliveries it feeds. Use as a context: it ends when its batches have."""

    def __init__(
        self, invoke: Invoke, *, batch_size: int = 25, window_seconds: float = 1.0, most_slots: int = 50
    ) -> None:
        self._invoke = invoke
        self._batch_size, self._window, self._most = batch_size, window_seconds, most_slots
        self._waiting: defaultdict[str, deque[Parcel]] = defaultdict(deque)
        self._in_flight = Counter[str]()
        self._later: list[tuple[float, int, Parcel]] = []
        self._numbers = itertools.count()
        self._busy = 0
        self._lock = threading.Lock()
        self._ended = threading.Event()
        self._pool = ThreadPoolExecutor(most_slots, thread_name_prefix="slot")
        self._poller = threading.Thread(target=self._poll, name="poller")
        self._began = time.monotonic()

    def __enter__(self) -> Self:
        self._began = time.monotonic()
        self._poller.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self._poller.join()
        self._pool.shutdown()

    def send(
        self, parcels: Sequence[Parcel], *, delays: Sequence[timedelta] | None = None
    ) -> Sequence[Parcel]:
        seconds = [delay.total_seconds() for delay in delays] if delays else [0.0] * len(parcels)
        self._put(list(zip(parcels, seconds, strict=True)))
        return []

    def _put(self, entries: Sequence[tuple[Parcel, float]]) -> None:
        now = time.monotonic()
        with self._lock:
            for parcel, seconds in entries:
                heapq.heappush(self._later, (now + seconds, next(self._numbers), parcel))

    def _poll(self) -> None:
        batch: list[Parcel] = []
        opened = 0.0
        while not self._ended.is_set():
            now = time.monotonic()
            if self._busy < self._slots(now):
                taken = self._take(now, self._batch_size - len(batch))
                opened = opened if batch else now
                batch += taken
                if batch and (len(batch) == self._batch_size or now - opened >= self._window):
                    self._start(batch)
                    batch = []
                    continue
            time.sleep(TICK_SECONDS)

    def _slots(self, now: float) -> int:
        return min(self._most, FIRST_SLOTS + int(NEW_SLOTS_A_SECOND * (now - self._began)))

    def _take(self, now: float, most: int) -> list[Parcel]:
        with self._lock:
            while self._later and self._later[0][0] <= now:
                _, _, parcel = heapq.heappop(self._later)
                self._waiting[_group(parcel)].append(parcel)
            taken: list[Parcel] = []
            while len(taken) < most:
                groups = [group for group, queue in self._waiting.items() if queue]
                if not groups:
                    break
                group = min(groups, key=self._in_flight.__getitem__)
                taken.append(self._waiting[group].popleft())
                self._in_flight[group] += 1
            return taken

    def _start(self, batch: Sequence[Parcel]) -> None:
        with self._lock:
            self._busy += 1
        self._pool.submit(self._run, batch)

    def _run(self, batch: Sequence[Parcel]) -> None:
        try:
            self._put(self._invoke(batch))
        finally:
            with self._lock:
                self._busy -= 1
                self._in_flight.subtract(_group(parcel) for parcel in batch)


def _group(parcel: Parcel) -> str:
    return parcel.key.subscription.subscription_id

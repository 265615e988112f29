"""The product of tests/model with `notify` on it; it logs who called what, sent what and was struck when."""

from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from hookkeeper.domain.errors import OwnFaultError
from hookkeeper.domain.mailbox import MailRules
from hookkeeper.domain.notice import key_of
from hookkeeper.domain.outbound import OutboundRequest
from hookkeeper.domain.outcome import Answer
from hookkeeper.ports import Mail
from hookkeeper.usecases.notify import NotifyPorts, by_address, notify
from typing_extensions import override

from tests.fakes import FakeMailboxes, FakeMailer, FakeOperatorBus
from tests.model.product import MINUTE, Execution, Product

CONSOLE = "https://hooks.provider.example/console"
NOTIFY_TIMEOUT = timedelta(minutes=1)
STREAM_TRIES_AGAIN = timedelta(seconds=30)

WITHOUT_EFFECT = {"Ids.new"}
"""Calls that nothing outside can refuse: being killed there is being killed at the next one."""


class ThrottledError(OwnFaultError):
    """A service of AWS refuses, or its answer does not come."""


@dataclass(frozen=True, slots=True)
class Point:
    """The n-th call of one name since numbering began, made by one function."""

    function: str
    call: str
    nth: int


class Line(Product):
    """Numbers each function's calls of its ports; strikes, requests and mails know their invocation."""

    def __init__(self) -> None:
        super().__init__()
        self.function = ""
        self.points: list[Point] = []
        self.invocation = 0
        self.strikes: list[int] = []
        self.sent: list[tuple[int, str, str]] = []
        self.mailed: list[int] = []
        self.sent_though_settled: list[str] = []
        self.arrived_at: dict[tuple[str, str], datetime] = {}
        self.after_each_round: Callable[[], None] = lambda: None
        self._named = Counter[str]()
        self._streamed: set[str] = set()
        self._told: list[tuple[datetime, tuple[str, ...]]] = []
        self._between_calls = self.world.before_call
        self.world.before_call = self._number
        self.notify_ports = NotifyPorts(
            notices=self.core.notices,
            mailboxes=FakeMailboxes(self.world),
            mailer=FakeMailer(self.world, self._note_mail),
            bus=FakeOperatorBus(self.world),
            ids=self.core.ids,
        )

    # ── what is noted ────────────────────────────────────────────────────────────────────────────

    def number_from_here(self) -> None:
        self.points.clear()
        self._named.clear()

    def _number(self, call: str) -> None:
        if not self.interrupting and call not in WITHOUT_EFFECT:
            self._named[call] += 1
            self.points.append(Point(self.function, call, self._named[call]))
        if self._between_calls is not None:
            self._between_calls(call)

    def strike(self) -> None:
        self.strikes.append(self.invocation)

    @override
    def _says(self, request: OutboundRequest) -> Answer:
        headers = dict(request.headers)
        place = headers.get("hookkeeper-subscription-id", ""), headers.get("webhook-id", "")
        key = next((k for k in self.endpoints if k.subscription_id == place[0]), None)
        if key is not None and self.endpoints[key].accepted[place[1]] and self._settled(place):
            self.sent_though_settled.append(place[1])
        self.sent.append((self.invocation, *place))
        answer = super()._says(request)
        if answer.error is None:
            self.arrived_at.setdefault(place, self.now)
        return answer

    def _settled(self, place: tuple[str, str]) -> bool:
        return any(
            (key.subscription.subscription_id, key.event_id) == place and delivery.final
            for key, delivery in self.world.deliveries.items()
        )

    def _note_mail(self, _: Mail) -> None:
        self.mailed.append(self.invocation)

    # ── functions ────────────────────────────────────────────────────────────────────────────────

    @contextmanager
    def _as(self, function: str) -> Iterator[None]:
        outer, self.function = self.function, function
        try:
            yield
        finally:
            self.function = outer

    @override
    @contextmanager
    def _invocation(self, timeout: timedelta) -> Iterator[None]:
        self.invocation += 1
        with super()._invocation(timeout):
            yield

    @override
    def fan_out(self, limit: int = 10) -> None:
        with self._as("fan_out"):
            super().fan_out(limit)

    @override
    def fan_out_pages(self) -> None:
        with self._as("fan_out"):
            super().fan_out_pages()

    @override
    def deliver(self, queue: str = "deliveries", limit: int = 10) -> Any:
        with self._as("deliver"):
            return super().deliver(queue, limit)

    @override
    def sweep(self) -> Counter[str]:
        with self._as("sweep"):
            return super().sweep()

    @override
    def _task(self, execution: Execution) -> None:
        with self._as("backfill" if execution.state == "slice" else "activate"):
            super()._task(execution)

    def notify(self) -> None:
        """What the stream and the sweep have brought."""
        new = [notice.id for notice in self.world.notices.values() if notice.id not in self._streamed]
        self._streamed.update(new)
        self._told += [(self.now, (notice_id,)) for notice_id in new]
        self._told += [(self.now, ids) for _, ids in self.world.notice_queue]
        self.world.notice_queue.clear()
        ready = [entry for entry in self._told if entry[0] <= self.now]
        self._told = [entry for entry in self._told if entry[0] > self.now]
        if ready:
            self._notify(tuple(dict.fromkeys(notice_id for _, ids in ready for notice_id in ids)))

    def _notify(self, notice_ids: tuple[str, ...]) -> None:
        scope, ports = next(iter(self.endpoints)).scope, self.notify_ports

        def run() -> None:
            found = [ports.notices.get(key_of(scope, notice_id), notice_id) for notice_id in notice_ids]
            for together in by_address([notice for notice in found if notice]):
                notify(together, now=self.now, rules=MailRules(), console_url=CONSOLE, ports=ports)

        with self._as("notify"):
            if not self._runs(run, NOTIFY_TIMEOUT):
                self._told.append((self.now + STREAM_TRIES_AGAIN, notice_ids))

    @override
    def _tell_owners(self) -> None:
        """`notify` does."""

    # ── time ─────────────────────────────────────────────────────────────────────────────────────

    @override
    def work(self) -> None:
        super().work()
        self.notify()
        self.after_each_round()

    @override
    def _next_sweep(self) -> datetime:
        due = [notice.due_at for notice in self.world.notices.values() if notice.open]
        return max(self.last_sweep + MINUTE, min([super()._next_sweep(), *due]))

    @override
    def _next_moment(self) -> datetime:
        return min([super()._next_moment(), *(at for at, _ in self._told)])

    @property
    def quiet(self) -> bool:
        """Whether nothing lies in any queue."""
        return not (
            self.incoming or self.pages or self.dead or self.queued() or self.executions or self._told
        )

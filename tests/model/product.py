"""The whole product on fakes and a virtual clock: queues, functions, sweep, executions, one step at a time.

Between any two calls of a port anything may come: a kill, time, another instance, a person (`arrange`).
What AWS would do then is done here: a function that runs out of time is killed, a queue's message comes
back after its visibility, a workflow's task is tried again, an execution that broke is told of.
"""

import random
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from functools import partial

from hookkeeper.domain.audit import Actor
from hookkeeper.domain.delivery import Delivery, Lane, Parcel
from hookkeeper.domain.errors import ConflictError, OwnFaultError, StaleVersionError
from hookkeeper.domain.event import Event, RoutePage
from hookkeeper.domain.notice import NoticeStatus
from hookkeeper.domain.outbound import OutboundRequest
from hookkeeper.domain.outcome import Answer, Fault
from hookkeeper.domain.recovery import RETENTION, RecoveryKind
from hookkeeper.domain.subscription import Status, Subscription
from hookkeeper.domain.tenancy import SubscriptionKey
from hookkeeper.messages import FanOutPage
from hookkeeper.usecases import recover
from hookkeeper.usecases.activate import activate
from hookkeeper.usecases.backfill import backfill
from hookkeeper.usecases.challenge_rate import HostRules
from hookkeeper.usecases.deliver import Delivered, Fate
from hookkeeper.usecases.edit_subscription import Changes, edit_subscription
from hookkeeper.usecases.fan_out import Taken
from hookkeeper.usecases.stage_url import Staging
from hookkeeper.usecases.verify import verify

from tests.builders import ACTOR, a_subscription, an_event
from tests.core import Core
from tests.fakes import FakeContacts, FakeHosts, World, due_at
from tests.functions.api_bench import FakeRates

SECOND = timedelta(seconds=1)
MINUTE = timedelta(minutes=1)
HOUR = timedelta(hours=1)
TIMEOUT = 2 * MINUTE
"""Of fan_out, deliver and recover."""

SWEEP_TIMEOUT = 55 * SECOND
API_TIMEOUT = 29 * SECOND
LATE = 40 * MINUTE
"""How long a page of a wide fan-out may lie in the events queue, and any message that strays."""

VISIBILITY = 6 * TIMEOUT
TASK_TRIES = 6
SWEEP_GRACE = 30 * SECOND


class KilledError(BaseException):
    """The function was killed in the middle: no handler of ours sees it."""


def status(code: int, *, retry_after: str | None = None) -> Answer:
    return Answer(status_code=code, latency_ms=50, retry_after=retry_after)


WELL = status(200)
DOWN = status(500)
GONE = status(404)
UNKNOWN_HOST = Answer(fault=Fault.DNS_NOT_FOUND, latency_ms=5)


@dataclass(slots=True, eq=False)
class Execution:
    """One run of the state machine: where it stands and when it goes on."""

    id: str
    key: SubscriptionKey
    at: datetime
    asked: recover.Asked
    state: str = "lock"
    recovery_id: str = ""
    generation: int = 0
    passed: bool = False
    resume: bool = True
    tries: int = 0


@dataclass(slots=True, eq=False)
class Awaited:
    """What is to happen at the n-th call of a name."""

    call: str
    happening: Callable[[], object]
    nth: int
    after: bool


@dataclass
class Endpoint:
    """How the customer's server answers at the moment, and what arrived."""

    answer: Callable[[str], Answer] = lambda _: WELL
    received: list[tuple[datetime, str]] = field(default_factory=list)
    accepted: Counter[str] = field(default_factory=Counter)


class Product:
    """One tenant, some subscriptions, and everything between an event and its delivery."""

    def __init__(self, *, seed: int = 0, stale_routes: timedelta = timedelta(0), strays: float = 0.0) -> None:
        self.random = random.Random(seed)
        self.strays = strays
        self.core = Core(answer=self._says, spread=lambda: self.random.uniform(-1, 1))
        self.core.routes.staleness = stale_routes
        self.world.before_call = partial(self._between, after=False)
        self.world.after_call = partial(self._between, after=True)
        self.incoming: list[tuple[datetime, Event]] = []
        self.pages: list[tuple[datetime, RoutePage]] = []
        self.dead: list[tuple[str, Parcel]] = []
        self.executions: list[Execution] = []
        self.started: set[str] = set()
        self.endpoints: dict[SubscriptionKey, Endpoint] = {}
        self.emitted: dict[str, Event] = {}
        self.kills = 0
        self.arranged: list[tuple[int, Callable[[], object]]] = []
        self.awaited: list[Awaited] = []
        self.calls = 0
        self.interrupting = False
        self.deadline: datetime | None = None
        self.last_sweep = self.now
        self.may_be_sent: dict[SubscriptionKey, bool] = {}

    # ── the world around it ──────────────────────────────────────────────────────────────────────

    @property
    def world(self) -> World:
        return self.core.world

    @property
    def now(self) -> datetime:
        return self.world.now

    def arrange(self, calls: int, happening: Callable[[], object]) -> None:
        """Let something happen so many calls from now, in the middle of whatever runs then."""
        self.arranged.append((self.calls + calls, happening))
        self.arranged.sort(key=lambda arranged: arranged[0])

    def at(self, call: str, happening: Callable[[], object], *, nth: int = 1, after: bool = False) -> None:
        """Let something happen just before (or after) the n-th call of that name from now on."""
        self.awaited.append(Awaited(call, happening, nth, after))

    def kill(self) -> None:
        self.kills += 1
        raise KilledError

    def wait(self, seconds: float) -> None:
        """Time passes in the middle of whatever runs."""
        self.world.now += seconds * SECOND

    def _between(self, call: str, *, after: bool) -> None:
        if not self.interrupting:
            self.calls += 1
            while self.arranged and self.arranged[0][0] <= self.calls:
                self._interrupt(self.arranged.pop(0)[1])
            for awaited in [a for a in self.awaited if (a.call, a.after) == (call, after)]:
                awaited.nth -= 1
                if awaited.nth == 0:
                    self.awaited.remove(awaited)
                    self._interrupt(awaited.happening)
        if self.deadline is not None and self.now > self.deadline:
            self.kill()

    def _interrupt(self, happening: Callable[[], object]) -> None:
        self.interrupting, outer = True, self.deadline
        try:
            happening()
        finally:
            self.interrupting, self.deadline = False, outer

    @contextmanager
    def _invocation(self, timeout: timedelta) -> Iterator[None]:
        """A function runs until it ends, is killed, or its time is over."""
        outer, self.deadline = self.deadline, self.now + timeout
        try:
            yield
        finally:
            self.deadline = outer

    def _runs(self, step: Callable[[], object], timeout: timedelta) -> bool:
        """Whether a step ran to its end."""
        try:
            with self._invocation(timeout):
                step()
        except (KilledError, OwnFaultError, ConflictError, StaleVersionError):
            return False
        return True

    def _says(self, request: OutboundRequest) -> Answer:
        headers = dict(request.headers)
        if "hookkeeper-subscription-id" not in headers:
            return WELL  # the fuse's canary
        key = next(k for k in self.endpoints if k.subscription_id == headers["hookkeeper-subscription-id"])
        assert self.may_be_sent[key], "sent to a subscription that was not active when the batch began"
        endpoint, event_id = self.endpoints[key], headers["webhook-id"]
        answer = endpoint.answer(event_id)
        endpoint.received.append((self.now, event_id))
        endpoint.accepted[event_id] += answer.error is None
        return answer

    # ── the provider and its customers ───────────────────────────────────────────────────────────

    def subscribe(self, **changes: object) -> SubscriptionKey:
        """An active subscription that every routing cache knows of."""
        key = self.core.subscribe(a_subscription(**changes))
        self.endpoints[key] = Endpoint()
        self.world.now += self.core.margins.routing_cache
        return key

    def endpoint(self, key: SubscriptionKey) -> Endpoint:
        return self.endpoints[key]

    def present(self, key: SubscriptionKey) -> Subscription:
        return self.core.present(key)

    def emit(self, event_type: str = "invoice.paid") -> Event:
        event = an_event(len(self.emitted) + 1, type=event_type)
        self.emitted[event.id] = event
        self.incoming.append((self.now, event))
        return event

    def pause(self, key: SubscriptionKey) -> None:
        self._runs(lambda: self.core.pause(key), API_TIMEOUT)

    def revoke(self, key: SubscriptionKey) -> None:
        self._runs(lambda: self.core.revoke(key), API_TIMEOUT)

    def edit_filter(self, key: SubscriptionKey, *event_types: str) -> None:
        def edit() -> None:
            edit_subscription(
                key,
                Changes(event_types=event_types),
                version=None,
                actor=ACTOR,
                now=self.now,
                margins=self.core.margins,
                config=self.world.config,
                subscriptions=self.core.subscriptions,
                ids=self.core.ids,
            )

        self._runs(edit, API_TIMEOUT)

    def swap_url(self, key: SubscriptionKey) -> None:
        """Its owner asks for another endpoint and shows the challenge that was sent there."""
        url, token = f"https://hooks.customer-test.com/{self.calls}", f"{self.calls:043}"

        def stage() -> None:
            edit_subscription(
                key,
                Changes(endpoint_url=url),
                version=None,
                actor=ACTOR,
                now=self.now,
                margins=self.core.margins,
                config=self.world.config,
                subscriptions=self.core.subscriptions,
                ids=self.core.ids,
                staging=Staging(
                    token=token,
                    rules=HostRules(),
                    hosts=FakeHosts(self.world),
                    rates=FakeRates(),
                    contacts=FakeContacts(self.world),
                ),
            )

        def show() -> None:
            verify(
                key,
                token,
                actor=ACTOR,
                now=self.now,
                margins=self.core.margins,
                subscriptions=self.core.subscriptions,
                ids=self.core.ids,
            )

        if self._runs(stage, API_TIMEOUT):
            self._runs(show, API_TIMEOUT)

    def reenable(self, key: SubscriptionKey, *, probe: bool | None = None) -> None:
        self._execute(recover.Asked(key=key, probe=probe))

    def steer(self, key: SubscriptionKey, verb: str) -> None:
        """Cancel, pause or resume the recovery that holds the lock."""
        recovery = self.world.recoveries.get((key.scope, self.core.health(key).recovery.id or ""))
        acts = {"cancel": self.core.cancel, "pause": self.core.hold, "resume": self.core.resume}
        if recovery is not None:
            self._runs(partial(acts[verb], recovery), API_TIMEOUT)
        self._start_executions()

    def retry(self, delivery: Delivery) -> None:
        """A person asks for one delivery to be sent again."""
        replay = Parcel(
            key=delivery.key,
            event_type=delivery.event_type,
            archived_at=delivery.archived_at,
            pointer=delivery.pointer,
            attempt=delivery.attempt_count + 1,
            lane=Lane.REPLAY,
            replay_id=f"rpl_{self.calls}",
        )
        self._runs(lambda: self.core.lanes.send([replay]), API_TIMEOUT)

    # ── SQS ──────────────────────────────────────────────────────────────────────────────────────

    def queued(self) -> list[Parcel]:
        """Every delivery's message, wherever it lies."""
        waiting = [parcel for queue in self.world.queues.values() for _, parcel in queue]
        return waiting + [parcel for _, parcel in self.dead]

    def duplicate(self) -> None:
        """SQS delivers a message twice: a copy of one that waits turns up within the minute."""
        for entries in self.world.queues.values():
            if entries:
                at, parcel = self.random.choice(entries)
                entries.append((at + timedelta(seconds=self.random.uniform(0, 60)), parcel))

    def lose(self) -> None:
        """A retry's message is lost; its owed item is there for that."""
        for name, entries in self.world.queues.items():
            backed = [entry for entry in entries if self.world.owed_of(entry[1].key) is not None]
            if backed:
                gone = self.random.choice(backed)
                self.world.queues[name] = [entry for entry in entries if entry is not gone]

    def bury(self) -> None:
        """A message has come back too often: SQS puts it into the dead-letter queue."""
        for name, entries in self.world.queues.items():
            if entries:
                self.dead.append((name, entries.pop(self.random.randrange(len(entries)))[1]))

    def hold_up(self) -> None:
        """Every queue is behind: what waits comes up to 40 minutes late."""
        late = timedelta(seconds=self.random.uniform(0, LATE.total_seconds()))
        for name, entries in self.world.queues.items():
            self.world.queues[name] = [(at + late, parcel) for at, parcel in entries]
        self.pages = [(at + late, page) for at, page in self.pages]

    def _stray(self, queue: str) -> None:
        """Single messages come up to 40 minutes late: received by a function that was throttled or died."""
        self.world.queues[queue] = [
            (at + self.random.random() * LATE if at <= self.now and self._by_chance() else at, parcel)
            for at, parcel in self.world.queues[queue]
        ]

    def _by_chance(self) -> bool:
        return self.random.random() < self.strays

    def redrive(self) -> None:
        """An operator moves dead letters back to their queues."""
        for name, parcel in self.dead:
            self.world.queues[name].append((self.now, parcel))
        self.dead.clear()

    def _come_back(self, queue: str, parcels: Iterable[Parcel], after: timedelta) -> None:
        self.world.queues[queue] += [(self.now + after, parcel) for parcel in parcels]

    # ── functions, each one invocation ───────────────────────────────────────────────────────────

    def fan_out(self, limit: int = 10) -> None:
        ready = [entry for entry in self.incoming if entry[0] <= self.now][:limit]
        if not ready:
            return
        events = [event for _, event in ready]
        for entry in ready:
            self.incoming.remove(entry)
        try:
            with self._invocation(TIMEOUT):
                fanned = self.core.fan_out(*events)
                again = [e for e, taken in zip(events, fanned.taken, strict=True) if taken is Taken.AGAIN]
        except (KilledError, OwnFaultError):
            again = events
        self.incoming += [(self.now + VISIBILITY, event) for event in again]
        self.pages += [(self.now + self.random.random() * LATE, page) for page in self.world.pages]
        self.world.pages.clear()

    def fan_out_pages(self) -> None:
        ready = [entry for entry in self.pages if entry[0] <= self.now]
        for entry in ready:
            self.pages.remove(entry)
            parcels = FanOutPage.of(entry[1]).parcels()
            refused = list(parcels)
            if not self._runs(partial(self._enqueue, parcels, refused), TIMEOUT) or refused:
                self.pages.append((self.now + VISIBILITY, entry[1]))

    def _enqueue(self, parcels: list[Parcel], refused: list[Parcel]) -> None:
        refused[:] = self.core.lanes.send(parcels)

    def deliver(self, queue: str = "deliveries", limit: int = 10) -> Delivered | None:
        if self.strays:
            self._stray(queue)
        parcels = self.world.receive(queue, limit=limit)
        if not parcels:
            return None
        outer = self.may_be_sent
        self.may_be_sent = {key: self.present(key).status is Status.ACTIVE for key in self.endpoints}
        try:
            with self._invocation(TIMEOUT):
                delivered = self.core.deliver(*parcels)
        except (KilledError, OwnFaultError):
            self._come_back(queue, parcels, VISIBILITY)
            return None
        finally:
            self.may_be_sent = outer
        self._raise_surprises([report.error for report in delivered.reports])
        self._raise_surprises(delivered.errors)
        for report, parcel in zip(delivered.reports, parcels, strict=True):
            if report.fate is not Fate.DONE:
                self._come_back(queue, [parcel], VISIBILITY if report.fate is Fate.AGAIN_LATER else SECOND)
        return delivered

    def sweep(self) -> Counter[str]:
        self.last_sweep = self.now
        done: Counter[str] = Counter()

        def run() -> None:
            swept = self.core.sweep()
            done.update(swept.done)
            self._raise_surprises(swept.errors)

        self._runs(run, SWEEP_TIMEOUT)
        self._tell_owners()
        self._start_executions()
        return done

    def _raise_surprises(self, errors: Iterable[Exception | None]) -> None:
        for error in errors:
            if error is not None and not isinstance(error, OwnFaultError | ConflictError):
                raise error

    def _tell_owners(self) -> None:
        """`notify` is not of this model: it has sent whatever was pending."""
        for place, notice in self.world.notices.items():
            self.world.notices[place] = replace(notice, status=NoticeStatus.SENT)

    # ── the state machine ────────────────────────────────────────────────────────────────────────

    def _start_executions(self) -> None:
        for name, (key, options) in self.world.executions.items():
            if name not in self.started:
                self.started.add(name)
                generation = options.get("generation")
                asked = recover.Asked(
                    key=key,
                    kind=RecoveryKind(str(options["kind"])),
                    recovery_id=str(options["recovery_id"]) if options.get("recovery_id") else None,
                    generation=int(generation) if generation else None,
                    actor=Actor(id=str(options.get("actor", "system"))),
                )
                self._execute(asked, resume=bool(options.get("resume", True)))

    def _execute(self, asked: recover.Asked, *, resume: bool = True) -> None:
        name = f"exe_{len(self.started)}_{self.calls}_{len(self.executions)}"
        asked = replace(asked, execution=name)
        self.executions.append(Execution(name, asked.key, self.now, asked, resume=resume))

    def break_execution(self, *, told: bool = True) -> None:
        """One is aborted by hand, or fails; where nobody is told of it, the lease alone ends it."""
        if self.executions:
            execution = self.executions.pop(self.random.randrange(len(self.executions)))
            if told:
                self._resume_soon(execution)

    def _resume_soon(self, execution: Execution) -> None:
        self._runs(
            lambda: recover.resume_soon(
                execution.key,
                execution=execution.id,
                now=self.now,
                subscriptions=self.core.subscriptions,
                health=self.core.health_store,
                recoveries=self.core.recoveries,
            ),
            TIMEOUT,
        )

    def run_executions(self) -> None:
        """Take each execution that is due one state further; a task that failed is tried again."""
        for execution in [e for e in self.executions if e.at <= self.now]:
            if execution not in self.executions:
                continue  # taken by whoever came in between
            self.executions.remove(execution)
            if self._runs(partial(self._task, execution), TIMEOUT):
                execution.tries = 0
            else:
                execution.tries += 1
                execution.at = self.now + 2**execution.tries * SECOND
            if execution.tries > TASK_TRIES:
                self._resume_soon(execution)
            elif execution.state:
                self.executions.append(execution)

    def _task(self, execution: Execution) -> None:
        execution.state = getattr(self, f"_{execution.state}")(execution) or ""

    def _lock(self, execution: Execution) -> str | None:
        locked = recover.lock(
            execution.asked,
            now=self.now,
            config=self.world.config,
            subscriptions=self.core.subscriptions,
            health=self.core.health_store,
            recoveries=self.core.recoveries,
            ids=self.core.ids,
        )
        if locked.recovery is None or locked.step is recover.Step.END:
            return None
        execution.recovery_id, execution.generation = locked.recovery.id, locked.recovery.generation
        return str(locked.step)

    def _probe(self, execution: Execution) -> str:
        execution.passed = self.endpoint(execution.key).answer("probe").error is None
        return "activate" if execution.passed else "probe_failed"

    def _probe_failed(self, execution: Execution) -> None:
        recover.probe_failed(
            execution.key,
            recovery_id=execution.recovery_id,
            generation=execution.generation,
            status_code=500,
            error="http_500",
            now=self.now,
            retention=RETENTION,
            subscriptions=self.core.subscriptions,
            health=self.core.health_store,
            recoveries=self.core.recoveries,
            ledger=self.core.ledger,
            ids=self.core.ids,
        )

    def _activate(self, execution: Execution) -> str | None:
        activated = activate(
            execution.key,
            recovery_id=execution.recovery_id,
            generation=execution.generation,
            probed=execution.passed,
            resume=execution.resume,
            actor=execution.asked.actor,
            now=self.now,
            retention=RETENTION,
            subscriptions=self.core.subscriptions,
            health=self.core.health_store,
            recoveries=self.core.recoveries,
            ledger=self.core.ledger,
            ids=self.core.ids,
        )
        return "slice" if activated else None

    def _slice(self, execution: Execution) -> str | None:
        sliced = backfill(
            execution.key,
            recovery_id=execution.recovery_id,
            generation=execution.generation,
            now=self.now,
            config=self.world.config,
            margins=self.core.margins,
            ports=self.core.backfill_ports,
        )
        if sliced.wait is None:
            return None
        execution.at = self.now + max(sliced.wait, SECOND)
        return "slice"

    # ── time ─────────────────────────────────────────────────────────────────────────────────────

    def work(self) -> None:
        """One round of everything that is due now."""
        self.fan_out()
        self.fan_out_pages()
        self.deliver("deliveries")
        self.deliver("backfill")
        self.run_executions()
        if self.now >= self._next_sweep():
            self.sweep()

    def run(self, span: timedelta) -> None:
        """Let time pass, from one due moment to the next."""
        until = self.now + span
        while self.now < until:
            self.work()
            due = min(max(self._next_moment(), self.now + SECOND / 10), until)
            self.world.now = max(due, self.now)  # what came in the middle of work may have taken longer

    def _next_sweep(self) -> datetime:
        """The first minute in which the sweep finds something; the idle ones are left out."""
        due = [item.due_at + SWEEP_GRACE for item in self.world.owed.values()]
        due += [at for health in self.world.health.values() if (at := due_at(health)) is not None]
        return max(self.last_sweep + MINUTE, min(due, default=self.now + 24 * HOUR))

    def _next_moment(self) -> datetime:
        moments = [self._next_sweep()]
        moments += [at for at, _ in self.incoming]
        moments += [at for at, _ in self.pages]
        moments += [at for queue in self.world.queues.values() for at, _ in queue]
        moments += [execution.at for execution in self.executions]
        return min(moments)

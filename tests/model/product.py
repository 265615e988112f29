"""The whole product on fakes and a virtual clock: queues, functions, sweep and executions, one step at a time.

A step may be killed at any call of any port (before its effect or after it); what AWS would do then is
done here: a queue's message comes back after its visibility, a workflow's task is tried again, a dead
execution stays dead.
"""

import random
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta

from hookkeeper.domain.audit import Actor
from hookkeeper.domain.config import Margins, RuntimeConfig
from hookkeeper.domain.delivery import Parcel
from hookkeeper.domain.event import Event
from hookkeeper.domain.outbound import OutboundRequest
from hookkeeper.domain.outcome import Answer, Fault
from hookkeeper.domain.recovery import RETENTION, RecoveryKind
from hookkeeper.domain.subscription import Status, Subscription, Trigger
from hookkeeper.domain.tenancy import SubscriptionKey
from hookkeeper.ports import Edit
from hookkeeper.usecases import recover, transition
from hookkeeper.usecases.backfill import BackfillPorts, backfill
from hookkeeper.usecases.deliver import Delivered, DeliverPorts, Fate, deliver
from hookkeeper.usecases.fan_out import FanOutPorts, Incoming, Taken, fan_out
from hookkeeper.usecases.sweep import SweepPorts, sweep

from tests.builders import NOW, a_subscription, an_audit_record, an_event
from tests.fakes import (
    FakeAccess,
    FakeArchive,
    FakeEventItems,
    FakeFuse,
    FakeHealthStore,
    FakeIds,
    FakeLanes,
    FakeLedger,
    FakeNoticeQueue,
    FakeNotices,
    FakeRecoveries,
    FakeRoutes,
    FakeSecrets,
    FakeSender,
    FakeSubscriptions,
    FakeWorkflow,
    World,
)

ACTOR = Actor(id="key_owner")
FAN_OUT_VISIBILITY = timedelta(seconds=720)
DELIVER_VISIBILITY = timedelta(seconds=720)
SECOND = timedelta(seconds=1)
MINUTE = timedelta(minutes=1)


class KilledError(BaseException):
    """The function was killed in the middle: no handler of ours sees it."""


def status(code: int) -> Answer:
    return Answer(status_code=code, latency_ms=50)


WELL = status(200)
DOWN = status(500)
GONE = status(404)
UNKNOWN_HOST = Answer(fault=Fault.DNS_NOT_FOUND, latency_ms=5)


@dataclass(slots=True)
class Execution:
    """One run of the state machine: where it stands and when it goes on."""

    key: SubscriptionKey
    at: datetime
    state: str = "lock"
    asked: recover.Asked | None = None
    recovery_id: str = ""
    generation: int = 0
    passed: bool = False
    tries: int = 0


@dataclass
class Endpoint:
    """How the customer's server answers at the moment, and what arrived."""

    answer: Callable[[str], Answer] = lambda _: WELL
    received: list[tuple[datetime, str]] = field(default_factory=list)
    accepted: Counter[str] = field(default_factory=Counter)


class Product:
    """One tenant, some subscriptions, and everything between an event and its delivery."""

    def __init__(self, config: RuntimeConfig | None = None, *, seed: int = 0) -> None:
        self.world = World(NOW)
        self.world.config = config or RuntimeConfig()
        self.random = random.Random(seed)
        self.margins = Margins()
        self.incoming: list[tuple[datetime, Event]] = []
        self.executions: list[Execution] = []
        self.endpoints: dict[str, Endpoint] = {}
        self.emitted: dict[str, Event] = {}
        self.kills = 0
        self.kill_chance = 0.0
        self.meddle_chance = 0.0
        self.meddle: Callable[[], None] | None = None
        self.meddling = False
        self.events_made = 0
        self.last_sweep = self.world.now
        self.started: set[str] = set()
        world = self.world
        world.before_call = world.after_call = self._maybe_kill
        self.subscriptions = FakeSubscriptions(world)
        self.ledger = FakeLedger(world)
        self.health = FakeHealthStore(world)
        self.sender = FakeSender(world, self._answer)
        shared = {
            "health": self.health,
            "subscriptions": self.subscriptions,
            "ledger": self.ledger,
            "archive": FakeArchive(world),
            "lanes": FakeLanes(world),
        }
        self.fan_out_ports = FanOutPorts(
            events=FakeEventItems(world),
            archive=FakeArchive(world),
            routes=FakeRoutes(world),
            lanes=FakeLanes(world),
            pages=_Pages(self),
        )
        self.deliver_ports = DeliverPorts(
            **shared,
            fuse=FakeFuse(world),
            recoveries=FakeRecoveries(world),
            secrets=FakeSecrets(world),
            sender=self.sender,
            notices=FakeNotices(world),
            ids=FakeIds(world),
            spread=lambda: self.random.uniform(-1, 1),
        )
        self.backfill_ports = BackfillPorts(
            **shared, recoveries=FakeRecoveries(world), events=FakeEventItems(world)
        )
        self.sweep_ports = SweepPorts(
            **shared,
            access=FakeAccess(world),
            fuse=FakeFuse(world),
            notices=FakeNotices(world),
            notice_queue=FakeNoticeQueue(world),
            workflow=FakeWorkflow(world),
            ids=FakeIds(world),
        )

    # ── the world around it ──────────────────────────────────────────────────────────────────────

    @property
    def now(self) -> datetime:
        return self.world.now

    def _maybe_kill(self, call: str) -> None:
        self._maybe_meddle()
        if self.kill_chance and self.random.random() < self.kill_chance:
            self.kills += 1
            raise KilledError(call)

    def _maybe_meddle(self) -> None:
        """Let others come between two calls: another instance, a person, or merely time."""
        if self.meddle is None or self.meddling or self.random.random() >= self.meddle_chance:
            return
        self.meddling = True
        try:
            self.meddle()
        finally:
            self.meddling = False

    def _answer(self, request: OutboundRequest) -> Answer:
        headers = dict(request.headers)
        endpoint = self.endpoints[headers["hookkeeper-subscription-id"]]
        event_id = headers["webhook-id"]
        answer = endpoint.answer(event_id)
        endpoint.received.append((self.now, event_id))
        if answer.status_code is not None and answer.status_code < 300:
            endpoint.accepted[event_id] += 1
        return answer

    def subscribe(self, **changes: object) -> SubscriptionKey:
        subscription = a_subscription(**changes)
        key = self.world.add(subscription)
        FakeSecrets(self.world).create(key, _secret(), version=1, now=self.now)
        self.endpoints[key.subscription_id] = Endpoint()
        return key

    def endpoint(self, key: SubscriptionKey) -> Endpoint:
        return self.endpoints[key.subscription_id]

    def present(self, key: SubscriptionKey) -> Subscription:
        return self.world.subscriptions[key]

    def emit(self, event_type: str = "invoice.paid") -> Event:
        self.events_made += 1
        event = an_event(self.events_made, type=event_type)
        self.emitted[event.id] = event
        self.incoming.append((self.now, event))
        return event

    # ── functions, each one invocation ───────────────────────────────────────────────────────────

    def guarded(self, step: Callable[[], object]) -> bool:
        """Run a step that may be killed; True when it ran to its end."""
        try:
            step()
        except KilledError:
            return False
        return True

    def fan_out(self, limit: int = 10) -> None:
        ready = [entry for entry in self.incoming if entry[0] <= self.now][:limit]
        if not ready:
            return
        for entry in ready:
            self.incoming.remove(entry)
        try:
            fanned = fan_out(
                [Incoming(event, event.id) for _, event in ready], now=self.now, ports=self.fan_out_ports
            )
        except KilledError:
            self.incoming += [(self.now + FAN_OUT_VISIBILITY, event) for _, event in ready]
            return
        again = [e for (_, e), taken in zip(ready, fanned.taken, strict=True) if taken is Taken.AGAIN]
        self.incoming += [(self.now + FAN_OUT_VISIBILITY, event) for event in again]

    def deliver(self, queue: str = "deliveries", limit: int = 10) -> Delivered | None:
        parcels = self.world.receive(queue, limit=limit)
        if not parcels:
            return None
        try:
            delivered = deliver(
                parcels,
                now=self.now,
                config=self.world.config,
                margins=self.margins,
                ports=self.deliver_ports,
            )
        except KilledError:
            self._come_back(queue, parcels, DELIVER_VISIBILITY)
            return None
        errors = [report.error for report in delivered.reports if report.error]
        if errors:
            raise errors[0]
        back = [report.parcel for report in delivered.reports if report.fate is not Fate.DONE]
        self._come_back(queue, back, DELIVER_VISIBILITY)
        return delivered

    def duplicate(self) -> None:
        """SQS delivers a message twice: a copy of one that waits turns up within the minute."""
        for entries in self.world.queues.values():
            if entries:
                at, parcel = self.random.choice(entries)
                entries.append((at + timedelta(seconds=self.random.uniform(0, 60)), parcel))

    def _come_back(self, queue: str, parcels: Iterable[Parcel], after: timedelta) -> None:
        self.world.queues[queue] += [(self.now + after, parcel) for parcel in parcels]

    def sweep(self) -> Counter[str]:
        self.last_sweep = self.now
        done: Counter[str] = Counter()
        try:
            done = sweep(
                now=self.now, config=self.world.config, margins=self.margins, ports=self.sweep_ports
            ).done
        except KilledError:
            done["killed"] += 1
        self._start_executions()
        return done

    def _start_executions(self) -> None:
        for name, (key, options) in self.world.executions.items():
            if name in self.started:
                continue
            self.started.add(name)
            asked = recover.Asked(
                key=key,
                kind=RecoveryKind(str(options["kind"])),
                recovery_id=str(options["recovery_id"]) if options.get("recovery_id") else None,
                generation=int(options["generation"] or 0) if options.get("generation") else None,
            )
            self.executions.append(Execution(key, self.now, asked=asked))

    # ── people ───────────────────────────────────────────────────────────────────────────────────

    def reenable(self, key: SubscriptionKey, *, probe: bool | None = None) -> None:
        self.executions.append(Execution(key, self.now, asked=recover.Asked(key=key, probe=probe)))

    def pause(self, key: SubscriptionKey) -> None:
        if self.present(key).status is Status.ACTIVE:
            transition.pause(
                key,
                actor=ACTOR,
                now=self.now,
                margins=self.margins,
                subscriptions=self.subscriptions,
                ids=FakeIds(self.world),
            )

    def revoke(self, key: SubscriptionKey) -> None:
        transition.revoke(
            key, actor=ACTOR, now=self.now, subscriptions=self.subscriptions, ids=FakeIds(self.world)
        )

    def suspend_at_once(self, key: SubscriptionKey) -> None:
        """As the policy would, whatever health says: used where only the suspension matters."""
        self.pause(key)

    def edit_filter(self, key: SubscriptionKey, *event_types: str) -> None:
        from hookkeeper.domain.subscription import FilterChange

        before = self.present(key)
        first = before.first_active_at or before.created_at
        changes = (
            FilterChange(at=first, event_types=before.event_types),
            FilterChange(at=self.now + self.margins.routing_cache, event_types=event_types),
        )
        self.subscriptions.edit(
            Edit(
                before=before,
                after=replace(before, event_types=event_types, version=before.version + 1),
                audit=an_audit_record(self.events_made + 1000, scope=before.scope, subject=before.id),
                filter_changes=changes,
            )
        )

    # ── the state machine ────────────────────────────────────────────────────────────────────────

    def run_executions(self) -> None:
        """Take each execution that is due one state further; a killed task is tried again, three times."""
        for execution in [e for e in self.executions if e.at <= self.now]:
            if execution not in self.executions:
                continue
            self.executions.remove(execution)
            if not self.guarded(lambda execution=execution: self._task(execution)):
                execution.tries += 1
                execution.at = self.now + 10 * SECOND
            if execution.state and execution.tries <= 3:
                self.executions.append(execution)

    def _task(self, execution: Execution) -> None:
        execution.state = getattr(self, f"_{execution.state}")(execution) or ""
        execution.tries = 0

    def _lock(self, execution: Execution) -> str | None:
        assert execution.asked is not None
        locked = recover.lock(
            execution.asked,
            now=self.now,
            config=self.world.config,
            subscriptions=self.subscriptions,
            health=self.health,
            recoveries=self.backfill_ports.recoveries,
            ids=FakeIds(self.world),
        )
        if locked.recovery is None or locked.step is recover.Step.END:
            return None
        execution.recovery_id, execution.generation = locked.recovery.id, locked.recovery.generation
        return str(locked.step)

    def _probe(self, execution: Execution) -> str | None:
        answer = self.endpoint(execution.key).answer("probe")
        execution.passed = answer.status_code is not None and answer.status_code < 300
        return "activate" if execution.passed else "probe_failed"

    def _probe_failed(self, execution: Execution) -> str | None:
        recover.probe_failed(
            execution.key,
            recovery_id=execution.recovery_id,
            generation=execution.generation,
            status_code=500,
            error="http_500",
            now=self.now,
            retention=RETENTION,
            subscriptions=self.subscriptions,
            health=self.health,
            recoveries=self.backfill_ports.recoveries,
            ledger=self.ledger,
            ids=FakeIds(self.world),
        )
        return None

    def _activate(self, execution: Execution) -> str | None:
        recovery = self.backfill_ports.recoveries.get(execution.key.scope, execution.recovery_id)
        assert recovery is not None
        changed = transition.activate(
            execution.key,
            trigger=Trigger.PROBE_PASSED,
            recovery=recovery,
            actor=ACTOR,
            now=self.now,
            subscriptions=self.subscriptions,
            ids=FakeIds(self.world),
        )
        if changed or recover.is_running(execution.key, recovery, subscriptions=self.subscriptions):
            return "slice"
        recover.give_up(
            execution.key,
            recovery_id=recovery.id,
            now=self.now,
            subscriptions=self.subscriptions,
            health=self.health,
            recoveries=self.backfill_ports.recoveries,
        )
        return None

    def _slice(self, execution: Execution) -> str | None:
        sliced = backfill(
            execution.key,
            recovery_id=execution.recovery_id,
            generation=execution.generation,
            now=self.now,
            config=self.world.config,
            margins=self.margins,
            ports=self.backfill_ports,
        )
        if sliced.wait is None:
            return None
        execution.at = self.now + max(sliced.wait, SECOND)
        return "slice"

    # ── time ─────────────────────────────────────────────────────────────────────────────────────

    def work(self) -> None:
        """One round of everything that is due now."""
        self.fan_out()
        self.deliver("deliveries")
        self.deliver("backfill")
        self.run_executions()
        if self.now - self.last_sweep >= MINUTE:
            self.sweep()

    def run(self, span: timedelta) -> None:
        """Let time pass, from one due moment to the next."""
        until = self.now + span
        while self.now < until:
            self.work()
            self.world.now = min(max(self._next_moment(), self.now + SECOND / 10), until)

    def _next_moment(self) -> datetime:
        moments = [self.last_sweep + MINUTE]
        moments += [at for at, _ in self.incoming]
        moments += [at for queue in self.world.queues.values() for at, _ in queue]
        moments += [execution.at for execution in self.executions]
        return min(moments)


@dataclass
class _Pages:
    product: Product

    def send(self, page: object) -> bool:
        raise AssertionError("no event here is that wide")


def _secret() -> object:
    from hookkeeper.domain.signature import parse_secret

    return parse_secret("whsec_AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=")

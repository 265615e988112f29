"""The core's use cases over one World: each call is one invocation of its function at `world.now`."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Any

from hookkeeper.domain.config import Margins
from hookkeeper.domain.delivery import Delivery, Lane, Parcel
from hookkeeper.domain.event import Event
from hookkeeper.domain.health import Health
from hookkeeper.domain.outbound import OutboundRequest
from hookkeeper.domain.outcome import Answer
from hookkeeper.domain.recovery import Recovery, RecoveryKind
from hookkeeper.domain.signature import Secret
from hookkeeper.domain.subscription import Status, Subscription, Trigger
from hookkeeper.domain.tenancy import DeliveryKey, SubscriptionKey
from hookkeeper.usecases import recover, steer, transition
from hookkeeper.usecases.backfill import BackfillPorts, Sliced, backfill
from hookkeeper.usecases.deliver import Delivered, DeliverPorts, deliver
from hookkeeper.usecases.fan_out import FannedOut, FanOutPorts, Incoming, fan_out
from hookkeeper.usecases.suspend import Ruled, suspend
from hookkeeper.usecases.sweep import SweepPorts, Swept, sweep

from tests.builders import ACTOR, NOW, a_parcel, a_subscription, an_event_item
from tests.fakes import (
    FakeAccess,
    FakeArchive,
    FakeAudit,
    FakeEventItems,
    FakeFuse,
    FakeHealthStore,
    FakeIds,
    FakeLanes,
    FakeLedger,
    FakeNoticeQueue,
    FakeNotices,
    FakePages,
    FakeRecoveries,
    FakeRoutes,
    FakeSecrets,
    FakeSender,
    FakeSubscriptions,
    FakeWorkflow,
    World,
)


def ok(_: OutboundRequest) -> Answer:
    return Answer(status_code=200, latency_ms=50)


@dataclass
class Core:
    """One fake per port, shared by every use case; `answer` is what endpoints say."""

    world: World = field(default_factory=lambda: World(NOW))
    answer: Callable[[OutboundRequest], Answer] = ok
    margins: Margins = field(default_factory=Margins)
    spread: Callable[[], float] = lambda: 0.0

    def __post_init__(self) -> None:
        world = self.world
        self.subscriptions = FakeSubscriptions(world)
        self.health_store = FakeHealthStore(world)
        self.fuse = FakeFuse(world)
        self.recoveries = FakeRecoveries(world)
        self.ledger = FakeLedger(world)
        self.lanes = FakeLanes(world)
        self.archive = FakeArchive(world)
        self.events = FakeEventItems(world)
        self.routes = FakeRoutes(world)
        self.pages = FakePages(world)
        self.secrets = FakeSecrets(world)
        self.sender = FakeSender(world, self._says)
        self.notices = FakeNotices(world)
        self.ids = FakeIds(world)

    def _says(self, request: OutboundRequest) -> Answer:
        return self.answer(request)

    # ── ports ────────────────────────────────────────────────────────────────────────────────────

    @property
    def deliver_ports(self) -> DeliverPorts:
        return DeliverPorts(
            ledger=self.ledger,
            health=self.health_store,
            fuse=self.fuse,
            subscriptions=self.subscriptions,
            recoveries=self.recoveries,
            secrets=self.secrets,
            archive=self.archive,
            sender=self.sender,
            lanes=self.lanes,
            notices=self.notices,
            ids=self.ids,
            spread=self.spread,
        )

    @property
    def fan_out_ports(self) -> FanOutPorts:
        return FanOutPorts(
            events=self.events,
            archive=self.archive,
            routes=self.routes,
            lanes=self.lanes,
            pages=self.pages,
        )

    @property
    def backfill_ports(self) -> BackfillPorts:
        return BackfillPorts(
            subscriptions=self.subscriptions,
            health=self.health_store,
            recoveries=self.recoveries,
            ledger=self.ledger,
            events=self.events,
            archive=self.archive,
            lanes=self.lanes,
        )

    @property
    def sweep_ports(self) -> SweepPorts:
        return SweepPorts(
            subscriptions=self.subscriptions,
            health=self.health_store,
            ledger=self.ledger,
            archive=self.archive,
            lanes=self.lanes,
            access=FakeAccess(self.world),
            recoveries=self.recoveries,
            events=self.events,
            fuse=self.fuse,
            notices=self.notices,
            notice_queue=FakeNoticeQueue(self.world),
            workflow=FakeWorkflow(self.world),
            ids=self.ids,
        )

    # ── the world ────────────────────────────────────────────────────────────────────────────────

    @property
    def now(self) -> datetime:
        return self.world.now

    def later(self, span: timedelta) -> None:
        self.world.now += span

    def subscribe(
        self, subscription: Subscription | None = None, health: Health | None = None
    ) -> SubscriptionKey:
        subscription = subscription or a_subscription()
        if health is not None:
            health = replace(health, key=subscription.key)
        key = self.world.add(subscription, health)
        self.secrets.create(key, Secret(bytes(24)), version=1, now=self.now)
        return key

    def set_health(self, key: SubscriptionKey, **changes: Any) -> None:
        self.world.health[key] = replace(self.world.health[key], **changes)

    def health(self, key: SubscriptionKey) -> Health:
        return self.world.health[key]

    def present(self, key: SubscriptionKey) -> Subscription:
        return self.world.subscriptions[key]

    def delivery(self, key: DeliveryKey) -> Delivery:
        return self.world.deliveries[key]

    def archived(self, key: SubscriptionKey, event: Event, *, at: datetime | None = None) -> Parcel:
        """The event in the archive as fan_out leaves it; answers the message of its delivery."""
        at = at or self.now
        (entry,) = self.archive.put([event], now=at)
        self.events.put([an_event_item(event, archived_at=at, pointer=entry.pointer)])
        return a_parcel(
            key=DeliveryKey(key, event.id),
            event_type=event.type,
            archived_at=at,
            pointer=entry.pointer,
            resource_id=event.resource_id,
            body=event.body,
        )

    def queued(self, queue: str = "deliveries") -> Sequence[Parcel]:
        return [parcel for _, parcel in self.world.queues[queue]]

    def take(self, queue: str = "deliveries") -> Sequence[Parcel]:
        """The messages that are visible now, off their queue."""
        return self.world.receive(queue)

    # ── the functions ────────────────────────────────────────────────────────────────────────────

    def fan_out(self, *events: Event) -> FannedOut:
        return fan_out(
            [Incoming(event, event.id) for event in events], now=self.now, ports=self.fan_out_ports
        )

    def deliver(self, *parcels: Parcel, seconds_left: Callable[[], float] | None = None) -> Delivered:
        return deliver(
            parcels,
            now=self.now,
            config=self.world.config,
            margins=self.margins,
            ports=self.deliver_ports,
            seconds_left=seconds_left,
        )

    def sweep(self) -> Swept:
        return sweep(now=self.now, config=self.world.config, margins=self.margins, ports=self.sweep_ports)

    def suspend(self, key: SubscriptionKey, *, judged_at: datetime | None = None) -> Ruled:
        return suspend(
            key,
            now=self.now,
            judged_at=judged_at,
            config=self.world.config,
            margins=self.margins,
            subscriptions=self.subscriptions,
            health=self.health_store,
            fuse=self.fuse,
            ledger=self.ledger,
            notices=self.notices,
            ids=self.ids,
        )

    def slice(self, key: SubscriptionKey) -> Sliced:
        """One step of the recovery that holds the lock."""
        lock = self.health(key).recovery
        return backfill(
            key,
            recovery_id=lock.id or "",
            generation=lock.generation,
            now=self.now,
            config=self.world.config,
            margins=self.margins,
            ports=self.backfill_ports,
        )

    # ── people and the state machine ─────────────────────────────────────────────────────────────

    def pause(self, key: SubscriptionKey) -> transition.Changed:
        return transition.pause(
            key,
            actor=ACTOR,
            now=self.now,
            margins=self.margins,
            subscriptions=self.subscriptions,
            ids=self.ids,
        )

    def revoke(self, key: SubscriptionKey) -> transition.Changed:
        return transition.revoke(
            key, actor=ACTOR, now=self.now, subscriptions=self.subscriptions, ids=self.ids
        )

    def lock(self, key: SubscriptionKey, **asked: Any) -> recover.Locked:
        return recover.lock(
            recover.Asked(key=key, **asked),
            now=self.now,
            config=self.world.config,
            subscriptions=self.subscriptions,
            health=self.health_store,
            recoveries=self.recoveries,
            ids=self.ids,
        )

    def activate(self, key: SubscriptionKey, recovery: Recovery) -> transition.Changed | None:
        return transition.activate(
            key,
            trigger=Trigger.PROBE_PASSED,
            recovery=recovery,
            actor=ACTOR,
            now=self.now,
            subscriptions=self.subscriptions,
            ids=self.ids,
        )

    def reenable(self, key: SubscriptionKey, **asked: Any) -> Recovery:
        """Lock, a probe that passes, activate: the recovery whose slices come next."""
        locked = self.lock(key, **asked)
        assert locked.mine
        assert locked.recovery is not None
        assert self.activate(key, locked.recovery) is not None
        assert self.present(key).status is Status.ACTIVE
        return self.recoveries.get(key.scope, locked.recovery.id) or locked.recovery

    def cancel(self, recovery: Recovery) -> Recovery:
        return steer.cancel(
            recovery.key.scope,
            recovery.id,
            actor=ACTOR,
            now=self.now,
            subscriptions=self.subscriptions,
            health=self.health_store,
            recoveries=self.recoveries,
            audit=FakeAudit(self.world),
            ids=self.ids,
        )

    def hold(self, recovery: Recovery) -> Recovery:
        """Pause the recovery."""
        return steer.pause(
            recovery.key.scope,
            recovery.id,
            actor=ACTOR,
            now=self.now,
            subscriptions=self.subscriptions,
            health=self.health_store,
            recoveries=self.recoveries,
            audit=FakeAudit(self.world),
            ids=self.ids,
        )

    def resume(self, recovery: Recovery) -> Recovery:
        return steer.resume(
            recovery.key.scope,
            recovery.id,
            actor=ACTOR,
            now=self.now,
            subscriptions=self.subscriptions,
            health=self.health_store,
            recoveries=self.recoveries,
            audit=FakeAudit(self.world),
            workflow=FakeWorkflow(self.world),
            ids=self.ids,
        )

    def take_up(self, key: SubscriptionKey) -> recover.Locked:
        """What the sweep starts for a recovery that waits, or whose execution has died."""
        lock = self.health(key).recovery
        return self.lock(
            key, kind=lock.kind or RecoveryKind.AUTOMATIC, recovery_id=lock.id, generation=lock.generation
        )


def counts(health: Health) -> Mapping[str, int]:
    """A health's streaks by class."""
    return {str(outcome): streak.count for outcome, streak in health.streaks.items()}


def backfill_of(parcel: Parcel, recovery: Recovery, **changes: Any) -> Parcel:
    """The message as the recovery would send it now."""
    return replace(
        parcel, lane=Lane.BACKFILL, recovery_id=recovery.id, generation=recovery.generation, **changes
    )

"""One in-memory World, and one small fake per port over it; they pass the contract suites of the adapters.

`world.before_call` and `world.after_call` are told "<Port>.<method>" around every effect, and may raise:
that is how a test kills a function between any two steps. Each fake's effect is all or nothing.
`world.repeats` is how often the next call is made besides, as the SDK makes it when an answer is lost.
"""
# ruff: noqa: ARG002  # a fake takes all that its port gives

import threading
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from datetime import datetime, timedelta
from functools import wraps
from typing import Concatenate, ParamSpec, Protocol, TypeVar

from hookkeeper.domain.access import ApiKey, Tenant
from hookkeeper.domain.audit import AuditRecord
from hookkeeper.domain.catalogue import EventType
from hookkeeper.domain.circuit import Circuit
from hookkeeper.domain.config import RuntimeConfig
from hookkeeper.domain.consent import Consent
from hookkeeper.domain.delivery import MAX_QUEUE_DELAY, Delivery, Lane, Owed, Parcel
from hookkeeper.domain.errors import (
    DuplicateSubscriptionError,
    NotFoundError,
    OwnFaultError,
    SecretUnavailableError,
)
from hookkeeper.domain.event import ArchivedEvent, ArchivePointer, Event, EventItem, RoutePage
from hookkeeper.domain.fuse import FuseState
from hookkeeper.domain.health import Health, Streak
from hookkeeper.domain.mailbox import AddressFault, Mailbox
from hookkeeper.domain.notice import Notice, NoticeKind, reopened
from hookkeeper.domain.outbound import OutboundRequest
from hookkeeper.domain.outcome import Answer, Fault, Outcome
from hookkeeper.domain.recovery import Cursor, Ended, Listed, Recovery, RecoveryLock, ended_by
from hookkeeper.domain.signature import Secret
from hookkeeper.domain.subscription import FilterChange, Profile, Status, Subscription, wants
from hookkeeper.domain.tenancy import DeliveryKey, Scope, SubscriptionKey
from hookkeeper.ports import (
    Edit,
    HealthEffect,
    KeptAnswer,
    Mail,
    Readings,
    Settled,
    Settlement,
    Standing,
    SubscriptionPage,
    Transition,
)
from typing_extensions import override

from tests.builders import NOW, a_health, a_profile


class Remembered(dict[SubscriptionKey, Subscription]):
    """Subscriptions as they stand, and as they stood: routes may be read from up to ten seconds ago."""

    def __init__(self, world: "World") -> None:
        super().__init__()
        self._world = world
        self._history: dict[SubscriptionKey, list[tuple[datetime, Subscription]]] = {}

    @override
    def __setitem__(self, key: SubscriptionKey, subscription: Subscription) -> None:
        self._history.setdefault(key, []).append((self._world.now, subscription))
        super().__setitem__(key, subscription)

    def as_of(self, moment: datetime) -> list[Subscription]:
        """Every subscription in its last form written at or before the moment."""
        written = ([s for at, s in forms if at <= moment] for forms in self._history.values())
        return [forms[-1] for forms in written if forms]


class World:
    """Everything outside of the use cases, in plain dictionaries and lists.

    `owed` is keyed by delivery *and* archived_at, as its table is; `owed_of()` finds by delivery alone.
    `queues` hold (visible at, parcel). `now` is the clock of what the fakes themselves time (routes, queues).
    """

    def __init__(self, now: datetime = NOW) -> None:
        self.now = now
        self.lock = threading.RLock()
        self.before_call: Callable[[str], None] | None = None
        self.after_call: Callable[[str], None] | None = None
        self.repeats = 0
        self.subscriptions = Remembered(self)
        self.editors: dict[SubscriptionKey, str] = {}
        self.profiles: dict[SubscriptionKey, Profile] = {}
        self.filters: dict[SubscriptionKey, dict[datetime, FilterChange]] = {}
        self.urls: dict[tuple[Scope, str, str | None], str] = {}
        self.health: dict[SubscriptionKey, Health] = {}
        self.recoveries: dict[tuple[Scope, str], Recovery] = {}
        self.sent_by: dict[tuple[Scope, str], set[str]] = {}
        self.audit: dict[tuple[Scope, str, str], AuditRecord] = {}
        self.notices: dict[tuple[SubscriptionKey, NoticeKind, str], Notice] = {}
        self.deliveries: dict[DeliveryKey, Delivery] = {}
        self.owed: dict[tuple[DeliveryKey, datetime], Owed] = {}
        self.event_items: dict[tuple[Scope, str], EventItem] = {}
        self.claims: dict[tuple[Scope, str], str] = {}
        self.pages: list[RoutePage] = []
        self.accepted_texts: list[str] = []
        self.kept_answers: dict[tuple[str, str], tuple[KeptAnswer, datetime]] = {}
        self.objects: dict[str, tuple[ArchivedEvent, ...]] = {}
        self.queues: dict[str, list[tuple[datetime, Parcel]]] = {"deliveries": [], "backfill": []}
        self.executions: dict[str, tuple[SubscriptionKey, Mapping[str, str | bool | int | float | None]]] = {}
        self.challenges: list[tuple[SubscriptionKey, str]] = []
        self.tests: list[tuple[SubscriptionKey, str, str]] = []
        self.mailboxes: dict[tuple[Scope, str], Mailbox] = {}
        self.carried: dict[tuple[Scope, str], list[str]] = {}
        self.notice_queue: list[tuple[Scope, tuple[str, ...]]] = []
        self.secrets: dict[tuple[SubscriptionKey, str], tuple[Secret, datetime | None]] = {}
        self.requests: list[OutboundRequest] = []
        self.mails: list[Mail] = []
        self.bus_events: list[tuple[str, Mapping[str, str]]] = []
        self.tenants: dict[str, Tenant] = {}
        self.gateway_keys: dict[str, str] = {}
        self.keys: dict[str, ApiKey] = {}
        self.consents: dict[tuple[Scope, str], Consent] = {}
        self.catalogue: dict[str, EventType] = {}
        self.fuse = FuseState()
        self.config = RuntimeConfig()
        self.ids_made = 0

    def add(
        self, subscription: Subscription, health: Health | None = None, profile: Profile | None = None
    ) -> SubscriptionKey:
        """Put a subscription in place with all that belongs to it."""
        key = subscription.key
        self.subscriptions[key] = subscription
        self.health[key] = health or a_health(key=key)
        self.profiles[key] = profile or a_profile()
        self.urls |= dict.fromkeys(_urls(subscription), subscription.id)
        return key

    def standing(self, key: SubscriptionKey) -> Standing | None:
        if key not in self.subscriptions:
            return None
        return Standing(self.subscriptions[key], self.health[key])

    def owed_of(self, key: DeliveryKey) -> Owed | None:
        """The delivery's owed item, whenever its event was archived."""
        return next((owed for (k, _), owed in self.owed.items() if k == key), None)

    def archived(self) -> list[ArchivedEvent]:
        return [event for members in self.objects.values() for event in members]

    def notices_of(self, kind: NoticeKind) -> list[Notice]:
        return [notice for notice in self.notices.values() if notice.kind is kind]

    def receive(self, queue: str, *, limit: int = 25) -> list[Parcel]:
        """Take the parcels that are visible at `now` off a queue, oldest first."""
        ready = sorted((entry for entry in self.queues[queue] if entry[0] <= self.now), key=lambda e: e[0])
        for entry in ready[:limit]:
            self.queues[queue].remove(entry)
        return [parcel for _, parcel in ready[:limit]]


class _HasWorld(Protocol):
    @property
    def world(self) -> World: ...


_S = TypeVar("_S", bound=_HasWorld)
_P = ParamSpec("_P")
_R = TypeVar("_R")


def _call(method: Callable[Concatenate[_S, _P], _R]) -> Callable[Concatenate[_S, _P], _R]:
    """A port's method: announced before, done under the world's lock, announced after."""
    name = method.__qualname__.removeprefix("Fake")

    @wraps(method)
    def called(self: _S, /, *args: _P.args, **kwargs: _P.kwargs) -> _R:
        if self.world.before_call is not None:
            self.world.before_call(name)
        with self.world.lock:
            while self.world.repeats:
                self.world.repeats -= 1
                method(self, *args, **kwargs)
            result = method(self, *args, **kwargs)
        if self.world.after_call is not None:
            self.world.after_call(name)
        return result

    return called


@dataclass
class _Fake:
    world: World


# ── subscriptions ────────────────────────────────────────────────────────────────────────────────


class FakeSubscriptions(_Fake):
    @_call
    def create(
        self, subscription: Subscription, profile: Profile, health: Health, audit: AuditRecord
    ) -> str | None:
        holder = _holder(self.world, _urls(subscription))
        if holder is not None:
            return None if holder == subscription.id else holder
        self.world.add(replace(subscription, writer=audit.id), health, profile)
        _put_audit(self.world, audit)
        return None

    @_call
    def holder(self, subscription: Subscription) -> str | None:
        holders = (self.world.urls.get(url, subscription.id) for url in _urls(subscription))
        return next((holder for holder in holders if holder != subscription.id), None)

    @_call
    def get(self, key: SubscriptionKey) -> Subscription | None:
        return self.world.subscriptions.get(key)

    @_call
    def profile(self, key: SubscriptionKey) -> Profile | None:
        return self.world.profiles.get(key)

    @_call
    def standing(self, key: SubscriptionKey) -> Standing | None:
        return self.world.standing(key)

    @_call
    def filters(self, key: SubscriptionKey) -> Sequence[FilterChange]:
        changes = self.world.filters.get(key, {})
        return [changes[at] for at in sorted(changes)]

    @_call
    def page(self, scope: Scope, *, limit: int, after: str | None = None) -> SubscriptionPage:
        ours = sorted((key for key in self.world.subscriptions if key.scope == scope), reverse=True)
        rest = [key for key in ours if after is None or key.subscription_id < after]
        standings = [Standing(self.world.subscriptions[key], self.world.health[key]) for key in rest[:limit]]
        more = len(rest) > limit
        return SubscriptionPage(standings, standings[-1].subscription.id if more else None)

    @_call
    def transition(self, transition: Transition) -> bool:
        before, key = transition.before.subscription, transition.after.key
        stored = self.world.standing(key)
        if stored is None:
            return False
        if stored.subscription.writer == transition.audit.id:
            return True
        if not _may_change(transition, stored) or _audit_key(transition.audit) in self.world.audit:
            return False
        changed = _merged(stored.subscription, before=before, after=transition.after)
        self.world.subscriptions[key] = replace(
            changed, version=stored.subscription.version + 1, writer=transition.audit.id
        )
        for url in _urls(stored.subscription) - _urls(changed):
            self.world.urls.pop(url, None)
        self.world.health[key] = _health_after(transition, stored.health)
        _put_audit(self.world, transition.audit)
        _put_notice(self.world, transition.notice)
        _put_recovery(self.world, transition.recovery)
        _end_recovery(self.world, key.scope, transition.ends)
        return True

    @_call
    def edit(self, edit: Edit) -> bool:
        key = edit.after.key
        stored = self.world.subscriptions.get(key)
        if stored is None:
            return False
        if self.world.editors.get(key) == edit.audit.id:
            return True
        if stored.version != edit.before.version:
            return False
        wanted = _urls(edit.after) - _urls(edit.before)
        if holder := _holder(self.world, wanted):
            raise DuplicateSubscriptionError(holder)
        self.world.urls |= dict.fromkeys(wanted, stored.id)
        for url in _urls(edit.before) - _urls(edit.after):
            self.world.urls.pop(url, None)
        self.world.subscriptions[key] = replace(edit.after, version=stored.version + 1, writer=stored.writer)
        self.world.editors[key] = edit.audit.id
        if edit.profile is not None:
            self.world.profiles[key] = edit.profile
        self.world.filters.setdefault(key, {}).update({change.at: change for change in edit.filter_changes})
        _put_audit(self.world, edit.audit)
        _put_notice(self.world, edit.notice)
        return True

    @_call
    def expired_tokens(self, now: datetime, *, limit: int) -> Sequence[SubscriptionKey]:
        ended = [
            (subscription.token_expires_at, key)
            for key, subscription in self.world.subscriptions.items()
            if subscription.awaited_url is not None
            and subscription.token_expires_at is not None
            and subscription.token_expires_at <= now
        ]
        return [key for _, key in sorted(ended)][:limit]


@dataclass
class FakeRoutes(_Fake):
    """Routes as a warm function sees them: as of `staleness` ago (at most the cache's ten seconds)."""

    staleness: timedelta = timedelta(0)

    @_call
    def matching(self, scope: Scope, *, event_type: str, resource_id: str | None) -> Sequence[str]:
        return sorted(
            subscription.id
            for subscription in self.world.subscriptions.as_of(self.world.now - self.staleness)
            if subscription.scope == scope
            and subscription.status is Status.ACTIVE
            and wants(subscription, event_type=event_type, resource_id=resource_id)
        )


def _may_change(transition: Transition, stored: Standing) -> bool:
    before, health = transition.before, stored.health
    same_status = stored.subscription.status is before.subscription.status
    same_epoch = health.epoch == before.health.epoch
    lock_untouched = transition.health.recovery == before.health.recovery
    same_lock = lock_untouched or health.recovery.version == before.health.recovery.version
    keeps_outage = transition.health.outage_from is not None
    same_outage = keeps_outage or health.outage_from == before.health.outage_from
    streak_stands = not transition.holds_streak or (
        health.first_failure_at == before.health.first_failure_at
        and health.consecutive_failures >= before.health.consecutive_failures
    )
    same_token = stored.subscription.token_hash == before.subscription.token_hash
    token_stands = not transition.holds_token or same_token
    return same_status and same_epoch and same_lock and same_outage and streak_stands and token_stands


def _merged(stored: Subscription, *, before: Subscription, after: Subscription) -> Subscription:
    """`stored` with what the transition changed: an edit that came between keeps its words."""
    changed = {
        f.name: getattr(after, f.name)
        for f in fields(Subscription)
        if getattr(before, f.name) != getattr(after, f.name)
    }
    return replace(stored, **changed)


def _health_after(transition: Transition, stored: Health) -> Health:
    before, after = transition.before.health, transition.health
    circuit = stored.circuit
    if after.circuit != before.circuit:
        circuit = replace(after.circuit, version=stored.circuit.version + 1)
    outage_from = after.outage_from
    if outage_from is not None and stored.outage_from is not None:
        outage_from = min(outage_from, stored.outage_from)
    health = replace(
        stored,
        epoch=after.epoch,
        epoch_at=after.epoch_at,
        circuit=circuit,
        outage_from=outage_from,
        check_at=after.check_at,
        warn_at=after.warn_at,
        recovery=stored.recovery if after.recovery == before.recovery else after.recovery,
    )
    if transition.clears_streaks:
        health = replace(health, streaks={}, consecutive_failures=0, first_failure_at=None, not_before=None)
    return health


Url = tuple[Scope, str, str | None]


def _urls(subscription: Subscription) -> set[Url]:
    if subscription.status is Status.REVOKED:
        return set()
    urls = filter(None, (subscription.endpoint_url, subscription.pending_endpoint_url))
    return {_url_key(subscription, url) for url in urls}


def _url_key(subscription: Subscription, url: str) -> Url:
    path, mark, query = url.partition("?")
    return subscription.scope, path.removesuffix("/") + mark + query, subscription.resource_id


def _holder(world: World, urls: set[Url]) -> str | None:
    return next((world.urls[url] for url in urls if url in world.urls), None)


def _audit_key(record: AuditRecord) -> tuple[Scope, str, str]:
    return record.scope, record.subject, record.id


def _put_audit(world: World, record: AuditRecord) -> None:
    world.audit.setdefault(_audit_key(record), record)


def _put_notice(world: World, notice: Notice | None) -> None:
    if notice is not None:
        world.notices.setdefault((notice.key, notice.kind, notice.dedupe), notice)


def _put_recovery(world: World, recovery: Recovery | None) -> None:
    """Whole, but for the counts that `add_counts` owns until the recovery has ended."""
    if recovery is None:
        return
    place = (recovery.key.scope, recovery.id)
    stored = world.recoveries.get(place)
    if stored is not None and recovery.ended_at is None:
        recovery = replace(recovery, succeeded=stored.succeeded, failed=stored.failed)
    if stored is not None:
        recovery = replace(recovery, troubled=stored.troubled)
    world.recoveries[place] = recovery


def _end_recovery(world: World, scope: Scope, ended: Ended | None) -> None:
    stored = world.recoveries.get((scope, ended.id)) if ended else None
    if ended is not None and stored is not None:
        world.recoveries[scope, ended.id] = replace(stored, status=ended.status, ended_at=ended.at)


# ── health, circuit, recovery ────────────────────────────────────────────────────────────────────


class FakeHealthStore(_Fake):
    @_call
    def write_circuit(self, before: Health, circuit: Circuit, *, outage_from: datetime | None = None) -> bool:
        stored = self.world.health.get(before.key)
        if stored is None or stored.epoch != before.epoch:
            return False
        if stored.circuit.version != before.circuit.version:
            return stored.circuit == circuit
        self.world.health[before.key] = replace(
            stored, circuit=circuit, outage_from=outage_from or stored.outage_from
        )
        return True

    @_call
    def close_circuit(
        self, before: Health, circuit: Circuit, lock: RecoveryLock, recovery: Recovery | None
    ) -> bool:
        stored = self.world.standing(before.key)
        if stored is None or stored.health.epoch != before.epoch:
            return False
        health = stored.health
        if health.circuit == circuit and health.recovery == lock:
            return True
        if (
            stored.subscription.status is not Status.ACTIVE
            or health.circuit.version != before.circuit.version
            or health.recovery.version != before.recovery.version
        ):
            return False
        self.world.health[before.key] = replace(health, circuit=circuit, outage_from=None, recovery=lock)
        _put_recovery(self.world, recovery)
        return True

    @_call
    def write_lock(
        self,
        before: Health,
        lock: RecoveryLock,
        recovery: Recovery,
        *,
        flowing: bool = False,
        notice: Notice | None = None,
    ) -> bool:
        stored = self.world.standing(before.key)
        if stored is None or stored.health.epoch != before.epoch:
            return False
        if stored.health.recovery.version != before.recovery.version:
            return stored.health.recovery == lock
        flows = stored.subscription.status is Status.ACTIVE and not stored.health.circuit.is_open
        if flowing and not flows:
            return False
        self.world.health[before.key] = replace(stored.health, recovery=lock)
        ended = ended_by(before.recovery, lock, now=recovery.started_at)
        _end_recovery(self.world, before.key.scope, ended if ended and ended.id != recovery.id else None)
        _put_recovery(self.world, recovery)
        _put_notice(self.world, notice)
        return True

    @_call
    def raise_not_before(self, key: SubscriptionKey, *, epoch: int, not_before: datetime) -> None:
        stored = self.world.health.get(key)
        if stored is None or stored.epoch != epoch:
            return
        later = max(stored.not_before or not_before, not_before)
        self.world.health[key] = replace(stored, not_before=later)

    @_call
    def set_check(self, key: SubscriptionKey, *, epoch: int, check_at: datetime | None) -> None:
        stored = self.world.health.get(key)
        if stored is not None and stored.epoch == epoch:
            self.world.health[key] = replace(stored, check_at=check_at)

    @_call
    def set_warning(self, key: SubscriptionKey, *, epoch: int, warn_at: datetime | None) -> None:
        stored = self.world.health.get(key)
        if stored is not None and stored.epoch == epoch:
            self.world.health[key] = replace(stored, warn_at=warn_at)

    @_call
    def due(self, now: datetime, *, limit: int) -> Sequence[SubscriptionKey]:
        moments = [(due_at(health), key) for key, health in self.world.health.items()]
        return [key for at, key in sorted((at, key) for at, key in moments if at and at <= now)][:limit]


def due_at(health: Health) -> datetime | None:
    """When the sweep must look at this health: the earliest of wake, check and a held lock's lease."""
    lease = health.recovery.lease_until if health.recovery.held else None
    moments = (health.circuit.wake_at, health.check_at, health.warn_at, lease)
    return min((at for at in moments if at), default=None)


class FakeFuse(_Fake):
    @_call
    def read(self) -> FuseState:
        return self.world.fuse

    @_call
    def write(self, before: FuseState, after: FuseState) -> bool:
        if self.world.fuse.version != before.version:
            return self.world.fuse == after
        self.world.fuse = after
        return True


class FakeRecoveries(_Fake):
    @_call
    def get(self, scope: Scope, recovery_id: str) -> Recovery | None:
        return self.world.recoveries.get((scope, recovery_id))

    @_call
    def of(self, key: SubscriptionKey, *, limit: int, before: str | None = None) -> Sequence[Recovery]:
        ours = [recovery for recovery in self.world.recoveries.values() if recovery.key == key]
        earlier = [recovery for recovery in ours if before is None or recovery.id < before]
        return sorted(earlier, key=lambda recovery: recovery.id, reverse=True)[:limit]

    @_call
    def add_counts(
        self, key: SubscriptionKey, recovery_id: str, *, succeeded: int, failed: int, troubled: int
    ) -> None:
        place = (key.scope, recovery_id)
        stored = self.world.recoveries.get(place)
        if stored is None:
            return
        self.world.recoveries[place] = replace(
            stored,
            succeeded=stored.succeeded + succeeded,
            failed=stored.failed + failed,
            troubled=stored.troubled + troubled,
        )

    @_call
    def note_sent(
        self, key: SubscriptionKey, recovery_id: str, event_ids: Sequence[str], *, now: datetime
    ) -> None:
        self.world.sent_by.setdefault((key.scope, recovery_id), set()).update(event_ids)

    @_call
    def sent_by(self, key: SubscriptionKey, recovery_id: str) -> frozenset[str]:
        return frozenset(self.world.sent_by.get((key.scope, recovery_id), set()))


class FakeWorkflow(_Fake):
    @_call
    def start(
        self,
        key: SubscriptionKey,
        *,
        name: str,
        options: Mapping[str, str | bool | int | float | None],
    ) -> None:
        self.world.executions.setdefault(name, (key, options))


# ── deliveries ───────────────────────────────────────────────────────────────────────────────────


@dataclass
class FakeLedger(_Fake):
    """`unread` are the keys that a read leaves unanswered, `unwritten` those that a batch does not write."""

    unread: set[DeliveryKey] = field(default_factory=set)
    unwritten: set[DeliveryKey] = field(default_factory=set)

    @_call
    def read_batch(self, keys: Sequence[DeliveryKey]) -> Readings:
        if len(keys) > 25:
            raise ValueError(f"a batch is at most 25 deliveries, not {len(keys)}")
        answered = [key for key in keys if key not in self.unread]
        standings = {key.subscription: self.world.standing(key.subscription) for key in answered}
        return Readings(
            standings={key: standing for key, standing in standings.items() if standing is not None},
            deliveries={k: self.world.deliveries[k] for k in answered if k in self.world.deliveries},
            unread=frozenset(self.unread.intersection(keys)),
            consents={
                key: self.world.consents[key.scope, standing.subscription.application_id]
                for key, standing in standings.items()
                if standing is not None
                and standing.subscription.application_id is not None
                and (key.scope, standing.subscription.application_id) in self.world.consents
            },
        )

    @_call
    def read(self, keys: Sequence[DeliveryKey]) -> Mapping[DeliveryKey, Delivery]:
        if self.unread.intersection(keys):
            raise OwnFaultError("some ledger records came back unread")
        return {key: self.world.deliveries[key] for key in keys if key in self.world.deliveries}

    @_call
    def put_clean(self, deliveries: Sequence[Delivery]) -> Sequence[DeliveryKey]:
        for delivery in deliveries:
            if delivery.key not in self.unwritten:
                self.world.deliveries[delivery.key] = delivery
        return [delivery.key for delivery in deliveries if delivery.key in self.unwritten]

    @_call
    def settle(self, settlement: Settlement) -> Settled:
        key, effect = settlement.after.key, settlement.effect
        stored = self.world.deliveries.get(key)
        health = self.world.health.get(key.subscription)
        counts = effect is not None and health is not None and health.epoch == effect.epoch
        if stored is not None and stored != settlement.before and stored == settlement.after:
            return Settled(written=True, counted=counts)
        if _guard(stored) != _guard(settlement.before):
            return Settled(written=False, counted=False)
        self.world.deliveries[key] = settlement.after
        place = (key, settlement.after.archived_at)
        if settlement.owed is None:
            self.world.owed.pop(place, None)
        else:
            self.world.owed[place] = settlement.owed
        if counts and effect is not None and health is not None:
            self.world.health[key.subscription] = affected(health, effect)
        return Settled(written=True, counted=counts)

    @_call
    def owed(self, key: SubscriptionKey, *, limit: int, after: Cursor | None = None) -> Sequence[Owed]:
        ours = [owed for owed in self.world.owed.values() if owed.key.subscription == key]
        ordered = sorted(ours, key=_place)
        return [owed for owed in ordered if after is None or _place(owed) > after][:limit]

    @_call
    def owed_item(self, key: DeliveryKey, *, archived_at: datetime) -> Owed | None:
        return self.world.owed.get((key, archived_at))

    @_call
    def due(self, now: datetime, *, limit: int) -> Sequence[Owed]:
        ready = [owed for owed in self.world.owed.values() if owed.due_at <= now]
        return sorted(ready, key=lambda owed: (owed.due_at, owed.key))[:limit]

    @_call
    def move_due(
        self, owed: Owed, *, due_at: datetime, taken_by: str | None = None, automatic_left: bool | None = None
    ) -> bool:
        place = (owed.key, owed.archived_at)
        stored = self.world.owed.get(place)
        if stored is None or stored.due_at != owed.due_at:
            return False
        self.world.owed[place] = replace(
            stored,
            due_at=due_at,
            taken_by=stored.taken_by if taken_by is None else taken_by,
            automatic_left=stored.automatic_left if automatic_left is None else automatic_left,
        )
        return True

    @_call
    def delete_owed(self, owed: Owed) -> None:
        self.world.owed.pop((owed.key, owed.archived_at), None)


def affected(health: Health, effect: HealthEffect) -> Health:
    """Health after one more settled sequence."""
    seen = replace(
        health,
        last_outcome=effect.outcome,
        last_status_code=effect.status_code,
        last_error=effect.error,
        last_attempt_at=effect.at,
        check_at=effect.check_at or health.check_at,
    )
    if effect.outcome is Outcome.SUCCESS:
        return replace(
            seen,
            streaks={},
            consecutive_failures=0,
            first_failure_at=None,
            last_success_at=effect.at,
            last_delivery_at=effect.at,
        )
    first = effect.first_failure_at or effect.at
    streak = health.streaks.get(effect.outcome)
    grown = Streak(streak.count + 1, streak.first_failure_at) if streak else Streak(1, first)
    return replace(
        seen,
        streaks={**health.streaks, effect.outcome: grown},
        consecutive_failures=health.consecutive_failures + 1,
        first_failure_at=health.first_failure_at or first,
    )


def _guard(delivery: Delivery | None) -> tuple[int, int, str] | None:
    return (delivery.attempt_count, delivery.sequence, delivery.status) if delivery else None


def _place(owed: Owed) -> Cursor:
    return Cursor(archived_at=owed.archived_at, event_id=owed.key.event_id)


@dataclass
class FakeLanes(_Fake):
    """`refuses` says which parcels the queue does not accept (a batch's `Failed` entries)."""

    refuses: Callable[[Parcel], bool] = lambda _: False

    @_call
    def send(
        self, parcels: Sequence[Parcel], *, delays: Sequence[timedelta] | None = None
    ) -> Sequence[Parcel]:
        waits = delays if delays is not None else [timedelta(0)] * len(parcels)
        if any(not timedelta(0) <= wait <= MAX_QUEUE_DELAY for wait in waits):
            raise ValueError("SQS delays a message by at most 15 minutes")
        refused = []
        for parcel, wait in zip(parcels, waits, strict=True):
            if self.refuses(parcel):
                refused.append(parcel)
            else:
                self.world.queues[queue_of(parcel)].append((self.world.now + wait, parcel))
        return refused


def queue_of(parcel: Parcel) -> str:
    """A replay of one delivery goes with the live ones; whatever belongs to a recovery does not."""
    recovering = parcel.lane is Lane.BACKFILL or parcel.recovery_id is not None
    return "backfill" if recovering else "deliveries"


# ── events and archive ───────────────────────────────────────────────────────────────────────────


class FakeEventItems(_Fake):
    @_call
    def routed(self, ids: Sequence[tuple[Scope, str]]) -> Mapping[tuple[Scope, str], EventItem]:
        return {place: self.world.event_items[place] for place in ids if place in self.world.event_items}

    @_call
    def put(self, items: Sequence[EventItem]) -> None:
        for item in items:
            self.world.event_items.setdefault((item.scope, item.id), item)

    @_call
    def claim(self, scope: Scope, event_id: str, *, body_hash: str, now: datetime) -> str:
        return self.world.claims.setdefault((scope, event_id), body_hash)


@dataclass
class FakePages(_Fake):
    """`full` is a queue that takes nothing."""

    full: bool = False

    @_call
    def send(self, page: RoutePage) -> bool:
        if not self.full:
            self.world.pages.append(page)
        return not self.full


@dataclass
class FakeEventQueue(_Fake):
    """`refuses` says which texts the queue does not accept."""

    refuses: Callable[[str], bool] = lambda _: False

    @_call
    def send(self, texts: Sequence[str]) -> Sequence[int]:
        refused = [position for position, text in enumerate(texts) if self.refuses(text)]
        self.world.accepted_texts += [text for n, text in enumerate(texts) if n not in refused]
        return refused


class FakeArchive(_Fake):
    @_call
    def put(self, events: Sequence[Event], *, now: datetime) -> Sequence[ArchivedEvent]:
        object_key = f"events/{len(self.world.objects) + 1}"
        scopes = list(dict.fromkeys(event.scope for event in events))
        lines = Counter[Scope]()
        archived = []
        for event in events:
            pointer = ArchivePointer(
                object_key=object_key,
                offset=1000 * scopes.index(event.scope),
                length=1000,
                line=lines[event.scope],
            )
            lines[event.scope] += 1
            archived.append(ArchivedEvent(event=event, archived_at=now, pointer=pointer))
        if archived:
            self.world.objects[object_key] = tuple(archived)
        return archived

    @_call
    def body(self, scope: Scope, pointer: ArchivePointer) -> bytes:
        members = self.world.objects.get(pointer.object_key, ())
        for archived in members:
            if archived.event.scope == scope and archived.pointer == pointer:
                return archived.event.body
        raise NotFoundError("archived event", f"{pointer.object_key}:{pointer.line}")

    @_call
    def events(
        self, scope: Scope, *, start: datetime, until: datetime, after: Cursor | None = None
    ) -> Iterator[ArchivedEvent]:
        ours = [
            a for a in self.world.archived() if a.event.scope == scope and start <= a.archived_at <= until
        ]
        return iter([a for a in sorted(ours, key=_cursor) if after is None or _cursor(a) > after])

    @_call
    def recent(self, scope: Scope, *, since: datetime, before: Cursor | None = None) -> Iterator[Listed]:
        ours = [a for a in self.world.archived() if a.event.scope == scope and a.archived_at >= since]
        ordered = sorted(ours, key=_cursor, reverse=True)
        listed = [Listed(_cursor(a), a.event.type, a.event.resource_id) for a in ordered]
        return iter([each for each in listed if before is None or each.place < before])


def _cursor(archived: ArchivedEvent) -> Cursor:
    return Cursor(archived_at=archived.archived_at, event_id=archived.event.id)


# ── reaching out, secrets, telling ───────────────────────────────────────────────────────────────


def _ok(_: OutboundRequest) -> Answer:
    return Answer(status_code=200, latency_ms=80)


@dataclass
class FakeSender(_Fake):
    """Every endpoint in one function: `answer` sees the request and says how it ended.

    `stops` are what time each call had.
    """

    answer: Callable[[OutboundRequest], Answer] = _ok
    stops: list[float | None] = field(default_factory=list)

    @_call
    def send(
        self, requests: Sequence[OutboundRequest], *, stop_at_seconds: float | None = None
    ) -> Sequence[Answer]:
        self.stops.append(stop_at_seconds)
        self.world.requests.extend(requests)
        return [self.answer(request) for request in requests]


@dataclass
class FakeHosts(_Fake):
    """Every host is well, but those in `faults`."""

    faults: dict[str, Fault] = field(default_factory=dict)

    @_call
    def fault(self, host: str, port: int) -> Fault | None:
        return self.faults.get(host)


@dataclass
class FakeSecrets(_Fake):
    """While `unavailable`, every secret is unreadable, as when KMS is down."""

    unavailable: bool = False

    @_call
    def create(self, key: SubscriptionKey, secret: Secret, *, version: int, now: datetime) -> str:
        ref = f"kms:{key.subscription_id}/versions/{version}"
        self.world.secrets[key, ref] = (secret, None)
        return ref

    @_call
    def retire(self, key: SubscriptionKey, secret_ref: str, *, until: datetime) -> None:
        secret, _ = self.world.secrets[key, secret_ref]
        self.world.secrets[key, secret_ref] = (secret, until)

    @_call
    def signing(self, key: SubscriptionKey, secret_ref: str, *, now: datetime) -> Sequence[Secret]:
        present = self.world.secrets.get((key, secret_ref))
        if present is None or self.unavailable:
            raise SecretUnavailableError(f"no secret {secret_ref}")
        overlapping = [
            secret
            for (k, ref), (secret, until) in self.world.secrets.items()
            if k == key and ref != secret_ref and until is not None and now < until
        ]
        return [present[0], *overlapping]


class FakeContacts(_Fake):
    @_call
    def challenge(self, key: SubscriptionKey, *, token: str) -> None:
        self.world.challenges.append((key, token))

    @_call
    def test(self, key: SubscriptionKey, *, event_type: str, data: str) -> None:
        self.world.tests.append((key, event_type, data))


class FakeNotices(_Fake):
    @_call
    def put(self, notice: Notice) -> bool:
        new = (notice.key, notice.kind, notice.dedupe) not in self.world.notices
        _put_notice(self.world, notice)
        return new

    @_call
    def get(self, key: SubscriptionKey, notice_id: str) -> Notice | None:
        ours = (notice for (k, _, _), notice in self.world.notices.items() if k == key)
        return next((notice for notice in ours if notice.id == notice_id), None)

    @_call
    def claim(self, notice: Notice, *, by: str, now: datetime, lease: timedelta) -> bool:
        stored = self.world.notices.get((notice.key, notice.kind, notice.dedupe))
        if stored is None or not stored.open:
            return False
        held = stored.claimed_until is not None and now < stored.claimed_until
        if held and stored.claimed_by != by:
            return False
        claimed = replace(stored, claimed_by=by, claimed_until=now + lease)
        self.world.notices[notice.key, notice.kind, notice.dedupe] = claimed
        return True

    @_call
    def mark(self, notice: Notice) -> bool:
        stored = self.world.notices.get((notice.key, notice.kind, notice.dedupe))
        if stored is None or stored.claimed_by is None or stored.claimed_by != notice.claimed_by:
            return False
        if not (stored.open or stored.status is notice.status):
            return False
        self.world.notices[notice.key, notice.kind, notice.dedupe] = replace(
            stored,
            status=notice.status,
            attempts=notice.attempts,
            message_id=notice.message_id,
            sent_at=notice.sent_at,
            claimed_until=notice.claimed_until,
            operators_told=notice.operators_told,
            mail_fault=notice.mail_fault,
        )
        return True

    @_call
    def mark_unheard(self, notice: Notice) -> bool:
        place = (notice.key, notice.kind, notice.dedupe)
        stored = self.world.notices.get(place)
        if stored is None or stored.status is notice.status:
            return False
        self.world.notices[place] = replace(stored, status=notice.status, mail_fault=notice.mail_fault)
        return True

    @_call
    def reopen(self, notice: Notice, *, now: datetime) -> bool:
        place = (notice.key, notice.kind, notice.dedupe)
        stored = self.world.notices.get(place)
        if stored is None or stored.status is not notice.status:
            return False
        self.world.notices[place] = reopened(notice, now=now)
        return True

    @_call
    def stuck(self, now: datetime, *, limit: int) -> Sequence[Notice]:
        due = [notice for notice in self.world.notices.values() if notice.open and notice.due_at <= now]
        return sorted(due, key=lambda notice: notice.due_at)[:limit]

    @_call
    def of(self, key: SubscriptionKey, *, limit: int) -> Sequence[Notice]:
        ours = [notice for (k, _, _), notice in self.world.notices.items() if k == key]
        return sorted(ours, key=lambda notice: (notice.at, notice.id), reverse=True)[:limit]


class FakeMailboxes(_Fake):
    @_call
    def get(self, scope: Scope, address: str) -> Mailbox:
        return replace(self._stored(scope, address), address=address)

    @_call
    def hold(self, mailbox: Mailbox, *, by: str, now: datetime, lease: timedelta) -> bool:
        stored = self._stored(mailbox.scope, mailbox.address)
        free = stored.held_until is None or stored.held_until <= now or stored.held_by == by
        if not free or (stored.day, stored.mails) != (mailbox.day, mailbox.mails):
            return False
        self._put(replace(stored, held_by=by, held_until=now + lease))
        return True

    @_call
    def release(self, mailbox: Mailbox) -> None:
        stored = self._stored(mailbox.scope, mailbox.address)
        if stored.held_by is not None and stored.held_by == mailbox.held_by:
            self._put(replace(stored, held_by=None, held_until=None))

    @_call
    def count(self, mailbox: Mailbox, notices: Sequence[Notice], *, message_id: str) -> None:
        stored = self._stored(mailbox.scope, mailbox.address)
        places = {(n.key, n.kind, n.dedupe): n for n in notices}
        mine = all(self.world.notices[p].claimed_by == n.claimed_by for p, n in places.items())
        if not mine or stored.held_by != mailbox.held_by:
            raise OwnFaultError("no longer as it was claimed")
        for place, notice in places.items():
            self.world.notices[place] = replace(
                self.world.notices[place], message_id=notice.message_id, sent_at=notice.sent_at
            )
        written = ("gathers_until", "stage", "day", "mails")
        self._put(replace(stored, **{name: getattr(mailbox, name) for name in written}))
        self.world.carried[mailbox.scope, message_id] = [notice.id for notice in notices]

    @_call
    def carried(self, scope: Scope, message_id: str) -> Sequence[str]:
        return self.world.carried.get((scope, message_id), [])

    @_call
    def spoil(self, scope: Scope, address: str, fault: AddressFault, *, now: datetime) -> None:
        self._put(replace(self._stored(scope, address), bad=fault, bad_at=now))

    def _stored(self, scope: Scope, address: str) -> Mailbox:
        nothing = Mailbox(scope=scope, address=address)
        return self.world.mailboxes.get((scope, address.lower()), nothing)

    def _put(self, mailbox: Mailbox) -> None:
        self.world.mailboxes[mailbox.scope, mailbox.address.lower()] = mailbox


class FakeNoticeQueue(_Fake):
    @_call
    def send(self, scope: Scope, notice_ids: Sequence[str]) -> None:
        self.world.notice_queue.append((scope, tuple(notice_ids)))


@dataclass
class FakeMailer(_Fake):
    """`refuse` may raise MailRefusedError or MailDeferredError; what it lets pass is in `world.mails`."""

    refuse: Callable[[Mail], None] = lambda _: None

    @_call
    def send(self, mail: Mail) -> str:
        self.refuse(mail)
        self.world.mails.append(mail)
        return f"ses-{len(self.world.mails)}"


class FakeOperatorBus(_Fake):
    @_call
    def publish(self, detail_type: str, detail: Mapping[str, str]) -> None:
        self.world.bus_events.append((detail_type, dict(detail)))


class FakeAudit(_Fake):
    @_call
    def put(self, record: AuditRecord) -> None:
        _put_audit(self.world, record)

    @_call
    def of(
        self, scope: Scope, subject: str, *, limit: int, before: str | None = None
    ) -> Sequence[AuditRecord]:
        ours = [r for r in self.world.audit.values() if (r.scope, r.subject) == (scope, subject)]
        newest_first = sorted(ours, key=lambda record: record.id, reverse=True)
        return [record for record in newest_first if before is None or record.id < before][:limit]


class FakeGatewayKeys(_Fake):
    """`world.gateway_keys` holds the plan of each owner."""

    @_call
    def ensure(self, owner: str, *, plan: str) -> None:
        self.world.gateway_keys.setdefault(owner, plan)


class FakeAccess(_Fake):
    @_call
    def create_tenant(self, tenant: Tenant) -> bool:
        return self.world.tenants.setdefault(tenant.id, tenant) == tenant

    @_call
    def tenant(self, tenant_id: str) -> Tenant | None:
        return self.world.tenants.get(tenant_id)

    @_call
    def tenants(self, *, limit: int, after: str | None = None) -> Sequence[Tenant]:
        ids = sorted(i for i in self.world.tenants if after is None or i > after)
        return [self.world.tenants[i] for i in ids[:limit]]

    @_call
    def put_key(self, key: ApiKey) -> None:
        self.world.keys[key.sha256] = key

    @_call
    def key_by_hash(self, sha256: str) -> ApiKey | None:
        return self.world.keys.get(sha256)

    @_call
    def keys_of(self, owner: str) -> Sequence[ApiKey]:
        ours = [key for key in self.world.keys.values() if key.owner == owner]
        return sorted(ours, key=lambda key: key.id)

    @_call
    def used(self, key: ApiKey, *, now: datetime) -> None:
        stored = self.world.keys[key.sha256]
        if key.last_used_at is None or now - key.last_used_at >= timedelta(hours=1):
            self.world.keys[key.sha256] = replace(stored, last_used_at=now)

    @_call
    def revoke_key(self, owner: str, key_id: str, *, now: datetime) -> bool:
        for key in self.world.keys.values():
            if (key.owner, key.id) == (owner, key_id):
                self.world.keys[key.sha256] = replace(key, revoked_at=key.revoked_at or now)
                return True
        return False


class FakeCatalogue(_Fake):
    @_call
    def get(self, name: str) -> EventType | None:
        return self.world.catalogue.get(name)

    @_call
    def all(self) -> Sequence[EventType]:
        return [self.world.catalogue[name] for name in sorted(self.world.catalogue)]

    @_call
    def put(self, event_type: EventType) -> None:
        self.world.catalogue[event_type.name] = event_type


class FakeConsents(_Fake):
    @_call
    def get(self, scope: Scope, application_id: str) -> Consent | None:
        return self.world.consents.get((scope, application_id))

    @_call
    def of(self, scope: Scope) -> Sequence[Consent]:
        ours = [consent for consent in self.world.consents.values() if consent.scope == scope]
        return sorted(ours, key=lambda consent: consent.application_id)

    @_call
    def put(self, consent: Consent, audit: AuditRecord) -> bool:
        place = (consent.scope, consent.application_id)
        stored = self.world.consents.get(place)
        if stored == consent:
            return True
        if (stored.version if stored else 0) != consent.version - 1:
            return False
        self.world.consents[place] = consent
        _put_audit(self.world, audit)
        return True


class FakeIdempotency(_Fake):
    """A call that neither finished nor was forgotten holds its key for a minute."""

    @_call
    def begin(self, owner: str, key: str, *, request_hash: str, now: datetime) -> KeptAnswer | None:
        kept, until = self.world.kept_answers.get((owner, key), (None, now))
        if kept is not None and now < until:
            return kept
        self.world.kept_answers[owner, key] = (KeptAnswer(request_hash), now + timedelta(minutes=1))
        return None

    @_call
    def finish(self, owner: str, key: str, answer: KeptAnswer, *, now: datetime) -> None:
        self.world.kept_answers[owner, key] = (answer, now + timedelta(hours=24))

    @_call
    def forget(self, owner: str, key: str) -> None:
        self.world.kept_answers.pop((owner, key), None)


class FakeRuntimeConfigs(_Fake):
    @_call
    def current(self) -> RuntimeConfig:
        return self.world.config


class FakeIds(_Fake):
    @_call
    def new(self, prefix: str) -> str:
        self.world.ids_made += 1
        return f"{prefix}_{self.world.ids_made:026d}"

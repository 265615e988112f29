"""What must be true of the product between any two steps (SPEC §2's one rule, HAZARDS §3.1), and at rest."""

from collections.abc import Iterator
from datetime import datetime, timedelta
from itertools import pairwise

from hookkeeper.domain.arrival import next_attempt
from hookkeeper.domain.delivery import DeliveryStatus
from hookkeeper.domain.event import EventItem
from hookkeeper.domain.health import Health
from hookkeeper.domain.outcome import Outcome
from hookkeeper.domain.recovery import Cursor, RecoveryStatus
from hookkeeper.domain.subscription import TRANSITIONS, Status, matched_since, owed_from
from hookkeeper.domain.tenancy import DeliveryKey, SubscriptionKey
from hookkeeper.ports import Settled, Settlement

from tests.fakes import due_at
from tests.model.product import Product

LEGAL = {(before, after) for (before, _), after in TRANSITIONS.items()}
EXPIRED_WITHIN = timedelta(minutes=20)
"""After its retention: a due item that was sent again comes due anew."""

MOVES_BY_ITSELF = {Outcome.RETRYABLE, Outcome.FATAL}


class Rules:
    """Watches one product from its beginning."""

    def __init__(self, product: Product) -> None:
        self.product = product
        self.epochs: dict[SubscriptionKey, int] = {}
        self.statuses: dict[SubscriptionKey, Status] = {}
        self.counted: set[tuple[DeliveryKey, int]] = set()
        self.twice: list[tuple[DeliveryKey, int]] = []
        self._watch_settlements()

    def _watch_settlements(self) -> None:
        ledger = self.product.core.ledger
        settle = ledger.settle

        def watched(settlement: Settlement) -> Settled:
            before = self.product.core.health(settlement.after.key.subscription)
            settled = settle(settlement)
            after = self.product.core.health(settlement.after.key.subscription)
            if after.consecutive_failures > before.consecutive_failures:
                place = settlement.after.key, settlement.after.sequence
                if place in self.counted:
                    self.twice.append(place)
                self.counted.add(place)
            return settled

        ledger.settle = watched  # type: ignore[method-assign]

    # ── between any two steps ────────────────────────────────────────────────────────────────────

    def hold(self) -> None:
        """Raise AssertionError where a rule is broken."""
        for key, health in self.product.world.health.items():
            self._streaks(health)
            self._epoch(key, health)
            self._status(key)
            self._circuit(health)
        assert self.twice == [], "a sequence was counted twice"
        for item in self.product.world.owed.values():
            assert item.due_at <= item.expires_at, "an owed item waits beyond its expiry"
            assert self.product.now <= item.expires_at + EXPIRED_WITHIN, "nobody writes that it expired"
        lost = [key for key, archived_at in self.owed() if not self._is_somewhere(key, archived_at)]
        assert lost == [], "owed, and neither in a queue, nor an owed item, nor in an outage"

    def _streaks(self, health: Health) -> None:
        counts = [streak.count for streak in health.streaks.values()]
        assert all(count > 0 for count in counts)
        assert sum(counts) == health.consecutive_failures
        assert (health.consecutive_failures == 0) == (health.first_failure_at is None)

    def _epoch(self, key: SubscriptionKey, health: Health) -> None:
        assert health.epoch >= self.epochs.get(key, 0), "the epoch fell"
        self.epochs[key] = health.epoch

    def _status(self, key: SubscriptionKey) -> None:
        """Steps of one status at a time are looked at in the audit, which has every change."""
        changes = [
            (Status(record.before["status"]), Status(record.after["status"]))
            for record in self.product.world.audit.values()
            if record.subject == key.subscription_id and "status" in record.after
        ]
        assert all(change in LEGAL for change in changes)
        assert all(one[1] is other[0] for one, other in pairwise(changes))

    def _circuit(self, health: Health) -> None:
        if health.circuit.is_open:
            assert health.outage_from is not None, "an open circuit owes its outage"
            assert health.circuit.wake_at is not None, "an open circuit is woken"

    # ── the one rule ─────────────────────────────────────────────────────────────────────────────

    def owed(self) -> Iterator[tuple[DeliveryKey, datetime]]:
        """Every delivery that was matched and is not over, and when its event was archived."""
        world = self.product.world
        for item in world.event_items.values():
            if item.archived_at + world.config.retention <= self.product.now:
                continue
            for key in self.product.endpoints:
                delivery = world.deliveries.get(DeliveryKey(key, item.id))
                if (delivery is None or not delivery.final) and self._matched(key, item):
                    yield DeliveryKey(key, item.id), item.archived_at

    def _matched(self, key: SubscriptionKey, item: EventItem) -> bool:
        subscription = self.product.present(key)
        if subscription.status is Status.REVOKED:
            return False
        return owed_from(subscription, archived_at=item.archived_at) and matched_since(
            subscription,
            list(self.product.world.filters.get(key, {}).values()),
            event_type=item.type,
            resource_id=item.resource_id,
            archived_at=item.archived_at,
        )

    def _is_somewhere(self, key: DeliveryKey, archived_at: datetime) -> bool:
        return self._queued(key) or self._has_item(key) or self._in_outage(key, archived_at)

    def _queued(self, key: DeliveryKey) -> bool:
        number = next_attempt(self.product.world.deliveries.get(key))
        subscription_id = key.subscription.subscription_id
        pages = [page for _, page in self.product.pages if page.archived.event.id == key.event_id]
        return any(subscription_id in page.subscription_ids for page in pages) or any(
            parcel.key == key and (parcel.attempt == number or parcel.replay_id is not None)
            for parcel in self.product.queued()
        )

    def _has_item(self, key: DeliveryKey) -> bool:
        return key in self.product.world.deliveries and self.product.world.owed_of(key) is not None

    def _in_outage(self, key: DeliveryKey, archived_at: datetime) -> bool:
        health = self.product.core.health(key.subscription)
        suspended = self.product.present(key.subscription).status is Status.SUSPENDED
        shut = suspended or health.circuit.is_open
        if shut and health.outage_from is not None and archived_at >= health.outage_from:
            return True
        margin, place = self.product.core.margins.outage, Cursor(archived_at, key.event_id)
        return any(
            window.start <= archived_at <= window.end + margin
            and (window.cursor is None or place > window.cursor)
            for window in health.recovery.windows
        )

    # ── at rest ──────────────────────────────────────────────────────────────────────────────────

    def at_rest(self) -> None:
        """Endpoints are well, time has passed: what moves by itself has arrived, the rest is for people.

        After a cancel, what is owed waits, visible, for the next recovery.
        """
        world = self.product.world
        for delivery, _ in self.owed():
            if world.health[delivery.subscription].recovery.status is RecoveryStatus.CANCELLED:
                continue
            record, item = world.deliveries.get(delivery), world.owed_of(delivery)
            assert record is not None, f"{delivery.event_id} was never sent"
            assert item is not None
            for_people = item.status is DeliveryStatus.EXHAUSTED and not (
                item.automatic_left and item.outcome in MOVES_BY_ITSELF
            )
            assert for_people, f"{delivery.event_id} is stuck: {item}"
        for key, health in world.health.items():
            if self.product.present(key).status is Status.REVOKED:
                continue
            assert not health.circuit.is_open, "a circuit stays open though its endpoint is well"
            assert not health.recovery.held, f"a recovery does not end: {health.recovery}"
            assert due_at(health) is None or health.circuit.wake_at is None

    def all_arrived(self) -> None:
        """A person has re-enabled what was left: nothing is owed to anyone any more."""
        assert [delivery.event_id for delivery, _ in self.owed()] == []
        revoked = {k for k in self.product.endpoints if self.product.present(k).status is Status.REVOKED}
        left = [item for item in self.product.world.owed.values() if item.key.subscription not in revoked]
        assert left == []

    def each_once(self) -> None:
        """Nothing was killed and nobody came between: each arrived exactly once."""
        for endpoint in self.product.endpoints.values():
            assert {event_id for event_id, n in endpoint.accepted.items() if n > 1} == set()

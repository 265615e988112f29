"""Health items and recovery records, in the Subscriptions table.

Attributes are named as the domain's fields. The counters are attributes of their own, so that a settled
sequence ADDs to them and nobody reads, reckons and writes (F37). `due_at` is when the sweep must look.
"""

import zlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any

from hookkeeper.adapters.dynamodb import (
    Backoff,
    Item,
    batch_put,
    decoded,
    encoded,
    expiry,
    micros,
    moment,
    pages,
    prefix,
)
from hookkeeper.adapters.dynamodb_due import due_keys, listed_keys, read_all
from hookkeeper.adapters.dynamodb_expressions import (
    Expression,
    Step,
    checked,
    put_new,
    transact,
    update_item,
    updated,
)
from hookkeeper.adapters.dynamodb_keys import (
    core_key,
    due_partition,
    health_key,
    partition,
    subscription_key,
)
from hookkeeper.adapters.dynamodb_notices import notice_item
from hookkeeper.adapters.dynamodb_records import record, restored
from hookkeeper.domain.circuit import Circuit
from hookkeeper.domain.delivery import LEDGER_LIFE
from hookkeeper.domain.errors import OwnFaultError
from hookkeeper.domain.health import FAILURES, Health, Streak
from hookkeeper.domain.notice import Notice
from hookkeeper.domain.outcome import Outcome
from hookkeeper.domain.recovery import Ended, Recovery, RecoveryLock, ended_by
from hookkeeper.domain.subscription import Status
from hookkeeper.domain.tenancy import Scope, SubscriptionKey
from hookkeeper.ports import HealthEffect

RECOVERY_LIFE = timedelta(days=90)
"""A recovery's report stays beside the notices that told of it; none runs longer than retention."""

IDS_PER_PART = 5_000
"""Of at most 64 characters: 325 KB before compression, and an item may have 400 KB."""

_SENT = "sent#"
_KIND = "health"
_HEALTH_APART = frozenset({"key", "streaks"})
_REWRITTEN = ("circuit", "outage_from", "recovery", "check_at", "warn_at")
_COUNTED = frozenset({"succeeded", "failed"})


# ── the health item ──────────────────────────────────────────────────────────────────────────────


def health_item(health: Health) -> Item:
    streaks = {
        name: value
        for outcome, streak in health.streaks.items()
        for name, value in (
            (streak_count(outcome), streak.count),
            (streak_first(outcome), streak.first_failure_at),
        )
    }
    due = due_at(health)
    index = {"due_pk": due_partition(_KIND, health.key), "due_at": _seconds(due)} if due else {}
    return health_key(health.key) | encoded(record(health, without=_HEALTH_APART) | streaks | index)


def health_from(key: SubscriptionKey, item: Item) -> Health:
    values = decoded(item)
    streaks = {
        outcome: Streak(values[streak_count(outcome)], moment(values[streak_first(outcome)]))
        for outcome in FAILURES
        if streak_count(outcome) in values
    }
    return restored(Health, values, key=key, streaks=streaks)


def streak_count(outcome: Outcome) -> str:
    """The attribute that counts a class's streak."""
    return f"{outcome}_count"


def streak_first(outcome: Outcome) -> str:
    """The attribute with the first failed attempt of a class's streak."""
    return f"{outcome}_first_at"


def due_at(health: Health) -> datetime | None:
    """When the sweep must look: the earliest of wake, check, warning, and the lease of a held lock."""
    lease = health.recovery.lease_until if health.recovery.held else None
    moments = (health.circuit.wake_at, health.check_at, health.warn_at, lease)
    return min((at for at in moments if at), default=None)


def effect_update(key: SubscriptionKey, effect: HealthEffect) -> Expression:
    """What a settled sequence does to the health item; true while the item exists with the effect's epoch.

    A `due_at` that stands is kept: whatever it is for, the sweep that comes then finds `check_at` too, and
    none is later than the longest wake (1 h) of an endpoint that gets no traffic or a lease (30 min).
    Overwriting it instead would let an endpoint that fails all day push a crashed recovery's lease ahead.
    """
    expression = Expression()
    expression.require_same("epoch", effect.epoch)
    expression.put("last_outcome", effect.outcome)
    expression.put("last_status_code", effect.status_code)
    expression.put("last_error", effect.error)
    expression.put("last_attempt_at", effect.at)
    if effect.outcome is Outcome.SUCCESS:
        expression.put("last_success_at", effect.at)
        expression.put("last_delivery_at", effect.at)
        clear_streaks(expression)
    else:
        first = effect.first_failure_at or effect.at
        expression.add("consecutive_failures", 1)
        expression.add(streak_count(effect.outcome), 1)
        expression.put_first("first_failure_at", first)
        expression.put_first(streak_first(effect.outcome), first)
    if effect.check_at is not None:
        expression.put("check_at", effect.check_at)
        expression.put("due_pk", due_partition(_KIND, key))
        expression.put_first("due_at", _seconds(effect.check_at))
    return expression


def clear_streaks(expression: Expression) -> None:
    """Every class's streak and the total, gone."""
    expression.put("consecutive_failures", 0)
    expression.put("first_failure_at", None)
    for outcome in FAILURES:
        expression.put(streak_count(outcome), None)
        expression.put(streak_first(outcome), None)


def rewrite(expression: Expression, *, base: Health, after: Health) -> None:
    """Write `after`'s circuit, outage, lock and check over `base`, with the `due_at` that follows from them.

    True while everything that decides on `due_at` is as in `base`; else it could hide what is due.
    """
    expression.require_same("epoch", base.epoch)
    expression.require_same("check_at", base.check_at)
    expression.require_same("warn_at", base.warn_at)
    expression.require_same("circuit.version", base.circuit.version)
    expression.require_same("recovery.version", base.recovery.version)
    plain = record(after)
    for name in _REWRITTEN:
        if getattr(after, name) != getattr(base, name):
            expression.put(name, plain[name])
    due = due_at(after)
    expression.put("due_pk", due_partition(_KIND, base.key) if due else None)
    expression.put("due_at", _seconds(due) if due else None)


def _seconds(at: datetime) -> int:
    """Whole seconds, rounded down: the index may name an item a moment early, never late."""
    return int(at.timestamp())


# ── the recovery record ──────────────────────────────────────────────────────────────────────────


def recovery_step(table: str, recovery: Recovery) -> Step:
    """Put the record; what `add_counts` counts is left alone until the recovery has ended.

    Unguarded, and it may make the item: the lock in the same transaction is the guard.
    """
    expression = Expression(creates=True)
    ended = recovery.ended_at is not None
    for name, value in record(recovery, without=frozenset({"key"})).items():
        if name == "troubled" or (name in _COUNTED and not ended):
            expression.put_first(name, value)
        else:
            expression.put(name, value)
    expression.put("subscription_id", recovery.key.subscription_id)
    expression.put("list_pk", _listing(recovery.key))
    expression.put("list_sk", recovery.id)
    expression.put("ttl", expiry(recovery.started_at, RECOVERY_LIFE))
    return updated(table, _recovery_key(recovery.key.scope, recovery.id), expression)


def ending_step(table: str, scope: Scope, ended: Ended) -> Step:
    """Say on its record that a recovery is over; true while there is a record."""
    expression = Expression()
    expression.put("status", ended.status)
    expression.put("ended_at", ended.at)
    return updated(table, _recovery_key(scope, ended.id), expression)


def _recovery_key(scope: Scope, recovery_id: str) -> Item:
    return encoded({"pk": _recovery_partition(scope, recovery_id), "sk": "rec"})


def _recovery_partition(scope: Scope, recovery_id: str) -> str:
    return f"{prefix(scope)}rec#{recovery_id}"


def _listing(key: SubscriptionKey) -> str:
    return f"{partition(key)}#recs"


def _recovery(scope: Scope, item: Item) -> Recovery:
    values = decoded(item)
    return restored(Recovery, values, key=SubscriptionKey(scope, values["subscription_id"]))


# ── the ports ────────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True, slots=True, kw_only=True)
class _Write:
    """A change of a health item that holds while epoch and the parts in `owning` are as in `before`.

    `active` adds that the subscription is active, `flowing` that its circuit is closed. The recovery and
    the notice are put with it, and the one that it `ends` is marked as over.
    """

    before: Health
    change: Callable[[Health], Health]
    owning: tuple[str, ...] = ()
    recovery: Recovery | None = None
    notice: Notice | None = None
    ends: Ended | None = None
    active: bool = False
    flowing: bool = False

    def stands(self, stored: Health) -> bool:
        """Whether the parts already are as changed: this very write, whose answer was lost."""
        wanted = self.change(stored)
        return bool(self.owning) and all(getattr(stored, p) == getattr(wanted, p) for p in self.owning)

    def allowed(self, stored: Health) -> bool:
        same = all(getattr(stored, p).version == getattr(self.before, p).version for p in self.owning)
        return same and not (self.flowing and stored.circuit.is_open)


class DynamoDBHealth:
    """The HealthStore port. A write whose guards hold is made again where only its base moved."""

    def __init__(
        self, client: Any, *, subscriptions_table: str, notices_table: str, backoff: Backoff | None = None
    ) -> None:
        self._client = client
        self._table = subscriptions_table
        self._notices = notices_table
        self._backoff = backoff or Backoff()

    def write_circuit(self, before: Health, circuit: Circuit, *, outage_from: datetime | None = None) -> bool:
        def change(base: Health) -> Health:
            return replace(base, circuit=circuit, outage_from=outage_from or base.outage_from)

        return self._apply(_Write(before=before, change=change, owning=("circuit",)))

    def close_circuit(
        self, before: Health, circuit: Circuit, lock: RecoveryLock, recovery: Recovery | None
    ) -> bool:
        def change(base: Health) -> Health:
            return replace(base, circuit=circuit, outage_from=None, recovery=lock)

        owning = ("circuit", "recovery")
        return self._apply(
            _Write(before=before, change=change, owning=owning, recovery=recovery, active=True)
        )

    def write_lock(
        self,
        before: Health,
        lock: RecoveryLock,
        recovery: Recovery,
        *,
        flowing: bool = False,
        notice: Notice | None = None,
    ) -> bool:
        def change(base: Health) -> Health:
            return replace(base, recovery=lock)

        ends = ended_by(before.recovery, lock, now=recovery.started_at)
        return self._apply(
            _Write(
                before=before,
                change=change,
                owning=("recovery",),
                recovery=recovery,
                notice=notice,
                ends=ends if ends and ends.id != recovery.id else None,
                active=flowing,
                flowing=flowing,
            )
        )

    def raise_not_before(self, key: SubscriptionKey, *, epoch: int, not_before: datetime) -> None:
        expression = Expression()
        expression.require_same("epoch", epoch)
        expression.require_any(("not_before", "=", None), ("not_before", "<", not_before))
        expression.put("not_before", not_before)
        update_item(self._client, self._table, health_key(key), expression, self._backoff)

    def set_check(self, key: SubscriptionKey, *, epoch: int, check_at: datetime | None) -> None:
        base = self._health(key)
        if base is not None and base.epoch == epoch:
            self._apply(_Write(before=base, change=lambda stored: replace(stored, check_at=check_at)))

    def set_warning(self, key: SubscriptionKey, *, epoch: int, warn_at: datetime | None) -> None:
        base = self._health(key)
        if base is not None and base.epoch == epoch:
            self._apply(_Write(before=base, change=lambda stored: replace(stored, warn_at=warn_at)))

    def due(self, now: datetime, *, limit: int) -> Sequence[SubscriptionKey]:
        """A `due_at` that outlived its reason is put right on the way, so that it is not met again."""
        keys = due_keys(self._client, self._table, kind=_KIND, now=now, limit=limit)
        found: list[tuple[datetime, SubscriptionKey]] = []
        for item in read_all(self._client, self._table, keys, self._backoff):
            key = subscription_key(item["pk"]["S"])
            health = health_from(key, item)
            due = due_at(health)
            if due is not None and due <= now:
                found.append((due, key))
            elif due is None or _seconds(due) != int(item["due_at"]["N"]):
                self._reschedule(health)
        return [key for _, key in sorted(found)]

    def _reschedule(self, health: Health) -> None:
        expression = Expression()
        rewrite(expression, base=health, after=health)
        update_item(self._client, self._table, health_key(health.key), expression, self._backoff)

    def _apply(self, write: _Write) -> bool:
        key, base = write.before.key, write.before
        for _ in self._backoff.attempts():
            steps = self._steps(write, base)
            lost = transact(self._client, steps, self._backoff)
            if not lost:
                return True
            stored = self._health(key)
            if stored is None or stored.epoch != write.before.epoch:
                return False
            if write.stands(stored):
                return True
            if not write.allowed(stored) or (write.active and not self._active(key)):
                return False
            if write.ends is not None and len(steps) - (2 if write.notice else 1) in lost:
                write = replace(write, ends=None)  # its record is gone
            if write.notice is not None and len(steps) - 1 in lost:
                write = replace(write, notice=None)  # told before
            base = stored
        raise OwnFaultError(f"the health of {key.subscription_id} does not hold still")

    def _steps(self, write: _Write, base: Health) -> list[Step]:
        expression = Expression()
        rewrite(expression, base=base, after=write.change(base))
        if write.flowing:
            expression.require_same("circuit.open_until", None)
        steps = [updated(self._table, health_key(base.key), expression)]
        if write.active:
            steps.append(checked(self._table, core_key(base.key), _is_active()))
        if write.recovery is not None:
            steps.append(recovery_step(self._table, write.recovery))
        if write.ends is not None:
            steps.append(ending_step(self._table, write.before.key.scope, write.ends))
        if write.notice is not None:
            steps.append(put_new(self._notices, notice_item(write.notice)))
        return steps

    def _health(self, key: SubscriptionKey) -> Health | None:
        answer = self._client.get_item(TableName=self._table, Key=health_key(key), ConsistentRead=True)
        return health_from(key, answer["Item"]) if "Item" in answer else None

    def _active(self, key: SubscriptionKey) -> bool:
        answer = self._client.get_item(TableName=self._table, Key=core_key(key), ConsistentRead=True)
        return bool(answer.get("Item", {}).get("status", {}).get("S") == Status.ACTIVE)


def _is_active() -> Expression:
    expression = Expression()
    expression.require_same("status", Status.ACTIVE)
    return expression


class DynamoDBRecoveries:
    """The Recoveries port."""

    def __init__(self, client: Any, *, subscriptions_table: str, backoff: Backoff | None = None) -> None:
        self._client = client
        self._table = subscriptions_table
        self._backoff = backoff or Backoff()

    def get(self, scope: Scope, recovery_id: str) -> Recovery | None:
        answer = self._client.get_item(
            TableName=self._table, Key=_recovery_key(scope, recovery_id), ConsistentRead=True
        )
        return _recovery(scope, answer["Item"]) if "Item" in answer else None

    def of(self, key: SubscriptionKey, *, limit: int, before: str | None = None) -> Sequence[Recovery]:
        keys = listed_keys(
            self._client, self._table, listing=_listing(key), limit=limit, after=before, newest_first=True
        )
        items = read_all(self._client, self._table, keys, self._backoff)
        return sorted((_recovery(key.scope, item) for item in items), key=lambda r: r.id, reverse=True)

    def add_counts(
        self, key: SubscriptionKey, recovery_id: str, *, succeeded: int, failed: int, troubled: int
    ) -> None:
        expression = Expression()
        for name, number in (("succeeded", succeeded), ("failed", failed), ("troubled", troubled)):
            expression.add(name, number)
        update_item(
            self._client, self._table, _recovery_key(key.scope, recovery_id), expression, self._backoff
        )

    def note_sent(
        self, key: SubscriptionKey, recovery_id: str, event_ids: Sequence[str], *, now: datetime
    ) -> None:
        """One item for thousands of ids, beside the record: nothing, against what sending them costs."""
        distinct = sorted(set(event_ids))
        parts = [distinct[start : start + IDS_PER_PART] for start in range(0, len(distinct), IDS_PER_PART)]
        items = [
            encoded(
                {
                    "pk": _recovery_partition(key.scope, recovery_id),
                    "sk": f"{_SENT}{micros(now):016d}#{number:04d}",
                    "ids": zlib.compress("\n".join(ids).encode()),
                    "ttl": expiry(now, LEDGER_LIFE),
                }
            )
            for number, ids in enumerate(parts)
        ]
        if batch_put(self._client, self._table, items, self._backoff):
            raise OwnFaultError(f"what {recovery_id} sends was not noted")

    def sent_by(self, key: SubscriptionKey, recovery_id: str) -> frozenset[str]:
        ids: set[str] = set()
        for page in pages(
            self._client,
            TableName=self._table,
            KeyConditionExpression="pk = :pk AND begins_with(sk, :sent)",
            ExpressionAttributeValues=encoded(
                {":pk": _recovery_partition(key.scope, recovery_id), ":sent": _SENT}
            ),
            ConsistentRead=True,
        ):
            for item in page:
                ids.update(zlib.decompress(decoded(item)["ids"]).decode().split("\n"))
        return frozenset(ids)

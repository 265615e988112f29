"""Ledger records and owed items, in the Deliveries table, and the one read that a batch of deliveries needs.

A record's key is made of its two ids alone, so that a repeated fan-out finds it; an owed item's has the
record's `archived_at` first, for order. Both are spread over SHARDS, and a clean success is one write unit.
"""

import heapq
import json
import secrets
import zlib
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from itertools import islice
from typing import Any

from botocore.exceptions import ClientError

from hookkeeper.adapters.dynamodb import (
    CONDITION_FAILED,
    PASSING,
    Backoff,
    Item,
    batch_get,
    batch_put,
    decoded,
    encoded,
    error_code,
    expiry,
    micros,
    moment,
    packed,
    pages,
    prefix,
    scope_of,
    unpacked,
)
from hookkeeper.adapters.dynamodb_consents import consent_from, consent_key
from hookkeeper.adapters.dynamodb_due import read_all
from hookkeeper.adapters.dynamodb_expressions import (
    Expression,
    Step,
    checked,
    deleted,
    put,
    transact,
    update_item,
    updated,
)
from hookkeeper.adapters.dynamodb_health import effect_update, health_from
from hookkeeper.adapters.dynamodb_keys import core_key, health_key
from hookkeeper.adapters.dynamodb_subscriptions import subscription_from
from hookkeeper.domain.consent import Consent
from hookkeeper.domain.delivery import (
    FINAL,
    LEDGER_LIFE,
    SHARDS,
    Attempt,
    Delivery,
    DeliveryStatus,
    Lane,
    Owed,
    shard_of,
)
from hookkeeper.domain.errors import OwnFaultError
from hookkeeper.domain.outcome import Outcome
from hookkeeper.domain.recovery import Cursor
from hookkeeper.domain.tenancy import DeliveryKey, SubscriptionKey
from hookkeeper.ports import Readings, Settled, Settlement, Standing

MAX_KEYS = 25
DUE_SHARDS = 16
"""Partitions of the `due` index: it takes a write for each owed item, of whatever subscription."""

_compact = json.JSONEncoder(ensure_ascii=False, separators=(",", ":")).encode


class DynamoDBLedger:
    """Guarded by attempt_count, sequence and status; a lost answer is read back and known by its attempt."""

    def __init__(
        self,
        client: Any,
        *,
        deliveries_table: str,
        subscriptions_table: str,
        backoff: Backoff | None = None,
    ) -> None:
        self._client = client
        self._table = deliveries_table
        self._subscriptions = subscriptions_table
        self._backoff = backoff or Backoff()

    # ── reading ──────────────────────────────────────────────────────────────────────────────────

    def read_batch(self, keys: Sequence[DeliveryKey]) -> Readings:
        if len(keys) > MAX_KEYS:
            raise ValueError(f"a batch is at most {MAX_KEYS} deliveries, not {len(keys)}")
        distinct = list(dict.fromkeys(keys))
        subscriptions = list(dict.fromkeys(key.subscription for key in distinct))
        wanted = {
            self._subscriptions: [part(key) for key in subscriptions for part in (core_key, health_key)],
            self._table: list(map(_ledger_key, distinct)),
        }
        found, left = batch_get(self._client, wanted, self._backoff)
        parts = {_place(item): item for item in found[self._subscriptions]}
        lacking = {_place(item_key) for keys_left in left.values() for item_key in keys_left}
        torn = {key for key in subscriptions if not _whole(key, parts, lacking)}
        standings = {
            key: _standing(key, parts)
            for key in subscriptions
            if key not in torn and _place(core_key(key)) in parts
        }
        return Readings(
            standings=standings,
            consents=self._consents(standings),
            deliveries=_deliveries(distinct, found[self._table]),
            unread=frozenset(
                key for key in distinct if key.subscription in torn or _place(_ledger_key(key)) in lacking
            ),
        )

    def _consents(self, standings: Mapping[SubscriptionKey, Standing]) -> dict[SubscriptionKey, Consent]:
        holders = {
            key: (key.scope, application_id)
            for key, standing in standings.items()
            if (application_id := standing.subscription.application_id) is not None
        }
        wanted = [consent_key(*holder) for holder in dict.fromkeys(holders.values())]
        if not wanted:
            return {}
        found = map(consent_from, read_all(self._client, self._subscriptions, wanted, self._backoff))
        consents = {(consent.scope, consent.application_id): consent for consent in found}
        return {key: consents[holder] for key, holder in holders.items() if holder in consents}

    def read(self, keys: Sequence[DeliveryKey]) -> Mapping[DeliveryKey, Delivery]:
        distinct = list(dict.fromkeys(keys))
        items = read_all(self._client, self._table, list(map(_ledger_key, distinct)), self._backoff)
        return _deliveries(distinct, items)

    def owed(self, key: SubscriptionKey, *, limit: int, after: Cursor | None = None) -> Sequence[Owed]:
        shards = (self._owed_shard(key, shard, limit, after) for shard in range(SHARDS))
        return list(islice(heapq.merge(*shards, key=_cursor), limit))

    def _owed_shard(
        self, key: SubscriptionKey, shard: int, limit: int, after: Cursor | None
    ) -> Iterator[Owed]:
        beyond = " AND sk > :after" if after else ""
        values = {":pk": _partition(key, "owed", shard), ":after": _owed_sort_key(after) if after else None}
        for page in pages(
            self._client,
            TableName=self._table,
            KeyConditionExpression=f"pk = :pk{beyond}",
            ExpressionAttributeValues=encoded(values),
            ConsistentRead=True,
            Limit=limit // SHARDS + 10,
        ):
            yield from map(_owed, page)

    def owed_item(self, key: DeliveryKey, *, archived_at: datetime) -> Owed | None:
        item = self._item(_owed_key(key, archived_at))
        return _owed(item) if item else None

    def _item(self, item_key: Item) -> Item:
        """One item, consistent; empty where there is none."""
        answer = self._client.get_item(TableName=self._table, Key=item_key, ConsistentRead=True)
        return dict(answer.get("Item", {}))

    def due(self, now: datetime, *, limit: int) -> Sequence[Owed]:
        named = [item for shard in range(DUE_SHARDS) for item in self._due_keys(shard, now, limit)]
        longest_due = sorted(named, key=lambda item: float(item["due_at"]["N"]))[:limit]
        keys = [{"pk": item["pk"], "sk": item["sk"]} for item in longest_due]
        present = map(_owed, read_all(self._client, self._table, keys, self._backoff))
        return sorted((owed for owed in present if owed.due_at <= now), key=lambda o: (o.due_at, o.key))

    def _due_keys(self, shard: int, now: datetime, limit: int) -> list[Item]:
        answer = self._client.query(
            TableName=self._table,
            IndexName="due",
            KeyConditionExpression="due_pk = :pk AND due_at <= :now",
            ExpressionAttributeValues=encoded({":pk": f"owed#{shard}", ":now": now.timestamp()}),
            Limit=limit,
        )
        return list(answer["Items"])

    # ── writing ──────────────────────────────────────────────────────────────────────────────────

    def put_clean(self, deliveries: Sequence[Delivery]) -> Sequence[DeliveryKey]:
        items = {delivery.key: _ledger_item(delivery) for delivery in deliveries}
        unwritten = batch_put(self._client, self._table, list(items.values()), self._backoff)
        places = {_place(item) for item in unwritten}
        return [key for key, item in items.items() if _place(item) in places]

    def settle(self, settlement: Settlement) -> Settled:
        steps = [self._ledger_step(settlement), *self._owed_steps(settlement)]
        effect = settlement.effect
        if effect is None:
            return Settled(written=self._write(settlement, steps), counted=False)
        key = settlement.after.key.subscription
        health = updated(self._subscriptions, health_key(key), effect_update(key, effect))
        lost = transact(self._client, [*steps, health], self._backoff)
        if lost == frozenset({len(steps)}):  # another epoch: only the ledger is written
            return Settled(written=self._write(settlement, steps), counted=False)
        written = lost is None or self._is_mine(settlement)
        return Settled(written=written, counted=written)

    def _write(self, settlement: Settlement, steps: Sequence[Step]) -> bool:
        if len(steps) == 1:
            return self._put_alone(settlement, steps[0]["Put"])
        return transact(self._client, steps, self._backoff) is None or self._is_mine(settlement)

    def _put_alone(self, settlement: Settlement, request: Mapping[str, Any]) -> bool:
        """One write unit where a transaction would cost two."""
        for _ in self._backoff.attempts():
            try:
                self._client.put_item(**request)
            except ClientError as error:
                if error_code(error) == CONDITION_FAILED:
                    return self._is_mine(settlement)
                if error_code(error) not in PASSING:
                    raise
            else:
                return True
        raise OwnFaultError(f"{self._table} stays busy")

    def _ledger_step(self, settlement: Settlement) -> Step:
        guard = Expression(creates=True)
        before = settlement.before
        guard.require_same("attempt_count", before.attempt_count if before else None)
        if before:
            guard.require_same("sequence", before.sequence)
            guard.require_same("status", before.status)
        item = _ledger_item(settlement.after)
        return {"Put": {"TableName": self._table, "Item": item, **guard.condition()}}

    def _owed_steps(self, settlement: Settlement) -> list[Step]:
        """The owed item put, or deleted where the record that was read may have one."""
        steps = []
        if settlement.owed:
            steps.append(put(self._table, _owed_item(settlement.owed)))
        before, owed = settlement.before, settlement.owed
        if before and (owed is None or owed.archived_at != before.archived_at):
            steps.append(deleted(self._table, _owed_key(before.key, before.archived_at)))
        return steps

    def _is_mine(self, settlement: Settlement) -> bool:
        """After a lost guard: whether the write that stands there is this very one, its answer lost (F08)."""
        after = settlement.after
        stored = self.read([after.key]).get(after.key)
        if stored is None:
            return False
        attempted = after.attempt_count > (settlement.before.attempt_count if settlement.before else 0)
        if attempted:
            return after.attempts[-1] in stored.attempts
        return stored == after

    def move_due(
        self, owed: Owed, *, due_at: datetime, taken_by: str | None = None, automatic_left: bool | None = None
    ) -> bool:
        mover = secrets.token_hex(8)
        move = Expression()
        move.require_same("due_at", owed.due_at.timestamp())
        move.put("due_at", due_at.timestamp())
        move.put("moved_by", mover)
        if taken_by is not None:
            move.put("taken_by", taken_by)
        if automatic_left is not None:
            move.put("automatic_left", automatic_left)
        item_key = _owed_key(owed.key, owed.archived_at)
        if update_item(self._client, self._table, item_key, move, self._backoff):
            return True
        return self._item(item_key).get("moved_by") == {"S": mover}

    def delete_owed(self, owed: Owed) -> None:
        # The record is asked again: a replay may have begun since it was read as final, and owe this item.
        final = Expression()
        final.require_any(*(("status", "=", status) for status in sorted(FINAL)))
        transact(
            self._client,
            [
                checked(self._table, _ledger_key(owed.key), final),
                deleted(self._table, _owed_key(owed.key, owed.archived_at)),
            ],
            self._backoff,
        )


def _place(item: Item) -> tuple[str, str]:
    return item["pk"]["S"], item["sk"]["S"]


def _partition(key: SubscriptionKey, kind: str, shard: int) -> str:
    return f"{prefix(key.scope)}{kind}#{key.subscription_id}#{shard}"


# ── subscriptions ────────────────────────────────────────────────────────────────────────────────


def _whole(
    key: SubscriptionKey, parts: Mapping[tuple[str, str], Item], lacking: set[tuple[str, str]]
) -> bool:
    """Whether both its items were read, and both or neither is there: half a subscription is our fault."""
    core, health = _place(core_key(key)), _place(health_key(key))
    return lacking.isdisjoint((core, health)) and (core in parts) == (health in parts)


def _standing(key: SubscriptionKey, parts: Mapping[tuple[str, str], Item]) -> Standing:
    return Standing(
        subscription_from(key, parts[_place(core_key(key))]),
        health_from(key, parts[_place(health_key(key))]),
    )


# ── ledger records ───────────────────────────────────────────────────────────────────────────────


def _ledger_key(key: DeliveryKey) -> Item:
    partition = _partition(key.subscription, "led", shard_of(key.event_id))
    return {"pk": {"S": partition}, "sk": {"S": key.event_id}}


def _ledger_item(delivery: Delivery) -> Item:
    """Defaults are left out and the attempts are one string: a clean success is under 1 KB."""
    return _ledger_key(delivery.key) | encoded(
        {
            "type": delivery.event_type,
            "resource_id": delivery.resource_id,
            "archived_at": delivery.archived_at,
            "pointer": packed(delivery.pointer),
            "status": delivery.status,
            "lane": delivery.lane,
            "sequence": delivery.sequence,
            "settled": delivery.settled or None,
            "sequence_attempts": delivery.sequence_attempts or None,
            "sequence_began_at": delivery.sequence_began_at,
            "attempts": _attempts_text(delivery.attempts),
            "attempt_count": delivery.attempt_count,
            "next_attempt_at": delivery.next_attempt_at,
            "outcome": delivery.outcome,
            "recovery_id": delivery.recovery_id,
            "replays": delivery.replays or None,
            "own_recoveries": delivery.own_recoveries or None,
            "counted_epoch": delivery.counted_epoch,
            "ttl": expiry(delivery.archived_at, LEDGER_LIFE),
        }
    )


def _deliveries(keys: Sequence[DeliveryKey], items: Sequence[Item]) -> dict[DeliveryKey, Delivery]:
    records = {_place(item): item for item in items}
    places = ((key, _place(_ledger_key(key))) for key in keys)
    return {key: _delivery(key, records[place]) for key, place in places if place in records}


def _delivery(key: DeliveryKey, item: Item) -> Delivery:
    values = decoded(item)
    return Delivery(
        key=key,
        event_type=values["type"],
        resource_id=values.get("resource_id"),
        archived_at=moment(values["archived_at"]),
        pointer=unpacked(values["pointer"]),
        status=DeliveryStatus(values["status"]),
        lane=Lane(values["lane"]),
        sequence=values["sequence"],
        settled=values.get("settled", False),
        sequence_attempts=values.get("sequence_attempts", 0),
        sequence_began_at=_moment(values.get("sequence_began_at")),
        attempts=_attempts(values.get("attempts", "[]")),
        attempt_count=values["attempt_count"],
        next_attempt_at=_moment(values.get("next_attempt_at")),
        outcome=_outcome(values.get("outcome")),
        recovery_id=values.get("recovery_id"),
        replays=tuple(values.get("replays", ())),
        own_recoveries=values.get("own_recoveries", 0),
        counted_epoch=values.get("counted_epoch"),
    )


def _attempts_text(attempts: Sequence[Attempt]) -> str | None:
    rows = [(a.n, micros(a.at), a.lane, a.status_code, a.latency_ms, a.error, a.excerpt) for a in attempts]
    return _compact(rows) if rows else None


def _attempts(text: str) -> tuple[Attempt, ...]:
    return tuple(
        Attempt(
            n=n,
            at=moment(at),
            lane=Lane(lane),
            status_code=status_code,
            latency_ms=latency_ms,
            error=error,
            excerpt=excerpt,
        )
        for n, at, lane, status_code, latency_ms, error, excerpt in json.loads(text)
    )


# ── owed items ───────────────────────────────────────────────────────────────────────────────────


def _cursor(owed: Owed) -> Cursor:
    return Cursor(archived_at=owed.archived_at, event_id=owed.key.event_id)


def _owed_sort_key(place: Cursor) -> str:
    return f"{micros(place.archived_at):016d}#{place.event_id}"


def _owed_key(key: DeliveryKey, archived_at: datetime) -> Item:
    sort_key = _owed_sort_key(Cursor(archived_at=archived_at, event_id=key.event_id))
    partition = _partition(key.subscription, "owed", shard_of(key.event_id))
    return {"pk": {"S": partition}, "sk": {"S": sort_key}}


def _owed_item(owed: Owed) -> Item:
    """`due_at` is in seconds to the microsecond: the index's key, and the guard of `move_due`."""
    spread = zlib.crc32(f"{owed.key.subscription.subscription_id}{owed.key.event_id}".encode())
    return _owed_key(owed.key, owed.archived_at) | encoded(
        {
            "type": owed.event_type,
            "resource_id": owed.resource_id,
            "pointer": packed(owed.pointer),
            "status": owed.status,
            "due_pk": f"owed#{spread % DUE_SHARDS}",
            "due_at": owed.due_at.timestamp(),
            "expires_at": owed.expires_at,
            "outcome": owed.outcome,
            "attempt_count": owed.attempt_count,
            "taken_by": owed.taken_by,
            "tried_by": owed.tried_by,
            "automatic_left": owed.automatic_left,
            "ttl": expiry(owed.archived_at, LEDGER_LIFE),
        }
    )


def _owed(item: Item) -> Owed:
    values = decoded(item)
    scope, (_, subscription_id, _) = scope_of(values["pk"])
    archived_at, _, event_id = values["sk"].partition("#")
    return Owed(
        key=DeliveryKey(SubscriptionKey(scope, subscription_id), event_id),
        event_type=values["type"],
        resource_id=values.get("resource_id"),
        archived_at=moment(int(archived_at)),
        pointer=unpacked(values["pointer"]),
        status=DeliveryStatus(values["status"]),
        due_at=moment(round(values["due_at"] * 1_000_000)),
        expires_at=moment(values["expires_at"]),
        outcome=_outcome(values.get("outcome")),
        attempt_count=values["attempt_count"],
        taken_by=values.get("taken_by"),
        tried_by=values.get("tried_by"),
        automatic_left=values["automatic_left"],
    )


def _moment(stored: int | None) -> datetime | None:
    return None if stored is None else moment(stored)


def _outcome(stored: str | None) -> Outcome | None:
    return None if stored is None else Outcome(stored)

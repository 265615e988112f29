"""Subscriptions and their routes, in the Subscriptions table; the transaction that changes a status.

A subscription is several items: `core` (what a delivery reads), `profile`, `health`, one per edited
filter, one that makes its endpoint unique, and while it is active one per pattern that routes to it.
"""

import hashlib
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import fields, replace
from datetime import datetime, timedelta
from typing import Any

from cachetools import LRUCache

from hookkeeper.adapters.dynamodb import Backoff, Item, decoded, encoded, expiry, micros, pages, prefix
from hookkeeper.adapters.dynamodb_audit import audit_item
from hookkeeper.adapters.dynamodb_due import due_keys, listed_keys, read_all
from hookkeeper.adapters.dynamodb_expressions import (
    MAX_TRANSACTION,
    Expression,
    Step,
    checked,
    deleted,
    put,
    put_new,
    transact,
    updated,
)
from hookkeeper.adapters.dynamodb_health import (
    clear_streaks,
    ending_step,
    health_from,
    health_item,
    recovery_step,
    rewrite,
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
from hookkeeper.domain.audit import AuditRecord
from hookkeeper.domain.errors import DuplicateSubscriptionError, OwnFaultError
from hookkeeper.domain.event import candidate_patterns
from hookkeeper.domain.health import Health
from hookkeeper.domain.subscription import FilterChange, Profile, Status, Subscription
from hookkeeper.domain.tenancy import Scope, SubscriptionKey
from hookkeeper.ports import Edit, Standing, SubscriptionPage, Transition

ANY_RESOURCE = "*"
"""Stands in a route's key for no resource; no resource can be called so."""

UNVERIFIED_LIFE = timedelta(days=7)
"""How long a subscription that was never verified is still shown after its end (SPEC §3)."""

CACHE_LIFE_SECONDS = 10.0
"""The routing cache's life, on which first activations and added patterns wait (SPEC §7)."""

CACHED_IDS = 200_000

_TOKEN = "token"
_AUDIT_STEP = 2
"""Where a transition has its audit record: one that exists already says that it was made, and is over."""

_NOT_STORED = frozenset({"key"})
_WRITTEN_APART = frozenset({"key", "version", "writer"})


def subscription_from(key: SubscriptionKey, item: Item) -> Subscription:
    """The subscription of a `core` item."""
    return restored(Subscription, decoded(item), key=key)


class DynamoDBSubscriptions:
    """The Subscriptions port."""

    def __init__(
        self,
        client: Any,
        *,
        subscriptions_table: str,
        audit_table: str,
        notices_table: str,
        backoff: Backoff | None = None,
    ) -> None:
        self._client = client
        self._table = subscriptions_table
        self._audit = audit_table
        self._notices = notices_table
        self._backoff = backoff or Backoff()

    # ── reads ──

    def get(self, key: SubscriptionKey) -> Subscription | None:
        item = self._item(core_key(key))
        return subscription_from(key, item) if item else None

    def profile(self, key: SubscriptionKey) -> Profile | None:
        item = self._item(_profile_key(key))
        return restored(Profile, decoded(item)) if item else None

    def standing(self, key: SubscriptionKey) -> Standing | None:
        return self._standings([key]).get(key)

    def filters(self, key: SubscriptionKey) -> Sequence[FilterChange]:
        query = {
            "TableName": self._table,
            "KeyConditionExpression": "pk = :pk AND begins_with(sk, :filter)",
            "ExpressionAttributeValues": encoded({":pk": partition(key), ":filter": "filter#"}),
            "ConsistentRead": True,
        }
        items = (item for page in pages(self._client, **query) for item in page)
        return [restored(FilterChange, decoded(item)) for item in items]

    def page(self, scope: Scope, *, limit: int, after: str | None = None) -> SubscriptionPage:
        found = listed_keys(
            self._client,
            self._table,
            listing=_listing(scope),
            limit=limit + 1,
            after=after,
            newest_first=True,
        )
        keys = [subscription_key(item["pk"]["S"]) for item in found]
        standings = self._standings(keys[:limit])
        more = len(keys) > limit
        return SubscriptionPage(
            [standings[key] for key in keys[:limit] if key in standings],
            keys[limit - 1].subscription_id if more else None,
        )

    def expired_tokens(self, now: datetime, *, limit: int) -> Sequence[SubscriptionKey]:
        keys = due_keys(self._client, self._table, kind=_TOKEN, now=now, limit=limit)
        items = read_all(self._client, self._table, keys, self._backoff)
        awaiting = [subscription_from(subscription_key(item["pk"]["S"]), item) for item in items]
        ended = [(at, s.key) for s in awaiting if (at := _token_end(s)) is not None and at <= now]
        return [key for _, key in sorted(ended)]

    # ── writes ──

    def create(
        self, subscription: Subscription, profile: Profile, health: Health, audit: AuditRecord
    ) -> str | None:
        key = subscription.key
        steps = [
            put_new(self._table, _core_item(replace(subscription, writer=audit.id))),
            put(self._table, _profile_item(key, profile)),
            put(self._table, health_item(health)),
            *self._reserved(subscription, _urls(subscription)),
            put_new(self._audit, audit_item(audit)),
            *(put(self._table, route) for route in _routes(subscription)),
        ]
        for _ in self._backoff.attempts():
            if transact(self._client, steps, self._backoff) is None:
                return None
            holder_id = self._holder(_urls(subscription))
            if holder_id is not None:
                return None if holder_id == subscription.id else holder_id
        raise OwnFaultError(f"{subscription.id} can be neither created nor found")

    def holder(self, subscription: Subscription) -> str | None:
        holders = filter(None, map(self._item, _urls(subscription)))
        ids = (str(item["subscription_id"]["S"]) for item in holders)
        return next((holder_id for holder_id in ids if holder_id != subscription.id), None)

    def transition(self, transition: Transition) -> bool:
        """Made again on what stands where an edit or a circuit came between that no guard is about."""
        key, base = transition.after.key, transition.before
        for _ in self._backoff.attempts():
            steps = self._steps(transition, base)
            lost = transact(self._client, steps, self._backoff)
            if lost is None:
                return True
            stored = self.standing(key)
            if stored is None:
                return False
            if stored.subscription.writer == transition.audit.id:
                return True
            if not _allowed(transition, stored) or _AUDIT_STEP in lost:
                return False
            if transition.ends is not None and len(steps) - (2 if transition.notice else 1) in lost:
                transition = replace(transition, ends=None)  # its record is gone
            if transition.notice is not None and len(steps) - 1 in lost:
                transition = replace(transition, notice=None)  # told before
            base = stored
        raise OwnFaultError(f"{key.subscription_id} does not hold still")

    def edit(self, edit: Edit) -> bool:
        key, before = edit.after.key, edit.before
        added, removed = _route_changes(before, edit.after)
        wanted = _less(_urls(edit.after), _urls(before))
        steps = self._edit_steps(edit) + [put(self._table, route) for route in added]
        steps += self._reserved(before, wanted)
        steps += [deleted(self._table, url) for url in _less(_urls(before), _urls(edit.after))]
        notice = [put_new(self._notices, notice_item(edit.notice))] if edit.notice is not None else []
        room = MAX_TRANSACTION - len(steps) - len(notice)
        steps += [deleted(self._table, route) for route in removed[:room]]
        lost = transact(self._client, [*steps, *notice], self._backoff)
        if lost == frozenset({len(steps)}):
            lost = transact(self._client, steps, self._backoff)  # told before
        if lost is not None and self._editor(key) != edit.audit.id:
            holder_id = self._holder(wanted)
            if 0 not in lost and holder_id is not None and holder_id != before.id:
                raise DuplicateSubscriptionError(holder_id)
            return False
        if removed[room:]:
            self._drop_routes(key, removed[room:])
        return True

    def _steps(self, transition: Transition, base: Standing) -> list[Step]:
        """The whole transaction on `base`; the recovery that ends and then the notice, if any, last."""
        merged = _merged(base.subscription, before=transition.before.subscription, after=transition.after)
        ends_unverified = base.subscription.status is Status.PENDING and merged.status is Status.REVOKED
        ttl = expiry(transition.audit.at, UNVERIFIED_LIFE) if ends_unverified else None
        core = _core_change(base.subscription, merged, writer=transition.audit.id)
        health = _health_change(transition, base.health)
        profile = Expression()
        for expression in (core, health, profile) if ttl else ():
            expression.put("ttl", ttl)
        was, will = _routes(base.subscription), _routes(merged)
        if was or will:
            core.require_same("event_types", list(base.subscription.event_types))
        freed = _less(_urls(base.subscription), _urls(merged))
        if freed:
            core.require_same("endpoint_url", base.subscription.endpoint_url)
            core.require_same("pending_endpoint_url", base.subscription.pending_endpoint_url)
        if transition.holds_token:
            core.require_same("token_hash", transition.before.subscription.token_hash)
        steps = [
            updated(self._table, core_key(merged.key), core),
            updated(self._table, health_key(merged.key), health),
            put_new(self._audit, audit_item(transition.audit)),
            *(deleted(self._table, route) for route in _less(was, will)),
            *(put(self._table, route) for route in _less(will, was)),
        ]
        if ttl:
            steps.append(updated(self._table, _profile_key(merged.key), profile))
        steps += [deleted(self._table, url) for url in freed]
        return steps + self._records(transition)

    def _records(self, transition: Transition) -> list[Step]:
        """What the transition does to recoveries' records, and its notice."""
        recovery, ends, notice = transition.recovery, transition.ends, transition.notice
        steps = [recovery_step(self._table, recovery)] if recovery is not None else []
        if ends is not None:
            steps.append(ending_step(self._table, transition.after.scope, ends))
        return steps + ([put_new(self._notices, notice_item(notice))] if notice is not None else [])

    def _edit_steps(self, edit: Edit) -> list[Step]:
        key, before = edit.after.key, edit.before
        core = Expression()
        core.require_same("version", before.version)
        _put_changes(core, before, replace(edit.after, status=before.status))
        core.put("editor", edit.audit.id)
        steps = [
            updated(self._table, core_key(key), core),
            put_new(self._audit, audit_item(edit.audit)),
            *(put(self._table, _filter_item(key, change)) for change in edit.filter_changes),
        ]
        if edit.profile is not None:
            steps.append(put(self._table, _profile_item(key, edit.profile)))
        return steps

    def _drop_routes(self, key: SubscriptionKey, routes: Sequence[Item]) -> None:
        """Delete routes that no longer fitted into the edit's transaction, but none that is wanted again."""
        for _ in self._backoff.attempts():
            subscription = self.get(key)
            if subscription is None:
                return
            wanted = _routes(subscription)
            unchanged = Expression()
            unchanged.require_same("version", subscription.version)
            steps = [
                checked(self._table, core_key(key), unchanged),
                *(deleted(self._table, route) for route in routes if route not in wanted),
            ]
            if transact(self._client, steps, self._backoff) is None:
                return

    def _standings(self, keys: Sequence[SubscriptionKey]) -> dict[SubscriptionKey, Standing]:
        wanted = [item_key(key) for key in keys for item_key in (core_key, health_key)]
        found = read_all(self._client, self._table, wanted, self._backoff)
        items = {(item["pk"]["S"], item["sk"]["S"]): item for item in found}
        return {
            key: Standing(
                subscription_from(key, items[partition(key), "core"]),
                health_from(key, items[partition(key), "health"]),
            )
            for key in keys
            if {(partition(key), "core"), (partition(key), "health")} <= items.keys()
        }

    def _reserved(self, subscription: Subscription, urls: Sequence[Item]) -> list[Step]:
        holder = encoded({"subscription_id": subscription.id})
        return [put_new(self._table, url | holder) for url in urls]

    def _holder(self, urls: Sequence[Item]) -> str | None:
        """Whose the first of the endpoints is that is anybody's."""
        holders = filter(None, map(self._item, urls))
        return next((str(holder["subscription_id"]["S"]) for holder in holders), None)

    def _editor(self, key: SubscriptionKey) -> str | None:
        item = self._item(core_key(key)) or {}
        return item["editor"]["S"] if "editor" in item else None

    def _item(self, key: Item) -> Item | None:
        answer = self._client.get_item(TableName=self._table, Key=key, ConsistentRead=True)
        item: Item | None = answer.get("Item")
        return item


class DynamoDBRoutes:
    """The Routes port: consistent key reads, kept for ten seconds from before the first of them."""

    def __init__(
        self,
        client: Any,
        *,
        subscriptions_table: str,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._client = client
        self._table = subscriptions_table
        self._monotonic = monotonic
        self._lock = threading.Lock()
        self._cache: LRUCache[tuple[Scope, str, str | None], tuple[float, tuple[str, ...]]] = LRUCache(
            CACHED_IDS, getsizeof=lambda entry: 1 + len(entry[1])
        )

    def matching(self, scope: Scope, *, event_type: str, resource_id: str | None) -> Sequence[str]:
        wanted = (scope, event_type, resource_id)
        now = self._monotonic()
        with self._lock:
            read_at, ids = self._cache.get(wanted, (float("-inf"), ()))
        if now - read_at < CACHE_LIFE_SECONDS:
            return ids
        ids = tuple(sorted(self._read(scope, event_type, resource_id)))
        if len(ids) < CACHED_IDS:
            with self._lock:
                self._cache[wanted] = (now, ids)
        return ids

    def _read(self, scope: Scope, event_type: str, resource_id: str | None) -> set[str]:
        resources = [ANY_RESOURCE] if resource_id is None else [ANY_RESOURCE, resource_id]
        found: set[str] = set()
        for resource in resources:
            for pattern in candidate_patterns(event_type):
                query = {
                    "TableName": self._table,
                    "KeyConditionExpression": "pk = :pk",
                    "ExpressionAttributeValues": encoded({":pk": _route_partition(scope, resource, pattern)}),
                    "ConsistentRead": True,
                }
                for page in pages(self._client, **query):
                    found.update(item["sk"]["S"] for item in page)
        return found


# ── a transition's guards and changes ────────────────────────────────────────────────────────────


def _allowed(transition: Transition, stored: Standing) -> bool:
    """Whether the transition's guards hold on what stands now."""
    before, health = transition.before, stored.health
    same_status = stored.subscription.status is before.subscription.status
    same_epoch = health.epoch == before.health.epoch
    lock_untouched = transition.health.recovery == before.health.recovery
    same_lock = lock_untouched or health.recovery.version == before.health.recovery.version
    # An outage that ends is the one whose window the recovery got; one that goes on keeps the earlier start.
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
    """`stored` with what the transition changes: an edit that came between keeps its words."""
    changed = {
        f.name: getattr(after, f.name)
        for f in fields(Subscription)
        if f.name not in _WRITTEN_APART and getattr(before, f.name) != getattr(after, f.name)
    }
    return replace(stored, **changed)


def _core_change(base: Subscription, merged: Subscription, *, writer: str) -> Expression:
    expression = Expression()
    expression.require_same("status", base.status)
    _put_changes(expression, base, merged)
    expression.put("writer", writer)
    return expression


def _put_changes(expression: Expression, before: Subscription, after: Subscription) -> None:
    """What differs, a version more, and the token's place in the `due` index where that differs."""
    plain = record(after)
    for f in fields(Subscription):
        if f.name not in _WRITTEN_APART and getattr(before, f.name) != getattr(after, f.name):
            expression.put(f.name, plain[f.name])
    expression.add("version", 1)
    if _token_index(after) != _token_index(before):
        for name, value in _token_index(after).items():
            expression.put(name, value)


def _health_change(transition: Transition, base: Health) -> Expression:
    after = _health_after(transition, base)
    expression = Expression()
    rewrite(expression, base=base, after=after)
    expression.require_same("outage_from", base.outage_from)
    if after.epoch != base.epoch:
        expression.put("epoch", after.epoch)
        expression.put("epoch_at", after.epoch_at)
    if transition.holds_streak:
        expression.require_same("first_failure_at", transition.before.health.first_failure_at)
        expression.require("consecutive_failures", ">=", transition.before.health.consecutive_failures)
    if transition.clears_streaks:
        clear_streaks(expression)
        expression.put("not_before", None)
    return expression


def _health_after(transition: Transition, base: Health) -> Health:
    before, after = transition.before.health, transition.health
    circuit = base.circuit
    if after.circuit != before.circuit:
        circuit = replace(after.circuit, version=base.circuit.version + 1)
    outage_from = after.outage_from
    if outage_from is not None and base.outage_from is not None:
        outage_from = min(outage_from, base.outage_from)
    return replace(
        base,
        epoch=after.epoch,
        epoch_at=after.epoch_at,
        circuit=circuit,
        outage_from=outage_from,
        check_at=after.check_at,
        warn_at=after.warn_at,
        recovery=base.recovery if after.recovery == before.recovery else after.recovery,
    )


# ── items ────────────────────────────────────────────────────────────────────────────────────────


def _core_item(subscription: Subscription) -> Item:
    listed = {"list_pk": _listing(subscription.scope), "list_sk": subscription.id}
    stored = record(subscription, without=_NOT_STORED) | listed | _token_index(subscription)
    return core_key(subscription.key) | encoded(stored)


def _token_index(subscription: Subscription) -> dict[str, str | int | None]:
    end = _token_end(subscription)
    if end is None:
        return {"due_pk": None, "due_at": None}
    return {"due_pk": due_partition(_TOKEN, subscription.key), "due_at": int(end.timestamp())}


def _token_end(subscription: Subscription) -> datetime | None:
    return None if subscription.awaited_url is None else subscription.token_expires_at


def _listing(scope: Scope) -> str:
    return f"{prefix(scope)}subs"


def _profile_key(key: SubscriptionKey) -> Item:
    return encoded({"pk": partition(key), "sk": "profile"})


def _profile_item(key: SubscriptionKey, profile: Profile) -> Item:
    return _profile_key(key) | encoded(record(profile))


def _filter_item(key: SubscriptionKey, change: FilterChange) -> Item:
    return encoded({"pk": partition(key), "sk": f"filter#{micros(change.at)}", **record(change)})


def _urls(subscription: Subscription) -> list[Item]:
    """Keys of what makes its endpoint unique, and the staged one: none once it is revoked."""
    if subscription.status is Status.REVOKED:
        return []
    urls = filter(None, (subscription.endpoint_url, subscription.pending_endpoint_url))
    keys = [_url_key(subscription, url) for url in urls]
    return keys[:1] + [key for key in keys[1:] if key not in keys[:1]]


def _url_key(subscription: Subscription, url: str) -> Item:
    """The URL without one trailing slash of the path, and the resource."""
    path, mark, query = url.partition("?")
    unique = f"{path.removesuffix('/')}{mark}{query} {subscription.resource_id or ''}"
    digest = hashlib.sha256(unique.encode()).hexdigest()
    return encoded({"pk": f"{prefix(subscription.scope)}url#{digest}", "sk": "url"})


def _route_partition(scope: Scope, resource: str, pattern: str) -> str:
    return f"{prefix(scope)}route#{resource}#{pattern}"


def _routes(subscription: Subscription) -> list[Item]:
    """The routing items that a subscription has: none unless it is active."""
    if subscription.status is not Status.ACTIVE:
        return []
    resource = subscription.resource_id or ANY_RESOURCE
    return [
        encoded({"pk": _route_partition(subscription.scope, resource, pattern), "sk": subscription.id})
        for pattern in subscription.event_types
    ]


def _route_changes(before: Subscription, after: Subscription) -> tuple[list[Item], list[Item]]:
    """The routes that an edit adds and those that it removes."""
    was, will = _routes(before), _routes(replace(after, status=before.status))
    return _less(will, was), _less(was, will)


def _less(items: Iterable[Item], others: Sequence[Item]) -> list[Item]:
    return [item for item in items if item not in others]

"""Answer "where is my event?" in one call: archived, matched, each attempt, and what it waits for."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum

from hookkeeper.domain.config import Margins, RuntimeConfig
from hookkeeper.domain.consent import may_receive
from hookkeeper.domain.delivery import Delivery, DeliveryStatus, Owed
from hookkeeper.domain.errors import InvalidInputError, NotFoundError
from hookkeeper.domain.event import EventItem, checked_event_id, matches
from hookkeeper.domain.health import Health
from hookkeeper.domain.moment import rfc3339
from hookkeeper.domain.recovery import Window
from hookkeeper.domain.subscription import FilterChange, Status, Subscription, owed_from, owes
from hookkeeper.domain.tenancy import DeliveryKey, SubscriptionKey
from hookkeeper.ports import Audit, Consents, EventItems, Ledger, Standing, Subscriptions

End = tuple[str, "Waits", datetime | None]
"""Where a delivery is in words, what it waits for, and until when."""

AUDIT_READ = 100
"""How far back the status then in force is looked for; an older change is not told."""


class Waits(StrEnum):
    """What a delivery waits for."""

    NOTHING = "nothing"
    QUEUE = "queue"
    RETRY = "retry"
    CIRCUIT = "circuit"
    SUSPENSION = "suspension"
    RECOVERY = "recovery"
    PERSON = "person"


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One thing that is so (`ok`), or is not, and since when."""

    step: str
    ok: bool
    detail: str
    at: datetime | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Explanation:
    """The findings in order; what is waited for, and until when if that is known."""

    event_id: str
    findings: tuple[Finding, ...]
    waits_for: Waits
    until: datetime | None = None

    @property
    def summary(self) -> str:
        return self.findings[-1].detail


def explain(
    key: SubscriptionKey,
    event_id: str,
    *,
    now: datetime,
    config: RuntimeConfig,
    margins: Margins,
    subscriptions: Subscriptions,
    events: EventItems,
    ledger: Ledger,
    audit: Audit,
    consents: Consents,
) -> Explanation:
    """What became of the event here. Raises NotFoundError where there is no such subscription."""
    standing = subscriptions.standing(key)
    if standing is None:
        raise NotFoundError("subscription", key.subscription_id)
    item = _item(key, event_id, events)
    if item is None:
        detail = "no event of this id was archived in this tenant and mode; it may not have arrived yet"
        return _ended(event_id, [Finding(step="archived", ok=False, detail=detail)])
    archived = Finding(
        step="archived",
        ok=True,
        at=item.archived_at,
        detail=f"{item.type}, archived and routed to {item.matches} subscriptions",
    )
    delivery_key = DeliveryKey(key, item.id)
    delivery = ledger.read([delivery_key]).get(delivery_key)
    filters = subscriptions.filters(key)
    early = _is_early(standing.subscription, filters, item)
    matched = _matched(standing.subscription, filters, item, margins, audit, consents, early=early)
    findings = [archived, matched, *_attempts(delivery)]
    if delivery is None and not matched.ok:
        return _ended(event_id, findings)
    owed = ledger.owed_item(delivery_key, archived_at=delivery.archived_at) if delivery else None
    missed = early and delivery is None and now > item.archived_at + margins.outage
    detail, waits, until = _end(standing, item, delivery, owed, now, config, may_be_missed=missed)
    succeeded = delivery is not None and delivery.status is DeliveryStatus.SUCCEEDED
    end = Finding(step="now", ok=succeeded, detail=detail)
    return Explanation(event_id=event_id, findings=(*findings, end), waits_for=waits, until=until)


def _ended(event_id: str, findings: list[Finding]) -> Explanation:
    return Explanation(event_id=event_id, findings=tuple(findings), waits_for=Waits.NOTHING)


def _item(key: SubscriptionKey, event_id: str, events: EventItems) -> EventItem | None:
    try:
        place = (key.scope, checked_event_id(event_id))
    except InvalidInputError:
        return None
    return events.routed([place]).get(place)


def _matched(
    subscription: Subscription,
    filters: Sequence[FilterChange],
    item: EventItem,
    margins: Margins,
    audit: Audit,
    consents: Consents,
    *,
    early: bool,
) -> Finding:
    """Whether the subscription is owed the event, or the first clause that says no."""
    refusal = _without_consent(subscription, item, consents) or _refusal(subscription, filters, item, margins)
    if refusal is not None:
        return Finding(step="matched", ok=False, detail=refusal)
    then = _status_then(subscription, item, audit)
    patterns = ", ".join(p for p in subscription.event_types if matches([p], item.type))
    was = f"; the subscription was {then} then" if then else ""
    but = "; it came before that was in force everywhere, and is owed all the same" if early else ""
    return Finding(step="matched", ok=True, detail=f"matched by {patterns}{was}{but}")


def _refusal(
    subscription: Subscription, filters: Sequence[FilterChange], item: EventItem, margins: Margins
) -> str | None:
    if subscription.resource_id not in (None, item.resource_id):
        return f"resource: the subscription is for {subscription.resource_id} alone"
    if not matches(subscription.event_types, item.type):
        return f"type: {item.type} matches none of {', '.join(subscription.event_types)}"
    first = subscription.first_active_at
    if first is None:
        return f"status: it has never been active, and is {subscription.status}"
    if not owed_from(subscription, archived_at=item.archived_at, routing_cache=margins.routing_cache):
        activated = rfc3339(first - margins.routing_cache)
        return f"status: its first activation was at {activated}, after the event"
    if not _owes(subscription, filters, item, routing_cache=margins.routing_cache):
        return "type: the event types in force when it was archived did not match"
    return None


def _is_early(subscription: Subscription, filters: Sequence[FilterChange], item: EventItem) -> bool:
    """Whether it came before its filter, or the activation, was in force everywhere."""
    return not _owes(subscription, filters, item, routing_cache=timedelta(0))


def _owes(
    subscription: Subscription, filters: Sequence[FilterChange], item: EventItem, *, routing_cache: timedelta
) -> bool:
    return owes(
        subscription,
        filters,
        event_type=item.type,
        resource_id=item.resource_id,
        archived_at=item.archived_at,
        routing_cache=routing_cache,
    )


def _without_consent(subscription: Subscription, item: EventItem, consents: Consents) -> str | None:
    application_id = subscription.application_id
    if application_id is None:
        return None
    consent = consents.get(subscription.scope, application_id)
    if may_receive(application_id, consent, event_type=item.type, archived_at=item.archived_at):
        return None
    return f"consent: the tenant's consent to {application_id} does not cover it"


def _status_then(subscription: Subscription, item: EventItem, audit: Audit) -> str | None:
    records = audit.of(subscription.scope, subscription.id, limit=AUDIT_READ)
    changes = (r.after["status"] for r in records if r.at <= item.archived_at and "status" in r.after)
    return next(changes, None)


def _attempts(delivery: Delivery | None) -> Iterator[Finding]:
    for attempt in delivery.attempts if delivery else ():
        ok = attempt.error is None
        answer = f"HTTP {attempt.status_code}" if attempt.status_code is not None else attempt.error
        yield Finding(
            step="attempt",
            ok=ok,
            at=attempt.at,
            detail=f"attempt {attempt.n}, {attempt.lane}: {answer} after {attempt.latency_ms} ms",
        )


def _end(
    standing: Standing,
    item: EventItem,
    delivery: Delivery | None,
    owed: Owed | None,
    now: datetime,
    config: RuntimeConfig,
    *,
    may_be_missed: bool,
) -> End:
    """Where the delivery is now, what it waits for, and until when.

    `may_be_missed`: no routing cache need have known of the subscription, and no queue has it any more.
    """
    if standing.subscription.status is Status.REVOKED and (delivery is None or not delivery.final):
        return "discarded: the subscription is revoked", Waits.NOTHING, None
    if delivery is not None and delivery.final:
        return _final(delivery)
    if now >= item.archived_at + config.retention:
        return "expired: it was not delivered within retention", Waits.NOTHING, None
    if delivery is not None and delivery.status is DeliveryStatus.EXHAUSTED and owed is not None:
        return _exhausted(standing, owed)
    missed_until = item.archived_at + config.retention if may_be_missed else None
    if held := _held_by(standing, item, now, missed_until):
        return held
    if delivery is not None and delivery.status is DeliveryStatus.RETRYING:
        at = delivery.next_attempt_at
        return "retrying: the next attempt has its time", Waits.RETRY, at
    if delivery is not None:
        return "held: it waits for the next recovery", Waits.RECOVERY, None
    return "queued: its first attempt is due now", Waits.QUEUE, None


def _final(delivery: Delivery) -> End:
    if delivery.status is DeliveryStatus.SUCCEEDED:
        return "succeeded", Waits.NOTHING, None
    if delivery.status is DeliveryStatus.EXPIRED:
        return "expired: it was not delivered within retention", Waits.NOTHING, None
    return "discarded: it is no longer wanted", Waits.NOTHING, None


def _exhausted(standing: Standing, owed: Owed) -> End:
    if standing.subscription.status is Status.SUSPENDED:
        return "exhausted: re-enable the subscription to deliver it", Waits.SUSPENSION, None
    if owed.automatic_left:
        return "exhausted: a recovery tries it once more", Waits.RECOVERY, owed.due_at
    detail = "exhausted: resend it, or start a recovery, before it expires"
    return detail, Waits.PERSON, owed.expires_at


def _held_by(standing: Standing, item: EventItem, now: datetime, missed_until: datetime | None) -> End | None:
    """The outage, the recovery or the person that a delivery waits for, if there is one."""
    health = standing.health
    if missed_until is not None and not _in_an_outage(health, item):
        detail = "owed, and perhaps never routed: a replay of its time sends it"
        return detail, Waits.PERSON, missed_until
    if standing.subscription.status is Status.SUSPENDED:
        return "owed: the subscription is suspended; re-enable it", Waits.SUSPENSION, None
    if health.circuit.is_open:
        until = health.circuit.open_until
        return "owed: the endpoint's circuit is open", Waits.CIRCUIT, until
    if any(_within(window, item.archived_at) for window in health.recovery.windows):
        return f"owed: recovery {health.recovery.id} will send it", Waits.RECOVERY, None
    return _postponed(health, now)


def _in_an_outage(health: Health, item: EventItem) -> bool:
    """Whether the present outage or a window that a recovery has yet to read holds it."""
    present = health.outage_from is not None and item.archived_at >= health.outage_from
    return present or any(_within(window, item.archived_at) for window in health.recovery.windows)


def _postponed(health: Health, now: datetime) -> End | None:
    if health.not_before is not None and health.not_before > now:
        detail = "owed: the endpoint asked for quiet (Retry-After)"
        return detail, Waits.RETRY, health.not_before
    return None


def _within(window: Window, moment: datetime) -> bool:
    unread = window.cursor is None or window.cursor.archived_at <= moment
    return window.start <= moment <= window.end and unread

"""The nouns, ready-made: each `a_…()` is valid as it stands, and takes what the test cares about."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

from hookkeeper.domain.access import ApiKey, KeyKind, Tenant, key_hash
from hookkeeper.domain.audit import Actor, AuditRecord
from hookkeeper.domain.delivery import Attempt, Delivery, DeliveryStatus, Lane, Owed, Parcel
from hookkeeper.domain.event import ArchivedEvent, ArchivePointer, Event, EventItem
from hookkeeper.domain.health import Health, Streak
from hookkeeper.domain.notice import Notice, NoticeKind
from hookkeeper.domain.outcome import Answer, Outcome
from hookkeeper.domain.recovery import RETENTION, Recovery, RecoveryKind, RecoveryLock, RecoveryStatus
from hookkeeper.domain.signature import Secret
from hookkeeper.domain.subscription import DisabledReason, Profile, Status, Subscription
from hookkeeper.domain.tenancy import DeliveryKey, Mode, Scope, SubscriptionKey
from hookkeeper.ports import Edit, Standing, Transition

NOW = datetime(2026, 12, 1, 12, 0, tzinfo=UTC)
MINUTE = timedelta(minutes=1)
HOUR = timedelta(hours=1)
ACTOR = Actor(id="key_01owner", source_ip="198.51.100.7")
ENDPOINT_URL = "https://hooks.customer.example/in"


def a_scope(tenant_id: str = "acme", mode: Mode = Mode.LIVE) -> Scope:
    return Scope(tenant_id, mode)


def a_key(number: int = 1, scope: Scope | None = None) -> SubscriptionKey:
    """The n-th subscription's key; ids sort by number."""
    return SubscriptionKey(scope or a_scope(), f"sub_{number:026d}")


def a_delivery_key(event: int = 1, subscription: SubscriptionKey | None = None) -> DeliveryKey:
    return DeliveryKey(subscription or a_key(), f"evt_{event:026d}")


def a_subscription(**changes: Any) -> Subscription:
    """An active subscription to every event type, first active a day ago.

    `endpoint_url` follows the key's number, so that no two are duplicates.
    """
    key = changes.pop("key", a_key())
    plain = Subscription(
        key=key,
        endpoint_url=f"{ENDPOINT_URL}/{key.subscription_id[-4:]}",
        event_types=("*",),
        status=Status.ACTIVE,
        secret_ref=f"kms:{key.subscription_id}/versions/1",
        created_at=NOW - 24 * HOUR,
        updated_at=NOW - 24 * HOUR,
        first_active_at=NOW - 24 * HOUR,
    )
    return replace(plain, **changes)


def a_pending_subscription(**changes: Any) -> Subscription:
    pending = {
        "status": Status.PENDING,
        "first_active_at": None,
        "token_hash": "0" * 64,
        "token_expires_at": NOW + 24 * HOUR,
    }
    return a_subscription(**{**pending, **changes})


def a_suspended_subscription(**changes: Any) -> Subscription:
    suspended = {
        "status": Status.SUSPENDED,
        "disabled_at": NOW - HOUR,
        "disabled_reason": DisabledReason.REPEATED_FAILURE,
        "last_failure_status": 500,
        "status_reason": "auto_suspend:retryable:25",
    }
    return a_subscription(**{**suspended, **changes})


def a_profile(**changes: Any) -> Profile:
    return replace(Profile(owner_email="owner@customer.example", description="orders"), **changes)


def a_health(**changes: Any) -> Health:
    """Clean health of epoch 1 that has seen nothing yet."""
    return Health(key=changes.pop("key", a_key()), **changes)


def a_failing_health(count: int = 25, *, hours: int = 13, **changes: Any) -> Health:
    """`count` retryable failures, the first of them `hours` ago: over graded's limit as it stands."""
    first = NOW - hours * HOUR
    failing = {
        "streaks": {Outcome.RETRYABLE: Streak(count, first)},
        "consecutive_failures": count,
        "first_failure_at": first,
        "last_outcome": Outcome.RETRYABLE,
        "last_status_code": 500,
        "last_error": "HTTP 500",
        "last_attempt_at": NOW - MINUTE,
    }
    return a_health(**{**failing, **changes})


def a_standing(subscription: Subscription | None = None, health: Health | None = None) -> Standing:
    subscription = subscription or a_subscription()
    return Standing(subscription, health or a_health(key=subscription.key))


def an_audit_record(number: int = 1, **changes: Any) -> AuditRecord:
    plain = AuditRecord(
        scope=a_scope(),
        id=f"aud_{number:026d}",
        at=NOW,
        action="subscription.changed",
        actor=ACTOR,
        subject=a_key().subscription_id,
    )
    return replace(plain, **changes)


def a_transition(
    before: Standing, after: Subscription, *, number: int = 1, health: Health | None = None, **changes: Any
) -> Transition:
    """From `before` to `after` with the n-th audit record; health as before unless given."""
    audit = an_audit_record(number, scope=before.subscription.scope, subject=before.subscription.id)
    return Transition(
        before=before,
        after=replace(after, writer=audit.id, version=before.subscription.version + 1),
        health=health or before.health,
        audit=audit,
        **changes,
    )


def an_edit(before: Subscription, *, number: int = 1, **changes: Any) -> Edit:
    """An edit to `after` (default: an hour's maintenance), with the n-th audit record."""
    audit = an_audit_record(number, scope=before.scope, subject=before.id)
    after = changes.pop("after", replace(before, maintenance_until=NOW + HOUR))
    return Edit(before=before, after=replace(after, version=before.version + 1), audit=audit, **changes)


def an_event(number: int = 1, **changes: Any) -> Event:
    """An event whose body is a Standard Webhooks document."""
    event_type = changes.get("type", "invoice.paid")
    plain = Event(
        scope=a_scope(),
        id=f"evt_{number:026d}",
        type=event_type,
        body=f'{{"type":"{event_type}","timestamp":"2026-12-01T12:00:00Z","data":{{"n":{number}}}}}'.encode(),
    )
    return replace(plain, **changes)


def a_pointer(**changes: Any) -> ArchivePointer:
    return replace(ArchivePointer(object_key="events/1", offset=0, length=100, line=0), **changes)


def an_archived_event(event: Event | None = None, *, archived_at: datetime = NOW) -> ArchivedEvent:
    return ArchivedEvent(event=event or an_event(), archived_at=archived_at, pointer=a_pointer())


def an_event_item(event: Event | None = None, **changes: Any) -> EventItem:
    event = event or an_event()
    plain = EventItem(
        scope=event.scope,
        id=event.id,
        type=event.type,
        archived_at=NOW,
        pointer=a_pointer(),
        body_hash="0" * 64,
        resource_id=event.resource_id,
    )
    return replace(plain, **changes)


def an_attempt(n: int = 1, **changes: Any) -> Attempt:
    """A failed live attempt: HTTP 500 after 80 ms."""
    plain = Attempt(n=n, at=NOW, lane=Lane.LIVE, status_code=500, latency_ms=80, excerpt="oops")
    return replace(plain, **changes)


def a_delivery(**changes: Any) -> Delivery:
    """A delivery that failed once and is to be retried in five seconds."""
    plain = Delivery(
        key=a_delivery_key(),
        event_type="invoice.paid",
        archived_at=NOW,
        pointer=a_pointer(),
        status=DeliveryStatus.RETRYING,
        lane=Lane.LIVE,
        sequence_attempts=1,
        sequence_began_at=NOW,
        attempts=(an_attempt(),),
        attempt_count=1,
        next_attempt_at=NOW + timedelta(seconds=5),
    )
    return replace(plain, **changes)


def a_delivered(**changes: Any) -> Delivery:
    """A delivery whose first attempt succeeded."""
    succeeded = {
        "status": DeliveryStatus.SUCCEEDED,
        "settled": True,
        "attempts": (an_attempt(status_code=200, excerpt="ok"),),
        "next_attempt_at": None,
        "outcome": Outcome.SUCCESS,
    }
    return a_delivery(**{**succeeded, **changes})


def an_owed(**changes: Any) -> Owed:
    """The owed item of `a_delivery()`: retrying, due in a minute, expiring with retention."""
    plain = Owed(
        key=a_delivery_key(),
        event_type="invoice.paid",
        archived_at=NOW,
        pointer=a_pointer(),
        status=DeliveryStatus.RETRYING,
        due_at=NOW + MINUTE,
        expires_at=NOW + RETENTION,
        attempt_count=1,
    )
    return replace(plain, **changes)


def a_parcel(**changes: Any) -> Parcel:
    """The live message of a first attempt."""
    plain = Parcel(
        key=a_delivery_key(),
        event_type="invoice.paid",
        archived_at=NOW,
        pointer=a_pointer(),
        body=an_event().body,
    )
    return replace(plain, **changes)


def a_recovery(number: int = 1, **changes: Any) -> Recovery:
    plain = Recovery(
        key=a_key(),
        id=f"rec_{number:026d}",
        kind=RecoveryKind.REENABLE,
        status=RecoveryStatus.RUNNING,
        started_at=NOW,
        lower_bound=NOW - RETENTION,
        rate_per_second=5.0,
        actor=ACTOR.id,
    )
    return replace(plain, **changes)


def a_lock(recovery: Recovery | None = None, **changes: Any) -> RecoveryLock:
    """The lock of a recovery, held with half an hour's lease."""
    recovery = recovery or a_recovery()
    plain = RecoveryLock(
        version=1,
        id=recovery.id,
        generation=recovery.generation,
        status=recovery.status,
        kind=recovery.kind,
        lease_until=NOW + HOUR / 2,
    )
    return replace(plain, **changes)


def a_notice(**changes: Any) -> Notice:
    plain = Notice(
        key=a_key(),
        kind=NoticeKind.SUSPENDED,
        dedupe="epoch-1",
        at=NOW,
        owner_email="owner@customer.example",
        endpoint_url=ENDPOINT_URL,
        facts={"failures": "25", "waiting": "at least 100"},
    )
    return replace(plain, **changes)


def a_secret(number: int = 1) -> Secret:
    return Secret(bytes([number]) * 24)


def an_answer(status_code: int = 200, **changes: Any) -> Answer:
    """A response in time: 200, unless told otherwise; `fault=…` gives an answer without one."""
    if changes.get("fault") is not None:
        return Answer(**changes)
    return Answer(status_code=status_code, latency_ms=80, **changes)


def a_tenant(tenant_id: str = "acme", **changes: Any) -> Tenant:
    return replace(Tenant(id=tenant_id, name="Acme", created_at=NOW), **changes)


def an_api_key(number: int = 1, **changes: Any) -> ApiKey:
    plain = ApiKey(
        id=f"key_{number:026d}",
        sha256=key_hash(f"key {number}"),
        kind=KeyKind.LIVE,
        rights=frozenset(),
        created_at=NOW,
        last4="abcd",
        tenant_id="acme",
        mode=Mode.LIVE,
    )
    return replace(plain, **changes)

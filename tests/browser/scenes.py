"""A tenant with subscriptions in every state, so that each screen has something to show."""

from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

from hookkeeper.domain.circuit import Circuit
from hookkeeper.domain.delivery import Delivery, DeliveryStatus, Lane
from hookkeeper.domain.health import Health, Streak
from hookkeeper.domain.notice import NoticeKind, NoticeStatus
from hookkeeper.domain.outcome import Outcome
from hookkeeper.domain.recovery import Recovery, RecoveryKind, RecoveryStatus
from hookkeeper.domain.subscription import DisabledReason, Status
from hookkeeper.domain.tenancy import DeliveryKey, SubscriptionKey

from tests.builders import (
    HOUR,
    MINUTE,
    a_delivery,
    a_failing_health,
    a_health,
    a_key,
    a_lock,
    a_notice,
    a_pending_subscription,
    a_profile,
    a_recovery,
    a_subscription,
    a_suspended_subscription,
    a_tenant,
    an_attempt,
    an_audit_record,
    an_event,
    an_owed,
)
from tests.functions.console_bench import ConsoleBench

TYPES = ("invoice.paid", "invoice.line.added", "order.made", "customer.updated")
HEALTHY, FAILING, SUSPENDED, PAUSED, PENDING, REVOKED, CATCHING_UP, SILENT = (a_key(n) for n in range(1, 9))


def stage(bench: ConsoleBench) -> None:
    """Fill the world as of now."""
    now = datetime.now(UTC).replace(microsecond=0)
    bench.world.tenants |= {
        "acme": a_tenant(created_at=now - 400 * HOUR),
        "beta": a_tenant("beta", name="Beta & Sons"),
    }
    _subscriptions(bench, now)
    _history(bench, now)
    bench.dead_letters.lying["Deliveries"] = 3
    bench.dead_letters.lying["Ingest"] = 1


def _named(key: SubscriptionKey, url: str, now: datetime) -> dict[str, Any]:
    return {
        "key": key,
        "endpoint_url": url,
        "created_at": now - 900 * HOUR,
        "updated_at": now - 3 * HOUR,
        "first_active_at": now - 900 * HOUR,
    }


def _failing(key: SubscriptionKey, count: int, hours: int, now: datetime, **changes: Any) -> Health:
    first = now - hours * HOUR
    return a_failing_health(
        count,
        key=key,
        streaks={Outcome.RETRYABLE: Streak(count, first)},
        first_failure_at=first,
        last_attempt_at=now - MINUTE,
        last_success_at=first - MINUTE,
        **changes,
    )


def _subscriptions(bench: ConsoleBench, now: datetime) -> None:
    world = bench.world
    profile = a_profile(description="Paid invoices into the ledger", metadata={"team": "billing"})
    world.add(
        a_subscription(
            **_named(HEALTHY, "https://hooks.acme.example/invoices", now),
            event_types=("invoice.*",),
            headers={"X-Api-Key": "very-secret-value"},
        ),
        a_health(key=HEALTHY, last_success_at=now - 3 * MINUTE, last_attempt_at=now - 3 * MINUTE),
        profile,
    )
    world.add(
        a_subscription(**_named(FAILING, "https://shop.acme.example/webhooks/in?source=hookkeeper", now)),
        _failing(FAILING, 14, 5, now, circuit=Circuit(open_until=now + 4 * MINUTE), outage_from=now - HOUR),
        profile,
    )
    world.add(
        a_suspended_subscription(
            **_named(SUSPENDED, "https://orders.acme.example/a/rather/long/path/of/an/endpoint", now),
            disabled_at=now - 2 * HOUR,
            last_failure_status=502,
            event_types=("order.*", "customer.updated"),
        ),
        _failing(SUSPENDED, 31, 14, now, last_status_code=502, outage_from=now - 3 * HOUR),
        profile,
    )
    world.add(
        a_suspended_subscription(
            **_named(PAUSED, "https://staging.acme.example/hook", now),
            disabled_at=now - 26 * HOUR,
            disabled_reason=DisabledReason.MANUAL,
            status_reason="paused",
        ),
        a_health(key=PAUSED, last_success_at=now - 27 * HOUR, outage_from=now - 26 * HOUR),
    )
    world.add(
        a_pending_subscription(
            key=PENDING, endpoint_url="https://new.acme.example/hook", token_expires_at=now + 22 * HOUR
        )
    )
    world.add(a_subscription(**_named(REVOKED, "https://old.acme.example/hook", now), status=Status.REVOKED))
    recovery = _recovery(CATCHING_UP, now)
    world.add(
        a_subscription(**_named(CATCHING_UP, "https://crm.acme.example/events", now)),
        a_health(key=CATCHING_UP, last_success_at=now, last_attempt_at=now, recovery=a_lock(recovery)),
    )
    world.recoveries[recovery.key.scope, recovery.id] = recovery
    ended = replace(
        _recovery(HEALTHY, now),
        id=f"rec_{9:026d}",
        status=RecoveryStatus.COMPLETED,
        kind=RecoveryKind.AUTOMATIC,
        succeeded=1204,
        found=1204,
        sent=1204,
        failed=0,
        started_at=now - 50 * HOUR,
        ended_at=now - 49 * HOUR,
    )
    world.recoveries[ended.key.scope, ended.id] = ended
    world.add(a_subscription(**_named(SILENT, "https://quiet.acme.example/hook", now)))


def _recovery(key: SubscriptionKey, now: datetime) -> Recovery:
    return a_recovery(
        int(key.subscription_id[-4:]),
        key=key,
        started_at=now - 2 * MINUTE,
        status=RecoveryStatus.RUNNING,
        found=1204,
        sent=640,
        succeeded=602,
        failed=3,
        expired=12,
        rate_per_second=20.0,
        probe_status_code=200,
    )


def _history(bench: ConsoleBench, now: datetime) -> None:
    for key in (HEALTHY, FAILING, SUSPENDED, CATCHING_UP):
        until = now - 2 * HOUR if key == SUSPENDED else now
        for delivery in _deliveries(bench, key, until):
            bench.world.deliveries[delivery.key] = delivery
            if delivery.status in (DeliveryStatus.EXHAUSTED, DeliveryStatus.HELD):
                owed = an_owed(key=delivery.key, archived_at=delivery.archived_at, status=delivery.status)
                bench.world.owed[delivery.key, delivery.archived_at] = owed
    for n in range(6):
        record = an_audit_record(1000 + n, subject=SUSPENDED.subscription_id, at=now - (40 - 6 * n) * HOUR)
        if n == 5:
            record = replace(
                record,
                action="subscription.suspended",
                before={"status": "active"},
                after={"status": "suspended"},
                detail="auto_suspend:retryable:31",
                at=now - 2 * HOUR,
            )
        elif n == 3:
            record = replace(
                record,
                action="subscription.edited",
                before={"event_types": "order.*"},
                after={"event_types": "order.*, customer.updated"},
            )
        bench.world.audit[record.scope, record.subject, record.id] = record
    for kind, at, status in (
        (NoticeKind.AT_RISK, now - 8 * HOUR, NoticeStatus.SENT),
        (NoticeKind.SUSPENDED, now - 2 * HOUR, NoticeStatus.SENT),
    ):
        notice = a_notice(key=SUSPENDED, kind=kind, at=at, status=status)
        bench.world.notices[notice.key, notice.kind, notice.dedupe] = notice


def _deliveries(bench: ConsoleBench, key: SubscriptionKey, until: datetime) -> Sequence[Delivery]:
    made = []
    for n in range(40):
        at = until - n * 34 * MINUTE - timedelta(seconds=11 * n)
        number = int(key.subscription_id[-2:]) * 1000 + n
        event = an_event(number, type=TYPES[n % len(TYPES)])
        bench.archive.put([event], now=at)
        made.append(_delivery(key, event.id, event.type, at, fails=_fails(key, n), n=n))
    return made


def _fails(key: SubscriptionKey, n: int) -> bool:
    return {HEALTHY: n == 17, FAILING: n < 10 or n == 22, SUSPENDED: n < 28}.get(key, n > 4 and n % 9 == 0)


def _delivery(
    key: SubscriptionKey, event_id: str, kind: str, at: datetime, *, fails: bool, n: int
) -> Delivery:
    plain = a_delivery(
        key=DeliveryKey(key, event_id), event_type=kind, archived_at=at, next_attempt_at=None, settled=True
    )
    if not fails:
        attempt = an_attempt(at=at, status_code=200, excerpt='{"ok":true}', latency_ms=40 + n, error=None)
        return replace(plain, status=DeliveryStatus.SUCCEEDED, attempts=(attempt,))
    errors = ((502, "http_502", "<html>upstream connect timeout</html>"), (None, "timeout", ""))
    attempts = tuple(
        an_attempt(
            i + 1, at=at + i * MINUTE, status_code=code, error=error, excerpt=text, latency_ms=900 + 37 * n
        )
        for i, (code, error, text) in enumerate(errors)
    )
    return replace(plain, status=DeliveryStatus.EXHAUSTED, attempts=attempts, attempt_count=2, lane=Lane.LIVE)

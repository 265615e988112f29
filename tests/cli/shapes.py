"""What the API answers, made by its own models, so that the command is held to the API as it is."""

from datetime import timedelta
from typing import Any

from hookkeeper.api import (
    DeliveryOut,
    ExplanationOut,
    FindingOut,
    HealthOut,
    KeyCreated,
    KeyOut,
    RecoveryOut,
    ReenablingOut,
    SecretOut,
    Shape,
    SubscriptionCreated,
    SubscriptionOut,
    TenantOut,
    TestAccepted,
)
from hookkeeper.domain.health import Health
from hookkeeper.domain.recovery import RecoveryStatus
from hookkeeper.domain.subscription import Subscription

from tests.builders import (
    HOUR,
    NOW,
    a_delivery,
    a_health,
    a_pending_subscription,
    a_profile,
    a_recovery,
    a_subscription,
    a_tenant,
    an_api_key,
    an_attempt,
)

SECRET = "whsec_AAECAwQFBgcICQoLDA0ODxAREhMUFRYX"


def told(shape: Shape) -> dict[str, Any]:
    return shape.model_dump(mode="json")


def page(*items: dict[str, Any], cursor: str | None = None) -> dict[str, Any]:
    return {"data": list(items), "has_more": cursor is not None, "next_cursor": cursor}


def subscription(
    present: Subscription | None = None, health: Health | None = None, *, owed: int = 0
) -> dict[str, Any]:
    fares = HealthOut.of(health or a_health(), owed=owed, most=100)
    return told(SubscriptionOut.of(present or a_subscription(), a_profile(), now=NOW, health=fares))


def subscription_created() -> dict[str, Any]:
    pending = a_pending_subscription()
    return told(
        SubscriptionCreated.created(
            pending,
            a_profile(),
            a_health(),
            secret=SECRET,
            challenged=True,
            warnings=["order.* matches nothing in the catalogue"],
        )
    )


def rotated() -> dict[str, Any]:
    until = NOW + 24 * HOUR
    return told(SecretOut(id=a_subscription().id, secret_ref="kms:2", secret=SECRET, old_signs_until=until))


def reenabling(recovery_id: str | None = None) -> dict[str, Any]:
    return told(ReenablingOut(subscription_id=a_subscription().id, probe=True, recovery_id=recovery_id))


def recovery(number: int = 1, **changes: Any) -> dict[str, Any]:
    return told(RecoveryOut.of(a_recovery(number, **changes), now=NOW))


def ended_recovery(status: RecoveryStatus = RecoveryStatus.COMPLETED, **changes: Any) -> dict[str, Any]:
    return recovery(status=status, ended_at=NOW + timedelta(seconds=90), **changes)


def delivery(**changes: Any) -> dict[str, Any]:
    failed = an_attempt(error="HTTP 500", excerpt="oops")
    return told(DeliveryOut.of(a_delivery(**{"attempts": (failed,), **changes})))


def tenant(tenant_id: str = "acme") -> dict[str, Any]:
    return told(TenantOut.of(a_tenant(tenant_id)))


def key(**changes: Any) -> dict[str, Any]:
    return told(KeyOut.of(an_api_key(**changes)))


def key_created(text: str) -> dict[str, Any]:
    return told(KeyCreated.created(an_api_key(), text))


def test_accepted() -> dict[str, Any]:
    return told(TestAccepted(subscription_id=a_subscription().id, event_type="endpoint.test"))


def explanation(*, arrived: bool = True) -> dict[str, Any]:
    findings = [FindingOut(step="archived", ok=arrived, detail="invoice.paid, archived", at=NOW)]
    if arrived:
        findings.append(FindingOut(step="now", ok=False, detail="retrying: it has its time", at=None))
    return told(
        ExplanationOut(
            event_id="evt_1",
            subscription_id=a_subscription().id,
            summary=findings[-1].detail,
            findings=findings,
            waits_for="retry" if arrived else "nothing",
            until=NOW + HOUR if arrived else None,
        )
    )

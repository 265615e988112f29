"""What the API answers, made by its own models, so that the command is held to the API as it is."""

from datetime import timedelta
from typing import Any

from hookkeeper.api import (
    AtRiskOut,
    AuditOut,
    ConsentOut,
    DeliveryOut,
    EventTypeOut,
    ExplanationOut,
    FindingOut,
    FuseOut,
    HealthOut,
    KeyCreated,
    KeyOut,
    PortalSessionOut,
    RecoveryOut,
    ReenablingOut,
    ReplayCountedOut,
    SecretOut,
    Shape,
    SubscriptionCreated,
    SubscriptionOut,
    TenantOut,
    TestAccepted,
)
from hookkeeper.domain.consent import Consent
from hookkeeper.domain.fuse import FuseRules, FuseState
from hookkeeper.domain.health import Health
from hookkeeper.domain.recovery import RecoveryStatus
from hookkeeper.domain.replay import Only
from hookkeeper.domain.subscription import Subscription
from hookkeeper.domain.tenancy import Mode

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
    an_audit_record,
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


def tenant(tenant_id: str = "acme", **changes: Any) -> dict[str, Any]:
    return told(TenantOut.of(a_tenant(tenant_id, **changes)))


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


def consent(present: Consent) -> dict[str, Any]:
    return told(ConsentOut.of(present))


def event_type(name: str = "invoice.paid", **changes: Any) -> dict[str, Any]:
    given = {"description": "It was paid.", "json_schema": None, "example": None, "strict": False} | changes
    return told(EventTypeOut(name=name, updated_at=NOW - HOUR, **given))


def portal_session(url: str) -> dict[str, Any]:
    return told(PortalSessionOut(url=url, expires_at=NOW + timedelta(minutes=5)))


def at_risk() -> dict[str, Any]:
    return told(
        AtRiskOut(
            tenant_id="acme",
            mode=Mode.TEST,
            subscription_id=a_subscription().id,
            endpoint_url="https://hooks.acme.example/in",
            consecutive_failures=24,
            first_failure_at=NOW - 13 * HOUR,
            last_status_code=502,
            last_error="http_502",
            limits=["retryable: 25 of 25, 13 h of 12 h"],
        )
    )


def fuse(state: FuseState) -> dict[str, Any]:
    return told(FuseOut.of(state, FuseRules(), now=NOW))


def counted(found: int = 12, *, complete: bool = True) -> dict[str, Any]:
    shape = ReplayCountedOut.model_validate(
        {
            "subscription_id": a_subscription().id,
            "from": NOW - HOUR,
            "to": NOW,
            "only": Only.OWED,
            "event_types": ["*"],
            "found": found,
            "complete": complete,
        }
    )
    return shape.model_dump(mode="json", by_alias=True)


def audit_record() -> dict[str, Any]:
    before, after = {"status": "active"}, {"status": "suspended"}
    return told(AuditOut.of(an_audit_record(1, before=before, after=after, detail="auto_suspend")))

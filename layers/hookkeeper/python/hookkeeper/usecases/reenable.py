"""Ask for a suspended subscription's re-enablement: the recovery state machine does it."""

from dataclasses import dataclass
from datetime import datetime

from hookkeeper.domain.audit import Actor
from hookkeeper.domain.config import RuntimeConfig
from hookkeeper.domain.errors import NotAllowedError, NotFoundError
from hookkeeper.domain.recovery import RecoveryKind, RecoveryLock
from hookkeeper.domain.subscription import Subscription, Trigger, next_status
from hookkeeper.domain.tenancy import SubscriptionKey
from hookkeeper.ports import Consents, Subscriptions, Workflow

SAME_START_SECONDS = 60
"""Two clicks within a minute are one execution; later ones meet the recovery's lock."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Reenabling:
    """The subscription as it stands; `recovery_id` names a re-enablement that runs already."""

    subscription: Subscription
    probe: bool
    recovery_id: str | None = None


def reenable(
    key: SubscriptionKey,
    *,
    probe: bool | None = None,
    backfill: bool = True,
    rate: float | None = None,
    actor: Actor,
    now: datetime,
    config: RuntimeConfig,
    subscriptions: Subscriptions,
    consents: Consents,
    workflow: Workflow,
) -> Reenabling:
    """Start it, or answer with the one that runs; `rate` is per second.

    `probe` None is the policy's own, or none where the endpoint was verified since the suspension.

    Raises NotFoundError, IllegalTransitionError where the subscription is not suspended, and NotAllowedError
    where it is an application's that has no consent (any more).
    """
    standing = subscriptions.standing(key)
    if standing is None:
        raise NotFoundError("subscription", key.subscription_id)
    subscription, lock = standing.subscription, standing.health.recovery
    next_status(subscription, Trigger.PROBE_PASSED)
    _check_consent(subscription, consents)
    by_policy = config.policy_of(subscription).probe_on_reenable and not subscription.proven
    probed = by_policy if probe is None else probe
    if _runs(lock, now):
        return Reenabling(subscription=subscription, probe=probed, recovery_id=lock.id)
    workflow.start(
        key,
        name=_name(key, epoch=standing.health.epoch, lock=lock, now=now),
        options={
            "kind": str(RecoveryKind.REENABLE),
            "probe": probed,
            "backfill": backfill,
            "rate": rate,
            "actor": actor.id,
            "source_ip": actor.source_ip,
        },
    )
    return Reenabling(subscription=subscription, probe=probed)


def _check_consent(subscription: Subscription, consents: Consents) -> None:
    if subscription.application_id is None:
        return
    consent = consents.get(subscription.scope, subscription.application_id)
    if consent is None or not consent.in_force:
        raise NotAllowedError(f"{subscription.application_id} has no consent of this tenant")


def _runs(lock: RecoveryLock, now: datetime) -> bool:
    """Whether a re-enablement holds the lock and lives; an automatic recovery gives way to one."""
    alive = lock.lease_until is None or now < lock.lease_until
    return lock.held and alive and lock.kind is RecoveryKind.REENABLE


def _name(key: SubscriptionKey, *, epoch: int, lock: RecoveryLock, now: datetime) -> str:
    """At most 80 characters (Step Functions' limit); subscription ids are unique over all tenants."""
    minute = int(now.timestamp()) // SAME_START_SECONDS
    return f"reenable-{key.subscription_id}-{epoch}-{lock.version}-{minute}"

"""A tenant's standing request for event types at an endpoint, and the only legal ways its status changes."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from enum import StrEnum

from hookkeeper.domain.errors import IllegalTransitionError
from hookkeeper.domain.event import matches
from hookkeeper.domain.tenancy import Scope, SubscriptionKey

DEFAULT_TIMEOUT_SECONDS = 15


class Status(StrEnum):
    PENDING = "pending"
    ACTIVE = "active"
    SUSPENDED = "suspended"
    REVOKED = "revoked"


class Trigger(StrEnum):
    """What may change a status (SPEC §3)."""

    CHALLENGE_ECHOED = "challenge_echoed"
    TOKEN_EXPIRED = "token_expired"
    POLICY_CROSSED = "policy_crossed"
    OWNER_PAUSED = "owner_paused"
    CONSENT_WITHDRAWN = "consent_withdrawn"
    PROBE_PASSED = "probe_passed"
    RESUMED_UNPROBED = "resumed_unprobed"
    REVOKED = "revoked"


class DisabledReason(StrEnum):
    PERMANENT_ERROR = "permanent_error"
    REPEATED_FAILURE = "repeated_failure"
    MANUAL = "manual"
    CONSENT_WITHDRAWN = "consent_withdrawn"


TRANSITIONS: Mapping[tuple[Status, Trigger], Status] = {
    (Status.PENDING, Trigger.CHALLENGE_ECHOED): Status.ACTIVE,
    (Status.PENDING, Trigger.TOKEN_EXPIRED): Status.REVOKED,
    (Status.ACTIVE, Trigger.POLICY_CROSSED): Status.SUSPENDED,
    (Status.ACTIVE, Trigger.OWNER_PAUSED): Status.SUSPENDED,
    (Status.ACTIVE, Trigger.CONSENT_WITHDRAWN): Status.SUSPENDED,
    (Status.SUSPENDED, Trigger.PROBE_PASSED): Status.ACTIVE,
    (Status.SUSPENDED, Trigger.RESUMED_UNPROBED): Status.ACTIVE,
    (Status.PENDING, Trigger.REVOKED): Status.REVOKED,
    (Status.ACTIVE, Trigger.REVOKED): Status.REVOKED,
    (Status.SUSPENDED, Trigger.REVOKED): Status.REVOKED,
}

_ASKED: Mapping[Trigger, str] = {
    Trigger.CHALLENGE_ECHOED: "be verified",
    Trigger.TOKEN_EXPIRED: "expire",
    Trigger.POLICY_CROSSED: "be suspended",
    Trigger.OWNER_PAUSED: "be paused",
    Trigger.CONSENT_WITHDRAWN: "lose their consent",
    Trigger.PROBE_PASSED: "be re-enabled",
    Trigger.RESUMED_UNPROBED: "be re-enabled",
    Trigger.REVOKED: "be revoked",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class FilterChange:
    """The event types in force from a moment on (the transaction's plus the routing cache's life)."""

    at: datetime
    event_types: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Subscription:
    """What a delivery needs of a subscription; what only describes it is its Profile.

    `writer` is the audit record's id of the last transition: a transition whose answer was lost finds
    itself there. `first_active_at` is the moment from which events are owed at all. `token_hash` is the
    awaited challenge's SHA-256, `token_expires_at` its end; the endpoint that must echo it is `awaited_url`.
    `pending_endpoint_url` is staged beside an endpoint that goes on receiving; `verified_at` is when the
    present endpoint echoed. `application_id` is whose it is where a tenant's consent lets an application
    hold it.
    """

    key: SubscriptionKey
    endpoint_url: str
    event_types: tuple[str, ...]
    status: Status
    secret_ref: str
    created_at: datetime
    updated_at: datetime
    resource_id: str | None = None
    headers: Mapping[str, str] = field(default_factory=dict)
    policy: str = "graded"
    timeout_seconds: int = DEFAULT_TIMEOUT_SECONDS
    maintenance_until: datetime | None = None
    version: int = 1
    first_active_at: datetime | None = None
    disabled_at: datetime | None = None
    disabled_reason: DisabledReason | None = None
    last_failure_status: int | None = None
    status_reason: str | None = None
    token_hash: str | None = None
    token_expires_at: datetime | None = None
    pending_endpoint_url: str | None = None
    verified_at: datetime | None = None
    application_id: str | None = None
    writer: str = ""

    @property
    def id(self) -> str:
        return self.key.subscription_id

    @property
    def scope(self) -> Scope:
        return self.key.scope

    @property
    def enabled(self) -> bool:
        return self.status is Status.ACTIVE

    @property
    def awaited_url(self) -> str | None:
        """The endpoint whose challenge is awaited: its own while pending, else the staged one, if any."""
        if self.status is Status.PENDING:
            return self.endpoint_url
        return None if self.status is Status.REVOKED else self.pending_endpoint_url

    @property
    def proven(self) -> bool:
        """Whether its endpoint was verified since it was suspended: that counts as the probe (SPEC §3)."""
        verified_at, disabled_at = self.verified_at, self.disabled_at
        return verified_at is not None and disabled_at is not None and verified_at >= disabled_at


@dataclass(frozen=True, slots=True, kw_only=True)
class Profile:
    """What describes a subscription and no delivery reads."""

    owner_email: str
    description: str = ""
    metadata: Mapping[str, str] = field(default_factory=dict)


def next_status(subscription: Subscription, trigger: Trigger) -> Status:
    """Where the trigger leads from the present status. Raises IllegalTransitionError."""
    try:
        return TRANSITIONS[subscription.status, trigger]
    except KeyError:
        sources = " and ".join(sorted(str(status) for status, t in TRANSITIONS if t is trigger))
        raise IllegalTransitionError(
            subscription.id, str(subscription.status), f"only {sources} subscriptions can {_ASKED[trigger]}"
        ) from None


def wants(subscription: Subscription, *, event_type: str, resource_id: str | None) -> bool:
    """Whether the present filter and resource take the event; status is not asked."""
    if subscription.resource_id is not None and subscription.resource_id != resource_id:
        return False
    return matches(subscription.event_types, event_type)


def owed_from(
    subscription: Subscription, *, archived_at: datetime, routing_cache: timedelta = timedelta(0)
) -> bool:
    """Whether the subscription had been active when the event was archived.

    Events from before the first activation are not delivered. `first_active_at` is when the last routing
    cache knew of it; with that cache's life given, the activation itself is the edge: an outage that
    follows at once must not swallow what may have been routed already.
    """
    first = subscription.first_active_at
    return first is not None and archived_at >= first - routing_cache


def matched_since(
    subscription: Subscription,
    history: Sequence[FilterChange],
    *,
    event_type: str,
    resource_id: str | None,
    archived_at: datetime,
    routing_cache: timedelta = timedelta(0),
) -> bool:
    """Whether the event is owed by the filters: it matched when archived and at every moment since.

    `history` may come in any order and need not hold the present filter; a subscription whose
    filter was never edited has none. With the routing cache's life given, a filter counts from when the
    first cache may have known of it.
    """
    if not wants(subscription, event_type=event_type, resource_id=resource_id):
        return False
    changes = sorted(history, key=lambda change: change.at)
    later = [change for change in changes if change.at > archived_at]
    if not all(matches(change.event_types, event_type) for change in later):
        return False
    then = [change for change in changes if change.at <= archived_at]
    known_early = bool(later) and later[0].at <= archived_at + routing_cache
    return not then or known_early or matches(then[-1].event_types, event_type)


def owes(
    subscription: Subscription,
    history: Sequence[FilterChange],
    *,
    event_type: str,
    resource_id: str | None,
    archived_at: datetime,
    routing_cache: timedelta,
) -> bool:
    """Whether an outage or a recovery of the subscription owes it an archived event.

    The one rule of whoever sends such an event, counts it, or explains it; consent is asked beside it.
    """
    return owed_from(subscription, archived_at=archived_at, routing_cache=routing_cache) and matched_since(
        subscription,
        history,
        event_type=event_type,
        resource_id=resource_id,
        archived_at=archived_at,
        routing_cache=routing_cache,
    )

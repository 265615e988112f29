"""The HTTPS API's shapes: what a request may say, and what an answer looks like (SPEC §5)."""

import json
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import Annotated, Any, Generic, Literal, TypeVar

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, PlainSerializer, WithJsonSchema
from pydantic_core import PydanticCustomError

from hookkeeper.domain.access import STANDARD, ApiKey, Right, Tenant
from hookkeeper.domain.audit import AuditRecord
from hookkeeper.domain.catalogue import EventType
from hookkeeper.domain.consent import Consent
from hookkeeper.domain.delivery import Delivery, DeliveryStatus, Lane
from hookkeeper.domain.errors import InvalidInputError
from hookkeeper.domain.fuse import FuseRules, FuseState
from hookkeeper.domain.health import Health
from hookkeeper.domain.moment import parse_rfc3339, rfc3339
from hookkeeper.domain.outcome import MASK, Outcome
from hookkeeper.domain.recovery import Recovery, RecoveryKind, RecoveryStatus
from hookkeeper.domain.replay import Counted, Only
from hookkeeper.domain.subscription import DisabledReason, Profile, Status, Subscription
from hookkeeper.domain.tenancy import Mode

ARCHIVED_AFTER_DAYS = 90
"""A subscription suspended for longer is left out of default lists (SPEC §3)."""


def _moment(value: object) -> object:
    if not isinstance(value, str):
        return value
    try:
        return parse_rfc3339(value, pointer="")
    except InvalidInputError as error:
        raise PydanticCustomError("invalid_time", "{detail}", {"detail": error.detail}) from None


Moment = Annotated[
    datetime,
    BeforeValidator(_moment),
    PlainSerializer(rfc3339, return_type=str),
    WithJsonSchema({"type": "string", "format": "date-time", "examples": ["2026-12-01T09:30:00.000000Z"]}),
]
"""RFC 3339, in UTC with microseconds where it is an answer."""

_T = TypeVar("_T")


class Shape(BaseModel):
    """Frozen, and nothing unknown gets in. Contents are the use cases' to judge."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)


# ── requests ─────────────────────────────────────────────────────────────────────────────────────


class SubscriptionIn(Shape):
    """POST /v1/subscriptions."""

    endpoint_url: Annotated[
        str,
        Field(
            description="https, a public host name, port 443 or a free one from 1024.",
            examples=["https://hooks.example.com/hookkeeper"],
        ),
    ]
    event_types: Annotated[
        list[str],
        Field(
            description="1 to 64 of: a type, `type.*` for every type below it, `*`.",
            examples=[["invoice.paid", "customer.*"]],
        ),
    ]
    owner_email: Annotated[
        str, Field(description="Who is told when the endpoint fails.", examples=["ops@example.com"])
    ]
    resource_id: Annotated[
        str | None, Field(description="Only events of this resource.", examples=["shop_7"])
    ] = None
    description: Annotated[str, Field(description="For people, up to 500 characters.")] = ""
    metadata: Annotated[
        dict[str, str], Field(description="Up to 20 keys of your own, 500 characters each.")
    ] = {}
    headers: Annotated[
        dict[str, str],
        Field(
            description="Up to 20 headers sent along; their values are masked whenever they are read.",
            examples=[{"x-api-key": "k1"}],
            repr=False,
        ),
    ] = {}
    policy: Annotated[str, Field(description="Preset that suspends: graded, strict or patient.")] = "graded"
    timeout_seconds: Annotated[int, Field(description="1 to 30, for the whole request.")] = 15


class SubscriptionPatch(Shape):
    """PATCH /v1/subscriptions/{id}: only what is named changes."""

    endpoint_url: Annotated[
        str | None,
        Field(
            description="Staged as `pending_endpoint_url`; the present one receives until the new one has "
            "echoed its challenge. The present URL takes back what was staged.",
            examples=["https://hooks.example.com/v2"],
        ),
    ] = None
    event_types: list[str] | None = None
    owner_email: str | None = None
    description: str | None = None
    metadata: Annotated[
        dict[str, str | None] | None, Field(description="Keys named here; null removes one.")
    ] = None
    headers: Annotated[
        dict[str, str | None] | None, Field(description="Headers named here; null removes one.", repr=False)
    ] = None
    policy: str | None = None
    timeout_seconds: int | None = None


class EnabledIn(Shape):
    """PUT /v1/subscriptions/{id}: the switch."""

    enabled: bool


class ChallengeIn(Shape):
    """POST /v1/subscriptions/{id}/verify."""

    challenge: Annotated[
        str, Field(description="`data.challenge` of the verification event that the endpoint received.")
    ]


class ReenableIn(Shape):
    """POST /v1/subscriptions/{id}/reenable."""

    probe: Annotated[
        bool | None,
        Field(description="Whether the endpoint must answer a probe first; the policy's own if absent."),
    ] = None
    backfill: Annotated[bool, Field(description="Whether what was missed is delivered.")] = True
    rate: Annotated[
        float | None, Field(description="At most so many deliveries a second.", gt=0, le=1000)
    ] = None


class ReplayIn(Shape):
    """POST /v1/subscriptions/{id}/recoveries."""

    since: Annotated[
        Moment | None, Field(alias="from", description="Archived at or after it; all that is kept if absent.")
    ] = None
    until: Annotated[
        Moment | None, Field(alias="to", description="Archived at or before it; now if absent.")
    ] = None
    only: Annotated[
        Literal["owed", "failed", "all"],
        Field(
            description="`owed`: what neither succeeded nor was discarded. `failed`: what was attempted in "
            "vain. `all`: once more what succeeded, too."
        ),
    ] = "owed"
    event_types: Annotated[
        list[str], Field(description="Types or patterns.", examples=[["invoice.paid", "order.*"]])
    ] = ["*"]
    rate: Annotated[
        float | None, Field(description="At most so many deliveries a second.", gt=0, le=1000)
    ] = None
    dry_run: Annotated[bool, Field(description="Only count what would be sent.")] = False


class RotateIn(Shape):
    """POST /v1/subscriptions/{id}/rotate-secret."""

    overlap_hours: Annotated[float, Field(description="How long the old secret signs as well, 0 to 168.")] = (
        24
    )


class MaintenanceIn(Shape):
    """POST /v1/subscriptions/{id}/maintenance."""

    until: Annotated[Moment | None, Field(description="Until when nothing is suspended; null ends it.")]


class TestIn(Shape):
    """POST /v1/subscriptions/{id}/test."""

    event_type: Annotated[str, Field(examples=["invoice.paid"])] = "endpoint.test"
    data: Annotated[dict[str, Any], Field(description="What the test event carries.")] = {}


class PortalSessionIn(Shape):
    """POST /v1/portal-sessions."""

    tenant_id: Annotated[
        str | None, Field(description="Whose console; an operator's key must say.", examples=["acme"])
    ] = None
    mode: Annotated[
        Mode | None, Field(strict=False, description="The key's own; `live` for an operator's.")
    ] = None
    ttl_seconds: Annotated[int, Field(description="How long the session lasts, 60 to 3600.")] = 3600


class TenantIn(Shape):
    """POST /v1/tenants."""

    name: Annotated[str, Field(examples=["Acme"])]
    id: Annotated[str | None, Field(description="Yours, or made by Hookkeeper.", examples=["acme"])] = None
    plan: Annotated[
        str,
        Field(description="One of the stage's usage plans: how often it may call.", examples=["standard"]),
    ] = STANDARD


class KeyIn(Shape):
    """POST /v1/tenants/{id}/keys."""

    mode: Annotated[Mode, Field(strict=False)]
    scopes: Annotated[
        list[Annotated[Right, Field(strict=False)]] | None,
        Field(description="All of a tenant's if absent."),
    ] = None
    expires_at: Moment | None = None


class ApplicationKeyIn(Shape):
    """POST /v1/applications/{id}/keys."""

    scopes: Annotated[
        list[Annotated[Right, Field(strict=False)]] | None,
        Field(description="All that an application may have, if absent."),
    ] = None
    expires_at: Moment | None = None


class ConsentIn(Shape):
    """POST /v1/consents: granted again while it is in force, it changes the event types."""

    application_id: Annotated[str, Field(examples=["erp_sync"])]
    event_types: Annotated[
        list[str],
        Field(description="What it may receive: 1 to 64 patterns.", examples=[["invoice.*"]]),
    ]
    granted_by: Annotated[
        str, Field(description="Who, at the tenant, has granted it.", examples=["ada@example.com"])
    ] = ""


class EventTypeIn(Shape):
    """PUT /v1/event-types/{name}."""

    description: Annotated[str, Field(description="For people, up to 2,000 characters.")] = ""
    json_schema: Annotated[
        dict[str, Any] | None,
        Field(
            description="JSON Schema (draft 2020-12) of `data`.",
            examples=[{"type": "object", "required": ["invoice"]}],
        ),
    ] = None
    example: Annotated[
        dict[str, Any] | None, Field(description="A `data` that fits.", examples=[{"invoice": "in_1"}])
    ] = None
    strict: Annotated[bool, Field(description="Whether events that do not fit are rejected.")] = False


# ── answers ──────────────────────────────────────────────────────────────────────────────────────


class Page(Shape, Generic[_T]):
    """A part of a list."""

    data: list[_T]
    has_more: bool
    next_cursor: Annotated[str | None, Field(description="The next part's `cursor`.")] = None


class ProblemItem(Shape):
    pointer: Annotated[str, Field(description="JSON pointer into the body, or `?name` of a parameter.")]
    code: str
    detail: str


class Problem(Shape):
    """RFC 9457."""

    type: str = "about:blank"
    title: str
    status: int
    detail: str
    code: str
    errors: list[ProblemItem] = []
    request_id: str


class StreakOut(Shape):
    count: int
    first_failure_at: Moment


class CircuitOut(Shape):
    state: Annotated[str, Field(examples=["closed", "open"])]
    open_until: Moment | None = None


class HealthOut(Shape):
    """How the endpoint fares. `owed` is counted up to 100; `owed_more` says that there are more."""

    consecutive_failures: int
    streaks: dict[str, StreakOut]
    first_failure_at: Moment | None
    last_outcome: Outcome | None
    last_status_code: int | None
    last_error: str | None
    last_attempt_at: Moment | None
    last_success_at: Moment | None
    last_delivery_at: Moment | None
    circuit: CircuitOut
    outage_from: Moment | None
    recovery_id: Annotated[str | None, Field(description="The recovery that runs now.")] = None
    owed: int | None = None
    owed_more: bool | None = None

    @classmethod
    def of(cls, health: Health, *, owed: int | None = None, most: int = 0) -> "HealthOut":
        return cls(
            consecutive_failures=health.consecutive_failures,
            streaks={
                str(outcome): StreakOut(count=streak.count, first_failure_at=streak.first_failure_at)
                for outcome, streak in health.streaks.items()
            },
            first_failure_at=health.first_failure_at,
            last_outcome=health.last_outcome,
            last_status_code=health.last_status_code,
            last_error=health.last_error,
            last_attempt_at=health.last_attempt_at,
            last_success_at=health.last_success_at,
            last_delivery_at=health.last_delivery_at,
            circuit=CircuitOut(
                state="open" if health.circuit.is_open else "closed", open_until=health.circuit.open_until
            ),
            outage_from=health.outage_from,
            recovery_id=health.recovery.id if health.recovery.held else None,
            owed=None if owed is None else min(owed, most),
            owed_more=None if owed is None else owed > most,
        )


class SubscriptionOut(Shape):
    """A subscription. Its secret is shown once, by the answers that made it."""

    id: str
    tenant_id: str
    mode: Mode
    application_id: Annotated[str | None, Field(description="The application that holds it, if one does.")]
    resource_id: str | None
    endpoint_url: str
    pending_endpoint_url: Annotated[
        str | None, Field(description="Staged, until it has echoed its challenge or 24 hours have passed.")
    ]
    event_types: list[str]
    secret_ref: str
    status: Status
    enabled: bool
    owner_email: str
    description: str
    metadata: dict[str, str]
    headers: Annotated[dict[str, str], Field(description="Values are masked.")]
    policy: str
    timeout_seconds: int
    maintenance_until: Moment | None
    archived: bool
    version: Annotated[int, Field(description="Also the ETag, for If-Match.")]
    created_at: Moment
    updated_at: Moment
    first_active_at: Annotated[
        Moment | None, Field(description="Events archived from this moment on are owed.")
    ]
    disabled_at: Moment | None
    disabled_reason: DisabledReason | None
    last_failure_status: int | None
    status_reason: str | None
    health: HealthOut | None = None

    @classmethod
    def of(
        cls, subscription: Subscription, profile: Profile, *, now: datetime, health: HealthOut | None = None
    ) -> "SubscriptionOut":
        return cls(**_subscription_fields(subscription, profile, now), health=health)


class SubscriptionEdited(SubscriptionOut):
    event_types_in_force_at: Annotated[
        Moment | None, Field(description="From when the changed event types are in force.")
    ] = None
    challenged: Annotated[
        bool | None,
        Field(description="Of a new endpoint_url; false: ask for a challenge by POST …/verification."),
    ] = None
    warnings: Annotated[
        list[str], Field(description="Of changed patterns that match nothing which the catalogue lists.")
    ]

    @classmethod
    def edited(
        cls,
        subscription: Subscription,
        profile: Profile,
        *,
        now: datetime,
        in_force_at: datetime | None,
        challenged: bool | None,
        warnings: Sequence[str],
    ) -> "SubscriptionEdited":
        fields = _subscription_fields(subscription, profile, now)
        return cls(
            **fields, event_types_in_force_at=in_force_at, challenged=challenged, warnings=list(warnings)
        )


class SubscriptionCreated(SubscriptionOut):
    secret: Annotated[
        str | None,
        Field(
            description="Shown this once; null where an Idempotency-Key repeats the answer.",
            examples=["whsec_AAECAwQFBgcICQoLDA0ODxAREhMUFRYX"],
        ),
    ]
    challenged: Annotated[bool, Field(description="False: ask for a challenge by POST …/verification.")]
    warnings: Annotated[
        list[str], Field(description="Of patterns that match nothing which the catalogue lists.")
    ]

    @classmethod
    def created(
        cls,
        subscription: Subscription,
        profile: Profile,
        health: Health,
        *,
        secret: str,
        challenged: bool,
        warnings: Sequence[str],
    ) -> "SubscriptionCreated":
        fields = _subscription_fields(subscription, profile, subscription.created_at)
        return cls(
            **fields,
            health=HealthOut.of(health, owed=0),
            secret=secret,
            challenged=challenged,
            warnings=list(warnings),
        )


def _subscription_fields(subscription: Subscription, profile: Profile, now: datetime) -> dict[str, Any]:
    return {
        "id": subscription.id,
        "tenant_id": subscription.scope.tenant_id,
        "mode": subscription.scope.mode,
        "application_id": subscription.application_id,
        "resource_id": subscription.resource_id,
        "endpoint_url": subscription.endpoint_url,
        "pending_endpoint_url": subscription.pending_endpoint_url,
        "event_types": list(subscription.event_types),
        "secret_ref": subscription.secret_ref,
        "status": subscription.status,
        "enabled": subscription.enabled,
        "owner_email": profile.owner_email,
        "description": profile.description,
        "metadata": dict(profile.metadata),
        "headers": masked(subscription.headers),
        "policy": subscription.policy,
        "timeout_seconds": subscription.timeout_seconds,
        "maintenance_until": subscription.maintenance_until,
        "archived": is_archived(subscription, now),
        "version": subscription.version,
        "created_at": subscription.created_at,
        "updated_at": subscription.updated_at,
        "first_active_at": subscription.first_active_at,
        "disabled_at": subscription.disabled_at,
        "disabled_reason": subscription.disabled_reason,
        "last_failure_status": subscription.last_failure_status,
        "status_reason": subscription.status_reason,
    }


def masked(headers: Mapping[str, str]) -> dict[str, str]:
    """The headers' names, with nothing of their values."""
    return dict.fromkeys(headers, MASK)


def is_archived(subscription: Subscription, now: datetime) -> bool:
    """Whether it has been suspended for so long that default lists leave it out."""
    disabled_at = subscription.disabled_at
    return (
        subscription.status is Status.SUSPENDED
        and disabled_at is not None
        and (now - disabled_at).days >= ARCHIVED_AFTER_DAYS
    )


class SecretOut(Shape):
    """POST …/rotate-secret."""

    id: str
    secret_ref: str
    secret: Annotated[
        str | None, Field(description="Shown this once; null where an Idempotency-Key repeats the answer.")
    ]
    old_signs_until: Moment


class TestAccepted(Shape):
    """202: the test event is on its way."""

    subscription_id: str
    event_type: str


class ReenablingOut(Shape):
    """202: the recovery's state machine was asked. `recovery_id` where one runs already."""

    subscription_id: str
    probe: bool
    recovery_id: str | None = None


class AttemptOut(Shape):
    n: int
    at: Moment
    lane: Lane
    status_code: int | None
    latency_ms: int
    error: str | None
    excerpt: Annotated[str, Field(description="The answer's first bytes, cleaned.")]


class DeliveryOut(Shape):
    """One event owed to one subscription."""

    id: str
    event_id: str
    event_type: str
    subscription_id: str
    status: DeliveryStatus
    lane: Lane
    attempts: Annotated[list[AttemptOut], Field(description="The last ten.")]
    attempt_count: int
    next_attempt_at: Moment | None
    archived_at: Moment

    @classmethod
    def of(cls, delivery: Delivery) -> "DeliveryOut":
        return cls(
            id=delivery.key.delivery_id,
            event_id=delivery.key.event_id,
            event_type=delivery.event_type,
            subscription_id=delivery.key.subscription.subscription_id,
            status=delivery.status,
            lane=delivery.lane,
            attempts=[
                AttemptOut(
                    n=attempt.n,
                    at=attempt.at,
                    lane=attempt.lane,
                    status_code=attempt.status_code,
                    latency_ms=attempt.latency_ms,
                    error=attempt.error,
                    excerpt=attempt.excerpt,
                )
                for attempt in delivery.attempts
            ],
            attempt_count=delivery.attempt_count,
            next_attempt_at=delivery.next_attempt_at,
            archived_at=delivery.archived_at,
        )


class RecoveryOut(Shape):
    """One run that delivers what is owed."""

    id: str
    subscription_id: str
    kind: RecoveryKind
    status: RecoveryStatus
    found: int
    sent: int
    succeeded: int
    failed: int
    expired: int
    rate_per_second: float
    eta: Annotated[Moment | None, Field(description="When what was found so far is sent.")] = None
    started_at: Moment
    ended_at: Moment | None
    probe_status_code: int | None = None
    probe_error: str | None = None

    @classmethod
    def of(cls, recovery: Recovery, *, now: datetime) -> "RecoveryOut":
        return cls(
            id=recovery.id,
            subscription_id=recovery.key.subscription_id,
            kind=recovery.kind,
            status=recovery.status,
            found=recovery.found,
            sent=recovery.sent,
            succeeded=recovery.succeeded,
            failed=recovery.failed,
            expired=recovery.expired,
            rate_per_second=recovery.rate_per_second,
            eta=_eta(recovery, now),
            started_at=recovery.started_at,
            ended_at=recovery.ended_at,
            probe_status_code=recovery.probe_status_code,
            probe_error=recovery.probe_error,
        )


def _eta(recovery: Recovery, now: datetime) -> datetime | None:
    """When what was found so far is sent, at the present pace; None where nothing moves."""
    left = recovery.found - recovery.sent
    if recovery.status is not RecoveryStatus.RUNNING or left <= 0 or recovery.rate_per_second <= 0:
        return None
    return now + timedelta(seconds=left / recovery.rate_per_second)


class ReplayCountedOut(Shape):
    """What a replay would send, within what is kept. Nothing was written."""

    dry_run: Literal[True] = True
    subscription_id: str
    since: Annotated[Moment, Field(alias="from")]
    until: Annotated[Moment, Field(alias="to")]
    only: Only
    event_types: list[str]
    found: int
    complete: Annotated[bool, Field(description="False where there is more than could be counted.")]

    @classmethod
    def of(cls, counted: Counted, subscription_id: str) -> "ReplayCountedOut":
        plan = counted.plan
        return cls.model_validate(
            {
                "subscription_id": subscription_id,
                "from": plan.start,
                "to": plan.until,
                "only": plan.only,
                "event_types": list(plan.event_types),
                "found": counted.found,
                "complete": counted.complete,
            }
        )


class AuditOut(Shape):
    id: str
    at: Moment
    action: str
    actor: str
    source_ip: str | None
    subject: str
    before: dict[str, str]
    after: dict[str, str]
    detail: str

    @classmethod
    def of(cls, record: AuditRecord) -> "AuditOut":
        return cls(
            id=record.id,
            at=record.at,
            action=record.action,
            actor=record.actor.id,
            source_ip=record.actor.source_ip,
            subject=record.subject,
            before=dict(record.before),
            after=dict(record.after),
            detail=record.detail,
        )


class FindingOut(Shape):
    step: Annotated[str, Field(examples=["archived", "matched", "attempt", "now"])]
    ok: bool
    detail: str
    at: Moment | None


class ExplanationOut(Shape):
    """Where the event is: what is so, in order, and what the delivery waits for."""

    event_id: str
    subscription_id: str
    summary: str
    findings: list[FindingOut]
    waits_for: Annotated[
        str,
        Field(examples=["nothing", "queue", "retry", "circuit", "suspension", "recovery", "person"]),
    ]
    until: Moment | None


class EventAccepted(Shape):
    id: str


class EventRefused(Shape):
    """Why one event of several was not taken; `id` where it has one."""

    id: str | None = None
    error: ProblemItem


class EventsAccepted(Shape):
    events: list[EventAccepted | EventRefused]


class EventOut(Shape):
    """An event that was routed. `matches` is how many subscriptions it was routed to."""

    id: str
    type: str
    resource_id: str | None
    archived_at: Moment
    data: Annotated[
        dict[str, Any] | None, Field(description="What the event carries; null once retention is over.")
    ]
    matches: int
    deliveries: list[DeliveryOut]


class EventTypeOut(Shape):
    """An entry of the catalogue."""

    name: Annotated[str, Field(examples=["invoice.paid"])]
    description: str
    json_schema: dict[str, Any] | None
    example: dict[str, Any] | None
    strict: bool
    updated_at: Moment

    @classmethod
    def of(cls, entry: EventType) -> "EventTypeOut":
        return cls(
            name=entry.name,
            description=entry.description,
            json_schema=json.loads(entry.json_schema) if entry.json_schema else None,
            example=json.loads(entry.example) if entry.example else None,
            strict=entry.strict,
            updated_at=entry.updated_at,
        )


class TenantOut(Shape):
    id: str
    name: str
    plan: str
    created_at: Moment

    @classmethod
    def of(cls, tenant: Tenant) -> "TenantOut":
        return cls(id=tenant.id, name=tenant.name, plan=tenant.plan, created_at=tenant.created_at)


class KeyOut(Shape):
    """A key as it is listed: its last four characters alone."""

    id: str
    mode: Annotated[Mode | None, Field(description="Null for an application's key.")]
    application_id: str | None
    scopes: list[Right]
    last4: str
    created_at: Moment
    expires_at: Moment | None
    revoked_at: Moment | None
    last_used_at: Annotated[Moment | None, Field(description="Coarse: up to an hour old.")]

    @classmethod
    def of(cls, key: ApiKey) -> "KeyOut":
        return cls(**_key_fields(key))


class KeyCreated(KeyOut):
    key: Annotated[
        str | None, Field(description="Shown this once; null where an Idempotency-Key repeats the answer.")
    ]

    @classmethod
    def created(cls, key: ApiKey, text: str) -> "KeyCreated":
        return cls(**_key_fields(key), key=text)


def _key_fields(key: ApiKey) -> dict[str, Any]:
    return {
        "id": key.id,
        "mode": key.mode,
        "application_id": key.application_id,
        "scopes": sorted(key.rights),
        "last4": key.last4,
        "created_at": key.created_at,
        "expires_at": key.expires_at,
        "revoked_at": key.revoked_at,
        "last_used_at": key.last_used_at,
    }


class ConsentOut(Shape):
    """What a tenant lets an application receive. Nothing from before a grant is ever handed over."""

    application_id: str
    event_types: list[str]
    granted_by: str
    granted_at: Moment
    withdrawn_at: Moment | None

    @classmethod
    def of(cls, consent: Consent) -> "ConsentOut":
        return cls(
            application_id=consent.application_id,
            event_types=list(consent.event_types),
            granted_by=consent.granted_by,
            granted_at=consent.granted_at,
            withdrawn_at=consent.withdrawn_at,
        )


class PortalSessionOut(Shape):
    """201: a link that lets one browser in, once."""

    url: Annotated[
        str | None,
        Field(
            description="Send the owner's browser there; null where an Idempotency-Key repeats the answer."
        ),
    ]
    expires_at: Annotated[Moment, Field(description="Until when the link can be opened: five minutes.")]


class AtRiskOut(Shape):
    """A subscription that the next failure would suspend, and the arithmetic of it."""

    tenant_id: str
    mode: Mode
    subscription_id: str
    endpoint_url: str
    consecutive_failures: int
    first_failure_at: Moment | None
    last_status_code: int | None
    last_error: str | None
    limits: Annotated[list[str], Field(examples=[["retryable: 25 of 25, 13 h of 12 h"]])]


class FuseOut(Shape):
    """Whether suspensions pass: over so many hosts in a span they wait, and where we are at fault."""

    state: Annotated[str, Field(examples=["open", "full", "latched"])]
    hosts_let_through: int
    hosts_at_most: int
    span_seconds: int
    suspects: Annotated[int, Field(description="Hosts whose deliveries failed by what may be our own fault.")]
    latched_at: Moment | None
    canary_at: Moment | None
    canary_answered: bool

    @classmethod
    def of(cls, state: FuseState, rules: FuseRules, *, now: datetime) -> "FuseOut":
        within = sum(at > now - rules.span for at in state.let_through.values())
        most = rules.limit(state.active_hosts)
        full = "full" if within >= most else "open"
        return cls(
            state="latched" if state.latched(rules, now) else full,
            hosts_let_through=within,
            hosts_at_most=most,
            span_seconds=int(rules.span.total_seconds()),
            suspects=sum(at > now - rules.span for at in state.suspects.values()),
            latched_at=state.latched_at,
            canary_at=state.canary_at,
            canary_answered=state.canary_answered,
        )


class HealthzOut(Shape):
    status: str = "ok"
    version: str

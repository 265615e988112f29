"""Create a subscription: pending, with a secret of its own, until its endpoint echoes a challenge."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta

from hookkeeper.domain.audit import Actor, AuditRecord
from hookkeeper.domain.config import RuntimeConfig
from hookkeeper.domain.consent import Consent
from hookkeeper.domain.endpoint import CanonicalUrl, EndpointRefusedError, canonical_url
from hookkeeper.domain.errors import DuplicateSubscriptionError, OwnFaultError
from hookkeeper.domain.event import checked_patterns
from hookkeeper.domain.health import Health
from hookkeeper.domain.outcome import DNS_ABSENT_FAULTS, Fault
from hookkeeper.domain.signature import Secret, token_hash
from hookkeeper.domain.subscription import DEFAULT_TIMEOUT_SECONDS, Profile, Status, Subscription
from hookkeeper.domain.tenancy import Scope, SubscriptionKey, checked_id
from hookkeeper.ports import Contacts, Hosts, Ids, Rates, Secrets, Subscriptions
from hookkeeper.usecases.challenge_rate import HostRules, spend_challenge
from hookkeeper.usecases.subscription_input import (
    checked_description,
    checked_email,
    checked_headers,
    checked_metadata,
    checked_policy,
    checked_timeout,
)

TOKEN_LIFE = timedelta(hours=24)


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """A subscription as its owner asks for it, unchecked."""

    endpoint_url: str
    event_types: Sequence[str]
    owner_email: str
    resource_id: str | None = None
    description: str = ""
    metadata: Mapping[str, str] = field(default_factory=dict)
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    policy: str = "graded"
    timeout_seconds: int = DEFAULT_TIMEOUT_SECONDS


@dataclass(frozen=True, slots=True, kw_only=True)
class Subscribed:
    """The new subscription, and its secret for the only time it is shown.

    `challenged` is False where the queue did not take the challenge: the owner asks for a fresh one.
    """

    subscription: Subscription
    profile: Profile
    health: Health
    secret: Secret
    challenged: bool


def subscribe(
    wanted: Wanted,
    *,
    scope: Scope,
    consent: Consent | None = None,
    actor: Actor,
    now: datetime,
    secret: Secret,
    token: str,
    config: RuntimeConfig,
    rules: HostRules,
    hosts: Hosts,
    rates: Rates,
    subscriptions: Subscriptions,
    secrets: Secrets,
    contacts: Contacts,
    ids: Ids,
) -> Subscribed:
    """Check, seal the secret, create, ask for the challenge; `secret` and `token` are freshly random.

    `consent` is that of the application which will hold it. Raises NotAllowedError where it wants more than
    was granted, InvalidInputError, LimitedError where too many challenges were asked this hour, or
    DuplicateSubscriptionError with the id that has the endpoint already.
    """
    endpoint = canonical_url(
        wanted.endpoint_url, own_hosts=rules.own_hosts, allowed_hosts=rules.allowed_hosts
    )
    profile = Profile(
        owner_email=checked_email(wanted.owner_email),
        description=checked_description(wanted.description),
        metadata=checked_metadata(wanted.metadata),
    )
    key = SubscriptionKey(scope, ids.new("sub"))
    subscription = Subscription(
        key=key,
        endpoint_url=endpoint.text,
        event_types=checked_patterns(wanted.event_types),
        status=Status.PENDING,
        secret_ref="",
        created_at=now,
        updated_at=now,
        resource_id=_checked_resource(wanted.resource_id),
        headers=checked_headers(wanted.headers),
        policy=checked_policy(wanted.policy, policies=config.policies),
        timeout_seconds=checked_timeout(wanted.timeout_seconds),
        application_id=consent.application_id if consent else None,
        token_hash=token_hash(token),
        token_expires_at=now + TOKEN_LIFE,
    )
    if consent is not None:
        consent.check(subscription.event_types)
    check_unique(subscription, subscriptions)
    check_host(endpoint, hosts)
    spend_challenge(scope, endpoint.host, now=now, rules=rules, rates=rates)
    return _created(
        subscription,
        profile,
        typed=wanted.endpoint_url,
        actor=actor,
        secret=secret,
        token=token,
        subscriptions=subscriptions,
        secrets=secrets,
        contacts=contacts,
        ids=ids,
    )


def _checked_resource(resource_id: str | None) -> str | None:
    return None if resource_id is None else checked_id(resource_id, field="resource_id")


def check_unique(subscription: Subscription, subscriptions: Subscriptions) -> None:
    """Raise DuplicateSubscriptionError before anything is spent on what cannot be."""
    if existing_id := subscriptions.holder(subscription):
        raise DuplicateSubscriptionError(existing_id)


def check_host(endpoint: CanonicalUrl, hosts: Hosts) -> None:
    """Refuse a host that does not resolve, or to any address that must not be dialled (SPEC §11).

    The refusal never names an address: it would map our network for whoever asks.
    """
    fault = hosts.fault(endpoint.host, endpoint.port)
    if fault is None:
        return
    if fault is Fault.BLOCKED_ADDRESS:
        raise EndpointRefusedError("blocked_address", "the host is not on the public internet")
    if fault in DNS_ABSENT_FAULTS or fault is Fault.INVALID_CONFIG:
        raise EndpointRefusedError("unresolvable", "the host has no address")
    raise OwnFaultError(f"the resolver could not be asked: {fault}")


def _created(
    subscription: Subscription,
    profile: Profile,
    *,
    typed: str,
    actor: Actor,
    secret: Secret,
    token: str,
    subscriptions: Subscriptions,
    secrets: Secrets,
    contacts: Contacts,
    ids: Ids,
) -> Subscribed:
    """The secret first, so that no subscription ever names one that is not there."""
    audit_id = ids.new("aud")
    secret_ref = secrets.create(subscription.key, secret, version=1, now=subscription.created_at)
    created = replace(subscription, secret_ref=secret_ref, writer=audit_id)
    health = Health(key=subscription.key)
    audit = AuditRecord(
        scope=subscription.scope,
        id=audit_id,
        at=subscription.created_at,
        action="subscription.created",
        actor=actor,
        subject=subscription.id,
        after={
            "endpoint_url": subscription.endpoint_url,
            "event_types": ", ".join(subscription.event_types),
            "status": str(subscription.status),
        },
        detail=f"typed as {typed}" if typed != subscription.endpoint_url else "",
    )
    if existing_id := subscriptions.create(created, profile, health, audit):
        raise DuplicateSubscriptionError(existing_id)
    return Subscribed(
        subscription=created,
        profile=profile,
        health=health,
        secret=secret,
        challenged=asked(contacts, created.key, token),
    )


def asked(contacts: Contacts, key: SubscriptionKey, token: str) -> bool:
    """Whether the queue took the challenge: what exists already must not be answered with an error."""
    try:
        contacts.challenge(key, token=token)
    except OwnFaultError:
        return False
    return True

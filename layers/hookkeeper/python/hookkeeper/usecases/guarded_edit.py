"""An edit is written over the version that was read, with its audit record, or not at all."""

from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import replace
from datetime import datetime
from typing import TypeVar

from hookkeeper.domain.audit import Actor, AuditRecord
from hookkeeper.domain.errors import ConflictError, IllegalTransitionError, NotFoundError, StaleVersionError
from hookkeeper.domain.notice import Notice
from hookkeeper.domain.subscription import FilterChange, Profile, Status, Subscription
from hookkeeper.domain.tenancy import SubscriptionKey
from hookkeeper.ports import Edit, Ids, Subscriptions

TRIES = 5

_T = TypeVar("_T")


def until_unhindered(key: SubscriptionKey, attempt: Callable[[], _T]) -> _T:
    """An edit whose asker named no version: again after each that came between, TRIES times.

    Raises ConflictError after that.
    """
    for _ in range(TRIES):
        with suppress(StaleVersionError):
            return attempt()
    raise ConflictError(f"{key.subscription_id} is being changed by others; try again")


def editable(
    key: SubscriptionKey, *, version: int | None, subscriptions: Subscriptions
) -> tuple[Subscription, Profile]:
    """The subscription at that version (None: as it stands), with its profile.

    Raises NotFoundError, IllegalTransitionError for a revoked one, StaleVersionError at another version.
    """
    subscription, profile = subscriptions.get(key), subscriptions.profile(key)
    if subscription is None or profile is None:
        raise NotFoundError("subscription", key.subscription_id)
    if version is not None and version != subscription.version:
        raise StaleVersionError(subscription.id, subscription.version)
    if subscription.status is Status.REVOKED:
        raise IllegalTransitionError(
            subscription.id, str(subscription.status), "revoked is for good, and cannot be edited"
        )
    return subscription, profile


def write_edit(
    before: Subscription,
    after: Subscription,
    *,
    action: str,
    actor: Actor,
    now: datetime,
    subscriptions: Subscriptions,
    ids: Ids,
    profiles: tuple[Profile, Profile] | None = None,
    filter_changes: tuple[FilterChange, ...] = (),
    notice: Notice | None = None,
    detail: str = "",
) -> Subscription:
    """Write the edit with its audit record, or raise StaleVersionError where another came first.

    Raises DuplicateSubscriptionError where another subscription has the endpoint that it asks for.
    """
    after = replace(after, version=before.version + 1, updated_at=now)
    old, new = _told(before, after, profiles)
    edit = Edit(
        before=before,
        after=after,
        audit=AuditRecord(
            scope=before.scope,
            id=ids.new("aud"),
            at=now,
            action=action,
            actor=actor,
            subject=before.id,
            before=old,
            after=new,
            detail=detail,
        ),
        profile=profiles[1] if profiles else None,
        filter_changes=filter_changes,
        notice=notice,
    )
    if subscriptions.edit(edit):
        return after
    present = subscriptions.get(before.key)
    raise StaleVersionError(before.id, present.version if present else before.version + 1)


def _told(
    before: Subscription, after: Subscription, profiles: tuple[Profile, Profile] | None
) -> tuple[dict[str, str], dict[str, str]]:
    """What changed, as the audit tells it: of headers and metadata the names alone."""
    old, new = _facts(before), _facts(after)
    if profiles:
        old |= _profile_facts(profiles[0])
        new |= _profile_facts(profiles[1])
    changed = sorted(name for name in new if old[name] != new[name])
    return {name: _text(old[name]) for name in changed}, {name: _text(new[name]) for name in changed}


def _text(fact: object) -> str:
    return ", ".join(sorted(fact)) if isinstance(fact, Mapping) else str(fact)


def _facts(subscription: Subscription) -> dict[str, object]:
    until = subscription.maintenance_until
    return {
        "endpoint_url": subscription.endpoint_url,
        "pending_endpoint_url": subscription.pending_endpoint_url or "",
        "event_types": ", ".join(subscription.event_types),
        "headers": subscription.headers,
        "policy": subscription.policy,
        "timeout_seconds": subscription.timeout_seconds,
        "maintenance_until": until.isoformat() if until else "",
        "secret_ref": subscription.secret_ref,
    }


def _profile_facts(profile: Profile) -> dict[str, object]:
    return {
        "owner_email": profile.owner_email,
        "description": profile.description,
        "metadata": profile.metadata,
    }

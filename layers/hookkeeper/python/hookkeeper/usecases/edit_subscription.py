"""Change what a subscription says of itself, guarded by the version its owner has read; never its status."""

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import TypeVar

from hookkeeper.domain.audit import Actor, AuditRecord
from hookkeeper.domain.config import Margins, RuntimeConfig
from hookkeeper.domain.errors import ConflictError, IllegalTransitionError, NotFoundError, StaleVersionError
from hookkeeper.domain.event import checked_patterns
from hookkeeper.domain.notice import Notice
from hookkeeper.domain.subscription import FilterChange, Profile, Status, Subscription
from hookkeeper.domain.tenancy import SubscriptionKey
from hookkeeper.ports import Edit, Ids, Subscriptions
from hookkeeper.usecases.subscription_input import (
    checked_description,
    checked_email,
    checked_headers,
    checked_metadata,
    checked_policy,
    checked_timeout,
)

TICK = timedelta(microseconds=1)
TRIES = 5

_T = TypeVar("_T")


@dataclass(frozen=True, slots=True, kw_only=True)
class Changes:
    """What is to change; None leaves a thing as it is. In the mappings, None removes a key."""

    event_types: Sequence[str] | None = None
    owner_email: str | None = None
    description: str | None = None
    metadata: Mapping[str, str | None] | None = None
    headers: Mapping[str, str | None] | None = field(default=None, repr=False)
    policy: str | None = None
    timeout_seconds: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Edited:
    """The subscription after the edit, and from when its event types are in force, if they changed."""

    subscription: Subscription
    profile: Profile
    event_types_in_force_at: datetime | None = None


def edit_subscription(
    key: SubscriptionKey,
    changes: Changes,
    *,
    version: int | None,
    actor: Actor,
    now: datetime,
    margins: Margins,
    config: RuntimeConfig,
    subscriptions: Subscriptions,
    ids: Ids,
) -> Edited:
    """Make the changes over that `version` (None: over whatever stands).

    Raises NotFoundError, InvalidInputError, IllegalTransitionError for a revoked subscription, and
    StaleVersionError where `version` is not the present one (any more).
    """
    before, profile = editable(key, version=version, subscriptions=subscriptions)
    after = _changed(before, changes, config)
    described = _described(profile, changes)
    history = _filter_changes(before, after, now, margins, subscriptions)
    if after == before and described == profile:
        return Edited(subscription=before, profile=profile)
    written = write_edit(
        before,
        after,
        action="subscription.edited",
        actor=actor,
        now=now,
        subscriptions=subscriptions,
        ids=ids,
        profiles=(profile, described),
        filter_changes=history,
    )
    in_force_at = history[-1].at if history else None
    return Edited(subscription=written, profile=described, event_types_in_force_at=in_force_at)


def set_maintenance(
    key: SubscriptionKey,
    until: datetime | None,
    *,
    actor: Actor,
    now: datetime,
    subscriptions: Subscriptions,
    ids: Ids,
) -> Subscription:
    """Hold suspension off until then, or no longer. Raises as `edit_subscription`."""

    def attempt() -> Subscription:
        before, _ = editable(key, version=None, subscriptions=subscriptions)
        return write_edit(
            before,
            replace(before, maintenance_until=until),
            action="subscription.maintenance_set",
            actor=actor,
            now=now,
            subscriptions=subscriptions,
            ids=ids,
        )

    return until_unhindered(key, attempt)


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
    """The subscription at that version, with its profile. Raises as `edit_subscription`."""
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
) -> Subscription:
    """Write the edit with its audit record, or raise StaleVersionError where another came first."""
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
        ),
        profile=profiles[1] if profiles else None,
        filter_changes=filter_changes,
        notice=notice,
    )
    if subscriptions.edit(edit):
        return after
    present = subscriptions.get(before.key)
    raise StaleVersionError(before.id, present.version if present else before.version + 1)


def _changed(before: Subscription, changes: Changes, config: RuntimeConfig) -> Subscription:
    after = before
    if changes.event_types is not None:
        after = replace(after, event_types=checked_patterns(changes.event_types))
    if changes.headers is not None:
        after = replace(after, headers=checked_headers(_merged(before.headers, changes.headers)))
    if changes.policy is not None:
        after = replace(after, policy=checked_policy(changes.policy, policies=config.policies))
    if changes.timeout_seconds is not None:
        after = replace(after, timeout_seconds=checked_timeout(changes.timeout_seconds))
    return after


def _described(before: Profile, changes: Changes) -> Profile:
    after = before
    if changes.owner_email is not None:
        after = replace(after, owner_email=checked_email(changes.owner_email))
    if changes.description is not None:
        after = replace(after, description=checked_description(changes.description))
    if changes.metadata is not None:
        after = replace(after, metadata=checked_metadata(_merged(before.metadata, changes.metadata)))
    return after


def _merged(before: Mapping[str, str], changes: Mapping[str, str | None]) -> dict[str, str]:
    """As RFC 7396 merges: a masked value that was read need not be sent back."""
    merged = {**before, **changes}
    return {key: value for key, value in merged.items() if value is not None}


def _filter_changes(
    before: Subscription,
    after: Subscription,
    now: datetime,
    margins: Margins,
    subscriptions: Subscriptions,
) -> tuple[FilterChange, ...]:
    """What the history gains: the new filter, and the first one where it is not there yet.

    A new pattern is in force once every routing cache has seen it. No change may stand before one made
    earlier. Nothing is owed from before the first activation, so until then there is no history.
    """
    if before.event_types == after.event_types or before.first_active_at is None:
        return ()
    history = subscriptions.filters(before.key)
    first = () if history else (FilterChange(at=before.first_active_at, event_types=before.event_types),)
    widened = not set(after.event_types) <= set(before.event_types)
    at = now + margins.routing_cache if widened else now
    last = max((change.at for change in (*history, *first)), default=at - TICK)
    return (*first, FilterChange(at=max(at, last + TICK), event_types=after.event_types))


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

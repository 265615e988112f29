"""Change what a subscription says of itself, guarded by the version its owner has read; never its status."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta

from hookkeeper.domain.audit import Actor
from hookkeeper.domain.config import Margins, RuntimeConfig
from hookkeeper.domain.consent import Consent
from hookkeeper.domain.event import checked_patterns
from hookkeeper.domain.subscription import FilterChange, Profile, Subscription
from hookkeeper.domain.tenancy import SubscriptionKey
from hookkeeper.ports import Ids, Subscriptions
from hookkeeper.usecases.guarded_edit import editable, until_unhindered, write_edit
from hookkeeper.usecases.stage_url import Staging, staged_notice, with_staged_url
from hookkeeper.usecases.subscribe import asked
from hookkeeper.usecases.subscription_input import (
    checked_description,
    checked_email,
    checked_headers,
    checked_metadata,
    checked_policy,
    checked_timeout,
)

TICK = timedelta(microseconds=1)


@dataclass(frozen=True, slots=True, kw_only=True)
class Changes:
    """What is to change; None leaves a thing as it is. In the mappings, None removes a key."""

    endpoint_url: str | None = None
    event_types: Sequence[str] | None = None
    owner_email: str | None = None
    description: str | None = None
    metadata: Mapping[str, str | None] | None = None
    headers: Mapping[str, str | None] | None = field(default=None, repr=False)
    policy: str | None = None
    timeout_seconds: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Edited:
    """The subscription after the edit, and from when its event types are in force, if they changed.

    `challenged` says, where a new endpoint awaits its challenge, whether the queue took it.
    """

    subscription: Subscription
    profile: Profile
    event_types_in_force_at: datetime | None = None
    challenged: bool | None = None


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
    staging: Staging | None = None,
    consent: Consent | None = None,
) -> Edited:
    """Make the changes over that `version` (None: over whatever stands); `staging` serves an endpoint_url.

    `consent` is that of the application which asks: NotAllowedError where it wants more than was granted.

    Raises NotFoundError, InvalidInputError, IllegalTransitionError for a revoked subscription,
    StaleVersionError where `version` is not the present one (any more); and for an endpoint_url
    DuplicateSubscriptionError, LimitedError.
    """
    before, profile = editable(key, version=version, subscriptions=subscriptions)
    after = _changed(before, changes, config)
    described = _described(profile, changes)
    if consent is not None and after.event_types != before.event_types:
        consent.check(after.event_types)
    if changes.endpoint_url is not None and staging is not None:
        after = with_staged_url(
            after, changes.endpoint_url, now=now, staging=staging, subscriptions=subscriptions
        )
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
        notice=staged_notice(before, after, profile, now),
        detail=f"typed as {changes.endpoint_url}" if after.token_hash != before.token_hash else "",
    )
    challenged = None
    if staging is not None and written.token_hash not in (None, before.token_hash):
        challenged = asked(staging.contacts, key, staging.token)
    return Edited(
        subscription=written,
        profile=described,
        event_types_in_force_at=history[-1].at if history else None,
        challenged=challenged,
    )


def set_maintenance(
    key: SubscriptionKey,
    until: datetime | None,
    *,
    actor: Actor,
    now: datetime,
    subscriptions: Subscriptions,
    ids: Ids,
) -> Subscription:
    """Hold suspension off until then, or no longer. Raises as `editable`, and ConflictError."""

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

"""Give a subscription a new signing secret; the old one signs beside it for a while."""

from dataclasses import replace
from datetime import datetime, timedelta

from hookkeeper.domain.audit import Actor
from hookkeeper.domain.errors import ConflictError, InvalidInputError
from hookkeeper.domain.notice import Notice, NoticeKind
from hookkeeper.domain.signature import Secret
from hookkeeper.domain.subscription import Profile, Subscription
from hookkeeper.domain.tenancy import SubscriptionKey
from hookkeeper.ports import Ids, Secrets, Subscriptions
from hookkeeper.usecases.edit_subscription import editable, until_unhindered, write_edit

DEFAULT_OVERLAP = timedelta(hours=24)
LONGEST_OVERLAP = timedelta(days=7)
VERSIONS_TRIED = 5
"""A version that a crashed or a losing rotation sealed is skipped; so many in a row are somebody's loop."""


def rotate_secret(
    key: SubscriptionKey,
    secret: Secret,
    *,
    overlap: timedelta = DEFAULT_OVERLAP,
    actor: Actor,
    now: datetime,
    subscriptions: Subscriptions,
    secrets: Secrets,
    ids: Ids,
) -> Subscription:
    """The subscription under its new secret; the owner is told. An overlap of zero ends the old one at once.

    Raises NotFoundError, InvalidInputError (`invalid_overlap`), IllegalTransitionError where it is revoked,
    ConflictError where another rotation came between: its secret stands, this one was never in force.
    """
    if not timedelta() <= overlap <= LONGEST_OVERLAP:
        raise InvalidInputError("0 to 168 hours", code="invalid_overlap", pointer="/overlap_hours")
    first, _ = editable(key, version=None, subscriptions=subscriptions)
    secret_ref = _sealed(first, secret, now, secrets)
    secrets.retire(key, first.secret_ref, until=now + overlap)

    def attempt() -> Subscription:
        before, profile = editable(key, version=None, subscriptions=subscriptions)
        if before.secret_ref != first.secret_ref:
            raise ConflictError(f"the secret of {before.id} was rotated by somebody else just now")
        return write_edit(
            before,
            replace(before, secret_ref=secret_ref),
            action="subscription.secret_rotated",
            actor=actor,
            now=now,
            subscriptions=subscriptions,
            ids=ids,
            notice=_notice(before, profile, secret_ref, now + overlap, now),
        )

    return until_unhindered(key, attempt)


def _sealed(subscription: Subscription, secret: Secret, now: datetime, secrets: Secrets) -> str:
    present = int(subscription.secret_ref.rpartition("/")[2])
    for version in range(present + 1, present + 1 + VERSIONS_TRIED):
        try:
            return secrets.create(subscription.key, secret, version=version, now=now)
        except ConflictError:
            continue
    raise ConflictError(f"the secret of {subscription.id} is being rotated by others; try again")


def _notice(
    subscription: Subscription, profile: Profile, secret_ref: str, old_until: datetime, now: datetime
) -> Notice:
    return Notice(
        key=subscription.key,
        kind=NoticeKind.SECRET_ROTATED,
        dedupe=f"version-{secret_ref.rpartition('/')[2]}",
        at=now,
        owner_email=profile.owner_email,
        endpoint_url=subscription.endpoint_url,
        facts={"old_until": old_until.isoformat()},
    )

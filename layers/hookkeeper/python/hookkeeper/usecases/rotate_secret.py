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
from hookkeeper.usecases.guarded_edit import editable, until_unhindered, write_edit

DEFAULT_OVERLAP = timedelta(hours=24)
LONGEST_OVERLAP_HOURS = 7 * 24


def overlap_of(hours: float) -> timedelta:
    """Raises InvalidInputError (`invalid_overlap`) for less than none and for more than 7 days."""
    if not 0 <= hours <= LONGEST_OVERLAP_HOURS:
        raise InvalidInputError(
            f"0 to {LONGEST_OVERLAP_HOURS} hours", code="invalid_overlap", pointer="/overlap_hours"
        )
    return timedelta(hours=hours)


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

    Raises NotFoundError, IllegalTransitionError where it is revoked,
    ConflictError where another rotation came between: its secret stands, this one was never in force.
    """
    first, _ = editable(key, version=None, subscriptions=subscriptions)
    version = int(first.secret_ref.rpartition("/")[2]) + 1
    secret_ref = secrets.create(key, secret, version=version, now=now)
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

"""Verify the endpoint that awaits its challenge, new or staged, by the token; or send it a fresh one."""

from dataclasses import replace
from datetime import datetime
from urllib.parse import urlsplit

from hookkeeper.domain.audit import Actor
from hookkeeper.domain.config import Margins
from hookkeeper.domain.errors import (
    ConflictError,
    IllegalTransitionError,
    InvalidInputError,
    NotFoundError,
)
from hookkeeper.domain.signature import token_hash, token_matches
from hookkeeper.domain.subscription import Status, Subscription
from hookkeeper.domain.tenancy import SubscriptionKey
from hookkeeper.ports import Contacts, Ids, Rates, Subscriptions
from hookkeeper.usecases import transition
from hookkeeper.usecases.challenge_rate import HostRules, spend_challenge
from hookkeeper.usecases.guarded_edit import until_unhindered, write_edit
from hookkeeper.usecases.subscribe import TOKEN_LIFE


def verify(
    key: SubscriptionKey,
    token: str,
    *,
    actor: Actor,
    now: datetime,
    margins: Margins,
    subscriptions: Subscriptions,
    ids: Ids,
) -> Subscription:
    """The subscription with its endpoint verified: its owner has shown what the endpoint received.

    A pending one is active now, a staged URL has taken its place. Verified already, whoever did it, it is
    answered as it stands. Raises NotFoundError, ConflictError, or InvalidInputError
    (`challenge_mismatch`, `challenge_expired`).
    """
    subscription = _present(key, subscriptions)
    if subscription.awaited_url is not None:
        _check(subscription, token, now)
    elif subscription.status is Status.ACTIVE:
        return subscription
    try:
        return _confirmed(
            subscription, actor=actor, now=now, margins=margins, subscriptions=subscriptions, ids=ids
        ).subscription
    except ConflictError:
        present = _present(key, subscriptions)
        if present.status is Status.ACTIVE and present.awaited_url is None:
            return present
        raise


def _confirmed(
    checked: Subscription,
    *,
    actor: Actor,
    now: datetime,
    margins: Margins,
    subscriptions: Subscriptions,
    ids: Ids,
) -> transition.Changed:
    """The transition that the echo of its challenge makes."""
    token_hash = checked.token_hash or ""
    if checked.awaited_url is None or checked.status is Status.PENDING:
        return transition.verify(
            checked.key,
            token_hash=token_hash,
            actor=actor,
            now=now,
            margins=margins,
            subscriptions=subscriptions,
            ids=ids,
        )
    profile = subscriptions.profile(checked.key)
    return transition.swap_url(
        checked.key,
        token_hash=token_hash,
        owner_email=profile.owner_email if profile else "",
        actor=actor,
        now=now,
        subscriptions=subscriptions,
        ids=ids,
    )


def renew_challenge(
    key: SubscriptionKey,
    *,
    token: str,
    actor: Actor,
    now: datetime,
    rules: HostRules,
    rates: Rates,
    subscriptions: Subscriptions,
    contacts: Contacts,
    ids: Ids,
) -> Subscription:
    """Replace the token with a fresh one, 24 h from now, and send it; the old one is dead at once.

    Raises NotFoundError, IllegalTransitionError where no endpoint awaits one, LimitedError where too many
    were asked this hour, OwnFaultError where the queue did not take the challenge.
    """
    host = urlsplit(_awaiting(key, subscriptions).awaited_url or "").hostname or ""
    spend_challenge(key.scope, host, now=now, rules=rules, rates=rates)

    def attempt() -> Subscription:
        before = _awaiting(key, subscriptions)
        return write_edit(
            before,
            replace(before, token_hash=token_hash(token), token_expires_at=now + TOKEN_LIFE),
            action="subscription.challenge_renewed",
            actor=actor,
            now=now,
            subscriptions=subscriptions,
            ids=ids,
        )

    written = until_unhindered(key, attempt)
    contacts.challenge(key, token=token)
    return written


def _awaiting(key: SubscriptionKey, subscriptions: Subscriptions) -> Subscription:
    subscription = _present(key, subscriptions)
    if subscription.awaited_url is None:
        raise IllegalTransitionError(
            subscription.id,
            str(subscription.status),
            "only pending subscriptions, and those with a staged endpoint_url, can be sent a challenge",
        )
    return subscription


def _check(subscription: Subscription, token: str, now: datetime) -> None:
    if not token_matches(token, subscription.token_hash or ""):
        raise InvalidInputError(
            "this is not the challenge that was sent last", code="challenge_mismatch", pointer="/challenge"
        )
    if subscription.token_expires_at is None or now >= subscription.token_expires_at:
        raise InvalidInputError(
            "the challenge has expired; ask for a fresh one", code="challenge_expired", pointer="/challenge"
        )


def _present(key: SubscriptionKey, subscriptions: Subscriptions) -> Subscription:
    subscription = subscriptions.get(key)
    if subscription is None:
        raise NotFoundError("subscription", key.subscription_id)
    return subscription

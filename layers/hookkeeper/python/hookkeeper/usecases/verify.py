"""Verify a pending subscription by its challenge's token, or give it a fresh one."""

from dataclasses import replace
from datetime import datetime
from urllib.parse import urlsplit

from hookkeeper.domain.audit import Actor
from hookkeeper.domain.config import Margins
from hookkeeper.domain.errors import IllegalTransitionError, InvalidInputError, NotFoundError
from hookkeeper.domain.signature import token_hash, token_matches
from hookkeeper.domain.subscription import Status, Subscription
from hookkeeper.domain.tenancy import SubscriptionKey
from hookkeeper.ports import Contacts, Ids, Rates, Subscriptions
from hookkeeper.usecases import transition
from hookkeeper.usecases.challenge_rate import HostRules, spend_challenge
from hookkeeper.usecases.edit_subscription import until_unhindered, write_edit
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
    """The subscription, active: its owner has shown what its endpoint received.

    Verified already, whoever did it, it is answered as it stands. Raises NotFoundError,
    IllegalTransitionError, or InvalidInputError (`challenge_mismatch`, `challenge_expired`).
    """
    subscription = _present(key, subscriptions)
    if subscription.status is Status.ACTIVE:
        return subscription
    if subscription.status is Status.PENDING:
        _check(subscription, token, now)
    try:
        return transition.verify(
            key, actor=actor, now=now, margins=margins, subscriptions=subscriptions, ids=ids
        ).subscription
    except IllegalTransitionError:
        present = _present(key, subscriptions)
        if present.status is Status.ACTIVE:
            return present
        raise


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

    Raises NotFoundError, IllegalTransitionError where it is not pending, LimitedError where too many were
    asked this hour, OwnFaultError where the queue did not take the challenge.
    """
    host = urlsplit(_pending(key, subscriptions).endpoint_url).hostname or ""
    spend_challenge(key.scope, host, now=now, rules=rules, rates=rates)

    def attempt() -> Subscription:
        before = _pending(key, subscriptions)
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


def _pending(key: SubscriptionKey, subscriptions: Subscriptions) -> Subscription:
    subscription = _present(key, subscriptions)
    if subscription.status is not Status.PENDING:
        raise IllegalTransitionError(
            subscription.id, str(subscription.status), "only pending subscriptions can be sent a challenge"
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

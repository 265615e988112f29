"""Ask for another endpoint: it is staged beside the old one, which receives until the new one has echoed."""

from dataclasses import dataclass, field, replace
from datetime import datetime

from hookkeeper.domain.audit import SYSTEM
from hookkeeper.domain.endpoint import canonical_url
from hookkeeper.domain.errors import StaleVersionError
from hookkeeper.domain.notice import Notice, NoticeKind
from hookkeeper.domain.signature import token_hash
from hookkeeper.domain.subscription import Profile, Status, Subscription
from hookkeeper.domain.tenancy import SubscriptionKey
from hookkeeper.ports import Contacts, Hosts, Ids, Rates, Subscriptions
from hookkeeper.usecases.challenge_rate import HostRules, spend_challenge
from hookkeeper.usecases.guarded_edit import write_edit
from hookkeeper.usecases.subscribe import TOKEN_LIFE, check_host, check_unique


@dataclass(frozen=True, slots=True, kw_only=True)
class Staging:
    """What it takes to ask for another endpoint; `token` is freshly random."""

    token: str = field(repr=False)
    rules: HostRules
    hosts: Hosts
    rates: Rates
    contacts: Contacts


def with_staged_url(
    before: Subscription, typed: str, *, now: datetime, staging: Staging, subscriptions: Subscriptions
) -> Subscription:
    """The subscription with the URL awaiting its challenge.

    One that was never verified has no other endpoint to keep: the URL takes its place at once. Asking for
    the present URL takes back what was staged; asking for the staged one again changes nothing.
    Raises InvalidInputError, DuplicateSubscriptionError, LimitedError, OwnFaultError as `subscribe` does.
    """
    rules = staging.rules
    endpoint = canonical_url(typed, own_hosts=rules.own_hosts, allowed_hosts=rules.allowed_hosts)
    if endpoint.text == before.awaited_url:
        return before
    if endpoint.text == before.endpoint_url:
        return without_staged_url(before)
    awaiting = replace(before, token_hash=token_hash(staging.token), token_expires_at=now + TOKEN_LIFE)
    if before.status is Status.PENDING:
        after = replace(awaiting, endpoint_url=endpoint.text)
    else:
        after = replace(awaiting, pending_endpoint_url=endpoint.text)
    check_unique(after, subscriptions)
    check_host(endpoint, staging.hosts)
    spend_challenge(before.scope, endpoint.host, now=now, rules=rules, rates=staging.rates)
    return after


def without_staged_url(before: Subscription) -> Subscription:
    if before.pending_endpoint_url is None:
        return before
    return replace(before, pending_endpoint_url=None, token_hash=None, token_expires_at=None)


def staged_notice(
    before: Subscription, after: Subscription, profile: Profile, now: datetime
) -> Notice | None:
    """What the owner is told, at the address that stood before the change; None where nothing was staged."""
    staged = after.pending_endpoint_url
    if staged is None or staged == before.pending_endpoint_url:
        return None
    return Notice(
        key=before.key,
        kind=NoticeKind.URL_STAGED,
        dedupe=f"version-{before.version + 1}",
        at=now,
        owner_email=profile.owner_email,
        endpoint_url=before.endpoint_url,
        facts={"new_endpoint": staged},
    )


def drop_expired_url(key: SubscriptionKey, *, now: datetime, subscriptions: Subscriptions, ids: Ids) -> bool:
    """Drop the staged URL whose challenge nobody echoed in its day; the old endpoint stays.

    False where there is none (any more), or another change came first.
    """
    before = subscriptions.get(key)
    if before is None or before.awaited_url is None or before.pending_endpoint_url is None:
        return False
    if before.token_expires_at is None or now < before.token_expires_at:
        return False
    try:
        write_edit(
            before,
            without_staged_url(before),
            action="subscription.staged_url_expired",
            actor=SYSTEM,
            now=now,
            subscriptions=subscriptions,
            ids=ids,
        )
    except StaleVersionError:
        return False
    return True

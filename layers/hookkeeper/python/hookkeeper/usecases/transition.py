"""The sole owner of a subscription's status: every change of it is one guarded transaction made here.

Each function reads the truth, builds the change with all that must be true with it (health, audit,
notice, recovery), and applies it. A lost guard is tried again while the change is still legal; when it
is not, someone else did it: the policy's own changes then return quietly, a person's say what stands.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from hookkeeper.domain.audit import SYSTEM, Actor, AuditRecord
from hookkeeper.domain.circuit import closed
from hookkeeper.domain.config import Margins
from hookkeeper.domain.errors import ConflictError, NotFoundError
from hookkeeper.domain.health import Health, Verdict
from hookkeeper.domain.ladder import AutoProbe, next_look_at
from hookkeeper.domain.notice import Notice, NoticeKind
from hookkeeper.domain.outcome import Outcome
from hookkeeper.domain.recovery import (
    Recovery,
    RecoveryKind,
    RecoveryStatus,
    Window,
    automatic,
    ended_by,
    joined,
    with_window,
)
from hookkeeper.domain.subscription import (
    DisabledReason,
    Status,
    Subscription,
    Trigger,
    next_status,
)
from hookkeeper.domain.tenancy import SubscriptionKey
from hookkeeper.ports import Ids, Standing, Subscriptions, Transition
from hookkeeper.usecases.auto_probe import AUTO_PROBE

FIRST_LOOK = timedelta(hours=1)
"""When the sweep looks how long a suspended subscription's events are kept, by the rules of that time."""

REENABLED = "reenabled"
TOLD_AGAIN_AFTER = timedelta(days=1)
TRIES = 5
"""How often a lost guard is tried again; each loss means that someone else's write went through."""

Change = Callable[[Standing, str], Transition]
"""Builds the transition from what was read and a fresh audit id. Raises IllegalTransitionError."""


@dataclass(frozen=True, slots=True)
class Changed:
    """The standing before and the subscription after, once it is written."""

    before: Standing
    subscription: Subscription


def verify(
    key: SubscriptionKey,
    *,
    token_hash: str,
    actor: Actor,
    now: datetime,
    margins: Margins,
    subscriptions: Subscriptions,
    ids: Ids,
) -> Changed:
    """pending → active: the challenge came back. Events are owed from the routing cache's life on."""

    def change(standing: Standing, audit_id: str) -> Transition:
        before = standing.subscription
        next_status(before, Trigger.CHALLENGE_ECHOED)
        _check_awaited(before, token_hash)
        after = replace(
            before,
            status=next_status(before, Trigger.CHALLENGE_ECHOED),
            first_active_at=now + margins.routing_cache,
            token_hash=None,
            token_expires_at=None,
            verified_at=now,
        )
        verified = _transition(
            standing, after, standing.health, audit_id, "subscription.verified", actor, now
        )
        return replace(verified, holds_token=True)

    return _apply(key, change, subscriptions=subscriptions, ids=ids)


def swap_url(
    key: SubscriptionKey,
    *,
    token_hash: str,
    owner_email: str,
    actor: Actor,
    now: datetime,
    subscriptions: Subscriptions,
    ids: Ids,
) -> Changed:
    """The staged endpoint, whose challenge came back, takes the old one's place; the status stays.

    It starts with a clean sheet: a new epoch, no streaks, a closed circuit. While active, an outage ends
    here, and a recovery gives the new endpoint its window and what was owed; while suspended, the outage
    goes on, or all that it holds would be lost (STORIES 12).
    """

    def change(standing: Standing, audit_id: str) -> Transition:
        before = standing.subscription
        if before.pending_endpoint_url is None or before.awaited_url is None:
            raise ConflictError(f"{before.id} has no staged endpoint_url")
        _check_awaited(before, token_hash)
        after = replace(
            before,
            endpoint_url=before.pending_endpoint_url,
            pending_endpoint_url=None,
            token_hash=None,
            token_expires_at=None,
            verified_at=now,
        )
        health, recovery = _swapped(standing, ids.new("rec"), now)
        swapped = _transition(standing, after, health, audit_id, "subscription.url_changed", actor, now)
        told = replace(
            swapped.audit,
            before={"endpoint_url": before.endpoint_url},
            after={"endpoint_url": after.endpoint_url},
        )
        notice = Notice(
            key=key,
            kind=NoticeKind.URL_CHANGED,
            dedupe=f"epoch-{health.epoch}",
            at=now,
            owner_email=owner_email,
            endpoint_url=after.endpoint_url,
            facts={"former_endpoint": before.endpoint_url},
        )
        return replace(
            swapped, audit=told, holds_token=True, clears_streaks=True, notice=notice, recovery=recovery
        )

    return _apply(key, change, subscriptions=subscriptions, ids=ids)


def expire(key: SubscriptionKey, *, now: datetime, subscriptions: Subscriptions, ids: Ids) -> Changed | None:
    """pending → revoked: nobody answered the challenge in time. None where one still counts."""

    def change(standing: Standing, audit_id: str) -> Transition:
        before = standing.subscription
        if not _token_ended(before, now):
            raise ConflictError(f"the challenge of {before.id} has not ended")
        after = replace(
            before,
            status=next_status(before, Trigger.TOKEN_EXPIRED),
            status_reason="challenge_expired",
            token_hash=None,
            token_expires_at=None,
        )
        expired = _transition(standing, after, standing.health, audit_id, "subscription.expired", SYSTEM, now)
        return replace(expired, holds_token=True)

    try:
        return _apply(key, change, subscriptions=subscriptions, ids=ids)
    except ConflictError:
        return None


def suspend(
    standing: Standing,
    verdict: Verdict,
    *,
    owner_email: str,
    facts: Mapping[str, str],
    auto_probe: AutoProbe,
    now: datetime,
    margins: Margins,
    subscriptions: Subscriptions,
    ids: Ids,
) -> bool:
    """active → suspended by the policy, with its notice; holds only while health still says so.

    True when this call made the change. Not tried again: the next failure or the sweep asks anew. Of an
    endpoint that passes its ladder's probes and then fails its events the owner is told once a day.
    """
    before, audit_id = standing.subscription, ids.new("aud")
    if before.status is not Status.ACTIVE or verdict.gate is None:
        return False
    outcome = verdict.gate.outcome or Outcome.RETRYABLE
    after = replace(
        _disabled(before, now, _reason_of(outcome)),
        status=next_status(before, Trigger.POLICY_CROSSED),
        status_reason=f"auto_suspend:{verdict.gate.outcome or 'mixed'}:{verdict.gate.count}",
        last_failure_status=standing.health.last_status_code,
    )
    goes_round = before.status_reason == REENABLED and not standing.health.proven
    told_at = standing.health.recovery.told_at
    repeats = goes_round and standing.health.recovery.unasked
    tells = not (repeats and told_at is not None and now - told_at < TOLD_AGAIN_AFTER)
    health = _in_outage(standing.health, now, margins)
    health = replace(
        health,
        check_at=next_look_at(auto_probe, now, now, goes_round=goes_round),
        recovery=replace(
            health.recovery,
            version=standing.health.recovery.version + 1,
            goes_round=goes_round,
            told_at=now if tells else told_at,
        ),
    )
    transition = _transition(standing, after, health, audit_id, "subscription.suspended", SYSTEM, now)
    notice = Notice(
        key=before.key,
        kind=NoticeKind.SUSPENDED,
        dedupe=f"epoch-{health.epoch}",
        at=now,
        owner_email=owner_email,
        endpoint_url=before.endpoint_url,
        facts=facts,
    )
    return subscriptions.transition(replace(transition, holds_streak=True, notice=notice if tells else None))


def pause(
    key: SubscriptionKey,
    *,
    actor: Actor,
    now: datetime,
    margins: Margins,
    subscriptions: Subscriptions,
    ids: Ids,
) -> Changed:
    """active → suspended because its owner says so; no mail."""

    def change(standing: Standing, audit_id: str) -> Transition:
        before = standing.subscription
        after = replace(
            _disabled(before, now, DisabledReason.MANUAL),
            status=next_status(before, Trigger.OWNER_PAUSED),
            status_reason="paused",
        )
        health = _in_outage(standing.health, now, margins)
        return _transition(standing, after, health, audit_id, "subscription.paused", actor, now)

    return _apply(key, change, subscriptions=subscriptions, ids=ids)


def withdraw_consent(
    key: SubscriptionKey,
    *,
    owner_email: str,
    actor: Actor,
    now: datetime,
    margins: Margins,
    subscriptions: Subscriptions,
    ids: Ids,
) -> Changed:
    """active → suspended because its tenant no longer lets the application receive.

    What was missed until now is owed no more, and nothing is until it is activated again (SPEC §4).
    """

    def change(standing: Standing, audit_id: str) -> Transition:
        before = standing.subscription
        after = replace(
            _disabled(before, now, DisabledReason.CONSENT_WITHDRAWN),
            status=next_status(before, Trigger.CONSENT_WITHDRAWN),
            status_reason="consent_withdrawn",
            first_active_at=None,
        )
        health = _in_outage(standing.health, now, margins)
        lock = replace(health.recovery, version=standing.health.recovery.version + 1, windows=())
        health = replace(health, warn_at=None, recovery=lock)
        withdrawn = _transition(
            standing, after, health, audit_id, "subscription.consent_withdrawn", actor, now
        )
        notice = Notice(
            key=key,
            kind=NoticeKind.CONSENT_WITHDRAWN,
            dedupe=f"epoch-{health.epoch}",
            at=now,
            owner_email=owner_email,
            endpoint_url=before.endpoint_url,
        )
        return replace(withdrawn, notice=notice)

    return _apply(key, change, subscriptions=subscriptions, ids=ids)


def activate(
    key: SubscriptionKey,
    *,
    trigger: Trigger,
    recovery: Recovery,
    actor: Actor,
    now: datetime,
    subscriptions: Subscriptions,
    ids: Ids,
) -> Changed | None:
    """suspended → active, with the recovery of all that was missed in the same transaction.

    None where the recovery no longer holds the lock, or the status changed: the race is lost. Of a recovery
    without backfill the windows are dropped on purpose: its owner said so.
    """

    def change(standing: Standing, audit_id: str) -> Transition:
        before, health = standing.subscription, standing.health
        if not (health.recovery.held and health.recovery.is_present(recovery.id, recovery.generation)):
            raise ConflictError(f"{recovery.id} no longer holds the recovery of {before.id}")
        after = replace(
            before,
            status=next_status(before, trigger),
            disabled_at=None,
            disabled_reason=None,
            last_failure_status=None,
            status_reason=REENABLED,
            # Withdrawn consent has taken it away: nothing from before is owed.
            first_active_at=before.first_active_at or now + Margins().routing_cache,
        )
        windows = health.recovery.windows if recovery.backfill else ()
        if recovery.backfill and health.outage_from is not None:
            windows = with_window(windows, Window(start=health.outage_from, end=now))
        lock = replace(
            health.recovery,
            version=health.recovery.version + 1,
            status=RecoveryStatus.RUNNING,
            windows=windows,
            unasked=recovery.actor == AUTO_PROBE.id,
        )
        restored = replace(
            health,
            epoch=health.epoch + 1,
            epoch_at=now,
            circuit=closed(health.circuit),
            outage_from=None,
            check_at=None,
            warn_at=None,
            recovery=lock,
        )
        transition = _transition(standing, after, restored, audit_id, "subscription.reenabled", actor, now)
        running = replace(recovery, status=RecoveryStatus.RUNNING)
        told = replace(transition.audit, detail=str(trigger))
        return replace(transition, audit=told, clears_streaks=True, recovery=running)

    try:
        return _apply(key, change, subscriptions=subscriptions, ids=ids)
    except ConflictError:
        return None


def revoke(
    key: SubscriptionKey, *, actor: Actor, now: datetime, subscriptions: Subscriptions, ids: Ids
) -> Changed:
    """any → revoked, for good: nothing more is sent, what is owed will be discarded."""

    def change(standing: Standing, audit_id: str) -> Transition:
        before, health = standing.subscription, standing.health
        after = replace(
            before,
            status=next_status(before, Trigger.REVOKED),
            status_reason="revoked",
            token_hash=None,
            token_expires_at=None,
            pending_endpoint_url=None,
        )
        lock = replace(health.recovery, version=health.recovery.version + 1, windows=())
        if lock.held:
            lock = replace(lock, status=RecoveryStatus.CANCELLED)
        ended = replace(
            health,
            epoch=health.epoch + 1,
            epoch_at=now,
            circuit=closed(health.circuit),
            outage_from=None,
            check_at=None,
            warn_at=None,
            recovery=lock,
        )
        return _transition(standing, after, ended, audit_id, "subscription.revoked", actor, now)

    return _apply(key, change, subscriptions=subscriptions, ids=ids)


def _apply(key: SubscriptionKey, change: Change, *, subscriptions: Subscriptions, ids: Ids) -> Changed:
    """Make the change, again after each lost guard while it stays legal.

    Raises NotFoundError, IllegalTransitionError when it is not legal (any more), ConflictError when
    TRIES writes of others came between.
    """
    for _ in range(TRIES):
        standing = subscriptions.standing(key)
        if standing is None:
            raise NotFoundError("subscription", key.subscription_id)
        transition = change(standing, ids.new("aud"))
        if subscriptions.transition(transition):
            return Changed(standing, transition.after)
    raise ConflictError(f"{key.subscription_id} is being changed by others; try again")


def _transition(
    standing: Standing,
    after: Subscription,
    health: Health,
    audit_id: str,
    action: str,
    actor: Actor,
    now: datetime,
) -> Transition:
    before = standing.subscription
    return Transition(
        before=standing,
        after=replace(after, updated_at=now, version=before.version + 1, writer=audit_id),
        health=health,
        ends=ended_by(standing.health.recovery, health.recovery, now=now),
        audit=AuditRecord(
            scope=before.scope,
            id=audit_id,
            at=now,
            action=action,
            actor=actor,
            subject=before.id,
            before={"status": str(before.status)},
            after={"status": str(after.status)},
            detail=after.status_reason or "",
        ),
    )


def _disabled(before: Subscription, now: datetime, reason: DisabledReason) -> Subscription:
    return replace(before, disabled_at=now, disabled_reason=reason)


def _in_outage(health: Health, now: datetime, margins: Margins) -> Health:
    """Health as a suspension leaves it: the outage reaches back by the margin, or further if it had begun.

    A recovery that ran gives up its lock and leaves its unread windows where they are.
    """
    begins = now - margins.outage
    lock = health.recovery
    if lock.held:
        lock = replace(lock, version=lock.version + 1, status=RecoveryStatus.STOPPED)
    return replace(
        health,
        epoch=health.epoch + 1,
        epoch_at=now,
        circuit=closed(health.circuit),
        outage_from=min(health.outage_from or begins, begins),
        check_at=None,
        warn_at=now + FIRST_LOOK,
        recovery=lock,
    )


def _swapped(standing: Standing, recovery_id: str, now: datetime) -> tuple[Health, Recovery | None]:
    """Health under a new endpoint, and the recovery that gives it what the old one missed."""
    health = replace(
        standing.health,
        epoch=standing.health.epoch + 1,
        epoch_at=now,
        circuit=closed(standing.health.circuit),
        check_at=None,
    )
    if standing.subscription.status is not Status.ACTIVE:
        return health, None
    window = Window(start=health.outage_from, end=now) if health.outage_from is not None else None
    lock = joined(
        health.recovery, window=window, recovery_id=recovery_id, kind=RecoveryKind.AUTOMATIC, now=now
    )
    recovery = automatic(health.key, lock, now=now) if lock.id != health.recovery.id else None
    return replace(health, outage_from=None, recovery=lock), recovery


def _check_awaited(subscription: Subscription, token_hash: str) -> None:
    if subscription.token_hash != token_hash:
        raise ConflictError(f"{subscription.id} was given a fresh challenge meanwhile")


def _reason_of(outcome: Outcome) -> DisabledReason:
    hard = outcome in (Outcome.PERMANENT, Outcome.FATAL)
    return DisabledReason.PERMANENT_ERROR if hard else DisabledReason.REPEATED_FAILURE


def _token_ended(subscription: Subscription, now: datetime) -> bool:
    return (
        subscription.status is Status.PENDING
        and subscription.token_expires_at is not None
        and now >= subscription.token_expires_at
    )

"""Let an application receive a tenant's events, and stop it at once."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from datetime import datetime

from hookkeeper.domain.audit import Actor, AuditRecord
from hookkeeper.domain.config import Margins
from hookkeeper.domain.consent import Consent, granted, withdrawn
from hookkeeper.domain.errors import ConflictError, InvalidInputError, NotFoundError
from hookkeeper.domain.event import checked_patterns
from hookkeeper.domain.subscription import DisabledReason, Status, Subscription
from hookkeeper.domain.tenancy import Scope, checked_id
from hookkeeper.ports import Consents, Ids, Subscriptions
from hookkeeper.usecases import transition
from hookkeeper.usecases.guarded_edit import TRIES, editable, until_unhindered, write_edit

MAX_GRANTED_BY_CHARACTERS = 200
READ_AT_ONCE = 100


def grant(
    scope: Scope,
    application_id: str,
    event_types: Sequence[str],
    *,
    granted_by: str,
    actor: Actor,
    now: datetime,
    consents: Consents,
    ids: Ids,
) -> Consent:
    """Grant these event types, or change those of a consent that is in force.

    Raises InvalidInputError, and ConflictError where TRIES changes of others came between.
    """
    checked_id(application_id, field="application_id")
    patterns = checked_patterns(event_types)
    if len(granted_by) > MAX_GRANTED_BY_CHARACTERS:
        detail = f"at most {MAX_GRANTED_BY_CHARACTERS} characters"
        raise InvalidInputError(detail, code="too_long", pointer="/granted_by")
    for _ in range(TRIES):
        before = consents.get(scope, application_id)
        after = granted(
            before,
            scope=scope,
            application_id=application_id,
            patterns=patterns,
            granted_by=granted_by,
            now=now,
        )
        if consents.put(after, _record("consent.granted", before, after, actor, now, ids)):
            return after
    raise ConflictError(f"the consent to {application_id} is being changed by others; try again")


def withdraw(
    scope: Scope,
    application_id: str,
    *,
    actor: Actor,
    now: datetime,
    margins: Margins,
    consents: Consents,
    subscriptions: Subscriptions,
    ids: Ids,
) -> Consent:
    """Nothing is handed over from here on; then its subscriptions are suspended, and pending ones revoked.

    Every delivery asks the consent itself, so what is queued or owed is discarded though this call should die
    half-way; made again, it does the rest. Raises NotFoundError, ConflictError.
    """
    consent = _withdrawn(scope, application_id, actor=actor, now=now, consents=consents, ids=ids)
    for subscription in _held(scope, application_id, subscriptions):
        _stop(subscription, actor=actor, now=now, margins=margins, subscriptions=subscriptions, ids=ids)
    return consent


def _withdrawn(
    scope: Scope, application_id: str, *, actor: Actor, now: datetime, consents: Consents, ids: Ids
) -> Consent:
    for _ in range(TRIES):
        before = consents.get(scope, application_id)
        if before is None:
            raise NotFoundError("consent", application_id)
        if not before.in_force:
            return before
        after = withdrawn(before, now=now)
        if consents.put(after, _record("consent.withdrawn", before, after, actor, now, ids)):
            return after
    raise ConflictError(f"the consent to {application_id} is being changed by others; try again")


def _held(scope: Scope, application_id: str, subscriptions: Subscriptions) -> Iterator[Subscription]:
    after: str | None = None
    while True:
        page = subscriptions.page(scope, limit=READ_AT_ONCE, after=after)
        for standing in page.standings:
            if standing.subscription.application_id == application_id:
                yield standing.subscription
        after = page.next_after
        if after is None:
            return


def _stop(
    subscription: Subscription,
    *,
    actor: Actor,
    now: datetime,
    margins: Margins,
    subscriptions: Subscriptions,
    ids: Ids,
) -> None:
    key = subscription.key
    match subscription.status:
        case Status.ACTIVE:
            profile = subscriptions.profile(key)
            transition.withdraw_consent(
                key,
                owner_email=profile.owner_email if profile else "",
                actor=actor,
                now=now,
                margins=margins,
                subscriptions=subscriptions,
                ids=ids,
            )
        case Status.SUSPENDED:
            until_unhindered(key, lambda: _mark(subscription, actor, now, subscriptions, ids))
        case Status.PENDING:
            transition.revoke(key, actor=actor, now=now, subscriptions=subscriptions, ids=ids)
        case Status.REVOKED:
            pass


def _mark(
    subscription: Subscription, actor: Actor, now: datetime, subscriptions: Subscriptions, ids: Ids
) -> Subscription:
    """Suspended already, it is owed nothing any more, and says why."""
    before, _ = editable(subscription.key, version=None, subscriptions=subscriptions)
    if before.disabled_reason is DisabledReason.CONSENT_WITHDRAWN:
        return before
    return write_edit(
        before,
        replace(
            before,
            disabled_reason=DisabledReason.CONSENT_WITHDRAWN,
            status_reason="consent_withdrawn",
            first_active_at=None,
        ),
        action="subscription.consent_withdrawn",
        actor=actor,
        now=now,
        subscriptions=subscriptions,
        ids=ids,
    )


def _record(
    action: str, before: Consent | None, after: Consent, actor: Actor, now: datetime, ids: Ids
) -> AuditRecord:
    return AuditRecord(
        scope=after.scope,
        id=ids.new("aud"),
        at=now,
        action=action,
        actor=actor,
        subject=f"consent:{after.application_id}",
        before={"event_types": ", ".join(before.event_types)} if before and before.in_force else {},
        after={"event_types": ", ".join(after.event_types)} if after.in_force else {},
        detail=after.granted_by,
    )

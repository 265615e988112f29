"""One subscription: how it stands, its settings, and who changed what."""

import re
from collections import Counter
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from itertools import islice

from aws_lambda_powertools.event_handler import Response
from aws_lambda_powertools.event_handler.api_gateway import Router
from charts import outcomes_by_hour
from hookkeeper.api import masked
from hookkeeper.domain.access import Right
from hookkeeper.domain.delivery import Attempt, Delivery
from hookkeeper.domain.errors import InvalidInputError, NotFoundError
from hookkeeper.domain.event import checked_patterns, matches
from hookkeeper.domain.notice import WITHHELD
from hookkeeper.domain.subscription import wants
from hookkeeper.domain.tenancy import Scope, SubscriptionKey
from hookkeeper.ports import Standing
from hookkeeper.usecases.deliveries import list_deliveries
from pages import page
from situation import AskedFor, situation_of
from visit import Visit, in_tenant, safe_path, subscription_key

DAY = timedelta(days=1)
LATEST = 100
SHOWN_ATTEMPTS = 10
SHOWN_NOTICES = 10
AUDIT_PAGE = 25
MOST_SAMPLED = 2000
_WHOLE = re.compile("[0-9]{1,9}")
"""Events of the last day whose types are looked at for a filter's preview."""

DONE = {
    "paused": "Paused. Nothing is sent until you resume; what is missed is kept.",
    "revoked": "Revoked. Nothing more is sent, for good.",
    "tested": "A test event is on its way. It counts for nothing and is in no list: look at your endpoint.",
    "challenged": "A fresh challenge is on its way. The one before is dead.",
    "verified": "Verified.",
    "edited": "The event types are changed. New ones are in force in ten seconds.",
    "maintained": "Maintenance is announced: until its end nothing is suspended.",
    "resumed": "Active again.",
    "released": "The notice is released: its owner is mailed within a few minutes.",
}
"""What a POST has done, by the word in the address after it; no other word says anything."""

router = Router()  # type: ignore[no-untyped-call]  # Powertools leaves it untyped


@router.get("/console/subscriptions/<subscription_id>")
def overview(subscription_id: str) -> Response[str]:
    visit, scope = in_tenant(router, Right.SUBSCRIPTIONS_READ)
    key = subscription_key(scope, subscription_id)
    situation = situation_of(visit, key, asked=_asked(visit))
    until = situation.subscription.disabled_at or visit.now
    deliveries, more = _latest(visit, key, until=until)
    attempts = _attempts(deliveries)
    return page(
        visit,
        "subscription.html",
        tab="overview",
        situation=situation,
        standing=situation.standing,
        profile=visit.reach.subscriptions.profile(key),
        headers_masked=masked(situation.subscription.headers),
        done=DONE.get(visit.query.get("done", "")),
        chart=outcomes_by_hour(deliveries, until=until, partial=more),
        until=until,
        attempts=attempts[:SHOWN_ATTEMPTS],
        notices=visit.reach.notices.of(key, limit=SHOWN_NOTICES),
        releasable=WITHHELD if visit.known().operator else frozenset(),
    )


@router.get("/console/subscriptions/<subscription_id>/state")
def state(subscription_id: str) -> Response[str]:
    """The part of the page that moves."""
    visit, scope = in_tenant(router, Right.SUBSCRIPTIONS_READ)
    situation = situation_of(visit, subscription_key(scope, subscription_id), asked=_asked(visit))
    return page(visit, "_state.html", situation=situation, standing=situation.standing)


@router.get("/console/subscriptions/<subscription_id>/settings")
def settings(subscription_id: str) -> Response[str]:
    visit, scope = in_tenant(router, Right.SUBSCRIPTIONS_READ)
    return settings_page(visit, existing(visit, scope, subscription_id))


@router.get("/console/subscriptions/<subscription_id>/preview")
def preview(subscription_id: str) -> Response[str]:
    """Which of yesterday's event types a filter would take, before it is saved; `own`: of those it takes."""
    visit, scope = in_tenant(router, Right.SUBSCRIPTIONS_READ)
    standing = existing(visit, scope, subscription_id)
    typed, own = visit.query.get("event_types", ""), "own" in visit.query
    return page(visit, "_preview.html", preview=_preview(visit, standing, typed, own=own))


@router.get("/console/subscriptions/<subscription_id>/audit")
def audit(subscription_id: str) -> Response[str]:
    visit, scope = in_tenant(router, Right.SUBSCRIPTIONS_READ)
    standing = existing(visit, scope, subscription_id)
    before = visit.query.get("before")
    records = visit.reach.audit.of(
        scope,
        standing.subscription.id,
        limit=AUDIT_PAGE + 1,
        before=before if safe_path(f"/{before}") else None,
    )
    more = len(records) > AUDIT_PAGE
    return page(
        visit,
        "audit.html",
        tab="audit",
        standing=standing,
        records=records[:AUDIT_PAGE],
        before=records[AUDIT_PAGE - 1].id if more else None,
    )


def settings_page(
    visit: Visit,
    standing: Standing,
    *,
    status_code: int = 200,
    given: str | None = None,
    secret: str | None = None,
    old_until: datetime | None = None,
    problem: tuple[str, str] | None = None,
) -> Response[str]:
    """The settings; `given` is what was typed as filter, `problem` what is wrong with which form."""
    subscription = standing.subscription
    typed = visit.query.get("event_types", "\n".join(subscription.event_types)) if given is None else given
    return page(
        visit,
        "settings.html",
        status_code=status_code,
        tab="settings",
        standing=standing,
        profile=visit.reach.subscriptions.profile(subscription.key),
        headers_masked=masked(subscription.headers),
        typed=typed,
        preview=_preview(visit, standing, typed),
        secret=secret,
        old_until=old_until,
        problem=problem,
    )


def existing(visit: Visit, scope: Scope, subscription_id: str) -> Standing:
    """Raises NotFoundError."""
    standing = visit.reach.subscriptions.standing(subscription_key(scope, subscription_id))
    if standing is None:
        raise NotFoundError("subscription", subscription_id)
    return standing


def patterns_of(text: str) -> list[str]:
    """One pattern a line; commas and spaces part them as well."""
    return text.replace(",", " ").split()


def whole_number(text: str, *, least: int, most: int) -> int | None:
    """The number that was typed; None for whatever else it is."""
    number = int(text) if _WHOLE.fullmatch(text) else None
    return number if number is not None and least <= number <= most else None


def _preview(visit: Visit, standing: Standing, typed: str, *, own: bool = False) -> dict[str, object]:
    """The types of the last day that the filter takes and that it leaves, most frequent first.

    `own`: of the subscription's own alone, which are all that can be sent to it again.
    """
    subscription = standing.subscription
    recent = islice(visit.reach.archive.recent(subscription.scope, since=visit.now - DAY), MOST_SAMPLED)
    seen = Counter(
        each.event_type
        for each in recent
        if not own or wants(subscription, event_type=each.event_type, resource_id=each.resource_id)
    )
    told: dict[str, object] = {"problem": None, "taken": [], "left": [], "seen": len(seen), "own": own}
    try:
        patterns = checked_patterns(patterns_of(typed))
    except InvalidInputError as error:
        return told | {"problem": error.detail}
    taken = [(kind, count) for kind, count in seen.most_common() if matches(patterns, kind)]
    left = [(kind, count) for kind, count in seen.most_common() if not matches(patterns, kind)]
    return told | {"taken": taken, "left": left}


def _latest(visit: Visit, key: SubscriptionKey, *, until: datetime) -> tuple[Sequence[Delivery], bool]:
    """The deliveries of the day up to then, newest first, and whether there may be more."""
    if not visit.may(Right.DELIVERIES_READ):
        return [], False
    found = list_deliveries(
        key,
        since=until - DAY,
        until=until,
        limit=LATEST,
        subscriptions=visit.reach.subscriptions,
        ledger=visit.reach.ledger,
        archive=visit.reach.archive,
    )
    return found.deliveries, found.next_after is not None


def _attempts(deliveries: Sequence[Delivery]) -> list[tuple[Attempt, Delivery]]:
    pairs = [(attempt, delivery) for delivery in deliveries for attempt in delivery.attempts]
    return sorted(pairs, key=lambda pair: pair[0].at, reverse=True)


def _asked(visit: Visit) -> AskedFor | None:
    """The re-enablement that the address speaks of; its moment is in whole seconds."""
    text = visit.query.get("asked", "")
    if not (text.isascii() and text.isdigit() and len(text) <= 11):
        return None
    before = visit.query.get("before", "")
    return AskedFor(
        at=datetime.fromtimestamp(int(text), UTC), before=before if safe_path(f"/{before}") else ""
    )

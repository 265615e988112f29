"""What an owner does to a subscription: each is a POST that ends on the page that shows what came of it."""

import base64
import json
from datetime import timedelta

from aws_lambda_powertools.event_handler import Response
from aws_lambda_powertools.event_handler.api_gateway import Router
from hookkeeper.domain.access import Right
from hookkeeper.domain.errors import InvalidInputError
from hookkeeper.domain.signature import SECRET_BYTES, Secret, encode_secret
from hookkeeper.domain.tenancy import SubscriptionKey
from hookkeeper.usecases import transition
from hookkeeper.usecases.ask_test import ask_test
from hookkeeper.usecases.edit_subscription import Changes, edit_subscription, set_maintenance
from hookkeeper.usecases.reenable import reenable
from hookkeeper.usecases.rotate_secret import overlap_of, rotate_secret
from hookkeeper.usecases.verify import renew_challenge, verify
from pages import see
from situation import AskedFor
from subscription_pages import existing, patterns_of, settings_page, whole_number
from visit import Visit, in_tenant, subscription_key
from words import host

TOKEN_BYTES = 32
MOST_PER_SECOND = 1000
MOST_VERSION = 999_999_999
NEVER_READ = 0
"""The version that no subscription has: a form without a good one changes nothing."""
LONGEST_MAINTENANCE_HOURS = 7 * 24

router = Router()  # type: ignore[no-untyped-call]  # Powertools leaves it untyped


@router.post("/console/subscriptions/<subscription_id>/reenable")
def start_reenabling(subscription_id: str) -> Response[str]:
    """Whoever asks a second time is shown how the first went."""
    visit, key = _writing(subscription_id)
    standing = existing(visit, key.scope, subscription_id)
    if standing.subscription.enabled:
        return _done(visit, key, "resumed")
    before = next((recovery.id for recovery in visit.reach.recoveries.of(key, limit=1)), "")
    reenable(
        key,
        backfill="without_backfill" not in visit.form,
        rate=_rate(visit),
        actor=visit.actor,
        now=visit.now,
        config=visit.reach.configs.current(),
        subscriptions=visit.reach.subscriptions,
        consents=visit.reach.consents,
        workflow=visit.reach.workflow,
    )
    asked = AskedFor(at=visit.now, before=before)
    return see(visit, f"/subscriptions/{key.subscription_id}?{asked.query}")


@router.post("/console/subscriptions/<subscription_id>/pause")
def pause(subscription_id: str) -> Response[str]:
    visit, key = _writing(subscription_id)
    transition.pause(
        key,
        actor=visit.actor,
        now=visit.now,
        margins=visit.reach.margins,
        subscriptions=visit.reach.subscriptions,
        ids=visit.reach.ids,
    )
    return _done(visit, key, "paused")


@router.post("/console/subscriptions/<subscription_id>/revoke")
def revoke(subscription_id: str) -> Response[str]:
    """Whoever revokes types the host first: there is no way back."""
    visit, key = _writing(subscription_id)
    standing = existing(visit, key.scope, subscription_id)
    wanted = host(standing.subscription.endpoint_url)
    if visit.form.get("host", "").strip().lower() != wanted:
        problem = ("revoke", f"To revoke, type {wanted} exactly. Nothing was changed.")
        return settings_page(visit, standing, status_code=422, problem=problem)
    transition.revoke(
        key,
        actor=visit.actor,
        now=visit.now,
        subscriptions=visit.reach.subscriptions,
        ids=visit.reach.ids,
    )
    return _done(visit, key, "revoked")


@router.post("/console/subscriptions/<subscription_id>/rotate-secret")
def rotate(subscription_id: str) -> Response[str]:
    """The one answer that holds a secret: it is kept nowhere, and no other page can show it."""
    visit, key = _writing(subscription_id)
    secret = Secret(visit.reach.entropy(SECRET_BYTES))
    try:
        overlap = overlap_of(float(visit.form.get("overlap_hours", "24")))
    except (InvalidInputError, ValueError):
        problem = ("rotate", "The old secret signs for 0 to 168 hours more. Nothing was changed.")
        standing = existing(visit, key.scope, subscription_id)
        return settings_page(visit, standing, status_code=422, problem=problem)
    rotate_secret(
        key,
        secret,
        overlap=overlap,
        actor=visit.actor,
        now=visit.now,
        subscriptions=visit.reach.subscriptions,
        secrets=visit.reach.secrets,
        ids=visit.reach.ids,
    )
    standing = existing(visit, key.scope, subscription_id)
    return settings_page(visit, standing, secret=encode_secret(secret.key), old_until=visit.now + overlap)


@router.post("/console/subscriptions/<subscription_id>/test")
def send_test(subscription_id: str) -> Response[str]:
    visit, key = _writing(subscription_id)
    ask_test(
        key,
        event_type=visit.form.get("event_type", "").strip() or "endpoint.test",
        data=json.dumps({"sent_from": "console"}),
        subscriptions=visit.reach.subscriptions,
        contacts=visit.reach.contacts,
    )
    return _done(visit, key, "tested")


@router.post("/console/subscriptions/<subscription_id>/event-types")
def change_event_types(subscription_id: str) -> Response[str]:
    visit, key = _writing(subscription_id)
    typed, version = visit.form.get("event_types", ""), visit.form.get("version", "")
    try:
        edit_subscription(
            key,
            Changes(event_types=patterns_of(typed)),
            version=whole_number(version, least=1, most=MOST_VERSION) or NEVER_READ,
            actor=visit.actor,
            now=visit.now,
            margins=visit.reach.margins,
            config=visit.reach.configs.current(),
            subscriptions=visit.reach.subscriptions,
            ids=visit.reach.ids,
        )
    except InvalidInputError as error:
        standing = existing(visit, key.scope, subscription_id)
        problem = ("event_types", f"{error.detail}. Nothing was changed.")
        return settings_page(visit, standing, status_code=422, given=typed, problem=problem)
    return _done(visit, key, "edited")


@router.post("/console/subscriptions/<subscription_id>/maintenance")
def maintain(subscription_id: str) -> Response[str]:
    visit, key = _writing(subscription_id)
    hours = whole_number(visit.form.get("hours", ""), least=0, most=LONGEST_MAINTENANCE_HOURS)
    if hours is None:
        problem = ("maintenance", "Maintenance lasts 0 to 168 hours. Nothing was changed.")
        standing = existing(visit, key.scope, subscription_id)
        return settings_page(visit, standing, status_code=422, problem=problem)
    set_maintenance(
        key,
        visit.now + timedelta(hours=hours) if hours else None,
        actor=visit.actor,
        now=visit.now,
        subscriptions=visit.reach.subscriptions,
        ids=visit.reach.ids,
    )
    return _done(visit, key, "maintained")


@router.post("/console/subscriptions/<subscription_id>/verify")
def verify_by_owner(subscription_id: str) -> Response[str]:
    visit, key = _writing(subscription_id)
    verify(
        key,
        visit.form.get("challenge", "").strip(),
        actor=visit.actor,
        now=visit.now,
        margins=visit.reach.margins,
        subscriptions=visit.reach.subscriptions,
        ids=visit.reach.ids,
    )
    return _done(visit, key, "verified")


@router.post("/console/subscriptions/<subscription_id>/verification")
def send_challenge(subscription_id: str) -> Response[str]:
    visit, key = _writing(subscription_id)
    renew_challenge(
        key,
        token=base64.urlsafe_b64encode(visit.reach.entropy(TOKEN_BYTES)).decode().rstrip("="),
        actor=visit.actor,
        now=visit.now,
        rules=visit.reach.host_rules,
        rates=visit.reach.rates,
        subscriptions=visit.reach.subscriptions,
        contacts=visit.reach.contacts,
        ids=visit.reach.ids,
    )
    return _done(visit, key, "challenged")


def _writing(subscription_id: str) -> tuple[Visit, SubscriptionKey]:
    visit, scope = in_tenant(router, Right.SUBSCRIPTIONS_WRITE)
    return visit, subscription_key(scope, subscription_id)


def _done(visit: Visit, key: SubscriptionKey, what: str) -> Response[str]:
    return see(visit, f"/subscriptions/{key.subscription_id}?done={what}")


def _rate(visit: Visit) -> float | None:
    """At most so many a second; None where nothing or nonsense was typed."""
    rate = whole_number(visit.form.get("rate", "").strip(), least=1, most=MOST_PER_SECOND)
    return None if rate is None else float(rate)

"""/v1/subscriptions: make, read, change, verify, pause, re-enable, revoke."""

import base64
import json
from collections.abc import Callable
from datetime import timedelta
from typing import Annotated, Any

from aws_lambda_powertools.event_handler import Response
from aws_lambda_powertools.event_handler.openapi.params import Header, Query
from calls import Call, in_tenant, is_id, new_router, subscription_key
from cursors import Cursors
from hookkeeper.api import (
    AuditOut,
    ChallengeIn,
    EnabledIn,
    ExplanationOut,
    FindingOut,
    HealthOut,
    MaintenanceIn,
    Page,
    RecoveryOut,
    ReenableIn,
    ReenablingOut,
    RotateIn,
    SecretOut,
    SubscriptionCreated,
    SubscriptionEdited,
    SubscriptionIn,
    SubscriptionOut,
    SubscriptionPatch,
    TestAccepted,
    TestIn,
    is_archived,
)
from hookkeeper.domain.access import Right
from hookkeeper.domain.catalogue import warnings
from hookkeeper.domain.errors import InvalidInputError, NotFoundError
from hookkeeper.domain.event import checked_event_type, matches
from hookkeeper.domain.signature import SECRET_BYTES, Secret, encode_secret
from hookkeeper.domain.subscription import Status, Subscription
from hookkeeper.domain.tenancy import Scope, SubscriptionKey
from hookkeeper.ports import Standing
from hookkeeper.usecases import transition
from hookkeeper.usecases.ask_test import ask_test
from hookkeeper.usecases.deliveries import still_owed
from hookkeeper.usecases.edit_subscription import Changes, edit_subscription, set_maintenance
from hookkeeper.usecases.explain import explain
from hookkeeper.usecases.guarded_edit import editable
from hookkeeper.usecases.reenable import reenable
from hookkeeper.usecases.rotate_secret import overlap_of, rotate_secret
from hookkeeper.usecases.stage_url import Staging
from hookkeeper.usecases.subscribe import Wanted, subscribe
from hookkeeper.usecases.verify import renew_challenge, verify
from problems import RefusedError

TOKEN_BYTES = 32
MOST_OWED = 100
"""How far owed deliveries are counted for one answer."""

MOST_EXAMINED = 1000
"""Subscriptions looked at for one page of a filtered list; a sparse page is short and goes on."""

MOST_EXPORTED = 1000
"""Audit records in one export: a megabyte at most, and one query."""

PAGE = 100
MAX_VERSION_DIGITS = 15
JSON = "application/json"
JSON_LINES = "application/x-ndjson"

router = new_router()

Limit = Annotated[int, Query(ge=1, le=100, description="At most so many.")]
CursorParam = Annotated[str | None, Query(description="`next_cursor` of the part before.")]
IfMatch = Annotated[str | None, Header(alias="if-match", description="The ETag that was read.")]


@router.post("/v1/subscriptions", tags=["subscriptions"], status_code=201)
def create(wanted: SubscriptionIn) -> Response[SubscriptionCreated]:
    """Subscribe an endpoint: it is pending until it has echoed its challenge; its secret is shown once."""
    call, scope = in_tenant(router, Right.SUBSCRIPTIONS_WRITE)
    reach = call.reach
    created = subscribe(
        Wanted(**wanted.model_dump()),
        scope=scope,
        consent=call.consent,
        actor=call.actor,
        now=call.now,
        secret=Secret(reach.entropy(SECRET_BYTES)),
        token=_token(call),
        config=reach.configs.current(),
        rules=reach.host_rules,
        hosts=reach.hosts,
        rates=reach.rates,
        subscriptions=reach.subscriptions,
        secrets=reach.secrets,
        contacts=reach.contacts,
        ids=reach.ids,
    )
    body = SubscriptionCreated.created(
        created.subscription,
        created.profile,
        created.health,
        secret=encode_secret(created.secret.key),
        challenged=created.challenged,
        warnings=warnings(created.subscription.event_types, reach.catalogue.all()),
    )
    headers = _etag(created.subscription) | {
        "Location": f"{reach.api_url}/v1/subscriptions/{created.subscription.id}"
    }
    return Response(201, content_type=JSON, body=body, headers=headers)


@router.get("/v1/subscriptions", tags=["subscriptions"])
def list_all(
    status: Annotated[
        Status | None, Query(description="Without it, neither revoked nor archived ones.")
    ] = None,
    event_type: Annotated[str | None, Query(description="Those that would get this type.")] = None,
    resource_id: Annotated[str | None, Query()] = None,
    limit: Limit = 20,
    cursor: CursorParam = None,
) -> Page[SubscriptionOut]:
    """Subscriptions, newest first; without `status` neither revoked nor archived ones."""
    call, scope = in_tenant(router, Right.SUBSCRIPTIONS_READ)
    if event_type is not None:
        checked_event_type(event_type, pointer="?event_type")
    if resource_id is not None and not is_id(resource_id):
        raise InvalidInputError("no resource has such an id", code="invalid_id", pointer="?resource_id")
    cursors = Cursors(call.reach.cursor_key(), scope, "subscriptions", status, event_type, resource_id)
    place = cursors.open(cursor)

    def wanted(standing: Standing) -> bool:
        return _shown(standing.subscription, status, call) and _takes(
            standing.subscription, event_type, resource_id
        )

    found, after = _walk(call, scope, place[0] if place else None, limit, wanted)
    data = [_told(call, standing) for standing in found]
    return Page(data=data, has_more=after is not None, next_cursor=cursors.seal([after] if after else None))


def _shown(subscription: Subscription, status: Status | None, call: Call) -> bool:
    if call.consent is not None and subscription.application_id != call.consent.application_id:
        return False
    if status is not None:
        return subscription.status is status
    return subscription.status is not Status.REVOKED and not is_archived(subscription, call.now)


def _takes(subscription: Subscription, event_type: str | None, resource_id: str | None) -> bool:
    if resource_id is not None and subscription.resource_id != resource_id:
        return False
    return event_type is None or matches(subscription.event_types, event_type)


def _walk(
    call: Call, scope: Scope, after: str | None, limit: int, wanted: Callable[[Standing], bool]
) -> tuple[list[Standing], str | None]:
    """The next `limit` that are wanted, and the id to go on from where there may be more."""
    found: list[Standing] = []
    for _ in range(0, MOST_EXAMINED, PAGE):
        page = call.reach.subscriptions.page(scope, limit=PAGE, after=after)
        found += filter(wanted, page.standings)
        if len(found) > limit:
            return found[:limit], found[limit - 1].subscription.id
        after = page.next_after
        if after is None:
            break
    return found, after


@router.get("/v1/subscriptions/<subscription_id>", tags=["subscriptions"])
def read(subscription_id: str) -> Response[SubscriptionOut]:
    """One subscription, with its endpoint's health."""
    call, scope = in_tenant(router, Right.SUBSCRIPTIONS_READ)
    standing = call.reach.subscriptions.standing(subscription_key(scope, subscription_id))
    if standing is None:
        raise NotFoundError("subscription", subscription_id)
    owed = len(still_owed(standing.subscription, limit=MOST_OWED + 1, ledger=call.reach.ledger))
    return _answer(standing.subscription, _told(call, standing, owed=owed))


@router.patch("/v1/subscriptions/<subscription_id>", tags=["subscriptions"])
def change(
    subscription_id: str, patch: SubscriptionPatch, if_match: IfMatch = None
) -> Response[SubscriptionEdited]:
    """Change what is named; `If-Match` says what was read. Another endpoint_url is staged first."""
    call, scope = in_tenant(router, Right.SUBSCRIPTIONS_WRITE)
    edited = edit_subscription(
        subscription_key(scope, subscription_id),
        Changes(**patch.model_dump()),
        version=_version(if_match),
        actor=call.actor,
        now=call.now,
        margins=call.reach.margins,
        config=call.reach.configs.current(),
        subscriptions=call.reach.subscriptions,
        ids=call.reach.ids,
        consent=call.consent,
        staging=Staging(
            token=_token(call),
            rules=call.reach.host_rules,
            hosts=call.reach.hosts,
            rates=call.reach.rates,
            contacts=call.reach.contacts,
        ),
    )
    body = SubscriptionEdited.edited(
        edited.subscription,
        edited.profile,
        now=call.now,
        in_force_at=edited.event_types_in_force_at,
        challenged=edited.challenged,
        warnings=warnings(patch.event_types or (), call.reach.catalogue.all() if patch.event_types else ()),
    )
    return Response(200, content_type=JSON, body=body, headers=_etag(edited.subscription))


@router.put("/v1/subscriptions/<subscription_id>", tags=["subscriptions"])
def switch(
    subscription_id: str, wanted: EnabledIn, if_match: IfMatch = None
) -> Response[SubscriptionOut | ReenablingOut]:
    """Switch it: off is a pause (200); on re-enables: 202, or 200 where the policy asks for no probe."""
    call, scope = in_tenant(router, Right.SUBSCRIPTIONS_WRITE)
    key = subscription_key(scope, subscription_id)
    if if_match is not None:
        editable(key, version=_version(if_match), subscriptions=call.reach.subscriptions)
    if wanted.enabled:
        return _reenabled(call, key, ReenableIn())
    return _paused(call, key)


@router.delete("/v1/subscriptions/<subscription_id>", tags=["subscriptions"])
def revoke(subscription_id: str, if_match: IfMatch = None) -> Response[SubscriptionOut]:
    """Revoke it for good: what is owed is discarded, and the endpoint is free for another."""
    call, scope = in_tenant(router, Right.SUBSCRIPTIONS_WRITE)
    key = subscription_key(scope, subscription_id)
    editable(key, version=_version(if_match), subscriptions=call.reach.subscriptions)
    changed = transition.revoke(
        key, actor=call.actor, now=call.now, subscriptions=call.reach.subscriptions, ids=call.reach.ids
    )
    return _present(call, changed.subscription)


@router.post("/v1/subscriptions/<subscription_id>/verify", tags=["subscriptions"])
def verify_by_owner(subscription_id: str, echoed: ChallengeIn) -> Response[SubscriptionOut]:
    """Verify the endpoint with the challenge that it received."""
    call, scope = in_tenant(router, Right.SUBSCRIPTIONS_WRITE)
    subscription = verify(
        subscription_key(scope, subscription_id),
        echoed.challenge,
        actor=call.actor,
        now=call.now,
        margins=call.reach.margins,
        subscriptions=call.reach.subscriptions,
        ids=call.reach.ids,
    )
    return _present(call, subscription)


@router.post("/v1/subscriptions/<subscription_id>/verification", tags=["subscriptions"], status_code=202)
def send_challenge(subscription_id: str) -> Response[SubscriptionOut]:
    """A fresh challenge is on its way; the one before is dead."""
    call, scope = in_tenant(router, Right.SUBSCRIPTIONS_WRITE)
    subscription = renew_challenge(
        subscription_key(scope, subscription_id),
        token=_token(call),
        actor=call.actor,
        now=call.now,
        rules=call.reach.host_rules,
        rates=call.reach.rates,
        subscriptions=call.reach.subscriptions,
        contacts=call.reach.contacts,
        ids=call.reach.ids,
    )
    return _present(call, subscription, status=202)


@router.post("/v1/subscriptions/<subscription_id>/pause", tags=["subscriptions"])
def pause(subscription_id: str) -> Response[SubscriptionOut]:
    """Pause it: nothing is sent until it is re-enabled; what is missed is owed."""
    call, scope = in_tenant(router, Right.SUBSCRIPTIONS_WRITE)
    return _paused(call, subscription_key(scope, subscription_id))


@router.post("/v1/subscriptions/<subscription_id>/reenable", tags=["subscriptions"], status_code=202)
def start_reenabling(
    subscription_id: str, wanted: ReenableIn | None = None
) -> Response[SubscriptionOut | ReenablingOut]:
    """Re-enable it: probe, activate, deliver what was missed: 202, or 200 where no probe is asked."""
    call, scope = in_tenant(router, Right.SUBSCRIPTIONS_WRITE)
    return _reenabled(call, subscription_key(scope, subscription_id), wanted or ReenableIn())


@router.post("/v1/subscriptions/<subscription_id>/rotate-secret", tags=["subscriptions"])
def rotate(subscription_id: str, wanted: RotateIn | None = None) -> Response[SecretOut]:
    """A new signing secret, shown once; the old one signs beside it for a while."""
    call, scope = in_tenant(router, Right.SUBSCRIPTIONS_WRITE)
    secret = Secret(call.reach.entropy(SECRET_BYTES))
    hours = (wanted or RotateIn()).overlap_hours
    subscription = rotate_secret(
        subscription_key(scope, subscription_id),
        secret,
        overlap=overlap_of(hours),
        actor=call.actor,
        now=call.now,
        subscriptions=call.reach.subscriptions,
        secrets=call.reach.secrets,
        ids=call.reach.ids,
    )
    body = SecretOut(
        id=subscription.id,
        secret_ref=subscription.secret_ref,
        secret=encode_secret(secret.key),
        old_signs_until=call.now + timedelta(hours=hours),
    )
    return Response(200, content_type=JSON, body=body, headers=_etag(subscription))


@router.post("/v1/subscriptions/<subscription_id>/test", tags=["subscriptions"], status_code=202)
def send_test(subscription_id: str, wanted: TestIn | None = None) -> Response[TestAccepted]:
    """A signed test event is on its way; it counts for nothing, and is in no list of deliveries."""
    call, scope = in_tenant(router, Right.SUBSCRIPTIONS_WRITE)
    key = subscription_key(scope, subscription_id)
    told = wanted or TestIn()
    ask_test(
        key,
        event_type=told.event_type,
        data=json.dumps(told.data),
        subscriptions=call.reach.subscriptions,
        contacts=call.reach.contacts,
    )
    body = TestAccepted(subscription_id=key.subscription_id, event_type=told.event_type)
    return Response(202, content_type=JSON, body=body)


@router.post("/v1/subscriptions/<subscription_id>/maintenance", tags=["subscriptions"])
def maintain(subscription_id: str, wanted: MaintenanceIn) -> Response[SubscriptionOut]:
    """Hold suspension off until then; null ends it."""
    call, scope = in_tenant(router, Right.SUBSCRIPTIONS_WRITE)
    subscription = set_maintenance(
        subscription_key(scope, subscription_id),
        wanted.until,
        actor=call.actor,
        now=call.now,
        subscriptions=call.reach.subscriptions,
        ids=call.reach.ids,
    )
    return _present(call, subscription)


@router.get("/v1/subscriptions/<subscription_id>/audit", tags=["subscriptions"])
def audit(subscription_id: str, limit: Limit = 20, cursor: CursorParam = None) -> Page[AuditOut]:
    """Who changed what, newest first."""
    call, scope = in_tenant(router, Right.SUBSCRIPTIONS_READ)
    key = _existing(call, scope, subscription_id)
    cursors = Cursors(call.reach.cursor_key(), scope, "audit", key.subscription_id)
    place = cursors.open(cursor)
    records = call.reach.audit.of(
        scope, key.subscription_id, limit=limit + 1, before=place[0] if place else None
    )
    more = len(records) > limit
    return Page(
        data=[AuditOut.of(record) for record in records[:limit]],
        has_more=more,
        next_cursor=cursors.seal([records[limit - 1].id] if more else None),
    )


@router.get(
    "/v1/subscriptions/<subscription_id>/audit/export",
    tags=["subscriptions"],
    responses={200: {"description": "JSON Lines", "content": {JSON_LINES: {"schema": {"type": "string"}}}}},
)
def export_audit(subscription_id: str) -> Response[str]:
    """The whole audit as JSON Lines, newest first; of more than a thousand records those."""
    call, scope = in_tenant(router, Right.SUBSCRIPTIONS_READ)
    key = _existing(call, scope, subscription_id)
    records = call.reach.audit.of(scope, key.subscription_id, limit=MOST_EXPORTED)
    lines = "".join(f"{AuditOut.of(record).model_dump_json()}\n" for record in records)
    disposition = {"Content-Disposition": f'attachment; filename="{key.subscription_id}-audit.jsonl"'}
    return Response(200, content_type=JSON_LINES, body=lines, headers=disposition)


@router.get("/v1/subscriptions/<subscription_id>/recoveries", tags=["recoveries"])
def recoveries(subscription_id: str, limit: Limit = 20, cursor: CursorParam = None) -> Page[RecoveryOut]:
    """Its recoveries, newest first."""
    call, scope = in_tenant(router, Right.SUBSCRIPTIONS_READ)
    key = _existing(call, scope, subscription_id)
    cursors = Cursors(call.reach.cursor_key(), scope, "recoveries", key.subscription_id)
    place = cursors.open(cursor)
    found = call.reach.recoveries.of(key, limit=limit + 1, before=place[0] if place else None)
    more = len(found) > limit
    return Page(
        data=[RecoveryOut.of(each, now=call.now) for each in found[:limit]],
        has_more=more,
        next_cursor=cursors.seal([found[limit - 1].id] if more else None),
    )


@router.get("/v1/subscriptions/<subscription_id>/explain", tags=["deliveries"])
def explain_event(
    subscription_id: str, event_id: Annotated[str, Query(description="Where is this one?")]
) -> ExplanationOut:
    """Where is my event: archived, matched, each attempt, and what it waits for."""
    call, scope = in_tenant(router, Right.DELIVERIES_READ)
    key = subscription_key(scope, subscription_id)
    explained = explain(
        key,
        event_id,
        now=call.now,
        config=call.reach.configs.current(),
        subscriptions=call.reach.subscriptions,
        events=call.reach.events,
        ledger=call.reach.ledger,
        audit=call.reach.audit,
        consents=call.reach.consents,
        margins=call.reach.margins,
    )
    return ExplanationOut(
        event_id=event_id,
        subscription_id=key.subscription_id,
        summary=explained.summary,
        findings=[
            FindingOut(step=each.step, ok=each.ok, detail=each.detail, at=each.at)
            for each in explained.findings
        ],
        waits_for=explained.waits_for,
        until=explained.until,
    )


@router.get("/v1/recoveries/<recovery_id>", tags=["recoveries"])
def recovery(recovery_id: str) -> RecoveryOut:
    """One recovery, with its progress."""
    call, scope = in_tenant(router, Right.SUBSCRIPTIONS_READ)
    known = is_id(recovery_id)
    found = call.reach.recoveries.get(scope, recovery_id) if known else None
    if found is None:
        raise NotFoundError("recovery", recovery_id)
    return RecoveryOut.of(found, now=call.now)


def _existing(call: Call, scope: Scope, subscription_id: str) -> SubscriptionKey:
    key = subscription_key(scope, subscription_id)
    if call.reach.subscriptions.get(key) is None:
        raise NotFoundError("subscription", subscription_id)
    return key


def _paused(call: Call, key: SubscriptionKey) -> Response[Any]:
    changed = transition.pause(
        key,
        actor=call.actor,
        now=call.now,
        margins=call.reach.margins,
        subscriptions=call.reach.subscriptions,
        ids=call.reach.ids,
    )
    return _present(call, changed.subscription)


def _reenabled(
    call: Call, key: SubscriptionKey, wanted: ReenableIn
) -> Response[SubscriptionOut | ReenablingOut]:
    started = reenable(
        key,
        probe=wanted.probe,
        backfill=wanted.backfill,
        rate=wanted.rate,
        actor=call.actor,
        now=call.now,
        config=call.reach.configs.current(),
        subscriptions=call.reach.subscriptions,
        consents=call.reach.consents,
        workflow=call.reach.workflow,
    )
    body = ReenablingOut(
        subscription_id=key.subscription_id, probe=started.probe, recovery_id=started.recovery_id
    )
    return Response(202 if started.probe else 200, content_type=JSON, body=body)


def _present(call: Call, subscription: Subscription, *, status: int = 200) -> Response[Any]:
    """The subscription with the health it has now."""
    standing = call.reach.subscriptions.standing(subscription.key)
    if standing is None:
        raise NotFoundError("subscription", subscription.id)
    return _answer(standing.subscription, _told(call, standing), status=status)


def _answer(subscription: Subscription, body: SubscriptionOut, *, status: int = 200) -> Response[Any]:
    return Response(status, content_type=JSON, body=body, headers=_etag(subscription))


def _told(call: Call, standing: Standing, *, owed: int | None = None) -> SubscriptionOut:
    subscription = standing.subscription
    profile = call.reach.subscriptions.profile(subscription.key)
    if profile is None:
        raise ValueError(f"{subscription.id} has no profile")
    health = HealthOut.of(standing.health, owed=owed, most=MOST_OWED)
    return SubscriptionOut.of(subscription, profile, now=call.now, health=health)


def _token(call: Call) -> str:
    return base64.urlsafe_b64encode(call.reach.entropy(TOKEN_BYTES)).decode().rstrip("=")


def _etag(subscription: Subscription) -> dict[str, str]:
    return {"ETag": f'"{subscription.version}"'}


def _version(if_match: str | None) -> int | None:
    """The version that If-Match names; None for `*`. 428 where it is missing, 412 for what never was one."""
    if if_match is None:
        raise RefusedError(428, "if_match_required", "send the ETag that you read as If-Match")
    if if_match.strip() == "*":
        return None
    text = if_match.strip().removeprefix("W/").strip('"')
    if not (text.isascii() and text.isdigit() and len(text) <= MAX_VERSION_DIGITS):
        raise RefusedError(412, "stale_version", "If-Match is no ETag of this subscription")
    return int(text)

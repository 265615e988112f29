"""Recoveries: replays by hand, one delivery's retry, and cancelling, pausing, resuming any of them."""

from typing import Any

from aws_lambda_powertools.event_handler import Response
from calls import Call, in_tenant, is_id, new_router, subscription_key
from hookkeeper.api import DeliveryOut, RecoveryOut, ReplayCountedOut, ReplayIn
from hookkeeper.domain.access import Right
from hookkeeper.domain.errors import NotFoundError
from hookkeeper.domain.recovery import Recovery
from hookkeeper.domain.replay import Only
from hookkeeper.domain.tenancy import Scope
from hookkeeper.usecases import steer
from hookkeeper.usecases.dry_run import count
from hookkeeper.usecases.replay import Asked, replay
from hookkeeper.usecases.retry import retry

JSON = "application/json"

router = new_router()


@router.post("/v1/subscriptions/<subscription_id>/recoveries", tags=["recoveries"], status_code=202)
def start(subscription_id: str, wanted: ReplayIn | None = None) -> Response[RecoveryOut | ReplayCountedOut]:
    """Send a window of the archive again: 202; with `dry_run` it is only counted: 200.

    To the subscription's own endpoint, under the same webhook-id. One recovery at a time (409).
    """
    call, scope = in_tenant(router, Right.DELIVERIES_REPLAY)
    key, told = subscription_key(scope, subscription_id), wanted or ReplayIn()
    asked = Asked(
        since=told.since,
        until=told.until,
        only=Only(told.only),
        event_types=told.event_types,
        rate=told.rate,
    )
    if told.dry_run:
        counted = count(
            key,
            asked,
            now=call.now,
            config=call.reach.configs.current(),
            margins=call.reach.margins,
            subscriptions=call.reach.subscriptions,
            consents=call.reach.consents,
            ledger=call.reach.ledger,
            archive=call.reach.archive,
            events=call.reach.events,
        )
        return Response(200, content_type=JSON, body=ReplayCountedOut.of(counted, key.subscription_id))
    recovery = replay(
        key,
        asked,
        actor=call.actor,
        now=call.now,
        config=call.reach.configs.current(),
        subscriptions=call.reach.subscriptions,
        health=call.reach.health,
        audit=call.reach.audit,
        workflow=call.reach.workflow,
        ids=call.reach.ids,
    )
    return _answer(recovery, call, status=202)


@router.post("/v1/recoveries/<recovery_id>/cancel", tags=["recoveries"])
def cancel(recovery_id: str) -> Response[RecoveryOut]:
    """End it within seconds; what it had still to send stays owed, for the next recovery."""
    call, scope, named = _named(recovery_id)
    return _answer(steer.cancel(scope, named, **_ports(call)), call)


@router.post("/v1/recoveries/<recovery_id>/pause", tags=["recoveries"])
def pause(recovery_id: str) -> Response[RecoveryOut]:
    """Stop it within seconds, where it is."""
    call, scope, named = _named(recovery_id)
    return _answer(steer.pause(scope, named, **_ports(call)), call)


@router.post("/v1/recoveries/<recovery_id>/resume", tags=["recoveries"])
def resume(recovery_id: str) -> Response[RecoveryOut]:
    """Go on where it was paused, with its canaries first."""
    call, scope, named = _named(recovery_id)
    return _answer(steer.resume(scope, named, workflow=call.reach.workflow, **_ports(call)), call)


@router.post("/v1/deliveries/<delivery_id>/retry", tags=["deliveries"], status_code=202)
def retry_one(delivery_id: str) -> Response[DeliveryOut]:
    """One more attempt, at once, whatever its status; it counts for nothing in the endpoint's health."""
    call, scope = in_tenant(router, Right.DELIVERIES_REPLAY)
    delivery = retry(
        scope,
        delivery_id,
        actor=call.actor,
        now=call.now,
        subscriptions=call.reach.subscriptions,
        ledger=call.reach.ledger,
        lanes=call.reach.lanes,
        audit=call.reach.audit,
        ids=call.reach.ids,
    )
    return Response(202, content_type=JSON, body=DeliveryOut.of(delivery))


def _named(recovery_id: str) -> tuple[Call, Scope, str]:
    call, scope = in_tenant(router, Right.DELIVERIES_REPLAY)
    if not is_id(recovery_id):
        raise NotFoundError("recovery", recovery_id)
    return call, scope, recovery_id


def _ports(call: Call) -> dict[str, Any]:
    return {
        "actor": call.actor,
        "now": call.now,
        "subscriptions": call.reach.subscriptions,
        "health": call.reach.health,
        "recoveries": call.reach.recoveries,
        "audit": call.reach.audit,
        "ids": call.reach.ids,
    }


def _answer(recovery: Recovery, call: Call, *, status: int = 200) -> Response[Any]:
    return Response(status, content_type=JSON, body=RecoveryOut.of(recovery, now=call.now))

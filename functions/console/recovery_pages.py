"""Recoveries: a subscription's, one while it runs, and those that a person asks for, counted first."""

from datetime import UTC, datetime
from typing import Any

from aws_lambda_powertools.event_handler import Response
from aws_lambda_powertools.event_handler.api_gateway import Router
from hookkeeper.api import RecoveryOut
from hookkeeper.domain.access import Right
from hookkeeper.domain.errors import HookkeeperError, InvalidInputError, NotFoundError
from hookkeeper.domain.event import WILDCARD
from hookkeeper.domain.recovery import Recovery, RecoveryStatus
from hookkeeper.domain.replay import Counted, Only
from hookkeeper.domain.subscription import Status
from hookkeeper.domain.tenancy import Scope, SubscriptionKey, checked_id
from hookkeeper.ports import Standing
from hookkeeper.usecases import steer
from hookkeeper.usecases.dry_run import count
from hookkeeper.usecases.replay import Asked, replay
from pages import page, see
from subscription_actions import MOST_PER_SECOND
from subscription_pages import existing, patterns_of, whole_number
from visit import Visit, in_tenant

SHOWN = 25
UNASKED = {"only": "", "from": "", "to": "", "event_types": WILDCARD, "rate": ""}
"""The fields of the form, as they stand before anybody has asked for anything."""
MOVING = frozenset({RecoveryStatus.PROBING, RecoveryStatus.RUNNING, RecoveryStatus.WAITING})

router = Router()  # type: ignore[no-untyped-call]  # Powertools leaves it untyped


@router.get("/console/subscriptions/<subscription_id>/recoveries")
def list_all(subscription_id: str) -> Response[str]:
    """With `only` in the address it also counts what a replay of that window would send."""
    visit, scope = in_tenant(router, Right.SUBSCRIPTIONS_READ)
    standing = existing(visit, scope, subscription_id)
    counted, problem = None, None
    if "only" in visit.query:
        visit.allow(Right.DELIVERIES_READ)
        counted, problem = _counted(visit, standing)
    return page(
        visit,
        "recoveries.html",
        tab="recoveries",
        standing=standing,
        recoveries=visit.reach.recoveries.of(standing.subscription.key, limit=SHOWN),
        may_replay=visit.may(Right.DELIVERIES_REPLAY) and standing.subscription.status is Status.ACTIVE,
        asked={name: visit.query.get(name, unasked) for name, unasked in UNASKED.items()},
        most_per_second=MOST_PER_SECOND,
        choices=tuple(Only),
        counted=counted,
        problem=problem,
    )


@router.post("/console/subscriptions/<subscription_id>/recoveries")
def start(subscription_id: str) -> Response[str]:
    visit, scope = in_tenant(router, Right.DELIVERIES_REPLAY)
    standing = existing(visit, scope, subscription_id)
    recovery = replay(
        standing.subscription.key,
        _asked(visit.form),
        actor=visit.actor,
        now=visit.now,
        config=visit.reach.configs.current(),
        subscriptions=visit.reach.subscriptions,
        health=visit.reach.health,
        audit=visit.reach.audit,
        workflow=visit.reach.workflow,
        ids=visit.reach.ids,
    )
    return see(visit, f"/recoveries/{recovery.id}")


@router.get("/console/recoveries/<recovery_id>")
def read(recovery_id: str) -> Response[str]:
    visit, scope = in_tenant(router, Right.SUBSCRIPTIONS_READ)
    recovery = _existing_recovery(visit, scope, recovery_id)
    standing = existing(visit, scope, recovery.key.subscription_id)
    told: dict[str, Any] = {
        "recovery": recovery,
        "eta": RecoveryOut.of(recovery, now=visit.now).eta,
        "live": recovery.status in MOVING,
    }
    if visit.fragment:
        return page(visit, "_recovery.html", **told)
    return page(visit, "recovery.html", tab="recoveries", standing=standing, **told)


@router.post("/console/recoveries/<recovery_id>/cancel")
def cancel(recovery_id: str) -> Response[str]:
    visit, scope = in_tenant(router, Right.DELIVERIES_REPLAY)
    steer.cancel(scope, _checked(recovery_id), **_ports(visit))
    return see(visit, f"/recoveries/{recovery_id}")


@router.post("/console/recoveries/<recovery_id>/pause")
def pause(recovery_id: str) -> Response[str]:
    visit, scope = in_tenant(router, Right.DELIVERIES_REPLAY)
    steer.pause(scope, _checked(recovery_id), **_ports(visit))
    return see(visit, f"/recoveries/{recovery_id}")


@router.post("/console/recoveries/<recovery_id>/resume")
def resume(recovery_id: str) -> Response[str]:
    visit, scope = in_tenant(router, Right.DELIVERIES_REPLAY)
    steer.resume(scope, _checked(recovery_id), workflow=visit.reach.workflow, **_ports(visit))
    return see(visit, f"/recoveries/{recovery_id}")


def _counted(visit: Visit, standing: Standing) -> tuple[Counted | None, str | None]:
    """What the asked replay would send; or why it cannot be."""
    key: SubscriptionKey = standing.subscription.key
    try:
        counted = count(
            key,
            _asked(visit.query),
            now=visit.now,
            config=visit.reach.configs.current(),
            margins=visit.reach.margins,
            subscriptions=visit.reach.subscriptions,
            consents=visit.reach.consents,
            ledger=visit.reach.ledger,
            archive=visit.reach.archive,
            events=visit.reach.events,
        )
    except HookkeeperError as error:
        return None, f"{str(error)[:1].upper()}{str(error)[1:]}."
    return counted, None


def _asked(told: Any) -> Asked:
    """The window as a form has it: moments to the minute, UTC. Raises InvalidInputError for another word."""
    only = told.get("only", "")
    if only not in tuple(Only):
        raise InvalidInputError("choose what to send", code="invalid_value", pointer="/only")
    return Asked(
        since=_minute(told.get("from")),
        until=_minute(told.get("to")),
        only=Only(only),
        event_types=patterns_of(told.get("event_types", WILDCARD)),
        rate=_rate(told.get("rate", "").strip()),
    )


def _minute(text: str | None) -> datetime | None:
    if not text:
        return None
    try:
        return datetime.strptime(text[:16], "%Y-%m-%dT%H:%M").replace(tzinfo=UTC)
    except ValueError:
        raise InvalidInputError("a moment is such as 2026-12-01T09:30", code="invalid_time") from None


def _rate(text: str) -> float | None:
    if not text:
        return None
    rate = whole_number(text, least=1, most=MOST_PER_SECOND)
    if rate is None:
        detail = f"a rate is 1 to {MOST_PER_SECOND} deliveries a second"
        raise InvalidInputError(detail, code="invalid_value", pointer="/rate")
    return float(rate)


def _ports(visit: Visit) -> dict[str, Any]:
    return {
        "actor": visit.actor,
        "now": visit.now,
        "subscriptions": visit.reach.subscriptions,
        "health": visit.reach.health,
        "recoveries": visit.reach.recoveries,
        "audit": visit.reach.audit,
        "ids": visit.reach.ids,
    }


def _checked(recovery_id: str) -> str:
    """Raises NotFoundError for what cannot be an id."""
    try:
        return checked_id(recovery_id, field="id")
    except InvalidInputError:
        raise NotFoundError("recovery", recovery_id) from None


def _existing_recovery(visit: Visit, scope: Scope, recovery_id: str) -> Recovery:
    found = visit.reach.recoveries.get(scope, _checked(recovery_id))
    if found is None:
        raise NotFoundError("recovery", recovery_id)
    return found

"""What an application reaches by a tenant's consent: its own subscriptions, and what belongs to them."""

from typing import Any

from aws_lambda_powertools.event_handler import APIGatewayRestResolver, Response
from aws_lambda_powertools.event_handler.middlewares import NextMiddleware
from calls import Call, is_id
from hookkeeper.domain.access import KeyKind
from hookkeeper.domain.errors import InvalidInputError, NotFoundError
from hookkeeper.domain.tenancy import Scope, SubscriptionKey, parse_delivery_id
from problems import RefusedError

OPEN_TO_APPLICATIONS = frozenset(
    {("GET", "/v1/subscriptions"), ("POST", "/v1/subscriptions"), ("GET", "/v1/event-types")}
)
"""Routes that name nothing of one subscription, and look to `call.consent` themselves."""


def delegated(app: APIGatewayRestResolver, next_middleware: NextMiddleware) -> Response[Any]:
    """Another's things are not there for an application; a route that nobody thought of is closed to it."""
    call: Call = app.context["call"]
    if call.caller is not None and call.caller.kind is KeyKind.APP:
        route, named = app.context["_route"], app.context.get("_route_args", {})
        _check(call, call.enter(), (route.method, route.path), named)
    return next_middleware(app)


def _check(call: Call, scope: Scope, route: tuple[str, str], named: dict[str, str]) -> None:
    match named:
        case {"subscription_id": subscription_id}:
            if not _own(call, SubscriptionKey(scope, subscription_id)):
                raise NotFoundError("subscription", subscription_id)
        case {"delivery_id": delivery_id}:
            if not _own(call, _of_delivery(scope, delivery_id)):
                raise NotFoundError("delivery", delivery_id)
        case {"recovery_id": recovery_id}:
            if not _own(call, _of_recovery(call, scope, recovery_id)):
                raise NotFoundError("recovery", recovery_id)
        case _ if route not in OPEN_TO_APPLICATIONS:
            raise RefusedError(403, "forbidden", "this is not for applications")


def _own(call: Call, key: SubscriptionKey | None) -> bool:
    if key is None or call.caller is None or not is_id(key.subscription_id):
        return False
    subscription = call.reach.subscriptions.get(key)
    return subscription is not None and subscription.application_id == call.caller.application_id


def _of_delivery(scope: Scope, delivery_id: str) -> SubscriptionKey | None:
    try:
        return parse_delivery_id(scope, delivery_id).subscription
    except InvalidInputError:
        return None


def _of_recovery(call: Call, scope: Scope, recovery_id: str) -> SubscriptionKey | None:
    recovery = call.reach.recoveries.get(scope, recovery_id) if is_id(recovery_id) else None
    return recovery.key if recovery else None

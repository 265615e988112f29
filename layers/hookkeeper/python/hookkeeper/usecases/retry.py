"""Send one delivery again because a person asks: at once, once, and counting for nothing in health."""

from datetime import datetime

from hookkeeper.domain.arrival import next_attempt
from hookkeeper.domain.audit import Actor, AuditRecord
from hookkeeper.domain.delivery import Delivery, Lane, Parcel
from hookkeeper.domain.errors import ConflictError, IllegalTransitionError, NotFoundError, OwnFaultError
from hookkeeper.domain.subscription import Status, wants
from hookkeeper.domain.tenancy import DeliveryKey, Scope
from hookkeeper.ports import Audit, Ids, Lanes, Ledger, Standing, Subscriptions
from hookkeeper.usecases.deliveries import get_delivery


def retry(
    scope: Scope,
    delivery_id: str,
    *,
    actor: Actor,
    now: datetime,
    subscriptions: Subscriptions,
    ledger: Ledger,
    lanes: Lanes,
    audit: Audit,
    ids: Ids,
) -> Delivery:
    """Queue one more attempt, to the subscription's own endpoint, under the same webhook-id.

    Each call is one replay, whatever the delivery's status; copies of its message are known by its id.
    Raises NotFoundError; IllegalTransitionError unless the subscription is active; ConflictError while its
    circuit is open or where its filter no longer takes the event; OwnFaultError where no queue took it.
    """
    delivery = get_delivery(scope, delivery_id, subscriptions=subscriptions, ledger=ledger)
    _refuse(subscriptions.standing(delivery.key.subscription), delivery, now)
    replay_id = ids.new("rpl")
    _tell(delivery.key, replay_id, actor, now, audit, ids)
    parcel = Parcel(
        key=delivery.key,
        event_type=delivery.event_type,
        archived_at=delivery.archived_at,
        pointer=delivery.pointer,
        resource_id=delivery.resource_id,
        attempt=next_attempt(delivery),
        lane=Lane.REPLAY,
        replay_id=replay_id,
    )
    if lanes.send([parcel]):
        raise OwnFaultError(f"no queue took the replay of {delivery_id}")
    return delivery


def _refuse(standing: Standing | None, delivery: Delivery, now: datetime) -> None:
    subscription_id = delivery.key.subscription.subscription_id
    if standing is None:
        raise NotFoundError("subscription", subscription_id)
    subscription, circuit = standing.subscription, standing.health.circuit
    if subscription.status is not Status.ACTIVE:
        raise IllegalTransitionError(
            subscription_id,
            str(subscription.status),
            "only deliveries of active subscriptions can be retried",
        )
    if not wants(subscription, event_type=delivery.event_type, resource_id=delivery.resource_id):
        raise ConflictError(f"the filter of {subscription_id} no longer takes {delivery.event_type}")
    if circuit.is_open and not circuit.trial_free(now):
        raise ConflictError(f"the circuit of {subscription_id} is open; its endpoint is asked again soon")


def _tell(key: DeliveryKey, replay_id: str, actor: Actor, now: datetime, audit: Audit, ids: Ids) -> None:
    audit.put(
        AuditRecord(
            scope=key.scope,
            id=ids.new("aud"),
            at=now,
            action="delivery.retried",
            actor=actor,
            subject=key.subscription.subscription_id,
            after={"delivery_id": key.delivery_id},
            detail=replay_id,
        )
    )

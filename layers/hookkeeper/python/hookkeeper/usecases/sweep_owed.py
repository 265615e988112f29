"""Move an owed item that is due: send it again, hold it for its outage, or say that it is over."""

from dataclasses import replace
from datetime import timedelta

from hookkeeper.domain.arrival import REVIEW_AFTER, next_attempt
from hookkeeper.domain.config import Margins
from hookkeeper.domain.delivery import Delivery, DeliveryStatus, Lane, Owed, Parcel
from hookkeeper.domain.ledger import ended
from hookkeeper.domain.outcome import Outcome
from hookkeeper.domain.subscription import Status, Subscription, owed_from
from hookkeeper.ports import Ledger, Settlement, Standing
from hookkeeper.usecases.sweep_ports import Round
from hookkeeper.usecases.warn_of_expiry import leave_to_people

SENT_AGAIN_AFTER = timedelta(minutes=5)
"""Where an item's `due_at` goes when it is sent: should that message be lost too, it is sent again."""

NOBODY = ""
"""The mark of an item that no recovery has sent."""

_AUTOMATIC = frozenset({Outcome.RETRYABLE, Outcome.FATAL})


def move_owed(
    run: Round, item: Owed, delivery: Delivery | None, standing: Standing | None
) -> tuple[str, Parcel | None]:
    """What one due item needs: its word for the report, and the message to send if one is."""
    if delivery is None or delivery.final:
        run.ports.ledger.delete_owed(item)
        return "leftovers_deleted", None
    if standing is None or not _owes(standing.subscription, item, run.margins):
        return _end(run, delivery, DeliveryStatus.DISCARDED), None
    if run.now >= item.expires_at:
        return _end(run, delivery, DeliveryStatus.EXPIRED), None
    if standing.subscription.status is not Status.ACTIVE or standing.health.circuit.is_open:
        hold_owed(run.ports.ledger, item, delivery)
        return "held", None
    if standing.health.recovery.held and item.status is not DeliveryStatus.RETRYING:
        _put_off(run, item, REVIEW_AFTER, taken_by=NOBODY)
        return "left_to_recovery", None
    if item.status is DeliveryStatus.EXHAUSTED and not (item.automatic_left and item.outcome in _AUTOMATIC):
        return leave_to_people(run, item, standing), None
    if not _put_off(run, item, SENT_AGAIN_AFTER):
        return "taken_by_others", None
    return "sent", parcel_of(item, delivery)


def hold_owed(ledger: Ledger, item: Owed, delivery: Delivery) -> Delivery | None:
    """Keep an owed item for the recovery of its endpoint's outage; None where others moved it."""
    after = replace(delivery, status=DeliveryStatus.HELD, next_attempt_at=None)
    owed = replace(item, status=DeliveryStatus.HELD, due_at=item.expires_at, taken_by=None)
    settled = ledger.settle(Settlement(before=delivery, after=after, owed=owed))
    return after if settled.written else None


def parcel_of(item: Owed, delivery: Delivery) -> Parcel:
    """The message of an owed item: its retry on its own lane, else on the backfill lane."""
    return Parcel(
        key=item.key,
        event_type=item.event_type,
        archived_at=item.archived_at,
        pointer=item.pointer,
        resource_id=item.resource_id,
        attempt=next_attempt(delivery),
        lane=delivery.lane if item.status is DeliveryStatus.RETRYING else Lane.BACKFILL,
    )


def _owes(subscription: Subscription, item: Owed, margins: Margins) -> bool:
    """Not a revoked one, nor an application's for what came before its consent was withdrawn."""
    if subscription.status is Status.REVOKED or subscription.application_id is None:
        return subscription.status is not Status.REVOKED
    return owed_from(subscription, archived_at=item.archived_at, routing_cache=margins.routing_cache)


def _end(run: Round, delivery: Delivery, status: DeliveryStatus) -> str:
    run.ports.ledger.settle(Settlement(before=delivery, after=ended(delivery, status)))
    return str(status)


def _put_off(run: Round, item: Owed, span: timedelta, *, taken_by: str | None = None) -> bool:
    due_at = min(run.now + span, item.expires_at)
    return run.ports.ledger.move_due(item, due_at=due_at, taken_by=taken_by)

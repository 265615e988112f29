"""What becomes of a delivery's message when it arrives: one verdict from the truth as read (SPEC §8)."""

from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from enum import StrEnum

from hookkeeper.domain.consent import Consent, may_receive
from hookkeeper.domain.delivery import MAX_QUEUE_DELAY, Delivery, DeliveryStatus, Lane, Parcel
from hookkeeper.domain.health import Health
from hookkeeper.domain.recovery import SEND_GRACE
from hookkeeper.domain.subscription import Status, Subscription, wants

EARLY = timedelta(seconds=5)
"""How much a clock may differ before a retry counts as early."""

REVIEW_AFTER = timedelta(minutes=15)
"""When the sweep looks again at a superseded or late backfill delivery (SPEC §8)."""

_OWED = frozenset({DeliveryStatus.RETRYING, DeliveryStatus.EXHAUSTED, DeliveryStatus.HELD})


class Arrival(StrEnum):
    """The verdicts. Each leaves the delivery in one of the three places of SPEC §2, or with nothing owed."""

    ATTEMPT = "attempt"
    TRIAL = "trial"
    """Attempt it, if this caller wins the circuit's trial; else do as `otherwise` says."""
    DROP = "drop"
    """A duplicate, or already final: the message may go."""
    DISCARD = "discard"
    """Revoked, or no longer wanted: say so in the ledger."""
    HOLD = "hold"
    """In an outage, and not within its window: an owed item keeps it until a recovery."""
    LEAVE_TO_OUTAGE = "leave_to_outage"
    """In an outage whose window holds it: the message may go without a write."""
    POSTPONE = "postpone"
    """The endpoint asked for quiet: back with a delay, or an owed item for longer."""
    RETURN = "return"
    """A backfill message of a cancelled recovery: back to owed until the next recovery."""
    REVIEW = "review"
    """A backfill message superseded or late: back to owed, and the sweep looks again in 15 min."""


@dataclass(frozen=True, slots=True)
class Judged:
    """The verdict, and for a TRIAL what to do when another holds it."""

    arrival: Arrival
    otherwise: Arrival | None = None


def judge(
    parcel: Parcel,
    *,
    subscription: Subscription | None,
    health: Health | None,
    delivery: Delivery | None,
    consent: Consent | None = None,
    now: datetime,
) -> Judged:
    """The verdict on one message, from one consistent reading of subscription, health and ledger.

    `consent` is read for an application's subscription alone.

    A replay of what is over is made at once or not at all: only an attempt makes it owed again.
    """
    if subscription is None or health is None or _is_duplicate(parcel, delivery, now):
        return Judged(Arrival.DROP)
    consented = may_receive(
        subscription.application_id, consent, event_type=parcel.event_type, archived_at=parcel.archived_at
    )
    judged = _judged(parcel, subscription, health, delivery, now) if consented else Judged(Arrival.DISCARD)
    if delivery is None or not delivery.final:
        return judged
    if judged.arrival is Arrival.TRIAL:
        return Judged(Arrival.TRIAL, otherwise=Arrival.DROP)
    short_wait = health.not_before is not None and health.not_before - now <= MAX_QUEUE_DELAY
    may_stay = judged.arrival is Arrival.ATTEMPT or (judged.arrival is Arrival.POSTPONE and short_wait)
    return judged if may_stay else Judged(Arrival.DROP)


def _judged(
    parcel: Parcel, subscription: Subscription, health: Health, delivery: Delivery | None, now: datetime
) -> Judged:
    if subscription.status is Status.REVOKED or not _wanted(parcel, subscription):
        return Judged(Arrival.DISCARD)
    if subscription.status is not Status.ACTIVE:
        return Judged(_in_outage(parcel, health, delivery))
    if _called_off(parcel, health):
        return Judged(Arrival.RETURN)
    if health.circuit.is_open:
        return _at_open_circuit(parcel, health, delivery, now)
    if _superseded(parcel, health, now):
        return Judged(Arrival.REVIEW)
    return Judged(Arrival.POSTPONE if health.quiet(now) else Arrival.ATTEMPT)


def numbered(parcel: Parcel, delivery: Delivery | None) -> Parcel:
    """The parcel; of a replay that the ledger has not seen, with the number that its attempt has by now.

    Its `replay_id` tells its copies from it, so a retry that came between does not make it a duplicate.
    """
    if not _is_new_replay(parcel, delivery):
        return parcel
    return replace(parcel, attempt=next_attempt(delivery))


def next_attempt(delivery: Delivery | None) -> int:
    """The number that the delivery's next attempt has."""
    return 1 if delivery is None else delivery.attempt_count + 1


def _is_duplicate(parcel: Parcel, delivery: Delivery | None, now: datetime) -> bool:
    if parcel.attempt != next_attempt(delivery):
        return True
    if delivery is None:
        return False
    if _is_new_replay(parcel, delivery):
        return False
    early = delivery.next_attempt_at is not None and delivery.next_attempt_at > now + EARLY
    return delivery.final or early


def _is_new_replay(parcel: Parcel, delivery: Delivery | None) -> bool:
    seen = delivery.replays if delivery is not None else ()
    return parcel.replay_id is not None and parcel.replay_id not in seen


def _wanted(parcel: Parcel, subscription: Subscription) -> bool:
    return wants(subscription, event_type=parcel.event_type, resource_id=parcel.resource_id)


def _in_outage(parcel: Parcel, health: Health, delivery: Delivery | None) -> Arrival:
    if delivery is not None and delivery.status in _OWED:
        return Arrival.HOLD
    archived_at = delivery.archived_at if delivery is not None else parcel.archived_at
    if parcel.lane is Lane.LIVE and health.outage_from is not None and archived_at >= health.outage_from:
        return Arrival.LEAVE_TO_OUTAGE
    return Arrival.HOLD


def _at_open_circuit(parcel: Parcel, health: Health, delivery: Delivery | None, now: datetime) -> Judged:
    held = _in_outage(parcel, health, delivery)
    if health.circuit.trial_free(now) and not health.quiet(now):
        return Judged(Arrival.TRIAL, otherwise=held)
    return Judged(held)


def _called_off(parcel: Parcel, health: Health) -> bool:
    """Whether a person ended the recovery that this message belongs to."""
    lock = health.recovery
    return parcel.recovery_id is not None and parcel.recovery_id == lock.id and lock.cancelled


def _superseded(parcel: Parcel, health: Health, now: datetime) -> bool:
    """Whether a recovery's message is not of its present generation, or later than it may be."""
    if parcel.recovery_id is None:
        return False
    present = health.recovery.is_present(parcel.recovery_id, parcel.generation or 0)
    return not present or (parcel.at is not None and now > parcel.at + SEND_GRACE)

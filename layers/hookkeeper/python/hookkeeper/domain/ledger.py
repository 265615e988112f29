"""The ledger's arithmetic: what a delivery's record and owed item become by an attempt or without one."""

from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from hookkeeper.domain.delivery import (
    Attempt,
    Delivery,
    DeliveryStatus,
    Lane,
    Owed,
    Parcel,
    RetryRules,
    with_attempt,
)
from hookkeeper.domain.outcome import Outcome
from hookkeeper.domain.recovery import warned_ahead

_MOVES_BY_ITSELF = frozenset({Outcome.RETRYABLE, Outcome.FATAL})


@dataclass(frozen=True, slots=True, kw_only=True)
class Tried:
    """A delivery after an attempt: its record, its owed item (None on success), and whether it settled."""

    after: Delivery
    owed: Owed | None
    settled: bool


def untried(parcel: Parcel, delivery: Delivery | None) -> Delivery:
    """The record to build on: the ledger's, or a first one for a delivery never attempted."""
    if delivery is not None:
        return delivery
    return Delivery(
        key=parcel.key,
        event_type=parcel.event_type,
        archived_at=parcel.archived_at,
        pointer=parcel.pointer,
        resource_id=parcel.resource_id,
        status=DeliveryStatus.HELD,
        lane=parcel.lane,
        settled=True,
        sequence=0,
    )


def owed_item(
    delivery: Delivery, *, due_at: datetime, retention: timedelta, tried_by: str | None = None
) -> Owed:
    """The owed item that holds a delivery as its record says; due at its expiry at the latest."""
    expires_at = delivery.archived_at + retention
    return Owed(
        key=delivery.key,
        event_type=delivery.event_type,
        archived_at=delivery.archived_at,
        pointer=delivery.pointer,
        resource_id=delivery.resource_id,
        status=delivery.status,
        due_at=min(due_at, expires_at),
        expires_at=expires_at,
        outcome=delivery.outcome,
        attempt_count=delivery.attempt_count,
        tried_by=tried_by,
        automatic_left=_automatic_left(delivery),
    )


def held(parcel: Parcel, delivery: Delivery | None) -> Delivery:
    """The record of a delivery that waits for a recovery."""
    return replace(untried(parcel, delivery), status=DeliveryStatus.HELD, next_attempt_at=None)


def postponed(parcel: Parcel, delivery: Delivery | None, *, until: datetime) -> Delivery:
    """The record of a delivery whose endpoint asked for quiet beyond what a queue can wait."""
    return replace(untried(parcel, delivery), status=DeliveryStatus.RETRYING, next_attempt_at=until)


def ended(delivery: Delivery, status: DeliveryStatus) -> Delivery:
    """The record with nothing owed any more: discarded or expired."""
    return replace(delivery, status=status, settled=True, next_attempt_at=None)


def tried(
    parcel: Parcel,
    delivery: Delivery | None,
    attempt: Attempt,
    outcome: Outcome,
    *,
    rules: RetryRules,
    retention: timedelta,
    spread: float,
    trial: bool = False,
    floor: timedelta | None = None,
) -> Tried:
    """The delivery after one attempt.

    A trial is the last attempt of its sequence: in vain, it settles, and the delivery is held for the
    outage's recovery. `floor` is a Retry-After's: the next attempt is no sooner, unless the sequence's
    deadline is.
    """
    base = _begun(untried(parcel, delivery), parcel, attempt.at)
    done = attempt.at + timedelta(milliseconds=attempt.latency_ms)
    record = replace(
        base,
        attempts=with_attempt(base.attempts, attempt),
        attempt_count=attempt.n,
        sequence_attempts=base.sequence_attempts + 1,
        outcome=outcome,
        next_attempt_at=None,
    )
    if outcome is Outcome.SUCCESS:
        succeeded = replace(record, status=DeliveryStatus.SUCCEEDED, settled=True)
        return Tried(after=succeeded, owed=None, settled=True)
    gap = None
    if outcome is Outcome.RETRYABLE and not trial:
        gap = rules.gap_after(record.lane, sequence_attempts=record.sequence_attempts, spread=spread)
    if gap is not None:
        at = _next_at(record, done, gap, floor, rules)
        record = replace(record, status=DeliveryStatus.RETRYING, next_attempt_at=at)
        return Tried(after=record, owed=owed_item(record, due_at=at, retention=retention), settled=False)
    record = replace(record, status=DeliveryStatus.HELD if trial else DeliveryStatus.EXHAUSTED, settled=True)
    owed = owed_item(
        record,
        due_at=_next_move(record, done, rules, retention, trial=trial),
        retention=retention,
        tried_by=None if trial else parcel.recovery_id,
    )
    return Tried(after=record, owed=owed, settled=True)


def counts_again(delivery: Delivery, *, epoch: int) -> bool:
    """Whether a sequence in vain says anything new to health of that epoch.

    What nobody asked for and health has counted already does not: an event a week to a dead endpoint is one
    failure a week, and its automatic recovery no second one.
    """
    return delivery.lane is not Lane.BACKFILL or delivery.counted_epoch != epoch


def _next_move(
    record: Delivery, done: datetime, rules: RetryRules, retention: timedelta, *, trial: bool
) -> datetime:
    """When a settled failure is looked at: by its outage's recovery, its own, or for its owner's warning."""
    expires_at = record.archived_at + retention
    if trial:
        return expires_at
    if _automatic_left(record):
        return done + rules.automatic_recovery_after
    return expires_at - warned_ahead(retention)


def _begun(base: Delivery, parcel: Parcel, at: datetime) -> Delivery:
    """The record at the start of an attempt: in the sequence it is in the middle of, or else in the next.

    A sequence that an outage interrupted is not taken up again, and no lane goes on with another's. One
    that a recovery begins after an earlier one came to its end is the delivery's automatic recovery.
    """
    replays = tuple(dict.fromkeys((*base.replays, parcel.replay_id))) if parcel.replay_id else base.replays
    in_the_middle = base.status is DeliveryStatus.RETRYING and not base.settled and base.lane is parcel.lane
    if in_the_middle:
        return replace(base, replays=replays)
    recovered = parcel.lane is Lane.BACKFILL and base.settled and base.sequence > 0
    return replace(
        base,
        sequence=base.sequence + 1,
        settled=False,
        sequence_attempts=0,
        sequence_began_at=at,
        lane=parcel.lane,
        recovery_id=parcel.recovery_id,
        own_recoveries=base.own_recoveries + recovered,
        replays=replays,
    )


def _next_at(
    record: Delivery, done: datetime, gap: timedelta, floor: timedelta | None, rules: RetryRules
) -> datetime:
    at = done + gap
    if floor is None:
        return at
    deadline = (record.sequence_began_at or done) + rules.span(record.lane)
    return max(at, min(done + floor, deadline))


def _automatic_left(delivery: Delivery) -> bool:
    return delivery.own_recoveries == 0 and delivery.outcome in _MOVES_BY_ITSELF

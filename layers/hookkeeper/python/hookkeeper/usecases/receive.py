"""Judge every message of a batch, and deal with those that are not to be attempted."""

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime

from hookkeeper.domain.arrival import REVIEW_AFTER, Arrival, judge, numbered
from hookkeeper.domain.delivery import MAX_QUEUE_DELAY, Delivery, DeliveryStatus
from hookkeeper.domain.ledger import ended, held, owed_item, postponed, untried
from hookkeeper.domain.tenancy import DeliveryKey
from hookkeeper.ports import Settlement
from hookkeeper.usecases.delivery_batch import Batch, Case, Fate
from hookkeeper.usecases.trial import take_trial

_TRIED = frozenset({Arrival.ATTEMPT, Arrival.TRIAL})


def receive(batch: Batch) -> Sequence[Case]:
    """The cases to attempt now; all others are put aside, each on its own."""
    due: list[Case] = []
    taken: dict[DeliveryKey, str | None] = {}
    for case in batch.cases:
        with batch.sparing_neighbours(case):
            if case.parcel.key in batch.unread:
                case.again(Fate.AGAIN_LATER)
                continue
            arrival = _arrival(batch, case)
            if arrival in _TRIED and case.parcel.key in taken:
                if case.parcel.replay_id != taken[case.parcel.key]:
                    case.again(Fate.AGAIN_NOW)
                    continue
                arrival = Arrival.DROP
            if arrival in _TRIED:
                taken[case.parcel.key] = case.parcel.replay_id
                due.append(case)
            else:
                _put_aside(batch, case, arrival)
    return due


def _arrival(batch: Batch, case: Case) -> Arrival:
    standing = batch.standings.get(case.subscription_key)
    case.parcel = numbered(case.parcel, case.delivery)
    judged = judge(
        case.parcel,
        subscription=standing.subscription if standing else None,
        health=standing.health if standing else None,
        delivery=case.delivery,
        consent=batch.consents.get(case.subscription_key),
        now=batch.now,
    )
    if judged.arrival is Arrival.TRIAL and not take_trial(batch, case):
        return judged.otherwise or Arrival.HOLD
    return judged.arrival


def _put_aside(batch: Batch, case: Case, arrival: Arrival) -> None:
    status: DeliveryStatus | None = None
    match arrival:
        case Arrival.DROP:
            _drop_leftover(batch, case.delivery)
        case Arrival.DISCARD:
            status = DeliveryStatus.DISCARDED
            _write(batch, case, ended(untried(case.parcel, case.delivery), status))
        case Arrival.HOLD | Arrival.RETURN:
            status = _keep(batch, case) if _must_be_kept(case) else None
        case Arrival.REVIEW:
            status = _keep(batch, case, due_at=batch.now + REVIEW_AFTER)
        case Arrival.POSTPONE:
            if not _postpone(batch, case):
                case.again(Fate.AGAIN_LATER)
                return
        case _:
            pass  # the outage's window holds it
    case.done(arrival, status=status)


def _drop_leftover(batch: Batch, delivery: Delivery | None) -> None:
    """An owed item beside a final record is met by nobody else but the sweep (STORIES 15)."""
    if delivery is None or not delivery.final:
        return
    item = batch.ports.ledger.owed_item(delivery.key, archived_at=delivery.archived_at)
    if item is not None:
        batch.ports.ledger.delete_owed(item)


def _must_be_kept(case: Case) -> bool:
    """Held already, only the mark of the recovery that sent it is to be taken off its owed item."""
    already = case.delivery is not None and case.delivery.status is DeliveryStatus.HELD
    return not already or case.parcel.recovery_id is not None


def _keep(batch: Batch, case: Case, *, due_at: datetime | None = None) -> DeliveryStatus:
    """Back to owed; without `due_at` it waits for a recovery, or its expiry."""
    after = held(case.parcel, case.delivery)
    _write(batch, case, after, due_at=due_at or after.archived_at + batch.config.retention)
    return DeliveryStatus.HELD


def _postpone(batch: Batch, case: Case) -> bool:
    """Put the message off to when the endpoint may be asked again. False where no queue took it."""
    until = batch.health(case).not_before or batch.now
    wait = until - batch.now
    if wait <= MAX_QUEUE_DELAY:
        later = replace(case.parcel, not_before_at=until, at=until if case.parcel.at else None)
        return not batch.ports.lanes.send([later], delays=[wait])
    _write(batch, case, postponed(case.parcel, case.delivery, until=until), due_at=until)
    return True


def _write(batch: Batch, case: Case, after: Delivery, *, due_at: datetime | None = None) -> None:
    """A write that is lost means that someone else has dealt with the delivery since it was read."""
    item = owed_item(after, due_at=due_at, retention=batch.config.retention) if due_at is not None else None
    batch.ports.ledger.settle(Settlement(before=case.delivery, after=after, owed=item))

"""Send what is due of a batch, all at once; what cannot be sent is not an attempt."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import timedelta

from hookkeeper.domain.arrival import Arrival
from hookkeeper.domain.delivery import DeliveryStatus, Parcel
from hookkeeper.domain.errors import NotFoundError, SecretUnavailableError
from hookkeeper.domain.ledger import ended, untried
from hookkeeper.domain.outbound import OutboundRequest
from hookkeeper.domain.outcome import Answer, Fault, is_our_fault
from hookkeeper.ports import Settlement
from hookkeeper.usecases.delivery_batch import Batch, Case, Fate
from hookkeeper.usecases.request import build_request
from hookkeeper.usecases.trial import give_back_trial

NO_PLACE_WAIT = timedelta(seconds=5)
"""Counted from the batch's end, which is when its slow endpoint has answered or has not."""


def attempt(batch: Batch, due: Sequence[Case], *, seconds_left: Callable[[], float] | None) -> Sequence[Case]:
    """Make one request for each; answers the cases whose endpoint has said something, or failed to."""
    ready: list[tuple[Case, OutboundRequest]] = []
    for case in due:
        with batch.sparing_neighbours(case):
            request = _request(batch, case)
            if request is not None:
                ready.append((case, request))
        if case.report is not None or case.answer is not None:
            _not_tried(batch, case)
    if not ready:
        return []
    left = seconds_left() if seconds_left else None
    answers = batch.ports.sender.send([request for _, request in ready], stop_at_seconds=left)
    tried: list[Case] = []
    for (case, _), answer in zip(ready, answers, strict=True):
        case.answer = answer
        if is_our_fault(answer):
            _not_tried(batch, case)
        else:
            tried.append(case)
    crowded = [case for case, _ in ready if case.answer and case.answer.fault is Fault.NO_PLACE]
    if crowded:
        _put_off(batch, crowded)
    return tried


def _request(batch: Batch, case: Case) -> OutboundRequest | None:
    """The signed request; None where its secret cannot be had, or its event has left the archive."""
    parcel, subscription = case.parcel, batch.standing(case).subscription
    try:
        body = parcel.body
        if body is None:
            body = batch.ports.archive.body(parcel.key.scope, parcel.pointer)
        secrets = batch.ports.secrets.signing(subscription.key, subscription.secret_ref, now=batch.now)
    except SecretUnavailableError:
        case.answer = Answer(fault=Fault.SECRET_UNAVAILABLE)
        return None
    except NotFoundError:
        _expire(batch, case)
        return None
    return build_request(
        subscription,
        webhook_id=parcel.key.event_id,
        body=body,
        secrets=secrets,
        attempt=parcel.attempt,
        lane=parcel.lane,
        now=batch.now,
    )


def _expire(batch: Batch, case: Case) -> None:
    """What was owed has left retention, and the ledger says so."""
    record = ended(untried(case.parcel, case.delivery), DeliveryStatus.EXPIRED)
    batch.ports.ledger.settle(Settlement(before=case.delivery, after=record))
    case.done(Arrival.ATTEMPT, status=DeliveryStatus.EXPIRED)


def _put_off(batch: Batch, crowded: Sequence[Case]) -> None:
    """Queue anew what must wait for others of its endpoint: to come back would use up its receives."""
    for case in crowded:
        case.answer = None
        case.again(Fate.AGAIN_LATER)
    parcels = [_after_this_round(batch, case) for case in crowded]
    with batch.sparing_the_rest():
        refused = batch.ports.lanes.send(parcels, delays=[NO_PLACE_WAIT] * len(parcels))
        for case, parcel in zip(crowded, parcels, strict=True):
            if parcel not in refused:
                case.done(Arrival.POSTPONE)


def _after_this_round(batch: Batch, case: Case) -> Parcel:
    """The message again; a recovery's is meant for then, lest it be taken for late."""
    if case.parcel.at is None:
        return case.parcel
    round_ends = batch.now + timedelta(seconds=batch.standing(case).subscription.timeout_seconds)
    return replace(case.parcel, at=round_ends + NO_PLACE_WAIT)


def _not_tried(batch: Batch, case: Case) -> None:
    """Our own side failed, or nothing is owed any more: the circuit's trial is free for another."""
    if case.report is None:
        out_of_time = case.answer is not None and case.answer.fault is Fault.OUT_OF_TIME
        case.again(Fate.AGAIN_NOW if out_of_time else Fate.AGAIN_LATER)
    with batch.sparing_the_rest():
        give_back_trial(batch, case)

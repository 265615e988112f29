"""Write down how each attempt ended: the ledger under its guards, health once a sequence is over."""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime, timedelta

from hookkeeper.domain.arrival import Arrival
from hookkeeper.domain.delivery import MAX_QUEUE_DELAY, Attempt, Delivery, DeliveryStatus
from hookkeeper.domain.health import may_cross
from hookkeeper.domain.ledger import Tried, counts_again, tried
from hookkeeper.domain.outcome import Answer, Outcome, classify, retry_after_floor
from hookkeeper.domain.tenancy import SubscriptionKey
from hookkeeper.ports import HealthEffect, Settlement
from hookkeeper.usecases.delivery_batch import Batch, Case, Fate
from hookkeeper.usecases.trial import end_trial

CHECK_AFTER = timedelta(minutes=2)
"""When the sweep asks the policy again, should this invocation die before it has."""

MAX_ERROR_CHARACTERS = 500
THROTTLED = frozenset({429, 503})
"""The statuses whose Retry-After is obeyed (SPEC §8)."""


def settle(batch: Batch, cases: Sequence[Case]) -> Sequence[SubscriptionKey]:
    """Write every attempt down; answers the subscriptions whose health counted a failure."""
    clean: list[tuple[Case, Delivery]] = []
    counted: dict[SubscriptionKey, None] = {}
    refreshed: set[SubscriptionKey] = set()
    for case in cases:
        with batch.sparing_neighbours(case):
            outcome = classify(_answer(case), preset_rules=batch.policy(case).rules)
            result = _tried(batch, case, outcome)
            if outcome is Outcome.SUCCESS and _is_clean(batch, case, refreshed):
                clean.append((case, result.after))
                continue
            if outcome is Outcome.SUCCESS and not case.by_hand:
                refreshed.add(case.subscription_key)
            if _write(batch, case, outcome, result):
                counted[case.subscription_key] = None
    _write_clean(batch, clean)
    with batch.sparing_the_rest():
        _count_recoveries(batch)
    return list(counted)


def _answer(case: Case) -> Answer:
    if case.answer is None:
        raise ValueError(f"{case.parcel.key.delivery_id} was not attempted")
    return case.answer


def _is_clean(batch: Batch, case: Case, refreshed: set[SubscriptionKey]) -> bool:
    """Whether a success may go down in one batched write: a first attempt, and nothing new for health."""
    if case.delivery is not None or case.trial:
        return False
    health = batch.health(case)
    return health.fresh(batch.now) or (health.clean and health.key in refreshed)


def _tried(batch: Batch, case: Case, outcome: Outcome) -> Tried:
    answer, parcel = _answer(case), case.parcel
    attempt = Attempt(
        n=parcel.attempt,
        at=batch.now,
        lane=parcel.lane,
        status_code=answer.status_code,
        latency_ms=answer.latency_ms,
        error=answer.error,
        excerpt=answer.excerpt,
    )
    return tried(
        parcel,
        case.delivery,
        attempt,
        outcome,
        rules=batch.config.retries,
        retention=batch.config.retention,
        spread=batch.ports.spread(),
        trial=case.trial,
        floor=_floor(batch, case),
    )


def _floor(batch: Batch, case: Case) -> timedelta | None:
    """What the endpoint asks for by Retry-After, at most as long as a sequence may take."""
    answer = _answer(case)
    if answer.status_code not in THROTTLED:
        return None
    done = batch.now + timedelta(milliseconds=answer.latency_ms)
    deadline = done + batch.config.retries.span(case.parcel.lane)
    return retry_after_floor(answer.retry_after, now=done, deadline=deadline)


def _write(batch: Batch, case: Case, outcome: Outcome, result: Tried) -> bool:
    """Write one attempt under its guards, send the retry, mind the trial. True where a failure counted."""
    effect = None if case.by_hand else _effect(batch, case, outcome, result)
    after, failed = result.after, outcome is not Outcome.SUCCESS
    if effect is not None and failed:
        after = replace(after, counted_epoch=effect.epoch)
    settled = batch.ports.ledger.settle(
        Settlement(before=case.delivery, after=after, owed=result.owed, effect=effect)
    )
    case.done(
        Arrival.TRIAL if case.trial else Arrival.ATTEMPT,
        outcome=outcome,
        status=result.after.status if settled.written else None,
        counted=settled.counted,
    )
    if case.trial:
        end_trial(batch, case, failed=failed)
    _heed_retry_after(batch, case)
    if settled.written and result.after.next_attempt_at is not None:
        _send_retry(batch, case, result.after.next_attempt_at)
    return settled.counted and failed


def _effect(batch: Batch, case: Case, outcome: Outcome, result: Tried) -> HealthEffect | None:
    """What the sequence says to health, where it is over and says anything new."""
    health, answer = batch.health(case), _answer(case)
    if not result.settled or (outcome is Outcome.SUCCESS and health.fresh(batch.now)):
        return None
    if outcome is Outcome.SUCCESS:
        return HealthEffect(epoch=health.epoch, outcome=outcome, at=batch.now, status_code=answer.status_code)
    if not case.trial and not counts_again(result.after, epoch=health.epoch):
        return None
    first = health.streak_from(result.after.sequence_began_at or batch.now)
    crosses = may_cross(health, batch.policy(case), outcome, first_failure_at=first, now=batch.now)
    error = " ".join(filter(None, (answer.error, answer.excerpt)))
    return HealthEffect(
        epoch=health.epoch,
        outcome=outcome,
        at=batch.now,
        first_failure_at=first,
        status_code=answer.status_code,
        error=error[:MAX_ERROR_CHARACTERS],
        check_at=batch.now + CHECK_AFTER if crosses else None,
    )


def _heed_retry_after(batch: Batch, case: Case) -> None:
    """The whole endpoint is left alone until then, not this delivery only."""
    floor, health = _floor(batch, case), batch.health(case)
    if floor:
        done = batch.now + timedelta(milliseconds=_answer(case).latency_ms)
        batch.ports.health.raise_not_before(health.key, epoch=health.epoch, not_before=done + floor)


def _send_retry(batch: Batch, case: Case, at: datetime) -> None:
    """Queue the next attempt where a queue can wait so long; the owed item holds it in any case."""
    wait = at - batch.now
    if wait <= MAX_QUEUE_DELAY:
        parcel = case.parcel
        retry = replace(parcel, attempt=parcel.attempt + 1, at=at if parcel.recovery_id else None)
        batch.ports.lanes.send([retry], delays=[wait])


def _write_clean(batch: Batch, clean: Sequence[tuple[Case, Delivery]]) -> None:
    if not clean:
        return
    try:
        unwritten = set(batch.ports.ledger.put_clean([after for _, after in clean]))
    except Exception as error:  # noqa: BLE001  # these messages' edge: they are retried, and the error told
        for case, _ in clean:
            case.again(Fate.AGAIN_LATER, error=error)
        return
    for case, after in clean:
        if case.parcel.key in unwritten:
            case.again(Fate.AGAIN_LATER)
        else:
            case.done(Arrival.ATTEMPT, outcome=Outcome.SUCCESS, status=after.status)


def _count_recoveries(batch: Batch) -> None:
    """Add what the batch says of its backfill deliveries to their recoveries' progress."""
    sums: dict[tuple[SubscriptionKey, str], list[int]] = defaultdict(lambda: [0, 0, 0])
    for case in batch.cases:
        report, recovery_id = case.report, case.parcel.recovery_id
        if recovery_id is None or report is None or report.outcome is None or report.status is None:
            continue
        counts = sums[case.subscription_key, recovery_id]
        counts[0] += report.outcome is Outcome.SUCCESS
        counts[1] += report.status in (DeliveryStatus.EXHAUSTED, DeliveryStatus.HELD)
        counts[2] += report.outcome is Outcome.RETRYABLE
    for (key, recovery_id), (succeeded, failed, troubled) in sums.items():
        batch.ports.recoveries.add_counts(
            key, recovery_id, succeeded=succeeded, failed=failed, troubled=troubled
        )

"""Deliver a batch: read the truth once, attempt what is due concurrently, write down how each ended.

Whatever happens between any two calls, an owed delivery stays in a queue, in an owed item, or in its
subscription's outage. Answers which messages may go and which come back.
"""

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from enum import StrEnum

from hookkeeper.domain.arrival import REVIEW_AFTER, Arrival, judge
from hookkeeper.domain.circuit import fed, trial_failed, trial_returned, trial_taken
from hookkeeper.domain.config import Margins, RuntimeConfig
from hookkeeper.domain.delivery import (
    MAX_QUEUE_DELAY,
    Attempt,
    Delivery,
    DeliveryStatus,
    Parcel,
)
from hookkeeper.domain.errors import NotFoundError, SecretUnavailableError
from hookkeeper.domain.health import Health, Policy
from hookkeeper.domain.ledger import Tried, ended, held, owed_item, postponed, tried, untried
from hookkeeper.domain.outbound import OutboundRequest
from hookkeeper.domain.outcome import (
    Answer,
    Fault,
    Outcome,
    classify,
    feeds_circuit,
    is_our_fault,
    retry_after_floor,
)
from hookkeeper.domain.tenancy import DeliveryKey, SubscriptionKey
from hookkeeper.ports import (
    Archive,
    HealthEffect,
    HealthStore,
    Ids,
    Lanes,
    Ledger,
    Notices,
    Readings,
    Recoveries,
    Secrets,
    Sender,
    Settlement,
    Standing,
    Subscriptions,
)
from hookkeeper.usecases.close_circuit import close_circuit
from hookkeeper.usecases.request import build_request
from hookkeeper.usecases.suspend import Ruled, suspend

CHECK_AFTER = timedelta(minutes=2)
"""When the sweep asks the policy again, should this invocation die before it has."""

CHECK_WITHIN = 5
"""How many failures short of a limit a check is set already: others count at the same time."""

CIRCUIT_TRIES = 3
THROTTLED = frozenset({429, 503})
"""The statuses whose Retry-After is obeyed (SPEC §8)."""


class Fate(StrEnum):
    """What becomes of the message."""

    DONE = "done"
    AGAIN_NOW = "again_now"
    """Hand back at once: nothing was tried, for want of time."""
    AGAIN_LATER = "again_later"
    """Hand back for when it becomes visible again: our own side failed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """How one message ended, for the log and the metrics."""

    parcel: Parcel
    fate: Fate
    arrival: Arrival | None = None
    outcome: Outcome | None = None
    answer: Answer | None = None
    status: DeliveryStatus | None = None
    counted: bool = False
    error: Exception | None = None
    """What our own side raised while this message was dealt with; it is handed back."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Delivered:
    """A batch's end: a report for each message in its order, and what it set in motion."""

    reports: Sequence[Report]
    opened: Sequence[SubscriptionKey]
    closed: Sequence[SubscriptionKey]
    rulings: Mapping[SubscriptionKey, Ruled]


@dataclass(frozen=True, slots=True, kw_only=True)
class DeliverPorts:
    """All that a delivery needs from outside."""

    ledger: Ledger
    health: HealthStore
    subscriptions: Subscriptions
    recoveries: Recoveries
    secrets: Secrets
    archive: Archive
    sender: Sender
    lanes: Lanes
    notices: Notices
    ids: Ids
    spread: Callable[[], float]
    """A number in [-1, 1], anew each time: what moves a retry's gap."""


@dataclass(slots=True)
class _Batch:
    """The work in hand: what was read, and what became of each message so far (by position)."""

    parcels: Sequence[Parcel]
    readings: Readings
    now: datetime
    config: RuntimeConfig
    margins: Margins
    ports: DeliverPorts
    reports: dict[int, Report] = field(default_factory=dict)
    trials: set[int] = field(default_factory=set)
    opened: list[SubscriptionKey] = field(default_factory=list)
    closed: list[SubscriptionKey] = field(default_factory=list)

    def standing(self, position: int) -> Standing:
        return self.readings.standings[self.parcels[position].key.subscription]

    def delivery(self, position: int) -> Delivery | None:
        return self.readings.deliveries.get(self.parcels[position].key)

    def policy(self, position: int) -> Policy:
        return self.config.policy_of(self.standing(position).subscription)

    def done(self, position: int, arrival: Arrival, status: DeliveryStatus | None = None) -> None:
        parcel = self.parcels[position]
        self.reports[position] = Report(parcel=parcel, fate=Fate.DONE, arrival=arrival, status=status)

    def again(
        self,
        position: int,
        fate: Fate,
        *,
        answer: Answer | None = None,
        error: Exception | None = None,
    ) -> None:
        parcel = self.parcels[position]
        self.reports[position] = Report(parcel=parcel, fate=fate, answer=answer, error=error)


def deliver(
    parcels: Sequence[Parcel],
    *,
    now: datetime,
    config: RuntimeConfig,
    margins: Margins,
    ports: DeliverPorts,
    stop_at_seconds: float | None = None,
) -> Delivered:
    """Deliver what is due of at most 25 messages; `stop_at_seconds` is the time left for requests."""
    readings = ports.ledger.read_batch([parcel.key for parcel in parcels])
    batch = _Batch(parcels, readings, now, config, margins, ports)
    due = _receive(batch)
    answers = _attempt(batch, due, stop_at_seconds)
    counted = _settle(batch, answers)
    _feed_circuits(batch, answers)
    rulings = {key: _rule(batch, key) for key in counted}
    return Delivered(
        reports=[batch.reports[position] for position in range(len(parcels))],
        opened=batch.opened,
        closed=batch.closed,
        rulings=rulings,
    )


# ── on arrival ───────────────────────────────────────────────────────────────────────────────────


def _receive(batch: _Batch) -> list[int]:
    """Judge every message, deal with those not to be attempted, and answer the positions that are."""
    due: list[int] = []
    taken: set[DeliveryKey] = set()
    for position, parcel in enumerate(batch.parcels):
        if parcel.key in batch.readings.unread:
            batch.again(position, Fate.AGAIN_LATER)
            continue
        standing = batch.readings.standings.get(parcel.key.subscription)
        judged = judge(
            parcel,
            subscription=standing.subscription if standing else None,
            health=standing.health if standing else None,
            delivery=batch.delivery(position),
            now=batch.now,
        )
        arrival = judged.arrival
        if parcel.key in taken and arrival in (Arrival.ATTEMPT, Arrival.TRIAL):
            arrival = Arrival.DROP
        if arrival is Arrival.TRIAL:
            arrival = _take_trial(batch, position, otherwise=judged.otherwise or Arrival.HOLD)
        if arrival in (Arrival.ATTEMPT, Arrival.TRIAL):
            taken.add(parcel.key)
            due.append(position)
        else:
            try:
                _put_aside(batch, position, arrival)
            except Exception as error:  # one message's edge: it comes back, its neighbours go on
                batch.again(position, Fate.AGAIN_LATER, error=error)
    return due


def _take_trial(batch: _Batch, position: int, *, otherwise: Arrival) -> Arrival:
    health = batch.standing(position).health
    if any(batch.parcels[p].key.subscription == health.key for p in batch.trials):
        return otherwise
    by = batch.ports.ids.new("trial")
    circuit = trial_taken(health.circuit, by=by, now=batch.now)
    if not batch.ports.health.write_circuit(health, circuit):
        return otherwise
    _reread(batch, health, replace(health, circuit=circuit))
    batch.trials.add(position)
    return Arrival.TRIAL


def _reread(batch: _Batch, health: Health, present: Health) -> None:
    standing = batch.readings.standings[health.key]
    standings = {**batch.readings.standings, health.key: replace(standing, health=present)}
    batch.readings = replace(batch.readings, standings=standings)


def _put_aside(batch: _Batch, position: int, arrival: Arrival) -> None:
    parcel, delivery = batch.parcels[position], batch.delivery(position)
    status: DeliveryStatus | None = None
    match arrival:
        case Arrival.DROP:
            if delivery is not None and delivery.final:
                _drop_leftover(batch, delivery)
        case Arrival.DISCARD:
            status = DeliveryStatus.DISCARDED
            _write(batch, delivery, ended(untried(parcel, delivery), status))
        case Arrival.HOLD:
            already = delivery is not None and delivery.status is DeliveryStatus.HELD
            if not already or parcel.recovery_id is not None:
                status = _keep(batch, position, due_at=None)
        case Arrival.RETURN:
            status = _keep(batch, position, due_at=None)
        case Arrival.REVIEW:
            status = _keep(batch, position, due_at=batch.now + REVIEW_AFTER)
        case Arrival.POSTPONE:
            if not _postpone(batch, position):
                batch.again(position, Fate.AGAIN_LATER)
                return
        case _:
            pass
    batch.done(position, arrival, status)


def _drop_leftover(batch: _Batch, delivery: Delivery) -> None:
    item = batch.ports.ledger.owed_item(delivery.key, archived_at=delivery.archived_at)
    if item is not None:
        batch.ports.ledger.delete_owed(item)


def _keep(batch: _Batch, position: int, *, due_at: datetime | None) -> DeliveryStatus:
    """Back to owed; without `due_at` it waits for a recovery, or its expiry."""
    parcel, delivery = batch.parcels[position], batch.delivery(position)
    after = held(parcel, delivery)
    expiry = after.archived_at + batch.config.retention
    item = owed_item(after, due_at=due_at or expiry, retention=batch.config.retention)
    batch.ports.ledger.settle(Settlement(before=delivery, after=after, owed=item))
    return DeliveryStatus.HELD


def _write(batch: _Batch, before: Delivery | None, after: Delivery) -> None:
    batch.ports.ledger.settle(Settlement(before=before, after=after))


def _postpone(batch: _Batch, position: int) -> bool:
    """Put the message off to when the endpoint may be asked again. False where no queue took it."""
    parcel, health = batch.parcels[position], batch.standing(position).health
    until = health.not_before or batch.now
    wait = until - batch.now
    if wait <= MAX_QUEUE_DELAY:
        later = replace(parcel, not_before_at=until, at=until if parcel.at else None)
        return not batch.ports.lanes.send([later], delays=[wait])
    delivery = batch.delivery(position)
    after = postponed(parcel, delivery, until=until)
    item = owed_item(after, due_at=until, retention=batch.config.retention)
    batch.ports.ledger.settle(Settlement(before=delivery, after=after, owed=item))
    return True


# ── the attempts ─────────────────────────────────────────────────────────────────────────────────


def _attempt(batch: _Batch, due: Sequence[int], stop_at_seconds: float | None) -> dict[int, Answer]:
    """Send what is due, all at once; answers by position. What could not be built is its own answer."""
    requests: dict[int, OutboundRequest] = {}
    answers: dict[int, Answer] = {}
    for position in due:
        try:
            requests[position] = _request(batch, position)
        except SecretUnavailableError:
            answers[position] = Answer(fault=Fault.SECRET_UNAVAILABLE)
        except NotFoundError:
            _expire(batch, position)
        except Exception as error:  # one message's edge: it comes back, its neighbours go on
            _give_back_trial(batch, position)
            batch.again(position, Fate.AGAIN_LATER, error=error)
    sent = batch.ports.sender.send(list(requests.values()), stop_at_seconds=stop_at_seconds)
    return answers | dict(zip(requests, sent, strict=True))


def _request(batch: _Batch, position: int) -> OutboundRequest:
    parcel, subscription = batch.parcels[position], batch.standing(position).subscription
    body = parcel.body
    if body is None:
        body = batch.ports.archive.body(parcel.key.scope, parcel.pointer)
    return build_request(
        subscription,
        webhook_id=parcel.key.event_id,
        body=body,
        secrets=batch.ports.secrets.signing(subscription.key, subscription.secret_ref, now=batch.now),
        attempt=parcel.attempt,
        lane=parcel.lane,
        now=batch.now,
    )


def _expire(batch: _Batch, position: int) -> None:
    """The archive no longer has it: what was owed has left retention, and the ledger says so."""
    delivery = batch.delivery(position)
    record = ended(untried(batch.parcels[position], delivery), DeliveryStatus.EXPIRED)
    _write(batch, delivery, record)
    _give_back_trial(batch, position)
    batch.done(position, Arrival.ATTEMPT, DeliveryStatus.EXPIRED)


# ── writing down ─────────────────────────────────────────────────────────────────────────────────


def _settle(batch: _Batch, answers: Mapping[int, Answer]) -> list[SubscriptionKey]:
    """Write every attempt down; answers the subscriptions whose health counted a failure."""
    clean: dict[int, Tried] = {}
    counted: dict[SubscriptionKey, None] = {}
    refreshed: set[SubscriptionKey] = set()
    for position, answer in answers.items():
        if is_our_fault(answer):
            fate = Fate.AGAIN_NOW if answer.fault is Fault.OUT_OF_TIME else Fate.AGAIN_LATER
            _give_back_trial(batch, position)
            batch.again(position, fate, answer=answer)
            continue
        outcome = classify(answer, preset_rules=batch.policy(position).rules)
        result = _tried(batch, position, answer, outcome)
        if _is_clean(batch, position, outcome, refreshed):
            clean[position] = result
            continue
        if outcome is Outcome.SUCCESS:
            refreshed.add(batch.parcels[position].key.subscription)
        try:
            if _write_attempt(batch, position, answer, outcome, result):
                counted[batch.parcels[position].key.subscription] = None
        except Exception as error:  # one message's edge: it comes back, its neighbours go on
            batch.again(position, Fate.AGAIN_LATER, answer=answer, error=error)
    _write_clean(batch, clean, answers)
    _count_recoveries(batch)
    return list(counted)


def _is_clean(batch: _Batch, position: int, outcome: Outcome, refreshed: set[SubscriptionKey]) -> bool:
    """Whether a success may go down in one batched write: a first attempt, and nothing new for health."""
    if outcome is not Outcome.SUCCESS or batch.delivery(position) is not None or position in batch.trials:
        return False
    health = batch.standing(position).health
    return health.fresh(batch.now) or (health.clean and health.key in refreshed)


def _tried(batch: _Batch, position: int, answer: Answer, outcome: Outcome) -> Tried:
    parcel = batch.parcels[position]
    attempt = Attempt(
        n=parcel.attempt,
        at=batch.now,
        lane=parcel.lane,
        status_code=answer.status_code,
        latency_ms=answer.latency_ms,
        error=answer.error,
        excerpt=answer.excerpt,
    )
    floor = None
    if answer.status_code in THROTTLED:
        deadline = batch.now + batch.config.retries.span(parcel.lane)
        floor = retry_after_floor(answer.retry_after, now=batch.now, deadline=deadline)
    return tried(
        parcel,
        batch.delivery(position),
        attempt,
        outcome,
        rules=batch.config.retries,
        retention=batch.config.retention,
        spread=batch.ports.spread(),
        trial=position in batch.trials,
        floor=floor,
    )


def _write_attempt(batch: _Batch, position: int, answer: Answer, outcome: Outcome, result: Tried) -> bool:
    """Write one attempt under its guards, send the retry, mind the trial. True where a failure counted."""
    standing, before = batch.standing(position), batch.delivery(position)
    effect = _effect(batch, position, answer, outcome, result)
    settled = batch.ports.ledger.settle(
        Settlement(before=before, after=result.after, owed=result.owed, effect=effect)
    )
    failed = outcome is not Outcome.SUCCESS
    batch.reports[position] = Report(
        parcel=batch.parcels[position],
        fate=Fate.DONE,
        arrival=Arrival.TRIAL if position in batch.trials else Arrival.ATTEMPT,
        outcome=outcome,
        answer=answer,
        status=result.after.status if settled.written else None,
        counted=settled.counted,
    )
    if settled.written and result.after.next_attempt_at is not None:
        _send_retry(batch, position, result.after.next_attempt_at, standing.health, answer)
    if position in batch.trials:
        _end_trial(batch, position, failed=failed)
    return settled.counted and failed


def _effect(
    batch: _Batch, position: int, answer: Answer, outcome: Outcome, result: Tried
) -> HealthEffect | None:
    if not result.settled:
        return None
    health = batch.standing(position).health
    if outcome is Outcome.SUCCESS:
        if health.fresh(batch.now):
            return None
        return HealthEffect(epoch=health.epoch, outcome=outcome, at=batch.now, status_code=answer.status_code)
    began = result.after.sequence_began_at or batch.now
    return HealthEffect(
        epoch=health.epoch,
        outcome=outcome,
        at=batch.now,
        first_failure_at=max(began, health.last_success_at) if health.last_success_at else began,
        status_code=answer.status_code,
        error=" ".join(filter(None, (answer.error, answer.excerpt)))[:500],
        check_at=batch.now + CHECK_AFTER if _near_a_limit(batch, position, outcome) else None,
    )


def _near_a_limit(batch: _Batch, position: int, outcome: Outcome) -> bool:
    health, limits = batch.standing(position).health, batch.policy(position).limits
    streak = health.streaks.get(outcome)
    rows = [(streak.count if streak else 0, limits.get(outcome))]
    rows.append((health.consecutive_failures, limits.get(Outcome.RETRYABLE)))
    return any(limit is not None and count + CHECK_WITHIN >= limit.count for count, limit in rows)


def _send_retry(batch: _Batch, position: int, at: datetime, health: Health, answer: Answer) -> None:
    """Queue the next attempt where a queue can wait so long; the owed item holds it in any case."""
    parcel = batch.parcels[position]
    if answer.status_code in THROTTLED and answer.retry_after is not None:
        batch.ports.health.raise_not_before(health.key, epoch=health.epoch, not_before=at)
    wait = at - batch.now
    if wait > MAX_QUEUE_DELAY:
        return
    retry = replace(parcel, attempt=parcel.attempt + 1, at=at if parcel.recovery_id else None)
    batch.ports.lanes.send([retry], delays=[wait])


def _write_clean(batch: _Batch, clean: Mapping[int, Tried], answers: Mapping[int, Answer]) -> None:
    unwritten = (
        set(batch.ports.ledger.put_clean([result.after for result in clean.values()])) if clean else set()
    )
    for position, result in clean.items():
        parcel = batch.parcels[position]
        batch.reports[position] = Report(
            parcel=parcel,
            fate=Fate.AGAIN_LATER if parcel.key in unwritten else Fate.DONE,
            arrival=Arrival.ATTEMPT,
            outcome=Outcome.SUCCESS,
            answer=answers[position],
            status=result.after.status,
        )


def _count_recoveries(batch: _Batch) -> None:
    """Add the batch's settled backfill deliveries to their recoveries' progress."""
    sums: dict[tuple[SubscriptionKey, str], list[int]] = defaultdict(lambda: [0, 0, 0])
    for report in batch.reports.values():
        if report.parcel.recovery_id is None or report.outcome is None or report.status is None:
            continue
        counts = sums[report.parcel.key.subscription, report.parcel.recovery_id]
        failed = report.status in (DeliveryStatus.EXHAUSTED, DeliveryStatus.HELD)
        counts[0] += report.outcome is Outcome.SUCCESS
        counts[1] += failed
        counts[2] += report.outcome is Outcome.RETRYABLE
    for (key, recovery_id), (succeeded, failed_count, troubled) in sums.items():
        batch.ports.recoveries.add_counts(
            key, recovery_id, succeeded=succeeded, failed=failed_count, troubled=troubled
        )


# ── the circuit ──────────────────────────────────────────────────────────────────────────────────


def _end_trial(batch: _Batch, position: int, *, failed: bool) -> None:
    health = batch.standing(position).health
    if failed:
        circuit = trial_failed(health.circuit, batch.config.circuit, now=batch.now)
        batch.ports.health.write_circuit(health, circuit)
    elif close_circuit(health, now=batch.now, health_store=batch.ports.health, ids=batch.ports.ids):
        batch.closed.append(health.key)
    batch.trials.discard(position)


def _give_back_trial(batch: _Batch, position: int) -> None:
    if position in batch.trials:
        health = batch.standing(position).health
        batch.ports.health.write_circuit(health, trial_returned(health.circuit))
        batch.trials.discard(position)


def _feed_circuits(batch: _Batch, answers: Mapping[int, Answer]) -> None:
    """Tell each closed circuit how its endpoint's batch went."""
    tallies: dict[SubscriptionKey, list[int]] = defaultdict(lambda: [0, 0])
    for position, answer in answers.items():
        report = batch.reports[position]
        if report.outcome is None or report.arrival is Arrival.TRIAL:
            continue
        tally = tallies[report.parcel.key.subscription]
        tally[0] += report.outcome is Outcome.SUCCESS
        tally[1] += feeds_circuit(answer, report.outcome)
    for key, (successes, failures) in tallies.items():
        if _feed(batch, key, any_success=successes > 0, failures=failures):
            batch.opened.append(key)


def _feed(batch: _Batch, key: SubscriptionKey, *, any_success: bool, failures: int) -> bool:
    """Feed one circuit, again where another instance was first. True where this opened it."""
    standing: Standing | None = batch.readings.standings[key]
    epoch = batch.readings.standings[key].health.epoch
    for _ in range(CIRCUIT_TRIES):
        if standing is None or standing.health.circuit.is_open or standing.health.epoch != epoch:
            return False
        health = standing.health
        circuit = fed(
            health.circuit, batch.config.circuit, failures=failures, any_success=any_success, now=batch.now
        )
        if circuit is health.circuit:
            return False
        begins = batch.now - batch.margins.outage
        outage_from = min(health.outage_from or begins, begins) if circuit.is_open else None
        if batch.ports.health.write_circuit(health, circuit, outage_from=outage_from):
            return circuit.is_open
        standing = batch.ports.subscriptions.standing(key)
    return False


def _rule(batch: _Batch, key: SubscriptionKey) -> Ruled:
    ports = batch.ports
    return suspend(
        key,
        now=batch.now,
        config=batch.config,
        margins=batch.margins,
        subscriptions=ports.subscriptions,
        health=ports.health,
        ledger=ports.ledger,
        notices=ports.notices,
        ids=ports.ids,
    )

"""Tell each closed circuit how its endpoint fared in a batch: failures alone, in a row, open it."""

from collections.abc import Sequence

from hookkeeper.domain.arrival import Arrival
from hookkeeper.domain.circuit import fed
from hookkeeper.domain.outcome import Outcome, feeds_circuit
from hookkeeper.domain.tenancy import SubscriptionKey
from hookkeeper.ports import Standing
from hookkeeper.usecases.delivery_batch import Batch, Case

TRIES = 3
"""How often a batch is told to a circuit that others write at the same time; the next batch tells it too."""


def feed_circuits(batch: Batch) -> None:
    """A success of the batch resets its endpoint's circuit; a batch of failures alone adds them."""
    for key, cases in batch.by_subscription().items():
        successes, failures = _tally(cases)
        if successes or failures:
            with batch.sparing_the_rest():
                if _feed(batch, key, any_success=successes > 0, failures=failures):
                    batch.opened.append(key)


def _tally(cases: Sequence[Case]) -> tuple[int, int]:
    """How many attempts succeeded, and how many failures say something of the endpoint."""
    successes = failures = 0
    for case in cases:
        report = case.report
        if report is None or report.outcome is None or report.arrival is Arrival.TRIAL or case.by_hand:
            continue
        successes += report.outcome is Outcome.SUCCESS
        failures += report.answer is not None and feeds_circuit(report.answer, report.outcome)
    return successes, failures


def _feed(batch: Batch, key: SubscriptionKey, *, any_success: bool, failures: int) -> bool:
    """Feed one circuit, again where another instance was first. True where this opened it."""
    standing: Standing | None = batch.standings[key]
    epoch = batch.standings[key].health.epoch
    for _ in range(TRIES):
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

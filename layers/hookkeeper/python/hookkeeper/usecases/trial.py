"""The one try that an open circuit allows: take it, end it, or give it back unused."""

from dataclasses import replace

from hookkeeper.domain.circuit import Circuit, trial_failed, trial_returned, trial_taken
from hookkeeper.usecases.close_circuit import close_circuit
from hookkeeper.usecases.delivery_batch import Batch, Case


def take_trial(batch: Batch, case: Case) -> bool:
    """Whether this message may try the endpoint: one guarded write decides between all who ask."""
    standing = batch.standing(case)
    health, by = standing.health, batch.ports.ids.new("trial")
    circuit = trial_taken(health.circuit, by=by, now=batch.now)
    if not batch.ports.health.write_circuit(health, circuit):
        return False
    batch.standings[case.subscription_key] = replace(standing, health=replace(health, circuit=circuit))
    case.trial = True
    return True


def end_trial(batch: Batch, case: Case, *, failed: bool) -> None:
    """Open for longer, or closed with the recovery of what the outage owes."""
    health, ports = batch.health(case), batch.ports
    case.trial = False
    if failed:
        _put(batch, case, trial_failed(health.circuit, batch.config.circuit, now=batch.now))
    elif close_circuit(
        health, now=batch.now, subscriptions=ports.subscriptions, health_store=ports.health, ids=ports.ids
    ):
        batch.closed.append(case.subscription_key)


def give_back_trial(batch: Batch, case: Case) -> None:
    """The endpoint was not asked after all: whoever comes next may ask it."""
    if case.trial:
        case.trial = False
        _put(batch, case, trial_returned(batch.health(case).circuit))


def _put(batch: Batch, case: Case, circuit: Circuit) -> None:
    """A lost write means that the lease had ended, or the subscription's epoch: then others decide."""
    batch.ports.health.write_circuit(batch.health(case), circuit)

"""End an outage without suspension: close the circuit and put the recovery of its window, as one."""

from datetime import datetime

from hookkeeper.domain.circuit import closed
from hookkeeper.domain.health import Health
from hookkeeper.domain.recovery import RecoveryKind, Window, automatic, joined
from hookkeeper.ports import HealthStore, Ids, Subscriptions

TRIES = 5
"""How often a closing is made again where a recovery renewed its lease in between."""


def close_circuit(
    health: Health, *, now: datetime, subscriptions: Subscriptions, health_store: HealthStore, ids: Ids
) -> bool:
    """Close the circuit that the caller holds the trial of. False where someone else changed it.

    The outage's window joins the recovery that runs, or begins an automatic one, which the sweep starts.
    """
    present: Health | None = health
    for _ in range(TRIES):
        if present is None or (present.epoch, present.circuit) != (health.epoch, health.circuit):
            return False
        if _close(present, now=now, health_store=health_store, ids=ids):
            return True
        standing = subscriptions.standing(health.key)
        present = standing.health if standing else None
    return False


def _close(health: Health, *, now: datetime, health_store: HealthStore, ids: Ids) -> bool:
    window = Window(start=health.outage_from, end=now) if health.outage_from is not None else None
    lock = joined(
        health.recovery, window=window, recovery_id=ids.new("rec"), kind=RecoveryKind.AUTOMATIC, now=now
    )
    recovery = automatic(health.key, lock, now=now) if lock.id != health.recovery.id else None
    return health_store.close_circuit(health, closed(health.circuit), lock, recovery)

"""Give back what a short outage owes without a state machine: the sweep takes the recovery's steps itself.

Below one slice a recovery is a handful of steps, most of them waits; each is one look of the sweep.
"""

from datetime import datetime

from hookkeeper.domain.config import Margins, RuntimeConfig
from hookkeeper.domain.recovery import Recovery, RecoveryKind, RecoveryStatus
from hookkeeper.ports import Ids, Standing
from hookkeeper.usecases import recover
from hookkeeper.usecases.backfill import BackfillPorts, backfill
from hookkeeper.usecases.owed import exceeds
from hookkeeper.usecases.recovery_run import AT_ONCE, Run

SWEEP = "sweep"
"""The execution that the lock names while the sweep takes the steps."""

STEPS_AT_MOST = 5
"""In one look: those that follow at once."""


def is_the_sweeps(standing: Standing) -> bool:
    """Whether the sweep takes this recovery's steps, or may: an automatic one that nobody has begun."""
    lock = standing.health.recovery
    unbegun = lock.kind is RecoveryKind.AUTOMATIC and lock.status is RecoveryStatus.WAITING
    return lock.held and (lock.execution == SWEEP or (unbegun and lock.execution is None))


def take_steps(
    standing: Standing,
    *,
    now: datetime,
    config: RuntimeConfig,
    margins: Margins,
    ports: BackfillPorts,
    ids: Ids,
) -> str | None:
    """Take the steps that are due. None where there is more than one slice, or the recovery has gone.

    Answers a word for the report. Killed in the middle, the next sweep takes the same step again.
    """
    key, lock = standing.subscription.key, standing.health.recovery
    recovery = ports.recoveries.get(key.scope, lock.id or "")
    if recovery is None:
        return None
    if lock.execution != SWEEP:
        if _is_large(standing, recovery, now, config, margins, ports):
            return None
        asked = recover.Asked(
            key=key,
            kind=RecoveryKind.AUTOMATIC,
            recovery_id=recovery.id,
            generation=lock.generation,
            execution=SWEEP,
            lease=AT_ONCE,
        )
        locked = recover.lock(
            asked,
            now=now,
            config=config,
            subscriptions=ports.subscriptions,
            health=ports.health,
            recoveries=ports.recoveries,
            ids=ids,
        )
        if locked.recovery is None or not locked.mine:
            return None
        recovery = locked.recovery
    for _ in range(STEPS_AT_MOST):
        sliced = backfill(
            key,
            recovery_id=recovery.id,
            generation=recovery.generation,
            now=now,
            config=config,
            margins=margins,
            ports=ports,
            by_sweep=True,
        )
        if sliced.wait is None or sliced.wait > AT_ONCE or sliced.sent:
            break
    return "recoveries_stepped"


def _is_large(
    standing: Standing,
    recovery: Recovery,
    now: datetime,
    config: RuntimeConfig,
    margins: Margins,
    ports: BackfillPorts,
) -> bool:
    """Whether more is owed than the first slice at the first pace sends; looked at, nothing is moved."""
    most = int(config.pace.first_rate() * config.pace.slice_seconds)
    filters = ports.subscriptions.filters(recovery.key)
    return exceeds(Run(standing, recovery, filters, now, config, margins, ports), most)

"""What became of everything that a recovery sent, counted in the ledger before the recovery ends.

Only the deliveries that the recovery has noted are read: as many reads as it has sent, however long the
archive is. Counters that deliveries add to on the way are for the progress bar; a crash may miss some.
"""

from collections.abc import Mapping
from dataclasses import replace
from datetime import timedelta

from hookkeeper.domain.delivery import Delivery, DeliveryStatus
from hookkeeper.domain.recovery import Recovery, Tally
from hookkeeper.domain.tenancy import DeliveryKey
from hookkeeper.usecases.recovery_run import Run

LOOK_AT_MOST = 20_000
"""Records in one step: 200 reads of 100."""

PASSES_AT_MOST = 5
CHUNK = 100
PATIENCE = timedelta(minutes=15)
"""How long what was sent is waited for: the batch of a deliver that was killed comes back after 12 min."""


def count_on(run: Run) -> tuple[Tally, bool]:
    """The tally gone on with by one step, and whether everything is counted."""
    recovery = run.recovery
    tally = recovery.tally or Tally()
    every = sorted(run.ports.recoveries.sent_by(recovery.key, recovery.id))
    left = [event_id for event_id in every if event_id > tally.after]
    for start in range(0, min(len(left), LOOK_AT_MOST), CHUNK):
        ids = left[start : start + CHUNK]
        records = run.ports.ledger.read([DeliveryKey(recovery.key, event_id) for event_id in ids])
        tally = _counted(run, tally, ids[-1], [records.get(DeliveryKey(recovery.key, i)) for i in ids])
    return tally, len(left) <= LOOK_AT_MOST


def is_patient(run: Run, tally: Tally) -> bool:
    """Whether what is still under way is waited for."""
    sent_until = run.recovery.sent_until
    return bool(tally.under_way) and sent_until is not None and run.now < sent_until + PATIENCE


def repeats(recovery: Recovery) -> bool:
    """Whether a replay of what succeeded goes over its window again: messages of it were put aside."""
    plan = recovery.replay
    return plan is not None and plan.again and recovery.passes < PASSES_AT_MOST


def _counted(run: Run, tally: Tally, last: str, records: list[Delivery | None]) -> Tally:
    words = [_word(run, record) for record in records]
    counts: Mapping[str, int] = {
        name: getattr(tally, name) + words.count(name)
        for name in ("succeeded", "failed", "expired", "discarded", "under_way")
    }
    return replace(tally, after=last, **counts)


def _word(run: Run, record: Delivery | None) -> str:
    """Where a delivery stands, as the field of the tally that counts it."""
    if record is None or record.status is DeliveryStatus.RETRYING:
        return "under_way"
    match record.status:
        case DeliveryStatus.SUCCEEDED:
            return "under_way" if _is_to_repeat(run, record) else "succeeded"
        case DeliveryStatus.EXPIRED:
            return "expired"
        case DeliveryStatus.DISCARDED:
            return "discarded"
        case _:
            return "failed"


def _is_to_repeat(run: Run, record: Delivery) -> bool:
    """Whether a replay is to send again what had succeeded, and has not yet."""
    plan = run.recovery.replay
    if plan is None or not plan.again:
        return False
    covered = plan.covers(archived_at=record.archived_at, event_type=record.event_type)
    return covered and run.recovery.id not in record.replays

"""The few that a recovery sends ahead: they show whether the endpoint takes its events again."""

from collections.abc import Mapping
from dataclasses import replace
from datetime import timedelta

from hookkeeper.domain.delivery import Delivery
from hookkeeper.domain.notice import NoticeKind
from hookkeeper.domain.recovery import Recovery, RecoveryKind, RecoveryStatus
from hookkeeper.domain.tenancy import DeliveryKey
from hookkeeper.usecases.auto_probe import AUTO_PROBE
from hookkeeper.usecases.notice_facts import health_facts, waiting_facts
from hookkeeper.usecases.recovery_run import AT_ONCE, Run, Sliced

LOOK_AGAIN = timedelta(seconds=5)
PATIENCE = timedelta(minutes=2)
"""How long canaries may be on their way before others are sent: an attempt's longest life and its batch."""

AFTER_FAILURE = timedelta(minutes=1)
"""Doubled with each failure in a row."""

LONGEST_AFTER_FAILURE = timedelta(hours=1)
FAIL_AT_MOST = 3


def look_at_canaries(run: Run) -> Sliced:
    """Send on where they arrived, wait where one failed or is on its way; the third failure in a row pauses.

    A recovery that nobody asked for is never paused: its owner would not know, and nobody would resume it.
    """
    keys = [DeliveryKey(run.recovery.key, event_id) for event_id in run.recovery.canaries]
    deliveries = run.ports.ledger.read(keys)
    ends = [_end(run, deliveries.get(key)) for key in keys]
    if False in ends:
        return _failed(run, replace(run.recovery, canaries=()))
    if None in ends:
        sent_at = run.recovery.next_slice_at or run.now
        if run.now < sent_at + PATIENCE:
            return run.stay(LOOK_AGAIN)
        return _others(run)
    flowing = replace(
        run.recovery,
        canaries=(),
        canaries_failed=0,
        flowing=True,
        next_slice_at=None,
        rate_per_second=min(
            run.config.pace.first_rate(), run.recovery.max_rate or run.config.pace.first_rate()
        ),
        troubled_seen=run.recovery.troubled,
    )
    return run.stay(AT_ONCE, flowing)


def _others(run: Run) -> Sliced:
    """Those that did not come back say nothing of the endpoint: others are sent, and no rest is due for them.

    A circuit that opens in between is another matter: the endpoint flaps, and the next round waits.
    """
    counted = run.recovery.kind is RecoveryKind.AUTOMATIC
    rounds = run.lock.rounds.called_off() if counted else None
    return run.stay(AT_ONCE, replace(run.recovery, canaries=()), rounds=rounds)


def _end(run: Run, delivery: Delivery | None) -> bool | None:
    """Whether a canary arrived, or was attempted in vain; None while it is on its way."""
    if delivery is None:
        return None
    sent_at = run.recovery.next_slice_at or run.recovery.started_at
    attempted = bool(delivery.attempts) and delivery.attempts[-1].at >= sent_at - LOOK_AGAIN
    if delivery.final:
        repeated = run.recovery.replay is not None and run.recovery.replay.again
        return True if attempted or not repeated else None
    return False if attempted else None


def _failed(run: Run, recovery: Recovery) -> Sliced:
    times = recovery.canaries_failed + 1
    wait = min(AFTER_FAILURE * 2 ** min(times - 1, 10), LONGEST_AFTER_FAILURE)
    recovery = replace(recovery, canaries_failed=times, next_slice_at=run.now + wait)
    asked_for = recovery.kind is not RecoveryKind.AUTOMATIC and recovery.actor != AUTO_PROBE.id
    if times < FAIL_AT_MOST or not asked_for:
        return run.stay(wait, recovery)
    recovery = replace(recovery, canaries_failed=0)
    notice = run.notice(
        NoticeKind.RECOVERY_PAUSED,
        dedupe=f"{recovery.id}-{recovery.generation}",
        recovery=recovery,
        facts=_still_owed(run),
    )
    kept = run.keep(recovery, RecoveryStatus.PAUSED, notice=notice)
    return Sliced(AT_ONCE if kept is None else None, recovery=kept or run.recovery)


def _still_owed(run: Run) -> Mapping[str, str]:
    """How it failed, how much waits, and until when: the oldest of what is unread goes first."""
    begins = [w.cursor.archived_at if w.cursor else w.start for w in run.lock.windows]
    waiting = waiting_facts(
        run.recovery.key,
        outage_from=min(begins, default=None),
        now=run.now,
        retention=run.config.retention,
        ledger=run.ports.ledger,
    )
    return {**health_facts(run.health), **waiting}

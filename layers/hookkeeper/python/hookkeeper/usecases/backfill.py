"""Give back what is owed, slice by slice, at a pace that the endpoint has shown it can take.

One call is one step of the recovery's execution: look whether to go on, find the next slice (owed items
first, then the windows' archive), queue it, and move the cursors past it. A cursor passes a slice only
when the queue has all of it and the subscription was then still active with its circuit closed; an
interrupted slice is read and sent again whole, which the ledger makes harmless.
"""

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime, timedelta

from hookkeeper.domain.arrival import REVIEW_AFTER
from hookkeeper.domain.config import Margins, RuntimeConfig
from hookkeeper.domain.delivery import Owed, Parcel
from hookkeeper.domain.health import Health
from hookkeeper.domain.notice import NoticeKind
from hookkeeper.domain.recovery import Recovery, RecoveryKind, RecoveryStatus
from hookkeeper.domain.tenancy import SubscriptionKey
from hookkeeper.usecases.canaries import PAUSE_CHECK, look_at_canaries
from hookkeeper.usecases.owed import Found, find_owed, on_its_way, own_items
from hookkeeper.usecases.recovery_run import AT_ONCE, BackfillPorts, Run, Sliced

__all__ = ["BackfillPorts", "Sliced", "backfill"]

OPEN_CIRCUIT_CHECK = timedelta(seconds=30)
IN_FLIGHT_CHECK = timedelta(seconds=15)
REFUSED_CHECK = timedelta(seconds=15)


def backfill(
    key: SubscriptionKey,
    *,
    recovery_id: str,
    generation: int,
    now: datetime,
    config: RuntimeConfig,
    margins: Margins,
    ports: BackfillPorts,
) -> Sliced:
    """Take one step of the recovery; safe to repeat, and to run after the recovery has ended."""
    standing = ports.subscriptions.standing(key)
    recovery = ports.recoveries.get(key.scope, recovery_id)
    if standing is None or recovery is None:
        return Sliced(None)
    lock = standing.health.recovery
    if not lock.held or not lock.is_present(recovery_id, generation):
        _close_record(standing.health, recovery, now, ports)
        return Sliced(None, recovery=recovery)
    run = Run(standing, recovery, ports.subscriptions.filters(key), now, config, margins, ports)
    if lock.status is RecoveryStatus.PAUSED:
        return run.stay(PAUSE_CHECK)
    if run.health.circuit.open_until is not None:
        wait = max(run.health.circuit.open_until - now, OPEN_CIRCUIT_CHECK)
        return run.stay(wait, replace(recovery, flowing=False, canaries=()))
    quiet = [moment for moment in (recovery.next_slice_at, run.health.not_before) if moment]
    if quiet and max(quiet) > now:
        return run.stay(max(quiet) - now)
    return look_at_canaries(run) if recovery.canaries else _next_slice(run)


def _close_record(health: Health, recovery: Recovery, now: datetime, ports: BackfillPorts) -> None:
    """The lock went (suspended, cancelled, revoked, done by another): the record says so, if it does not."""
    lock = health.recovery
    gone_on = lock.id == recovery.id and lock.held
    if recovery.ended_at is not None or gone_on:
        return
    status = lock.status if lock.id == recovery.id else RecoveryStatus.STOPPED
    ended = replace(recovery, status=status or RecoveryStatus.STOPPED, ended_at=now)
    ports.health.write_lock(health, replace(lock, version=lock.version + 1), ended)


# ── a slice ──────────────────────────────────────────────────────────────────────────────────────


def _next_slice(run: Run) -> Sliced:
    recovery = _paced(run)
    found = find_owed(run, _most(run, recovery))
    if not found.parcels and found.windows == run.lock.windows:
        return _finish_or_wait(run, recovery)
    return _send(run, recovery, found)


def _paced(run: Run) -> Recovery:
    """The recovery at the pace that its last slice has earned."""
    recovery = run.recovery
    if not recovery.flowing or recovery.next_slice_at is None:
        return recovery
    clean = recovery.troubled <= recovery.troubled_seen
    rate = run.config.pace.next_rate(recovery.rate_per_second, clean=clean, ceiling=recovery.max_rate)
    return replace(recovery, rate_per_second=rate, troubled_seen=recovery.troubled)


def _most(run: Run, recovery: Recovery) -> int:
    """How many one slice sends. It is long only at a pace that stays: one asked for, or the highest."""
    pace = run.config.pace
    if not recovery.flowing:
        return pace.canaries
    highest = min(pace.most_per_second, recovery.max_rate or pace.most_per_second)
    rate = recovery.rate_per_second
    seconds = pace.slice_span(rate) if rate >= highest else pace.slice_seconds
    return max(1, int(rate * seconds))


def _send(run: Run, recovery: Recovery, found: Found) -> Sliced:
    """Queue the slice, each message for its own second, then move the cursors past it."""
    per_second = recovery.rate_per_second if recovery.flowing else float(len(found.parcels) or 1)
    offsets = [timedelta(seconds=int(n / per_second)) for n in range(len(found.parcels))]
    parcels = [
        replace(parcel, at=run.now + offset) for parcel, offset in zip(found.parcels, offsets, strict=True)
    ]
    refused = run.ports.lanes.send(parcels, delays=offsets)
    _mark(run, parcels, found.items, refused)
    if refused:
        return run.stay(REFUSED_CHECK)
    ends_in = offsets[-1] + AT_ONCE if offsets else timedelta(0)
    moved = replace(
        recovery,
        found=recovery.found + len(parcels),
        sent=recovery.sent + len(parcels),
        expired=recovery.expired + run.expired,
        next_slice_at=run.now + ends_in if parcels else None,
        canaries=() if recovery.flowing else tuple(parcel.key.event_id for parcel in parcels),
    )
    kept = run.keep(moved, RecoveryStatus.RUNNING, windows=found.windows, flowing=True)
    return Sliced(max(ends_in, AT_ONCE) if kept else AT_ONCE, sent=len(parcels), recovery=kept or recovery)


def _mark(
    run: Run, parcels: Sequence[Parcel], items: Sequence[Owed | None], refused: Sequence[Parcel]
) -> None:
    """Mark the owed items whose messages the queue has; should one be lost, its item is sent again.

    After sending, since a mark without a message would hold the item back. Its message may have been
    dealt with by then: the item is no longer as read, and stays as that left it.
    """
    missing = set(refused)
    for parcel, item in zip(parcels, items, strict=True):
        if item is not None and parcel not in missing:
            at = parcel.at or run.now
            run.ports.ledger.move_due(item, due_at=min(at + REVIEW_AFTER, item.expires_at), taken_by=run.mark)


def _finish_or_wait(run: Run, recovery: Recovery) -> Sliced:
    """Done when every window is read to its end, and no owed item is left that this recovery should send."""
    unread = [window.end + run.margins.outage for window in run.lock.windows]
    if unread and max(unread) > run.now:
        return run.stay(max(unread) - run.now, recovery)
    left = next(own_items(run), None)
    if left is not None:
        return run.stay(IN_FLIGHT_CHECK if on_its_way(run, left) else AT_ONCE, recovery)
    done = replace(recovery, ended_at=run.now, expired=recovery.expired + run.expired)
    notice = None
    if done.kind is RecoveryKind.REENABLE:
        notice = run.notice(NoticeKind.RECOVERED, dedupe=done.id, recovery=done)
    kept = run.keep(done, RecoveryStatus.COMPLETED, windows=(), notice=notice)
    return Sliced(None if kept else AT_ONCE, recovery=kept or recovery)

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
from hookkeeper.domain.notice import NoticeKind
from hookkeeper.domain.recovery import Recovery, RecoveryKind, RecoveryStatus, Tally
from hookkeeper.domain.tenancy import SubscriptionKey
from hookkeeper.usecases.ahead import count_ahead
from hookkeeper.usecases.canaries import LOOK_AGAIN, look_at_canaries
from hookkeeper.usecases.owed import Found, find_owed, on_its_way, own_items
from hookkeeper.usecases.recovery_run import AT_ONCE, BackfillPorts, Run, Sliced
from hookkeeper.usecases.tally import count_on, is_patient, repeats

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
    by_sweep: bool = False,
) -> Sliced:
    """Take one step of the recovery; safe to repeat, and to run after the recovery has ended."""
    standing = ports.subscriptions.standing(key)
    recovery = ports.recoveries.get(key.scope, recovery_id)
    if standing is None or recovery is None:
        return Sliced(None)
    lock = standing.health.recovery
    if not lock.held or not lock.is_present(recovery_id, generation):
        return Sliced(None, recovery=recovery)
    run = Run(standing, recovery, ports.subscriptions.filters(key), now, config, margins, ports, by_sweep)
    if lock.status is RecoveryStatus.PAUSED:
        return Sliced(None, recovery=recovery)
    if run.health.circuit.open_until is not None:
        wait = max(run.health.circuit.open_until - now, OPEN_CIRCUIT_CHECK)
        return run.stay(wait, replace(recovery, flowing=False, canaries=()))
    quiet = [moment for moment in (recovery.next_slice_at, run.health.not_before) if moment]
    if quiet and max(quiet) > now:
        return run.stay(max(quiet) - now)
    return look_at_canaries(run) if recovery.canaries else _next_slice(run)


# ── a slice ──────────────────────────────────────────────────────────────────────────────────────


def _next_slice(run: Run) -> Sliced:
    recovery = _paced(run)
    if _sets_out(recovery) and run.lock.rounds.next_at(run.now) > run.now:
        return run.stay(run.lock.rounds.next_at(run.now) - run.now, recovery)
    found = find_owed(run, _most(run, recovery))
    return _send(run, recovery, found) if found.moves(run) else _finish_or_wait(run, recovery)


def _sets_out(recovery: Recovery) -> bool:
    """Whether canaries come next of a recovery that nobody asked for: a flapping endpoint has its rest."""
    return recovery.kind is RecoveryKind.AUTOMATIC and not recovery.flowing


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
    if parcels:
        ids = [parcel.key.event_id for parcel in parcels]
        run.ports.recoveries.note_sent(recovery.key, recovery.id, ids, now=run.now)
    refused = run.ports.lanes.send(parcels, delays=offsets)
    _mark(run, parcels, found.items, refused)
    if refused:
        return run.stay(REFUSED_CHECK)
    ends_in = offsets[-1] + AT_ONCE if offsets else timedelta(0)
    sent = recovery.sent + len(parcels)
    ahead = recovery.found if recovery.flowing or not parcels else sent + count_ahead(run, found)
    moved = replace(
        recovery,
        found=max(ahead, sent),
        sent=sent,
        expired=recovery.expired + run.expired,
        next_slice_at=run.now + ends_in if parcels else None,
        canaries=() if recovery.flowing else tuple(parcel.key.event_id for parcel in parcels),
        replay_cursor=found.replay_cursor,
        sent_until=run.now + ends_in if parcels else recovery.sent_until,
        tally=None,
    )
    wait = max(ends_in, AT_ONCE)
    kept = run.keep(
        moved,
        RecoveryStatus.RUNNING,
        windows=found.windows,
        rounds=run.lock.rounds.set_out(run.now) if parcels and _sets_out(recovery) else None,
        wait=wait,
        flowing=True,
    )
    return Sliced(wait if kept else AT_ONCE, sent=len(parcels), recovery=kept or recovery)


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
    """Done when every window is read to its end, no owed item is left, and all that was sent has ended."""
    recovery = replace(recovery, expired=recovery.expired + run.expired)
    ends = [window.end for window in run.lock.windows]
    if recovery.replay is not None and recovery.replay.reads_archive:
        ends.append(recovery.replay.until)
    if ends and max(ends) + run.margins.outage > run.now:
        return run.stay(max(ends) + run.margins.outage - run.now, recovery)
    left = next(own_items(run), None)
    if left is not None:
        return run.stay(IN_FLIGHT_CHECK if on_its_way(run, left) else AT_ONCE, recovery)
    tally, complete = count_on(run)
    if not complete:
        return run.stay(AT_ONCE, replace(recovery, tally=tally))
    if is_patient(run, tally):
        return run.stay(LOOK_AGAIN, replace(recovery, tally=None))
    if tally.under_way and repeats(recovery):
        again = replace(recovery, replay_cursor=None, passes=recovery.passes + 1, tally=None)
        return run.stay(AT_ONCE, again)
    return _finish(run, recovery, tally)


def _finish(run: Run, recovery: Recovery, tally: Tally) -> Sliced:
    """The end: the last numbers and the release of the lock, if no window has joined since it was read."""
    sent = tally.succeeded + tally.failed + tally.under_way + tally.discarded
    expired = recovery.expired + tally.expired
    done = replace(
        recovery,
        ended_at=run.now,
        found=sent + expired,
        sent=sent,
        succeeded=tally.succeeded,
        failed=tally.failed,
        expired=expired,
        tally=tally,
    )
    notice = None
    if done.kind is RecoveryKind.REENABLE:
        notice = run.notice(NoticeKind.RECOVERED, dedupe=done.id, recovery=done)
    kept = run.keep(done, RecoveryStatus.COMPLETED, windows=(), notice=notice)
    return Sliced(None if kept else AT_ONCE, recovery=kept or recovery)

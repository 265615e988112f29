"""What an outage owes and at what pace it is given back: windows, the recovery's lock and record, AIMD."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from enum import StrEnum
from itertools import pairwise

from hookkeeper.domain.replay import Replay
from hookkeeper.domain.tenancy import SubscriptionKey

RETENTION = timedelta(days=7)
WARNED_AHEAD = timedelta(hours=24)

LEASE = timedelta(minutes=30)
"""How long a recovery may be silent before the sweep restarts it: twice the longest wait of a slice."""

WINDOWS_AT_MOST = 20
"""How many a lock carries: they are read with every delivery. Two that are near become one beyond that."""

INDEX_LIFE = timedelta(days=100)
"""How long the archive's index outlives its events, so that what a suspension cost can be counted: a
subscription that is suspended for 90 days is put away, and may still be re-enabled in the days after."""

SEND_GRACE = timedelta(seconds=30)
"""How late a backfill message may be attempted; later it goes back to owed."""


def warned_ahead(retention: timedelta) -> timedelta:
    """How long before they expire owed events are told of: a day, or half of a shorter retention."""
    return min(WARNED_AHEAD, retention / 2)


class RecoveryKind(StrEnum):
    REENABLE = "reenable"
    AUTOMATIC = "automatic"
    REPLAY = "replay"


class RecoveryStatus(StrEnum):
    PROBING = "probing"
    RUNNING = "running"
    WAITING = "waiting"
    PAUSED = "paused"
    COMPLETED = "completed"
    CANCELLED = "cancelled"
    PROBE_FAILED = "probe_failed"
    STOPPED = "stopped"


HOLDING = frozenset(
    {RecoveryStatus.PROBING, RecoveryStatus.RUNNING, RecoveryStatus.WAITING, RecoveryStatus.PAUSED}
)
"""A recovery in one of these holds the subscription's lock."""


LAST_ID = "\uffff"
"""Sorts after every event id."""


@dataclass(frozen=True, slots=True, order=True)
class Cursor:
    """A place in the archive's order: by `archived_at`, then by event id."""

    archived_at: datetime
    event_id: str


@dataclass(frozen=True, slots=True)
class Listed:
    """What the archive's index tells of an event, as long as it stands; its bytes may be gone by then."""

    place: Cursor
    event_type: str
    resource_id: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Window:
    """An interval of `archived_at` whose matching events are owed: [start, end + margin].

    Everything up to and including `cursor` (an archived_at and the ids at that very moment) was sent. What
    had left retention when it was read is counted from the newest down: `lapsed` is how far.
    """

    start: datetime
    end: datetime
    cursor: Cursor | None = None
    lapsed: Cursor | None = None


FIRST_REST = timedelta(minutes=5)
LONGEST_REST = timedelta(hours=1)
CALM_AFTER = 2 * LONGEST_REST
DAY = timedelta(days=1)
MOST_A_DAY = 24
"""Of automatic recoveries, in whichever 24 hours."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Rounds:
    """How often automatic recoveries set out with canaries: every 5 min, doubling to 1 h while it flaps.

    `at` are the moments of the last day, oldest first, at most MOST_A_DAY; `rest` is how long the next one
    waits after the last. CALM_AFTER without one, the endpoint no longer flaps, unless the day's most held
    it back.
    """

    at: tuple[datetime, ...] = ()
    rest: timedelta = FIRST_REST

    def next_at(self, now: datetime) -> datetime:
        """The earliest moment for the next one."""
        rested = [self.at[-1] + self.rest] if self.at else []
        return max([now, *rested, *self._day_over()])

    def set_out(self, now: datetime) -> "Rounds":
        """One sets out now."""
        held_back = any(now < over + LONGEST_REST for over in self._day_over())
        calm = not self.at or (now - self.at[-1] >= CALM_AFTER and not held_back)
        within = tuple(at for at in self.at if at > now - DAY)
        return Rounds(
            at=(*within, now)[-MOST_A_DAY:],
            rest=FIRST_REST if calm else min(2 * self.rest, LONGEST_REST),
        )

    def called_off(self) -> "Rounds":
        """The last one never came to an attempt: nothing was learnt of the endpoint, and none is counted."""
        return Rounds(at=self.at[:-1], rest=max(self.rest / 2, FIRST_REST))

    def _day_over(self) -> tuple[datetime, ...]:
        """When the first of a full day's is a day ago."""
        return (self.at[-MOST_A_DAY] + DAY,) if len(self.at) >= MOST_A_DAY else ()


@dataclass(frozen=True, slots=True, kw_only=True)
class RecoveryLock:
    """The subscription's recovery, on its health: who holds the lock, and which windows are unread.

    `version` rises with every change and guards the next. `execution` took the present generation: should
    it ask again, its first answer was lost. Windows stay here when a recovery ends early: the next recovery
    of any kind takes them. Some things outlive recoveries: `rounds`, how often automatic ones may set
    out; `unasked`, whether a probe of the ladder made the last activation; `goes_round`, whether every event
    failed since; `told_at`, when the owner was last told of a suspension.
    """

    version: int = 0
    id: str | None = None
    generation: int = 0
    execution: str | None = None
    status: RecoveryStatus | None = None
    kind: RecoveryKind | None = None
    windows: tuple[Window, ...] = ()
    lease_until: datetime | None = None
    rounds: Rounds = field(default_factory=Rounds)
    goes_round: bool = False
    unasked: bool = False
    told_at: datetime | None = None

    @property
    def held(self) -> bool:
        return self.status in HOLDING

    def is_present(self, recovery_id: str, generation: int) -> bool:
        """Whether a message of this recovery and generation may still be attempted."""
        return self.id == recovery_id and self.generation == generation

    @property
    def cancelled(self) -> bool:
        return self.status in (RecoveryStatus.CANCELLED, RecoveryStatus.STOPPED)


@dataclass(frozen=True, slots=True)
class Ended:
    """A recovery that lost the lock: what its record says from then on."""

    id: str
    status: RecoveryStatus
    at: datetime


def ended_by(before: RecoveryLock, after: RecoveryLock, *, now: datetime) -> Ended | None:
    """The recovery that a change of the lock ends: suspended, revoked, or taken over by another."""
    if not before.held or before.id is None:
        return None
    if after.id != before.id:
        return Ended(before.id, RecoveryStatus.STOPPED, now)
    return None if after.held else Ended(before.id, after.status or RecoveryStatus.STOPPED, now)


@dataclass(frozen=True, slots=True, kw_only=True)
class Tally:
    """The last count of what a recovery sent, from the ledger: up to and including the event `after`."""

    after: str = ""
    succeeded: int = 0
    failed: int = 0
    expired: int = 0
    discarded: int = 0
    under_way: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Recovery:
    """One run that delivers what is owed; its record for API, console and command line.

    `rate_per_second` is the present pace; `lower_bound` the retention's edge, fixed when it is first taken
    up. Counts are of deliveries; `troubled` counts failures that ask for a slower pace, `troubled_seen` how
    many of them the pace has answered. `canaries` are the events sent ahead, until they have ended;
    `flowing` says that they were well. The next slice is sent no sooner than `next_slice_at`. `replay` is
    the plan of one asked for by hand, read up to `replay_cursor`, for the `passes`-th time. Once all is sent
    by `sent_until`, `tally` goes through the ledger.
    """

    key: SubscriptionKey
    id: str
    kind: RecoveryKind
    status: RecoveryStatus
    started_at: datetime
    generation: int = 1
    ended_at: datetime | None = None
    lower_bound: datetime | None = None
    found: int = 0
    sent: int = 0
    succeeded: int = 0
    failed: int = 0
    expired: int = 0
    rate_per_second: float = 0.0
    troubled: int = 0
    troubled_seen: int = 0
    canaries: tuple[str, ...] = ()
    canaries_failed: int = 0
    flowing: bool = False
    next_slice_at: datetime | None = None
    backfill: bool = True
    actor: str = ""
    probe_status_code: int | None = None
    probe_error: str | None = None
    max_rate: float | None = None
    replay: Replay | None = None
    replay_cursor: Cursor | None = None
    passes: int = 1
    sent_until: datetime | None = None
    tally: Tally | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Pace:
    """How a backfill feels its way: canaries, then 5 a second, doubling while clean, halving on trouble."""

    canaries: int = 3
    start_per_second: float = 5.0
    most_per_second: float = 100.0
    slice_seconds: int = 60
    longest_slice_seconds: int = 900
    slow_below_per_second: float = 20.0

    def slice_span(self, rate: float) -> int:
        """Seconds one slice covers: 60, growing up to 15 min below 20 a second (few executions' steps)."""
        if rate >= self.slow_below_per_second:
            return self.slice_seconds
        stretched = self.slice_seconds * self.slow_below_per_second / max(rate, 0.1)
        return int(min(stretched, self.longest_slice_seconds))

    def first_rate(self) -> float:
        return self.start_per_second

    def next_rate(self, rate: float, *, clean: bool, ceiling: float | None = None) -> float:
        """Doubled after a clean slice, halved after one with 429, 5xx or time-outs, never under 1/s."""
        most = min(self.most_per_second, ceiling) if ceiling else self.most_per_second
        return min(rate * 2, most) if clean else max(rate / 2, min(1.0, most))


def with_window(windows: Sequence[Window], window: Window) -> tuple[Window, ...]:
    """The windows with one more, by start. Those that overlap are one, and there are never too many.

    One that is wider than its parts is harmless: what the ledger knows is not sent again.
    """
    found: list[Window] = []
    for each in sorted((*windows, window), key=lambda w: (w.start, w.end)):
        if found and each.start <= found[-1].end:
            found[-1] = _merged(found[-1], each)
        else:
            found.append(each)
    while len(found) > WINDOWS_AT_MOST:
        gaps = [later.start - earlier.end for earlier, later in pairwise(found)]
        nearest = gaps.index(min(gaps))
        found[nearest : nearest + 2] = [_merged(found[nearest], found[nearest + 1])]
    return tuple(found)


def _merged(earlier: Window, later: Window) -> Window:
    """Both as one, to be read from where the earlier was left, and the later one from its own beginning."""
    cursor = earlier.cursor
    if cursor is not None and cursor.archived_at >= later.start:
        cursor = Cursor(later.start, "")
    return Window(start=earlier.start, end=max(earlier.end, later.end), cursor=cursor, lapsed=earlier.lapsed)


def automatic(key: SubscriptionKey, lock: RecoveryLock, *, now: datetime) -> Recovery | None:
    """The record of the recovery that a fresh lock begins by itself; None where the lock names none."""
    if lock.id is None:
        return None
    return Recovery(
        key=key,
        id=lock.id,
        kind=RecoveryKind.AUTOMATIC,
        status=RecoveryStatus.WAITING,
        generation=lock.generation,
        started_at=now,
        actor="system",
    )


def joined(
    lock: RecoveryLock,
    *,
    window: Window | None,
    recovery_id: str,
    kind: RecoveryKind,
    now: datetime,
) -> RecoveryLock:
    """The lock after an outage ended: its window joins the recovery that holds it, or begins a new one.

    Whatever windows an ended recovery left are taken along.
    """
    windows = with_window(lock.windows, window) if window else lock.windows
    if lock.held:
        return replace(lock, version=lock.version + 1, windows=windows)
    return RecoveryLock(
        version=lock.version + 1,
        id=recovery_id,
        generation=lock.generation + 1,
        status=RecoveryStatus.WAITING,
        kind=kind,
        windows=windows,
        lease_until=now,
        rounds=lock.rounds,
        goes_round=lock.goes_round,
        unasked=lock.unasked,
        told_at=lock.told_at,
    )

"""One event owed to one subscription: its ledger record, its attempts, and what holds it while it is owed."""

import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum

from hookkeeper.domain.event import ArchivePointer
from hookkeeper.domain.outcome import Outcome
from hookkeeper.domain.tenancy import DeliveryKey

MAX_KEPT_ATTEMPTS = 10
LEDGER_LIFE = timedelta(days=16)
SHARDS = 8
"""Partitions of one subscription's ledger and owed items: 8,000 writes a second, over the 3,000 asked for."""

MAX_QUEUE_DELAY = timedelta(minutes=15)
"""SQS's longest DelaySeconds."""

JITTER = 0.2


class Lane(StrEnum):
    LIVE = "live"
    BACKFILL = "backfill"
    REPLAY = "replay"
    PROBE = "probe"
    TEST = "test"


class DeliveryStatus(StrEnum):
    SUCCEEDED = "succeeded"
    RETRYING = "retrying"
    EXHAUSTED = "exhausted"
    HELD = "held"
    DISCARDED = "discarded"
    EXPIRED = "expired"


FINAL = frozenset({DeliveryStatus.SUCCEEDED, DeliveryStatus.DISCARDED, DeliveryStatus.EXPIRED})
"""Nothing is owed any more; an owed item found beside one of these is a leftover and is deleted."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Attempt:
    """One HTTP request for a delivery, numbered from 1 over all its sequences."""

    n: int
    at: datetime
    lane: Lane
    status_code: int | None
    latency_ms: int
    error: str | None = None
    excerpt: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Delivery:
    """The ledger record of a delivery that was attempted or held.

    `sequence` counts from 1; `settled` says whether that sequence is over; `sequence_attempts` is how
    many attempts it has had, `sequence_began_at` the moment of its first. `attempts` keeps the last ten;
    `attempt_count` counts all and guards every write. `outcome` is the last attempt's. `own_recoveries`
    counts the sequences that recoveries began after an earlier one had come to nothing. `counted_epoch` is
    health's epoch when it last took a failure of this delivery into account.
    """

    key: DeliveryKey
    event_type: str
    archived_at: datetime
    pointer: ArchivePointer
    status: DeliveryStatus
    lane: Lane
    resource_id: str | None = None
    sequence: int = 1
    settled: bool = False
    sequence_attempts: int = 0
    sequence_began_at: datetime | None = None
    attempts: tuple[Attempt, ...] = ()
    attempt_count: int = 0
    next_attempt_at: datetime | None = None
    outcome: Outcome | None = None
    recovery_id: str | None = None
    replays: tuple[str, ...] = ()
    own_recoveries: int = 0
    counted_epoch: int | None = None

    @property
    def final(self) -> bool:
        return self.status in FINAL


@dataclass(frozen=True, slots=True, kw_only=True)
class Owed:
    """An owed item: what holds a delivery that waits, and when something must move it.

    `due_at` is when the sweep takes it: the next attempt, an automatic recovery, or its expiry.
    `expires_at` is `archived_at` + retention. `taken_by` names the recovery (`id:generation`) that has
    sent it and waits for its attempt; `tried_by` the recovery that attempted it in vain.
    `automatic_left` says whether its one automatic recovery is still to come.
    """

    key: DeliveryKey
    event_type: str
    archived_at: datetime
    pointer: ArchivePointer
    status: DeliveryStatus
    due_at: datetime
    expires_at: datetime
    resource_id: str | None = None
    outcome: Outcome | None = None
    attempt_count: int = 0
    taken_by: str | None = None
    tried_by: str | None = None
    automatic_left: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class Parcel:
    """A delivery as a queue carries it; the truth about it is read when it arrives.

    `attempt` is the number its attempt would have. `body` is None where the bytes stay in the archive.
    `recovery_id`, `generation` and `at` (the moment it is meant for) are a recovery's; `replay_id` is a
    person's; `not_before_at` is the moment it was put back for.
    """

    key: DeliveryKey
    event_type: str
    archived_at: datetime
    pointer: ArchivePointer
    attempt: int = 1
    lane: Lane = Lane.LIVE
    resource_id: str | None = None
    body: bytes | None = None
    recovery_id: str | None = None
    generation: int | None = None
    at: datetime | None = None
    replay_id: str | None = None
    not_before_at: datetime | None = None


def shard_of(event_id: str) -> int:
    """Which of a subscription's SHARDS holds the event's delivery."""
    return zlib.crc32(event_id.encode()) % SHARDS


def with_attempt(attempts: Sequence[Attempt], attempt: Attempt) -> tuple[Attempt, ...]:
    """The attempts kept: the last MAX_KEPT_ATTEMPTS."""
    return (*attempts, attempt)[-MAX_KEPT_ATTEMPTS:]


@dataclass(frozen=True, slots=True, kw_only=True)
class RetryRules:
    """The waits between a retryable sequence's attempts (SPEC §8): live, and in a recovery or replay."""

    live: tuple[timedelta, ...] = tuple(timedelta(seconds=s) for s in (5, 60, 300, 1800, 7200))
    short: tuple[timedelta, ...] = tuple(timedelta(seconds=s) for s in (5, 60))
    automatic_recovery_after: timedelta = timedelta(hours=1)

    def gaps(self, lane: Lane) -> tuple[timedelta, ...]:
        return self.live if lane is Lane.LIVE else self.short

    def span(self, lane: Lane) -> timedelta:
        """How long a sequence may take: its deadline for Retry-After (live: 2 h 36 min 5 s)."""
        return sum(self.gaps(lane), timedelta())

    def gap_after(self, lane: Lane, *, sequence_attempts: int, spread: float) -> timedelta | None:
        """The wait after the sequence's n-th failed attempt, or None when it was the last.

        `spread` in [-1, 1] moves the gap by up to ± 20 %.
        """
        gaps = self.gaps(lane)
        if sequence_attempts > len(gaps):
            return None
        return gaps[sequence_attempts - 1] * (1 + JITTER * spread)

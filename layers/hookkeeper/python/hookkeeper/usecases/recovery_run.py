"""One step of a recovery in hand: the truth as it was read, and how the lock and its record are kept."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from hookkeeper.domain.config import Margins, RuntimeConfig
from hookkeeper.domain.health import Health
from hookkeeper.domain.notice import Notice, NoticeKind
from hookkeeper.domain.recovery import (
    LEASE,
    Recovery,
    RecoveryLock,
    RecoveryStatus,
    Rounds,
    Window,
)
from hookkeeper.domain.subscription import FilterChange
from hookkeeper.ports import (
    Archive,
    EventItems,
    HealthStore,
    Lanes,
    Ledger,
    Recoveries,
    Standing,
    Subscriptions,
)

AT_ONCE = timedelta(seconds=1)
"""Look again: someone changed the lock, or there is more to do."""

LONGEST_WAIT = timedelta(minutes=15)


@dataclass(frozen=True, slots=True, kw_only=True)
class BackfillPorts:
    """All that a recovery's backfill needs from outside."""

    subscriptions: Subscriptions
    health: HealthStore
    recoveries: Recoveries
    ledger: Ledger
    events: EventItems
    archive: Archive
    lanes: Lanes


@dataclass(frozen=True, slots=True)
class Sliced:
    """After how long to come back; None when this execution has nothing more to do."""

    wait: timedelta | None
    sent: int = 0
    recovery: Recovery | None = None


@dataclass(slots=True, eq=False)
class Run:
    """One step's reading of the truth; `expired` counts what it found to have left retention."""

    standing: Standing
    recovery: Recovery
    filters: Sequence[FilterChange]
    now: datetime
    config: RuntimeConfig
    margins: Margins
    ports: BackfillPorts
    by_sweep: bool = False
    expired: int = 0

    @property
    def health(self) -> Health:
        return self.standing.health

    @property
    def lock(self) -> RecoveryLock:
        return self.standing.health.recovery

    @property
    def mark(self) -> str:
        """What an owed item bears that this generation has sent."""
        return f"{self.recovery.id}:{self.recovery.generation}"

    @property
    def lower_bound(self) -> datetime:
        return self.recovery.lower_bound or self.now - self.config.retention

    def keep(
        self,
        recovery: Recovery,
        status: RecoveryStatus | None = None,
        *,
        windows: tuple[Window, ...] | None = None,
        rounds: Rounds | None = None,
        wait: timedelta = timedelta(0),
        flowing: bool = False,
        notice: Notice | None = None,
    ) -> Recovery | None:
        """Write the record, and the lock with its lease renewed, in a new status or as it was.

        A paused recovery has no lease: nobody but a person takes it up again. One that the sweep takes step
        by step has it for the `wait` until the next.

        None where someone else has changed the lock since it was read, or, `flowing`, where the subscription
        is not active with its circuit closed.
        """
        kept = recovery if status is None else replace(recovery, status=status)
        lease_until = self.now + (wait if self.by_sweep else LEASE)
        over = kept.ended_at is not None or kept.status is RecoveryStatus.PAUSED
        lock = replace(
            self.lock,
            version=self.lock.version + 1,
            status=self.lock.status if status is None else status,
            windows=self.lock.windows if windows is None else windows,
            rounds=rounds or self.lock.rounds,
            lease_until=None if over else lease_until,
        )
        won = self.ports.health.write_lock(self.health, lock, kept, flowing=flowing, notice=notice)
        return kept if won else None

    def stay(
        self, wait: timedelta, recovery: Recovery | None = None, *, rounds: Rounds | None = None
    ) -> Sliced:
        """Come back later; at once where someone else has changed the lock."""
        wait = min(wait, LONGEST_WAIT)
        kept = self.keep(recovery or self.recovery, rounds=rounds, wait=wait)
        if kept is None:
            return Sliced(AT_ONCE, recovery=self.recovery)
        return Sliced(wait, recovery=kept)

    def notice(
        self, kind: NoticeKind, *, dedupe: str, recovery: Recovery, facts: Mapping[str, str] | None = None
    ) -> Notice:
        """What the owner is told of the recovery's numbers, and of these facts."""
        profile = self.ports.subscriptions.profile(recovery.key)
        return Notice(
            key=recovery.key,
            kind=kind,
            dedupe=dedupe,
            at=self.now,
            owner_email=profile.owner_email if profile else "",
            endpoint_url=self.standing.subscription.endpoint_url,
            facts={
                "sent": str(recovery.sent),
                "succeeded": str(recovery.succeeded),
                "failed": str(recovery.failed),
                "expired": str(recovery.expired),
                **(facts or {}),
            },
        )

"""What a person asks to be sent again: a window of the archive, the types in it, and how much of that."""

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

from hookkeeper.domain.delivery import DeliveryStatus, Owed
from hookkeeper.domain.event import WILDCARD, matches


class Only(StrEnum):
    """How much of the window."""

    OWED = "owed"
    """What neither succeeded, was discarded nor expired."""
    FAILED = "failed"
    """What was attempted in vain."""
    ALL = "all"
    """That, and once more what succeeded."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Replay:
    """The plan of a replay: `archived_at` in [start, until], within retention when it was asked for."""

    start: datetime
    until: datetime
    only: Only = Only.OWED
    event_types: tuple[str, ...] = (WILDCARD,)

    @property
    def again(self) -> bool:
        """Whether what succeeded is sent once more."""
        return self.only is Only.ALL

    @property
    def reads_archive(self) -> bool:
        """Whether what the ledger has no owed item of can be part of it."""
        return self.only is not Only.FAILED

    def covers(self, *, archived_at: datetime, event_type: str) -> bool:
        """Whether an event is within the window and of its types."""
        return self.start <= archived_at <= self.until and matches(self.event_types, event_type)

    def takes(self, item: Owed) -> bool:
        """Whether the plan sends an owed item; one that retries by itself is left to do so."""
        if not self.covers(archived_at=item.archived_at, event_type=item.event_type):
            return False
        if self.only is Only.FAILED:
            return item.status is DeliveryStatus.EXHAUSTED
        return item.status in (DeliveryStatus.EXHAUSTED, DeliveryStatus.HELD)


@dataclass(frozen=True, slots=True, kw_only=True)
class Counted:
    """What a replay would send; `complete` is False where there was more than could be looked at."""

    plan: Replay
    found: int
    complete: bool

"""What the sweep needs from outside, and the moment it works at."""

from dataclasses import dataclass
from datetime import datetime

from hookkeeper.domain.config import Margins, RuntimeConfig
from hookkeeper.ports import (
    Access,
    Archive,
    EventItems,
    Fuse,
    HealthStore,
    Ids,
    Lanes,
    Ledger,
    NoticeQueue,
    Notices,
    Recoveries,
    Subscriptions,
    Workflow,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class SweepPorts:
    """All that the sweep needs from outside."""

    subscriptions: Subscriptions
    access: Access
    health: HealthStore
    fuse: Fuse
    recoveries: Recoveries
    ledger: Ledger
    events: EventItems
    archive: Archive
    lanes: Lanes
    notices: Notices
    notice_queue: NoticeQueue
    workflow: Workflow
    ids: Ids


@dataclass(frozen=True, slots=True)
class Round:
    """One run of the sweep."""

    now: datetime
    config: RuntimeConfig
    margins: Margins
    ports: SweepPorts

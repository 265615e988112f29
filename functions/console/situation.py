"""How one subscription stands: what its page's first part shows, and what is read again while that moves."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import islice

from hookkeeper.api import RecoveryOut
from hookkeeper.domain.config import RuntimeConfig
from hookkeeper.domain.errors import NotFoundError
from hookkeeper.domain.recovery import HOLDING, Recovery, RecoveryStatus
from hookkeeper.domain.subscription import Status, Subscription, wants
from hookkeeper.domain.tenancy import SubscriptionKey
from hookkeeper.ports import Standing
from hookkeeper.usecases.deliveries import still_owed
from visit import Visit
from words import GateTold, gates

MOST_COUNTED = 1000
"""How far what waits is counted for one page."""

PATIENCE = timedelta(minutes=2)
"""How long a page waits for a re-enablement that was asked for to show itself."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AskedFor:
    """A re-enablement that was asked for just now, and the newest recovery that there was before it."""

    at: datetime
    before: str

    @property
    def query(self) -> str:
        return f"asked={int(self.at.timestamp())}&before={self.before}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Waiting:
    """How many events wait for the endpoint; `more` where they were not counted to the end."""

    count: int
    more: bool
    until: datetime | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Situation:
    """All that the page's first part tells; `asked` is of a re-enablement asked for from this page."""

    standing: Standing
    gates: Sequence[GateTold]
    waiting: Waiting
    recovery: Recovery | None
    eta: datetime | None
    asked: AskedFor | None
    probes: bool
    now: datetime

    @property
    def subscription(self) -> Subscription:
        return self.standing.subscription

    @property
    def fresh_recovery(self) -> bool:
        """Whether the newest recovery is what this page is about: it runs, was asked for, or ended lately."""
        if self.recovery is None:
            return False
        if self.recovery.status in HOLDING or (self.asked and self.recovery.id != self.asked.before):
            return True
        since = self.asked.at + timedelta(seconds=1) if self.asked else self.now - timedelta(hours=1)
        return (self.recovery.ended_at or self.recovery.started_at) >= since

    @property
    def starting(self) -> bool:
        """Asked for, and nothing to be seen of it yet."""
        if self.asked is None or self.fresh_recovery or self.now > self.asked.at + PATIENCE:
            return False
        return self.subscription.status is Status.SUSPENDED

    @property
    def live(self) -> bool:
        """Whether it is worth looking again in a moment."""
        moves = (RecoveryStatus.PROBING, RecoveryStatus.RUNNING, RecoveryStatus.WAITING)
        return self.starting or (self.recovery is not None and self.recovery.status in moves)


def situation_of(visit: Visit, key: SubscriptionKey, *, asked: AskedFor | None) -> Situation:
    """Raises NotFoundError."""
    reach = visit.reach
    standing = reach.subscriptions.standing(key)
    if standing is None:
        raise NotFoundError("subscription", key.subscription_id)
    config = reach.configs.current()
    recovery = next(iter(reach.recoveries.of(key, limit=1)), None)
    return Situation(
        standing=standing,
        gates=gates(standing, config, visit.now),
        waiting=_waiting(visit, standing, config),
        recovery=recovery,
        eta=RecoveryOut.of(recovery, now=visit.now).eta if recovery else None,
        asked=asked,
        probes=config.policy_of(standing.subscription).probe_on_reenable and not standing.subscription.proven,
        now=visit.now,
    )


def _waiting(visit: Visit, standing: Standing, config: RuntimeConfig) -> Waiting:
    """What is owed: the owed items, and what was archived and matches since the suspension.

    In an outage nothing is written for an event.
    """
    subscription, outage_from = standing.subscription, standing.health.outage_from
    if subscription.first_active_at is None:  # consent was withdrawn: nothing is owed
        return Waiting(count=0, more=False, until=None)
    since = subscription.disabled_at if subscription.status is Status.SUSPENDED else None
    owed = [
        each
        for each in still_owed(subscription, limit=MOST_COUNTED + 1, ledger=visit.reach.ledger)
        if since is None or each.archived_at <= since
    ]
    count = len(owed)
    if since is not None and count <= MOST_COUNTED:
        begins = max(since, visit.now - config.retention)
        recent = visit.reach.archive.recent(subscription.scope, since=begins)
        fitting = (
            each
            for each in recent
            if wants(subscription, event_type=each.event_type, resource_id=each.resource_id)
        )
        count += sum(1 for _ in islice(fitting, MOST_COUNTED + 1))
    return Waiting(
        count=min(count, MOST_COUNTED),
        more=count > MOST_COUNTED,
        until=outage_from + config.retention if outage_from is not None else None,
    )

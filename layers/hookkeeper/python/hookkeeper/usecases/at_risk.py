"""Who is at risk: the active subscriptions that one more failure would suspend."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from hookkeeper.domain.config import RuntimeConfig
from hookkeeper.domain.health import Verdict, after_another_failure
from hookkeeper.domain.subscription import Status
from hookkeeper.domain.tenancy import Scope
from hookkeeper.ports import Standing, Subscriptions

READ_AT_ONCE = 100


@dataclass(frozen=True, slots=True)
class AtRisk:
    """A standing, and the verdict that its next failure would bring."""

    standing: Standing
    verdict: Verdict


@dataclass(frozen=True, slots=True)
class RiskPage:
    """Some of a tenant's; `next_after` is the id to go on from, `examined` how many were looked at."""

    found: Sequence[AtRisk]
    next_after: str | None
    examined: int


def at_risk(
    scope: Scope,
    *,
    limit: int,
    most: int,
    after: str | None = None,
    now: datetime,
    config: RuntimeConfig,
    subscriptions: Subscriptions,
) -> RiskPage:
    """Up to `limit` of the tenant's subscriptions at risk, over at most about `most` of all it has."""
    found: list[AtRisk] = []
    examined = 0
    while examined < most:
        page = subscriptions.page(scope, limit=READ_AT_ONCE, after=after)
        for standing in page.standings:
            examined += 1
            after = standing.subscription.id
            verdict = _verdict(standing, config, now)
            if verdict.suspend:
                found.append(AtRisk(standing, verdict))
            if len(found) == limit:
                return RiskPage(found, after, examined)
        after = page.next_after
        if after is None:
            break
    return RiskPage(found, after, examined)


def _verdict(standing: Standing, config: RuntimeConfig, now: datetime) -> Verdict:
    subscription = standing.subscription
    if subscription.status is not Status.ACTIVE:
        return Verdict(suspend=False, gate=None, gates=())
    policy = config.policy_of(subscription)
    return after_another_failure(
        standing.health, policy, now, maintenance_until=subscription.maintenance_until
    )

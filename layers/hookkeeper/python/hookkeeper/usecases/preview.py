"""Whom a runtime configuration would suspend, if it were put in force: health as it stands, its policies.

It is judged as the next sweep would judge it, by the last attempt and never by the wall clock.
"""

from collections.abc import Iterator
from dataclasses import dataclass

from hookkeeper.domain.config import RuntimeConfig
from hookkeeper.domain.health import AutoSuspend, Gate, Verdict, should_suspend
from hookkeeper.domain.subscription import Status
from hookkeeper.domain.tenancy import Mode, Scope
from hookkeeper.ports import Access, Standing, Subscriptions

PAGE = 100


@dataclass(frozen=True, slots=True)
class WouldSuspend:
    """A standing, the policy it would be held to, and the gate that it has crossed there.

    `already` says that the present configuration crosses it too, so that the wanted one changes nothing.
    """

    standing: Standing
    policy: str
    gate: Gate
    already: bool


def preview(
    wanted: RuntimeConfig,
    *,
    present: RuntimeConfig,
    access: Access,
    subscriptions: Subscriptions,
) -> Iterator[WouldSuspend]:
    """Every active subscription, of all tenants and both modes, that `wanted` would suspend as it stands."""
    for scope in _scopes(access):
        for standing in _active(scope, subscriptions):
            verdict = _judged(standing, wanted)
            if verdict.suspend and verdict.gate is not None:
                policy = wanted.policy_of(standing.subscription).name
                already = _judged(standing, present).suspend
                yield WouldSuspend(standing, policy, verdict.gate, already)


def _judged(standing: Standing, config: RuntimeConfig) -> Verdict:
    policy, health = config.policy_of(standing.subscription), standing.health
    if policy.auto_suspend is not AutoSuspend.ENFORCE or health.last_attempt_at is None:
        return Verdict(suspend=False, gate=None, gates=())
    maintenance_until = standing.subscription.maintenance_until
    return should_suspend(health, policy, health.last_attempt_at, maintenance_until=maintenance_until)


def _active(scope: Scope, subscriptions: Subscriptions) -> Iterator[Standing]:
    after: str | None = None
    while True:
        page = subscriptions.page(scope, limit=PAGE, after=after)
        yield from (each for each in page.standings if each.subscription.status is Status.ACTIVE)
        after = page.next_after
        if after is None:
            return


def _scopes(access: Access) -> Iterator[Scope]:
    after: str | None = None
    while tenants := access.tenants(limit=PAGE, after=after):
        for tenant in tenants:
            yield from (Scope(tenant.id, mode) for mode in Mode)
        after = tenants[-1].id

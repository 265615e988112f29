"""Count the hosts with active subscriptions, for the fuse's share: rarely, and never too many.

It is only asked while verdicts wait, and only where the last count is a day old: an installation that is
well pays nothing for it. It ends at the number beyond which the bucket grows no more.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta

from hookkeeper.domain.fuse import MOST_HOSTS, FuseRules, counted
from hookkeeper.domain.subscription import Subscription
from hookkeeper.domain.tenancy import Mode, Scope
from hookkeeper.ports import Access, Fuse, Subscriptions
from hookkeeper.usecases.fuse import host_of

RECOUNTED_AFTER = timedelta(days=1)
PAGE = 100
MOST_PAGES = 300
"""What one run reads at most, about a quarter of the sweep's time; a count that ends there is too low."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CountPorts:
    access: Access
    subscriptions: Subscriptions
    fuse: Fuse


def count_hosts(*, now: datetime, rules: FuseRules, ports: CountPorts) -> int | None:
    """How many distinct hosts have an active subscription; None where the last count still serves."""
    state = ports.fuse.read()
    if state.counted_at is not None and now < state.counted_at + RECOUNTED_AFTER:
        return None
    enough = MOST_HOSTS / rules.share_of_hosts
    hosts: set[str] = set()
    for subscription in _subscriptions(ports):
        if subscription.enabled:
            hosts.add(host_of(subscription.endpoint_url))
        if len(hosts) >= enough:
            break
    ports.fuse.write(state, counted(state, hosts=len(hosts), now=now))
    return len(hosts)


def _subscriptions(ports: CountPorts) -> Iterator[Subscription]:
    """All tenants', both modes', up to MOST_PAGES reads."""
    pages = MOST_PAGES
    for scope in _scopes(ports.access):
        after: str | None = None
        while pages > 0:
            pages -= 1
            page = ports.subscriptions.page(scope, limit=PAGE, after=after)
            yield from (standing.subscription for standing in page.standings)
            after = page.next_after
            if after is None:
                break


def _scopes(access: Access) -> Iterator[Scope]:
    after: str | None = None
    while tenants := access.tenants(limit=PAGE, after=after):
        for tenant in tenants:
            yield from (Scope(tenant.id, mode) for mode in Mode)
        after = tenants[-1].id

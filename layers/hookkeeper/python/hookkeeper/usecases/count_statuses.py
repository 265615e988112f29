"""Count subscriptions by status over all tenants and modes, once a day: it reads every one of them."""

from collections import Counter

from hookkeeper.domain.subscription import Status
from hookkeeper.domain.tenancy import Mode, Scope
from hookkeeper.ports import Access, Subscriptions

PAGE = 100
MOST_PAGES = 300
"""What one run reads at most, as for the fuse's count of hosts; a count that ends there is too low."""


def count_statuses(*, access: Access, subscriptions: Subscriptions) -> Counter[Status]:
    """Every status with its number, 0 where there is none."""
    counted = Counter(dict.fromkeys(Status, 0))
    pages, after_tenant = MOST_PAGES, None
    while tenants := access.tenants(limit=PAGE, after=after_tenant):
        for scope in (Scope(tenant.id, mode) for tenant in tenants for mode in Mode):
            after: str | None = None
            while pages > 0:
                pages -= 1
                page = subscriptions.page(scope, limit=PAGE, after=after)
                counted.update(each.subscription.status for each in page.standings)
                after = page.next_after
                if after is None:
                    break
        after_tenant = tenants[-1].id
    return counted

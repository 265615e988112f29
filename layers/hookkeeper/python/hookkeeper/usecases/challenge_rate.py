"""How often endpoints may be challenged: nobody turns the sender on a third party by subscribing to it."""

from dataclasses import dataclass
from datetime import datetime, timedelta

from hookkeeper.domain.errors import LimitedError
from hookkeeper.domain.tenancy import Scope
from hookkeeper.ports import Rates

MOST_A_TENANT = 1000
MOST_A_HOST = 200
"""Challenges an hour, the host's over all tenants: one in 18 s, which no server calls a flood."""

HOUR = timedelta(hours=1)


@dataclass(frozen=True, slots=True, kw_only=True)
class HostRules:
    """Which hosts a stage refuses as its own, and which it allows by name."""

    own_hosts: frozenset[str] = frozenset()
    allowed_hosts: frozenset[str] = frozenset()


def spend_challenge(scope: Scope, host: str, *, now: datetime, rules: HostRules, rates: Rates) -> None:
    """Count one challenge. Raises LimitedError where the tenant's or the host's hour is full.

    A host that the stage allows by name is its own, and no third party.
    """
    tenant = f"challenges of {scope.tenant_id}#{scope.mode}"
    if not rates.take(tenant, most=MOST_A_TENANT, now=now):
        raise _limited("this tenant", now)
    if host not in rules.allowed_hosts and not rates.take(f"challenges to {host}", most=MOST_A_HOST, now=now):
        raise _limited("this host", now)


def _limited(whose: str, now: datetime) -> LimitedError:
    began = now.replace(minute=0, second=0, microsecond=0)
    return LimitedError(f"too many challenges for {whose} this hour", again_at=began + HOUR)

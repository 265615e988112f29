"""How often endpoints may be challenged: nobody turns the sender on a third party by subscribing to it."""

from dataclasses import dataclass
from datetime import datetime, timedelta

from hookkeeper.domain.errors import LimitedError
from hookkeeper.domain.tenancy import Scope
from hookkeeper.ports import Rates

MOST_A_TENANT = 1000
MOST_A_HOST = 200
"""Challenges an hour, the host's over all tenants: one in 18 s, which no server calls a flood."""

MOST_A_TENANT_AND_HOST = 50
"""Of the host's, what one tenant may use up: alone it cannot shut a host for the others."""

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
    limits = [(tenant, MOST_A_TENANT, "this tenant")]
    if host not in rules.allowed_hosts:
        limits.append((f"{tenant} to {host}", MOST_A_TENANT_AND_HOST, "this tenant and host"))
        limits.append((f"challenges to {host}", MOST_A_HOST, "this host"))
    for name, most, whose in limits:
        if not rates.take(name, most=most, now=now):
            raise _limited(whose, now)


def _limited(whose: str, now: datetime) -> LimitedError:
    began = now.replace(minute=0, second=0, microsecond=0)
    return LimitedError(f"too many challenges for {whose} this hour", again_at=began + HOUR)

"""The facts that a notice tells, as text and as they stand at its moment (F13)."""

from collections.abc import Sequence
from datetime import datetime, timedelta

from hookkeeper.domain.delivery import Owed
from hookkeeper.domain.health import Health
from hookkeeper.domain.subscription import Profile
from hookkeeper.domain.tenancy import SubscriptionKey
from hookkeeper.ports import Ledger

COUNTED_AT_MOST = 1_000
"""How far owed items are counted for a notice: it says "at least n"."""


def health_facts(health: Health) -> dict[str, str]:
    """How the endpoint has failed: how often in a row, since when, and how the last time."""
    facts = {
        "failures": str(health.consecutive_failures) if health.consecutive_failures else "",
        "failing_since": text_of(health.first_failure_at) if health.first_failure_at else "",
        "last_status": str(health.last_status_code) if health.last_status_code else "",
        "last_error": health.last_error or "",
        "last_attempt_at": text_of(health.last_attempt_at) if health.last_attempt_at else "",
    }
    return {name: value for name, value in facts.items() if value}


def waiting_facts(
    key: SubscriptionKey,
    *,
    outage_from: datetime | None,
    now: datetime,
    retention: timedelta,
    ledger: Ledger,
) -> dict[str, str]:
    """How much waits, at least, and until when all of it can be recovered: the oldest goes first."""
    owed = owed_now(key, now=now, ledger=ledger)
    begins = [moment for moment in (outage_from, *(item.archived_at for item in owed[:1])) if moment]
    facts = {"waiting": str(len(owed))}
    if begins:
        facts["recoverable_until"] = text_of(max(min(begins), now - retention) + retention)
    return facts


def owed_now(key: SubscriptionKey, *, now: datetime, ledger: Ledger) -> Sequence[Owed]:
    """Owed items that have not expired, oldest first, as far as they are counted."""
    return [item for item in ledger.owed(key, limit=COUNTED_AT_MOST) if item.expires_at > now]


def owner_of(profile: Profile | None) -> str:
    """Who is told; nobody where there is no profile, which the notice then says."""
    return profile.owner_email if profile else ""


def text_of(moment: datetime) -> str:
    """RFC 3339, UTC, whole seconds."""
    return moment.strftime("%Y-%m-%dT%H:%M:%SZ")

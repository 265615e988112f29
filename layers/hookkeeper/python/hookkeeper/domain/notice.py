"""Something an endpoint's owner must be told, with the facts as they were when it happened."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum

from hookkeeper.domain.tenancy import SubscriptionKey


class NoticeKind(StrEnum):
    AT_RISK = "at_risk"
    SUSPENDED = "suspended"
    PROBE_FAILED = "probe_failed"
    RECOVERED = "recovered"
    RECOVERY_PAUSED = "recovery_paused"
    EXPIRING = "expiring"
    URL_STAGED = "url_staged"
    URL_CHANGED = "url_changed"
    SECRET_ROTATED = "secret_rotated"
    CONSENT_WITHDRAWN = "consent_withdrawn"


class NoticeStatus(StrEnum):
    PENDING = "pending"
    SENT = "sent"
    SUPPRESSED = "suppressed"
    FAILED = "failed"


@dataclass(frozen=True, slots=True, kw_only=True)
class Notice:
    """One notice. `dedupe` (epoch, streak, recovery or day) makes it once: kind and dedupe are its key.

    `facts` are snapshots as text: failures, since, last_status, last_error, waiting, recoverable_until …
    `claimed_until` is the sender's lease; `attempts` counts sends that SES refused for now.
    """

    key: SubscriptionKey
    kind: NoticeKind
    dedupe: str
    at: datetime
    owner_email: str
    endpoint_url: str
    facts: Mapping[str, str] = field(default_factory=dict)
    status: NoticeStatus = NoticeStatus.PENDING
    claimed_by: str | None = None
    claimed_until: datetime | None = None
    sent_at: datetime | None = None
    attempts: int = 0
    message_id: str | None = None

    @property
    def id(self) -> str:
        """`<subscription id>.<kind>.<dedupe>`, unique within its scope."""
        return f"{self.key.subscription_id}.{self.kind}.{self.dedupe}"

"""Something an endpoint's owner must be told, with the facts as they were when it happened."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from enum import StrEnum

from hookkeeper.domain.tenancy import Scope, SubscriptionKey


class NoticeKind(StrEnum):
    AT_RISK = "at_risk"
    SUSPENDED = "suspended"
    PROBE_FAILED = "probe_failed"
    PROBE_PASSED = "probe_passed"
    RECOVERED = "recovered"
    RECOVERY_PAUSED = "recovery_paused"
    EXPIRING = "expiring"
    URL_STAGED = "url_staged"
    URL_CHANGED = "url_changed"
    SECRET_ROTATED = "secret_rotated"
    CONSENT_WITHDRAWN = "consent_withdrawn"


class NoticeStatus(StrEnum):
    PENDING = "pending"
    CAPPED = "capped"
    """Its address has had the day's mails; it is told on the next day."""
    SENT = "sent"
    BOUNCED = "bounced"
    """The provider took its mail, but the address's own server did not."""
    COMPLAINED = "complained"
    """Its mail was called unwanted by whoever got it."""
    SUPPRESSED = "suppressed"
    """Not mailed: the address is known to be bad."""
    FAILED = "failed"
    """Not mailed: no usable address, or refusals for a week."""
    STALE = "stale"
    """Not mailed: nobody looked at it for two days after it was due, so it is of another time (F55)."""


OPEN = frozenset({NoticeStatus.PENDING, NoticeStatus.CAPPED})
"""A notice in one of these still wants a mail."""

UNHEARD = frozenset(NoticeStatus) - OPEN - {NoticeStatus.SENT}
"""Closed, and its owner has not been reached: operators are told, and an alarm counts them."""

WITHHELD = frozenset({NoticeStatus.SUPPRESSED, NoticeStatus.FAILED, NoticeStatus.STALE})
"""Closed without any mail: an operator can release it."""

STUCK_AFTER = timedelta(minutes=2)
"""How old a notice grows before the sweep brings it again."""

STALE_AFTER = timedelta(hours=48)
"""How long a notice may have been due with nobody looking at it. A living stage looks every minute, a refused
mail is tried every hour however long the provider's quota is out, so only a restored table gets there.
Nobody is suspended in silence by it: operators are told of each, and `expiring` is put anew every day."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Notice:
    """One notice. `dedupe` (epoch, streak, recovery or day) makes it once: kind and dedupe are its key.

    `facts` are snapshots as text: failures, since, last_status, last_error, waiting, recoverable_until …
    `claimed_until` is the sender's lease, or how long the notice is put off; `attempts` counts sends that SES
    refused for now. `operators_told` says that the bus has it, `mail_fault` why its owner was not reached.
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
    operators_told: bool = False
    mail_fault: str | None = None

    @property
    def open(self) -> bool:
        """Whether it still wants a mail."""
        return self.status in OPEN

    @property
    def due_at(self) -> datetime:
        """From when on an open notice is stuck: two minutes old, and its lease over."""
        return max(self.at + STUCK_AFTER, self.claimed_until or self.at)

    def stale(self, now: datetime) -> bool:
        """Whether it is of another time: a backup's, or from before a long standstill (F55)."""
        return now - self.due_at > STALE_AFTER

    @property
    def id(self) -> str:
        """`<subscription id>.<kind>.<dedupe>`, unique within its scope."""
        return f"{self.key.subscription_id}.{self.kind}.{self.dedupe}"


def reopened(notice: Notice, *, now: datetime) -> Notice:
    """The notice as one that is due now, whatever kept it from its owner before."""
    return replace(
        notice,
        status=NoticeStatus.PENDING,
        claimed_by=None,
        claimed_until=now,
        attempts=0,
        mail_fault=None,
    )


def key_of(scope: Scope, notice_id: str) -> SubscriptionKey:
    """The subscription that a notice's id names."""
    return SubscriptionKey(scope, notice_id.partition(".")[0])

"""Tell an endpoint's owner, once, and the operator's bus: claim the notice, mail it, mark it.

A notice stays pending until the provider has taken its mail; a second mail goes out only where a process
dies between that moment and the mark. What stays pending the sweep brings again.
"""

from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from enum import StrEnum

from hookkeeper.domain.notice import Notice, NoticeStatus
from hookkeeper.domain.tenancy import SubscriptionKey
from hookkeeper.ports import Ids, MailDeferredError, Mailer, MailRefusedError, Notices, OperatorBus
from hookkeeper.usecases.mail_text import addressable, render

LEASE = timedelta(minutes=2)
"""Twice notify's time-out: no living claimer is overtaken."""

FIRST_DELAY = timedelta(minutes=1)
LONGEST_DELAY = timedelta(hours=1)
GIVE_UP_AFTER = timedelta(days=7)
"""As long as what a notice tells of can be recovered; SES's daily quota comes back within one."""


class Told(StrEnum):
    """How a notice stands after this call."""

    SENT = "sent"
    SUPPRESSED = "suppressed"
    """The provider will never take a mail to this address; the notice says so to whoever looks."""
    FAILED = "failed"
    """No usable address, or a week of refusals."""
    DEFERRED = "deferred"
    HELD = "held"
    """Another call is sending it, or its next try is not due yet."""
    SETTLED = "settled"
    GONE = "gone"


@dataclass(frozen=True, slots=True)
class Notified:
    """How it stands, and the notice as it was marked; None where there is none."""

    told: Told
    notice: Notice | None = None


def notify(
    key: SubscriptionKey,
    notice_id: str,
    *,
    now: datetime,
    console_url: str,
    notices: Notices,
    mailer: Mailer,
    bus: OperatorBus,
    ids: Ids,
) -> Notified:
    """Send one notice, if it is pending and nobody else is sending it.

    The bus is told with the first try, whatever becomes of the mail: operators need not wait for a quota.
    """
    notice = notices.get(key, notice_id)
    if notice is None:
        return Notified(Told.GONE)
    if notice.status is not NoticeStatus.PENDING:
        return Notified(Told.SETTLED, notice)
    by = ids.new("claim")
    if not notices.claim(notice, by=by, now=now, lease=LEASE):
        return Notified(Told.HELD, notice)
    claimed = replace(notice, claimed_by=by, claimed_until=now + LEASE)
    tried = _mailed(claimed, now=now, console_url=console_url, notices=notices, mailer=mailer)
    if notice.attempts == 0:
        _publish(tried, bus)
    notices.mark(tried)
    pending = tried.status is NoticeStatus.PENDING
    return Notified(Told.DEFERRED if pending else Told(tried.status), tried)


def _mailed(claimed: Notice, *, now: datetime, console_url: str, notices: Notices, mailer: Mailer) -> Notice:
    """The notice as the mail left it. That the provider took it is written down before anything else."""
    if claimed.message_id is not None:
        return replace(claimed, status=NoticeStatus.SENT)
    if not addressable(claimed.owner_email):
        return replace(claimed, status=NoticeStatus.FAILED)
    try:
        message_id = mailer.send(render(claimed, console_url=console_url))
    except MailRefusedError:
        return replace(claimed, status=NoticeStatus.SUPPRESSED)
    except MailDeferredError:
        return _deferred(claimed, now)
    accepted = replace(claimed, message_id=message_id, sent_at=now)
    notices.mark(accepted)
    return replace(accepted, status=NoticeStatus.SENT)


def _deferred(claimed: Notice, now: datetime) -> Notice:
    """Pending for twice as long each time, up to an hour; given up after a week, for everyone to see."""
    attempts = claimed.attempts + 1
    if now - claimed.at >= GIVE_UP_AFTER:
        return replace(claimed, attempts=attempts, status=NoticeStatus.FAILED)
    delay = min(FIRST_DELAY * 2 ** min(claimed.attempts, 10), LONGEST_DELAY)
    return replace(claimed, attempts=attempts, claimed_until=now + delay)


def _publish(notice: Notice, bus: OperatorBus) -> None:
    """The same facts for operators; the URL without its query, which may hold a secret."""
    scope = notice.key.scope
    bus.publish(
        f"hookkeeper.subscription.{notice.kind}",
        {
            **notice.facts,
            "tenant": scope.tenant_id,
            "mode": str(scope.mode),
            "subscription_id": notice.key.subscription_id,
            "endpoint_url": notice.endpoint_url.partition("?")[0],
            "notice_id": notice.id,
            "at": notice.at.isoformat(),
            "mail": "deferred" if notice.status is NoticeStatus.PENDING else str(notice.status),
        },
    )

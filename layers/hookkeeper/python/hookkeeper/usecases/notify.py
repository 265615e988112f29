"""Tell an endpoint's owner, once, and the operator's bus: claim notices, mail them, mark them.

Notices that come together for one address share a mail, and so do those of the five minutes after it (see
domain/mailbox.py). A notice stays open until the provider has taken its mail, which one transaction writes
down for all that it tells; a second mail goes out only where a process dies between those two moments. What
stays open the sweep brings again.
"""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from enum import StrEnum

from hookkeeper.domain.mailbox import Mailbox, MailRules, Opening, next_day
from hookkeeper.domain.notice import UNHEARD, Notice, NoticeStatus
from hookkeeper.domain.tenancy import Scope
from hookkeeper.ports import (
    Ids,
    Mailboxes,
    MailDeferredError,
    Mailer,
    MailRefusedError,
    Notices,
    OperatorBus,
)
from hookkeeper.usecases.mail_text import addressable, render

LEASE = timedelta(minutes=2)
"""Twice notify's time-out: no living claimer is overtaken."""

MAX_IN_ONE_MAIL = 75
"""At 1.3 KB each Gmail shows them all (it cuts a mail off at 102 KB), and one transaction marks them all
(DynamoDB's has 100 writes at most)."""

FIRST_DELAY = timedelta(minutes=1)
LONGEST_DELAY = timedelta(hours=1)
GIVE_UP_AFTER = timedelta(days=7)
"""As long as what a notice tells of can be recovered; SES's daily quota comes back within one."""


class Told(StrEnum):
    """How a notice stands after this call."""

    SENT = "sent"
    GATHERED = "gathered"
    """It shares the next mail to its address, within five minutes."""
    CAPPED = "capped"
    DEFERRED = "deferred"
    SUPPRESSED = "suppressed"
    FAILED = "failed"
    STALE = "stale"
    HELD = "held"
    """Another call is sending it, or its next try is not due yet."""
    SETTLED = "settled"


@dataclass(frozen=True, slots=True)
class Notified:
    """How it stands, and the notice as it was marked."""

    told: Told
    notice: Notice


@dataclass(frozen=True, slots=True, kw_only=True)
class NotifyPorts:
    """All that telling needs from outside."""

    notices: Notices
    mailboxes: Mailboxes
    mailer: Mailer
    bus: OperatorBus
    ids: Ids


@dataclass(frozen=True, slots=True)
class _Run:
    """One call: who claims, when, and by what rules."""

    by: str
    now: datetime
    rules: MailRules
    console_url: str
    ports: NotifyPorts


def by_address(notices: Sequence[Notice]) -> list[list[Notice]]:
    """The notices that may share a mail, together."""
    together = defaultdict[tuple[Scope, str], list[Notice]](list)
    for notice in notices:
        together[notice.key.scope, notice.owner_email.lower()].append(notice)
    return list(together.values())


def notify(
    notices: Sequence[Notice], *, now: datetime, rules: MailRules, console_url: str, ports: NotifyPorts
) -> list[Notified]:
    """Tell these notices, all of one address, as they have just been read; those that nobody else is telling.

    The bus is told with the first try, whatever becomes of the mail: operators need not wait for a quota.
    """
    run = _Run(ports.ids.new("claim"), now, rules, console_url, ports)
    told: list[Notified] = []
    to_mail: list[Notice] = []
    done: list[Notice] = []
    for notice in notices:
        if not notice.open:
            told.append(Notified(Told.SETTLED, notice))
        elif not ports.notices.claim(notice, by=run.by, now=now, lease=LEASE):
            told.append(Notified(Told.HELD, notice))
        else:
            claimed = replace(notice, claimed_by=run.by, claimed_until=now + LEASE)
            closed = _closed(notice, claimed, now)
            (done if closed else to_mail).append(closed or claimed)
    done += _mailed(run, to_mail) if to_mail else []
    return told + [Notified(_word(notice), _kept(run, notice)) for notice in done]


def _closed(before: Notice, claimed: Notice, now: datetime) -> Notice | None:
    """The notice, where it needs no mail (any more); None where it does."""
    if before.message_id is not None:
        return replace(claimed, status=NoticeStatus.SENT)
    if before.stale(now):
        return replace(claimed, status=NoticeStatus.STALE, mail_fault="it is of another time")
    if not addressable(before.owner_email):
        return replace(claimed, status=NoticeStatus.FAILED, mail_fault="no usable address")
    return None


def _mailed(run: _Run, notices: Sequence[Notice]) -> list[Notice]:
    """The notices as their mails left them: sent, or why not yet."""
    kinds = [notice.kind for notice in notices]
    mailbox = run.ports.mailboxes.get(notices[0].key.scope, notices[0].owner_email)
    opening, until = mailbox.opening(kinds, now=run.now, rules=run.rules)
    if opening is Opening.OPEN:
        if run.ports.mailboxes.hold(mailbox, by=run.by, now=run.now, lease=LEASE):
            return _sent(run, replace(mailbox, held_by=run.by, held_until=run.now + LEASE), notices)
        opening, until = Opening.GATHERING, run.now + LEASE
    if opening is Opening.BAD:
        fault = f"the address is bad: {mailbox.bad}"
        return [replace(notice, status=NoticeStatus.SUPPRESSED, mail_fault=fault) for notice in notices]
    status = NoticeStatus.CAPPED if opening is Opening.CAPPED else NoticeStatus.PENDING
    return [replace(notice, status=status, claimed_until=until) for notice in notices]


def _sent(run: _Run, held: Mailbox, notices: Sequence[Notice]) -> list[Notice]:
    """Mail them, as many together as fit, until the day's mails are used up."""
    told: list[Notice] = []
    for start in range(0, len(notices), MAX_IN_ONE_MAIL):
        part = notices[start : start + MAX_IN_ONE_MAIL]
        if held.mails_on(run.now) >= run.rules.mails_a_day:
            until = next_day(run.now)
            told += [replace(each, status=NoticeStatus.CAPPED, claimed_until=until) for each in part]
            continue
        counted = held.mailed([notice.kind for notice in part], now=run.now, rules=run.rules)
        last = counted.mails_on(run.now) >= run.rules.mails_a_day
        try:
            mail = render(part, console_url=run.console_url, last_of=run.rules.mails_a_day if last else None)
            message_id = run.ports.mailer.send(mail)
        except MailRefusedError as refusal:
            told += [replace(each, status=NoticeStatus.SUPPRESSED, mail_fault=str(refusal)) for each in part]
            continue
        except MailDeferredError:
            told += [_deferred(notice, run.now) for notice in notices[start:]]
            break
        accepted = [replace(notice, message_id=message_id, sent_at=run.now) for notice in part]
        run.ports.mailboxes.count(counted, accepted, message_id=message_id)
        told += [replace(notice, status=NoticeStatus.SENT) for notice in accepted]
        held = counted
    run.ports.mailboxes.release(held)
    return told


def _deferred(claimed: Notice, now: datetime) -> Notice:
    """Pending for twice as long each time, up to an hour; given up after a week, for everyone to see."""
    attempts = claimed.attempts + 1
    if now - claimed.at >= GIVE_UP_AFTER:
        fault = "refused for a week"
        return replace(claimed, attempts=attempts, status=NoticeStatus.FAILED, mail_fault=fault)
    delay = min(FIRST_DELAY * 2 ** min(claimed.attempts, 10), LONGEST_DELAY)
    return replace(claimed, attempts=attempts, status=NoticeStatus.PENDING, claimed_until=now + delay)


def _word(notice: Notice) -> Told:
    if notice.status is not NoticeStatus.PENDING:
        return Told(notice.status)
    return Told.DEFERRED if notice.attempts else Told.GATHERED


def _kept(run: _Run, notice: Notice) -> Notice:
    """The notice with operators told of it, and written down."""
    if notice.status is NoticeStatus.STALE or (notice.operators_told and notice.status in UNHEARD):
        publish_unheard(notice, run.ports.bus)
    elif not notice.operators_told:
        _publish(notice, run.ports.bus)
    kept = replace(notice, operators_told=True)
    run.ports.notices.mark(kept)
    return kept


def publish_unheard(notice: Notice, bus: OperatorBus) -> None:
    """Tell operators of a notice that has not reached its owner, and why."""
    detail = _identity(notice) | {"kind": str(notice.kind), "reason": notice.mail_fault or ""}
    bus.publish(f"hookkeeper.notice.{notice.status}", detail)


def _publish(notice: Notice, bus: OperatorBus) -> None:
    """The same facts for operators."""
    facts = {
        name: _unasked(value) if name.endswith("endpoint") else value for name, value in notice.facts.items()
    }
    detail = {**facts, **_identity(notice), "mail": str(_word(notice))}
    bus.publish(f"hookkeeper.subscription.{notice.kind}", detail)


def _identity(notice: Notice) -> dict[str, str]:
    """Whose notice it is."""
    scope = notice.key.scope
    return {
        "tenant": scope.tenant_id,
        "mode": str(scope.mode),
        "subscription_id": notice.key.subscription_id,
        "endpoint_url": _unasked(notice.endpoint_url),
        "notice_id": notice.id,
        "at": notice.at.isoformat(),
    }


def _unasked(url: str) -> str:
    """The URL without its query, which may hold a secret."""
    return url.partition("?")[0]

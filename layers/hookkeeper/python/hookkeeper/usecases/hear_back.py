"""A mail came back, or was called unwanted: the notices say so, the address is bad, operators are told."""

from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from enum import StrEnum

from hookkeeper.domain.mailbox import AddressFault, Feedback
from hookkeeper.domain.notice import Notice, NoticeStatus, key_of
from hookkeeper.ports import Mailboxes, Notices, OperatorBus
from hookkeeper.usecases.notify import publish_unheard

KNOWN_WITHIN = timedelta(minutes=15)
"""A bounce may be faster than the write that says what its mail told of; later nobody writes that."""

_STATUS = {
    AddressFault.BOUNCED: NoticeStatus.BOUNCED,
    AddressFault.COMPLAINED: NoticeStatus.COMPLAINED,
}


class Heard(StrEnum):
    """What was made of it."""

    TOLD = "told"
    UNKNOWN_YET = "unknown_yet"
    """Its mail is not written down; ask again."""
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class HeardBack:
    """What was made of it, and the notices that say so from now on."""

    heard: Heard
    notices: tuple[Notice, ...] = ()


def hear_back(
    feedback: Feedback, *, now: datetime, notices: Notices, mailboxes: Mailboxes, bus: OperatorBus
) -> HeardBack:
    """Mark what the mail told of as unheard, and its address as bad where the fault is there to stay."""
    if feedback.lasting:
        mailboxes.spoil(feedback.scope, feedback.address, feedback.fault, now=now)
    notice_ids = mailboxes.carried(feedback.scope, feedback.message_id)
    if not notice_ids:
        early = now - feedback.mailed_at < KNOWN_WITHIN
        return HeardBack(Heard.UNKNOWN_YET if early else Heard.UNKNOWN)
    unheard = []
    for notice_id in notice_ids:
        stored = notices.get(key_of(feedback.scope, notice_id), notice_id)
        if stored is None or stored.status is _STATUS[feedback.fault]:
            continue
        marked = replace(stored, status=_STATUS[feedback.fault], mail_fault=feedback.reason)
        publish_unheard(marked, bus)
        if notices.mark_unheard(marked):
            unheard.append(marked)
    return HeardBack(Heard.TOLD, tuple(unheard))

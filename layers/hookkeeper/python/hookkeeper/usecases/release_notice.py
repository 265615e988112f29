"""Mail a notice after all that was withheld from its owner: an operator has looked at it (HAZARDS F55)."""

from datetime import datetime

from hookkeeper.domain.audit import Actor, AuditRecord
from hookkeeper.domain.errors import ConflictError, NotFoundError
from hookkeeper.domain.notice import WITHHELD
from hookkeeper.domain.tenancy import SubscriptionKey
from hookkeeper.ports import Audit, Ids, Notices


def release_notice(
    key: SubscriptionKey,
    notice_id: str,
    *,
    actor: Actor,
    now: datetime,
    notices: Notices,
    audit: Audit,
    ids: Ids,
) -> None:
    """Open it again, as due now: the sweep brings it to `notify`. The audit knows first.

    What keeps its address from mail (bad, a day's mails used up) still does. Raises NotFoundError, or
    ConflictError where it is open, or was mailed.
    """
    notice = notices.get(key, notice_id)
    if notice is None:
        raise NotFoundError("notice", notice_id)
    if notice.status not in WITHHELD:
        raise ConflictError(f"the notice is {notice.status}; only one that was never mailed can be released")
    audit.put(
        AuditRecord(
            scope=key.scope,
            id=ids.new("aud"),
            at=now,
            action="notice.released",
            actor=actor,
            subject=key.subscription_id,
            before={"status": str(notice.status)},
            detail=notice.id,
        )
    )
    if not notices.reopen(notice, now=now):
        raise ConflictError("somebody else has released the notice")

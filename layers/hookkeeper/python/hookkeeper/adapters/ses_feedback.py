"""Bounces and complaints as SES's configuration set puts them on EventBridge, told in our words."""

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from hookkeeper.domain.errors import InvalidInputError
from hookkeeper.domain.mailbox import AddressFault, Feedback
from hookkeeper.domain.outcome import clean_excerpt
from hookkeeper.domain.tenancy import Mode, Scope

SOURCE = "aws.ses"
_MAX_REASON_BYTES = 200


def feedback_of(event: Mapping[str, Any]) -> Feedback | None:
    """What the event says of one of our mails; None where it is another's, or neither bounce nor complaint.

    A bounce is lasting where SES calls it permanent; the address is the one that we wrote to, since a
    forwarded mail comes back from another.
    """
    detail = event["detail"]
    scope = _scope(detail["mail"].get("tags", {}))
    told = _fault(detail)
    if scope is None or told is None:
        return None
    fault, lasting, reason = told
    mail = detail["mail"]
    return Feedback(
        scope=scope,
        message_id=mail["messageId"],
        address=mail["destination"][0],
        fault=fault,
        lasting=lasting,
        reason=clean_excerpt(reason.encode("utf-8", "replace"), limit_bytes=_MAX_REASON_BYTES),
        mailed_at=datetime.fromisoformat(mail["timestamp"]),
    )


def _scope(tags: Mapping[str, Any]) -> Scope | None:
    """Whose mail it was, by the tags that it was sent with."""
    try:
        return Scope(tags["tenant"][0], Mode(tags["mode"][0]))
    except (KeyError, IndexError, ValueError, InvalidInputError):
        return None


def _fault(detail: Mapping[str, Any]) -> tuple[AddressFault, bool, str] | None:
    match detail["eventType"]:
        case "Bounce":
            bounce = detail["bounce"]
            kind = f"{bounce['bounceType']}/{bounce['bounceSubType']}"
            said = next((each.get("diagnosticCode") for each in bounce["bouncedRecipients"]), None)
            reason = f"{kind}: {said}" if said else kind
            return AddressFault.BOUNCED, bounce["bounceType"] == "Permanent", reason
        case "Complaint":
            complaint = detail["complaint"]
            kind = complaint.get("complaintSubType") or complaint.get("complaintFeedbackType") or "unknown"
            return AddressFault.COMPLAINED, True, f"complaint: {kind}"
        case "Reject":
            return AddressFault.BOUNCED, False, f"rejected: {detail['reject'].get('reason', 'unknown')}"
    return None

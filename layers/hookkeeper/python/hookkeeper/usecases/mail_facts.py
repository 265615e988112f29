"""A notice's facts as people read them: labels, moments, numbers, errors in words; each one clean line."""

import re
from collections.abc import Mapping
from datetime import UTC, datetime
from http import HTTPStatus

from hookkeeper.domain.endpoint import MAX_URL_CHARACTERS
from hookkeeper.domain.outcome import Fault, clean_excerpt

MAX_VALUE_CHARACTERS = 200
"""Of a fact, an error excerpt included (HAZARDS T57)."""

_TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d{1,6})?(?:Z|[+-]\d\d:\d\d)", re.ASCII)
_COUNT = re.compile(r"\d{1,12}", re.ASCII)

_URLS = frozenset({"new_endpoint", "former_endpoint"})

_LABELS: Mapping[str, str] = {
    "new_endpoint": "New endpoint",
    "former_endpoint": "Former endpoint",
    "failures": "Failures in a row",
    "failing_since": "Failing since",
    "last_attempt_at": "Last attempt",
    "last_status": "Last status",
    "last_error": "Last error",
    "probed_at": "Checked",
    "probe_status": "Answer to the check",
    "probe_error": "Error of the check",
    "limits": "Limits",
    "suspended_at": "Suspended",
    "succeeded": "Delivered",
    "sent": "Sent",
    "failed": "Failed again",
    "expired": "Too old to deliver",
    "waiting": "Events waiting",
    "recoverable_until": "Recoverable until",
    "first_expires_at": "The first expire",
    "old_until": "Old secret signs until",
}
"""The facts that we know, in the order in which they are read; any other follows under its own name."""

_ERRORS: Mapping[str, str] = {
    Fault.TIMEOUT: "no answer in time",
    Fault.CONNECT_TIMEOUT: "no connection in time",
    Fault.REFUSED: "the connection was refused",
    Fault.RESET: "the connection was reset",
    Fault.UNREACHABLE: "the host cannot be reached",
    Fault.CLOSED_EARLY: "the connection was closed before an answer came",
    Fault.DNS_TEMPORARY: "the host's name could not be looked up",
    Fault.DNS_NOT_FOUND: "the host's name does not exist",
    Fault.DNS_NO_DATA: "the host's name has no address",
    Fault.TLS_EXPIRED: "the TLS certificate has expired",
    Fault.TLS_HOSTNAME: "the TLS certificate is for another host",
    Fault.TLS_UNKNOWN_CA: "the TLS certificate is not from a known authority, or its chain is incomplete",
    Fault.TLS_OTHER: "no TLS connection could be made",
    Fault.BLOCKED_ADDRESS: "the host's address is not a public one",
    Fault.HEADERS_TOO_LARGE: "the answer's headers were too large",
    Fault.MALFORMED_RESPONSE: "the answer was not HTTP",
    Fault.ENDLESS_INFORMATIONAL: "no final answer came",
    Fault.INVALID_CONFIG: "the subscription's URL or headers cannot be sent",
}


def rows(facts: Mapping[str, str]) -> list[tuple[str, str]]:
    """Label and value of every fact that says something."""
    known = [(name, facts[name]) for name in _LABELS if facts.get(name)]
    others = [(name, value) for name, value in sorted(facts.items()) if name not in _LABELS and value]
    return [(_label(name), _fact(name, value)) for name, value in known + others if not _told(name, facts)]


def _told(name: str, facts: Mapping[str, str]) -> bool:
    """Whether another row says it already: `http_500` beside the status 500."""
    status = facts.get(name.replace("error", "status"), "")
    return name.endswith("_error") and facts[name] == f"http_{status}"


def _label(name: str) -> str:
    return _LABELS.get(name) or one_line(name, 40).replace("_", " ").capitalize()


def _fact(name: str, value: str) -> str:
    match name:
        case "last_status" | "probe_status":
            return _status(value)
        case "last_error" | "probe_error" if value in _ERRORS:
            return f"{_ERRORS[value]} ({value})"
        case _ if name in _URLS:
            return one_line(value, MAX_URL_CHARACTERS)
        case "waiting":
            return _waiting(value)
        case _:
            return readable(value)


def _status(value: str) -> str:
    try:
        status = HTTPStatus(int(value))
    except ValueError:
        return readable(value)
    return f"{status.value} {status.phrase}"


def _waiting(value: str) -> str:
    if value == "0":
        return "every event from now on is kept"
    return f"at least {readable(value)}" if _COUNT.fullmatch(value) else readable(value)


def readable(value: str) -> str:
    """A moment or a number as people read them; anything else as one clean line."""
    if _TIME.fullmatch(value):
        try:
            moment = datetime.fromisoformat(value).astimezone(UTC)
        except (ValueError, OverflowError):
            return one_line(value, MAX_VALUE_CHARACTERS)
        return f"{moment.day} {moment:%B %Y, %H:%M} UTC"
    if _COUNT.fullmatch(value):
        return f"{int(value):,}"
    return one_line(value, MAX_VALUE_CHARACTERS)


def one_line(text: str, most: int) -> str:
    """At most so many characters on one line, without controls and formatting marks."""
    line = clean_excerpt(text.encode("utf-8", "replace"), limit_bytes=4 * most)
    return line if len(line) <= most else line[: most - 1] + "…"

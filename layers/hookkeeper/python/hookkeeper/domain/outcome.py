"""What one attempt's end means: the answer that was seen, and how a policy preset reads it."""

import re
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from enum import StrEnum

FAILURE_EXCERPT_BYTES = 1024
SUCCESS_EXCERPT_BYTES = 256


class Outcome(StrEnum):
    """What a settled sequence says."""

    SUCCESS = "success"
    RETRYABLE = "retryable"
    PERMANENT = "permanent"
    FATAL = "fatal"


class Fault(StrEnum):
    """The kind of error an attempt ended with, told by exception type, errno and code, never by text."""

    TIMEOUT = "timeout"
    CONNECT_TIMEOUT = "connect_timeout"
    REFUSED = "refused"
    RESET = "reset"
    UNREACHABLE = "unreachable"
    CLOSED_EARLY = "closed_early"
    DNS_TEMPORARY = "dns_temporary"
    DNS_NOT_FOUND = "dns_not_found"
    DNS_NO_DATA = "dns_no_data"
    TLS_EXPIRED = "tls_expired"
    TLS_HOSTNAME = "tls_hostname"
    TLS_UNKNOWN_CA = "tls_unknown_ca"
    TLS_OTHER = "tls_other"
    BLOCKED_ADDRESS = "blocked_address"
    HEADERS_TOO_LARGE = "headers_too_large"
    MALFORMED_RESPONSE = "malformed_response"
    ENDLESS_INFORMATIONAL = "endless_informational"
    INVALID_CONFIG = "invalid_config"
    OTHER = "other"
    # Ours: never an outcome of an endpoint.
    NO_ROUTE = "no_route"
    RESOLVER_UNREACHABLE = "resolver_unreachable"
    OUT_OF_TIME = "out_of_time"
    NO_PLACE = "no_place"
    """Its endpoint was slow, and had as many requests in flight as one instance may keep."""
    SECRET_UNAVAILABLE = "secret_unavailable"


TLS_FAULTS = frozenset({Fault.TLS_EXPIRED, Fault.TLS_HOSTNAME, Fault.TLS_UNKNOWN_CA, Fault.TLS_OTHER})
DNS_ABSENT_FAULTS = frozenset({Fault.DNS_NOT_FOUND, Fault.DNS_NO_DATA})
OWN_FAULTS = frozenset(
    {
        Fault.NO_ROUTE,
        Fault.RESOLVER_UNREACHABLE,
        Fault.OUT_OF_TIME,
        Fault.NO_PLACE,
        Fault.SECRET_UNAVAILABLE,
    }
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """How one request ended: a status that arrived in time, or else a fault.

    `excerpt` is clean text for people; `body` holds the raw bytes read (at most 16 KiB, maybe cut), for
    whoever looks for an echo in them. `operator_note` may name addresses: for our logs, never for a tenant.
    """

    status_code: int | None = None
    fault: Fault | None = None
    latency_ms: int = 0
    excerpt: str = ""
    retry_after: str | None = None
    location_host: str | None = None
    body: bytes = field(default=b"", repr=False)
    operator_note: str = ""

    def __post_init__(self) -> None:
        if (self.status_code is None) == (self.fault is None):
            raise ValueError("an answer has a status code or a fault, and not both")

    @property
    def error(self) -> str | None:
        """The error's kind for ledger and health: a fault's name or `http_<status>`; None for a 2xx."""
        if self.fault is not None:
            return self.fault.value
        return None if _is_2xx(self.status_code) else f"http_{self.status_code}"


@dataclass(frozen=True, slots=True, kw_only=True)
class ClassificationRules:
    """What a preset takes for permanent and for fatal; whatever is neither, nor a 2xx, is retryable."""

    permanent_statuses: frozenset[int]
    permanent_faults: frozenset[Fault]
    fatal_faults: frozenset[Fault]


RETRYABLE_4XX = frozenset({408, 409, 425, 429})

GRADED = ClassificationRules(
    permanent_statuses=frozenset(range(300, 500)) - RETRYABLE_4XX,
    permanent_faults=TLS_FAULTS | {Fault.BLOCKED_ADDRESS, Fault.INVALID_CONFIG},
    fatal_faults=DNS_ABSENT_FAULTS,
)
"""The presets `graded` and `patient`."""

STRICT = ClassificationRules(
    permanent_statuses=frozenset({401, 403, 404, 410}),
    permanent_faults=TLS_FAULTS,
    fatal_faults=frozenset(),
)

CIRCUIT_4XX = frozenset({401, 403, 404, 410})
"""The only 4xx that say something of the endpoint rather than of one event."""


def is_our_fault(answer: Answer) -> bool:
    """Whether the attempt failed on our side, so that it is handed back and never counted."""
    return answer.fault in OWN_FAULTS


def classify(answer: Answer, *, preset_rules: ClassificationRules) -> Outcome:
    """The outcome an answer stands for; ValueError for a fault of our own, which has none."""
    if is_our_fault(answer):
        raise ValueError(f"{answer.fault} is our own fault, not an outcome of an endpoint")
    if _is_2xx(answer.status_code):
        return Outcome.SUCCESS
    if answer.fault in preset_rules.fatal_faults:
        return Outcome.FATAL
    if answer.fault in preset_rules.permanent_faults or answer.status_code in preset_rules.permanent_statuses:
        return Outcome.PERMANENT
    return Outcome.RETRYABLE


def feeds_circuit(answer: Answer, outcome: Outcome) -> bool:
    """Whether a failed attempt counts towards opening the endpoint's circuit."""
    if outcome is Outcome.SUCCESS or is_our_fault(answer):
        return False
    status = answer.status_code
    return status is None or not 400 <= status <= 499 or status in CIRCUIT_4XX


def _is_2xx(status: int | None) -> bool:
    return status is not None and 200 <= status <= 299


# --- Retry-After ---

_MONTHS = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")
_HTTP_DATE = re.compile(
    r"(?:Mon|Tue|Wed|Thu|Fri|Sat|Sun), ([0-9]{2}) (" + "|".join(_MONTHS) + r") ([0-9]{4})"
    r" ([0-9]{2}):([0-9]{2}):([0-9]{2}) GMT"
)
_MAX_DIGITS = 12
"""More seconds than 30,000 years; longer numbers need no arithmetic to be past any deadline."""


def retry_after_floor(value: str | None, *, now: datetime, deadline: datetime) -> timedelta | None:
    """The least wait that a Retry-After asks for, from zero to what is left until `deadline`.

    Takes ASCII digits or an IMF-fixdate (RFC 9110 §5.6.7); None means: ignore it.
    """
    text = (value or "").strip(" \t")
    left = max(deadline - now, timedelta())
    if text.isascii() and text.isdigit():
        return left if len(text) > _MAX_DIGITS else timedelta(seconds=min(int(text), left.total_seconds()))
    moment = _http_date(text)
    return None if moment is None else min(max(moment - now, timedelta()), left)


def _http_date(text: str) -> datetime | None:
    match = _HTTP_DATE.fullmatch(text)
    if match is None:
        return None
    day, month, year, hour, minute, second = match.groups()
    date = int(year), _MONTHS.index(month) + 1, int(day)
    try:
        return datetime(*date, int(hour), int(minute), int(second), tzinfo=UTC)
    except ValueError:
        return None


# --- excerpts ---

MASK = "***"
_SHORTEST_SECRET = 4
"""Below it, masking would only riddle the text: `1` is no secret."""

_NOT_PLAIN = re.compile(r"[^\x20-\x7e]")
_SPACES = frozenset("\t\n\r\v\f\x85\u2028\u2029")
_UNPRINTABLE = frozenset({"Cc", "Cf", "Co", "Cn"})
"""Controls, format characters (bidi, zero width, tags), private and unassigned code points."""


def clean_excerpt(raw: bytes, limit_bytes: int, secrets: Sequence[str] = ()) -> str:
    """At most `limit_bytes` of UTF-8 text on one line, without controls, bidi marks or the given secrets."""
    text = _NOT_PLAIN.sub(_printable, raw.decode("utf-8", "replace"))
    for secret in sorted(secrets, key=len, reverse=True):
        if len(secret) >= _SHORTEST_SECRET:
            text = text.replace(secret, MASK)
    return text.strip().encode()[:limit_bytes].decode("utf-8", "ignore")


def _printable(match: re.Match[str]) -> str:
    character = match[0]
    if character in _SPACES:
        return " "
    return "" if unicodedata.category(character) in _UNPRINTABLE else character

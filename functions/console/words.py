"""What people read: a status in one word with a shape and a tone, spans, moments, numbers, errors."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from urllib.parse import urlsplit

from hookkeeper.domain.config import RuntimeConfig
from hookkeeper.domain.delivery import DeliveryStatus, Lane
from hookkeeper.domain.health import Gate, Health, should_suspend
from hookkeeper.domain.notice import NoticeKind, NoticeStatus
from hookkeeper.domain.outcome import Outcome
from hookkeeper.domain.recovery import RecoveryKind, RecoveryStatus
from hookkeeper.domain.replay import Only
from hookkeeper.domain.subscription import DisabledReason, Status
from hookkeeper.ports import Standing
from hookkeeper.usecases.mail_facts import rows
from markupsafe import Markup, escape

_JOINTS = "/?&=-_."
_JOINT = re.compile(rf"([{re.escape(_JOINTS)}])")

MINUTE, HOUR, DAY = timedelta(minutes=1), timedelta(hours=1), timedelta(days=1)


@dataclass(frozen=True, slots=True)
class Badge:
    """A status as it is shown: never by colour alone. `shape` names a drawing, `tone` a colour."""

    word: str
    shape: str
    tone: str


_SUSPENDED = {
    DisabledReason.MANUAL: Badge("Paused", "bars", "calm"),
    DisabledReason.CONSENT_WITHDRAWN: Badge("Consent withdrawn", "square", "bad"),
}


def badge(standing: Standing) -> Badge:
    """How a subscription stands."""
    subscription, health = standing.subscription, standing.health
    match subscription.status:
        case Status.PENDING:
            return Badge("Not verified yet", "ring", "calm")
        case Status.REVOKED:
            return Badge("Revoked", "cross", "off")
        case Status.SUSPENDED:
            reason = subscription.disabled_reason
            return _SUSPENDED.get(
                reason or DisabledReason.REPEATED_FAILURE, Badge("Suspended", "square", "bad")
            )
    if health.recovery.held:
        return Badge("Catching up", "arrow", "busy")
    if health.circuit.is_open:
        return Badge("Not answering", "triangle", "warn")
    return Badge("Active", "disc", "good") if health.clean else Badge("Failing", "triangle", "warn")


_DELIVERIES = {
    DeliveryStatus.SUCCEEDED: Badge("Delivered", "disc", "good"),
    DeliveryStatus.RETRYING: Badge("Retrying", "arrow", "warn"),
    DeliveryStatus.EXHAUSTED: Badge("Failed", "square", "bad"),
    DeliveryStatus.HELD: Badge("Held", "bars", "calm"),
    DeliveryStatus.DISCARDED: Badge("Discarded", "cross", "off"),
    DeliveryStatus.EXPIRED: Badge("Expired", "cross", "off"),
}

_RECOVERIES = {
    RecoveryStatus.PROBING: Badge("Checking the endpoint", "arrow", "busy"),
    RecoveryStatus.RUNNING: Badge("Delivering", "arrow", "busy"),
    RecoveryStatus.WAITING: Badge("Waiting", "ring", "calm"),
    RecoveryStatus.PAUSED: Badge("Paused", "bars", "calm"),
    RecoveryStatus.COMPLETED: Badge("Done", "disc", "good"),
    RecoveryStatus.CANCELLED: Badge("Cancelled", "cross", "off"),
    RecoveryStatus.PROBE_FAILED: Badge("Check failed", "square", "bad"),
    RecoveryStatus.STOPPED: Badge("Stopped", "square", "warn"),
}

_KINDS = {
    RecoveryKind.REENABLE: "After a suspension",
    RecoveryKind.AUTOMATIC: "After an outage",
    RecoveryKind.REPLAY: "Replay by hand",
}

_ONLY = {
    Only.OWED: "What is owed",
    Only.FAILED: "What was tried in vain",
    Only.ALL: "All, also what was delivered",
}

_LANES = {Lane.LIVE: "live", Lane.BACKFILL: "recovery", Lane.REPLAY: "replay"}

_NOTICES = {
    NoticeStatus.PENDING: Badge("Being sent", "arrow", "calm"),
    NoticeStatus.CAPPED: Badge("Waits for the next day", "ring", "calm"),
    NoticeStatus.SENT: Badge("Sent", "disc", "good"),
    NoticeStatus.BOUNCED: Badge("Came back", "square", "bad"),
    NoticeStatus.COMPLAINED: Badge("Called unwanted", "square", "bad"),
    NoticeStatus.SUPPRESSED: Badge("Not sent", "bars", "warn"),
    NoticeStatus.FAILED: Badge("Could not be sent", "square", "bad"),
    NoticeStatus.STALE: Badge("Withheld", "bars", "warn"),
}

_CLASSES = {
    Outcome.RETRYABLE: "Errors that may pass",
    Outcome.PERMANENT: "Refusals and TLS errors",
    Outcome.FATAL: "Host not found",
    None: "All failures together",
}


@dataclass(frozen=True, slots=True)
class GateTold:
    """One limit of the policy and where the endpoint stands against it; both must be reached."""

    name: str
    gate: Gate
    arithmetic: str


def gates(standing: Standing, config: RuntimeConfig, now: datetime) -> list[GateTold]:
    """Every limit that the present streak is held against, as of its last attempt: silence is no failure."""
    health = standing.health
    verdict = should_suspend(health, config.policy_of(standing.subscription), health.last_attempt_at or now)
    return [GateTold(_CLASSES[gate.outcome], gate, arithmetic(gate)) for gate in verdict.gates]


def arithmetic(gate: Gate) -> str:
    """`suspends at 25: 14 · 12 h: 5 h`."""
    age = "at once" if not gate.age_limit else f"{span(gate.age_limit)}: {span(gate.age)}"
    return f"suspends at {gate.count_limit}: {gate.count} · {age}"


def span(value: timedelta | float) -> str:
    """The two largest units of a span, in seconds or as it is: `5 h 20 min`."""
    whole = value if isinstance(value, timedelta) else timedelta(seconds=value)
    seconds = max(int(whole.total_seconds()), 0)
    parts = [
        (seconds // 86_400, "d"),
        (seconds // 3600 % 24, "h"),
        (seconds // 60 % 60, "min"),
        (seconds % 60, "s"),
    ]
    first = next((place for place, (amount, _) in enumerate(parts) if amount), len(parts) - 1)
    return " ".join(f"{amount} {unit}" for amount, unit in parts[first : first + 2] if amount or first == 3)


def ago(moment: datetime, now: datetime) -> str:
    """How long before or after now, in its largest unit."""
    between = abs(now - moment)
    if between < MINUTE:
        return "just now" if moment <= now else "in less than a minute"
    rough = span(between).split()
    text = " ".join(rough[:2])
    return f"{text} ago" if moment <= now else f"in {text}"


def moment(value: datetime) -> Markup:
    """The moment to the minute, and to the second for whoever hovers or parses."""
    utc = value.astimezone(UTC)
    return Markup('<time datetime="{}" title="{}">{} {:%b %Y, %H:%M} UTC</time>').format(
        f"{utc:%Y-%m-%dT%H:%M:%SZ}", f"{utc:%H:%M:%S} UTC", utc.day, utc
    )


def clock(value: datetime) -> Markup:
    """The moment to the second, short: for lists of attempts."""
    utc = value.astimezone(UTC)
    return Markup('<time datetime="{}">{} {:%b, %H:%M:%S}</time>').format(
        f"{utc:%Y-%m-%dT%H:%M:%SZ}", utc.day, utc
    )


def hour(value: datetime) -> str:
    """The hour and minute, UTC: what stands below a chart."""
    return f"{value.astimezone(UTC):%H:%M}"


def number(value: float) -> str:
    return f"{value:,.0f}" if float(value).is_integer() else f"{value:,.1f}"


def error_words(error: str | None) -> str:
    """The kind of an error as people say it; empty for none."""
    if not error:
        return ""
    fact = (
        {"last_status": error.removeprefix("http_")} if error.startswith("http_") else {"last_error": error}
    )
    ((_, words),) = rows(fact)
    return words


def last_answer(health: Health) -> str:
    """What the endpoint answered last, or how that failed."""
    if health.last_status_code is not None:
        return error_words(f"http_{health.last_status_code}")
    return error_words(health.last_error)


def host(url: str) -> str:
    return urlsplit(url).hostname or ""


def after_host(url: str) -> str:
    """The URL's path and query."""
    parts = urlsplit(url)
    return f"{parts.path}?{parts.query}" if parts.query else parts.path


def breakable(text: str) -> Markup:
    """The text, which a narrow page may break after its slashes and signs."""
    return Markup("").join(
        escape(part) + (Markup("<wbr>") if part in _JOINTS else "") for part in _JOINT.split(text)
    )


def event_types(patterns: tuple[str, ...]) -> str:
    return "every event type" if "*" in patterns else ", ".join(patterns)


def action(name: str) -> str:
    """An audit record's action as a sentence's beginning: `subscription.paused` is `Subscription paused`."""
    return name.replace(".", " ").replace("_", " ").capitalize()


def notice_words(kind: NoticeKind) -> str:
    return str(kind).replace("_", " ").capitalize()


_FUSES = {
    "open": Badge("Suspensions pass", "disc", "good"),
    "full": Badge("Suspensions wait", "bars", "warn"),
    "latched": Badge("Latched: our own fault", "square", "bad"),
}

FILTERS: Mapping[str, object] = {
    "span": span,
    "ago": ago,
    "moment": moment,
    "clock": clock,
    "hour": hour,
    "number": number,
    "error_words": error_words,
    "last_answer": last_answer,
    "host": host,
    "after_host": after_host,
    "breakable": breakable,
    "event_types": event_types,
    "action": action,
    "notice_words": notice_words,
    "delivery_badge": lambda status: _DELIVERIES[status],
    "recovery_badge": lambda status: _RECOVERIES[status],
    "recovery_kind": lambda kind: _KINDS[kind],
    "only_words": lambda only: _ONLY[only],
    "notice_badge": lambda status: _NOTICES[status],
    "fuse_badge": lambda state: _FUSES[state],
    "lane": lambda lane: _LANES.get(lane, str(lane)),
}

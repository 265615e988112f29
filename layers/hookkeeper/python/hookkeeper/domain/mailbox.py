"""One address that notices go to: how often it is written to, and whether it may be written to at all.

The first notice is mailed at once: most are alone, and a suspension must not wait. It begins five minutes of
gathering, and whatever is told in them goes out together when they are over; so an outage that suspends
hundreds is few mails. A notice of a later stage of the story than the mail that began it is not held back:
who was told that an endpoint fails is told at once that it is suspended, and who re-enables it hears at once
how that went.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from enum import StrEnum

from hookkeeper.domain.notice import NoticeKind
from hookkeeper.domain.tenancy import Scope

BAD_FOR = timedelta(days=30)
"""After that a bad address is tried again; the provider's own suppression list still guards its name."""

_STAGES: Mapping[NoticeKind, int] = {
    NoticeKind.SUSPENDED: 2,
    NoticeKind.CONSENT_WITHDRAWN: 2,
    NoticeKind.PROBE_FAILED: 3,
    NoticeKind.PROBE_PASSED: 3,
    NoticeKind.RECOVERY_PAUSED: 4,
    NoticeKind.RECOVERED: 4,
}
"""Every other kind is of the first stage."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MailRules:
    """How long notices for one address are gathered, and how many mails it gets a day (UTC)."""

    gather: timedelta = timedelta(minutes=5)
    mails_a_day: int = 20


class AddressFault(StrEnum):
    """What stands against an address."""

    BOUNCED = "bounced"
    COMPLAINED = "complained"


@dataclass(frozen=True, slots=True, kw_only=True)
class Feedback:
    """What became of a mail after the provider took it; `lasting` where the next one would fare the same."""

    scope: Scope
    message_id: str
    address: str
    fault: AddressFault
    lasting: bool
    reason: str
    mailed_at: datetime


class Opening(StrEnum):
    """Whether a mail may go out now."""

    OPEN = "open"
    GATHERING = "gathering"
    """Another mail is going out, or went out less than five minutes ago."""
    CAPPED = "capped"
    BAD = "bad"


@dataclass(frozen=True, slots=True, kw_only=True)
class Mailbox:
    """One address in one scope. `held_by` is writing to it, until `held_until` at the latest.

    `gathers_until` is when the gathering of the last mail's `stage` is over; `mails` counts those of `day`.
    """

    scope: Scope
    address: str
    held_by: str | None = None
    held_until: datetime | None = None
    gathers_until: datetime | None = None
    stage: int = 0
    day: str | None = None
    mails: int = 0
    bad: AddressFault | None = None
    bad_at: datetime | None = None

    def mails_on(self, now: datetime) -> int:
        """How many mails it has had today."""
        return self.mails if self.day == _day(now) else 0

    def opening(
        self, kinds: Iterable[NoticeKind], *, now: datetime, rules: MailRules
    ) -> tuple[Opening, datetime]:
        """Whether these may be mailed now, and if not, until when they wait."""
        if self.bad is not None and self.bad_at is not None and now < self.bad_at + BAD_FOR:
            return Opening.BAD, self.bad_at + BAD_FOR
        if self.held_until is not None and now < self.held_until:
            return Opening.GATHERING, self.held_until
        gathering = self.gathers_until is not None and now < self.gathers_until
        if self.gathers_until is not None and gathering and stage_of(kinds) <= self.stage:
            return Opening.GATHERING, self.gathers_until
        if self.mails_on(now) >= rules.mails_a_day:
            return Opening.CAPPED, next_day(now)
        return Opening.OPEN, now

    def mailed(self, kinds: Iterable[NoticeKind], *, now: datetime, rules: MailRules) -> "Mailbox":
        """After one more mail. A later stage does not lengthen a gathering: nobody waits for it longer."""
        gathering = self.gathers_until is not None and now < self.gathers_until
        return replace(
            self,
            gathers_until=self.gathers_until if gathering else now + rules.gather,
            stage=max(stage_of(kinds), self.stage if gathering else 0),
            day=_day(now),
            mails=self.mails_on(now) + 1,
        )


def stage_of(kinds: Iterable[NoticeKind]) -> int:
    """The latest stage of the story that these tell of."""
    return max((_STAGES.get(kind, 1) for kind in kinds), default=1)


def next_day(now: datetime) -> datetime:
    """When the next day's mails begin."""
    return datetime(now.year, now.month, now.day, tzinfo=UTC) + timedelta(days=1)


def _day(now: datetime) -> str:
    return f"{now:%Y-%m-%d}"

"""What a tenant lets an application receive: which event types, since when, granted by whom."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime

from hookkeeper.domain.errors import NotAllowedError
from hookkeeper.domain.event import candidate_patterns
from hookkeeper.domain.tenancy import Scope


@dataclass(frozen=True, slots=True, kw_only=True)
class Consent:
    """A tenant's consent to one application; `grants` holds each pattern with the moment it was granted.

    Nothing that was archived before its pattern's moment is handed over: a grant after a withdrawal starts
    afresh. `granted_by` is whoever the provider says has granted it.
    """

    scope: Scope
    application_id: str
    grants: Mapping[str, datetime]
    granted_by: str
    granted_at: datetime
    withdrawn_at: datetime | None = None
    version: int = 1

    @property
    def in_force(self) -> bool:
        return self.withdrawn_at is None

    @property
    def event_types(self) -> tuple[str, ...]:
        return tuple(self.grants)

    def covers(self, *, event_type: str, archived_at: datetime) -> bool:
        """Whether an event may be handed over under it."""
        moments = [self.grants[p] for p in candidate_patterns(event_type) if p in self.grants]
        return self.in_force and bool(moments) and archived_at >= min(moments)

    def check(self, patterns: Iterable[str]) -> None:
        """Raises NotAllowedError where a subscription would ask for more than was granted."""
        beyond = [pattern for pattern in patterns if not _wider(pattern, self.grants)]
        if beyond:
            granted = ", ".join(self.grants)
            raise NotAllowedError(f"the consent is for {granted}, and not for {', '.join(beyond)}")


def granted(
    before: Consent | None,
    *,
    scope: Scope,
    application_id: str,
    patterns: Iterable[str],
    granted_by: str,
    now: datetime,
) -> Consent:
    """The consent with these patterns from now on; what was granted already keeps its moment."""
    old = before.grants if before is not None and before.in_force else {}
    return Consent(
        scope=scope,
        application_id=application_id,
        grants={p: min((old[o] for o in _wider(p, old)), default=now) for p in patterns},
        granted_by=granted_by,
        granted_at=before.granted_at if before is not None and before.in_force else now,
        version=before.version + 1 if before is not None else 1,
    )


def withdrawn(before: Consent, *, now: datetime) -> Consent:
    return replace(before, withdrawn_at=now, version=before.version + 1)


def may_receive(
    application_id: str | None, consent: Consent | None, *, event_type: str, archived_at: datetime
) -> bool:
    """Whether a subscription may get an event as far as consent goes; only an application needs any."""
    if application_id is None:
        return True
    return consent is not None and consent.covers(event_type=event_type, archived_at=archived_at)


def _wider(pattern: str, grants: Mapping[str, datetime]) -> list[str]:
    """The granted patterns that take every type which the pattern takes."""
    if pattern == "*":
        return [each for each in ("*",) if each in grants]
    if pattern.endswith(".*"):
        return [each for each in candidate_patterns(f"{pattern[:-2]}.x")[1:] if each in grants]
    return [each for each in candidate_patterns(pattern) if each in grants]

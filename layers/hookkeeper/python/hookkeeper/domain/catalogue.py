"""The event types that a provider says it emits: what they mean and hold, and whether that is enforced."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime

from hookkeeper.domain.event import matches


@dataclass(frozen=True, slots=True, kw_only=True)
class EventType:
    """One entry. `json_schema` and `example` are JSON text; a `strict` one's events must fit the schema."""

    name: str
    description: str
    updated_at: datetime
    json_schema: str | None = None
    example: str | None = None
    strict: bool = False


def matched(pattern: str, catalogue: Iterable[EventType]) -> list[EventType]:
    return [each for each in catalogue if matches([pattern], each.name)]


def warnings(patterns: Iterable[str], catalogue: Sequence[EventType]) -> list[str]:
    """A sentence for each pattern that matches nothing which is emitted; none while nothing is listed."""
    unmatched = [pattern for pattern in patterns if catalogue and not matched(pattern, catalogue)]
    return [f"{pattern} matches no event type of the catalogue" for pattern in unmatched]

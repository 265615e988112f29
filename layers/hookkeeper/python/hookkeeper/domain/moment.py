"""Moments as text: RFC 3339 in UTC with microseconds, always as long."""

import re
from datetime import UTC, datetime

from hookkeeper.domain.errors import InvalidInputError

_RFC3339 = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d{1,9})?(Z|[+-]\d\d:\d\d)", re.ASCII)


def rfc3339(moment: datetime) -> str:
    """The moment as text of 27 characters, such as `2026-12-01T09:30:00.000000Z`."""
    return moment.astimezone(UTC).isoformat(timespec="microseconds").removesuffix("+00:00") + "Z"


def parse_rfc3339(text: str, *, pointer: str) -> datetime:
    """The moment in UTC; finer than microseconds is cut. Raises InvalidInputError (`invalid_time`)."""
    try:
        if _RFC3339.fullmatch(text):
            return datetime.fromisoformat(text).astimezone(UTC)
    except (ValueError, OverflowError):
        pass
    raise InvalidInputError(
        "a time is RFC 3339 with an offset, such as 2026-12-01T09:30:00Z",
        code="invalid_time",
        pointer=pointer,
    )

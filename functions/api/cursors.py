"""Cursors: a place in a list, signed, good for one tenant, one list and one choice of filters alone."""

from collections.abc import Sequence

from hookkeeper.domain.errors import InvalidInputError
from hookkeeper.domain.moment import parse_rfc3339, rfc3339
from hookkeeper.domain.recovery import Cursor
from hookkeeper.domain.tenancy import Scope
from itsdangerous import BadData, URLSafeSerializer


class Cursors:
    """Seals and opens the places of one list; `filters` are whatever narrows it."""

    def __init__(self, key: bytes, scope: Scope | None, *filters: object) -> None:
        whose = f"{scope.tenant_id}#{scope.mode}" if scope else "operator"
        salt = "\n".join([whose, *("" if each is None else str(each) for each in filters)])
        self._serializer = URLSafeSerializer(key, salt=salt)

    def seal(self, place: Sequence[str] | None) -> str | None:
        return None if place is None else str(self._serializer.dumps(list(place)))

    def open(self, cursor: str | None) -> list[str] | None:
        """Raises InvalidInputError (`invalid_cursor`) for any that this list did not give."""
        if cursor is None:
            return None
        try:
            place: list[str] = self._serializer.loads(cursor)
        except BadData:
            raise InvalidInputError(
                "not a cursor that this list gave", code="invalid_cursor", pointer="?cursor"
            ) from None
        return place


def place_of(cursor: Cursor | None) -> list[str] | None:
    return None if cursor is None else [rfc3339(cursor.archived_at), cursor.event_id]


def cursor_of(place: Sequence[str] | None) -> Cursor | None:
    if place is None:
        return None
    return Cursor(archived_at=parse_rfc3339(place[0], pointer="?cursor"), event_id=place[1])

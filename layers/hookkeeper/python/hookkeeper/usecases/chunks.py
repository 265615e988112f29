"""What is read of tables by the hundred: lists of keys, and a subscription's owed items."""

from collections.abc import Iterable, Iterator
from itertools import islice
from typing import TypeVar

from hookkeeper.domain.delivery import Owed
from hookkeeper.domain.recovery import Cursor
from hookkeeper.domain.tenancy import SubscriptionKey
from hookkeeper.ports import Ledger

T = TypeVar("T")

CHUNK = 100
"""As many keys as one BatchGetItem takes."""


def chunks(items: Iterable[T]) -> Iterator[list[T]]:
    """The items in order, a hundred at a time; nothing is taken before it is asked for."""
    rest = iter(items)
    while chunk := list(islice(rest, CHUNK)):
        yield chunk


def owed_items(key: SubscriptionKey, ledger: Ledger) -> Iterator[Owed]:
    """All that the subscription is owed, in the archive's order, read as far as it is asked for."""
    after: Cursor | None = None
    while page := ledger.owed(key, limit=CHUNK, after=after):
        yield from page
        if len(page) < CHUNK:
            return
        after = Cursor(page[-1].archived_at, page[-1].key.event_id)

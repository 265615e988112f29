"""Count what had left retention before a recovery could send it: by the index, since bytes may be gone."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import islice

from hookkeeper.domain.recovery import Cursor, Window
from hookkeeper.domain.subscription import matched_since, owed_from
from hookkeeper.domain.tenancy import DeliveryKey
from hookkeeper.usecases.recovery_run import Run

CHUNK = 100
LOOK_AT_MOST = 20_000
LAST_ID = "\uffff"
"""Sorts after every event id."""

Place = tuple[Cursor, str]
"""Where an event is in the archive, and its type."""


def count_lapsed(run: Run, window: Window) -> Window:
    """Count some of what the window has before the lower bound as expired, from the newest down.

    Answers the window: beginning at the lower bound once all of it is counted, else with its place.
    """
    edge = min(Cursor(run.lower_bound, ""), Cursor(window.end + run.margins.outage, LAST_ID))
    places = run.ports.archive.recent(
        run.recovery.key.scope, since=window.start, before=window.lapsed or edge
    )
    looked_at, last = 0, window.lapsed
    for chunk in _chunks(islice(places, LOOK_AT_MOST)):
        unread = [place for place in chunk if window.cursor is None or place[0] > window.cursor]
        run.expired += _owed(run, unread)
        looked_at, last = looked_at + len(chunk), chunk[-1][0]
    if looked_at < LOOK_AT_MOST:
        return replace(window, start=run.lower_bound, lapsed=None)
    return replace(window, lapsed=last)


def _owed(run: Run, places: Sequence[Place]) -> int:
    """How many of these the subscription was owed, and the ledger knows nothing of.

    The index has no resource, and no word on which of two entries of one event counts: the event item has.
    """
    key, subscription = run.recovery.key, run.standing.subscription
    items = run.ports.events.routed([(key.scope, place.event_id) for place, _ in places]) if places else {}
    wanted: dict[str, None] = {}
    for place, event_type in places:
        item = items.get((key.scope, place.event_id))
        stale = item is not None and item.archived_at != place.archived_at
        if (
            not stale
            and owed_from(subscription, archived_at=place.archived_at)
            and matched_since(
                subscription,
                run.filters,
                event_type=event_type,
                resource_id=item.resource_id if item else None,
                archived_at=place.archived_at,
            )
        ):
            wanted[place.event_id] = None
    known = run.ports.ledger.read([DeliveryKey(key, event_id) for event_id in wanted]) if wanted else {}
    return len(wanted) - len(known)


def _chunks(places: Iterator[Place]) -> Iterator[list[Place]]:
    while chunk := list(islice(places, CHUNK)):
        yield chunk

"""Count what had left retention before a recovery could send it: by the index, since bytes may be gone."""

from collections.abc import Sequence
from dataclasses import replace
from itertools import islice

from hookkeeper.domain.delivery import LEDGER_LIFE, DeliveryStatus
from hookkeeper.domain.recovery import LAST_ID, Cursor, Listed, Window
from hookkeeper.domain.subscription import owes
from hookkeeper.domain.tenancy import DeliveryKey
from hookkeeper.usecases.chunks import chunks
from hookkeeper.usecases.recovery_run import Run

LOOK_AT_MOST = 20_000


def count_lapsed(run: Run, window: Window) -> Window:
    """Count some of what the window has before the lower bound as expired, from the newest down.

    Answers the window: beginning at the lower bound once all of it is counted, else with its place.
    """
    edge = min(Cursor(run.lower_bound, ""), Cursor(window.end + run.margins.outage, LAST_ID))
    listed = run.ports.archive.recent(
        run.recovery.key.scope, since=window.start, before=window.lapsed or edge
    )
    looked_at, last = 0, window.lapsed
    for chunk in chunks(islice(listed, LOOK_AT_MOST)):
        run.expired += _lost(run, [each for each in chunk if _is_unread(run, window, each)])
        looked_at, last = looked_at + len(chunk), chunk[-1].place
    if looked_at < LOOK_AT_MOST:
        return replace(window, start=run.lower_bound, lapsed=None)
    return replace(window, lapsed=last)


def _is_unread(run: Run, window: Window, listed: Listed) -> bool:
    """Whether it is past the window's cursor, and known not to have arrived.

    In the margin before the outage events still arrived: only as long as the ledger knows which.
    """
    archived_at = listed.place.archived_at
    forgotten = archived_at < run.now - LEDGER_LIFE and archived_at < window.start + run.margins.outage
    return not forgotten and (window.cursor is None or listed.place > window.cursor)


def _lost(run: Run, listed: Sequence[Listed]) -> int:
    """How many of these the subscription was owed and never got: the ledger has none, or says expired.

    Of two entries of one event its event item says which counts, as long as it stands.
    """
    key, subscription = run.recovery.key, run.standing.subscription
    items = run.ports.events.routed([(key.scope, e.place.event_id) for e in listed]) if listed else {}
    wanted: dict[DeliveryKey, None] = {}
    for each in listed:
        archived_at, event_id = each.place.archived_at, each.place.event_id
        item = items.get((key.scope, event_id))
        stale = item is not None and item.archived_at != archived_at
        if not stale and owes(
            subscription,
            run.filters,
            event_type=each.event_type,
            resource_id=each.resource_id,
            archived_at=archived_at,
            routing_cache=run.margins.routing_cache,
        ):
            wanted[DeliveryKey(key, event_id)] = None
    known = run.ports.ledger.read(list(wanted)) if wanted else {}
    return sum(each not in known or known[each].status is DeliveryStatus.EXPIRED for each in wanted)

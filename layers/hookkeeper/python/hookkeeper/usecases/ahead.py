"""How much a recovery still has before it, for its progress bar: from the archive's index, no bytes read."""

from hookkeeper.domain.event import matches
from hookkeeper.domain.recovery import LAST_ID, Cursor
from hookkeeper.domain.subscription import wants
from hookkeeper.usecases.lapsed import LOOK_AT_MOST
from hookkeeper.usecases.owed import Found, own_items
from hookkeeper.usecases.recovery_run import Run


def count_ahead(run: Run, found: Found) -> int:
    """About how many come after what was found: owed items, and the archive's events of the right types.

    At most LOOK_AT_MOST places are looked at. Some of them may have succeeded, so the end may come sooner.
    """
    items = sum(1 for _ in zip(own_items(run), range(LOOK_AT_MOST), strict=False))
    ahead = max(0, items - sum(item is not None for item in found.items))
    subscription, margin = run.standing.subscription, run.margins.outage
    spans = [(w.start, w.end + margin, w.cursor, subscription.event_types) for w in found.windows]
    plan = run.recovery.replay
    if plan is not None and plan.reads_archive:
        spans.append((plan.start, plan.until, found.replay_cursor, plan.event_types))
    for start, until, cursor, wanted in spans:
        since = max(start, run.lower_bound, cursor.archived_at if cursor else start)
        places = run.ports.archive.recent(
            run.recovery.key.scope, since=since, before=Cursor(min(until, run.now), LAST_ID)
        )
        for listed, _ in zip(places, range(LOOK_AT_MOST), strict=False):
            past = cursor is None or listed.place > cursor
            ahead += (
                past
                and matches(wanted, listed.event_type)
                and wants(subscription, event_type=listed.event_type, resource_id=listed.resource_id)
            )
    return ahead

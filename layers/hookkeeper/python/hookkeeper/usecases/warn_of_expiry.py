"""Tell an owner, a day ahead and once a day, that events which it is owed are about to leave retention."""

from collections.abc import Iterator, Sequence
from datetime import datetime, timedelta
from itertools import islice

from hookkeeper.domain.delivery import Owed
from hookkeeper.domain.health import Health
from hookkeeper.domain.notice import Notice, NoticeKind
from hookkeeper.domain.recovery import Cursor, Listed, warned_ahead
from hookkeeper.domain.subscription import FilterChange, Subscription, owes
from hookkeeper.domain.tenancy import DeliveryKey
from hookkeeper.ports import Standing
from hookkeeper.usecases.notice_facts import health_facts, owed_now, owner_of, text_of
from hookkeeper.usecases.sweep_ports import Round

EVERY = timedelta(days=1)
"""Between two looks, and between two notices."""

EVENTS = 10_000
"""How far a day's index of the archive is read for events of a subscription."""

COUNTED = 100
"""How many of them are held against the ledger: enough for "at least n"."""


def wants_warning(run: Round, health: Health) -> bool:
    """Whether it is time to look: at the moment that was set, or when an outage has lasted so long."""
    if health.warn_at is not None:
        return run.now >= health.warn_at
    retention, outage_from = run.config.retention, health.outage_from
    return outage_from is not None and run.now >= outage_from + retention - warned_ahead(retention)


def warn_of_expiry(run: Round, standing: Standing) -> str:
    """Tell of what must be told before the next look, and set its time. Answers a word for the report.

    Whatever was told yesterday is not told again. What only the archive has is known by its index.
    """
    health, retention = standing.health, run.config.retention
    items = owed_now(health.key, now=run.now, ledger=run.ports.ledger)
    begins, ahead = _begins(health, items), warned_ahead(retention)
    if begins is None:
        return _look_again(run, health, None, "warnings_ended")
    if run.now < begins + retention - ahead:
        return _look_again(run, health, begins + retention - ahead, "warnings_set")
    since = run.now - retention
    if health.warn_at is not None and _told(run, standing, on=health.warn_at - EVERY):
        since = health.warn_at - retention + ahead
    soon = _expiring(
        run, standing.subscription, items, since=since, until=run.now - retention + ahead + EVERY
    )
    if soon:
        _tell(run, standing, waiting=len(soon), first_expires_at=min(soon).archived_at + retention)
    return _look_again(run, health, run.now + EVERY, "warned" if soon else "warnings_needless")


def leave_to_people(run: Round, item: Owed, standing: Standing) -> str:
    """Nothing but a person moves an owed item on; the owner hears of it before it expires."""
    ahead = warned_ahead(run.config.retention)
    if run.now < item.expires_at - ahead:
        run.ports.ledger.move_due(item, due_at=item.expires_at - ahead)
        return "left_to_people"
    if not _told(run, standing, on=run.now):
        items = owed_now(standing.subscription.key, now=run.now, ledger=run.ports.ledger)
        soon = [each.expires_at for each in items if each.expires_at <= run.now + ahead + EVERY]
        first = min(soon, default=item.expires_at)
        _tell(run, standing, waiting=max(len(soon), 1), first_expires_at=first)
    run.ports.ledger.move_due(item, due_at=item.expires_at)
    return "warned"


def _begins(health: Health, items: Sequence[Owed]) -> datetime | None:
    """The moment of the oldest event that may be owed: an item's, an outage's or an unread window's."""
    windows = [w.cursor.archived_at if w.cursor else w.start for w in health.recovery.windows]
    oldest = [item.archived_at for item in items[:1]]
    return min(filter(None, (health.outage_from, *windows, *oldest)), default=None)


def _look_again(run: Round, health: Health, warn_at: datetime | None, word: str) -> str:
    run.ports.health.set_warning(health.key, epoch=health.epoch, warn_at=warn_at)
    return word


def _expiring(
    run: Round, subscription: Subscription, items: Sequence[Owed], *, since: datetime, until: datetime
) -> set[Cursor]:
    """The owed events that were archived in between, as far as they are counted."""
    known = {Cursor(item.archived_at, item.key.event_id) for item in items}
    return {place for place in known if since <= place.archived_at <= until} | set(
        _unseen(run, subscription, since=since, until=until)
    )


def _unseen(run: Round, subscription: Subscription, *, since: datetime, until: datetime) -> Iterator[Cursor]:
    """Events of the archive that were not dealt with."""
    listed = run.ports.archive.recent(subscription.scope, since=since, before=Cursor(until, ""))
    filters = run.ports.subscriptions.filters(subscription.key)
    cache = run.margins.routing_cache
    wanted = (each.place for each in islice(listed, EVENTS) if _takes(filters, subscription, each, cache))
    places = {DeliveryKey(subscription.key, place.event_id): place for place in islice(wanted, COUNTED)}
    known = run.ports.ledger.read(list(places)) if places else {}
    return (place for key, place in places.items() if key not in known or not known[key].final)


def _takes(
    filters: Sequence[FilterChange], subscription: Subscription, listed: Listed, cache: timedelta
) -> bool:
    """Whether it was owed by the filters and the resource, as a recovery will judge it."""
    return owes(
        subscription,
        filters,
        event_type=listed.event_type,
        resource_id=listed.resource_id,
        archived_at=listed.place.archived_at,
        routing_cache=cache,
    )


def _told(run: Round, standing: Standing, *, on: datetime) -> bool:
    notice = _notice(standing, on=on)
    return run.ports.notices.get(notice.key, notice.id) is not None


def _tell(run: Round, standing: Standing, *, waiting: int, first_expires_at: datetime) -> None:
    facts = {
        **health_facts(standing.health),
        "status": str(standing.subscription.status),
        "waiting": str(waiting),
        "first_expires_at": text_of(first_expires_at),
    }
    owner_email = owner_of(run.ports.subscriptions.profile(standing.subscription.key))
    run.ports.notices.put(_notice(standing, on=run.now, owner_email=owner_email, facts=facts))


def _notice(
    standing: Standing, *, on: datetime, owner_email: str = "", facts: dict[str, str] | None = None
) -> Notice:
    return Notice(
        key=standing.subscription.key,
        kind=NoticeKind.EXPIRING,
        dedupe=f"{on:%Y-%m-%d}",
        at=on,
        owner_email=owner_email,
        endpoint_url=standing.subscription.endpoint_url,
        facts=facts or {},
    )

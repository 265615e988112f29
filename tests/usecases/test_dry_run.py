"""What a replay sends, what its dry run counts, and what `explain` calls matched agree by one rule."""

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any

import pytest
from hookkeeper.domain.config import Margins
from hookkeeper.domain.consent import Consent
from hookkeeper.domain.delivery import DeliveryStatus
from hookkeeper.domain.recovery import RETENTION, Cursor, RecoveryKind, RecoveryStatus, Window
from hookkeeper.domain.replay import Counted, Only, Replay
from hookkeeper.domain.subscription import FilterChange
from hookkeeper.domain.tenancy import DeliveryKey
from hookkeeper.usecases import dry_run
from hookkeeper.usecases.dry_run import count
from hookkeeper.usecases.explain import Explanation, Waits, explain
from hookkeeper.usecases.replay import Asked

from tests.builders import (
    HOUR,
    MINUTE,
    NOW,
    a_delivered,
    a_delivery,
    a_key,
    a_lock,
    a_recovery,
    a_subscription,
    an_event,
    an_owed,
)
from tests.core import Core
from tests.fakes import FakeAudit, FakeConsents

KEY = a_key()
MARGINS = Margins()
SECOND = timedelta(seconds=1)
CACHE = MARGINS.routing_cache
ACTIVATED = NOW - 2 * HOUR
EDITED = NOW - HOUR


def a_core(*filters: tuple[datetime, tuple[str, ...]], **subscription: Any) -> Core:
    """KEY, activated two hours ago: its activation is in force everywhere the cache's life later."""
    core = Core()
    core.subscribe(a_subscription(**({"first_active_at": ACTIVATED + CACHE} | subscription)))
    core.world.filters[KEY] = {at: FilterChange(at=at, event_types=types) for at, types in filters}
    return core


def counted(core: Core, **asked: Any) -> Counted:
    return count(
        KEY,
        Asked(**asked),
        now=core.now,
        config=core.world.config,
        margins=MARGINS,
        subscriptions=core.subscriptions,
        consents=FakeConsents(core.world),
        ledger=core.ledger,
        archive=core.archive,
        events=core.events,
    )


def explained(core: Core, number: int = 1) -> Explanation:
    return explain(
        KEY,
        an_event(number).id,
        now=core.now,
        config=core.world.config,
        margins=MARGINS,
        subscriptions=core.subscriptions,
        events=core.events,
        ledger=core.ledger,
        audit=FakeAudit(core.world),
        consents=FakeConsents(core.world),
    )


def sent(core: Core, *, until: datetime = NOW, windows: tuple[Window, ...] = (), **plan: Any) -> list[str]:
    """What a replay puts on the queue in its first slice."""
    asked = Replay(start=NOW - RETENTION, until=until, **plan)
    recovery = a_recovery(kind=RecoveryKind.REPLAY, flowing=True, replay=asked, rate_per_second=100.0)
    core.world.recoveries[KEY.scope, recovery.id] = recovery
    core.set_health(KEY, recovery=a_lock(recovery, windows=windows))
    core.slice(KEY)
    return sorted(parcel.key.event_id for parcel in core.queued("backfill"))


NARROW, WIDE = ("order.*",), ("order.*", "invoice.*")
WIDENED = ((ACTIVATED + CACHE, NARROW), (EDITED + CACHE, WIDE))


@pytest.mark.parametrize(
    "filters,at,owed,early",
    [
        ((), ACTIVATED - SECOND, False, False),
        ((), ACTIVATED, True, True),
        ((), ACTIVATED + CACHE - SECOND, True, True),
        ((), ACTIVATED + CACHE, True, False),
        (WIDENED, EDITED - SECOND, False, False),
        (WIDENED, EDITED, True, True),
        (WIDENED, EDITED + CACHE - SECOND, True, True),
        (WIDENED, EDITED + CACHE, True, False),
        (((ACTIVATED + CACHE, WIDE), (EDITED, NARROW)), EDITED - SECOND, False, False),
    ],
)
def test_the_replay_its_dry_run_and_explain_agree_about_each_edge(
    filters: Sequence[tuple[datetime, tuple[str, ...]]], at: datetime, *, owed: bool, early: bool
) -> None:
    core = a_core(*filters, event_types=filters[-1][1] if filters else ("*",))
    core.archived(KEY, an_event(), at=at)
    told = explained(core)
    assert counted(core).found == owed
    assert told.findings[1].ok is owed
    assert (
        "before that was in force everywhere, and is owed all the same" in told.findings[1].detail
    ) is early
    assert (told.waits_for is Waits.PERSON) is early, "what may never have been routed waits for a person"
    assert sent(core) == [an_event().id] * owed


def test_what_was_archived_in_a_suspension_is_owed_by_its_window_alone_however_early() -> None:
    core = a_core()
    core.archived(KEY, an_event(), at=ACTIVATED + SECOND)
    window = Window(start=ACTIVATED - 5 * MINUTE, end=ACTIVATED + HOUR)
    core.set_health(KEY, recovery=a_lock(status=RecoveryStatus.CANCELLED, windows=(window,)))
    told = explained(core)
    assert (told.findings[1].ok, told.waits_for) == (True, Waits.RECOVERY)
    nothing = {"since": NOW - MINUTE, "event_types": ("nothing.here",)}
    assert counted(core, **nothing).found == 1, "the replay takes along what earlier ones left unread"
    assert sent(core, windows=(window,), event_types=("nothing.here",)) == [an_event().id]


def test_what_a_window_has_been_read_past_is_counted_once_and_only_where_it_is_asked_for() -> None:
    core = a_core()
    for number in (1, 2, 3):
        core.archived(KEY, an_event(number), at=EDITED + number * SECOND)
    read = Cursor(EDITED + 2 * SECOND, an_event(2).id)
    window = Window(start=EDITED, end=EDITED + MINUTE, cursor=read)
    core.set_health(KEY, recovery=a_lock(status=RecoveryStatus.CANCELLED, windows=(window,)))
    assert counted(core, event_types=("nothing.here",)).found == 1
    assert counted(core, only=Only.FAILED).found == 1
    assert counted(core).found == 3


@pytest.mark.parametrize("age,found", [(MARGINS.outage - SECOND, 0), (MARGINS.outage, 1)])
def test_what_is_younger_than_the_margin_lies_in_a_queue_and_is_neither_counted_nor_sent_yet(
    age: timedelta, found: int
) -> None:
    core = a_core()
    core.archived(KEY, an_event(), at=NOW - age)
    told = explained(core)
    assert (told.findings[1].ok, told.waits_for) == (True, Waits.QUEUE)
    assert counted(core).found == found
    assert len(sent(core)) == found


def test_what_succeeded_is_counted_for_a_replay_of_all_however_young() -> None:
    core = a_core()
    for number, age in ((1, HOUR), (2, SECOND)):
        parcel = core.archived(KEY, an_event(number), at=NOW - age)
        core.world.deliveries[parcel.key] = a_delivered(key=parcel.key, archived_at=NOW - age)
    assert counted(core, only=Only.ALL).found == 2
    assert counted(core).found == 0
    core.later(2 * MARGINS.outage)
    assert len(sent(core, only=Only.ALL)) == 2


@pytest.mark.parametrize(
    "status,archived_at,final,found",
    [
        (DeliveryStatus.HELD, NOW - 3 * HOUR, False, 1),
        (DeliveryStatus.EXHAUSTED, NOW - 3 * HOUR, False, 0),
        (DeliveryStatus.RETRYING, NOW - MINUTE, False, 0),
        (DeliveryStatus.EXHAUSTED, NOW - MINUTE, False, 1),
        (DeliveryStatus.EXHAUSTED, NOW - MINUTE, True, 0),
        (DeliveryStatus.HELD, NOW - RETENTION - SECOND, False, 0),
    ],
)
def test_held_items_are_sent_whatever_the_window_and_nothing_that_is_over(
    status: DeliveryStatus, archived_at: datetime, *, final: bool, found: int
) -> None:
    core = a_core(first_active_at=NOW - 30 * 24 * HOUR)
    parcel = core.archived(KEY, an_event(), at=archived_at)
    record = DeliveryStatus.SUCCEEDED if final else status
    core.world.deliveries[parcel.key] = a_delivery(
        key=parcel.key, archived_at=archived_at, status=record, settled=True
    )
    core.world.owed[parcel.key, archived_at] = an_owed(
        key=parcel.key, archived_at=archived_at, status=status, expires_at=archived_at + RETENTION
    )
    assert counted(core, since=NOW - HOUR).found == found


def test_what_the_tenants_consent_does_not_cover_is_neither_counted_nor_matched() -> None:
    core = a_core(application_id="app_1")
    consent = Consent(
        scope=KEY.scope,
        application_id="app_1",
        grants={"*": EDITED},
        granted_by="owner@customer.example",
        granted_at=EDITED,
    )
    core.world.consents[KEY.scope, "app_1"] = consent
    core.archived(KEY, an_event(1), at=EDITED - SECOND)
    core.archived(KEY, an_event(2), at=EDITED)
    assert counted(core).found == 1
    assert [explained(core, number).findings[1].ok for number in (1, 2)] == [False, True]


def test_a_stale_entry_of_the_archive_is_counted_no_more_than_it_is_sent() -> None:
    core = a_core()
    core.archived(KEY, an_event(), at=EDITED)
    core.archived(KEY, an_event(), at=EDITED + MINUTE)
    assert counted(core).found == 1
    assert sent(core) == [an_event().id]


def test_a_count_looks_at_no_more_than_the_api_has_time_for_and_says_so(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(dry_run, "COUNTED_AT_MOST", 150)
    core = a_core()
    for number in range(150):
        key = DeliveryKey(KEY, an_event(number).id)
        core.world.owed[key, EDITED] = an_owed(key=key, archived_at=EDITED)
    core.archived(KEY, an_event(150), at=EDITED)
    assert (counted(core).found, counted(core).complete) == (0, False)

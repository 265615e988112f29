"""An owner hears, a day ahead and once a day, of what it is owed and will lose; and of nothing else."""

from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

import pytest
from hookkeeper.domain.delivery import DeliveryStatus
from hookkeeper.domain.notice import Notice, NoticeKind
from hookkeeper.domain.outcome import Outcome
from hookkeeper.domain.recovery import RETENTION, RecoveryLock, Window, warned_ahead
from hookkeeper.domain.subscription import FilterChange

from tests.builders import (
    HOUR,
    MINUTE,
    NOW,
    a_delivered,
    a_delivery,
    a_failing_health,
    a_key,
    a_lock,
    a_subscription,
    a_suspended_subscription,
    an_event,
    an_owed,
)
from tests.core import Core

KEY = a_key()
DAY = 24 * HOUR


def suspended(**health: Any) -> Core:
    """A core whose one subscription was suspended by the policy just now."""
    core = Core()
    core.subscribe(health=a_failing_health(**health))
    core.suspend(KEY)
    assert core.health(KEY).warn_at is not None
    return core


def warnings(core: Core) -> list[Notice]:
    return sorted(core.world.notices_of(NoticeKind.EXPIRING), key=lambda notice: notice.at)


def days(core: Core, many: float) -> list[Notice]:
    """The warnings of so many days, with a sweep each half hour."""
    end = core.now + many * DAY
    while core.now < end:
        core.later(HOUR / 2)
        core.sweep()
    return warnings(core)


def test_a_suspended_owner_is_told_a_day_before_the_first_event_expires_and_each_day_after() -> None:
    core = suspended()
    for number in range(1, 4):
        core.archived(KEY, an_event(number), at=NOW + number * DAY)
    assert days(core, 6.9) == []
    told = days(core, 4)
    assert [notice.at - NOW for notice in told] == pytest.approx(
        [n * DAY for n in (7, 8, 9)], abs=timedelta(hours=1)
    )
    assert [notice.facts["waiting"] for notice in told] == ["1", "1", "1"]


def test_its_facts_are_the_endpoint_its_failures_and_how_much_goes_when() -> None:
    core = suspended()
    for number in range(1, 6):
        core.archived(KEY, an_event(number), at=NOW + number * MINUTE)
    (notice,) = days(core, 6.5)
    assert notice.owner_email == "owner@customer.example"
    assert notice.endpoint_url == core.present(KEY).endpoint_url
    assert notice.facts["failures"] == "25"
    assert notice.facts["waiting"] == "5"
    assert notice.facts["first_expires_at"] == "2026-12-08T12:01:00Z"
    assert notice.facts["status"] == "suspended"


def test_nobody_is_told_of_nothing() -> None:
    core = suspended()
    core.world.subscriptions[KEY] = a_suspended_subscription(event_types=("order.*",))
    core.archived(KEY, an_event(1, type="invoice.paid"), at=NOW + HOUR)
    assert days(core, 12) == []


def test_a_resource_is_told_of_its_own_events_alone() -> None:
    core = suspended()
    core.world.subscriptions[KEY] = replace(core.present(KEY), resource_id="r_1")
    for number, resource_id in enumerate(("r_1", "r_2", None), start=1):
        core.archived(KEY, an_event(number, resource_id=resource_id), at=NOW + number * MINUTE)
    (notice,) = days(core, 6.5)
    assert notice.facts["waiting"] == "1"
    assert notice.facts["first_expires_at"] == "2026-12-08T12:01:00Z"


def test_what_an_edited_filter_would_not_bring_back_is_not_told_of() -> None:
    core = suspended()
    core.archived(KEY, an_event(1, type="order.paid"), at=NOW + MINUTE)
    core.world.filters[KEY] = {
        NOW - HOUR: FilterChange(at=NOW - HOUR, event_types=("order.*",)),
        NOW + HOUR: FilterChange(at=NOW + HOUR, event_types=("invoice.*",)),
        NOW + 2 * HOUR: FilterChange(at=NOW + 2 * HOUR, event_types=("*",)),
    }
    assert days(core, 8) == []


def test_what_came_right_after_the_first_activation_is_told_of() -> None:
    """As a recovery will bring it back: it was owed before the activation was in force everywhere."""
    core = suspended()
    core.world.subscriptions[KEY] = replace(core.present(KEY), first_active_at=NOW + MINUTE)
    for number, seconds in ((1, 49), (2, 51)):
        core.archived(KEY, an_event(number), at=NOW + timedelta(seconds=seconds))
    (notice,) = days(core, 6.5)
    assert (notice.facts["waiting"], notice.facts["first_expires_at"]) == ("1", "2026-12-08T12:00:51Z")


def test_what_was_delivered_in_the_outages_margin_is_nothing_to_lose() -> None:
    core = suspended()
    parcel = core.archived(KEY, an_event(1), at=NOW - MINUTE)
    core.world.deliveries[parcel.key] = a_delivered(key=parcel.key, archived_at=NOW - MINUTE)
    assert days(core, 12) == []


def test_an_owed_item_older_than_the_outage_is_told_of_in_time() -> None:
    core = suspended()
    at = NOW - 10 * MINUTE
    parcel = core.archived(KEY, an_event(1), at=at)
    core.world.deliveries[parcel.key] = a_delivery(
        key=parcel.key, archived_at=at, status=DeliveryStatus.HELD, settled=True
    )
    core.world.owed[parcel.key, at] = an_owed(
        key=parcel.key,
        archived_at=at,
        status=DeliveryStatus.HELD,
        due_at=at + RETENTION,
        expires_at=at + RETENTION,
    )
    (notice,) = days(core, 6.5)
    assert notice.facts["waiting"] == "1"
    assert notice.facts["first_expires_at"] == "2026-12-08T11:50:00Z"


def test_a_window_that_a_recovery_left_counts_from_its_cursor() -> None:
    left = Window(start=NOW - 3 * DAY, end=NOW - 2 * DAY)
    core = Core()
    lock = RecoveryLock(version=1, windows=(left,))
    core.subscribe(
        a_suspended_subscription(first_active_at=NOW - 4 * DAY),
        a_failing_health(outage_from=NOW - HOUR, recovery=lock, warn_at=NOW + HOUR),
    )
    core.archived(KEY, an_event(1), at=NOW - 3 * DAY + MINUTE)
    (notice,) = days(core, 3.5)
    assert notice.facts["first_expires_at"] == "2026-12-05T12:01:00Z"


def test_manual_pause_sends_none_until_events_are_about_to_be_lost() -> None:
    core = Core()
    core.subscribe()
    core.pause(KEY)
    assert core.world.notices == {}
    core.archived(KEY, an_event(1), at=NOW + HOUR)
    assert days(core, 5.9) == []
    (notice,) = days(core, 1)
    assert notice.facts["waiting"] == "1"


def test_after_a_reenablement_nothing_is_looked_at_any_more() -> None:
    core = suspended()
    core.archived(KEY, an_event(1), at=NOW + HOUR)
    core.reenable(KEY)
    assert core.health(KEY).warn_at is None


def test_after_a_revocation_nothing_is_looked_at_any_more() -> None:
    core = suspended()
    core.revoke(KEY)
    assert core.health(KEY).warn_at is None
    assert days(core, 9) == []


def test_an_endpoint_that_fails_for_days_and_is_never_suspended_is_told_of_too() -> None:
    core = Core()
    failing = a_failing_health(outage_from=NOW - 6 * DAY, recovery=a_lock(lease_until=NOW))
    core.subscribe(a_subscription(first_active_at=NOW - 7 * DAY), failing)
    core.archived(KEY, an_event(1), at=NOW - 6 * DAY + HOUR)
    core.sweep()
    assert len(warnings(core)) == 1
    assert core.health(KEY).warn_at == NOW + DAY


def test_an_outage_that_ended_meanwhile_is_looked_at_no_more() -> None:
    core = Core()
    core.subscribe(health=a_failing_health(warn_at=NOW))
    core.sweep()
    assert core.health(KEY).warn_at is None
    assert warnings(core) == []


# ── owed items of an active subscription ─────────────────────────────────────────────────────────


def owing_permanents(core: Core, *ats: datetime) -> None:
    for number, at in enumerate(ats, 1):
        parcel = core.archived(KEY, an_event(number), at=at)
        changes = {"status": DeliveryStatus.EXHAUSTED, "outcome": Outcome.PERMANENT}
        core.world.deliveries[parcel.key] = a_delivery(
            key=parcel.key, archived_at=at, settled=True, next_attempt_at=None, **changes
        )
        core.world.owed[parcel.key, at] = an_owed(
            key=parcel.key,
            archived_at=at,
            due_at=at + RETENTION - DAY,
            expires_at=at + RETENTION,
            automatic_left=False,
            **changes,
        )


def test_what_waits_for_a_person_is_told_of_once_a_day_with_all_that_goes_that_day() -> None:
    core = Core()
    core.subscribe()
    owing_permanents(core, NOW, NOW + MINUTE, NOW + 2 * MINUTE, NOW + 2 * DAY)
    first, second = days(core, 9.1)
    assert (first.facts["waiting"], first.facts["first_expires_at"]) == ("3", "2026-12-08T12:00:00Z")
    assert (second.facts["waiting"], second.facts["status"]) == ("1", "active")
    assert core.world.owed == {}, "and then they expire"


@pytest.mark.parametrize(
    "retention, ahead",
    [(7 * DAY, DAY), (14 * DAY, DAY), (2 * DAY, DAY), (DAY, DAY / 2)],
)
def test_a_short_retention_is_warned_of_at_its_half(retention: timedelta, ahead: timedelta) -> None:
    assert warned_ahead(retention) == ahead

"""A subscription's status changes whole or not at all, and only from where it was read."""

from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta

import pytest
from hookkeeper.domain.circuit import CircuitRules, closed, opened
from hookkeeper.domain.errors import DuplicateSubscriptionError
from hookkeeper.domain.health import Health, Streak
from hookkeeper.domain.outcome import Outcome
from hookkeeper.domain.recovery import Ended, RecoveryKind, RecoveryLock, RecoveryStatus, Window
from hookkeeper.domain.subscription import (
    TRANSITIONS,
    DisabledReason,
    FilterChange,
    Status,
    Subscription,
    Trigger,
)
from hookkeeper.domain.tenancy import Mode
from hookkeeper.ports import Edit, Standing, Transition

from tests.builders import (
    HOUR,
    MINUTE,
    NOW,
    a_failing_health,
    a_health,
    a_key,
    a_lock,
    a_notice,
    a_pending_subscription,
    a_profile,
    a_recovery,
    a_scope,
    a_subscription,
    a_suspended_subscription,
    a_transition,
    an_audit_record,
    an_edit,
)
from tests.contracts.stores import Stores

PATTERNS = ("invoice.paid", "order.*")
STANDING_AS: dict[Status, Callable[..., Subscription]] = {
    Status.PENDING: a_pending_subscription,
    Status.ACTIVE: a_subscription,
    Status.SUSPENDED: a_suspended_subscription,
    Status.REVOKED: lambda **changes: a_subscription(status=Status.REVOKED, **changes),
}


def a_full_subscription() -> Subscription:
    return a_suspended_subscription(
        event_types=PATTERNS,
        resource_id="r_1",
        headers={"x-token": "t"},
        policy="patient",
        timeout_seconds=30,
        maintenance_until=NOW + HOUR,
        version=7,
        disabled_reason=DisabledReason.PERMANENT_ERROR,
        token_hash="f" * 64,
        token_expires_at=NOW + timedelta(microseconds=1),
        writer="aud_before",
    )


def a_full_health() -> Health:
    rules = CircuitRules()
    return a_failing_health(
        epoch=4,
        streaks={
            Outcome.RETRYABLE: Streak(20, NOW - HOUR),
            Outcome.PERMANENT: Streak(4, NOW - MINUTE),
            Outcome.FATAL: Streak(1, NOW - timedelta(microseconds=3)),
        },
        last_success_at=NOW - 24 * HOUR,
        last_delivery_at=NOW - 25 * HOUR,
        circuit=replace(opened(a_health().circuit, rules, now=NOW), recent_failures=(NOW, NOW)),
        outage_from=NOW - 5 * MINUTE,
        not_before=NOW + MINUTE,
        recovery=a_lock(windows=(Window(start=NOW - HOUR, end=NOW), Window(start=NOW, end=NOW + HOUR))),
        check_at=NOW + MINUTE,
        warn_at=NOW + HOUR,
    )


def suspension(before: Standing, *, number: int = 1, **changes: object) -> Transition:
    """What the policy does: suspended, a new epoch, an outage from five minutes ago."""
    after = replace(before.subscription, status=Status.SUSPENDED, disabled_at=NOW, updated_at=NOW)
    health = replace(
        before.health,
        epoch=before.health.epoch + 1,
        circuit=closed(before.health.circuit),
        outage_from=min(before.health.outage_from or NOW, NOW - 5 * MINUTE),
        check_at=None,
        warn_at=NOW + HOUR,
    )
    return replace(a_transition(before, after, number=number, health=health), **changes)  # type: ignore[arg-type]


def activation(before: Standing, *, number: int = 1) -> Transition:
    """What a probe that passed does: active, streaks cleared, and the recovery of the outage's window."""
    recovery = a_recovery()
    after = replace(before.subscription, status=Status.ACTIVE, disabled_at=None, disabled_reason=None)
    windows = (Window(start=before.health.outage_from or NOW, end=NOW),)
    lock = replace(a_lock(recovery, windows=windows), version=before.health.recovery.version + 1)
    health = replace(
        before.health,
        epoch=before.health.epoch + 1,
        circuit=closed(before.health.circuit),
        outage_from=None,
        recovery=lock,
    )
    return replace(
        a_transition(before, after, number=number, health=health), clears_streaks=True, recovery=recovery
    )


def unchanged(stores: Stores, before: Standing) -> bool:
    """Whether nothing at all was written of a transition."""
    key = before.subscription.key
    return (
        stores.standing(key) == before
        and stores.audited(before.subscription) == []
        and stores.told(key) == []
        and stores.recoveries.of(key, limit=10) == []
    )


# ── creating and reading ─────────────────────────────────────────────────────────────────────────


def test_what_is_created_is_read_back_to_the_microsecond(stores: Stores) -> None:
    subscription, health = a_full_subscription(), a_full_health()
    profile = a_profile(metadata={"team": "billing", "empty": ""})
    audit = an_audit_record(before={}, after={"status": "pending"}, detail="made")
    assert stores.subscriptions.create(subscription, profile, health, audit) is None
    stored = replace(subscription, writer=audit.id)
    assert stores.subscriptions.get(subscription.key) == stored
    assert stores.standing(subscription.key) == Standing(stored, health)
    assert stores.subscriptions.profile(subscription.key) == profile
    assert stores.audit.of(a_scope(), subscription.id, limit=9) == [audit]


def test_what_does_not_exist_is_none(stores: Stores) -> None:
    assert stores.subscriptions.get(a_key()) is None
    assert stores.subscriptions.standing(a_key()) is None
    assert stores.subscriptions.profile(a_key()) is None
    assert stores.subscriptions.filters(a_key()) == []


@pytest.mark.parametrize("url", ["https://h.example/in", "https://h.example/in/"])
def test_a_duplicate_endpoint_names_the_one_that_has_it(stores: Stores, url: str) -> None:
    stores.have(a_subscription(endpoint_url="https://h.example/in"))
    second = a_subscription(key=a_key(2), endpoint_url=url)
    answer = stores.subscriptions.create(
        second, a_profile(), a_health(key=second.key), an_audit_record(2, subject=second.id)
    )
    assert answer == stores.subscriptions.holder(second) == a_key(1).subscription_id
    assert stores.subscriptions.holder(a_subscription(endpoint_url=url)) is None, "its own is not another's"
    assert stores.subscriptions.get(second.key) is None
    assert stores.audited(second) == []
    assert stores.routed(second, "invoice.paid") == []


@pytest.mark.parametrize(
    "changes",
    [
        {"resource_id": "r_1"},
        {"endpoint_url": "https://h.example/in?a=/"},
        {"endpoint_url": "https://h.example/in//"},
        {"key": a_key(2, a_scope("other"))},
        {"key": a_key(2, a_scope(mode=Mode.TEST))},
    ],
)
def test_another_resource_url_tenant_or_mode_is_no_duplicate(
    stores: Stores, changes: dict[str, object]
) -> None:
    stores.have(a_subscription(endpoint_url="https://h.example/in"))
    stores.have(a_subscription(**{"key": a_key(2), "endpoint_url": "https://h.example/in", **changes}))


def test_a_revoked_subscription_frees_its_endpoint_and_a_suspended_one_does_not(stores: Stores) -> None:
    before = stores.have(a_subscription(endpoint_url="https://h.example/in"))
    second = a_subscription(key=a_key(2), endpoint_url="https://h.example/in")
    new = (second, a_profile(), a_health(key=second.key), an_audit_record(9, subject=second.id))
    assert stores.subscriptions.transition(suspension(before))
    assert stores.subscriptions.create(*new) == a_key(1).subscription_id
    suspended = stores.standing(before.subscription.key)
    revoked = replace(suspended.subscription, status=Status.REVOKED)
    assert stores.subscriptions.transition(a_transition(suspended, revoked, number=2))
    assert stores.subscriptions.create(*new) is None


def test_pages_go_from_the_newest_to_the_oldest_within_one_tenant_and_mode(stores: Stores) -> None:
    for number in range(1, 8):
        stores.have(a_subscription(key=a_key(number)))
    stores.have(a_subscription(key=a_key(8, a_scope("other"))))
    stores.have(a_subscription(key=a_key(9, a_scope(mode=Mode.TEST))))
    seen, after = [], None
    for _ in range(3):
        page = stores.subscriptions.page(a_scope(), limit=3, after=after)
        seen += [standing.subscription.key for standing in page.standings]
        after = page.next_after
    assert seen == [a_key(number) for number in range(7, 0, -1)]
    assert after is None
    assert stores.subscriptions.page(a_scope("nobody"), limit=3).standings == []


def test_a_page_that_ends_with_the_last_one_says_so(stores: Stores) -> None:
    for number in (1, 2):
        stores.have(a_subscription(key=a_key(number)))
    assert stores.subscriptions.page(a_scope(), limit=2).next_after is None
    assert stores.subscriptions.page(a_scope(), limit=1).next_after == a_key(2).subscription_id


def test_tokens_that_ended_are_found_longest_first_over_all_tenants(stores: Stores) -> None:
    keys = [a_key(1), a_key(2, a_scope("other")), a_key(3), a_key(4)]
    for key, minutes in zip(keys, (0, -2, 1, -1), strict=True):
        stores.have(a_pending_subscription(key=key, token_expires_at=NOW + minutes * MINUTE))
    verified = stores.standing(keys[3])
    active = replace(verified.subscription, status=Status.ACTIVE, token_hash=None, token_expires_at=None)
    assert stores.subscriptions.transition(a_transition(verified, active))
    assert stores.subscriptions.expired_tokens(NOW, limit=10) == [keys[1], keys[0]]
    assert stores.subscriptions.expired_tokens(NOW, limit=1) == [keys[1]]


# ── transitions ──────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("source, trigger", list(TRANSITIONS))
def test_each_legal_transition_routes_what_its_new_status_routes(
    stores: Stores, source: Status, trigger: Trigger
) -> None:
    before = stores.have(STANDING_AS[source](event_types=PATTERNS))
    was = ["invoice.paid", "order.sent"] if source is Status.ACTIVE else []
    assert stores.routed(before.subscription, "invoice.paid", "order.sent", "x") == was
    target = TRANSITIONS[source, trigger]
    transition = a_transition(before, replace(before.subscription, status=target))
    assert stores.subscriptions.transition(transition)
    after = stores.standing(before.subscription.key)
    assert after.subscription.status is target
    assert after.subscription.writer == transition.audit.id
    assert after.subscription.version == before.subscription.version + 1
    assert after.health == before.health
    assert stores.audited(before.subscription) == [transition.audit.id]
    now_routed = ["invoice.paid", "order.sent"] if target is Status.ACTIVE else []
    assert stores.routed(before.subscription, "invoice.paid", "order.sent", "x") == now_routed


def test_a_suspension_writes_all_its_parts(stores: Stores) -> None:
    before = stores.have(a_subscription(), a_full_health())
    stopped = replace(before.health.recovery, version=2, status=RecoveryStatus.STOPPED)
    transition = suspension(before, notice=a_notice(), holds_streak=True)
    transition = replace(transition, health=replace(transition.health, recovery=stopped))
    assert stores.subscriptions.transition(transition)
    after = stores.standing(before.subscription.key)
    assert after.health == replace(
        before.health,
        epoch=5,
        circuit=closed(before.health.circuit),
        outage_from=before.health.outage_from,
        recovery=stopped,
        check_at=None,
    )
    assert after.subscription.disabled_at == NOW
    assert stores.notices.get(a_key(), a_notice().id) == a_notice()


def test_an_activation_clears_the_streaks_and_puts_the_recovery(stores: Stores) -> None:
    before = stores.have(a_suspended_subscription(), a_full_health())
    transition = activation(before)
    assert stores.subscriptions.transition(transition)
    after = stores.standing(before.subscription.key)
    assert after.health == replace(
        transition.health, streaks={}, consecutive_failures=0, first_failure_at=None, not_before=None
    )
    assert after.health.last_error == before.health.last_error
    assert after.subscription.disabled_at is None
    assert stores.recoveries.get(a_scope(), a_recovery().id) == a_recovery()


@pytest.mark.parametrize("other", [status for status in Status if status is not Status.ACTIVE])
def test_a_transition_from_another_status_writes_nothing(stores: Stores, other: Status) -> None:
    stored = stores.have(STANDING_AS[other](), a_failing_health())
    believed = Standing(a_subscription(), stored.health)
    transition = suspension(believed, notice=a_notice(), recovery=a_recovery())
    assert not stores.subscriptions.transition(transition)
    assert unchanged(stores, stored)


def test_a_transition_of_another_epoch_writes_nothing(stores: Stores) -> None:
    stored = stores.have(a_subscription(), a_failing_health(epoch=3))
    believed = Standing(stored.subscription, replace(stored.health, epoch=2))
    assert not stores.subscriptions.transition(suspension(believed, notice=a_notice()))
    assert unchanged(stores, stored)
    assert stores.routed(stored.subscription, "x") == ["x"]


def test_a_transition_that_changes_the_lock_loses_to_another_change_of_it(stores: Stores) -> None:
    stored = stores.have(a_suspended_subscription(), a_health(recovery=RecoveryLock(version=4)))
    believed = Standing(stored.subscription, replace(stored.health, recovery=RecoveryLock(version=3)))
    assert not stores.subscriptions.transition(activation(believed))
    assert unchanged(stores, stored)


def test_a_transition_that_leaves_the_lock_keeps_another_s_change_of_it(stores: Stores) -> None:
    stored = stores.have(a_subscription(), a_health(recovery=a_lock(version=4)))
    believed = Standing(stored.subscription, replace(stored.health, recovery=a_lock(version=3)))
    assert stores.subscriptions.transition(suspension(believed))
    assert stores.standing(stored.subscription.key).health.recovery == a_lock(version=4)


@pytest.mark.parametrize(
    "stored",
    [
        a_health(),
        a_failing_health(count=24),
        a_failing_health(count=25, hours=12),
    ],
    ids=["reset", "fewer", "begun anew"],
)
def test_a_success_before_the_suspension_wins(stores: Stores, stored: Health) -> None:
    standing = stores.have(a_subscription(), stored)
    believed = Standing(standing.subscription, a_failing_health())
    assert not stores.subscriptions.transition(suspension(believed, holds_streak=True, notice=a_notice()))
    assert unchanged(stores, standing)


@pytest.mark.parametrize("count", [25, 26])
def test_more_failures_before_the_suspension_do_not_defeat_it(stores: Stores, count: int) -> None:
    standing = stores.have(a_subscription(), a_failing_health(count=count))
    believed = Standing(standing.subscription, a_failing_health(count=25))
    assert stores.subscriptions.transition(suspension(believed, holds_streak=True))
    assert stores.standing(a_key()).health.consecutive_failures == count


def test_without_holding_the_streak_a_success_does_not_defeat_a_pause(stores: Stores) -> None:
    standing = stores.have(a_subscription(), a_health())
    believed = Standing(standing.subscription, a_failing_health())
    assert stores.subscriptions.transition(suspension(believed))


def test_an_edit_in_between_defeats_no_transition_and_keeps_its_words(stores: Stores) -> None:
    read = stores.have(a_suspended_subscription(event_types=("a", "b")), a_health(outage_from=NOW - HOUR))
    edited = replace(read.subscription, event_types=("b", "c"), timeout_seconds=3)
    assert stores.subscriptions.edit(an_edit(read.subscription, number=7, after=edited))
    assert stores.subscriptions.transition(activation(read))
    after = stores.standing(a_key()).subscription
    assert (after.status, after.event_types, after.timeout_seconds) == (Status.ACTIVE, ("b", "c"), 3)
    assert after.version == read.subscription.version + 2
    assert stores.routed(after, "a", "b", "c") == ["b", "c"]


def test_a_filter_added_before_a_suspension_leaves_no_route_behind(stores: Stores) -> None:
    read = stores.have(a_subscription(event_types=("a",)))
    edited = replace(read.subscription, event_types=("a", "b"))
    assert stores.subscriptions.edit(an_edit(read.subscription, number=7, after=edited))
    assert stores.subscriptions.transition(suspension(read))
    assert stores.routed(read.subscription, "a", "b") == []


def test_a_suspension_keeps_the_start_of_an_outage_that_began_in_between(stores: Stores) -> None:
    read = stores.have(a_subscription())
    circuit = opened(read.health.circuit, CircuitRules(), now=NOW)
    began = NOW - 6 * MINUTE
    assert stores.health.write_circuit(read.health, circuit, outage_from=began)
    assert stores.subscriptions.transition(suspension(read))
    after = stores.standing(a_key()).health
    assert after.outage_from == began
    assert after.circuit.version > circuit.version
    assert not after.circuit.is_open


def test_an_activation_loses_to_an_outage_that_is_not_the_one_it_read(stores: Stores) -> None:
    stored = stores.have(a_suspended_subscription(), a_health(outage_from=NOW - HOUR))
    believed = Standing(stored.subscription, replace(stored.health, outage_from=NOW - MINUTE))
    assert not stores.subscriptions.transition(activation(believed))
    assert unchanged(stores, stored)


def test_a_check_asked_for_in_between_defeats_no_suspension(stores: Stores) -> None:
    read = stores.have(a_subscription())
    stores.health.set_check(a_key(), epoch=1, check_at=NOW)
    assert stores.subscriptions.transition(suspension(read))
    assert stores.standing(a_key()).health.check_at is None
    assert stores.health.due(NOW + HOUR - timedelta(microseconds=1), limit=9) == []


def test_a_notice_told_before_defeats_no_transition_and_is_not_told_again(stores: Stores) -> None:
    read = stores.have(a_subscription())
    told = a_notice(facts={"failures": "24"})
    assert stores.notices.put(told)
    assert stores.subscriptions.transition(suspension(read, notice=a_notice()))
    assert stores.notices.of(a_key(), limit=9) == [told]


@pytest.mark.parametrize("kept", [True, False], ids=["with a record", "whose record is gone"])
def test_a_suspension_ends_the_record_of_the_recovery_that_it_stops(stores: Stores, *, kept: bool) -> None:
    before = stores.have(a_subscription())
    if kept:
        assert stores.health.write_lock(before.health, a_lock(), a_recovery())
        before = stores.standing(a_key())
    ends = Ended(a_recovery().id, RecoveryStatus.STOPPED, NOW + HOUR)
    assert stores.subscriptions.transition(suspension(before, notice=a_notice(), ends=ends))
    stopped = replace(a_recovery(), status=ends.status, ended_at=ends.at)
    assert stores.recoveries.get(a_scope(), a_recovery().id) == (stopped if kept else None)
    assert stores.told(a_key()) == [a_notice().id]


def test_the_same_transition_again_stands_and_adds_nothing(stores: Stores) -> None:
    read = stores.have(a_subscription(), a_failing_health())
    transition = suspension(read, notice=a_notice(), holds_streak=True)
    assert stores.subscriptions.transition(transition)
    once = stores.standing(a_key())
    assert stores.subscriptions.transition(transition)
    assert stores.standing(a_key()) == once
    assert stores.audited(read.subscription) == [transition.audit.id]


def test_a_transition_that_another_followed_no_longer_stands(stores: Stores) -> None:
    read = stores.have(a_subscription())
    first = suspension(read, number=1)
    assert stores.subscriptions.transition(first)
    assert stores.subscriptions.transition(activation(stores.standing(a_key()), number=2))
    assert not stores.subscriptions.transition(first)
    again = replace(suspension(stores.standing(a_key())), audit=first.audit)
    assert not stores.subscriptions.transition(again)
    assert stores.standing(a_key()).subscription.writer == an_audit_record(2).id


def test_a_second_writer_of_the_same_transition_loses(stores: Stores) -> None:
    read = stores.have(a_subscription())
    assert stores.subscriptions.transition(suspension(read, number=1))
    assert not stores.subscriptions.transition(suspension(read, number=2))
    assert stores.audited(read.subscription) == [an_audit_record(1).id]


def test_a_transition_of_what_does_not_exist_makes_nothing(stores: Stores) -> None:
    transition = suspension(Standing(a_subscription(), a_health()), notice=a_notice())
    assert not stores.subscriptions.transition(transition)
    assert stores.subscriptions.get(a_key()) is None
    assert stores.audited(a_subscription()) == []


def test_a_recovery_put_again_keeps_its_counts_until_it_has_ended(stores: Stores) -> None:
    read = stores.have(a_suspended_subscription())
    recovery = a_recovery(kind=RecoveryKind.AUTOMATIC)
    assert stores.health.write_lock(read.health, a_lock(recovery), recovery)
    stores.recoveries.add_counts(a_key(), recovery.id, succeeded=3, failed=2, troubled=1)
    transition = activation(stores.standing(a_key()))
    assert stores.subscriptions.transition(replace(transition, recovery=replace(recovery, found=9)))
    found = stores.recoveries.get(a_scope(), recovery.id)
    assert found is not None
    assert (found.found, found.succeeded, found.failed, found.troubled) == (9, 3, 2, 1)


# ── edits ────────────────────────────────────────────────────────────────────────────────────────


def test_an_edit_writes_what_it_changed_and_raises_the_version(stores: Stores) -> None:
    before = stores.have(a_full_subscription(), a_full_health())
    after = replace(before.subscription, headers={}, maintenance_until=None, policy="strict")
    profile = a_profile(description="", metadata={"k": "v"})
    edit = an_edit(before.subscription, after=after, profile=profile, notice=a_notice())
    assert stores.subscriptions.edit(edit)
    stored = stores.standing(a_key())
    assert stored.subscription == replace(after, version=before.subscription.version + 1)
    assert stored.health == before.health
    assert stores.subscriptions.profile(a_key()) == profile
    assert stores.audited(after) == [edit.audit.id]
    assert stores.told(a_key()) == [a_notice().id]


def test_an_edit_of_an_older_version_writes_nothing(stores: Stores) -> None:
    before = stores.have(a_subscription())
    assert stores.subscriptions.edit(an_edit(before.subscription, number=1))
    once = stores.standing(a_key())
    late = replace(before.subscription, event_types=("other",))
    edit = an_edit(
        before.subscription, number=2, after=late, profile=a_profile(description="late"), notice=a_notice()
    )
    assert not stores.subscriptions.edit(edit)
    assert stores.standing(a_key()) == once
    assert stores.audited(late) == [an_audit_record(1).id]
    assert stores.subscriptions.profile(a_key()) == a_profile()
    assert stores.told(a_key()) == []
    assert stores.routed(late, "other", "x") == ["other", "x"]


def test_a_transition_makes_an_edit_read_again(stores: Stores) -> None:
    before = stores.have(a_subscription())
    assert stores.subscriptions.transition(suspension(before))
    assert not stores.subscriptions.edit(an_edit(before.subscription, number=2))


def test_the_same_edit_again_stands_and_adds_nothing(stores: Stores) -> None:
    before = stores.have(a_subscription())
    edit = an_edit(before.subscription)
    assert stores.subscriptions.edit(edit)
    once = stores.standing(a_key())
    assert stores.subscriptions.edit(edit)
    assert stores.standing(a_key()) == once


def test_an_edit_does_not_take_a_transition_s_place_as_writer(stores: Stores) -> None:
    before = stores.have(a_subscription())
    transition = suspension(before)
    assert stores.subscriptions.transition(transition)
    suspended = stores.standing(a_key()).subscription
    assert stores.subscriptions.edit(an_edit(suspended, number=2))
    assert stores.subscriptions.transition(transition)


def test_edited_filters_are_remembered_from_their_own_moments(stores: Stores) -> None:
    before = stores.have(a_subscription(event_types=("a",)))
    was, will = (
        FilterChange(at=NOW - HOUR, event_types=("a",)),
        FilterChange(at=NOW + MINUTE, event_types=("b", "c")),
    )
    after = replace(before.subscription, event_types=("b", "c"))
    assert stores.subscriptions.edit(an_edit(before.subscription, after=after, filter_changes=(will, was)))
    assert stores.subscriptions.filters(a_key()) == [was, will]
    assert stores.subscriptions.filters(a_key(2)) == []


@pytest.mark.parametrize("status", [Status.ACTIVE, Status.SUSPENDED])
def test_sixty_four_filters_give_way_to_sixty_four_others(stores: Stores, status: Status) -> None:
    old = tuple(f"old.t{n}" for n in range(64))
    new = tuple(f"new.t{n}" for n in range(64))
    before = stores.have(STANDING_AS[status](event_types=old))
    edit = an_edit(
        before.subscription,
        after=replace(before.subscription, event_types=new),
        profile=a_profile(description="all new"),
        filter_changes=(
            FilterChange(at=NOW, event_types=old),
            FilterChange(at=NOW + MINUTE, event_types=new),
        ),
        notice=a_notice(),
    )
    assert stores.subscriptions.edit(edit)
    routed = list(new) if status is Status.ACTIVE else []
    assert stores.routed(before.subscription, *old, *new) == routed


# ── routes ───────────────────────────────────────────────────────────────────────────────────────


def test_routes_are_the_tenant_s_and_mode_s_own_in_order_each_once(stores: Stores) -> None:
    stores.have(a_subscription(key=a_key(2), event_types=("*", "invoice.*", "invoice.paid")))
    stores.have(a_subscription(key=a_key(1)))
    stores.have(a_subscription(key=a_key(3), event_types=("invoice",)))
    stores.have(a_subscription(key=a_key(4, a_scope("other"))))
    stores.have(a_subscription(key=a_key(5, a_scope(mode=Mode.TEST))))
    found = stores.routes.matching(a_scope(), event_type="invoice.paid", resource_id=None)
    assert list(found) == [a_key(1).subscription_id, a_key(2).subscription_id]


def test_a_resource_s_events_reach_its_own_and_the_tenant_wide(stores: Stores) -> None:
    for number, resource in enumerate((None, "r_1", "r_2", "-"), start=1):
        stores.have(a_subscription(key=a_key(number), resource_id=resource))

    def reached(resource: str | None) -> list[int]:
        ids = stores.routes.matching(a_scope(), event_type="x", resource_id=resource)
        return [int(i.removeprefix("sub_")) for i in ids]

    assert [reached(r) for r in (None, "r_1", "-", "r_9")] == [[1], [1, 2], [1, 4], [1]]


# ── a staged endpoint ────────────────────────────────────────────────────────────────────────────

STAGED = "https://new.customer.example/in"


def staged(standing: Standing, url: str = STAGED, *, number: int = 9) -> Edit:
    before = standing.subscription
    after = replace(before, pending_endpoint_url=url, token_hash="e" * 64, token_expires_at=NOW + 24 * HOUR)
    return an_edit(before, after=after, number=number, notice=a_notice(dedupe=f"version-{number}"))


def swap(standing: Standing, *, number: int = 10) -> Transition:
    before = standing.subscription
    after = replace(
        before,
        endpoint_url=before.pending_endpoint_url or "",
        pending_endpoint_url=None,
        token_hash=None,
        token_expires_at=None,
    )
    health = replace(standing.health, epoch=standing.health.epoch + 1, outage_from=None)
    return a_transition(standing, after, number=number, health=health, holds_token=True, clears_streaks=True)


def holder(stores: Stores, url: str) -> str | None:
    """Whose the URL is: who stands in the way of another subscription for it."""
    other = a_subscription(key=a_key(77 + len(url)), endpoint_url=url)
    audit = an_audit_record(0, subject=other.id)
    return stores.subscriptions.create(other, a_profile(), a_health(key=other.key), audit)


def test_a_staged_endpoint_is_reserved_beside_the_present_one(stores: Stores) -> None:
    standing = stores.have(a_subscription())
    assert stores.subscriptions.edit(staged(standing))
    present = stores.standing(standing.subscription.key).subscription
    assert present.pending_endpoint_url == STAGED
    assert holder(stores, STAGED) == holder(stores, present.endpoint_url) == present.id
    assert stores.subscriptions.expired_tokens(NOW + 24 * HOUR, limit=10) == [present.key]
    assert stores.told(present.key)


def test_an_endpoint_that_another_has_cannot_be_staged(stores: Stores) -> None:
    standing, other = stores.have(a_subscription()), stores.have(a_subscription(key=a_key(2)))
    with pytest.raises(DuplicateSubscriptionError) as caught:
        stores.subscriptions.edit(staged(standing, other.subscription.endpoint_url))
    assert caught.value.existing_id == other.subscription.id
    assert unchanged(stores, standing)
    assert stores.told(standing.subscription.key) == []


def test_staging_another_endpoint_frees_the_one_staged_before(stores: Stores) -> None:
    standing = stores.have(a_subscription())
    assert stores.subscriptions.edit(staged(standing))
    again = staged(stores.standing(standing.subscription.key), STAGED + "/2", number=11)
    assert stores.subscriptions.edit(again)
    assert holder(stores, STAGED + "/2") == standing.subscription.id
    assert holder(stores, STAGED) is None


def test_staging_again_whose_answer_was_lost_is_ones_own(stores: Stores) -> None:
    standing = stores.have(a_subscription())
    assert stores.subscriptions.edit(staged(standing))
    assert stores.subscriptions.edit(staged(standing))


def test_a_swap_frees_the_old_endpoint_and_keeps_the_new_one(stores: Stores) -> None:
    old = stores.have(a_subscription())
    stores.subscriptions.edit(staged(old))
    key = old.subscription.key
    assert stores.subscriptions.transition(swap(stores.standing(key)))
    present = stores.standing(key)
    assert present.subscription.endpoint_url == STAGED
    assert present.health.epoch == old.health.epoch + 1
    assert stores.subscriptions.expired_tokens(NOW + 24 * HOUR, limit=10) == []
    assert stores.routed(present.subscription, "any") == ["any"]
    assert holder(stores, STAGED) == key.subscription_id
    assert holder(stores, old.subscription.endpoint_url) is None


def test_a_swap_loses_to_another_url_that_was_staged_meanwhile(stores: Stores) -> None:
    standing = stores.have(a_subscription())
    stores.subscriptions.edit(staged(standing))
    believed = stores.standing(standing.subscription.key)
    fresh = staged(believed, STAGED + "/2", number=11)
    fresh = replace(fresh, after=replace(fresh.after, token_hash="d" * 64))
    assert stores.subscriptions.edit(fresh)
    assert not stores.subscriptions.transition(swap(believed))
    present = stores.standing(standing.subscription.key).subscription
    assert (present.endpoint_url, present.pending_endpoint_url) == (
        standing.subscription.endpoint_url,
        STAGED + "/2",
    )


def test_an_activation_loses_to_a_fresh_challenge(stores: Stores) -> None:
    believed = stores.have(a_pending_subscription())
    fresh = replace(believed.subscription, token_hash="d" * 64)
    assert stores.subscriptions.edit(an_edit(believed.subscription, after=fresh))
    active = replace(believed.subscription, status=Status.ACTIVE, token_hash=None, token_expires_at=None)
    assert not stores.subscriptions.transition(a_transition(believed, active, holds_token=True))
    assert stores.standing(believed.subscription.key).subscription.status is Status.PENDING


def test_a_pending_subscription_s_new_endpoint_is_reserved_and_its_old_one_free(stores: Stores) -> None:
    before = stores.have(a_pending_subscription()).subscription
    assert stores.subscriptions.edit(an_edit(before, after=replace(before, endpoint_url=STAGED)))
    assert holder(stores, STAGED) == before.id
    assert holder(stores, before.endpoint_url) is None


def test_a_revocation_frees_both_endpoints_though_one_was_staged_meanwhile(stores: Stores) -> None:
    believed = stores.have(a_subscription())
    stores.subscriptions.edit(staged(believed))
    revoked = replace(believed.subscription, status=Status.REVOKED)
    assert stores.subscriptions.transition(a_transition(believed, revoked))
    assert stores.subscriptions.expired_tokens(NOW + 24 * HOUR, limit=10) == []
    assert holder(stores, STAGED) is None
    assert holder(stores, believed.subscription.endpoint_url) is None


def test_a_suspension_keeps_what_is_staged(stores: Stores) -> None:
    believed = stores.have(a_subscription())
    stores.subscriptions.edit(staged(believed))
    assert stores.subscriptions.transition(suspension(believed))
    present = stores.standing(believed.subscription.key).subscription
    assert (present.status, present.pending_endpoint_url) == (Status.SUSPENDED, STAGED)
    assert stores.subscriptions.expired_tokens(NOW + 24 * HOUR, limit=10) == [present.key]
    assert holder(stores, STAGED) == present.id


def test_one_trailing_slash_more_is_the_same_reservation(stores: Stores) -> None:
    standing = stores.have(a_subscription())
    slashed = standing.subscription.endpoint_url + "/"
    assert stores.subscriptions.edit(staged(standing, slashed))
    assert stores.subscriptions.transition(swap(stores.standing(standing.subscription.key)))
    assert holder(stores, standing.subscription.endpoint_url) == standing.subscription.id

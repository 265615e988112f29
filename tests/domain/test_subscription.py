"""Each legal and each illegal change of status, and which events a subscription is owed."""

from datetime import datetime, timedelta
from itertools import product

import pytest
from hookkeeper.domain.errors import IllegalTransitionError
from hookkeeper.domain.subscription import (
    TRANSITIONS,
    FilterChange,
    Status,
    Trigger,
    matched_since,
    next_status,
    owed_from,
    wants,
)

from tests.builders import HOUR, NOW, a_subscription

LEGAL = {
    (Status.PENDING, Trigger.CHALLENGE_ECHOED): Status.ACTIVE,
    (Status.PENDING, Trigger.TOKEN_EXPIRED): Status.REVOKED,
    (Status.PENDING, Trigger.REVOKED): Status.REVOKED,
    (Status.ACTIVE, Trigger.POLICY_CROSSED): Status.SUSPENDED,
    (Status.ACTIVE, Trigger.OWNER_PAUSED): Status.SUSPENDED,
    (Status.ACTIVE, Trigger.CONSENT_WITHDRAWN): Status.SUSPENDED,
    (Status.ACTIVE, Trigger.REVOKED): Status.REVOKED,
    (Status.SUSPENDED, Trigger.PROBE_PASSED): Status.ACTIVE,
    (Status.SUSPENDED, Trigger.RESUMED_UNPROBED): Status.ACTIVE,
    (Status.SUSPENDED, Trigger.REVOKED): Status.REVOKED,
}
EVERY = list(product(Status, Trigger))
TICK = timedelta(microseconds=1)


def test_the_legal_changes_are_these_and_no_others() -> None:
    assert TRANSITIONS == LEGAL


@pytest.mark.parametrize("status, trigger", [pair for pair in EVERY if pair in LEGAL])
def test_each_legal_trigger_leads_on(status: Status, trigger: Trigger) -> None:
    assert next_status(a_subscription(status=status), trigger) is LEGAL[status, trigger]


@pytest.mark.parametrize("status, trigger", [pair for pair in EVERY if pair not in LEGAL])
def test_each_illegal_trigger_is_refused_with_a_sentence(status: Status, trigger: Trigger) -> None:
    subscription = a_subscription(status=status)
    with pytest.raises(
        IllegalTransitionError, match=rf"^{subscription.id} is {status}; only .+ can "
    ) as told:
        next_status(subscription, trigger)
    assert told.value.status == status


def test_revoked_is_for_good() -> None:
    assert not [pair for pair in TRANSITIONS if pair[0] is Status.REVOKED]


@pytest.mark.parametrize(
    "held, carried, wanted",
    [
        (None, None, True),
        (None, "r_1", True),
        ("r_1", "r_1", True),
        ("r_1", "r_2", False),
        ("r_1", None, False),
    ],
)
def test_a_resource_subscription_gets_only_its_own_events(
    held: str | None, carried: str | None, *, wanted: bool
) -> None:
    subscription = a_subscription(resource_id=held)
    assert wants(subscription, event_type="invoice.paid", resource_id=carried) is wanted


def test_many_matching_patterns_are_one_match() -> None:
    patterns = ("order.*", "order.line.*", "order.line.added", "*")
    subscription = a_subscription(event_types=patterns)
    assert wants(subscription, event_type="order.line.added", resource_id=None) is True
    assert not wants(
        a_subscription(event_types=("orders.*",)), event_type="order.line.added", resource_id=None
    )


@pytest.mark.parametrize(
    "first_active_at, owed",
    [(None, False), (NOW + TICK, False), (NOW, True), (NOW - HOUR, True)],
)
def test_nothing_is_owed_from_before_the_first_activation(
    first_active_at: datetime | None, *, owed: bool
) -> None:
    assert owed_from(a_subscription(first_active_at=first_active_at), archived_at=NOW) is owed


A, B, BOTH = ("invoice.paid",), ("order.sent",), ("invoice.paid", "order.sent")


def history(*changes: tuple[int, tuple[str, ...]]) -> list[FilterChange]:
    """Filters in force from so many hours before or after NOW."""
    return [FilterChange(at=NOW + hours * HOUR, event_types=types) for hours, types in changes]


@pytest.mark.parametrize(
    "present, changes, owed",
    [
        (A, [], True),
        (B, [], False),
        (A, [(-9, BOTH), (-1, A)], True),
        (A, [(-9, B), (-1, A)], True),
        (A, [(-9, B), (0, A)], True),
        (A, [(-9, B), (1, A)], False),
        (A, [(-9, A), (1, B), (2, A)], False),
        (A, [(-9, A), (-3, B), (-2, A)], True),
        (B, [(-9, A), (1, B)], False),
        (BOTH, [(-9, A), (1, BOTH)], True),
        (A, [(1, A), (-9, BOTH)], True),
    ],
    ids=[
        "never edited",
        "never wanted",
        "narrowed before",
        "widened before",
        "widened at that very moment",
        "widened after",
        "away for a while after",
        "away for a while before",
        "narrowed away after",
        "widened by another type after",
        "in any order",
    ],
)
def test_an_event_is_owed_if_it_matched_when_archived_and_at_every_moment_since(
    present: tuple[str, ...], changes: list[tuple[int, tuple[str, ...]]], *, owed: bool
) -> None:
    subscription = a_subscription(event_types=present)
    assert (
        matched_since(
            subscription, history(*changes), event_type="invoice.paid", resource_id=None, archived_at=NOW
        )
        is owed
    )


@pytest.mark.parametrize(
    "seconds, present, owed",
    [(10, A, True), (11, A, False), (10, B, False)],
    ids=["a cache may have known", "none can have known", "narrowed, which is in force at once"],
)
def test_what_a_new_filter_may_have_routed_already_is_owed_too(
    seconds: int, present: tuple[str, ...], *, owed: bool
) -> None:
    """Else an outage that follows an edit at once would swallow it."""
    widened = FilterChange(at=NOW + timedelta(seconds=seconds), event_types=present)
    assert (
        matched_since(
            a_subscription(event_types=present),
            [FilterChange(at=NOW - HOUR, event_types=B), widened],
            event_type="invoice.paid",
            resource_id=None,
            archived_at=NOW,
            routing_cache=timedelta(seconds=10),
        )
        is owed
    )


def test_the_resource_is_asked_as_well_as_the_types() -> None:
    subscription = a_subscription(resource_id="r_1")
    assert not matched_since(subscription, [], event_type="a", resource_id="r_2", archived_at=NOW)


@pytest.mark.parametrize("seconds, owed", [(-11, False), (-10, True), (-1, True), (0, True)])
def test_an_outage_right_after_the_first_activation_owes_what_may_have_been_routed(
    seconds: int, *, owed: bool
) -> None:
    subscription = a_subscription(first_active_at=NOW)
    archived_at = NOW + timedelta(seconds=seconds)
    cache = timedelta(seconds=10)
    assert owed_from(subscription, archived_at=archived_at, routing_cache=cache) is owed

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from itertools import pairwise

import pytest
from hookkeeper.domain.config import Margins, RuntimeConfig
from hookkeeper.domain.health import should_suspend
from hookkeeper.domain.notice import Notice, NoticeKind, NoticeStatus
from hookkeeper.domain.recovery import RecoveryStatus
from hookkeeper.domain.subscription import Trigger
from hookkeeper.domain.tenancy import SubscriptionKey
from hookkeeper.ports import Mail, MailDeferredError, MailRefusedError
from hookkeeper.usecases import transition
from hookkeeper.usecases.notify import GIVE_UP_AFTER, LEASE, Notified, Told, notify
from hookkeeper.usecases.suspend import Ruling, suspend

from tests.builders import (
    ACTOR,
    HOUR,
    MINUTE,
    NOW,
    a_failing_health,
    a_key,
    a_lock,
    a_notice,
    a_profile,
    a_recovery,
    a_subscription,
)
from tests.fakes import (
    FakeFuse,
    FakeHealthStore,
    FakeIds,
    FakeLedger,
    FakeMailer,
    FakeNotices,
    FakeOperatorBus,
    FakeSubscriptions,
    World,
)


class Killed(BaseException):
    """The process is gone: nothing catches it."""


@dataclass
class Office:
    """A pending notice, a provider that may refuse, and the notify that stands between."""

    notice: Notice = field(default_factory=a_notice)
    refuse: Callable[[Mail], None] = lambda _: None
    world: World = field(default_factory=World)

    def __post_init__(self) -> None:
        self.notices = FakeNotices(self.world)
        self.notices.put(self.notice)

    def notified(self, *, after: timedelta = timedelta(0), notice: Notice | None = None) -> Notified:
        asked = notice or self.notice
        return notify(
            asked.key,
            asked.id,
            now=NOW + after,
            console_url="https://hooks.provider.example/console",
            notices=self.notices,
            mailer=FakeMailer(self.world, self.refuse),
            bus=FakeOperatorBus(self.world),
            ids=FakeIds(self.world),
        )

    @property
    def stored(self) -> Notice:
        stored = self.notices.get(self.notice.key, self.notice.id)
        assert stored is not None
        return stored

    def swept(self, *, until: timedelta, every: timedelta = MINUTE) -> list[Told]:
        """What the sweep's messages bring, minute by minute."""
        told: list[Told] = []
        after = timedelta(0)
        while after <= until:
            stuck = self.notices.stuck(NOW + after, limit=10)
            told += [self.notified(after=after, notice=notice).told for notice in stuck]
            after += every
        return told

    def kill(self, *, before: str | None = None, after: str | None = None, nth: int = 1) -> None:
        """Kill the process once, before or after the n-th call of a port's method."""
        left = [nth]

        def killer(wanted: str | None) -> Callable[[str], None]:
            def on_call(call: str) -> None:
                if call == wanted:
                    left[0] -= 1
                    if left[0] == 0:
                        raise Killed

            return on_call

        self.world.before_call, self.world.after_call = killer(before), killer(after)


def deferring(times: int) -> Callable[[Mail], None]:
    left = [times]

    def refuse(_: Mail) -> None:
        if left[0] > 0:
            left[0] -= 1
            raise MailDeferredError("Maximum sending rate exceeded")

    return refuse


def refusing(_: Mail) -> None:
    raise MailRefusedError("on the suppression list")


def test_a_pending_notice_is_mailed_once_told_on_the_bus_and_marked_sent() -> None:
    office = Office()
    assert office.notified().told is Told.SENT
    assert [mail.to for mail in office.world.mails] == ["owner@customer.example"]
    assert office.stored.status is NoticeStatus.SENT
    assert office.stored.message_id == "ses-1"
    assert office.stored.sent_at == NOW
    assert [detail_type for detail_type, _ in office.world.bus_events] == [
        "hookkeeper.subscription.suspended"
    ]


def test_a_message_that_comes_again_sends_nothing() -> None:
    office = Office()
    office.notified()
    assert office.notified().told is Told.SETTLED
    assert office.notified(after=24 * HOUR).told is Told.SETTLED
    assert len(office.world.mails) == 1
    assert len(office.world.bus_events) == 1


def test_two_at_the_same_time_send_one_mail() -> None:
    office = Office()
    nested: list[Told] = []

    def during(_: Mail) -> None:
        if not nested:
            nested.append(office.notified().told)

    office.refuse = during
    assert office.notified().told is Told.SENT
    assert nested == [Told.HELD]
    assert len(office.world.mails) == 1


def test_a_notice_that_is_gone_is_none_of_our_business() -> None:
    assert Office().notified(notice=a_notice(dedupe="epoch-9")).told is Told.GONE


# ── F11: the provider fails, or we do ────────────────────────────────────────────────────────────


def test_f11a_throttled_twice_and_then_taken_is_one_mail() -> None:
    office = Office(refuse=deferring(2))
    assert office.notified().told is Told.DEFERRED
    assert office.stored.status is NoticeStatus.PENDING
    assert office.swept(until=HOUR) == [Told.DEFERRED, Told.SENT]
    assert len(office.world.mails) == 1
    assert office.stored.attempts == 2


def test_f11b_killed_right_after_the_transaction_the_sweep_sends_it() -> None:
    office = Office()
    assert office.swept(until=timedelta(minutes=2)) == [Told.SENT]
    assert len(office.world.mails) == 1


@pytest.mark.parametrize(
    "before, after, mails",
    [
        pytest.param("Notices.claim", None, 1, id="before the claim"),
        pytest.param(None, "Notices.claim", 1, id="after the claim"),
        pytest.param("Mailer.send", None, 1, id="before the provider was asked"),
        pytest.param(None, "Mailer.send", 2, id="between the provider's yes and the mark"),
        pytest.param(None, "Notices.mark", 1, id="after the mark"),
        pytest.param("OperatorBus.publish", None, 1, id="before the bus"),
        pytest.param(None, "OperatorBus.publish", 1, id="after the bus"),
    ],
)
def test_f11c_killed_anywhere_it_is_sent_and_twice_only_between_yes_and_mark(
    before: str | None, after: str | None, mails: int
) -> None:
    office = Office()
    office.kill(before=before, after=after)
    with pytest.raises(Killed):
        office.notified()
    office.world.before_call = office.world.after_call = None
    assert office.swept(until=HOUR) == [Told.SENT]
    assert len(office.world.mails) == mails
    assert 1 <= len(office.world.bus_events) <= 2
    assert office.stored.status is NoticeStatus.SENT


def test_f11d_a_refusal_for_good_is_no_mail_visible_and_no_endless_loop() -> None:
    office = Office(refuse=refusing)
    assert office.notified().told is Told.SUPPRESSED
    assert office.stored.status is NoticeStatus.SUPPRESSED
    assert office.stored.message_id is None
    assert office.swept(until=24 * HOUR) == []
    assert office.world.mails == []
    assert office.world.bus_events[0][1]["mail"] == "suppressed"


def test_bb07_a_time_out_then_a_rate_limit_then_a_yes_is_one_accepted_message() -> None:
    office = Office(refuse=deferring(2))
    office.notified()
    assert office.stored.status is NoticeStatus.PENDING
    office.swept(until=HOUR)
    assert office.stored.message_id == "ses-1"


def test_bb07_a_quota_that_is_out_for_26_hours_only_delays_the_mail() -> None:
    office = Office()
    opens = NOW + 26 * HOUR
    tries: list[datetime] = []

    def until_tomorrow(_: Mail) -> None:
        tries.append(office.stored.claimed_until or NOW)
        if tries[-1] - LEASE < opens:
            raise MailDeferredError("Daily message quota exceeded")

    office.refuse = until_tomorrow
    office.notified()
    told = office.swept(until=28 * HOUR)
    assert told[-1] is Told.SENT
    assert set(told[:-1]) == {Told.DEFERRED}
    assert len(office.world.mails) == 1
    assert len(told) < 40
    gaps = [later - earlier for earlier, later in pairwise(tries)]
    assert gaps == sorted(gaps)
    assert max(gaps) <= HOUR + MINUTE
    assert len(office.world.bus_events) == 1


def test_bb07_an_address_on_the_suppression_list_is_suppressed_and_not_sent() -> None:
    office = Office(refuse=refusing)
    office.notified()
    assert office.stored.status is NoticeStatus.SUPPRESSED
    assert office.stored.sent_at is None


def test_bb38d_a_claim_whose_answer_was_lost_leads_to_one_mail() -> None:
    office = Office()
    office.kill(after="Notices.claim")
    with pytest.raises(Killed):
        office.notified()
    office.world.after_call = None
    assert office.notified(after=timedelta(seconds=1)).told is Told.HELD
    assert office.notified(after=LEASE).told is Told.SENT
    assert len(office.world.mails) == 1


def test_a_week_of_refusals_ends_as_failed_for_everyone_to_see() -> None:
    office = Office(refuse=deferring(10_000))
    office.notified()
    told = office.swept(until=GIVE_UP_AFTER + 2 * HOUR)
    assert told[-1] is Told.FAILED
    assert office.stored.status is NoticeStatus.FAILED
    assert office.swept(until=GIVE_UP_AFTER + 24 * HOUR) == []


@pytest.mark.parametrize("address", ["", "a@x.example\r\nBcc: v@y.example", "a@x.example,v@y.example"])
def test_t56_an_address_that_is_not_one_is_never_given_to_the_provider(address: str) -> None:
    office = Office(a_notice(owner_email=address))
    assert office.notified().told is Told.FAILED
    assert office.world.mails == []
    assert office.world.bus_events[0][1]["mail"] == "failed"


def test_a_bus_that_is_down_costs_no_mail_and_is_told_later() -> None:
    office = Office()
    office.kill(before="OperatorBus.publish")
    with pytest.raises(Killed):
        office.notified()
    assert len(office.world.mails) == 1
    office.world.before_call = None
    office.swept(until=HOUR)
    assert len(office.world.mails) == 1
    assert len(office.world.bus_events) == 1


def test_the_bus_gets_the_same_facts_but_no_query_and_no_address() -> None:
    office = Office(a_notice(endpoint_url="https://hooks.customer.example/in?token=s3cret"))
    office.notified()
    _, detail = office.world.bus_events[0]
    assert detail == {
        **office.notice.facts,
        "tenant": "acme",
        "mode": "live",
        "subscription_id": a_key().subscription_id,
        "endpoint_url": "https://hooks.customer.example/in",
        "notice_id": office.notice.id,
        "at": "2026-12-01T12:00:00+00:00",
        "mail": "sent",
    }


@pytest.mark.parametrize("kind", list(NoticeKind))
def test_every_kind_goes_to_mail_and_bus(kind: NoticeKind) -> None:
    office = Office(a_notice(kind=kind))
    assert office.notified().told is Told.SENT
    assert office.world.bus_events[0][0] == f"hookkeeper.subscription.{kind}"


# ── F12, F13: suspensions as they happen ─────────────────────────────────────────────────────────


def suspended(world: World, key: SubscriptionKey, *, now: datetime) -> Notice:
    ruled = suspend(
        key,
        now=now,
        config=RuntimeConfig(),
        margins=Margins(),
        subscriptions=FakeSubscriptions(world),
        health=FakeHealthStore(world),
        fuse=FakeFuse(world),
        ledger=FakeLedger(world),
        notices=FakeNotices(world),
        ids=FakeIds(world),
    )
    assert ruled.ruling is Ruling.SUSPENDED
    return max(world.notices_of(NoticeKind.SUSPENDED), key=lambda notice: notice.at)


def reenabled(world: World, key: SubscriptionKey, *, now: datetime) -> None:
    recovery = a_recovery(status=RecoveryStatus.PROBING)
    world.recoveries[key.scope, recovery.id] = recovery
    world.health[key] = replace(world.health[key], recovery=a_lock(recovery))
    changed = transition.activate(
        key,
        trigger=Trigger.PROBE_PASSED,
        recovery=recovery,
        actor=ACTOR,
        now=now,
        subscriptions=FakeSubscriptions(world),
        ids=FakeIds(world),
    )
    assert changed is not None


def test_f12_two_suspensions_within_a_minute_are_two_mails_with_their_own_numbers() -> None:
    world = World()
    key = world.add(a_subscription(), a_failing_health(25), a_profile())
    first = suspended(world, key, now=NOW)
    reenabled(world, key, now=NOW + timedelta(seconds=20))
    world.health[key] = replace(
        a_failing_health(31), epoch=world.health[key].epoch, recovery=world.health[key].recovery
    )
    second = suspended(world, key, now=NOW + timedelta(seconds=40))
    assert first.id != second.id
    office = Office(first, world=world)
    for notice in (first, second):
        assert office.notified(notice=notice, after=MINUTE).told is Told.SENT
    texts = [mail.text for mail in world.mails]
    assert "25 deliveries in a row" in texts[0]
    assert "31 deliveries in a row" in texts[1]


def test_f13_the_mail_tells_of_the_moment_of_the_suspension_whatever_happened_since() -> None:
    world = World()
    key = world.add(a_subscription(), a_failing_health(25), a_profile())
    notice = suspended(world, key, now=NOW)
    world.health[key] = replace(world.health[key], consecutive_failures=99, last_status_code=418)
    world.subscriptions[key] = replace(world.subscriptions[key], endpoint_url="https://elsewhere.example/")
    world.profiles[key] = a_profile(owner_email="someone@else.example")
    Office(notice, world=world).notified(after=HOUR)
    mail = world.mails[0]
    assert mail.to == "owner@customer.example"
    assert a_subscription().endpoint_url in mail.text
    assert "25 deliveries in a row" in mail.text
    assert "500 Internal Server Error" in mail.text
    assert "30 November 2026, 23:00 UTC" in mail.text


def test_f13_the_facts_are_those_of_the_verdict() -> None:
    world = World()
    health = a_failing_health(25)
    key = world.add(a_subscription(), health, a_profile())
    verdict = should_suspend(health, RuntimeConfig().policy_of(a_subscription()), NOW)
    notice = suspended(world, key, now=NOW)
    assert verdict.gate is not None
    assert notice.facts["failures"] == str(verdict.gate.count)

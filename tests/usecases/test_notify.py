import re
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from itertools import pairwise

import pytest
from hookkeeper.domain.config import Margins, RuntimeConfig
from hookkeeper.domain.health import should_suspend
from hookkeeper.domain.mailbox import AddressFault, MailRules
from hookkeeper.domain.notice import STALE_AFTER, STUCK_AFTER, Notice, NoticeKind, NoticeStatus
from hookkeeper.domain.recovery import RecoveryStatus
from hookkeeper.domain.subscription import Trigger
from hookkeeper.domain.tenancy import Mode, SubscriptionKey
from hookkeeper.ports import Mail, MailDeferredError, MailRefusedError
from hookkeeper.usecases import transition
from hookkeeper.usecases.notify import (
    GIVE_UP_AFTER,
    LEASE,
    MAX_IN_ONE_MAIL,
    Notified,
    NotifyPorts,
    Told,
    by_address,
    notify,
)
from hookkeeper.usecases.release_notice import release_notice
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
    a_scope,
    a_subscription,
)
from tests.fakes import (
    FakeAudit,
    FakeFuse,
    FakeHealthStore,
    FakeIds,
    FakeLedger,
    FakeMailboxes,
    FakeMailer,
    FakeNotices,
    FakeOperatorBus,
    FakeSubscriptions,
    World,
)

CONSOLE = "https://hooks.provider.example/console"


class Killed(BaseException):
    """The process is gone: nothing catches it."""


@dataclass
class Office:
    """A pending notice, a provider that may refuse, and the notify that stands between."""

    notice: Notice = field(default_factory=a_notice)
    refuse: Callable[[Mail], None] = lambda _: None
    world: World = field(default_factory=World)
    rules: MailRules = field(default_factory=MailRules)

    def __post_init__(self) -> None:
        self.notices = FakeNotices(self.world)
        self.notices.put(self.notice)

    @property
    def ports(self) -> NotifyPorts:
        return NotifyPorts(
            notices=self.notices,
            mailboxes=FakeMailboxes(self.world),
            mailer=FakeMailer(self.world, self.refuse),
            bus=FakeOperatorBus(self.world),
            ids=FakeIds(self.world),
        )

    def told(self, *notices: Notice, after: timedelta = timedelta(0)) -> list[Told]:
        """How these stand after one message that asks for them, as they are stored."""
        stored = [self.look(notice) for notice in notices]
        done = [each for group in by_address(stored) for each in self._notify(group, after)]
        return [each.told for each in done]

    def _notify(self, notices: list[Notice], after: timedelta) -> list[Notified]:
        return notify(notices, now=NOW + after, rules=self.rules, console_url=CONSOLE, ports=self.ports)

    def notified(self, *, after: timedelta = timedelta(0), notice: Notice | None = None) -> Notified:
        (done,) = self._notify([self.look(notice or self.notice)], after)
        return done

    def look(self, notice: Notice) -> Notice:
        stored = self.notices.get(notice.key, notice.id)
        assert stored is not None
        return stored

    @property
    def stored(self) -> Notice:
        return self.look(self.notice)

    def swept(
        self, *, until: timedelta, since: timedelta = timedelta(0), every: timedelta = MINUTE
    ) -> list[Told]:
        """What the sweep's messages bring, minute by minute."""
        told: list[Told] = []
        after = since
        while after <= until:
            told += self.told(*self.notices.stuck(NOW + after, limit=500), after=after)
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
        pytest.param(None, "Mailer.send", 2, id="between the provider's yes and its mark"),
        pytest.param("Mailboxes.count", None, 2, id="just before its mark"),
        pytest.param(None, "Mailboxes.count", 1, id="after its mark"),
        pytest.param("Mailboxes.hold", None, 1, id="before the mailbox was held"),
        pytest.param(None, "Mailboxes.hold", 1, id="after the mailbox was held"),
        pytest.param("Mailboxes.release", None, 1, id="before the mailbox was released"),
        pytest.param(None, "Mailboxes.release", 1, id="after the mailbox was released"),
        pytest.param("Notices.mark", None, 1, id="before the last mark"),
        pytest.param(None, "Notices.mark", 1, id="after the last mark"),
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
    office.swept(until=HOUR)
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


@pytest.mark.parametrize("fact", ["new_endpoint", "former_endpoint"])
def test_an_owner_sees_another_endpoint_whole_and_operators_without_its_query(fact: str) -> None:
    url = f"https://new.customer.example/{'in/' * 200}?token=s3cret"
    office = Office(a_notice(kind=NoticeKind.URL_STAGED, facts={fact: url}))
    office.notified()
    assert url in office.world.mails[0].text
    assert office.world.bus_events[0][1][fact] == url.partition("?")[0]


@pytest.mark.parametrize("kind", list(NoticeKind))
def test_every_kind_goes_to_mail_and_bus(kind: NoticeKind) -> None:
    office = Office(a_notice(kind=kind))
    assert office.notified().told is Told.SENT
    assert office.world.bus_events[0][0] == f"hookkeeper.subscription.{kind}"


# ── T58: many at once ────────────────────────────────────────────────────────────────────────────


def a_flood(office: Office, many: int, *, at: timedelta = timedelta(0)) -> list[Notice]:
    """So many subscriptions of one owner, suspended at once."""
    notices = [a_notice(key=a_key(100 + n), at=NOW + at) for n in range(many)]
    for notice in notices:
        assert office.notices.put(notice)
    return notices


def named(mails: list[Mail]) -> Counter[str]:
    """How often each subscription is named, by the links of the mails."""
    text = "\n".join(mail.text for mail in mails)
    return Counter(re.findall(r"/subscriptions/(sub_[0-9]+)$", text, re.MULTILINE))


def test_t58_five_hundred_suspensions_in_one_outage_are_few_mails_that_name_each_once() -> None:
    office = Office()
    flood = a_flood(office, 499)
    told = [office.told(notice)[0] for notice in [office.notice, *flood]]
    assert told == [Told.SENT] + [Told.GATHERED] * 499
    assert len(office.world.bus_events) == 500
    assert office.swept(until=4 * MINUTE) == []
    assert office.swept(since=5 * MINUTE, until=HOUR) == [Told.SENT] * 499
    assert len(office.world.mails) == 1 + -(-499 // MAX_IN_ONE_MAIL) == 8
    assert named(office.world.mails) == {n.key.subscription_id: 1 for n in [office.notice, *flood]}
    assert len(office.world.bus_events) == 500, "operators are not told twice"
    for notice in flood:
        stored = office.look(notice)
        assert (stored.status, stored.operators_told) == (NoticeStatus.SENT, True)
        assert office.world.carried[notice.key.scope, stored.message_id or ""].count(notice.id) == 1


def test_notices_that_come_in_one_batch_share_the_first_mail() -> None:
    office = Office()
    flood = a_flood(office, 9)
    assert office.told(office.notice, *flood) == [Told.SENT] * 10
    assert len(office.world.mails) == 1
    assert set(named(office.world.mails).values()) == {1}


def test_owners_and_tenants_do_not_share_mails() -> None:
    office = Office()
    others = [
        a_notice(key=a_key(2), owner_email="someone@else.example"),
        a_notice(key=a_key(3), owner_email="OWNER@customer.example"),
        a_notice(key=a_key(4, a_scope("other"))),
        a_notice(key=a_key(5, a_scope(mode=Mode.TEST))),
    ]
    for notice in others:
        office.notices.put(notice)
    office.told(office.notice, *others)
    assert sorted((mail.to, *named([mail]).values()) for mail in office.world.mails) == [
        ("owner@customer.example", 1),
        ("owner@customer.example", 1),
        ("owner@customer.example", 1, 1),
        ("someone@else.example", 1),
    ]


def test_a_later_stage_is_told_at_once_and_what_is_gathered_still_comes_on_time() -> None:
    office = Office(a_notice(kind=NoticeKind.AT_RISK))
    office.notified()
    for minutes, kind in enumerate((NoticeKind.SUSPENDED, NoticeKind.PROBE_FAILED, NoticeKind.RECOVERED), 1):
        after = minutes * MINUTE
        notice = a_notice(kind=kind, at=NOW + after)
        office.notices.put(notice)
        assert office.told(notice, after=after) == [Told.SENT]
    waiting = a_notice(key=a_key(2), at=NOW + 4 * MINUTE)
    office.notices.put(waiting)
    assert office.told(waiting, after=4 * MINUTE) == [Told.GATHERED]
    assert office.swept(since=5 * MINUTE, until=6 * MINUTE) == [Told.SENT]
    assert len(office.world.mails) == 5


@pytest.mark.parametrize(
    "before, after, mails",
    [
        pytest.param("Notices.claim", None, 1, id="before a claim"),
        pytest.param(None, "Notices.claim", 1, id="after a claim"),
        pytest.param(None, "Mailboxes.hold", 1, id="after the mailbox was held"),
        pytest.param("Mailer.send", None, 1, id="before the provider was asked"),
        pytest.param(None, "Mailer.send", 2, id="between the provider's yes and its mark"),
        pytest.param(None, "Mailboxes.count", 1, id="after its mark"),
        pytest.param(None, "Mailboxes.release", 1, id="after the mailbox was released"),
        pytest.param(None, "OperatorBus.publish", 1, id="after the bus"),
        pytest.param("Notices.mark", None, 1, id="before the last mark"),
        pytest.param(None, "Notices.mark", 1, id="after the last mark"),
    ],
)
@pytest.mark.parametrize("nth", [1, 3])
def test_f11c_a_shared_mail_is_as_safe_as_a_single_one(
    before: str | None, after: str | None, mails: int, nth: int
) -> None:
    per_notice = "Notices" in f"{before}{after}" or "Bus" in f"{before}{after}"
    office = Office()
    flood = a_flood(office, 4)
    office.kill(before=before, after=after, nth=nth if per_notice else 1)
    with pytest.raises(Killed):
        office.told(office.notice, *flood)
    office.world.before_call = office.world.after_call = None
    office.swept(until=HOUR)
    times = named(office.world.mails)
    assert len(times) == 5
    assert max(times.values()) <= mails
    assert {office.look(n).status for n in [office.notice, *flood]} == {NoticeStatus.SENT}


def test_a_provider_that_says_later_to_a_shared_mail_gets_the_same_one_later() -> None:
    office = Office(refuse=deferring(2))
    flood = a_flood(office, 4)
    assert office.told(office.notice, *flood) == [Told.DEFERRED] * 5
    assert office.swept(until=HOUR) == [Told.DEFERRED] * 5 + [Told.SENT] * 5
    assert len(office.world.mails) == 1


def test_the_days_last_mail_says_so_and_the_rest_is_told_together_on_the_next_day() -> None:
    office = Office(rules=MailRules(mails_a_day=2))
    office.notified()
    flood = a_flood(office, 2 * MAX_IN_ONE_MAIL)
    for notice in flood:
        office.told(notice)
    told = office.swept(since=5 * MINUTE, until=6 * MINUTE)
    assert Counter(told) == {Told.SENT: MAX_IN_ONE_MAIL, Told.CAPPED: MAX_IN_ONE_MAIL}
    assert "today's last mail" not in office.world.mails[0].text
    for part in (office.world.mails[1].text, office.world.mails[1].html):
        assert "today&#x27;s last mail to this address" in part or "today's last mail to this" in part
    capped = [n for n in flood if office.look(n).status is NoticeStatus.CAPPED]
    assert office.swept(since=7 * MINUTE, until=11 * HOUR, every=10 * MINUTE) == []
    assert len(office.world.mails) == 2
    tomorrow = office.swept(since=12 * HOUR, until=13 * HOUR)
    assert tomorrow == [Told.SENT] * MAX_IN_ONE_MAIL
    assert len(office.world.mails) == 3
    assert named(office.world.mails) == {n.key.subscription_id: 1 for n in [office.notice, *flood]}
    assert {office.look(n).status for n in capped} == {NoticeStatus.SENT}


def test_no_owner_gets_more_mails_a_day_than_the_rule_says() -> None:
    office = Office()
    office.notified()
    for n in range(1, 200):
        notice = a_notice(key=a_key(1000 + n), at=NOW + n * 6 * MINUTE)
        office.notices.put(notice)
        office.told(notice, after=n * 6 * MINUTE)
    assert len(office.world.mails) == 20 + 20, "two days have begun"
    assert len(office.world.bus_events) == 200
    office.swept(since=20 * HOUR, until=72 * HOUR)
    assert set(named(office.world.mails).values()) == {1}
    assert len(named(office.world.mails)) == 200


# ── bad addresses ────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("fault", list(AddressFault))
def test_a_bad_address_is_not_written_to_and_the_notice_says_why(fault: AddressFault) -> None:
    office = Office()
    mailboxes = office.ports.mailboxes
    mailboxes.spoil(office.notice.key.scope, "Owner@customer.example", fault, now=NOW)
    assert office.notified().told is Told.SUPPRESSED
    assert office.world.mails == []
    assert office.stored.mail_fault == f"the address is bad: {fault}"
    assert office.world.bus_events[0][1]["mail"] == "suppressed"
    assert office.swept(until=24 * HOUR) == []


def test_operators_hear_of_a_notice_that_was_to_be_mailed_and_then_could_not() -> None:
    office = Office()
    office.notified()
    late = a_notice(key=a_key(2))
    office.notices.put(late)
    assert office.told(late) == [Told.GATHERED]
    office.ports.mailboxes.spoil(late.key.scope, late.owner_email, AddressFault.BOUNCED, now=NOW)
    assert office.swept(until=HOUR) == [Told.SUPPRESSED]
    detail_type, detail = office.world.bus_events[-1]
    assert detail_type == "hookkeeper.notice.suppressed"
    assert (detail["notice_id"], detail["reason"]) == (late.id, "the address is bad: bounced")


# ── F55: another time's notices ──────────────────────────────────────────────────────────────────


def test_f55_notices_of_a_restored_backup_are_not_mailed_but_operators_are_told() -> None:
    week = timedelta(days=7)
    old = a_notice(at=NOW - week, claimed_by="claim_1", claimed_until=NOW - week + LEASE)
    office = Office(old)
    assert office.swept(until=HOUR) == [Told.STALE]
    assert office.world.mails == []
    assert office.stored.status is NoticeStatus.STALE
    ((detail_type, detail),) = office.world.bus_events
    assert detail_type == "hookkeeper.notice.stale"
    assert (detail["kind"], detail["notice_id"]) == ("suspended", old.id)


@pytest.mark.parametrize(
    "after, told",
    [
        (STUCK_AFTER + STALE_AFTER, Told.SENT),
        (STUCK_AFTER + STALE_AFTER + timedelta(seconds=1), Told.STALE),
    ],
)
def test_f55_a_notice_is_stale_once_nobody_looked_at_it_for_two_days(after: timedelta, told: Told) -> None:
    assert Office().notified(after=after).told is told


def test_f55_a_notice_whose_mail_the_provider_took_before_the_backup_is_not_called_stale() -> None:
    assert Office(a_notice(message_id="ses-1")).notified(after=24 * 7 * HOUR).told is Told.SENT


def test_f55_a_stale_notice_that_an_operator_releases_is_mailed_once_by_the_sweep() -> None:
    office = Office(a_notice(at=NOW - timedelta(days=7)))
    assert office.swept(until=HOUR) == [Told.STALE]
    release_notice(
        office.notice.key,
        office.notice.id,
        actor=ACTOR,
        now=NOW + 2 * HOUR,
        notices=office.notices,
        audit=FakeAudit(office.world),
        ids=FakeIds(office.world),
    )
    assert office.swept(since=2 * HOUR, until=4 * HOUR) == [Told.SENT]
    assert len(office.world.mails) == 1


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
    assert office.told(first, after=timedelta(seconds=20)) == [Told.SENT]
    assert office.told(second, after=timedelta(seconds=40)) == [Told.GATHERED]
    assert office.swept(until=6 * MINUTE) == [Told.SENT]
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

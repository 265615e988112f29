"""Events taken in: archived first, routed whole, queued, and only then known as routed."""

from collections.abc import Sequence
from dataclasses import replace
from datetime import timedelta

import pytest
from hookkeeper.domain.errors import OwnFaultError
from hookkeeper.domain.tenancy import Mode, Scope
from hookkeeper.usecases.fan_out import MAX_INLINE_BODY_BYTES, WIDE, Incoming, Taken, fan_out

from tests.builders import NOW, a_key, a_scope, a_subscription, an_event
from tests.core import Core

SECOND = timedelta(seconds=1)


def subscribed(core: Core, count: int, scope: Scope | None = None) -> None:
    for n in range(1, count + 1):
        core.world.add(a_subscription(key=a_key(n, scope)))


def taken(core: Core, *ids_and_hashes: tuple[int, str]) -> Sequence[Taken]:
    """What becomes of a batch of events, given by number and content hash."""
    incoming = [Incoming(an_event(n), content_hash) for n, content_hash in ids_and_hashes]
    return fan_out(incoming, now=core.now, ports=core.fan_out_ports).taken


def killed_at(core: Core, call: str, *, after: int = 0) -> None:
    left = [after]

    def before(name: str) -> None:
        if name == call:
            left[0] -= 1
            if left[0] < 0:
                raise OwnFaultError(call)

    core.world.before_call = before


def test_an_event_is_one_delivery_for_each_match() -> None:
    core = Core()
    subscribed(core, 3)
    core.world.add(a_subscription(key=a_key(4), event_types=("order.*",)))
    fanned = core.fan_out(an_event())
    assert (fanned.taken, fanned.matches) == ([Taken.ROUTED], 3)
    assert [parcel.key.subscription for parcel in core.queued()] == [a_key(1), a_key(2), a_key(3)]
    (parcel, *_) = core.queued()
    assert (parcel.archived_at, parcel.attempt, parcel.body) == (NOW, 1, an_event().body)


def test_bb_41_overlapping_patterns_are_one_delivery() -> None:
    core = Core()
    types = ("order.*", "order.line.*", "order.line.added", "*")
    core.world.add(a_subscription(event_types=types))
    core.world.add(a_subscription(key=a_key(2), event_types=("orders.*",)))
    core.fan_out(an_event(type="order.line.added"))
    assert [parcel.key.subscription for parcel in core.queued()] == [a_key(1)]


def test_tenants_and_modes_never_meet() -> None:
    core = Core()
    scopes = [a_scope(), a_scope(mode=Mode.TEST), a_scope("other")]
    for scope in scopes:
        subscribed(core, 1, scope)
    core.fan_out(*(replace(an_event(), scope=scope) for scope in scopes))
    assert [parcel.key.scope for parcel in core.queued()] == scopes
    assert len({parcel.pointer for parcel in core.queued()}) == 3


def test_an_event_that_nobody_wants_is_archived_and_known_all_the_same() -> None:
    core = Core()
    fanned = core.fan_out(an_event())
    assert (fanned.taken, fanned.matches, core.queued()) == ([Taken.ROUTED], 0, [])
    assert [archived.event for archived in core.world.archived()] == [an_event()]
    assert core.world.event_items[a_scope(), an_event().id].matches == 0


def test_a_routed_event_comes_to_nothing_the_second_time() -> None:
    core = Core()
    subscribed(core, 1)
    assert taken(core, (1, "same")) == [Taken.ROUTED]
    core.later(SECOND)
    assert taken(core, (1, "same"), (2, "new")) == [Taken.DUPLICATE, Taken.ROUTED]
    assert [parcel.key.event_id for parcel in core.queued()] == [an_event(1).id, an_event(2).id]
    assert len(core.world.archived()) == 2


def test_the_same_id_with_another_body_is_a_conflict() -> None:
    core = Core()
    assert taken(core, (1, "one"), (1, "other"), (1, "one")) == [
        Taken.ROUTED,
        Taken.CONFLICT,
        Taken.DUPLICATE,
    ]
    assert taken(core, (1, "other")) == [Taken.CONFLICT]


def test_the_same_id_of_two_tenants_is_two_events() -> None:
    core = Core()
    events = [an_event(), replace(an_event(), scope=a_scope("other"))]
    assert core.fan_out(*events).taken == [Taken.ROUTED] * 2


def test_a_batch_of_what_is_known_asks_no_archive() -> None:
    core = Core()
    taken(core, (1, "same"))
    calls: list[str] = []
    core.world.before_call = calls.append
    taken(core, (1, "same"))
    assert calls == ["EventItems.routed"]


def test_the_archive_comes_first_and_the_event_item_last() -> None:
    core = Core()
    subscribed(core, 1)
    calls: list[str] = []
    core.world.before_call = calls.append
    taken(core, (1, "same"), (2, "same"))
    assert calls == [
        "EventItems.routed",
        "Archive.put",
        "Routes.matching",
        "Routes.matching",
        "Lanes.send",
        "EventItems.put",
    ]


@pytest.mark.parametrize("call", ["Archive.put", "Routes.matching", "Lanes.send", "EventItems.put"])
def test_a_crash_anywhere_leaves_an_event_that_is_taken_in_again_whole(call: str) -> None:
    core = Core()
    subscribed(core, 3)
    killed_at(core, call)
    with pytest.raises(OwnFaultError):
        taken(core, (1, "same"))
    core.world.before_call = None
    core.later(SECOND)
    core.world.queues["deliveries"].clear()
    assert taken(core, (1, "same")) == [Taken.ROUTED]
    assert len(core.queued()) == 3
    assert {parcel.archived_at for parcel in core.queued()} == {NOW + SECOND}
    assert core.world.event_items[a_scope(), an_event().id].archived_at == NOW + SECOND


def test_f16_what_a_queue_did_not_take_brings_its_event_back_and_no_other() -> None:
    core = Core()
    subscribed(core, 7)
    core.lanes.refuses = lambda p: p.key.event_id == an_event(2).id and p.key.subscription == a_key(3)
    assert taken(core, (1, "a"), (2, "b")) == [Taken.ROUTED, Taken.AGAIN]
    core.lanes.refuses = lambda _: False
    assert taken(core, (1, "a"), (2, "b")) == [Taken.DUPLICATE, Taken.ROUTED]
    reached = {p.key.subscription for p in core.queued() if p.key.event_id == an_event(2).id}
    assert reached == {a_key(n) for n in range(1, 8)}


def test_a_large_body_travels_by_reference() -> None:
    core = Core()
    subscribed(core, 1)
    core.fan_out(
        an_event(1, body=b"x" * MAX_INLINE_BODY_BYTES), an_event(2, body=b"x" * (MAX_INLINE_BODY_BYTES + 1))
    )
    inline, by_reference = core.queued()
    assert len(inline.body or b"") == MAX_INLINE_BODY_BYTES
    assert by_reference.body is None
    assert len(core.archive.body(a_scope(), by_reference.pointer)) == MAX_INLINE_BODY_BYTES + 1


@pytest.mark.parametrize(
    "matches, pages", [(WIDE, []), (WIDE + 1, [WIDE, 1]), (3 * WIDE, [WIDE, WIDE, WIDE])], ids=str
)
def test_a_wide_fan_out_sends_itself_pages_of_ids_read_in_this_very_run(
    matches: int, pages: list[int]
) -> None:
    core = Core()
    subscribed(core, matches)
    assert core.fan_out(an_event()).matches == matches
    assert [len(page.subscription_ids) for page in core.world.pages] == pages
    assert len(core.queued()) == (0 if pages else matches)
    listed = [i for page in core.world.pages for i in page.subscription_ids]
    assert len(set(listed)) == len(listed) == sum(pages)
    assert {page.archived.archived_at for page in core.world.pages} <= {NOW}


def test_a_page_that_no_queue_took_brings_its_event_back() -> None:
    core = Core()
    subscribed(core, WIDE + 1)
    core.pages.full = True
    assert core.fan_out(an_event()).taken == [Taken.AGAIN]
    assert core.world.event_items == {}

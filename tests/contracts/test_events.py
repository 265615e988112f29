"""The first of an id is the one that counts: event items, and the API's claims."""

from dataclasses import replace

import pytest
from botocore.exceptions import ClientError
from hookkeeper.adapters.dynamodb_events import DynamoDBEvents
from hookkeeper.domain.errors import OwnFaultError
from hookkeeper.domain.event import MAX_TYPE_LENGTH
from hookkeeper.domain.tenancy import Mode
from hookkeeper.ports import EventItems

from tests.builders import HOUR, NOW, a_pointer, a_scope, an_event, an_event_item
from tests.contracts.conftest import AT_ONCE, Aws
from tests.contracts.sizes import size_bytes
from tests.fakes import FakeEventItems, World
from tests.faults import counted, lose_answer, refuse

HASH, OTHER_HASH = "a" * 64, "b" * 64


def the_adapter(aws: Aws) -> DynamoDBEvents:
    return DynamoDBEvents(aws.client("dynamodb"), events_table=aws.table("Events"), backoff=AT_ONCE)


@pytest.fixture(params=["fake", "dynamodb"])
def items(request: pytest.FixtureRequest, world: World) -> EventItems:
    if request.param == "fake":
        return FakeEventItems(world)
    return the_adapter(request.getfixturevalue("aws"))


@pytest.fixture
def adapter(aws: Aws) -> DynamoDBEvents:
    return the_adapter(aws)


def test_what_was_put_is_found_whole_and_nothing_else_is(items: EventItems) -> None:
    full = an_event_item(an_event(1, resource_id="r_1"), matches=17, pointer=a_pointer(line=3))
    plain = an_event_item(an_event(2))
    items.put([full, plain])
    ids = [(a_scope(), an_event(n).id) for n in (1, 2, 3)]
    assert items.routed(ids) == {ids[0]: full, ids[1]: plain}


def test_a_later_event_of_the_same_id_changes_nothing(items: EventItems) -> None:
    first = an_event_item()
    items.put([first])
    items.put([replace(first, archived_at=NOW + HOUR, body_hash=OTHER_HASH, matches=9)])
    place = (first.scope, first.id)
    assert items.routed([place]) == {place: first}


def test_one_that_was_there_does_not_stop_its_neighbours(items: EventItems) -> None:
    items.put([an_event_item(an_event(2))])
    items.put([an_event_item(an_event(n)) for n in range(1, 6)])
    assert len(items.routed([(a_scope(), an_event(n).id) for n in range(1, 6)])) == 5


def test_tenants_and_modes_have_ids_of_their_own(items: EventItems) -> None:
    scopes = [a_scope(), a_scope("other"), a_scope(mode=Mode.TEST)]
    items.put([an_event_item(an_event(scope=scope), matches=n) for n, scope in enumerate(scopes)])
    found = items.routed([(scope, an_event().id) for scope in scopes])
    assert [found[scope, an_event().id].matches for scope in scopes] == [0, 1, 2]


def test_more_ids_than_one_read_takes_are_all_asked_for_each_once(items: EventItems) -> None:
    items.put([an_event_item(an_event(n)) for n in range(130)])
    ids = [(a_scope(), an_event(n).id) for n in (*range(130), *range(130))]
    assert len(items.routed(ids)) == 130
    assert items.routed([]) == {}


def test_a_claim_is_held_by_whoever_came_first(items: EventItems) -> None:
    assert items.claim(a_scope(), "evt_1", body_hash=HASH, now=NOW) == HASH
    assert items.claim(a_scope(), "evt_1", body_hash=OTHER_HASH, now=NOW + HOUR) == HASH
    assert items.claim(a_scope("other"), "evt_1", body_hash=OTHER_HASH, now=NOW) == OTHER_HASH


def test_a_claimed_id_is_not_a_routed_one(items: EventItems) -> None:
    items.claim(a_scope(), an_event().id, body_hash=HASH, now=NOW)
    assert items.routed([(a_scope(), an_event().id)]) == {}


@pytest.mark.parametrize("operation", ["PutItem", "BatchGetItem"])
def test_a_lost_answer_is_no_loss(aws: Aws, adapter: DynamoDBEvents, operation: str) -> None:
    lose_answer(aws.client("dynamodb"), operation)
    item = an_event_item()
    adapter.put([item])
    assert adapter.routed([(item.scope, item.id)]) == {(item.scope, item.id): item}


def test_a_claim_whose_answer_was_lost_is_still_the_callers(aws: Aws, adapter: DynamoDBEvents) -> None:
    lose_answer(aws.client("dynamodb"), "PutItem")
    assert adapter.claim(a_scope(), "evt_1", body_hash=HASH, now=NOW) == HASH


@pytest.mark.parametrize("code", ["ProvisionedThroughputExceededException", "InternalServerError"])
def test_a_put_that_the_table_refuses_raises(aws: Aws, adapter: DynamoDBEvents, code: str) -> None:
    refuse(aws.client("dynamodb"), "PutItem", code=code)
    with pytest.raises(ClientError):
        adapter.put([an_event_item(an_event(n)) for n in range(3)])
    assert len(aws.items("Events")) == 2


def test_ids_that_stay_unread_are_never_taken_for_new(aws: Aws, adapter: DynamoDBEvents) -> None:
    refuse(aws.client("dynamodb"), "BatchGetItem", code="ProvisionedThroughputExceededException", times=99)
    with pytest.raises(OwnFaultError):
        adapter.routed([(a_scope(), "evt_1")])


@pytest.mark.parametrize("times", [1, 4])
def test_a_read_that_is_throttled_for_a_while_is_made(aws: Aws, adapter: DynamoDBEvents, times: int) -> None:
    item = an_event_item()
    adapter.put([item])
    refuse(aws.client("dynamodb"), "BatchGetItem", code="ThrottlingException", times=times)
    assert adapter.routed([(item.scope, item.id)]) == {(item.scope, item.id): item}


def test_a_hundred_ids_are_one_read_and_an_item_is_one_write_unit(aws: Aws, adapter: DynamoDBEvents) -> None:
    calls = counted(aws.client("dynamodb"))
    adapter.routed([(a_scope(), an_event(n).id) for n in range(100)])
    assert calls == {"BatchGetItem": 1}
    longest = an_event(
        1, scope=a_scope("t" * 64), id="e" * 64, type="t" * MAX_TYPE_LENGTH, resource_id="r" * 64
    )
    adapter.put([an_event_item(longest, pointer=a_pointer(object_key="events/2026120112/" + "k" * 22))])
    (item,) = aws.items("Events")
    assert size_bytes(item) <= 1024
    assert int(item["ttl"]["N"]) > (NOW + 16 * 24 * HOUR).timestamp()

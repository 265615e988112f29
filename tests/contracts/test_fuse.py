"""Fake and DynamoDB keep one fuse for all, and let nobody write over what another wrote."""

import threading
from dataclasses import replace

import pytest
from hookkeeper.adapters.dynamodb_fuse import DynamoDBFuse
from hookkeeper.domain.fuse import FuseRules, FuseState, Passage, with_canary, with_host, with_suspects
from hookkeeper.ports import Fuse
from hookkeeper.usecases.fuse import ask_fuse

from tests.builders import NOW
from tests.contracts.conftest import AT_ONCE, Aws
from tests.fakes import FakeFuse, World
from tests.faults import lose_answer

RULES = FuseRules()


def over_dynamodb(aws: Aws) -> DynamoDBFuse:
    return DynamoDBFuse(aws.client("dynamodb"), access_table=aws.table("Access"), backoff=AT_ONCE)


@pytest.fixture(params=["fake", "dynamodb"])
def fuse(request: pytest.FixtureRequest, world: World) -> Fuse:
    return FakeFuse(world) if request.param == "fake" else over_dynamodb(request.getfixturevalue("aws"))


def test_a_fuse_that_was_never_written_is_whole(fuse: Fuse) -> None:
    assert fuse.read() == FuseState()


def test_what_is_written_is_read_again(fuse: Fuse) -> None:
    state = with_host(FuseState(), RULES, host="a-1.customer.example", now=NOW)
    state = with_suspects(state, RULES, hosts=[f"h{n}.example" for n in range(9)], now=NOW)
    state = with_canary(replace(state, active_hosts=120, counted_at=NOW), answered=False, now=NOW)
    assert fuse.write(FuseState(), state)
    assert fuse.read() == state
    empty = FuseState(version=state.version + 1)
    assert fuse.write(state, empty)
    assert fuse.read() == empty


def test_what_another_wrote_meanwhile_stands(fuse: Fuse) -> None:
    first = with_host(FuseState(), RULES, host="a.example", now=NOW)
    assert fuse.write(FuseState(), first)
    assert not fuse.write(FuseState(), with_host(FuseState(), RULES, host="b.example", now=NOW))
    assert fuse.read() == first


def test_a_write_whose_answer_was_lost_is_known_as_ones_own(aws: Aws) -> None:
    fuse = over_dynamodb(aws)
    lose_answer(aws.client("dynamodb"), "UpdateItem")
    after = with_host(FuseState(), RULES, host="a.example", now=NOW)
    assert fuse.write(FuseState(), after)


def test_twelve_hosts_at_once_get_five_places(aws: Aws) -> None:
    fuse, barrier, found = over_dynamodb(aws), threading.Barrier(12), list[Passage]()

    def ask(number: int) -> None:
        barrier.wait()
        found.append(ask_fuse(f"h{number}.example", failed_at=NOW, now=NOW, rules=RULES, fuse=fuse))

    threads = [threading.Thread(target=ask, args=(number,)) for number in range(12)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found.count(Passage.OPEN) == 5
    assert len(fuse.read().let_through) == 5

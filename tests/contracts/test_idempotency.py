"""Fake and DynamoDB keep answers alike: one caller runs, the others are told, and a day ends it."""

import threading
from datetime import timedelta
from typing import Any

import pytest
from hookkeeper.adapters.dynamodb_cursor_key import DynamoDBCursorKey
from hookkeeper.adapters.dynamodb_idempotency import DynamoDBIdempotency
from hookkeeper.ports import Idempotency, KeptAnswer

from tests.builders import NOW
from tests.contracts.conftest import Aws
from tests.functions.api_bench import FakeIdempotency

SECOND = timedelta(seconds=1)
DAY = timedelta(hours=24)


@pytest.fixture(params=["fake", "dynamodb"])
def store(request: pytest.FixtureRequest) -> Idempotency:
    if request.param == "fake":
        return FakeIdempotency()
    aws: Aws = request.getfixturevalue("aws")
    return DynamoDBIdempotency(aws.client("dynamodb"), table=aws.table("Events"))


def begun(store: Idempotency, owner: str = "acme#live", key: str = "k", at: Any = NOW) -> KeptAnswer | None:
    return store.begin(owner, key, request_hash="h", now=at)


def test_the_first_runs_and_a_second_meanwhile_sees_it_running(store: Idempotency) -> None:
    assert begun(store) is None
    assert begun(store) == KeptAnswer("h", None, "")
    assert begun(store, "acme#test") is None
    assert begun(store, "beta#live") is None
    assert begun(store, key="k2") is None


def test_an_answer_is_kept_for_a_day(store: Idempotency) -> None:
    begun(store)
    store.finish("acme#live", "k", KeptAnswer("h", 201, '{"a":1}'), now=NOW)
    assert begun(store, at=NOW + DAY - SECOND) == KeptAnswer("h", 201, '{"a":1}')
    assert begun(store, at=NOW + DAY) is None


def test_a_call_that_died_frees_its_key_after_a_minute_and_one_that_failed_at_once(
    store: Idempotency,
) -> None:
    begun(store)
    assert begun(store, at=NOW + 59 * SECOND) is not None
    assert begun(store, at=NOW + 60 * SECOND) is None
    store.forget("acme#live", "k")
    assert begun(store, at=NOW + 60 * SECOND) is None


def test_t40_of_twelve_parallel_calls_one_runs(store: Idempotency) -> None:
    barrier, answers = threading.Barrier(12), list[KeptAnswer | None]()

    def call() -> None:
        barrier.wait()
        answers.append(begun(store))

    threads = [threading.Thread(target=call) for _ in range(12)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert answers.count(None) == 1


def test_a_claim_written_again_by_the_sdk_is_the_callers_own(aws: Aws) -> None:
    """Its first answer was lost on the way; another call's claim at the same moment is another's."""
    client, asked = aws.client("dynamodb"), list[dict[str, Any]]()

    class Losing:
        def put_item(self, **call: Any) -> Any:
            asked.append(call)
            client.put_item(**call)
            return client.put_item(**call)

    losing = DynamoDBIdempotency(Losing(), table=aws.table("Events"))
    assert begun(losing) is None
    assert len(asked) == 1
    assert begun(losing) == KeptAnswer("h", None, "")


def test_every_key_begins_with_its_owner(aws: Aws) -> None:
    store = DynamoDBIdempotency(aws.client("dynamodb"), table=aws.table("Events"))
    begun(store)
    store.finish("acme#live", "k", KeptAnswer("h", 201, "{}"), now=NOW)
    (item,) = aws.items("Events")
    assert item["pk"]["S"].startswith("acme#live#")
    assert int(item["ttl"]["N"]) >= (NOW + DAY).timestamp()


def test_the_cursors_key_is_made_once_for_all(aws: Aws) -> None:
    table = aws.table("Access")
    keys = [DynamoDBCursorKey(aws.client("dynamodb"), access_table=table).get() for _ in range(3)]
    assert len(set(keys)) == 1
    assert len(keys[0]) == 32


def test_of_two_that_make_the_cursors_key_both_have_the_one_that_stands(aws: Aws) -> None:
    client, table = aws.client("dynamodb"), aws.table("Access")
    first = DynamoDBCursorKey(client, access_table=table)
    late = DynamoDBCursorKey(client, access_table=table)
    assert late._stored() is None
    assert first.get() == late._made()

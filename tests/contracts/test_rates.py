"""Fake and DynamoDB count by the hour alike, and never past the most."""

import threading
from datetime import timedelta

import pytest
from hookkeeper.adapters.dynamodb_rates import DynamoDBRates
from hookkeeper.ports import Rates

from tests.builders import HOUR, NOW
from tests.contracts.conftest import Aws
from tests.functions.api_bench import FakeRates


@pytest.fixture(params=["fake", "dynamodb"])
def rates(request: pytest.FixtureRequest) -> Rates:
    if request.param == "fake":
        return FakeRates()
    aws: Aws = request.getfixturevalue("aws")
    return DynamoDBRates(aws.client("dynamodb"), access_table=aws.table("Access"))


def test_an_hour_has_so_many_and_the_next_begins_anew(rates: Rates) -> None:
    assert [rates.take("a", most=2, now=NOW) for _ in range(3)] == [True, True, False]
    assert not rates.take("a", most=2, now=NOW + HOUR - timedelta(microseconds=1))
    assert rates.take("a", most=2, now=NOW + HOUR)
    assert rates.take("b", most=2, now=NOW)


def test_twelve_at_once_take_no_more_than_there_is(aws: Aws) -> None:
    rates = DynamoDBRates(aws.client("dynamodb"), access_table=aws.table("Access"))
    barrier, taken = threading.Barrier(12), list[bool]()

    def take() -> None:
        barrier.wait()
        taken.append(rates.take("a", most=5, now=NOW))

    threads = [threading.Thread(target=take) for _ in range(12)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert taken.count(True) == 5

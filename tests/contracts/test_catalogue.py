"""The catalogue is one for all tenants, in order, and an entry takes its present one's place."""

from dataclasses import replace

import pytest
from hookkeeper.adapters.dynamodb_catalogue import CACHE_LIFE_SECONDS, DynamoDBCatalogue
from hookkeeper.domain.catalogue import EventType
from hookkeeper.ports import Catalogue

from tests.builders import NOW
from tests.contracts.conftest import AT_ONCE, Aws
from tests.fakes import FakeCatalogue, World

ENTRY = EventType(
    name="invoice.paid",
    description="It was paid.",
    updated_at=NOW,
    json_schema='{"type":"object"}',
    example='{"amount":1.10}',
    strict=True,
)


@pytest.fixture(params=["fake", "dynamodb"])
def catalogue(request: pytest.FixtureRequest) -> Catalogue:
    if request.param == "fake":
        return FakeCatalogue(World())
    return over_dynamodb(request.getfixturevalue("aws"), [0.0])


def over_dynamodb(aws: Aws, moments: list[float]) -> DynamoDBCatalogue:
    return DynamoDBCatalogue(
        aws.client("dynamodb"),
        access_table=aws.table("Access"),
        backoff=AT_ONCE,
        monotonic=lambda: moments[0],
    )


def test_an_entry_is_read_back_as_it_was_put(catalogue: Catalogue) -> None:
    assert catalogue.get("invoice.paid") is None
    catalogue.put(ENTRY)
    assert catalogue.get("invoice.paid") == ENTRY
    later = replace(ENTRY, description="Anew.", json_schema=None, strict=False)
    catalogue.put(later)
    assert catalogue.get("invoice.paid") == later


def test_entries_are_listed_in_order_of_name(catalogue: Catalogue) -> None:
    assert list(catalogue.all()) == []
    names = ["order.made", "invoice.paid", "invoice.line.added"]
    for name in names:
        catalogue.put(replace(ENTRY, name=name))
    assert [each.name for each in catalogue.all()] == sorted(names)


def test_the_list_is_at_most_half_a_minute_old(aws: Aws) -> None:
    moments = [0.0]
    mine, others = over_dynamodb(aws, moments), over_dynamodb(aws, [0.0])
    assert list(mine.all()) == []
    others.put(ENTRY)
    moments[0] = CACHE_LIFE_SECONDS - 1
    assert list(mine.all()) == []
    moments[0] = CACHE_LIFE_SECONDS
    assert list(mine.all()) == [ENTRY]

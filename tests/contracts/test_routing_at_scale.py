"""Routing costs what matches, however many subscriptions a tenant has; a filter changes as one."""

from collections import Counter
from dataclasses import replace
from typing import Any

import pytest
from hookkeeper.adapters.dynamodb_expressions import MAX_TRANSACTION
from hookkeeper.adapters.dynamodb_subscriptions import DynamoDBRoutes
from hookkeeper.domain.subscription import Status

from tests.builders import MINUTE, a_key, a_scope, a_subscription, an_edit
from tests.contracts.conftest import Aws
from tests.contracts.stores import Stores, over_dynamodb
from tests.model.product import Product

SUBSCRIPTIONS = 10_000
MATCHING = 10
SEGMENTS = 3


class Counting:
    """A client that counts its queries, and what they read."""

    def __init__(self, client: Any) -> None:
        self._client = client
        self.queries = self.items = 0
        self.transactions: list[int] = []

    def query(self, **asked: Any) -> Any:
        answer = self._client.query(**asked)
        self.queries += 1
        self.items += answer["ScannedCount"]
        return answer

    def transact_write_items(self, **asked: Any) -> Any:
        self.transactions.append(len(asked["TransactItems"]))
        return self._client.transact_write_items(**asked)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._client, name)


@pytest.fixture
def crowded(aws: Aws) -> Counting:
    """A tenant with ten thousand active subscriptions: the routing items that their transactions left."""
    client = aws.client("dynamodb")
    table = aws.table("Subscriptions")
    patterns = ["invoice.line.added"] * 4 + ["invoice.line.*"] * 3 + ["invoice.*"] * 2 + ["*"]
    assert len(patterns) == MATCHING
    patterns += [f"other.kind_{n % 97}" for n in range(SUBSCRIPTIONS - MATCHING)]
    requests = [
        {"PutRequest": {"Item": {"pk": {"S": f"acme#live#route#*#{pattern}"}, "sk": {"S": f"sub_{n:05d}"}}}}
        for n, pattern in enumerate(patterns)
    ]
    for start in range(0, len(requests), 25):
        client.batch_write_item(RequestItems={table: requests[start : start + 25]})
    return Counting(client)


def test_one_event_of_ten_that_match_among_ten_thousand_reads_ten_items(crowded: Counting) -> None:
    moments = [0.0]
    routes = DynamoDBRoutes(crowded, subscriptions_table="Subscriptions", monotonic=lambda: moments[0])

    def matching() -> int:
        return len(routes.matching(a_scope(), event_type="invoice.line.added", resource_id=None))

    assert matching() == MATCHING
    assert (crowded.items, crowded.queries) == (MATCHING, SEGMENTS + 1), "cold"
    assert matching() == MATCHING
    assert (crowded.items, crowded.queries) == (MATCHING, SEGMENTS + 1), "warm: nothing is read"
    moments[0] = 10.0
    assert matching() == MATCHING
    assert (crowded.items, crowded.queries) == (2 * MATCHING, 2 * (SEGMENTS + 1)), "after the cache's life"
    crowded.items = crowded.queries = 0
    routes.matching(a_scope(), event_type="invoice.line.added", resource_id="shop_7")
    assert (crowded.items, crowded.queries) == (MATCHING, 2 * (SEGMENTS + 1)), "both, where it has a resource"
    routes.matching(a_scope("beta"), event_type="invoice.line.added", resource_id=None)
    assert crowded.items == MATCHING, "another tenant's event reads nothing of it"


# ── sixty-four filters give way to sixty-four others ─────────────────────────────────────────────

OLD = tuple(f"old_{n}" for n in range(64))
NEW = tuple(f"new_{n}" for n in range(64))


@pytest.fixture
def counted(aws: Aws) -> tuple[Stores, Counting]:
    client = Counting(aws.client("dynamodb"))
    return over_dynamodb(aws, client), client


@pytest.mark.parametrize("trip", range(3))
def test_no_transaction_has_over_a_hundred_items_there_and_back(
    counted: tuple[Stores, Counting], trip: int
) -> None:
    stores, client = counted
    stores.have(a_subscription(event_types=OLD))
    for turn in range(trip + 1):
        wanted = OLD if turn % 2 else NEW
        present = stores.subscriptions.get(a_key())
        assert present is not None
        edit = an_edit(present, after=replace(present, event_types=wanted), number=turn + 1)
        assert stores.subscriptions.edit(edit)
    assert max(client.transactions) <= MAX_TRANSACTION


def test_after_the_answer_no_route_of_the_old_filter_is_left(counted: tuple[Stores, Counting]) -> None:
    stores, client = counted
    present = stores.have(a_subscription(event_types=OLD)).subscription
    assert present.status is Status.ACTIVE
    edit = an_edit(present, after=replace(present, event_types=NEW))
    assert stores.subscriptions.edit(edit)
    assert stores.routed(present, *OLD) == []
    assert stores.routed(present, *NEW) == list(NEW)
    assert max(client.transactions) <= MAX_TRANSACTION


def test_under_load_no_event_of_the_old_filter_is_sent_after_the_answer() -> None:
    """Whatever fan_out had routed by its cache, deliver reads the filter itself."""
    product = Product()
    key = product.subscribe(event_types=OLD)
    for n in range(64):
        product.emit(f"old_{n}")
    product.fan_out(64)
    product.edit_filter(key, *NEW)
    for n in range(64):
        product.emit(f"old_{n}")
        product.emit(f"new_{n}")
    product.run(10 * MINUTE)
    types = Counter(product.emitted[event_id].type for _, event_id in product.endpoint(key).received)
    assert not [event_type for event_type in types if event_type.startswith("old_")]
    assert len(types) == 64, "those of the new filter alone, each"

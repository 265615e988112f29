"""Waits are for what was refused: a batch that went through at once costs none."""

from typing import Any

import pytest
from hookkeeper.adapters.dynamodb import Backoff, batch_get, batch_put

from tests import faults
from tests.contracts.conftest import Aws

ITEM: dict[str, Any] = {"pk": {"S": "acme#live#x"}, "sk": {"S": "x"}}


@pytest.mark.parametrize("refusals", [0, 1, 3])
def test_a_batch_waits_once_for_each_refusal(aws: Aws, refusals: int) -> None:
    client, table = aws.client("dynamodb"), aws.table("Events")
    waits: list[float] = []
    backoff = Backoff(sleep=waits.append)
    unwritten = {"UnprocessedItems": {table: [{"PutRequest": {"Item": ITEM}}]}}
    faults.answer(client, "BatchWriteItem", [unwritten] * refusals)
    assert batch_put(client, table, [ITEM], backoff) == []
    assert len(waits) == refusals
    waits.clear()
    unread = {"Responses": {table: []}, "UnprocessedKeys": {table: {"Keys": [ITEM]}}}
    faults.answer(client, "BatchGetItem", [unread] * refusals)
    assert batch_get(client, {table: [ITEM]}, backoff) == ({table: [ITEM]}, {})
    assert len(waits) == refusals


def test_nothing_to_read_is_no_call(aws: Aws) -> None:
    calls = faults.counted(aws.client("dynamodb"))
    assert batch_get(aws.client("dynamodb"), {"Events": []}, Backoff()) == ({"Events": []}, {})
    assert calls["BatchGetItem"] == 0

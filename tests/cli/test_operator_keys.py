"""Operators' keys are made under AWS credentials, shown once, and audited under whoever made them."""

from typing import Any

import pytest
from hookkeeper.adapters.dynamodb_access import DynamoDBAccess
from hookkeeper.adapters.dynamodb_audit import DynamoDBAudit
from hookkeeper.domain.access import HOUSE, KeyKind, key_hash

from tests.builders import NOW
from tests.cli.conftest import Bench
from tests.contracts.conftest import Aws, aws

__all__ = ["aws"]


@pytest.fixture
def dynamodb(aws: Aws, bench: Bench) -> Any:
    bench.has_local_stack()
    for table in ("Access", "Audit"):
        aws.table(table)
    bench.aws |= {"dynamodb": aws.client("dynamodb"), "sts": aws.client("sts")}
    return bench.aws["dynamodb"]


def test_a_new_key_is_alone_on_stdout_and_the_authorizer_will_know_it(dynamodb: Any, bench: Bench) -> None:
    ran = bench.run("operator-keys", "create", "--days", "30")
    stored = DynamoDBAccess(dynamodb, access_table="Access").key_by_hash(key_hash(ran.out.strip()))
    assert stored is not None
    assert (stored.kind, stored.usable(NOW)) == (KeyKind.OPERATOR, True)
    assert stored.id in ran.err


def test_its_making_and_its_end_are_audited_under_the_caller(dynamodb: Any, bench: Bench) -> None:
    key_id = bench.run("operator-keys", "create", "--json").json["id"]
    assert bench.run("operator-keys", "revoke", key_id, "--yes").code == 0
    records = DynamoDBAudit(dynamodb, audit_table="Audit").of(HOUSE, key_id, limit=10)
    assert sorted(record.action for record in records) == ["key.created", "key.revoked"]
    assert all(record.actor.id.startswith("arn:aws:sts::") for record in records)


def test_keys_are_listed_by_their_last_characters_and_validity(dynamodb: Any, bench: Bench) -> None:
    del dynamodb
    keys = [bench.run("operator-keys", "create", "--json").json for _ in range(2)]
    bench.run("operator-keys", "revoke", keys[0]["id"], "--yes")
    listed = {line["id"]: line for line in bench.run("operator-keys", "list", "--json").lines}
    assert [listed[key["id"]]["last4"] for key in keys] == [key["key"][-4:] for key in keys]
    assert [bool(listed[key["id"]]["revoked_at"]) for key in keys] == [True, False]
    table = bench.run("operator-keys", "list").out
    assert "revoked" in table
    assert keys[1]["key"] not in table


def test_a_key_that_is_not_there_cannot_be_revoked(dynamodb: Any, bench: Bench) -> None:
    del dynamodb
    assert bench.run("operator-keys", "revoke", "key_none", "--yes").code == 3

"""The embedded AWS learns from each request what AWS knows of it; else isolation is not proven."""

from typing import Any

import pytest

from infra.local.iam_gaps import leading_keys, sender_identity, single_action, with_variables

MINE, THEIRS = {"S": "t1#live#x"}, {"S": "t2#live#x"}


def key_name(_table: str, index: str | None) -> str | None:
    return "list_pk" if index else "pk"


@pytest.mark.parametrize(
    "request_,expected",
    [
        ({"TableName": "T", "Key": {"pk": MINE, "sk": {"S": "1"}}}, ["t1#live#x"]),
        ({"TableName": "T", "Item": {"pk": MINE, "sk": {"S": "1"}}}, ["t1#live#x"]),
        (
            {
                "TableName": "T",
                "KeyConditionExpression": "#p = :p AND begins_with(sk, :s)",
                "ExpressionAttributeNames": {"#p": "pk"},
                "ExpressionAttributeValues": {":p": MINE, ":s": {"S": "a"}},
            },
            ["t1#live#x"],
        ),
        (
            {
                "TableName": "T",
                "KeyConditionExpression": "sk=:s and pk=:p",
                "ExpressionAttributeValues": {":p": THEIRS, ":s": MINE},
            },
            ["t2#live#x"],
        ),
        (
            {
                "TableName": "T",
                "IndexName": "lists",
                "KeyConditionExpression": "list_pk = :p",
                "ExpressionAttributeValues": {":p": THEIRS},
            },
            ["t2#live#x"],
        ),
        ({"RequestItems": {"T": {"Keys": [{"pk": MINE}, {"pk": THEIRS}]}}}, ["t1#live#x", "t2#live#x"]),
        (
            {
                "RequestItems": {
                    "T": [{"PutRequest": {"Item": {"pk": MINE}}}, {"DeleteRequest": {"Key": {"pk": THEIRS}}}]
                }
            },
            ["t1#live#x", "t2#live#x"],
        ),
        (
            {
                "TransactItems": [
                    {"Put": {"TableName": "T", "Item": {"pk": MINE}}},
                    {"ConditionCheck": {"TableName": "T", "Key": {"pk": THEIRS}}},
                ]
            },
            ["t1#live#x", "t2#live#x"],
        ),
        ({"TableName": "T"}, []),
        ({"Statement": 'select * from "T"'}, []),
    ],
    ids=[
        "get",
        "put",
        "query",
        "query, sort key first",
        "index",
        "batch get",
        "batch write",
        "transaction",
        "scan",
        "partiql",
    ],
)
def test_leading_keys_are_the_partition_keys_a_request_names(
    request_: dict[str, Any], expected: list[str]
) -> None:
    assert leading_keys(request_, key_name) == expected


def test_variables_are_put_into_conditions() -> None:
    tags = {"aws:PrincipalTag/tenant": "t1", "aws:PrincipalTag/mode": "live"}
    conditions = {
        "StringLike": {"dynamodb:LeadingKeys": ["${aws:PrincipalTag/tenant}#${aws:PrincipalTag/mode}#*"]},
        "Null": {"dynamodb:LeadingKeys": "false"},
    }
    assert with_variables(conditions, tags.get) == {
        "StringLike": {"dynamodb:LeadingKeys": ["t1#live#*"]},
        "Null": {"dynamodb:LeadingKeys": "false"},
    }


def test_a_variable_that_is_missing_widens_nothing() -> None:
    (pattern,) = with_variables(["${aws:PrincipalTag/tenant}#*"], lambda _: None)
    assert not "t1#live#x".startswith(pattern.rstrip("*"))
    assert not "#live#x".startswith(pattern.rstrip("*"))


@pytest.mark.parametrize("sender", ["a@b.test", "Hookkeeper <a@b.test>"])
def test_a_mails_identity_is_its_address(sender: str) -> None:
    assert sender_identity(f'{{"FromEmailAddress": "{sender}"}}'.encode()) == "a@b.test"


@pytest.mark.parametrize(
    "action,expected",
    [
        ("sqs:SendMessageBatch", "sqs:SendMessage"),
        ("sqs:SendMessage", "sqs:SendMessage"),
        ("dynamodb:ExecuteBatch", "dynamodb:ExecuteBatch"),
    ],
)
def test_only_sqs_authorises_a_batch_as_its_single_action(action: str, expected: str) -> None:
    assert single_action(action) == expected

"""Under the tenant role's own policies, a query that forgets the tenant fails, and does not leak."""

import json
from collections.abc import Callable, Iterator
from typing import Any

import boto3
import pytest
from botocore.exceptions import ClientError
from hookkeeper.adapters.dynamodb_subscriptions import DynamoDBSubscriptions
from hookkeeper.domain.tenancy import Mode, Scope, SubscriptionKey

from infra.local import aws
from infra.local.stack import Stack

pytestmark = pytest.mark.integration

ROLE = "a-tenants-hands"
OWN = "t1#live#sub_1"
NOT_OWN = {
    "another tenant": "t2#live#sub_1",
    "the other mode": "t1#test#sub_1",
    "a look-alike": "t1#livelier#1",
}

Call = Callable[[Any, str, str], object]

CALLS: dict[str, Call] = {
    "get": lambda db, table, pk: db.get_item(TableName=table, Key=key(pk)),
    "put": lambda db, table, pk: db.put_item(TableName=table, Item=key(pk)),
    "update": lambda db, table, pk: db.update_item(TableName=table, Key=key(pk)),
    "delete": lambda db, table, pk: db.delete_item(TableName=table, Key=key(pk)),
    "query": lambda db, table, pk: db.query(
        TableName=table, KeyConditionExpression="pk = :p", ExpressionAttributeValues={":p": {"S": pk}}
    ),
    "batch get": lambda db, table, pk: db.batch_get_item(
        RequestItems={table: {"Keys": [key(OWN, "2"), key(pk)]}}
    ),
    "transaction": lambda db, table, pk: db.transact_write_items(
        TransactItems=[
            {"Put": {"TableName": table, "Item": key(OWN, "2")}},
            {"Put": {"TableName": table, "Item": key(pk)}},
        ]
    ),
}


def key(pk: str, sk: str = "1") -> dict[str, Any]:
    return {"pk": {"S": pk}, "sk": {"S": sk}}


@pytest.fixture(scope="module")
def database(stack: Stack) -> Iterator[Any]:
    """A client under the tenant role's policies, in a session tagged with t1 and live.

    The role itself can only be taken by the api function, so a role of the test's own carries its policies.
    """
    iam = aws.client(stack, "iam")
    (tenant_role,) = (
        role["RoleName"]
        for role in iam.list_roles(MaxItems=1000)["Roles"]
        if "TenantRole" in role["RoleName"]
    )
    trust = {"Effect": "Allow", "Principal": {"AWS": "*"}, "Action": ["sts:AssumeRole", "sts:TagSession"]}
    role = iam.create_role(
        RoleName=ROLE, AssumeRolePolicyDocument=json.dumps({"Version": "2012-10-17", "Statement": [trust]})
    )["Role"]
    for name in iam.list_role_policies(RoleName=tenant_role)["PolicyNames"]:
        policy = iam.get_role_policy(RoleName=tenant_role, PolicyName=name)["PolicyDocument"]
        iam.put_role_policy(RoleName=ROLE, PolicyName=name, PolicyDocument=json.dumps(policy))
    tags = [{"Key": "tenant", "Value": "t1"}, {"Key": "mode", "Value": "live"}]
    taken = aws.client(stack, "sts").assume_role(RoleArn=role["Arn"], RoleSessionName="t1-live", Tags=tags)
    yield boto3.client(
        "dynamodb",
        endpoint_url=stack.aws_endpoint_url,
        region_name=stack.aws_region,
        aws_access_key_id=taken["Credentials"]["AccessKeyId"],
        aws_secret_access_key=taken["Credentials"]["SecretAccessKey"],
        aws_session_token=taken["Credentials"]["SessionToken"],
    )
    for name in iam.list_role_policies(RoleName=ROLE)["PolicyNames"]:
        iam.delete_role_policy(RoleName=ROLE, PolicyName=name)
    iam.delete_role(RoleName=ROLE)


def refused(call: Callable[..., object], *arguments: Any, **named: Any) -> bool:
    with pytest.raises(ClientError) as error:
        call(*arguments, **named)
    return error.value.response["Error"]["Code"] == "AccessDeniedException"


@pytest.mark.parametrize("call", CALLS.values(), ids=CALLS.keys())
def test_a_tenants_own_items_are_in_reach(database: Any, stack: Stack, call: Call) -> None:
    call(database, stack.tables["Subscriptions"], OWN)


@pytest.mark.parametrize("pk", NOT_OWN.values(), ids=NOT_OWN.keys())
@pytest.mark.parametrize("call", CALLS.values(), ids=CALLS.keys())
def test_nobody_elses_items_are(database: Any, stack: Stack, call: Call, pk: str) -> None:
    for table in ("Subscriptions", "Deliveries", "Events", "Secrets"):
        assert refused(call, database, stack.tables[table], pk), table


def test_a_repository_that_is_asked_for_another_tenant_is_refused_by_the_policy(
    database: Any, stack: Stack
) -> None:
    names = [stack.tables[name] for name in ("Subscriptions", "Audit", "Notices")]
    subscriptions = DynamoDBSubscriptions(
        database, subscriptions_table=names[0], audit_table=names[1], notices_table=names[2]
    )
    assert subscriptions.get(SubscriptionKey(Scope("t1", Mode.LIVE), "sub_1")) is None
    for wrong in (Scope("t2", Mode.LIVE), Scope("t1", Mode.TEST)):
        with pytest.raises(ClientError, match="AccessDenied"):
            subscriptions.get(SubscriptionKey(wrong, "sub_1"))
        with pytest.raises(ClientError, match="AccessDenied"):
            subscriptions.page(wrong, limit=10)


def test_a_call_that_names_no_tenant_is_refused(database: Any, stack: Stack) -> None:
    for table in stack.tables.values():
        assert refused(database.scan, TableName=table)
        assert refused(database.execute_statement, Statement=f'SELECT * FROM "{table}"')


def test_the_index_of_what_is_due_is_the_sweeps_alone(database: Any, stack: Stack) -> None:
    due = {"KeyConditionExpression": "due_pk = :p", "ExpressionAttributeValues": {":p": {"S": OWN}}}
    for table in ("Subscriptions", "Deliveries"):
        assert refused(database.query, TableName=stack.tables[table], IndexName="due", **due)


def test_audit_records_can_be_added_and_never_changed(database: Any, stack: Stack) -> None:
    table = stack.tables["Audit"]
    database.put_item(TableName=table, Item=key(OWN))
    assert refused(database.update_item, TableName=table, Key=key(OWN))
    assert refused(database.delete_item, TableName=table, Key=key(OWN))


def test_keys_of_the_api_are_out_of_reach(database: Any, stack: Stack) -> None:
    assert refused(database.get_item, TableName=stack.tables["Access"], Key=key(OWN))

"""The embedded AWS runs the stack as it is and refuses strangers; the other integration tests build on it."""

import boto3
import httpx
import pytest
from botocore.exceptions import ClientError

from infra.local import aws
from infra.local.stack import Stack

pytestmark = pytest.mark.integration


def test_the_stack_answers_without_a_key_only_where_it_is_open(stack: Stack) -> None:
    assert httpx.get(f"{stack.api_url}/healthz").status_code == 200
    refused = httpx.get(f"{stack.api_url}/v1/subscriptions")
    assert refused.status_code == 401
    assert refused.headers["content-type"] == "application/problem+json"


def test_every_function_has_imported_its_layers(stack: Stack) -> None:
    functions = aws.client(stack, "lambda")
    for name in stack.functions.values():
        answer = functions.invoke(FunctionName=name, Payload=b"{}")
        assert "No module named" not in answer["Payload"].read().decode(), name


def test_a_stranger_is_refused(stack: Stack) -> None:
    stranger = boto3.client(
        "dynamodb",
        endpoint_url=stack.aws_endpoint_url,
        region_name=stack.aws_region,
        aws_access_key_id="AKIAIOSFODNN7EXAMPLE",
        aws_secret_access_key="wrong",
    )
    with pytest.raises(ClientError, match=r"UnrecognizedClient|InvalidClientTokenId|security token"):
        stranger.scan(TableName=stack.tables["Access"])

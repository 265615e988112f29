"""stack.json says how to reach everything, under names that others rely on."""

import json
from pathlib import Path

import pytest

from infra.local import stack
from infra.local.home import Home
from infra.local.stack import NotUpError, Stack

OUTPUTS = {
    "ApiUrl": "http://127.0.0.1:4566/_aws/execute-api/abc/api",
    "EventsQueueUrl": "http://localhost:4566/1/events",
    "EventBusName": "bus",
    "ArchiveBucketName": "archive",
    "RecoveryStateMachineArn": "arn:aws:states:eu-west-1:1:stateMachine:recovery",
    "FunctionFanOut": "fan-out",
    "QueueEvents": "http://localhost:4566/1/events",
    "DlqEvents": "http://localhost:4566/1/events-dead",
    "TableAccess": "access",
}


@pytest.fixture
def home(tmp_path: Path) -> Home:
    home = Home(tmp_path)
    home.port.write_text("4566")
    return home


def test_what_is_written_is_what_is_read(home: Home) -> None:
    document = stack.describe(OUTPUTS, home, operator_key="hk_op_x")
    stack.write(document, home)
    assert Stack.load(home) == Stack.parse(document)


def test_outputs_stay_flat_and_are_gathered_in_maps(home: Home) -> None:
    document = stack.describe(OUTPUTS, home, operator_key="hk_op_x")
    assert OUTPUTS.items() <= document.items()
    assert document["Functions"] == {"FanOut": "fan-out"}
    assert document["Queues"] == {"Events": "http://localhost:4566/1/events"}
    assert document["DeadLetterQueues"] == {"Events": "http://localhost:4566/1/events-dead"}
    assert document["Tables"] == {"Access": "access"}


def test_it_says_how_to_reach_the_embedded_aws_and_whom_to_trust(home: Home) -> None:
    document = stack.describe(OUTPUTS, home, operator_key="hk_op_x")
    assert {
        name: document[name] for name in document.keys() - OUTPUTS.keys() if name[:2] in ("Aw", "Ca", "Op")
    } == {
        "AwsEndpointUrl": "http://127.0.0.1:4566",
        "AwsRegion": "eu-west-1",
        "AwsAccessKeyId": "111111111111",
        "AwsSecretAccessKey": "local",
        "OperatorKey": "hk_op_x",
        "CaCertificate": str(home.ca_certificate),
        "CaKey": str(home.ca_key),
    }


def test_only_its_owner_can_read_it(home: Home) -> None:
    stack.write(stack.describe(OUTPUTS, home, operator_key="hk_op_x"), home)
    assert home.stack.stat().st_mode & 0o077 == 0
    assert json.loads(home.stack.read_text())["OperatorKey"] == "hk_op_x"


def test_without_it_one_is_told_what_to_do(tmp_path: Path) -> None:
    with pytest.raises(NotUpError, match="make up"):
        Stack.load(Home(tmp_path))

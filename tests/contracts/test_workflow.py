"""One name is one execution, whatever it is made of."""

import json
from typing import Any

import pytest
from botocore.exceptions import ClientError
from hookkeeper.adapters.sfn_workflow import SfnWorkflow, safe_name
from hookkeeper.messages import RecoveryState
from hookkeeper.ports import Workflow

from tests.builders import a_key
from tests.contracts.conftest import Aws
from tests.fakes import FakeWorkflow, World
from tests.faults import refuse

DEFINITION = {"StartAt": "End", "States": {"End": {"Type": "Succeed"}}}
ROLE = "arn:aws:iam::123456789012:role/recovery"


class Machine:
    def __init__(self, aws: Aws) -> None:
        self.client = aws.client("stepfunctions")
        self.arn = self.client.create_state_machine(
            name="recovery", definition=json.dumps(DEFINITION), roleArn=ROLE
        )["stateMachineArn"]
        self.workflow = SfnWorkflow(self.client, state_machine_arn=self.arn)

    def executions(self) -> list[dict[str, Any]]:
        listed = self.client.list_executions(stateMachineArn=self.arn)["executions"]
        return [self.client.describe_execution(executionArn=e["executionArn"]) for e in listed]


@pytest.fixture
def machine(aws: Aws) -> Machine:
    return Machine(aws)


@pytest.fixture(params=["fake", "sfn"])
def started(request: pytest.FixtureRequest, world: World) -> tuple[Workflow, Any]:
    if request.param == "fake":
        return FakeWorkflow(world), lambda: list(world.executions)
    machine: Machine = request.getfixturevalue("machine")
    return machine.workflow, machine.executions


def test_starting_a_name_twice_is_one_execution(started: tuple[Workflow, Any]) -> None:
    workflow, executions = started
    for kind in ("reenable", "reenable", "automatic"):
        workflow.start(a_key(), name="rec_1-1", options={"kind": kind})
    workflow.start(a_key(), name="rec_1-2", options={"kind": "reenable"})
    assert len(executions()) == 2


def test_the_execution_gets_a_state_that_its_tasks_understand(machine: Machine) -> None:
    machine.workflow.start(
        a_key(),
        name="rec_1-1",
        options={"kind": "automatic", "recovery_id": "rec_1", "generation": 1, "probe": False, "rate": None},
    )
    (execution,) = machine.executions()
    state = RecoveryState.model_validate_json(execution["input"])
    assert state.key() == a_key()
    assert (state.kind, state.recovery_id, state.generation, state.probe) == ("automatic", "rec_1", 1, False)
    assert "rate" not in json.loads(execution["input"])


@pytest.mark.parametrize("name", ["rec_1-1", "a" * 80])
def test_a_name_that_may_stand_stays_as_it_is(name: str) -> None:
    assert safe_name(name) == name


@pytest.mark.parametrize("name", ["a" * 81, "a" * 500, "with space", "sub_1.2:3", 'é*?<>{}[]"#%\\^|~$;/\x00'])
def test_any_other_name_becomes_one_of_at_most_eighty_safe_characters(name: str) -> None:
    safe = safe_name(name)
    assert len(safe) <= 80
    assert safe.replace("-", "").replace("_", "").isalnum()
    assert safe.isascii()
    assert safe == safe_name(name)


def test_names_that_differ_stay_apart() -> None:
    names = ["a b", "a-b", "a.b", "a" * 81, "a" * 82]
    assert len({safe_name(name) for name in names}) == len(names)


def test_any_other_refusal_is_raised(machine: Machine) -> None:
    refuse(machine.client, "StartExecution", code="ExecutionLimitExceeded")
    with pytest.raises(ClientError):
        machine.workflow.start(a_key(), name="rec_1-1", options={})

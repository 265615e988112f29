"""The recovery state machine, walked with scripted answers: which tasks run, in what order."""

import json
from typing import Any

import jsonata  # type: ignore[import-untyped]  # it ships no types
import pytest

Definition = dict[str, Any]


@pytest.fixture(scope="session")
def machine(prod: Any) -> Definition:
    (properties,) = prod.of("AWS::StepFunctions::StateMachine").values()
    definition: Definition = json.loads(prod.literal(properties["DefinitionString"]))
    assert definition["QueryLanguage"] == "JSONata"
    return definition


CRASH = object()
"""The answer of a task that fails for good."""


def walk(machine: Definition, answers: dict[str, list[Any]], state: dict[str, Any]) -> list[str]:
    """Names of the states that ran. Each task gives its next scripted answer, merged over its payload."""
    name: str | None = machine["StartAt"]
    ran = []
    while name:
        ran.append(name)
        current = machine["States"][name]
        match current["Type"]:
            case "Task":
                payload = _evaluated(current["Arguments"]["Payload"], state)
                answer = answers[name].pop(0)
                if answer is CRASH:
                    name = current["Catch"][0]["Next"]
                    continue
                state = payload | answer
                name = current["Next"]
            case "Choice":
                name = next(
                    (c["Next"] for c in current["Choices"] if _evaluated(c["Condition"], state)),
                    current["Default"],
                )
            case "Wait":
                assert _evaluated(current["Seconds"], state) >= 0
                name = current["Next"]
            case _:
                name = None
    return ran


def _evaluated(expression: str, state: dict[str, Any]) -> Any:
    compiled = jsonata.Jsonata(expression.removeprefix("{%").removesuffix("%}"))
    compiled.assign("states", {"input": state, "context": {"Execution": {"Id": "arn:execution"}}})
    return compiled.evaluate({})


START = {"tenant": "t1", "mode": "live", "subscription_id": "sub_1"}


def tasks(machine: Definition, **answers: Any) -> list[str]:
    scripted = {name: a if isinstance(a, list) else [a] for name, a in answers.items()}
    ran = walk(machine, scripted, START)
    assert not any(scripted.values()), "every scripted answer was used"
    return [name for name in ran if machine["States"][name]["Type"] in ("Task", "Fail", "Wait")]


def test_a_passed_probe_activates_and_reads_what_is_owed(machine: Definition) -> None:
    assert tasks(
        machine,
        Lock={"next": "probe"},
        Probe={"passed": True},
        Activate={"next": "slice"},
        Slice=[{"next": "wait", "wait_seconds": 60}, {"next": "end"}],
    ) == ["Lock", "Probe", "Activate", "Slice", "Wait", "Slice"]


@pytest.mark.parametrize("answer", [{"passed": False}, {"passed": None}, {}, {"passed": "true"}])
def test_a_probe_that_did_not_pass_never_activates(machine: Definition, answer: dict[str, Any]) -> None:
    assert tasks(machine, Lock={"next": "probe"}, Probe=answer, ProbeFailed={}) == [
        "Lock",
        "Probe",
        "ProbeFailed",
    ]


def test_a_probe_that_crashes_never_activates(machine: Definition) -> None:
    assert tasks(machine, Lock={"next": "probe"}, Probe=CRASH, Failed={}) == [
        "Lock",
        "Probe",
        "Failed",
        "Broken",
    ]


def test_only_a_passed_probe_and_a_lock_that_asks_for_none_lead_to_activation(machine: Definition) -> None:
    into = {
        (name, choice["Condition"])
        for name, state in machine["States"].items()
        for choice in state.get("Choices", [])
        if choice["Next"] == "Activate"
    }
    assert into == {
        ("What first?", "{% $states.input.next = 'activate' %}"),
        ("Passed?", "{% $states.input.passed = true %}"),
    }
    plain = [
        name
        for name, state in machine["States"].items()
        if "Activate" in (state.get("Next"), state.get("Default"))
        or "Activate" in [c["Next"] for c in state.get("Catch", [])]
    ]
    assert plain == []


@pytest.mark.parametrize(
    "answers, ran",
    [
        pytest.param({"Lock": {"next": "end"}}, ["Lock"], id="another-recovery-runs"),
        pytest.param(
            {"Lock": {"next": "slice"}, "Slice": {"next": "end"}}, ["Lock", "Slice"], id="after-an-outage"
        ),
        pytest.param(
            {"Lock": {"next": "activate"}, "Activate": {"next": "end"}},
            ["Lock", "Activate"],
            id="lost-activation",
        ),
        pytest.param(
            {"Lock": {"next": "slice"}, "Slice": {"next": "continue"}, "Continue": {}},
            ["Lock", "Slice", "Continue"],
            id="history-nearly-full",
        ),
        pytest.param(
            {"Lock": {"next": "slice"}, "Slice": CRASH, "Failed": {}},
            ["Lock", "Slice", "Failed", "Broken"],
            id="crash",
        ),
    ],
)
def test_a_recovery_does_what_its_tasks_answer(
    machine: Definition, answers: dict[str, Any], ran: list[str]
) -> None:
    assert tasks(machine, **answers) == ran


def test_every_task_gets_the_whole_state_its_action_and_its_execution(machine: Definition) -> None:
    actions = {}
    for name, state in machine["States"].items():
        if state["Type"] == "Task":
            payload = _evaluated(state["Arguments"]["Payload"], {"tenant": "t1", "steps": 3})
            actions[name] = payload.pop("action")
            assert payload == {"tenant": "t1", "steps": 3, "execution": "arn:execution"}
    assert actions == {
        "Lock": "lock",
        "Probe": "probe",
        "ProbeFailed": "probe_failed",
        "Activate": "activate",
        "Slice": "slice",
        "Continue": "continue",
        "Failed": "failed",
    }


def test_every_task_is_tried_again_and_caught(machine: Definition) -> None:
    for name, state in machine["States"].items():
        if state["Type"] == "Task":
            assert "States.TaskFailed" in {e for retry in state["Retry"] for e in retry["ErrorEquals"]}
            if name != "Failed":
                assert [c["ErrorEquals"] for c in state["Catch"]] == [["States.ALL"]]


def test_the_probe_is_made_by_contact_and_all_else_by_recover(prod: Any, machine: Definition) -> None:
    called = {
        name: state["Arguments"]["FunctionName"]
        for name, state in machine["States"].items()
        if state["Type"] == "Task"
    }
    assert called.pop("Probe") == f"<{prod.output('FunctionContact')}.Arn>"
    assert set(called.values()) == {f"<{prod.output('FunctionRecover')}.Arn>"}


def test_an_execution_that_broke_is_told_to_recover_and_never_lost(prod: Any) -> None:
    (rule,) = (r for r in prod.of("AWS::Events::Rule").values() if "states" in str(r.get("EventPattern")))
    assert rule["EventPattern"]["detail"]["status"] == ["FAILED", "ABORTED", "TIMED_OUT"]
    (target,) = rule["Targets"]
    assert prod.literal(target["Arn"]) == f"<{prod.output('FunctionRecover')}.Arn>"
    assert prod.literal(target["DeadLetterConfig"]["Arn"]) == f"<{prod.output('DlqRecovery')}.Arn>"


def test_everyone_names_the_machine_that_is_deployed(prod: Any) -> None:
    (properties,) = prod.of("AWS::StepFunctions::StateMachine").values()
    name = prod.literal(properties["StateMachineName"])
    for function in ("Api", "Recover", "Sweep"):
        variables = prod.function(function)["Environment"]["Variables"]
        assert prod.literal(variables["HOOKKEEPER_STATE_MACHINE_ARN"]).endswith(f":stateMachine:{name}")

"""Step Functions, as far as the recovery state machine uses it: runs a definition, counts its history.

Time passes on the World's clock; `between` is called at each Wait, for whatever else happens meanwhile.
Events are counted as AWS writes them: https://docs.aws.amazon.com/step-functions/latest/apireference/API_HistoryEvent.html
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from functools import cache
from typing import Any

import jsonata  # type: ignore[import-untyped]  # it ships no types

from tests.fakes import World

State = dict[str, Any]
TaskFunction = Callable[[State], State]

HISTORY_LIMIT = 25_000
"""The event with this number is ExecutionFailed."""

ENTERED_AND_EXITED = 2
TASK_TRIED = 3
"""Scheduled, started, and succeeded or failed."""


@dataclass
class Run:
    """One execution: what it is called, the states it went through, and how long its history is."""

    id: str
    status: str = "RUNNING"
    history: int = 1
    states: list[str] = field(default_factory=list)
    output: State = field(default_factory=dict)
    waited: timedelta = timedelta(0)

    def count(self, events: int) -> None:
        self.history += events
        assert self.history < HISTORY_LIMIT, f"{self.id} broke on its history after {len(self.states)} states"


class AbortedError(Exception):
    """A person, or a test, stops an execution between two states."""


@dataclass
class Machine:
    """A JSONata definition, and the Lambda functions that its tasks invoke, by the state's name."""

    definition: Mapping[str, Any]
    functions: Mapping[str, TaskFunction]
    world: World
    between: Callable[[], None] = lambda: None

    def run(self, execution: str, state: State) -> Run:
        """Run to the end; an abortion or a failure is in the Run's status."""
        run = Run(execution, output=state)
        name: str | None = self.definition["StartAt"]
        try:
            while name is not None:
                run.states.append(name)
                name = self._enter(run, self.definition["States"][name], name)
        except AbortedError:
            run.status = "ABORTED"
        run.count(1)
        if run.status == "RUNNING":
            run.status = "SUCCEEDED"
        return run

    def _enter(self, run: Run, state: Mapping[str, Any], name: str) -> str | None:
        following: str | None = state.get("Next")
        match state["Type"]:
            case "Task":
                run.count(ENTERED_AND_EXITED)
                return self._task(run, state, name)
            case "Choice":
                run.count(ENTERED_AND_EXITED)
                chosen = (c["Next"] for c in state["Choices"] if _evaluated(c["Condition"], run, 0))
                following = next(chosen, state["Default"])
            case "Wait":
                run.count(ENTERED_AND_EXITED)
                wait = timedelta(seconds=_evaluated(state["Seconds"], run, 0))
                run.waited += wait
                self.world.now += wait
                self.between()
            case "Succeed":
                run.count(ENTERED_AND_EXITED)
            case "Fail":
                run.count(1)
                run.status = "FAILED"
            case other:
                raise AssertionError(f"{name} is a {other}")
        return following

    def _task(self, run: Run, state: Mapping[str, Any], name: str) -> str:
        """Invoke, again as `Retry` has it, and then as `Catch` has it."""
        retries = state.get("Retry", [])
        used = [0] * len(retries)
        while True:
            payload = _evaluated(state["Arguments"]["Payload"], run, sum(used))
            run.count(TASK_TRIED)
            try:
                answer = self.functions[name](payload)
            except AbortedError:
                raise
            except Exception:  # noqa: BLE001  # Lambda answers any of them as a failed task
                position = self._retrier(retries, used)
                if position is None:
                    (catch,) = state["Catch"]
                    run.output = run.output | {"error": "States.TaskFailed"}
                    return str(catch["Next"])
                self._back_off(retries[position], used[position])
                used[position] += 1
                continue
            run.output = answer
            following: str = state["Next"]
            return following

    def _retrier(self, retries: list[Mapping[str, Any]], used: list[int]) -> int | None:
        for position, retry in enumerate(retries):
            if "States.TaskFailed" in retry["ErrorEquals"]:
                return position if used[position] < retry.get("MaxAttempts", 3) else None
        return None

    def _back_off(self, retry: Mapping[str, Any], used: int) -> None:
        seconds = retry.get("IntervalSeconds", 1) * retry.get("BackoffRate", 2) ** used
        self.world.now += timedelta(seconds=min(seconds, retry.get("MaxDelaySeconds", seconds)))


@cache
def _compiled(expression: str) -> Any:
    return jsonata.Jsonata(expression.removeprefix("{%").removesuffix("%}"))


def _evaluated(expression: Any, run: Run, retried: int) -> Any:
    if not isinstance(expression, str):
        return expression
    compiled = _compiled(expression)
    context = {"Execution": {"Id": run.id}, "State": {"RetryCount": retried}}
    compiled.assign("states", {"input": run.output, "context": context})
    return compiled.evaluate({})

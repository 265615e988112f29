"""The recovery state machine as infra synthesises it, for the tests that run it."""

import json
from typing import Any

import pytest

from tests.infra.conftest import prod, stack

__all__ = ["prod", "stack"]


@pytest.fixture(scope="session")
def definition(prod: Any) -> dict[str, Any]:
    (properties,) = prod.of("AWS::StepFunctions::StateMachine").values()
    found: dict[str, Any] = json.loads(prod.literal(properties["DefinitionString"]))
    return found

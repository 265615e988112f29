"""The stack, synthesised once a session and without bundling, as plain dictionaries."""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import aws_cdk as cdk
import pytest
from aws_cdk import assertions

from infra.app import build
from infra.stack import HookkeeperStack

_FLAGS: dict[str, Any] = json.loads(Path("cdk.json").read_text())["context"]

Resource = dict[str, Any]


def _literal(value: Any) -> str:
    """A template's value as a person would read it: `Ref` and `GetAtt` as the logical id."""
    match value:
        case {"Ref": name}:
            return f"<{name}>"
        case {"Fn::GetAtt": [name, attribute]}:
            return f"<{name}.{attribute}>"
        case {"Fn::Join": [glue, parts]}:
            return str(glue).join(_literal(part) for part in parts)
        case {"Fn::Select": [index, {"Fn::Split": [glue, whole]}]}:
            return f"{_literal(whole)}|{glue}|{index}"
        case _:
            return str(value)


@dataclass(frozen=True, slots=True)
class Statement:
    """One grant of one role; resources as `_literal` gives them."""

    role: str
    actions: tuple[str, ...]
    resources: tuple[str, ...]
    conditions: Mapping[str, Any]


class Synthesised:
    """A template that answers what the tests ask."""

    def __init__(self, template: Mapping[str, Any]) -> None:
        self.template = template
        self.resources: dict[str, Resource] = template["Resources"]

    literal = staticmethod(_literal)

    def of(self, type_: str) -> dict[str, dict[str, Any]]:
        """Properties by logical id of every resource of this type."""
        return {
            id_: resource.get("Properties", {})
            for id_, resource in self.resources.items()
            if resource["Type"] == type_
        }

    def output(self, name: str) -> str:
        """The logical id that an output refers to."""
        return _literal(self.template["Outputs"][name]["Value"]).strip("<>").split(".")[0]

    def outputs(self, prefix: str) -> dict[str, str]:
        return {
            name.removeprefix(prefix): self.output(name)
            for name in self.template["Outputs"]
            if name.startswith(prefix)
        }

    def function(self, name: str) -> dict[str, Any]:
        """Properties of a function by the name its output gives it."""
        found: dict[str, Any] = self.resources[self.output(f"Function{name}")]["Properties"]
        return found

    def role_of(self, name: str) -> str:
        return _literal(self.function(name)["Role"]).strip("<>").split(".")[0]

    def grants(self, role: str | None = None) -> Iterator[Statement]:
        for properties in self.of("AWS::IAM::Policy").values():
            for holder in (reference["Ref"] for reference in properties["Roles"]):
                for statement in properties["PolicyDocument"]["Statement"]:
                    if role in (None, holder):
                        yield Statement(
                            holder,
                            _words(statement["Action"]),
                            tuple(map(_literal, _listed(statement["Resource"]))),
                            statement.get("Condition", {}),
                        )

    def actions_on(self, resource: str, role: str | None = None) -> set[str]:
        """What a role (or any) may do on exactly this ARN."""
        return {
            action for grant in self.grants(role) if resource in grant.resources for action in grant.actions
        }


def _listed(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [value]


def _words(value: Any) -> tuple[str, ...]:
    return tuple(map(str, _listed(value)))


def _stack(**context: str) -> HookkeeperStack:
    return build(cdk.App(context={**_FLAGS, "aws:cdk:bundling-stacks": [], **context}))


def synthesised(**context: str) -> Synthesised:
    """The template of a stage, made now."""
    return Synthesised(assertions.Template.from_stack(_stack(**context)).to_json())


@cache
def _prod() -> tuple[HookkeeperStack, Synthesised]:
    """Once a process: tests of functions ask for it too. Any finding of cdk-nag or of CDK's rules raises."""
    stack = _stack(stage="prod", sender="webhooks@example.com")
    return stack, Synthesised(assertions.Template.from_stack(stack).to_json())


@pytest.fixture(scope="session")
def stack() -> HookkeeperStack:
    return _prod()[0]


@pytest.fixture(scope="session")
def prod() -> Synthesised:
    return _prod()[1]


@pytest.fixture(scope="session")
def given() -> Synthesised:
    """A stage with every option that is off by default."""
    return synthesised(
        stage="prod",
        sender="webhooks@hooks.example.com",
        sender_domain="hooks.example.com",
        alarm_topic="arn:aws:sns:eu-west-1:123456789012:pager",
        static_ips="2",
        account_concurrency="10",
        runtime_document='{"tenant_policies": {"acme": "patient"}}',
    )


@pytest.fixture(scope="session")
def local() -> Synthesised:
    return synthesised(stage="local", extra_ca_file="/ca.pem")

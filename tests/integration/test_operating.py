"""An operator turns the knobs while events flow, and what is deployed is what was synthesised."""

import base64
import datetime as dt
import itertools
import json
import subprocess
import time
from collections.abc import Iterator
from typing import Any

import pytest
from typer.testing import CliRunner

from infra.cli.main import app
from infra.cli.session import Outside
from infra.local import aws, ministack
from infra.local.home import Home
from infra.local.receiver import Behaviour, Receiver
from infra.local.stack import Stack
from tests.integration.customer import FAST, Customer, shorten

pytestmark = [pytest.mark.integration, pytest.mark.timeout(300)]


CIRCUIT = {"opens_at": 100, "first_open_seconds": 1, "longest_open_seconds": 2}
"""One that opened under the document before is tried again at once."""


def row(count: int, seconds: int) -> dict[str, Any]:
    limits = {name: {"count": count, "age_seconds": seconds} for name in ("retryable", "permanent", "fatal")}
    return {"presets": {"graded": {"limits": limits}}, "circuit": CIRCUIT}


NARROW = FAST | row(5, 3)
WIDE = FAST | row(1000, 3600)
"""Both without a circuit that would keep the load from the endpoint."""


@pytest.fixture(autouse=True, scope="module")
def _fast_again(stack: Stack) -> Iterator[None]:
    yield
    shorten(stack)


def config_set(home: Home, document: dict[str, Any]) -> None:
    """`hookkeeper config set`, as an operator types it."""
    ran = CliRunner().invoke(app, ["config", "set", json.dumps(document), "--yes"], obj=Outside(home=home))
    assert ran.exit_code == 0, ran.stderr


def failing(stack: Stack, receiver: Receiver, tenant: str) -> Customer:
    customer = Customer.sign_up(stack, receiver, tenant).active()
    receiver.behave(Behaviour(status=500), path=customer.path)
    return customer


def outlives_the_narrow_limits(customer: Customer) -> bool:
    """Fail it until it is suspended, or has failed so often and so long that NARROW would have."""
    survived = None

    def ended() -> bool:
        nonlocal survived
        present = customer.present()
        health = present["health"]
        if present["status"] == "suspended":
            survived = False
        elif health["consecutive_failures"] > 10 and _span(health) > dt.timedelta(seconds=4):
            survived = True
        else:
            customer.emit(2)
        return survived is not None

    customer.wait("failures or a suspension", ended, seconds=60)
    return bool(survived)


def _span(health: dict[str, Any]) -> dt.timedelta:
    first, last = (
        dt.datetime.fromisoformat(health[f"{name}_at"]) for name in ("first_failure", "last_attempt")
    )
    return last - first


def test_thresholds_widened_under_load_take_effect_within_a_minute_without_a_deploy(
    stack: Stack, receiver: Receiver, home: Home
) -> None:
    functions = _functions(stack)
    for name, limits, survives in (("narrowed", NARROW, False), ("widened", WIDE, True)):
        config_set(home, limits)
        began, numbers = time.monotonic(), itertools.count()
        while outlives_the_narrow_limits(failing(stack, receiver, f"{name}-{next(numbers)}")) is not survives:
            assert time.monotonic() - began < 60, f"{name} limits are not in force after a minute"
    assert _functions(stack) == functions, "no function was deployed"


def test_the_validator_runs_under_its_own_role(stack: Stack) -> None:
    function = stack.functions["ValidateConfig"]

    def ask(document: str) -> Any:
        payload = {"content": base64.b64encode(document.encode()).decode(), "uri": "arn:a-document"}
        client = aws.client(stack, "lambda")
        return client.invoke(FunctionName=function, Payload=json.dumps(payload).encode())

    assert "FunctionError" not in ask(json.dumps(FAST))
    refused = ask('{"retention_days": 99}')
    assert refused["FunctionError"]
    assert "/retention_days" in json.loads(refused["Payload"].read())["errorMessage"]


def test_a_diff_after_a_deploy_is_empty(stack: Stack, home: Home) -> None:
    assert stack.outputs
    done = subprocess.run(
        ["cdk", "diff", "--fail", "--no-change-set", "--no-notices", "--app", str(home.folder / "cdk.out")],
        cwd=home.folder,
        env=ministack.client_environment(home),
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "There were no differences" in done.stdout + done.stderr


def test_an_audit_record_that_somebody_changes_is_told(stack: Stack, receiver: Receiver, home: Home) -> None:
    customer = Customer.sign_up(stack, receiver, "tampered")
    customer.subscribe()
    dynamodb, table = aws.client(stack, "dynamodb"), stack.tables["Audit"]
    (record, *_) = dynamodb.scan(TableName=table, Limit=1)["Items"]
    key = {"pk": record["pk"], "sk": record["sk"]}
    told = home.server_log.read_text().count("AuditRecordsChanged")
    dynamodb.update_item(
        TableName=table,
        Key=key,
        UpdateExpression="SET note = :note",
        ExpressionAttributeValues={":note": {"S": "it was not me"}},
    )
    customer.wait(
        "the alarm's metric", lambda: home.server_log.read_text().count("AuditRecordsChanged") > told
    )


def _functions(stack: Stack) -> dict[str, str]:
    """When each function was last changed."""
    client = aws.client(stack, "lambda")
    return {
        name: client.get_function_configuration(FunctionName=function)["LastModified"]
        for name, function in stack.functions.items()
    }

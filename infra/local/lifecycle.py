"""Up, down and status of one embedded AWS, from nothing to the deployed stack with its first operator key."""

import datetime as dt
import os
from collections.abc import Callable

from botocore.exceptions import ClientError
from hookkeeper.adapters.dynamodb_access import DynamoDBAccess
from hookkeeper.adapters.dynamodb_audit import DynamoDBAudit
from hookkeeper.adapters.ids import TypeIds
from hookkeeper.domain.audit import Actor
from hookkeeper.usecases.access import create_operator_key

from infra.local import aws, ministack, stack
from infra.local.authority import ensure_authority
from infra.local.home import Home
from infra.local.stack import NotUpError, Stack

Say = Callable[[str], None]


def up(home: Home, say: Say) -> Stack:
    """Start what is not running, deploy what has changed. Raises ServerError or DeployError."""
    home.prepare()
    ensure_authority(home.ca_certificate, home.ca_key)
    say(f"embedded AWS: {ministack.start(home)}")
    key = _known_operator_key(home)
    if not _bootstrapped(home):
        say("cdk bootstrap")
        stack.bootstrap(home)
    say("cdk deploy")
    outputs = stack.deploy(home)
    unfinished = Stack.parse(stack.describe(outputs, home, operator_key=key or ""))
    stack.write(stack.describe(outputs, home, operator_key=key or _new_operator_key(unfinished)), home)
    return Stack.load(home)


def down(home: Home) -> bool:
    """Stop the server and forget what was on it; port and authority stay. False where nothing ran."""
    return ministack.stop(home)


def status(home: Home) -> Stack | None:
    """The stack, if it is up."""
    if not ministack.running(home):
        return None
    try:
        return Stack.load(home)
    except NotUpError:
        return None


def _known_operator_key(home: Home) -> str | None:
    running = status(home)
    return running.operator_key if running else None


def _bootstrapped(home: Home) -> bool:
    formation = aws.root_client("cloudformation", ministack.endpoint_url(home))
    try:
        formation.describe_stacks(StackName="CDKToolkit")
    except ClientError:
        return False
    return True


def _new_operator_key(deployed: Stack) -> str:
    dynamodb = aws.client(deployed, "dynamodb")
    new = create_operator_key(
        entropy=os.urandom(32),
        actor=Actor(id="hookkeeper up"),
        now=dt.datetime.now(dt.UTC),
        access=DynamoDBAccess(dynamodb, access_table=deployed.tables["Access"]),
        audit=DynamoDBAudit(dynamodb, audit_table=deployed.tables["Audit"]),
        ids=TypeIds(),
    )
    return new.text

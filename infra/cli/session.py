"""What a command works with: the options all commands share, the API, the stack's outputs and its AWS."""

import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import cached_property
from typing import Any

import httpx
import typer
from hookkeeper.domain.tenancy import Mode

from infra.cli.client import PATIENCE_SECONDS, Api
from infra.cli.show import Screen, words
from infra.local.home import Home
from infra.local.stack import NotUpError, Stack

OPERATOR_KEY, APPLICATION_KEY = "hk_op_", "hk_app_"


class UsageError(Exception):
    """What was asked cannot be done as it was asked; exit status 2."""


class Failure(Exception):  # noqa: N818 - it is what the command ends with
    """The command did not do what it was asked; its exit status says how."""

    def __init__(self, sentence: str, *, exit_code: int = 1) -> None:
        super().__init__(sentence)
        self.exit_code = exit_code


def aws_client(service: str, stack: Stack | None) -> Any:
    """A boto3 client of the embedded AWS, or, without a stack, under the caller's ordinary credentials."""
    if stack is not None:
        from infra.local import aws

        return aws.client(stack, service)
    import boto3

    create: Any = boto3.client
    return create(service)


def http_client(url: str) -> httpx.Client:
    """For the API at that URL: by the machine's proxy, unless it is this very machine."""
    near = httpx.URL(url).host in ("localhost", "127.0.0.1", "::1")
    return httpx.Client(trust_env=not near, timeout=PATIENCE_SECONDS)


def somebody_answers() -> bool:
    """Whether stdin is a person's."""
    return sys.stdin.isatty()


@dataclass(frozen=True, slots=True)
class Outside:
    """Everything that commands reach beyond their arguments; tests hand in their own."""

    home: Home = field(default_factory=Home)
    http: Callable[[str], httpx.Client] = http_client
    aws: Callable[[str, Stack | None], Any] = aws_client
    now: Callable[[], datetime] = lambda: datetime.now(UTC)
    clock: Callable[[], float] = time.monotonic
    pause: Callable[[float], None] = time.sleep
    interactive: Callable[[], bool] = somebody_answers


@dataclass(frozen=True, slots=True)
class Deployment:
    """A deployed stack: what its outputs name, and clients of the AWS it is on."""

    outputs: Mapping[str, str]
    client: Callable[[str], Any]

    def output(self, name: str) -> str:
        """Raises Failure where the stack has no such output."""
        try:
            return self.outputs[name]
        except KeyError:
            raise Failure(f"the stack has no output {name}; is it the right one?") from None


@dataclass(frozen=True)
class Session:
    """One command's run. Connection options are None where neither option nor environment gave them."""

    outside: Outside
    screen: Screen
    url: str | None = None
    key: str | None = None
    tenant: str | None = None
    mode: Mode = Mode.LIVE
    stack_name: str | None = None

    @property
    def json(self) -> bool:
        return self.screen.json

    @property
    def now(self) -> datetime:
        return self.outside.now()

    def done(self, document: Any, told: str) -> None:
        """Something was done that has nothing to show: a sentence on stderr, or the document."""
        if self.json:
            self.screen.document(document)
        else:
            self.screen.note(words("✓ ", "green") + words(told))

    @cached_property
    def api(self) -> Api:
        """The API under the key that was given, else the local stack under its operator key.

        The local key goes to the local stack alone. Raises UsageError where a URL or a key is missing.
        """
        url, key = self.url or self._url(), self.key or self._local_key()
        shared = key.startswith((OPERATOR_KEY, APPLICATION_KEY))
        return Api(url, key, self.tenant if shared else None, str(self.mode), self.outside.http(url))

    @cached_property
    def tenant_api(self) -> Api:
        """The API within one tenant, which an operator must have named."""
        if self.api.key.startswith((OPERATOR_KEY, APPLICATION_KEY)):
            self.named_tenant()
        return self.api

    def named_tenant(self) -> str:
        """Raises UsageError where none was named."""
        if not self.tenant:
            raise UsageError("name the tenant: --tenant, or HOOKKEEPER_TENANT")
        return self.tenant

    @cached_property
    def local(self) -> Stack | None:
        """The local stack, if it is up."""
        try:
            return Stack.load(self.outside.home)
        except NotUpError:
            return None

    @cached_property
    def deployment(self) -> Deployment:
        """The named CloudFormation stack, else the local one. Raises UsageError where there is neither."""
        if self.stack_name:
            return Deployment(self._outputs(self.stack_name), lambda name: self.outside.aws(name, None))
        local = self.local
        if local is None:
            raise UsageError(
                "no stack: name one by --stack or HOOKKEEPER_STACK, or start the local one: hookkeeper up"
            )
        return Deployment(local.outputs, lambda name: self.outside.aws(name, local))

    def confirm(self, question: str, *, yes: bool) -> None:
        """Go on after a yes. Raises UsageError where nobody can be asked, Abort after a no."""
        if yes:
            return
        if not self.outside.interactive():
            raise UsageError(f"{question} Nobody can answer here: say --yes")
        typer.confirm(question, abort=True, err=True)

    def _url(self) -> str:
        if self.stack_name or self.local:
            return self.deployment.output("ApiUrl")
        raise UsageError("no API: give --url or HOOKKEEPER_URL, or start the local stack: hookkeeper up")

    def _local_key(self) -> str:
        if self.url or self.stack_name or self.local is None:
            raise UsageError("no key: give HOOKKEEPER_KEY, or --key")
        return self.local.operator_key

    def _outputs(self, name: str) -> dict[str, str]:
        (stack,) = self.outside.aws("cloudformation", None).describe_stacks(StackName=name)["Stacks"]
        return {each["OutputKey"]: each["OutputValue"] for each in stack.get("Outputs", [])}

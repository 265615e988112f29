"""The stack on the embedded AWS: the real `cdk deploy`, and the file that says how to reach what it made."""

import json
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

from infra.local import ministack
from infra.local.home import CHECKOUT, Home

SENDER = "webhooks@hookkeeper.test"
CDK_PATIENCE_SECONDS = 300

_MAPS = {"Functions": "Function", "Queues": "Queue", "DeadLetterQueues": "Dlq", "Tables": "Table"}
"""Maps in stack.json, and the prefix of the outputs they gather."""


class DeployError(Exception):
    """The CDK's command failed; the sentence ends with what it said."""


class NotUpError(Exception):
    """There is no stack; `make up` makes one."""


@dataclass(frozen=True, slots=True)
class Stack:
    """What runs, as stack.json has it: every output of the stack, and how to speak to the embedded AWS.

    `functions`, `queues` (URLs), `dead_letter_queues` (URLs) and `tables` are keyed by the names the stack
    gives them.
    """

    api_url: str
    events_queue_url: str
    event_bus_name: str
    archive_bucket_name: str
    recovery_state_machine_arn: str
    aws_endpoint_url: str
    aws_region: str
    aws_access_key_id: str
    aws_secret_access_key: str
    operator_key: str
    ca_certificate: Path
    ca_key: Path
    functions: Mapping[str, str]
    queues: Mapping[str, str]
    dead_letter_queues: Mapping[str, str]
    tables: Mapping[str, str]
    outputs: Mapping[str, str]

    @classmethod
    def load(cls, home: Home) -> Self:
        """Raises NotUpError."""
        try:
            return cls.parse(json.loads(home.stack.read_text()))
        except FileNotFoundError:
            raise NotUpError("the embedded AWS is not up; `make up` starts it") from None

    @classmethod
    def parse(cls, document: Mapping[str, Any]) -> Self:
        return cls(
            api_url=document["ApiUrl"],
            events_queue_url=document["EventsQueueUrl"],
            event_bus_name=document["EventBusName"],
            archive_bucket_name=document["ArchiveBucketName"],
            recovery_state_machine_arn=document["RecoveryStateMachineArn"],
            aws_endpoint_url=document["AwsEndpointUrl"],
            aws_region=document["AwsRegion"],
            aws_access_key_id=document["AwsAccessKeyId"],
            aws_secret_access_key=document["AwsSecretAccessKey"],
            operator_key=document["OperatorKey"],
            ca_certificate=Path(document["CaCertificate"]),
            ca_key=Path(document["CaKey"]),
            functions=document["Functions"],
            queues=document["Queues"],
            dead_letter_queues=document["DeadLetterQueues"],
            tables=document["Tables"],
            outputs={name: value for name, value in document.items() if isinstance(value, str)},
        )


def describe(outputs: Mapping[str, str], home: Home, *, operator_key: str) -> dict[str, Any]:
    """What stack.json holds: the outputs as they are, and gathered in maps, and how to reach the server."""
    maps = {
        name: {key.removeprefix(prefix): value for key, value in outputs.items() if _of(prefix, key)}
        for name, prefix in _MAPS.items()
    }
    return {
        **outputs,
        **maps,
        "AwsEndpointUrl": ministack.endpoint_url(home),
        "AwsRegion": ministack.REGION,
        "AwsAccessKeyId": ministack.ACCOUNT,
        "AwsSecretAccessKey": ministack.SECRET_KEY,
        "OperatorKey": operator_key,
        "CaCertificate": str(home.ca_certificate.absolute()),
        "CaKey": str(home.ca_key.absolute()),
    }


def _of(prefix: str, output: str) -> bool:
    return output.startswith(prefix) and output != prefix


def write(document: Mapping[str, Any], home: Home) -> None:
    home.stack.touch(mode=0o600)
    home.stack.write_text(json.dumps(document, indent=2, sort_keys=True) + "\n")


def bootstrap(home: Home) -> None:
    """Raises DeployError."""
    # From a folder without a cdk.json: given an app, the command would synthesise it first.
    _cdk(home, ["bootstrap", f"aws://{ministack.ACCOUNT}/{ministack.REGION}"], folder=home.folder)


def deploy(home: Home) -> dict[str, str]:
    """Deploy the stack of stage `local`; returns its outputs. Raises DeployError."""
    outputs = home.folder / "outputs.json"
    context = {
        "stage": "local",
        "sender": SENDER,
        "gateway_url": f"{ministack.endpoint_url(home)}/_aws/execute-api",
        "extra_ca_file": str(home.ca_certificate.absolute()),
    }
    command = ["deploy", "--require-approval", "never", "--outputs-file", str(outputs.absolute())]
    command += ["--output", str((home.folder / "cdk.out").absolute())]
    for name, value in context.items():
        command += ["--context", f"{name}={value}"]
    _cdk(home, command, folder=CHECKOUT)
    (deployed,) = json.loads(outputs.read_text()).values()
    return dict(deployed)


def _cdk(home: Home, arguments: Sequence[str], *, folder: Path) -> None:
    with home.cdk_log.open("w") as log:
        try:
            done = subprocess.run(
                ["cdk", *arguments, "--no-notices", "--progress", "events"],
                cwd=folder,
                env=ministack.client_environment(home),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                timeout=CDK_PATIENCE_SECONDS,
                check=False,
            )
        except subprocess.TimeoutExpired as slow:
            raise DeployError(f"cdk {arguments[0]} took over {CDK_PATIENCE_SECONDS} s") from slow
    if done.returncode:
        raise DeployError(f"cdk {arguments[0]} failed:\n{home.cdk_log.read_text()[-4000:]}")

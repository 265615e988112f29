"""Starts the recovery state machine; a name is one execution, however often it is started."""

import hashlib
import json
import re
from collections.abc import Mapping
from typing import Any

from botocore.exceptions import ClientError

from hookkeeper.adapters.dynamodb import error_code
from hookkeeper.domain.tenancy import SubscriptionKey

MAX_NAME = 80
_UNSAFE = re.compile(r"[^A-Za-z0-9_-]")


class SfnWorkflow:
    """The Workflow port over Step Functions (Standard)."""

    def __init__(self, client: Any, *, state_machine_arn: str) -> None:
        self._client = client
        self._arn = state_machine_arn

    def start(
        self,
        key: SubscriptionKey,
        *,
        name: str,
        options: Mapping[str, str | bool | int | float | None],
    ) -> None:
        state = {
            "tenant": key.scope.tenant_id,
            "mode": key.scope.mode,
            "subscription_id": key.subscription_id,
            **{option: value for option, value in options.items() if value is not None},
        }
        try:
            self._client.start_execution(
                stateMachineArn=self._arn, name=safe_name(name), input=json.dumps(state)
            )
        except ClientError as error:
            if error_code(error) != "ExecutionAlreadyExists":
                raise


def safe_name(name: str) -> str:
    """At most 80 safe characters; a name that had to be changed ends in a digest of what it was."""
    if len(name) <= MAX_NAME and not _UNSAFE.search(name):
        return name
    digest = hashlib.sha256(name.encode()).hexdigest()[:16]
    return f"{_UNSAFE.sub('-', name)[: MAX_NAME - 17]}-{digest}"

"""A tenant with one subscription on the embedded AWS, as its owner and its provider would use it."""

import json
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Self

from infra.cli import runtime_config
from infra.cli.client import Api
from infra.local import aws
from infra.local.receiver import Receiver
from infra.local.stack import Stack

FAST = {
    "presets": {
        "graded": {
            "limits": {name: {"count": 5, "age_seconds": 3} for name in ("retryable", "permanent", "fatal")}
        }
    },
    "retries": {"live_seconds": [1], "short_seconds": [1, 2]},
    "circuit": {"first_open_seconds": 1, "longest_open_seconds": 2},
    "pace": {"start_per_second": 10, "most_per_second": 20, "slice_seconds": 5},
}
"""Hours become seconds, by the lever that an operator has."""


def shorten(stack: Stack, **parts: Any) -> None:
    """Put FAST in force, but for these parts of it."""
    outputs = stack.outputs
    profile = runtime_config.ConfigProfile(
        outputs["AppConfigApplication"], outputs["AppConfigEnvironment"], outputs["AppConfigProfile"]
    )
    runtime_config.write(aws.client(stack, "appconfig"), profile, FAST | parts)


def quiet(stack: Stack) -> bool:
    """Nothing on its way in the lanes: neither waiting, nor delayed, nor in the hands of a function."""
    names = ("", "NotVisible", "Delayed")
    sqs = aws.client(stack, "sqs")
    for url in (stack.events_queue_url, stack.queues["Deliveries"], stack.queues["Backfill"]):
        attributes = [f"ApproximateNumberOfMessages{name}" for name in names]
        answer = sqs.get_queue_attributes(QueueUrl=url, AttributeNames=attributes)["Attributes"]
        if any(int(answer.get(attribute, 0)) for attribute in attributes):
            return False
    return True


@dataclass(slots=True)
class Customer:
    """Its API key, its subscription and its endpoint."""

    stack: Stack
    receiver: Receiver
    tenant: str
    api: Api
    subscription_id: str = ""
    emitted: list[str] = field(default_factory=list)

    @classmethod
    def sign_up(cls, stack: Stack, receiver: Receiver, tenant: str) -> Self:
        operator = Api(stack.api_url, stack.operator_key)
        operator.post("/v1/tenants", {"id": tenant, "name": tenant.title()})
        key = operator.post(f"/v1/tenants/{tenant}/keys", {"mode": "live"})["key"]
        return cls(stack, receiver, tenant, Api(stack.api_url, key))

    @property
    def path(self) -> str:
        return f"/{self.tenant}"

    @property
    def owner(self) -> str:
        return f"owner@{self.tenant}.test"

    def subscribe(self, *patterns: str, trust: bool = True) -> dict[str, Any]:
        """Create the subscription; `trust` lets the endpoint verify (and so echo) from the start."""
        created = self.api.post(
            "/v1/subscriptions",
            {
                "endpoint_url": self.receiver.url(self.path),
                "event_types": list(patterns) or ["*"],
                "owner_email": self.owner,
            },
        )
        self.subscription_id = created["id"]
        if trust:
            self.receiver.trust(self.path, created["secret"])
        return created

    def active(self) -> Self:
        self.subscribe()
        self.wait("activation", lambda: self.present()["status"] == "active")
        return self

    def present(self) -> dict[str, Any]:
        return self.api.get(f"/v1/subscriptions/{self.subscription_id}")

    def recovery(self) -> dict[str, Any]:
        data = self.api.get(f"/v1/subscriptions/{self.subscription_id}/recoveries")["data"]
        return dict(data[0]) if data else {}

    def reenable(self) -> dict[str, Any]:
        return self.api.post(f"/v1/subscriptions/{self.subscription_id}/reenable")

    def emit(self, count: int = 1, *, event_type: str = "invoice.paid") -> list[str]:
        """By SQS, the way producers send most."""
        ids = [f"evt_{self.tenant}_{len(self.emitted) + n}" for n in range(count)]
        sqs = aws.client(self.stack, "sqs")
        for start in range(0, count, 10):
            entries = [
                {
                    "Id": str(n),
                    "MessageBody": json.dumps(
                        {"id": event_id, "tenant_id": self.tenant, "type": event_type, "data": {"n": n}}
                    ),
                }
                for n, event_id in enumerate(ids[start : start + 10])
            ]
            assert not sqs.send_message_batch(QueueUrl=self.stack.events_queue_url, Entries=entries).get(
                "Failed"
            )
        self.emitted += ids
        return ids

    def accepted(self) -> list[str]:
        """Ids of the events that its endpoint took with a 2xx, as often as it did."""
        return [
            each.event_id
            for each in self.receiver.deliveries(self.path)
            if each.verified and each.status is not None and each.status < 300
        ]

    def mails(self) -> list[aws.Mail]:
        return list(aws.mails(self.stack, to=self.owner))

    def suspended(self) -> dict[str, Any]:
        """Emit to the broken endpoint until the policy has had enough."""

        def done() -> bool:
            if self.present()["status"] == "suspended":
                return True
            self.emit(2)
            return False

        self.wait("suspension", done, pause_seconds=0.7)
        return self.present()

    def wait(
        self, what: str, done: Callable[[], bool], *, seconds: float = 60, pause_seconds: float = 0.25
    ) -> None:
        deadline = time.monotonic() + seconds
        while not done():
            assert time.monotonic() < deadline, f"{self.tenant}: {what} did not come in {seconds} s"
            time.sleep(pause_seconds)

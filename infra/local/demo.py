"""`make demo`: the promise, shown on the embedded AWS against a real HTTPS endpoint, and counted at the end.

A tenant subscribes; events come in by all three ways; its endpoint breaks, is suspended, its owner gets the
mail; a first probe fails; it is mended, passes, and everything it missed comes back at a pace. The last line
is one JSON object; the exit status says whether each event arrived exactly once.
"""

import contextlib
import json
import time
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from rich.console import Console
from rich.panel import Panel
from rich.table import Table

from infra.cli import runtime_config
from infra.cli.client import Api, ApiError
from infra.local import aws, lifecycle
from infra.local.authority import server_context
from infra.local.home import CHECKOUT, Home
from infra.local.receiver import HEALTHY, Behaviour, Receiver
from infra.local.stack import Stack

TENANT = "acme"
OWNER = "owner@customer.test"
PATH = "/hooks"
TYPES = ("invoice.paid", "invoice.line.added", "customer.created")

WELL, BROKEN, SUSPENDED, LIVE = 120, 60, 90, 60
"""How many events are emitted in each part of the story: 330 in all, 150 of them while it is broken."""

FAST = {
    "presets": {
        "graded": {
            "limits": {
                "retryable": {"count": 5, "age_seconds": 6},
                "permanent": {"count": 5, "age_seconds": 6},
                "fatal": {"count": 3, "age_seconds": 6},
            }
        }
    },
    "retries": {"live_seconds": [1], "short_seconds": [1, 2]},
    "circuit": {"first_open_seconds": 1, "longest_open_seconds": 2},
    "pace": {"start_per_second": 10, "most_per_second": 40, "slice_seconds": 5},
}
"""Hours become seconds, by the lever that an operator has: the runtime configuration."""

console = Console(stderr=True, highlight=False)


def _say(began: float, text: str) -> None:
    console.print(f"[dim]{time.monotonic() - began:6.1f} s[/]  {text}")


@dataclass(slots=True)
class Story:
    """What has been emitted so far, and where everything is."""

    stack: Stack
    api: Api
    receiver: Receiver
    began: float
    emitted: list[str] = field(default_factory=list)
    subscription_id: str = ""

    def say(self, text: str) -> None:
        _say(self.began, text)

    def accepted(self) -> Counter[str]:
        """How often each event was taken with a 2xx under a right signature."""
        return Counter(
            each.event_id
            for each in self.receiver.deliveries(PATH)
            if each.verified and each.status is not None and each.status < 300
        )

    def present(self) -> dict[str, Any]:
        return self.api.get(f"/v1/subscriptions/{self.subscription_id}")


class BrokenPromiseError(Exception):
    """A part of the story did not come true in time."""


def demo(home: Home | None = None) -> int:
    """Play it all on an embedded AWS of its own, which ends with it. 0 when the promise held."""
    began = time.monotonic()
    home = home or Home(CHECKOUT / ".local" / "demo")
    lifecycle.down(home)
    try:
        stack = lifecycle.up(home, lambda step: _say(began, step))
        with Receiver(server_context(stack.ca_certificate, stack.ca_key)) as receiver:
            return _play(Story(stack, Api(stack.api_url, stack.operator_key), receiver, began))
    except (BrokenPromiseError, ApiError) as broken:
        console.print(f"[bold red]The promise did not hold:[/] {broken}")
        return 1
    finally:
        lifecycle.down(home)


def _play(story: Story) -> int:
    _shorten(story)
    _subscribe(story)
    story.say(f"[bold]1. All is well[/]: {WELL} events by API, SQS and EventBridge")
    _emit(story, WELL)
    _until("every event to arrive", lambda: len(story.accepted()) == len(story.emitted))
    _break(story)
    _suspended(story)
    _probe_in_vain(story)
    _mend(story)
    return _count(story)


def _shorten(story: Story) -> None:
    outputs = story.stack.outputs
    profile = runtime_config.ConfigProfile(
        outputs["AppConfigApplication"], outputs["AppConfigEnvironment"], outputs["AppConfigProfile"]
    )
    runtime_config.write(aws.client(story.stack, "appconfig"), profile, FAST)
    story.say("hours are seconds now, by the runtime configuration")


def _subscribe(story: Story) -> None:
    story.api.post("/v1/tenants", {"id": TENANT, "name": "Acme"})
    key = story.api.post(f"/v1/tenants/{TENANT}/keys", {"mode": "live"})["key"]
    story.api = Api(story.stack.api_url, key)
    created = story.api.post(
        "/v1/subscriptions",
        {
            "endpoint_url": story.receiver.url(PATH),
            "event_types": ["invoice.*", "customer.created"],
            "owner_email": OWNER,
        },
    )
    story.subscription_id = created["id"]
    story.receiver.trust(PATH, created["secret"])
    story.say(f"{created['id']} is {created['status']}; its secret was shown once")
    _until("its challenge to be echoed", lambda: story.present()["status"] == "active", seconds=30)
    story.say("its endpoint echoed the challenge: active")


def _break(story: Story) -> None:
    story.receiver.behave(Behaviour(status=500))
    story.say(f"[bold]2. The endpoint breaks[/]: it answers 500 while {BROKEN} events come in")
    for _ in range(BROKEN // 5):
        _emit(story, 5)
        if story.present()["status"] == "suspended":
            break
        time.sleep(0.5)
    rounds = 0
    while story.present()["status"] != "suspended":
        rounds += 1
        if rounds > 60:
            raise BrokenPromiseError(f"not suspended: {json.dumps(story.present()['health'])}")
        _emit(story, 1)
        time.sleep(1)
    present = story.present()
    story.say(f"suspended: {present['disabled_reason']}, {present['status_reason']}")


def _suspended(story: Story) -> None:
    before = len(story.receiver.received)
    story.say(f"{SUSPENDED} more events while it is suspended")
    _emit(story, SUSPENDED)
    _until("the owner's mail", lambda: bool(_mails(story)), seconds=30)
    mail = _mails(story)[0]
    console.print(Panel(mail.text.strip(), title=f"to {OWNER}: {mail.subject}", border_style="red"))
    _until("the queues to drain", lambda: not _waiting(story), seconds=60)
    reached = len(story.receiver.received) - before
    story.say(f"the suspended endpoint got {reached} requests meanwhile")
    if reached:
        raise BrokenPromiseError(f"a suspended endpoint was sent {reached} requests")


def _probe_in_vain(story: Story) -> None:
    story.say("[bold]3. Re-enabled too early[/]: the endpoint still answers 500")
    story.api.post(f"/v1/subscriptions/{story.subscription_id}/reenable")
    _until(
        "the probe to fail",
        lambda: story.present()["status_reason"] == "reenable_probe_failed",
        seconds=30,
    )
    story.say("the probe failed; it stays suspended, nothing was sent, and it can be tried again")


def _mend(story: Story) -> None:
    story.receiver.behave(HEALTHY)
    story.say("[bold]4. Mended and re-enabled[/]: probe, activation, paced backfill; live events meanwhile")
    _until("the probe and the activation", lambda: _reenabled(story), seconds=60)
    story.say("the probe passed: active")
    _emit(story, LIVE)
    shown = ""
    deadline = time.monotonic() + 150
    while len(story.accepted()) < len(story.emitted) or _recovery(story).get("status") != "completed":
        recovery = _recovery(story)
        told = (
            f"recovery {recovery.get('status')}: {recovery.get('sent')} sent, "
            f"{recovery.get('succeeded')} succeeded at {recovery.get('rate_per_second')}/s; "
            f"{len(story.accepted())} of {len(story.emitted)} events delivered"
        )
        if told != shown:
            story.say(told)
            shown = told
        if time.monotonic() > deadline:
            raise BrokenPromiseError(f"waited in vain for the backfill: {shown}")
        time.sleep(1)


def _reenabled(story: Story) -> bool:
    """Ask until it is active: the failed probe's execution gives its lock back in its own time."""
    if story.present()["status"] == "active":
        return True
    with contextlib.suppress(ApiError):
        story.api.post(f"/v1/subscriptions/{story.subscription_id}/reenable")
    return False


def _recovery(story: Story) -> dict[str, Any]:
    data = story.api.get(f"/v1/subscriptions/{story.subscription_id}/recoveries")["data"]
    return data[0] if data else {}


def _count(story: Story) -> int:
    accepted = story.accepted()
    lost = [event_id for event_id in story.emitted if not accepted[event_id]]
    duplicates = sum(n - 1 for n in accepted.values() if n > 1)
    audit = story.api.get(f"/v1/subscriptions/{story.subscription_id}/audit", limit=100)["data"]
    suspensions = sum(record["action"] == "subscription.suspended" for record in audit)
    result = {
        "emitted": len(story.emitted),
        "delivered": len(accepted),
        "lost": len(lost),
        "duplicates": duplicates,
        "suspensions": suspensions,
        "mails": len(aws.mails(story.stack, to=OWNER)),
        "seconds": round(time.monotonic() - story.began, 1),
    }
    table = Table(title="emitted = delivered")
    table.add_column("")
    table.add_column("count", justify="right")
    for name, value in result.items():
        table.add_row(name, str(value))
    console.print(table)
    held = not lost and not duplicates and suspensions == 1 and result["mails"] >= 1
    console.print("[bold green]The promise held.[/]" if held else "[bold red]The promise did not hold.[/]")
    print(json.dumps(result), flush=True)
    return 0 if held else 1


# ── emitting, waiting ────────────────────────────────────────────────────────────────────────────


def _emit(story: Story, count: int) -> None:
    """Emit `count` events, in turn by the API, the queue and the bus."""
    events = [_event(len(story.emitted) + n) for n in range(count)]
    for way, emit in enumerate((_by_api, _by_sqs, _by_eventbridge)):
        share = events[way::3]
        for start in range(0, len(share), 10):
            emit(story, share[start : start + 10])
    story.emitted += [event["id"] for event in events]


def _event(number: int) -> dict[str, Any]:
    return {
        "id": f"evt_demo_{number:04d}",
        "type": TYPES[number % len(TYPES)],
        "data": {"number": number, "amount": 1.10},
    }


def _by_api(story: Story, events: Sequence[dict[str, Any]]) -> None:
    story.api.post("/v1/events", {"events": list(events)})


def _by_sqs(story: Story, events: Sequence[dict[str, Any]]) -> None:
    entries = [
        {"Id": str(n), "MessageBody": json.dumps({**event, "tenant_id": TENANT})}
        for n, event in enumerate(events)
    ]
    answer = aws.client(story.stack, "sqs").send_message_batch(
        QueueUrl=story.stack.events_queue_url, Entries=entries
    )
    _all_taken(answer.get("Failed"))


def _by_eventbridge(story: Story, events: Sequence[dict[str, Any]]) -> None:
    entries = [
        {
            "EventBusName": story.stack.event_bus_name,
            "Source": "acme.billing",
            "DetailType": event["type"],
            "Detail": json.dumps({"id": event["id"], "tenant_id": TENANT, "data": event["data"]}),
        }
        for event in events
    ]
    answer = aws.client(story.stack, "events").put_events(Entries=entries)
    _all_taken([entry for entry in answer["Entries"] if "ErrorCode" in entry])


def _all_taken(refused: Iterable[Any] | None) -> None:
    if refused := list(refused or ()):
        raise BrokenPromiseError(f"not taken: {refused}")


def _mails(story: Story) -> Sequence[aws.Mail]:
    return [mail for mail in aws.mails(story.stack, to=OWNER) if "uspended" in mail.subject]


def _waiting(story: Story) -> int:
    """Messages on the way from event to delivery, in flight and delayed ones included."""
    sqs = aws.client(story.stack, "sqs")
    names = [
        "ApproximateNumberOfMessages",
        "ApproximateNumberOfMessagesNotVisible",
        "ApproximateNumberOfMessagesDelayed",
    ]
    urls = [story.stack.events_queue_url, story.stack.queues["Deliveries"], story.stack.queues["Backfill"]]
    answers = [sqs.get_queue_attributes(QueueUrl=url, AttributeNames=names)["Attributes"] for url in urls]
    return sum(int(answer.get(name, 0)) for answer in answers for name in names)


def _until(what: str, done: Callable[[], bool], *, seconds: float = 60) -> None:
    deadline = time.monotonic() + seconds
    while not done():
        if time.monotonic() > deadline:
            raise BrokenPromiseError(f"waited {seconds:.0f} s in vain for {what}")
        time.sleep(0.25)

"""Re-enablement on the embedded AWS, as its owner lives it: exact over edits and a relapse, alone over races.

`HOOKKEEPER_STORY_EVENTS=5000` tells the long version of the first story, at fifty a second.
"""

import contextlib
import os
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from typing import Any

import httpx
import pytest

from infra.cli.client import Api, ApiError
from infra.config import ROUTING_CACHE_SECONDS
from infra.local import aws
from infra.local.receiver import HEALTHY, Behaviour, Received, Receiver
from infra.local.stack import Stack
from tests.integration.customer import Customer, quiet, shorten

pytestmark = [pytest.mark.integration, pytest.mark.timeout(900)]

EVENTS = int(os.environ.get("HOOKKEEPER_STORY_EVENTS", "240"))
LONG = EVENTS > 1_000
PACE = {
    "start_per_second": 25 if LONG else 10,
    "most_per_second": 50 if LONG else 20,
    "slice_seconds": 5,
}
LIVE = 12
TOGETHER = 12


@pytest.fixture(scope="module", autouse=True)
def fast(stack: Stack) -> None:
    shorten(stack, pace=PACE)


# ── exactly what matched, over edits and a relapse ───────────────────────────────────────────────


def test_over_two_edits_and_a_relapse_each_matched_event_comes_once_and_no_other(
    stack: Stack, receiver: Receiver
) -> None:
    customer = Customer.sign_up(stack, receiver, "story")
    customer.subscribe("invoice.*", "credit.*")
    customer.wait("activation", lambda: customer.present()["status"] == "active")
    customer.api.post(f"/v1/subscriptions/{customer.subscription_id}/pause")
    owed = missed_over_two_edits(customer)
    assert customer.accepted() == []
    assert customer.mails() == [], "its owner paused it"

    began = reenabled(customer)
    customer.wait("routes as they are now", lambda: time.time() > began + ROUTING_CACHE_SECONDS)
    live = {customer.emit()[0]: time.time() for _ in range(LIVE)}
    customer.wait("the live ones", lambda: set(live) <= set(customer.accepted()))
    assert len(customer.accepted()) < LIVE + len(owed) / 2, "live events wait for no backfill"

    customer.wait("half of it", lambda: len(customer.accepted()) >= len(owed) / 2, seconds=300)
    owed += relapsed(customer)
    assert set(customer.accepted()) < {*owed, *live}

    reenabled(customer)
    customer.wait("the end", lambda: customer.recovery()["status"] == "completed", seconds=400)
    assert Counter(customer.accepted()) == Counter([*owed, *live])
    rest = customer.recovery()
    assert rest["found"] == rest["sent"] == rest["succeeded"] < len(owed)
    assert (rest["failed"], rest["expired"]) == (0, 0)
    subjects = [mail.subject for mail in customer.mails()]
    assert len(subjects) == len(set(subjects)), subjects
    sent = backfilled(customer)
    tell(customer, live, sent)
    assert all(each.at >= sent[0].at + n / PACE["most_per_second"] - 1 for n, each in enumerate(sent)), (
        "by no second had more been sent than the pace allows"
    )


def missed_over_two_edits(customer: Customer) -> list[str]:
    """While it is suspended its filter takes orders from a moment on, then refunds, and credits no more."""
    owed = customer.emit(EVENTS * 2 // 3)
    for event_type in ("credit.note", "order.made", "refund.made"):
        customer.emit(10, event_type=event_type)
    edit(customer, "invoice.*", "order.*")
    owed += customer.emit(EVENTS // 6) + customer.emit(10, event_type="order.made")
    customer.emit(10, event_type="refund.made")
    edit(customer, "invoice.*", "order.*", "refund.*")
    owed += customer.emit(EVENTS // 6) + customer.emit(10, event_type="refund.made")
    customer.wait("quiet", lambda: quiet(customer.stack), seconds=300)
    return owed


def relapsed(customer: Customer) -> list[str]:
    """It breaks, is suspended, fails a probe and is mended; answers what was emitted meanwhile."""
    before = len(customer.emitted)
    customer.receiver.behave(Behaviour(status=500), path=customer.path)
    assert customer.suspended()["disabled_reason"] == "repeated_failure"
    customer.wait("quiet", lambda: quiet(customer.stack), seconds=120)
    stopped, requests = customer.recovery(), len(customer.receiver.received)
    assert (stopped["status"], stopped["ended_at"] is None) == ("stopped", False)
    customer.emit(10)
    customer.reenable()
    customer.wait("a failed probe", lambda: customer.present()["status_reason"] == "reenable_probe_failed")
    customer.wait("its mails", lambda: len(customer.mails()) >= 1)
    customer.wait("quiet", lambda: quiet(customer.stack))
    assert len(customer.receiver.received) == requests + 1, "the probe alone went out"
    customer.receiver.behave(HEALTHY, path=customer.path)
    return customer.emitted[before:]


def reenabled(customer: Customer) -> float:
    """Asked for until a new execution has activated it; answers when it was."""

    def active() -> bool:
        if customer.present()["status"] == "active":
            return True
        with contextlib.suppress(ApiError):
            customer.reenable()
        return False

    customer.wait("activation", active, pause_seconds=1)
    return time.time()


def edit(customer: Customer, *patterns: str) -> None:
    """Change the filter after all that was emitted, and wait until it is in force."""
    customer.wait("quiet", lambda: quiet(customer.stack), seconds=120)
    path = f"/v1/subscriptions/{customer.subscription_id}"
    answer = customer.api.patch(path, {"event_types": patterns}, etag=customer.present()["etag"])
    in_force = datetime.fromisoformat(answer["event_types_in_force_at"])
    customer.wait("the filter in force", lambda: datetime.now(UTC) > in_force)


def backfilled(customer: Customer) -> list[Received]:
    """The recoveries' requests, in order."""
    came = [e for e in customer.receiver.deliveries(customer.path) if lane_of(e) == "backfill"]
    return sorted(came, key=lambda each: each.at)


def lane_of(received: Received) -> str:
    return received.headers["hookkeeper-lane"]


def tell(customer: Customer, live: Mapping[str, float], sent: Sequence[Received]) -> None:
    """Print how long live events took, and how many of the recoveries' requests the busiest second saw."""
    lags = sorted(e.at - live[e.event_id] for e in customer.receiver.received if e.event_id in live)
    busiest = max(Counter(int(each.at) for each in sent).values())
    print(
        f"{len(sent)} requests in {sent[-1].at - sent[0].at:.0f} s, {busiest} in the busiest; "
        f"live events took {lags[len(lags) // 2]:.2f} s, the slowest {lags[-1]:.2f} s"
    )


# ── one at a time ────────────────────────────────────────────────────────────────────────────────


def test_f32_twelve_re_enablements_at_the_same_time_are_one_execution_and_one_probe(
    stack: Stack, receiver: Receiver
) -> None:
    customer = paused(stack, receiver, "clicked")
    path, key = f"/v1/subscriptions/{customer.subscription_id}/reenable", customer.api.key
    customer.wait("a minute with time left", lambda: time.time() % 60 < 40)
    with ThreadPoolExecutor(TOGETHER) as clicks:
        answers = list(clicks.map(lambda _: clicked(stack.api_url, key, path), range(TOGETHER)))
    assert set(answers) <= {"accepted", "active"}
    customer.wait("activation", lambda: customer.present()["status"] == "active")
    assert len(executions(customer)) == 1
    assert len(probes(customer)) == 1
    assert len(customer.api.get(f"/v1/subscriptions/{customer.subscription_id}/recoveries")["data"]) == 1


def clicked(url: str, key: str, path: str) -> str:
    """Whoever comes when all is done is told that it is active. Twelve calls start twelve functions cold."""
    with httpx.Client(trust_env=False, timeout=120) as http:
        try:
            return "accepted" if "subscription_id" in Api(url, key, http=http).post(path) else "odd"
        except ApiError as refused:
            return "active" if refused.status == 409 and "is active" in str(refused) else str(refused)


def test_f32_revoked_between_probe_and_activation_it_stays_revoked_and_gets_nothing(
    stack: Stack, receiver: Receiver
) -> None:
    customer = probing(stack, receiver, "revoked-meanwhile")
    customer.api.delete(f"/v1/subscriptions/{customer.subscription_id}", etag=customer.present()["etag"])
    ended(customer)
    assert customer.present()["status"] == "revoked"
    assert customer.recovery()["status"] == "cancelled"
    customer.wait("quiet", lambda: quiet(stack))
    assert len(probes(customer)) == 1
    assert customer.receiver.deliveries(customer.path) == []


def test_a_description_edited_during_the_probe_does_not_defeat_the_activation(
    stack: Stack, receiver: Receiver
) -> None:
    customer = probing(stack, receiver, "edited-meanwhile")
    path = f"/v1/subscriptions/{customer.subscription_id}"
    customer.api.patch(path, {"description": "Ours"}, etag=customer.present()["etag"])
    assert customer.present()["status"] == "suspended", "it was edited during the probe"
    customer.wait("activation", lambda: customer.present()["status"] == "active")
    assert customer.present()["description"] == "Ours"
    assert len(executions(customer)) == len(probes(customer)) == 1


def paused(stack: Stack, receiver: Receiver, tenant: str) -> Customer:
    """Paused by its owner, five events missed; its endpoint takes four seconds to answer."""
    customer = Customer.sign_up(stack, receiver, tenant).active()
    customer.api.post(f"/v1/subscriptions/{customer.subscription_id}/pause")
    customer.emit(5)
    receiver.behave(Behaviour(delay_seconds=4), HEALTHY, path=customer.path)
    return customer


def probing(stack: Stack, receiver: Receiver, tenant: str) -> Customer:
    """Its probe is on its way."""
    customer = paused(stack, receiver, tenant)
    customer.reenable()
    customer.wait("probing", lambda: customer.recovery().get("status") == "probing", pause_seconds=0.05)
    return customer


def probes(customer: Customer) -> Sequence[Received]:
    return [each for each in customer.receiver.received if each.event.get("type") == "endpoint.probe"]


def executions(customer: Customer) -> list[dict[str, Any]]:
    states = aws.client(customer.stack, "stepfunctions")
    (machine,) = states.list_state_machines()["stateMachines"]
    found = states.list_executions(stateMachineArn=machine["stateMachineArn"])["executions"]
    return [each for each in found if customer.subscription_id in each["name"]]


def ended(customer: Customer) -> None:
    customer.wait("the execution's end", lambda: executions(customer)[0]["status"] == "SUCCEEDED")

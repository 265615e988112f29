"""On the embedded AWS, in a real browser: an owner sees why, mends, re-enables, and watches it to the end."""

import json
import os
import re
import sys
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, Page, expect

from infra.local import aws
from infra.local.home import Home
from infra.local.receiver import HEALTHY, Behaviour, Receiver
from infra.local.stack import Stack
from tests.browser.chromium import barriers, chromium, complaints
from tests.integration.customer import Customer, shorten
from tests.integration.recording import Shell, Step, free_port, ids_of, plain, replaced, steps_of

pytestmark = [pytest.mark.integration, pytest.mark.browser, pytest.mark.timeout(480)]

README = (Path(__file__).parents[2] / "README.md").read_text().split("## The console and the command line")[1]
(BLOCK,) = re.findall(r"```console\n(\$ .*?)```", README.split("\n## ")[0], re.DOTALL)
RECORDING = steps_of(BLOCK)


@pytest.fixture(scope="module", autouse=True)
def recorded(stack: Stack, home: Home, tmp_path_factory: Any) -> Iterator[Future[list[Step]]]:
    """The README's recording, made again from now on while the browser's tests run."""
    shorten(stack)
    with ThreadPoolExecutor(1) as pool:
        yield pool.submit(_run_again, home, tmp_path_factory.mktemp("recording"))


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with chromium() as browser:
        yield browser


def test_an_owner_sees_why_re_enables_and_watches_to_the_end_and_an_operator_replays_and_redrives(
    stack: Stack, receiver: Receiver, browser: Browser
) -> None:
    customer = Customer.sign_up(stack, receiver, "by-console").active()
    customer.wait("an activation that is in force", lambda: _in_force(customer))
    receiver.behave(Behaviour(status=500), path=customer.path)
    customer.suspended()
    customer.wait("mail", lambda: any("uspended" in mail.subject for mail in customer.mails()))
    customer.emit(40)
    mailed = f"{stack.outputs['ConsoleUrl']}/subscriptions/{customer.subscription_id}"
    assert mailed in customer.mails()[-1].text
    page = browser.new_context().new_page()
    told = complaints(page)

    page.goto(mailed)
    expect(page.get_by_role("heading", name="Sign in")).to_be_visible()
    page.goto(customer.api.post("/v1/portal-sessions")["url"])
    page.get_by_role("button", name="Open the console").click()
    expect(page).to_have_url(mailed)
    state = page.locator("#state")
    expect(state).to_contain_text("We stopped sending")
    expect(state).to_contain_text("500 Internal Server Error")
    expect(state).to_contain_text("suspends at 5:")
    assert barriers(page) == []

    page.get_by_role("button", name="Re-enable").click()
    expect(state).to_contain_text("The test request was answered 500", timeout=60_000)
    receiver.behave(HEALTHY, path=customer.path)
    page.get_by_role("button", name="Re-enable").click()
    expect(state).to_contain_text("found so far delivered", timeout=60_000)
    expect(state).to_contain_text("The test request was answered 200 OK")
    expect(state.get_by_role("progressbar")).to_be_visible()
    expect(state.get_by_role("status")).to_contain_text("Done", timeout=150_000)
    assert Counter(customer.accepted()) == Counter(customer.emitted)

    page.get_by_role("link", name="Deliveries", exact=True).click()
    page.get_by_role("link", name="invoice.paid").first.click()
    page.get_by_role("link", name="Show the body").click()
    expect(page.locator("#body")).to_contain_text('"type":"invoice.paid"')
    page.get_by_role("button", name="Resend").click()
    expect(page.get_by_role("status")).to_contain_text("One more attempt is on its way")
    assert [each for each in told if "status of 401" not in each] == []
    operator = _operator(stack, browser)
    _replays_what_was_counted(operator, customer)
    _redrives(operator, stack, customer)


def _in_force(customer: Customer) -> bool:
    first = customer.present()["first_active_at"]
    return first is not None and datetime.fromisoformat(first) <= datetime.now(UTC)


def _operator(stack: Stack, browser: Browser) -> Page:
    """A page on which an operator has just signed in."""
    page = browser.new_context().new_page()
    page.goto(stack.outputs["ConsoleUrl"])
    page.get_by_label("API key").fill(stack.operator_key)
    page.get_by_role("button", name="Sign in").click()
    return page


def _replays_what_was_counted(page: Page, customer: Customer) -> None:
    """Up to the last whole minute: what was archived by then is settled, and can be counted."""
    page.get_by_role("button", name=f"Act for {customer.tenant}, live").click()
    page.get_by_role("link", name=customer.path).click()
    page.get_by_role("link", name="Recoveries", exact=True).click()
    page.get_by_label("What").select_option("All, also what was delivered")
    page.get_by_label("to (UTC)").fill(f"{datetime.now(UTC):%Y-%m-%dT%H:%M}")
    page.get_by_role("button", name="Count").click()
    counted = page.get_by_role("status")
    expect(counted).to_contain_text("would be sent: archived from")
    number = int(counted.locator("strong").inner_text())
    before = len(customer.accepted())
    page.get_by_role("button", name="Send them again").click()
    recovery = page.locator("#recovery")
    expect(recovery.get_by_role("status")).to_contain_text("Done", timeout=120_000)
    expect(recovery).to_contain_text(f"{number} of {number} delivered")
    assert len(customer.accepted()) == before + number


def _redrives(page: Page, stack: Stack, customer: Customer) -> None:
    """A dead letter goes back to its lane, and its event arrives."""
    dead = json.dumps({"id": "evt_dead", "tenant_id": customer.tenant, "type": "invoice.paid", "data": {}})
    aws.client(stack, "sqs").send_message(QueueUrl=stack.dead_letter_queues["Events"], MessageBody=dead)
    page.get_by_role("link", name="Fleet").click()
    expect(page.get_by_text("Suspensions pass")).to_be_visible()
    page.get_by_role("button", name="Redrive Events").click()
    expect(page.get_by_role("status")).to_contain_text("1 message went back to its lane")
    customer.wait("the redriven event", lambda: "evt_dead" in customer.accepted())
    for listing in ("Suspended", "At risk", "Not answering"):
        page.get_by_role("link", name=listing, exact=True).click()
        expect(page.get_by_text("to the last tenant")).to_be_visible()


def test_each_action_works_under_the_consoles_own_role(
    stack: Stack, receiver: Receiver, browser: Browser
) -> None:
    """IAM is on: what the function was not granted would show here."""
    customer = Customer.sign_up(stack, receiver, "console-acts").active()
    page = browser.new_context().new_page()
    page.goto(customer.api.post("/v1/portal-sessions", {"ttl_seconds": 600})["url"])
    page.get_by_role("button", name="Open the console").click()
    page.get_by_role("link", name=customer.path).click()
    page.get_by_role("button", name="Send a test event").click()
    customer.wait(
        "the test event", lambda: any(e.event["type"] == "endpoint.test" for e in receiver.received)
    )
    page.get_by_role("link", name="Settings").click()
    page.get_by_role("button", name="Rotate the secret").click()
    receiver.trust(customer.path, page.locator(".secret").inner_text())
    page.get_by_role("link", name="Settings").click()
    page.get_by_label("One a line").fill("invoice.*")
    page.get_by_role("button", name="Save event types").click()
    page.get_by_role("button", name="Pause").click()
    expect(page.locator("#state")).to_contain_text("Paused")
    for name in ("Audit", "Recoveries", "Deliveries"):
        page.get_by_role("link", name=name, exact=True).click()
        expect(page.get_by_role("heading", name=name)).to_be_visible()
    assert customer.present()["event_types"] == ["invoice.*"]


def test_a_used_link_lets_nobody_in(stack: Stack, receiver: Receiver, browser: Browser) -> None:
    customer = Customer.sign_up(stack, receiver, "in-the-fleet")
    url = customer.api.post("/v1/portal-sessions")["url"]
    for says in ("Open the console", "This link was used already"):
        page = browser.new_context().new_page()
        page.goto(url)
        expect(page.get_by_text(says).first).to_be_visible()
        if says == "Open the console":
            page.get_by_role("button", name=says).click()
            expect(page.get_by_role("heading", name="Subscriptions")).to_be_visible()


def test_the_readmes_recording_is_true_to_the_letter(recorded: Future[list[Step]]) -> None:
    """It ran beside the tests before, which mostly wait as well."""
    assert [each.command for each in recorded.result()] == [step.command for step in RECORDING]
    for step, again in zip(RECORDING, recorded.result(), strict=True):
        assert plain(again.said) == plain(step.said), step.command


def _run_again(home: Home, folder: Path) -> list[Step]:
    """The recording's commands on this stack, for a tenant and on a port of their own, told as recorded."""
    renamed = {"acme": "recorded", "Acme": "Recorded", "8443": str(free_port())}
    environment = {"PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}", "HOME": str(folder)}
    ids: dict[str, str] = {}
    steps: list[Step] = []
    with Shell(environment | {"HOOKKEEPER_HOME": str(home.folder)}, folder) as shell:
        for step in RECORDING:
            said = shell.run(replaced(step.command, ids | renamed))
            told = replaced(said, {there: here for here, there in renamed.items()})
            ids |= dict(zip(ids_of(step.said), ids_of(told), strict=False))
            steps.append(Step(step.command, replaced(told, {there: here for here, there in ids.items()})))
    return steps

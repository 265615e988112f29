"""On the embedded AWS, in a real browser: an owner sees why, mends, re-enables, and watches it to the end."""

from collections import Counter
from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, expect

from infra.local.receiver import HEALTHY, Behaviour, Receiver
from infra.local.stack import Stack
from tests.browser.chromium import barriers, chromium, complaints
from tests.integration.customer import Customer, shorten

pytestmark = [pytest.mark.integration, pytest.mark.browser]


@pytest.fixture(scope="module", autouse=True)
def fast(stack: Stack) -> None:
    shorten(stack)


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with chromium() as browser:
        yield browser


def test_an_owner_opens_the_portal_link_sees_why_re_enables_and_watches_the_bar_to_the_end(
    stack: Stack, receiver: Receiver, browser: Browser
) -> None:
    customer = Customer.sign_up(stack, receiver, "by-console").active()
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
    expect(state).to_contain_text("It is active again")
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


def test_an_operator_sees_the_fleet_and_a_used_link_lets_nobody_in(
    stack: Stack, receiver: Receiver, browser: Browser
) -> None:
    customer = Customer.sign_up(stack, receiver, "in-the-fleet")
    url = customer.api.post("/v1/portal-sessions")["url"]
    for says in ("Open the console", "This link was used already"):
        page = browser.new_context().new_page()
        page.goto(url)
        expect(page.get_by_text(says).first).to_be_visible()
        if says == "Open the console":
            page.get_by_role("button", name=says).click()
            expect(page.get_by_role("heading", name="Subscriptions")).to_be_visible()
    page = browser.new_context().new_page()
    page.goto(stack.outputs["ConsoleUrl"])
    page.get_by_label("API key").fill(stack.operator_key)
    page.get_by_role("button", name="Sign in").click()
    page.get_by_role("link", name="Fleet").click()
    expect(page.get_by_role("heading", name="Dead-letter queues")).to_be_visible()
    expect(page.get_by_text("In-The-Fleet")).to_be_visible()

"""In a real browser: each page is accessible, fits a telephone, obeys its policy and works by keyboard."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler, HTTPServer

import pytest
from hookkeeper.domain.recovery import Recovery, RecoveryStatus
from hookkeeper.domain.subscription import Status
from hookkeeper.domain.tenancy import SubscriptionKey
from playwright.sync_api import Browser, BrowserContext, Page, expect
from typing_extensions import override

from tests.browser.chromium import barriers, complaints
from tests.browser.conftest import sign_in
from tests.browser.scenes import CATCHING_UP, FAILING, HEALTHY, PAUSED, PENDING, SUSPENDED, stage
from tests.browser.served import ServedConsole
from tests.builders import a_health, a_lock, a_recovery, a_secret, a_subscription
from tests.functions.test_console import CANARY, DELIVERY, KEY, hostile

pytestmark = pytest.mark.browser


def path_of(key: SubscriptionKey, more: str = "") -> str:
    return f"/subscriptions/{key.subscription_id}{more}"


OWNERS = (
    "/subscriptions", path_of(HEALTHY), path_of(FAILING), path_of(SUSPENDED), path_of(PAUSED),
    path_of(PENDING),
    path_of(CATCHING_UP), path_of(SUSPENDED, "/deliveries"), path_of(SUSPENDED, "/settings"),
    path_of(SUSPENDED, "/audit"), path_of(HEALTHY, "/recoveries?only=all"), f"/recoveries/rec_{7:026d}",
    "/sign-in", "/open?token=x", "/subscriptions/sub_nothing",
)  # fmt: skip
OPERATORS = ("/tenants", "/fleet", "/fleet/suspended", "/fleet/at-risk")


@pytest.mark.parametrize("scheme,width", [("light", 1100), ("dark", 360)])
def test_every_page_is_accessible_fits_its_width_and_obeys_its_policy(
    browser: Browser, served: ServedConsole, scheme: str, width: int
) -> None:
    stage(served.bench)
    failed = next(d for d in served.bench.world.deliveries.values() if len(d.attempts) > 1)
    owners = (*OWNERS, f"/deliveries/{failed.key.delivery_id}")
    for paths, operator in ((owners, False), (OPERATORS, True)):
        context = browser.new_context(
            color_scheme=scheme,  # type: ignore[arg-type]  # one of its literals
            viewport={"width": width, "height": 800},
        )
        sign_in(context, served, operator=operator)
        page = context.new_page()
        told = complaints(page)
        for path in paths:
            page.goto(served.url + path)
            assert page.url == served.url + path, "it is shown, and nobody is sent to sign in"
            assert (page.locator("h1").inner_text() == "Sign in") == (path == "/sign-in"), path
            assert barriers(page) == [], path
            assert page.evaluate("document.documentElement.scrollWidth") <= width, path
        assert [each for each in told if "the server responded with a status of" not in each] == []
        context.close()


def test_a_first_load_weighs_less_than_200_kilobytes(page: Page, served: ServedConsole) -> None:
    stage(served.bench)
    page.goto(served.url + path_of(SUSPENDED), wait_until="networkidle")
    assert len(served.sent) == 5, "the page, two styles, the script, the icon"
    assert sum(size for _, size in served.sent) < 200_000
    before = len(served.sent)
    page.goto(served.url + path_of(SUSPENDED, "/audit"), wait_until="networkidle")
    assert len(served.sent) == before + 1, "what is kept is not asked for again: one call a page"


def test_an_owner_re_enables_by_keyboard_alone_and_watches_the_bar_to_the_end(
    page: Page, served: ServedConsole
) -> None:
    stage(served.bench)
    told = complaints(page)
    page.goto(served.url + "/subscriptions")
    _tab_to(page, "orders.acme.example")
    page.keyboard.press("Enter")
    expect(page.get_by_text("suspends at 25: 31")).to_be_visible()
    _tab_to(page, "Re-enable")
    page.keyboard.press("Enter")
    state = page.locator("#state")
    expect(state.get_by_role("status")).to_contain_text("Checking the endpoint")
    probing = a_recovery(50, key=SUSPENDED, status=RecoveryStatus.PROBING, started_at=datetime.now(UTC))
    _tell(
        served,
        replace(
            probing, status=RecoveryStatus.RUNNING, found=40, sent=20, succeeded=12, probe_status_code=200
        ),
    )
    expect(state).to_contain_text("12 of 40 found so far delivered", timeout=10_000)
    expect(state).to_contain_text("The test request was answered 200 OK")
    assert state.get_by_role("progressbar").evaluate("bar => bar.position") == pytest.approx(0.3)
    _tell(
        served,
        replace(
            probing,
            status=RecoveryStatus.COMPLETED,
            found=40,
            sent=40,
            succeeded=40,
            ended_at=datetime.now(UTC),
        ),
    )
    expect(state).to_contain_text("40 of 40 delivered", timeout=10_000)
    expect(state.get_by_role("status")).to_contain_text("Done")
    assert state.get_attribute("hx-get") is None
    assert barriers(page) == []
    assert told == []


def test_focus_stays_where_it_is_while_the_page_moves(page: Page, served: ServedConsole) -> None:
    stage(served.bench)
    page.goto(served.url + path_of(CATCHING_UP))
    page.locator("#steer").focus()
    polls = len(served.sent)
    page.wait_for_function(
        "n => performance.getEntriesByType('resource').filter(r => r.name.endsWith('/state')).length >= n",
        arg=2,
    )
    assert len(served.sent) > polls
    expect(page.locator("#steer")).to_be_focused()


def test_everything_is_read_and_the_main_things_are_done_without_a_script(
    browser: Browser, served: ServedConsole
) -> None:
    stage(served.bench)
    context = browser.new_context(java_script_enabled=False)
    sign_in(context, served)
    page = context.new_page()
    page.goto(served.url + path_of(SUSPENDED))
    expect(page.get_by_text("suspends at 25: 31")).to_be_visible()
    page.get_by_role("button", name="Re-enable").click()
    assert "asked=" in page.url
    assert served.bench.world.executions
    page.get_by_role("link", name="Settings").click()
    page.get_by_label("One a line").fill("invoice.*")
    page.get_by_role("button", name="Preview").click()
    expect(page.get_by_text("it takes 2")).to_be_visible()
    page.get_by_role("button", name="Save event types").click()
    assert "done=edited" in page.url
    context.close()


def test_a_filter_is_previewed_while_it_is_typed(page: Page, served: ServedConsole) -> None:
    stage(served.bench)
    page.goto(served.url + path_of(SUSPENDED, "/settings"))
    page.get_by_label("One a line").fill("customer.*")
    expect(page.locator("#preview")).to_contain_text("it takes 1")
    page.get_by_label("One a line").fill("a..b")
    expect(page.locator("#preview")).not_to_contain_text("it takes")
    assert served.bench.world.subscriptions[SUSPENDED].event_types == ("order.*", "customer.updated")


def test_a_replays_types_are_tried_while_they_are_typed_and_counted_with_its_rate(
    page: Page, served: ServedConsole
) -> None:
    stage(served.bench)
    told = complaints(page)
    page.goto(served.url + path_of(HEALTHY, "/recoveries"))
    page.get_by_label("Event types").fill("invoice.line.*")
    expect(page.locator("#preview")).to_contain_text(
        "for this subscription seen in the last 24 hours it takes 1"
    )
    assert barriers(page) == []
    page.get_by_label("At most so many a second").fill("20")
    page.get_by_label("What").select_option("all")
    page.get_by_role("button", name="Count").click()
    expect(page.get_by_text("at most 20 a second")).to_be_visible()
    page.get_by_role("button", name="again").click()
    expect(page.get_by_role("heading", name="Replay by hand")).to_be_visible()
    replays = [r for r in served.bench.world.recoveries.values() if r.replay is not None]
    assert [(r.replay and r.replay.event_types, r.max_rate) for r in replays] == [(("invoice.line.*",), 20.0)]
    assert told == []


def test_a_rotated_secret_is_announced_and_gone_after_the_next_page(
    page: Page, served: ServedConsole
) -> None:
    stage(served.bench)
    ref = served.bench.world.subscriptions[SUSPENDED].secret_ref
    served.bench.world.secrets[SUSPENDED, ref] = (a_secret(), None)
    page.goto(served.url + path_of(SUSPENDED, "/settings"))
    page.get_by_role("button", name="Rotate the secret").click()
    expect(page.get_by_role("heading", name="The new secret")).to_be_focused()
    assert page.locator(".secret").inner_text().startswith("whsec_")
    page.get_by_role("link", name="Settings").click()
    expect(page.get_by_role("button", name="Rotate the secret")).to_be_visible()
    expect(page.locator(".secret")).to_have_count(0)


def test_revoking_asks_for_the_host(page: Page, served: ServedConsole) -> None:
    stage(served.bench)
    page.goto(served.url + path_of(SUSPENDED, "/settings"))
    page.get_by_label("To go ahead").fill("wrong")
    page.get_by_role("button", name="Revoke").click()
    expect(page.get_by_role("alert")).to_contain_text("Nothing was changed")
    page.get_by_label("To go ahead").fill("orders.acme.example")
    page.get_by_role("button", name="Revoke").click()
    expect(page.get_by_text("Revoked. Nothing more is sent")).to_be_visible()
    assert served.bench.world.subscriptions[SUSPENDED].status is Status.REVOKED


def test_the_mails_link_leads_through_the_sign_in_to_the_button(
    browser: Browser, served: ServedConsole
) -> None:
    stage(served.bench)
    context = browser.new_context()
    page = context.new_page()
    page.goto(served.url + path_of(SUSPENDED))
    page.get_by_label("API key").fill(served.bench.a_key())
    page.get_by_role("button", name="Sign in").click()
    expect(page.get_by_role("button", name="Re-enable")).to_be_visible()
    context.close()


def test_an_operator_acts_for_a_tenant_and_redrives(browser: Browser, served: ServedConsole) -> None:
    stage(served.bench)
    context = browser.new_context()
    page = context.new_page()
    page.goto(served.url)
    page.get_by_label("API key").fill(served.bench.an_operator_key())
    page.get_by_role("button", name="Sign in").click()
    page.get_by_role("link", name="Fleet").click()
    page.get_by_role("button", name="Redrive Deliveries").click()
    expect(page.get_by_role("status")).to_contain_text("3 messages went back")
    page.get_by_role("button", name="orders.acme.example").click()
    expect(page.get_by_role("button", name="Re-enable")).to_be_visible()
    page.get_by_role("button", name="Sign out").click()
    expect(page.get_by_role("heading", name="Sign in")).to_be_visible()
    context.close()


def test_t59_hostile_text_in_every_field_runs_nothing(page: Page, served: ServedConsole) -> None:
    hostile(served.bench)
    told = complaints(page)
    paths = ["", "/settings", "/audit", "/deliveries", "/recoveries"]
    for path in (*(path_of(KEY, each) for each in paths), f"/deliveries/{DELIVERY.key.delivery_id}"):
        page.goto(served.url + path, wait_until="networkidle")
        assert page.locator("img").count() == 0
        assert page.evaluate("document.scripts.length") == 1, "our own, and no other"
    assert told == []
    page.goto(f"{served.url}/deliveries/{DELIVERY.key.delivery_id}/attempts/1")
    assert page.locator("script").count() == 0
    assert CANARY.replace("\u202e", "") in page.inner_text("body").replace("\u202e", "")
    assert [each for each in told if "404" not in each] == [], "a plain text has no icon of ours"


def test_t64_no_other_site_can_frame_the_console_or_press_its_buttons(
    context: BrowserContext, served: ServedConsole
) -> None:
    stage(served.bench)
    action = served.url + path_of(SUSPENDED, "/reenable")
    evil = (
        f'<iframe src="{served.url}{path_of(SUSPENDED)}"></iframe>'
        f'<form method="post" action="{action}"><button>Win a prize</button></form>'
    )
    with another_site(evil) as (port, name):
        page = context.new_page()
        page.goto(f"http://{name}:{port}/", wait_until="networkidle")
        (framed,) = [frame for frame in page.frames if frame.parent_frame]
        assert "Re-enable" not in framed.content()
        page.get_by_role("button", name="Win a prize").click()
        expect(page.get_by_text("comes from another site")).to_be_visible()
    assert not served.bench.world.executions


@contextmanager
def another_site(body: str) -> Iterator[tuple[int, str]]:
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.send_header("Content-Type", "text/html")
            self.end_headers()
            self.wfile.write(body.encode())

        @override
        def log_message(self, *_: object) -> None:
            """Nothing."""

    server = HTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True).start()
    try:
        yield server.server_address[1], "localhost"
    finally:
        server.shutdown()
        server.server_close()


def _tab_to(page: Page, text: str, *, most: int = 40) -> None:
    """Press Tab until what has the focus says the text."""
    for _ in range(most):
        page.keyboard.press("Tab")
        if text in page.evaluate("document.activeElement.innerText || ''"):
            return
    raise AssertionError(f"{text} cannot be reached by Tab")


def _tell(served: ServedConsole, recovery: Recovery) -> None:
    """The world has come so far: the recovery, and the subscription that it makes active."""
    world = served.bench.world
    with served.lock:
        world.recoveries[recovery.key.scope, recovery.id] = recovery
        held = recovery.status is RecoveryStatus.RUNNING
        health = a_health(key=SUSPENDED, recovery=a_lock(recovery)) if held else a_health(key=SUSPENDED)
        world.add(a_subscription(key=SUSPENDED, endpoint_url="https://orders.acme.example/a"), health)

"""One Chromium for all, and for each test a console of its own over the in-memory world."""

from collections.abc import Iterator
from typing import Any

import pytest
from playwright.sync_api import Browser, BrowserContext, Page

from tests.browser.chromium import chromium
from tests.browser.served import ServedConsole
from tests.functions.cold import cold_start
from tests.functions.console_bench import ENVIRONMENT
from tests.functions.console_bench import Browser as Visitor


@pytest.fixture(scope="module")  # closed with the module: one process has room for one Playwright
def browser() -> Iterator[Browser]:
    with chromium() as browser:
        yield browser


@pytest.fixture(scope="session")
def started() -> Iterator[Any]:
    with pytest.MonkeyPatch.context() as patch:
        for name, value in ENVIRONMENT.items():
            patch.setenv(name, value)
        yield cold_start("console")


@pytest.fixture
def served(started: Any) -> Iterator[ServedConsole]:
    with ServedConsole(started) as served:
        yield served


@pytest.fixture
def context(browser: Browser, served: ServedConsole) -> Iterator[BrowserContext]:
    """Signed in as an owner of `acme`."""
    context = browser.new_context(viewport={"width": 1100, "height": 800})
    sign_in(context, served)
    yield context
    context.close()


@pytest.fixture
def page(context: BrowserContext) -> Page:
    return context.new_page()


def sign_in(context: BrowserContext, served: ServedConsole, *, operator: bool = False) -> None:
    visitor = Visitor.signed_in(served.bench, operator=operator)
    secret = visitor.cookies["__Host-hookkeeper"]
    context.add_cookies([{"name": "hookkeeper", "value": secret, "url": served.origin}])

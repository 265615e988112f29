"""Debian's Chromium, quiet, and what a page must never do in it."""

import shutil
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Browser, Dialog, Page, sync_playwright

NAMES = ("chromium", "chromium-browser", "google-chrome")
ARGUMENTS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]


@contextmanager
def chromium() -> Iterator[Browser]:
    """Skips the test where no Chromium is installed."""
    path = next(filter(None, map(shutil.which, NAMES)), None)
    if path is None:
        pytest.skip("no Chromium is installed: apt-get install chromium")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=ARGUMENTS)
        try:
            yield browser
        finally:
            browser.close()


def complaints(page: Page) -> list[str]:
    """What the browser says against the page from now on: broken policies, scripts that fail, dialogs."""
    told: list[str] = []
    page.on("console", lambda message: told.append(message.text) if message.type == "error" else None)
    page.on("pageerror", lambda error: told.append(str(error)))

    def refuse(dialog: Dialog) -> None:
        told.append(dialog.message)
        dialog.dismiss()

    page.on("dialog", refuse)
    return told


def barriers(page: Page) -> list[str]:
    """Every rule of axe that the page breaks, with the first place."""
    violations = Axe().run(page).response["violations"]
    return [f"{each['id']}: {each['nodes'][0]['html'][:200]}" for each in violations]

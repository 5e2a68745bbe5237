"""Debian's chromium, driven by Playwright, and a page that notices what must not happen: errors, and violations of the
content security policy."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from playwright.sync_api import Browser, BrowserContext, Page, ViewportSize, sync_playwright

FLAGS = [
    "--headless=new",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]
DESKTOP = ViewportSize(width=1280, height=720)
PHONE = ViewportSize(width=390, height=844)
DEADLINE_MS = 60_000
# What the server answers to a first question without a session, and to what a test does wrong on purpose.
EXPECTED_ERRORS = ("Failed to load resource",)


def executable() -> str | None:
    return shutil.which("chromium")


@contextmanager
def launched() -> Iterator[Browser]:
    """A browser with a profile of its own, which goes with it."""
    found = executable()
    assert found is not None, "no chromium here: as root on Debian, .ci/run system installs it"
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=found, args=FLAGS)
        yield browser
        browser.close()


class Watched:
    """A page in a context of its own, and everything that went wrong in it."""

    def __init__(self, browser: Browser, url: str, viewport: ViewportSize = DESKTOP, **more: Any) -> None:
        self.url = url
        self.theme: str = more.get("color_scheme", "light")
        self.context: BrowserContext = browser.new_context(viewport=viewport, **more)
        self.context.set_default_timeout(DEADLINE_MS)
        self.page: Page = self.context.new_page()
        self.problems: list[str] = []
        # Each dialog, and each request that leaves the broker.
        self.page.on("dialog", self._opened)
        self.page.on("pageerror", lambda error: self.problems.append(f"error {error}"))
        self.page.on("console", self._said)
        self.page.on("request", self._asked)
        self.page.add_init_script(
            "addEventListener('securitypolicyviolation', event => console.error("
            "'CSP ' + event.violatedDirective + ' ' + event.blockedURI + ' ' + event.sample))"
        )

    def _opened(self, dialog: Any) -> None:
        self.problems.append(f"dialog {dialog.message}")
        dialog.dismiss()

    def _said(self, message: Any) -> None:
        if message.type == "error" and not message.text.startswith(EXPECTED_ERRORS):
            self.problems.append(f"console {message.text}")

    def _asked(self, request: Any) -> None:
        if not request.url.startswith((self.url, "data:", "blob:")):
            self.problems.append(f"request to {request.url}")

    def open(self, place: str = "") -> Page:
        self.page.goto(f"{self.url}/#/{place}")
        return self.page

    def log_in(self, user: str = "guest", password: str = "guest", place: str = "overview") -> Page:
        self.open(place)
        self.page.get_by_label("User").fill(user)
        self.page.get_by_label("Password").fill(password)
        self.page.get_by_role("button", name="Log in", exact=True).click()
        self.page.get_by_role("button", name="Log out").wait_for()
        return self.page

    def close(self) -> None:
        self.context.close()

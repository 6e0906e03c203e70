"""The page with a person in front of it."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest

CHROMIUM = (
    shutil.which("chromium")
    or shutil.which("chromium-browser")
    or shutil.which("google-chrome")
    or ""
)
needs_chromium = pytest.mark.skipif(
    not CHROMIUM, reason="no chromium found: install it to test the page"
)
SIZES = {"desktop": {"width": 1200, "height": 850}, "phone": {"width": 390, "height": 780}}
at_every_size = pytest.mark.parametrize("visit", SIZES, indirect=True)
NO_TEXT: dict[str, Any] = {"message": "", "line": None, "column": None, "suggestions": []}


@contextmanager
def chromium() -> Iterator[Any]:
    """A browser that runs as long as it is needed."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as player:
        opened = player.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield opened
        opened.close()


class Visit:
    """A page with a person in front of it, and everything that went wrong behind it."""

    def __init__(self, browser: Any, address: str, size: str = "desktop", **options: Any) -> None:
        self.size = SIZES[size]
        self.context = browser.new_context(**{"viewport": self.size, **options})
        self.page = self.context.new_page()
        self.page.set_default_timeout(30_000)
        self.faults: list[str] = []
        self.hosts: set[str] = set()
        self.page.on("pageerror", lambda error: self.faults.append(str(error)))
        self.page.on(
            "dialog", lambda dialog: (self.faults.append("a dialog opened"), dialog.dismiss())
        )
        self.page.on("request", lambda request: self.hosts.add(urlsplit(request.url).netloc))
        self.go(address)

    def reopen(self, address: str) -> None:
        """Open an address as for the first time; another window would take twice as long."""
        self.page.unroute_all(behavior="ignoreErrors")
        self.page.evaluate("() => { localStorage.clear(); sessionStorage.clear(); }")
        self.page.emulate_media(color_scheme="light", forced_colors="none")
        self.page.set_viewport_size(self.size)
        self.faults.clear()
        self.hosts.clear()
        self.go(address)

    def go(self, address: str) -> None:
        """Open an address."""
        self.page.goto(address)
        self.page.wait_for_selector("html[data-ready]")

    def saved(self, name: str) -> str:
        """The file of the answers that a button below them saves."""
        with self.page.expect_download() as coming:
            self.page.locator(".taking").get_by_role("button", name=name, exact=True).click()
        return Path(coming.value.path()).read_bytes().decode()

    def ask(self, question: str) -> list[str]:
        """Type a question, ask it, and read the answers."""
        self.page.fill("#question", question)
        with self.page.expect_response("**/ask*"):
            self.page.keyboard.press("Enter")
        self.page.wait_for_selector("#results[aria-busy=false]")
        # the builder above the answers moves them
        self.page.wait_for_selector("#sentence[aria-busy=false]")
        return self.answers()

    def answers(self) -> list[str]:
        """The names of the answers, once they are there."""
        self.page.wait_for_selector("#results[aria-busy=false] .answer")
        found: list[str] = self.page.locator(".answer .name").all_text_contents()
        return found

    def open(self, entity: str) -> Any:
        """Open the reason for an answer."""
        self.answers()
        self.page.locator(".answer", has_text=entity).first.click()
        self.page.wait_for_selector(".why svg")
        return self.page.locator(".why")

    def options(self) -> None:
        """Open the settings of the search."""
        self.page.locator("#settings:not([open]) > summary").click()

    def url_query(self) -> dict[str, list[str]]:
        """Return the query of the page's address."""
        return parse_qs(urlsplit(self.page.url).query)

    def wait_for_option(self, name: str) -> None:
        """Wait until a name is offered at the caret."""
        self.page.locator("#options [role=option]", has_text=name).first.wait_for()

    def reply(self, path: str, *answers: dict[str, Any], **more: Any) -> None:
        """Let the service reply with these answers from here on."""
        whole = {"query": "?x", "certified": None, "answers": list(answers)} | more
        self.page.route(f"**{path}", lambda route: route.fulfill(json=whole))

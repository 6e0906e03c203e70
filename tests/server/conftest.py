"""One service for all tests that change nothing about it, and one browser for those of the page."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any
from urllib.parse import urlsplit

import pytest

from served import Running, running
from served_graphs import EUROPE
from tacit.server.settings import ServerSettings
from visits import Visit, chromium


@pytest.fixture(scope="session")
def europe_service() -> Iterator[Running]:
    """A service that runs as long as the tests do."""
    with running(EUROPE, ServerSettings(workers=1)) as found:
        yield found


@pytest.fixture(scope="session")
def service(europe_service: Running) -> Running:
    """The same, where a file has none of its own."""
    return europe_service


@pytest.fixture(scope="module")  # of a file, since a thread can drive one browser at a time
def browser() -> Iterator[Any]:
    """A browser."""
    with chromium() as opened:
        yield opened


@pytest.fixture(scope="module")
def windows() -> Iterator[dict[str, Visit]]:
    """The windows that are open, by their size."""
    opened: dict[str, Visit] = {}
    yield opened
    for visit in opened.values():
        visit.context.close()


@pytest.fixture
def visit(
    request: pytest.FixtureRequest, browser: Any, windows: dict[str, Visit], europe_service: Running
) -> Iterator[Visit]:
    """A visit to the page on a desktop; it must leave no fault and call no other host."""
    size = getattr(request, "param", "desktop")
    if size in windows:
        windows[size].reopen(europe_service.url)
    else:
        windows[size] = Visit(browser, europe_service.url, size, has_touch=size == "phone")
    visit = windows[size]
    yield visit
    assert visit.faults == []
    assert visit.hosts == {urlsplit(europe_service.url).netloc}

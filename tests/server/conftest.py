"""One service and one browser for all tests of the page."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any
from urllib.parse import urlsplit

import pytest

from served import Running, running
from served_graphs import EUROPE
from tacit.server.settings import ServerSettings
from visits import SIZES, Visit, chromium


@pytest.fixture(scope="session")
def europe_service() -> Iterator[Running]:
    """A service that runs as long as the tests do."""
    with running(EUROPE, ServerSettings(workers=1)) as found:
        yield found


@pytest.fixture(scope="module")  # of a file, since a thread can drive one browser at a time
def browser() -> Iterator[Any]:
    """A browser."""
    with chromium() as opened:
        yield opened


@pytest.fixture(params=SIZES)
def visit(request: pytest.FixtureRequest, browser: Any, europe_service: Running) -> Iterator[Visit]:
    """A visit to the page on a desk and on a phone, which must leave no fault and call nobody else."""
    visit = Visit(browser, europe_service.url, request.param, has_touch=request.param == "phone")
    yield visit
    visit.context.close()
    assert visit.faults == []
    assert visit.hosts == {urlsplit(europe_service.url).netloc}


@pytest.fixture
def at_desk(browser: Any, europe_service: Running) -> Iterator[Visit]:
    """The same on a desk alone, for what does not depend on the size."""
    visit = Visit(browser, europe_service.url)
    yield visit
    visit.context.close()
    assert visit.faults == []
    assert visit.hosts == {urlsplit(europe_service.url).netloc}

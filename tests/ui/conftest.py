"""One broker and one browser for all tests of the user interface."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
from playwright.sync_api import Browser, Page, expect

from leveret.testing import Broker
from tests.http_client import Api
from tests.ui.chromium import DEADLINE_MS, Watched, executable, launched
from tests.ui.furniture import fill, make_topology, make_users

expect.set_options(timeout=DEADLINE_MS)


# Not longer than a file: as long as Playwright runs, asyncio takes the thread's loop for running, and every test that
# starts one of its own in the same process fails.
@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    if executable() is None:
        pytest.skip("chromium is missing; install with: apt-get install chromium")
    with launched() as made:
        yield made


@pytest.fixture(scope="session")
def broker() -> Iterator[Broker]:
    with Broker({"management.sample_interval_s": 0.5}) as running:
        api = Api(running)
        make_users(api)
        make_topology(api)
        fill(running.url)
        yield running


@pytest.fixture
def api(broker: Broker) -> Api:
    return Api(broker)


@pytest.fixture
def watched(browser: Browser, broker: Broker) -> Iterator[Watched]:
    """A page that nobody has logged in to; nothing may go wrong in it."""
    made = Watched(browser, broker.management_url)
    yield made
    made.close()
    assert made.problems == []


@pytest.fixture
def page(watched: Watched) -> Page:
    """The overview, as an administrator sees it."""
    return watched.log_in()


@pytest.fixture
def visit(page: Page, broker: Broker) -> Callable[[str], Page]:
    """Goes to a place of the user interface, such as queues/%2F/orders.new."""

    def to(place: str) -> Page:
        page.goto(f"{broker.management_url}/#/{place}")
        return page

    return to

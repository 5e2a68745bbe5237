"""axe-core finds nothing serious on any page, light or dark; every page fits a phone."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, expect

from leveret.testing import Broker
from tests.ui.chromium import PHONE, Watched
from tests.ui.node_modules import node_modules
from tests.ui.shots import PAGES

SERIOUS = ("serious", "critical")


@pytest.fixture(scope="module")
def axe() -> str:
    return (node_modules() / "axe-core" / "axe.min.js").read_text()


@pytest.fixture(scope="module", params=["light", "dark"])
def themed(request: pytest.FixtureRequest, browser: Browser, broker: Broker) -> Iterator[Watched]:
    made = Watched(browser, broker.management_url, color_scheme=request.param, bypass_csp=True)
    made.log_in()
    yield made
    made.close()


@pytest.mark.parametrize("shot", PAGES)
def test_axe_finds_nothing_serious(themed: Watched, axe: str, shot: str) -> None:
    page = themed.open(PAGES[shot])
    expect(page.get_by_role("heading", level=1)).to_be_visible()
    page.wait_for_timeout(200)
    page.evaluate(axe)
    # Dark differs from light by its colours alone.
    rules = "" if themed.theme == "light" else ", runOnly: ['color-contrast']"
    found = page.evaluate(f"axe.run(document, {{resultTypes: ['violations']{rules}}}).then(made => made.violations)")
    serious = [
        f"{one['id']}: {node['html'][:160]} {node['failureSummary']}"
        for one in found
        if one["impact"] in SERIOUS
        for node in one["nodes"]
    ]
    assert serious == []


def test_the_login_has_nothing_serious_either(browser: Browser, broker: Broker, axe: str) -> None:
    made = Watched(browser, broker.management_url, bypass_csp=True)
    page = made.open()
    expect(page.get_by_role("heading", level=1)).to_be_visible()
    page.evaluate(axe)
    found = page.evaluate("axe.run().then(result => result.violations)")
    assert [one["id"] for one in found if one["impact"] in SERIOUS] == []
    made.close()


@pytest.fixture(scope="module")
def phone(browser: Browser, broker: Broker) -> Iterator[Watched]:
    made = Watched(browser, broker.management_url, PHONE, has_touch=True)
    made.log_in()
    yield made
    made.close()


@pytest.mark.parametrize("shot", PAGES)
def test_every_page_fits_a_phone(phone: Watched, shot: str) -> None:
    page = phone.open(PAGES[shot])
    expect(page.get_by_role("heading", level=1)).to_be_visible()
    page.wait_for_timeout(100)
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")


def test_the_pages_are_reached_by_the_menu_of_a_phone(phone: Watched) -> None:
    page = phone.open("overview")
    expect(page.get_by_role("link", name="Queues", exact=True)).not_to_be_visible()
    page.get_by_role("button", name="Pages").click()
    page.get_by_role("link", name="Queues", exact=True).click()
    expect(page.get_by_role("heading", name="Queues")).to_be_visible()
    expect(page.get_by_role("link", name="Topology")).not_to_be_visible()

"""What a user may not do is not offered."""

from __future__ import annotations

import pytest
from playwright.sync_api import expect

from tests.http_client import Api
from tests.ui.chromium import Watched

EVERYBODY = ["Overview", "Queues", "Dead letters", "Live tail", "Exchanges", "Topology"]
EVERYBODY += ["Connections", "Channels", "Consumers", "Virtual hosts", "Policies"]
PAGES = {
    "administrator": {*EVERYBODY, "Users", "Definitions", "Audit log"},
    "monitoring": {*EVERYBODY, "Audit log"},
    "policymaker": set(EVERYBODY),
    "management": set(EVERYBODY),
    "untagged": set[str](),
}


@pytest.mark.parametrize("user", PAGES)
def test_each_tag_is_offered_its_pages(watched: Watched, user: str) -> None:
    page = watched.log_in(user, user)
    expect(page.locator(".brand")).to_be_visible()
    links = page.locator(".nav-group a")
    expect(links).to_have_count(len(PAGES[user]))
    offered = links.all_inner_texts()
    assert {text.strip() for text in offered} == PAGES[user]
    if user == "untagged":
        expect(page.get_by_role("heading", name="Your tags do not allow this page")).to_be_visible()


@pytest.mark.parametrize(("user", "may"), [("policymaker", True), ("management", False), ("monitoring", False)])
def test_policies_are_set_by_those_who_may(watched: Watched, user: str, may: bool) -> None:
    page = watched.log_in(user, user, "policies")
    expect(page.get_by_role("cell", name="short-queues")).to_be_visible()
    expect(page.get_by_role("button", name="Set a policy")).to_have_count(1 if may else 0)
    expect(page.get_by_role("button", name="Clear")).to_have_count(1 if may else 0)


def test_permissions_decide_what_a_queue_offers(watched: Watched, api: Api) -> None:
    assert api.put("/users/looker", {"password": "looker", "tags": "management"}).status == 201
    assert api.put("/permissions/%2F/looker", {"configure": "^$", "write": "^$", "read": "^emails$"}).status == 201
    page = watched.log_in("looker", "looker", "queues/%2F/emails")
    expect(page.get_by_role("button", name="Purge")).to_be_visible()
    for action in ("Publish", "Pause", "Delete"):
        expect(page.get_by_role("button", name=action, exact=True)).to_have_count(0)
    page.goto(f"{watched.url}/#/queues/%2F/invoices/messages")
    expect(page.get_by_text("shown to users with the permission read")).to_be_visible()
    expect(page.get_by_role("button", name="Purge")).to_have_count(0)

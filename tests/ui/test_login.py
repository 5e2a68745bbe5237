"""The way in and out: logins, sessions that end, a broker that goes away."""

from __future__ import annotations

from playwright.sync_api import Browser, expect

from leveret.testing import Broker
from tests.conformance.server_process import free_port
from tests.http_client import Api
from tests.ui.chromium import Watched


def test_a_wrong_password_is_told_and_the_right_one_leads_to_the_page_that_was_meant(watched: Watched) -> None:
    page = watched.open("queues?name=orders")
    page.get_by_label("User").fill("guest")
    page.get_by_label("Password").fill("nope")
    page.get_by_role("button", name="Log in", exact=True).click()
    expect(page.get_by_role("alert")).to_contain_text("Login failed")
    page.get_by_label("Password").fill("guest")
    page.get_by_role("button", name="Log in", exact=True).click()
    expect(page.get_by_role("link", name="orders.new")).to_be_visible()
    expect(page.get_by_role("link", name="emails")).to_have_count(0)


def test_a_session_survives_a_reload_and_ends_with_the_logout(watched: Watched) -> None:
    page = watched.log_in()
    page.reload()
    expect(page.get_by_role("heading", name="leveret")).to_be_visible()
    cookies = watched.context.cookies()
    assert [(one["httpOnly"], one["sameSite"], one["path"]) for one in cookies] == [(True, "Strict", "/api")]
    page.get_by_role("button", name="Log out").click()
    expect(page.get_by_role("heading", name="Log in to Leveret")).to_be_visible()
    page.reload()
    expect(page.get_by_role("heading", name="Log in to Leveret")).to_be_visible()
    assert watched.context.cookies() == []


def test_a_session_that_has_ended_is_told_on_the_open_page(watched: Watched, broker: Broker) -> None:
    page = watched.log_in(place="queues")
    broker.call(lambda node: setattr(node.management.services.sessions, "session_s", 0.0))
    try:
        expect(page.get_by_text("Your session has ended")).to_be_visible()
    finally:
        broker.call(lambda node: setattr(node.management.services.sessions, "session_s", 28800.0))
    page.get_by_label("User").fill("guest")
    page.get_by_label("Password").fill("guest")
    page.get_by_role("button", name="Log in", exact=True).click()
    expect(page.get_by_role("heading", name="Queues")).to_be_visible()


def test_a_changed_password_ends_sessions(watched: Watched, api: Api) -> None:
    assert api.put("/users/changing", {"password": "one", "tags": "management"}).status == 201
    assert api.put("/permissions/%2F/changing", {"configure": ".*", "write": ".*", "read": ".*"}).status == 201
    page = watched.log_in("changing", "one", "queues")
    assert api.put("/users/changing", {"password": "two", "tags": "management"}).status == 204
    expect(page.get_by_text("Your session has ended")).to_be_visible()


def test_a_broker_that_is_restarted_under_an_open_page(browser: Browser, tmp_path: object) -> None:
    settings: dict[str, object] = {"data_dir": str(tmp_path), "listen.management_port": free_port()}
    with Broker(settings) as first:
        assert Api(first).put("/queues/%2F/kept", {"durable": True}).status == 201
        watched = Watched(browser, first.management_url)
        page = watched.log_in(place="queues")
        expect(page.get_by_role("link", name="kept")).to_be_visible()
    expect(page.get_by_role("alert")).to_contain_text("does not answer")
    expect(page.get_by_role("link", name="kept")).to_be_visible()
    with Broker(settings):
        # The session was the old process's.
        expect(page.get_by_text("Your session has ended")).to_be_visible()
        page.get_by_label("User").fill("guest")
        page.get_by_label("Password").fill("guest")
        page.get_by_role("button", name="Log in", exact=True).click()
        expect(page.get_by_role("link", name="kept")).to_be_visible()
        assert watched.problems == []
        watched.close()


def test_the_theme_is_the_systems_until_another_is_chosen(browser: Browser, broker: Broker) -> None:
    watched = Watched(browser, broker.management_url, color_scheme="dark")
    page = watched.log_in()
    ground = "getComputedStyle(document.documentElement).backgroundColor"
    dark = page.evaluate(ground)
    page.get_by_role("button", name="Light colours").click()
    expect(page.get_by_role("button", name="Dark colours")).to_be_visible()
    light = page.evaluate(ground)
    assert light != dark
    page.reload()
    expect(page.get_by_role("button", name="Dark colours")).to_be_visible()
    assert page.evaluate(ground) == light
    assert watched.problems == []
    watched.close()

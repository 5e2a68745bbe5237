"""Queues: the list, one of them, and what can be done with it."""

from __future__ import annotations

from collections.abc import Callable

from playwright.sync_api import Page, expect

from tests.http_client import Api

Visit = Callable[[str], Page]


def test_the_overview_shows_what_flows_and_what_needs_attention(page: Page) -> None:
    expect(page.get_by_role("img", name="Message rates")).to_be_visible()
    expect(page.get_by_role("heading", name="Oldest messages")).to_be_visible()
    expect(page.get_by_role("meter", name="Memory")).to_be_visible()
    expect(page.get_by_role("link", name="orders.dead").first).to_be_visible()
    page.get_by_role("button", name="1 h").click()
    expect(page.get_by_role("button", name="1 h")).to_have_attribute("aria-pressed", "true")


def test_a_list_is_filtered_and_sorted_by_the_server_and_its_address_says_how(visit: Visit) -> None:
    page = visit("queues")
    page.get_by_label("Filter by name").fill("orders.")
    expect(page.get_by_role("link", name="emails")).to_have_count(0)
    page.get_by_role("button", name="Messages").click()
    expect(page.get_by_role("columnheader", name="Messages")).to_have_attribute("aria-sort", "descending")
    assert "name=orders." in page.url and "sort=messages" in page.url
    page.reload()
    expect(page.get_by_label("Filter by name")).to_have_value("orders.")
    expect(page.get_by_role("link", name="emails")).to_have_count(0)


def test_a_filter_that_is_no_pattern_says_so_and_can_be_mended(visit: Visit) -> None:
    page = visit("queues?name=%28&regex=1")
    expect(page.get_by_role("alert")).to_contain_text("regular expression")
    page.get_by_label("Filter by name").fill("^emails$")
    expect(page.get_by_role("link", name="emails")).to_be_visible()


def test_a_queue_is_created_published_to_and_deleted(visit: Visit, api: Api) -> None:
    page = visit("queues")
    page.get_by_role("button", name="Create a queue").click()
    page.get_by_label("Name", exact=True).fill("made-here")
    page.get_by_label("Most messages").fill("500")
    page.get_by_role("button", name="Create", exact=True).click()
    expect(page.get_by_role("heading", name="made-here")).to_be_visible()
    assert api.get("/queues/%2F/made-here").body["arguments"] == {"x-queue-type": "classic", "x-max-length": 500}
    page.get_by_role("button", name="Publish").click()
    page.get_by_label("Body", exact=True).fill('{"first": true}')
    page.get_by_role("dialog").get_by_role("button", name="Publish").click()
    expect(page.get_by_text("Published, and routed")).to_be_visible()
    assert api.get("/queues/%2F/made-here/peek").body[0]["payload"] == '{"first": true}'
    page.get_by_role("button", name="Purge").click()
    confirm = page.get_by_role("dialog").get_by_role("button", name="Purge")
    expect(confirm).to_be_disabled()
    page.get_by_label("Type made-here to confirm").fill("made-here")
    confirm.click()
    expect(page.get_by_text("1 messages are gone")).to_be_visible()
    page.get_by_role("button", name="Delete").click()
    page.get_by_label("Type made-here to confirm").fill("made-here")
    page.get_by_role("dialog").get_by_role("button", name="Delete").click()
    expect(page.get_by_role("heading", name="Queues")).to_be_visible()
    assert api.get("/queues/%2F/made-here").status == 404


def test_what_the_server_refuses_is_said_in_its_words_and_nothing_typed_is_lost(visit: Visit) -> None:
    page = visit("queues?create=1")
    page.get_by_label("Name", exact=True).fill("bad")
    page.get_by_label("Overflow").fill("explode")
    page.get_by_role("button", name="Create", exact=True).click()
    expect(page.get_by_role("dialog").get_by_role("alert")).to_contain_text("x-overflow")
    expect(page.get_by_label("Name", exact=True)).to_have_value("bad")


def test_many_queues_are_purged_at_once_after_a_word(visit: Visit, api: Api) -> None:
    for number in range(3):
        assert api.put(f"/queues/%2F/bulk-{number}", {}).status == 201
    page = visit("queues?name=bulk-")
    page.get_by_label("Choose all on this page").check()
    page.get_by_role("button", name="Delete").click()
    page.get_by_label("Type delete to confirm").fill("delete")
    page.get_by_role("dialog").get_by_role("button", name="Delete").click()
    expect(page.get_by_text("Delete: 3 queues")).to_be_visible()
    assert api.get("/queues/%2F?name=bulk-").body == []


def test_a_queue_is_paused_and_resumed(visit: Visit, api: Api) -> None:
    page = visit("queues/%2F/emails")
    page.get_by_role("button", name="Pause").click()
    expect(page.get_by_text("This queue is paused")).to_be_visible()
    assert api.get("/queues/%2F/emails").body["state"] == "paused"
    page.get_by_role("button", name="Resume").click()
    expect(page.get_by_role("button", name="Pause")).to_be_visible()


def test_settings_say_which_policy_gave_which_rule(visit: Visit) -> None:
    page = visit("queues/%2F/invoices/settings")
    row = page.get_by_role("row").filter(has_text="max-length").filter(has_text="50000")
    expect(row).to_contain_text("policy short-queues")
    declared = page.get_by_role("row").filter(has_text="x-max-length")
    expect(declared).to_contain_text("the policy's lower value counts")


def test_a_queue_that_is_not_there_says_so(visit: Visit) -> None:
    expect(visit("queues/%2F/nosuch").get_by_role("heading", name="There is no queue nosuch")).to_be_visible()


def test_the_palette_finds_pages_and_queues(page: Page) -> None:
    page.keyboard.press("Control+k")
    page.get_by_role("combobox", name="Page, queue or exchange").fill("invoi")
    expect(page.get_by_role("option", name="invoices")).to_be_visible()
    page.keyboard.press("Enter")
    expect(page.get_by_role("heading", name="invoices")).to_be_visible()

"""Looking into queues: without taking anything, by search, decoded; copies that are published."""

from __future__ import annotations

import ast
import json
import shlex
from collections.abc import Callable

from playwright.sync_api import Page, expect

from tests.http_client import Api

Visit = Callable[[str], Page]


def test_messages_are_looked_at_and_stay_where_they_are(visit: Visit, api: Api) -> None:
    before = api.get("/queues/%2F/invoices").body
    page = visit("queues/%2F/invoices/messages")
    expect(page.get_by_label("Body", exact=True)).to_contain_text('"sku": "coffee"')
    expect(page.get_by_role("definition").filter(has_text="blue")).to_be_visible()
    after = api.get("/queues/%2F/invoices").body
    assert (after["messages_ready"], after["messages_unacknowledged"]) == (before["messages_ready"], 0)
    assert api.get("/queues/%2F/invoices/peek").body[0]["redelivered"] is False


def test_a_search_says_how_far_it_looked_and_stands_in_the_address(visit: Visit) -> None:
    page = visit("queues/%2F/invoices/messages")
    page.get_by_label("Body contains").fill("4704")
    page.get_by_role("button", name="Search", exact=True).click()
    expect(page.get_by_role("status").filter(has_text="found 1")).to_be_visible()
    assert "body=4704" in page.url
    page.reload()
    expect(page.get_by_role("status").filter(has_text="that is the whole queue")).to_be_visible()
    page.get_by_label("Body contains").fill("")
    page.get_by_label("Header").fill("tenant=red")
    page.get_by_role("button", name="Search", exact=True).click()
    expect(page.get_by_role("heading", name="No message matches")).to_be_visible()
    page.get_by_role("button", name="Clear the search").click()
    expect(page.get_by_label("Body", exact=True)).to_contain_text("coffee")


def test_newest_first(visit: Visit) -> None:
    page = visit("queues/%2F/invoices/messages?order=newest")
    expect(page.get_by_label("Body", exact=True)).to_contain_text('"order": 4737')


def test_compressed_and_packed_bodies_are_decoded(visit: Visit) -> None:
    page = visit("queues/%2F/emails/messages?order=newest")
    expect(page.get_by_role("button", name="MessagePack")).to_have_attribute("aria-pressed", "true")
    expect(page.get_by_label("Body", exact=True)).to_contain_text('"total": 12.5')
    page.get_by_role("list", name="Messages").get_by_role("button").nth(1).click()
    expect(page.get_by_text("gzip", exact=True).first).to_be_visible()
    expect(page.get_by_label("Body", exact=True)).to_contain_text('"order": 4700')
    page.get_by_role("button", name="Hex").click()
    expect(page.get_by_label("Body", exact=True)).to_contain_text("000000  7b 22 6f")


def test_the_way_a_message_died_is_told(visit: Visit) -> None:
    page = visit("queues/%2F/orders.dead/messages")
    expect(page.get_by_role("heading", name="How it died")).to_be_visible()
    expect(page.get_by_role("listitem").filter(has_text="orders.new").filter(has_text="rejected").first).to_be_visible()


def test_an_edited_copy_is_published(visit: Visit, api: Api) -> None:
    assert api.put("/queues/%2F/copies", {}).status == 201
    page = visit("queues/%2F/orders.dead/messages")
    page.get_by_role("button", name="Publish a copy").click()
    dialog = page.get_by_role("dialog")
    dialog.get_by_label("Exchange").fill("")
    dialog.get_by_label("Routing key").fill("copies")
    dialog.get_by_label("Body", exact=True).fill('{"mended": 1}')
    dialog.get_by_role("button", name="Publish").click()
    expect(page.get_by_text("Published, and routed")).to_be_visible()
    copy = api.get("/queues/%2F/copies/peek").body[0]
    assert copy["payload"] == '{"mended": 1}'
    assert copy["properties"]["content_type"] == "application/json"
    assert api.delete("/queues/%2F/copies").status == 204


def test_a_copy_that_no_queue_takes_is_told(visit: Visit) -> None:
    page = visit("queues/%2F/emails")
    page.get_by_role("button", name="Publish").click()
    page.get_by_label("Routing key").fill("nosuch")
    page.get_by_role("dialog").get_by_role("button", name="Publish").click()
    expect(page.get_by_role("dialog").get_by_role("alert")).to_contain_text("no queue took it")


def test_a_stream_is_browsed_by_offset(visit: Visit, api: Api) -> None:
    page = visit("queues/%2F/audit-log/messages?offset=5")
    expect(page.get_by_role("definition").filter(has_text="5").first).to_be_visible()
    expect(page.get_by_role("list", name="Messages").get_by_role("button").first).to_contain_text("#5")
    assert api.put("/stream/%2F/audit-log/tracking/reporter", {"offset": 3}).status == 204
    tracking = visit("queues/%2F/audit-log/tracking")
    expect(tracking.get_by_role("row").filter(has_text="reporter")).to_be_visible()


def test_a_search_in_a_stream_goes_on(visit: Visit, api: Api) -> None:
    assert api.put("/queues/%2F/long-log", {"durable": True, "arguments": {"x-queue-type": "stream"}}).status == 201
    for number in range(25):
        message = {"routing_key": "long-log", "properties": {}, "payload": f"needle {number}"}
        assert api.post("/exchanges/%2F/amq.default/publish", {**message, "payload_encoding": "string"}).body["routed"]
    page = visit("queues/%2F/long-log/messages?body=needle")
    expect(page.get_by_role("status").filter(has_text="found 20")).to_be_visible()
    page.get_by_role("button", name="Go on from there").click()
    expect(page.get_by_role("status").filter(has_text="found 5")).to_be_visible()
    expect(page.get_by_role("list", name="Messages").get_by_role("button").first).to_contain_text("needle 20")
    assert api.delete("/queues/%2F/long-log").status == 204


def test_a_message_is_copied_as_a_program(visit: Visit, api: Api) -> None:
    assert api.put("/queues/%2F/literals", {}).status == 201
    body = '{"paid": true, "refund": null, "text": "it\'s \\"false\\""}'
    properties = {"delivery_mode": 2, "headers": {"urgent": True}}
    message = {"routing_key": "literals", "properties": properties, "payload": body, "payload_encoding": "string"}
    assert api.post("/exchanges/%2F/amq.default/publish", message).body["routed"]
    page = visit("queues/%2F/literals/messages")
    page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    page.get_by_role("button", name="As Python").click()
    program = ast.parse(page.evaluate("navigator.clipboard.readText()"))
    given = {word.arg: word.value for call in ast.walk(program) if isinstance(call, ast.Call) for word in call.keywords}
    assert ast.unparse(given["body"]) == f"{body!r}.encode()"
    assert ast.unparse(given["headers"]) == """json.loads('{"urgent":true}')"""
    assert ast.literal_eval(given["delivery_mode"]) == 2
    page.get_by_role("button", name="As curl").click()
    words = shlex.split(page.evaluate("navigator.clipboard.readText()").replace("\\\n", ""))
    assert json.loads(words[-1]) == message
    assert api.delete("/queues/%2F/literals").status == 204

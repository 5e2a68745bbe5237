"""Exchanges, the simulated route, the topology, the live tail."""

from __future__ import annotations

from collections.abc import Callable

from playwright.sync_api import Page, expect

from leveret.testing import Broker
from tests.client.waiting import until_blocking
from tests.http_client import Api

Visit = Callable[[str], Page]


def test_an_exchange_is_created_and_deleted(visit: Visit, api: Api) -> None:
    page = visit("exchanges")
    page.get_by_role("button", name="Create an exchange").click()
    page.get_by_label("Name", exact=True).fill("made-here")
    page.get_by_label("Alternate exchange").fill("unrouted")
    page.get_by_role("button", name="Create", exact=True).click()
    expect(page.get_by_role("heading", name="made-here")).to_be_visible()
    expect(page.get_by_role("heading", name="To nothing")).to_be_visible()
    assert api.get("/exchanges/%2F/made-here").body["arguments"] == {"alternate-exchange": "unrouted"}
    page.get_by_role("button", name="Delete").click()
    page.get_by_label("Type made-here to confirm").fill("made-here")
    page.get_by_role("dialog").get_by_role("button", name="Delete").click()
    expect(page.get_by_role("heading", name="Exchanges")).to_be_visible()
    assert api.get("/exchanges/%2F/made-here").status == 404


def test_a_route_is_simulated_and_explained(visit: Visit) -> None:
    page = visit("exchanges/%2F/orders")
    page.get_by_label("Routing key").fill("order.eu.paid")
    page.get_by_role("button", name="Simulate").click()
    expect(page.get_by_text("It would reach")).to_contain_text("orders.paid")
    expect(page.get_by_role("listitem").filter(has_text="events").first).to_be_visible()
    page.get_by_label("Routing key").fill("nothing")
    page.get_by_role("button", name="Simulate").click()
    expect(page.get_by_text("It would reach no queue")).to_be_visible()


def test_a_queue_is_bound_and_unbound(visit: Visit, api: Api) -> None:
    page = visit("queues/%2F/emails/bindings")
    page.get_by_role("button", name="Bind", exact=True).click()
    dialog = page.get_by_role("dialog")
    dialog.get_by_label("Exchange").fill("amq.topic")
    dialog.get_by_label("Routing key").fill("mail.#")
    dialog.get_by_role("button", name="Bind", exact=True).click()
    row = page.get_by_role("row").filter(has_text="mail.#")
    expect(row).to_be_visible()
    assert len(api.get("/bindings/%2F/e/amq.topic/q/emails").body) == 1
    row.get_by_role("button", name="Unbind").click()
    expect(row).to_have_count(0)
    assert api.get("/bindings/%2F/e/amq.topic/q/emails").body == []


def test_the_topology_is_drawn_and_leads_on(visit: Visit) -> None:
    page = visit("topology")
    expect(page.get_by_role("link", name="orders topic")).to_be_visible()
    page.get_by_label("Find a name").fill("invoices")
    expect(page.locator(".node-hit")).to_have_count(1)
    page.get_by_role("link", name="invoices").click()
    expect(page.get_by_role("heading", name="invoices")).to_be_visible()


def test_a_tail_shows_what_is_published_and_takes_nothing(visit: Visit, api: Api, broker: Broker) -> None:
    assert api.put("/queues/%2F/tailed", {}).status == 201
    page = visit("tail?kind=queue&of=tailed")
    page.get_by_role("button", name="Start").click()
    expect(page.get_by_text("listening")).to_be_visible()
    # The page says so before the broker has heard of it.
    until_blocking(lambda: broker.call(lambda node: len(node.management.services.taps)) == 1)
    body = {"routing_key": "tailed", "properties": {}, "payload": "seen live", "payload_encoding": "string"}
    assert api.post("/exchanges/%2F/amq.default/publish", body).body == {"routed": True}
    line = page.get_by_role("list", name="Messages as they came").get_by_role("button").first
    expect(line).to_contain_text("seen live")
    line.click()
    expect(page.get_by_text("paused", exact=True)).to_be_visible()
    expect(page.get_by_label("Body", exact=True)).to_have_text("seen live")
    page.get_by_role("button", name="Stop").click()
    assert api.get("/queues/%2F/tailed").body["messages_ready"] == 1
    assert api.delete("/queues/%2F/tailed").status == 204


def test_a_tail_of_nothing_is_refused_in_the_servers_words(visit: Visit) -> None:
    page = visit("tail?kind=queue&of=nosuch")
    page.get_by_role("button", name="Start").click()
    expect(page.get_by_role("alert")).to_contain_text("no queue 'nosuch'")

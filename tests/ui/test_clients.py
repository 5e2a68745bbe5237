"""Connections, channels and consumers as the pages show them."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pika
import pytest
from playwright.sync_api import Page, expect

from leveret.testing import Broker

Visit = Callable[[str], Page]


@pytest.fixture
def client(broker: Broker) -> Iterator[pika.BlockingConnection]:
    parameters = pika.URLParameters(broker.url)
    parameters.client_properties = {"connection_name": "the-worker"}
    connection = pika.BlockingConnection(parameters)
    channel = connection.channel()
    channel.basic_qos(prefetch_count=7)
    channel.basic_consume("orders.new", lambda *_: None, consumer_tag="busy")
    connection.process_data_events(0.1)
    yield connection
    if connection.is_open:
        connection.close()


def test_a_client_is_seen_from_all_sides_and_closed_with_a_reason(
    visit: Visit, client: pika.BlockingConnection
) -> None:
    page = visit("consumers")
    expect(page.get_by_role("row").filter(has_text="busy")).to_contain_text("orders.new")
    page = visit("channels")
    expect(page.get_by_role("row").filter(has_text="(1)").first).to_contain_text("7")
    page = visit("queues/%2F/orders.new/consumers")
    expect(page.get_by_role("region", name="Unacknowledged messages")).to_contain_text("busy")
    page = visit("connections")
    page.get_by_role("link", name="the-worker").click()
    expect(page.get_by_role("heading", name="the-worker")).to_be_visible()
    page.get_by_role("button", name="Close", exact=True).click()
    dialog = page.get_by_role("dialog")
    dialog.get_by_label("Reason").fill("too greedy")
    dialog.get_by_role("button", name="Close it").click()
    expect(page.get_by_text("The connection is closed")).to_be_visible()
    with pytest.raises(pika.exceptions.ConnectionClosedByBroker, match="too greedy"):
        client.process_data_events(10)

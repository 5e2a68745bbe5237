"""Dead letters: grouped, tried out, sent back, discarded."""

from __future__ import annotations

from collections.abc import Callable

import pika
from playwright.sync_api import Page, expect

from leveret.testing import Broker
from tests.http_client import Api

Visit = Callable[[str], Page]


def make_dead(broker: Broker, api: Api, queue: str, count: int) -> str:
    """A queue whose messages were all rejected, and the one that they are in now."""
    dead = f"{queue}.dead"
    assert api.put(f"/queues/%2F/{dead}", {"durable": True}).status == 201
    arguments = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": dead}
    assert api.put(f"/queues/%2F/{queue}", {"durable": True, "arguments": arguments}).status == 201
    connection = pika.BlockingConnection(pika.URLParameters(broker.url))
    channel = connection.channel()
    channel.confirm_delivery()
    for number in range(count):
        channel.basic_publish("", queue, f"letter {number}".encode())
        method, _, _ = channel.basic_get(queue)
        assert method is not None
        channel.basic_reject(method.delivery_tag, requeue=False)
    channel.queue_declare(queue, passive=True)
    connection.close()
    return dead


def ready(api: Api, queue: str) -> int:
    count: int = api.get(f"/queues/%2F/{queue}").body["messages_ready"]
    return count


def test_dead_letters_are_tried_out_and_then_sent_back(visit: Visit, broker: Broker, api: Api) -> None:
    dead = make_dead(broker, api, "replayed", 6)
    page = visit("dead-letters")
    card = page.get_by_role("region", name=dead, exact=True)
    expect(card.get_by_text("6 messages")).to_be_visible()
    expect(card.get_by_role("row").nth(1)).to_contain_text("rejected")
    card.get_by_role("button", name="Replay", exact=True).click()
    dialog = page.get_by_role("dialog")
    expect(dialog.get_by_role("button", name="Replay", exact=True)).to_be_disabled()
    dialog.get_by_label("At most").fill("4")
    dialog.get_by_role("button", name="Dry run").click()
    expect(dialog.get_by_text("4 messages match")).to_be_visible()
    assert (ready(api, dead), ready(api, "replayed")) == (6, 0)
    dialog.get_by_role("button", name="Replay", exact=True).click()
    expect(page.get_by_text("4 messages were sent back")).to_be_visible()
    assert (ready(api, dead), ready(api, "replayed")) == (2, 4)
    expect(page.get_by_role("region", name="Replays").get_by_role("row").filter(has_text=dead).first).to_be_visible()


def test_a_slow_replay_shows_its_progress_and_is_cancelled(visit: Visit, broker: Broker, api: Api) -> None:
    dead = make_dead(broker, api, "slow", 80)
    page = visit("dead-letters")
    page.get_by_role("region", name=dead, exact=True).get_by_role("button", name="Replay", exact=True).click()
    dialog = page.get_by_role("dialog")
    dialog.get_by_role("button", name="Dry run").click()
    expect(dialog.get_by_text("80 messages match")).to_be_visible()
    dialog.get_by_label("Messages a second").fill("1")
    dialog.get_by_role("button", name="Dry run").click()
    expect(dialog.get_by_role("button", name="Replay", exact=True)).to_be_enabled()
    dialog.get_by_role("button", name="Replay", exact=True).click()
    row = page.get_by_role("region", name="Replays").get_by_role("row").filter(has_text=dead)
    row.get_by_role("button", name="Cancel").click()
    expect(row.filter(has_text="cancel")).to_be_visible()
    assert ready(api, dead) > 20


def test_dead_letters_are_discarded_after_their_name_was_typed(visit: Visit, broker: Broker, api: Api) -> None:
    dead = make_dead(broker, api, "discarded", 3)
    page = visit("dead-letters")
    page.get_by_role("region", name=dead, exact=True).get_by_role("button", name="Discard", exact=True).click()
    page.get_by_label(f"Type {dead} to confirm").fill(dead)
    page.get_by_role("dialog").get_by_role("button", name="Discard").click()
    expect(page.get_by_text("3 messages are gone")).to_be_visible()
    assert ready(api, dead) == 0

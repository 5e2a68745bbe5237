"""Rates and samples in the answers of the management API, as charts and autoscalers read them."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from typing import Any

import pika
import pytest

from leveret.testing import Broker
from tests.http_client import Api, name

INTERVAL_S = 0.2
DEADLINE_S = 60.0


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    with Broker({"management.sample_interval_s": INTERVAL_S}) as running:
        yield running


@pytest.fixture
def api(broker: Broker) -> Api:
    return Api(broker)


@pytest.fixture
def busy(broker: Broker) -> Iterator[Callable[[], None]]:
    """Publishes a message and takes it away again, whenever it is called."""
    with pika.BlockingConnection(pika.URLParameters(broker.url)) as connection:
        channel = connection.channel()
        channel.queue_declare("busy")

        def turn() -> None:
            channel.basic_publish("amq.direct", "nowhere", b"")
            channel.basic_publish("", "busy", b"x")
            channel.basic_get("busy", auto_ack=True)

        yield turn
        channel.queue_delete("busy")


def while_busy(turn: Callable[[], None], look: Callable[[], Any]) -> Any:
    """Looks again and again while the client works, until there is something to see."""
    deadline = time.monotonic() + DEADLINE_S
    while True:
        turn()
        if found := look():
            return found
        assert time.monotonic() < deadline, "it never came"


def test_rates_of_a_queue_an_exchange_a_channel_and_the_node(api: Api, busy: Callable[[], None]) -> None:
    while_busy(busy, lambda: api.get("/queues/%2F/busy").body["message_stats"]["publish_details"]["rate"] > 0)
    while_busy(busy, lambda: api.get("/queues").body[0]["message_stats"]["deliver_get_details"]["rate"] > 0)
    path = "/exchanges/%2F/amq.direct"
    while_busy(busy, lambda: api.get(path).body["message_stats"]["publish_in_details"]["rate"] > 0)
    while_busy(busy, lambda: api.get("/channels").body[0]["message_stats"]["publish_details"]["rate"] > 0)
    while_busy(busy, lambda: api.get("/connections").body[0]["recv_oct_details"]["rate"] > 0)
    while_busy(busy, lambda: api.get("/overview").body["message_stats"]["publish_details"]["rate"] > 0)


def test_a_queue_at_rest_says_since_when(api: Api, busy: Callable[[], None]) -> None:
    def at_work() -> Any:
        queue = api.get("/queues/%2F/busy").body
        return queue["message_stats"]["publish_details"]["rate"] > 0 and queue

    # The same answer: the next one may come when it rests again.
    assert "idle_since" not in while_busy(busy, at_work)

    def at_rest() -> Any:
        queue = api.get("/queues/%2F/busy").body
        return "idle_since" in queue and queue

    queue = while_busy(lambda: time.sleep(0.1), at_rest)
    assert queue["idle_since"].endswith("+00:00")
    since = datetime.fromisoformat(queue["idle_since"])
    assert abs((datetime.now(UTC) - since).total_seconds()) < DEADLINE_S
    assert queue["message_stats"]["publish"] > 0
    assert queue["message_stats"]["publish_details"]["rate"] == 0


def test_samples_are_given_when_they_are_asked_for(api: Api, busy: Callable[[], None]) -> None:
    query = "msg_rates_age=5&msg_rates_incr=1&lengths_age=5&lengths_incr=1&data_rates_age=5&data_rates_incr=1"
    while_busy(busy, lambda: api.get("/queues/%2F/busy").body["message_stats"]["publish_details"]["rate"] > 0)
    connection = name(api.get("/connections").body[0]["name"])
    for path, keys in (
        ("/queues/%2F/busy", ("message_stats", "publish_details")),
        ("/queues/%2F/busy", ("messages_details",)),
        ("/overview", ("message_stats", "publish_details")),
        ("/overview", ("queue_totals", "messages_details")),
        (f"/connections/{connection}", ("recv_oct_details",)),
        ("/exchanges/%2F/amq.direct", ("message_stats", "publish_in_details")),
    ):
        found = api.get(f"{path}?{query}").body
        for key in keys:
            found = found[key]
        assert found.keys() == {"rate", "avg", "avg_rate", "samples"}, path
        assert len(found["samples"]) == 6
        stamps = [sample["timestamp"] for sample in found["samples"]]
        assert stamps == sorted(stamps, reverse=True)
        assert stamps[0] - stamps[-1] == 5000
    node = api.get("/nodes?node_stats_age=5&node_stats_incr=1").body[0]
    assert len(node["mem_used_details"]["samples"]) == 6
    assert "samples" not in api.get("/overview").body["message_stats"]["publish_details"]


@pytest.mark.parametrize("bad", [("x", "1"), ("0", "1"), ("5", "10"), ("99999999", "5"), ("5", "-1")])
def test_spans_that_are_none(api: Api, bad: tuple[str, str]) -> None:
    query = f"msg_rates_age={bad[0]}&msg_rates_incr={bad[1]}"
    assert api.get(f"/overview?{query}").status == 400
    # Where nothing is shown that has a rate, nobody minds.
    assert api.get(f"/bindings?{query}").status == 200

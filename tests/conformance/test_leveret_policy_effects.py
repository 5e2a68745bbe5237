"""Keys of policies that RabbitMQ does not have, or that act here as there: on queues that are there already, too."""

import re
from pathlib import Path
from typing import Any

from tests.conformance.own_broker import PERSISTENT, connected, of_queue, running
from tests.conformance.raw_client import RawClient
from tests.conformance.topology import drain, publish_all

UUID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}")


def put(broker: Any, definition: dict[str, Any], apply_to: str = "all", name: str = "p") -> None:
    broker.call(lambda node: node.policies.put("/", name, ".*", definition, apply_to=apply_to))


def clear(broker: Any, name: str = "p") -> None:
    broker.call(lambda node: node.policies.delete("/", name))


def publish_keyed(client: RawClient, *keys: str) -> None:
    """Confirmed when this returns: a transaction's commit is."""
    client.open_channel(2)
    client.call(2, "tx.select")
    for key in keys:
        client.publish(2, "", "q", key.encode(), {**PERSISTENT, "message_id": key})
    client.call(2, "tx.commit")
    client.call(2, "channel.close", reply_code=200, reply_text="", class_id=0, method_id=0)


def test_deduplication_by_policy_over_a_restart(tmp_path: Path) -> None:
    with running(tmp_path) as broker, connected(broker) as client:
        client.call(1, "queue.declare", queue="q", durable=True)
        publish_keyed(client, "a", "a")
        assert drain(client, "q") == [b"a", b"a"]
        put(broker, {"message-deduplication": True, "cache-size": 2}, "queues")
        publish_keyed(client, "a", "a", "b", "b")
        assert drain(client, "q") == [b"a", b"b"]
    with running(tmp_path) as broker, connected(broker) as client:
        publish_keyed(client, "a", "b", "c", "a")
        assert drain(client, "q") == [b"c", b"a"], "a and b are remembered; with c, a is forgotten"
        put(broker, {"message-deduplication": True, "cache-size": 9})
        assert of_queue(broker, "q", lambda queue: (queue.window.size_max, queue.window.duplicates_total)) == (9, 2)
        clear(broker)
        publish_keyed(client, "c", "c")
        assert drain(client, "q") == [b"c", b"c"]


def test_a_declared_argument_counts_before_the_policy(tmp_path: Path) -> None:
    with running(tmp_path) as broker, connected(broker) as client:
        put(broker, {"message-deduplication": True, "queue-mode": "lazy"})
        declared = {"x-message-deduplication": False, "x-queue-mode": "default"}
        client.call(1, "queue.declare", queue="q", durable=True, arguments=declared)
        publish_keyed(client, "a", "a")
        assert of_queue(broker, "q", lambda queue: (queue.ready_count(), queue.in_memory()[0])) == (2, 2)


def test_queues_become_lazy_by_policy(tmp_path: Path) -> None:
    def in_memory(broker: Any) -> tuple[int, int]:
        found: tuple[int, int] = of_queue(broker, "q", lambda queue: (queue.ready_count(), queue.in_memory()[0]))
        return found

    with running(tmp_path) as broker, connected(broker) as client:
        client.call(1, "queue.declare", queue="q", durable=True)
        publish_all(client, "q", [b"kept in memory"])
        assert in_memory(broker) == (1, 1)
        put(broker, {"queue-mode": "lazy"})
        publish_all(client, "q", [b"on disk", b"on disk too"])
        assert in_memory(broker) == (3, 1)
        assert drain(client, "q") == [b"kept in memory", b"on disk", b"on disk too"]
        clear(broker)
        publish_all(client, "q", [b"kept in memory"])
        assert in_memory(broker) == (1, 1)


def message_id(client: RawClient, exchange: str, **properties: Any) -> str | None:
    client.publish(1, exchange, "q", b"x", properties)
    found: str | None = client.call(1, "basic.get", queue="q", no_ack=True).properties.get("message_id")
    return found


def test_messages_get_ids_by_policy_or_argument(tmp_path: Path) -> None:
    with running(tmp_path) as broker, connected(broker) as client:
        client.call(1, "queue.declare", queue="q", exclusive=True)
        for name, arguments in (
            ("plain", {}),
            ("with", {"x-message-id": "uuid"}),
            ("without", {"x-message-id": "none"}),
        ):
            client.call(1, "exchange.declare", exchange=name, type="direct", arguments=arguments)
            client.call(1, "queue.bind", queue="q", exchange=name, routing_key="q")
        assert [message_id(client, name) for name in ("", "plain", "without")] == [None, None, None]
        put(broker, {"message-id": "uuid"}, "exchanges")
        given = [message_id(client, name) for name in ("", "", "plain", "plain", "with")]
        assert all(one is not None and UUID.fullmatch(one) for one in given)
        assert len(set(given)) == len(given)
        assert message_id(client, "plain", message_id="own") == "own"
        assert message_id(client, "without") is None
        clear(broker)
        assert message_id(client, "plain") is None
        assert message_id(client, "with") is not None

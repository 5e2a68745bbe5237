"""A message whose record is damaged behind a good index: found out when it is read, and nobody waits for it in vain."""

from __future__ import annotations

import logging
import os
from pathlib import Path

import pika
import pytest

from leveret.node.node import Node
from leveret.operations.statistics.views import queue_sizes
from leveret.storage.quarantine import DAMAGED, read_list
from leveret.testing import Broker


def settings(root: Path) -> dict[str, object]:
    return {"data_dir": str(root), "storage.segment_bytes": 65536}


def publish(root: Path, *bodies: bytes) -> None:
    with Broker(settings(root)) as broker:
        connection = pika.BlockingConnection(pika.URLParameters(broker.url))
        channel = connection.channel()
        channel.confirm_delivery()
        channel.queue_declare("orders", durable=True)
        for body in bodies:
            channel.basic_publish("", "orders", body, pika.BasicProperties(delivery_mode=2))
        connection.close()
    # The next start reads the segment for the last time, and writes its index.
    with Broker(settings(root)):
        pass


def damage(root: Path, body: bytes) -> Path:
    for path in sorted((root / "log").glob("*.segment")):
        octets = bytearray(path.read_bytes())
        if body in octets:
            octets[octets.index(body)] ^= 1
            path.write_bytes(octets)
            return path
    raise AssertionError(f"{body!r} is in no segment")


def get_all(broker: Broker) -> list[bytes]:
    """What one basic.get after the other brings, within a deadline."""
    parameters = pika.URLParameters(broker.url)
    parameters.blocked_connection_timeout = 5
    connection = pika.BlockingConnection(parameters)
    connection.call_later(5, lambda: pytest.fail("a get had no answer within 5 s"))
    channel = connection.channel()
    found = []
    method, _, body = channel.basic_get("orders", auto_ack=True)
    while method is not None:
        found.append(body)
        method, _, body = channel.basic_get("orders", auto_ack=True)
    connection.close()
    return found


def test_what_is_left_is_delivered(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    publish(tmp_path, b"one", b"the second", b"three")
    path = damage(tmp_path, b"the second")
    with Broker(settings(tmp_path)) as broker, caplog.at_level(logging.ERROR, "leveret"):
        assert get_all(broker) == [b"one", b"three"]
        assert broker.call(lambda node: node.store.read_totals().quarantined) == 1
        sizes = broker.call(lambda node: queue_sizes(node.broker.vhosts["/"].queues[b"orders"], 0))
        assert sizes["messages_quarantined"] == 1
    (record,) = caplog.records
    assert "a message cannot be read and is given up" in record.message and path.name in record.message
    (line,) = read_list(tmp_path / "quarantine" / "given-up.jsonl")
    assert (line.queue, line.position, line.reason) == ("orders in vhost /", 2, DAMAGED)
    (kept,) = tmp_path.rglob(path.name)
    assert b"he second" in kept.read_bytes()[line.offset : line.offset + line.length], "the file is kept"


@pytest.mark.timeout(30)
def test_a_get_is_answered_when_nothing_is_left(tmp_path: Path) -> None:
    publish(tmp_path, b"the only one")
    damage(tmp_path, b"the only one")
    with Broker(settings(tmp_path)) as broker:
        assert get_all(broker) == []
        assert broker.call(lambda node: node.broker.vhosts["/"].queues[b"orders"].ready_count()) == 0


@pytest.mark.timeout(60)
def test_nothing_is_given_up_before_that_is_written_down(tmp_path: Path) -> None:
    """While the list cannot be written the message stays where it is, also over a start; other queues go on."""
    publish(tmp_path, b"the first", b"the second")
    damage(tmp_path, b"the first")
    path = tmp_path / "quarantine" / "given-up.jsonl"
    with Broker(settings(tmp_path)) as broker:
        path.mkdir()
        shortages: list[tuple[str, OSError]] = []
        broker.call(lambda node: setattr(node.store, "on_shortage", lambda *told: shortages.append(told)))
        connection = pika.BlockingConnection(pika.URLParameters(broker.url))
        channel = connection.channel()
        channel.basic_consume("orders", lambda *_: pytest.fail("a message overtook one that is not given up"))
        connection.process_data_events(1)
        assert broker.call(lambda node: node.broker.vhosts["/"].queues[b"orders"].ready_count()) == 2
        assert shortages and "writing down" in shortages[0][0]
        connection.close()
    path.rmdir()
    with Broker(settings(tmp_path)) as broker:
        assert get_all(broker) == [b"the second"]
    assert len(read_list(path)) == 1


def read_from_a_directory(node: Node, root: Path) -> None:
    """From now on every read of a segment fails as it would on a broken disk."""
    files = node.store._files
    files.hold_reader = lambda segment: os.open(root, os.O_RDONLY)  # type: ignore[method-assign]
    files.release_reader = lambda number: None  # type: ignore[method-assign]


@pytest.mark.timeout(30)
def test_a_disk_that_cannot_be_read_loses_nothing(tmp_path: Path) -> None:
    """It is no damage: the broker stops, and another start, with a better disk, has the message."""
    publish(tmp_path, b"still there")
    with Broker(settings(tmp_path)) as broker:
        broker.call(lambda node: read_from_a_directory(node, tmp_path))
        with pytest.raises(pika.exceptions.ConnectionClosedByBroker, match="the disk cannot be read"):
            get_all(broker)
    with Broker(settings(tmp_path)) as broker:
        assert get_all(broker) == [b"still there"]

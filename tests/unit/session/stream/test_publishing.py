"""Commands of publishers: who may publish, what is remembered of them, and what becomes of them."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest

from leveret.testing import Broker
from leveret.wire import stream_commands as commands
from leveret.wire.stream_codes import Code
from tests.unit.session.stream.scene import connected, connection_count, eventually, filled, permit, publish, put_user


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    with Broker() as broker:
        yield broker


def test_a_publisher_is_declared_once(broker: Broker) -> None:
    with connected(broker) as client:
        client.do(commands.Create, "once", {})
        client.do(commands.DeclarePublisher, 1, "me", "once")
        assert client.code(commands.DeclarePublisher, 1, "", "once") == Code.PRECONDITION_FAILED
        assert client.code(commands.DeclarePublisher, 2, "me", "once") == Code.PRECONDITION_FAILED
        client.do(commands.DeclarePublisher, 2, "", "once")
        client.do(commands.DeclarePublisher, 3, "", "once")
        client.do(commands.DeletePublisher, 1)
        client.do(commands.DeclarePublisher, 1, "me", "once")
        assert client.code(commands.DeletePublisher, 9) == Code.PUBLISHER_DOES_NOT_EXIST


def test_what_cannot_be_published_to(broker: Broker) -> None:
    with connected(broker) as client:
        assert client.code(commands.DeclarePublisher, 1, "", "nowhere") == Code.STREAM_DOES_NOT_EXIST
        broker.call(lambda node: node.broker.declare_durable_queue("/", "classic"))
        assert client.code(commands.DeclarePublisher, 1, "", "classic") == Code.STREAM_DOES_NOT_EXIST
        client.do(commands.Create, "named", {})
        assert client.code(commands.DeclarePublisher, 1, "x" * 256, "named") == Code.PRECONDITION_FAILED
        client.do(commands.DeclarePublisher, 1, "x" * 255, "named")


def test_an_unknown_publisher_is_told(broker: Broker) -> None:
    with connected(broker) as client:
        client.publish(7, (1, b"a"), (2, b"b"))
        errors = client.receive(commands.PublishError)
        assert errors == commands.PublishError(
            7, [(1, Code.PUBLISHER_DOES_NOT_EXIST), (2, Code.PUBLISHER_DOES_NOT_EXIST)]
        )


def test_a_named_publisher_goes_on_where_it_was(broker: Broker) -> None:
    with connected(broker) as client:
        client.do(commands.Create, "sequence", {})
        assert client.do(commands.QueryPublisherSequence, "me", "sequence").sequence == 0
        client.do(commands.DeclarePublisher, 1, "me", "sequence")
        publish(client, 1, b"a", b"b", first=5)
        assert client.do(commands.QueryPublisherSequence, "me", "sequence").sequence == 6
    with connected(broker) as client:
        client.do(commands.DeclarePublisher, 1, "me", "sequence")
        publish(client, 1, b"again", b"new", first=6)
        stats = client.do(commands.StreamStats, "sequence").statistics
        assert stats["committed_offset"] == 2
        refused = client.request(commands.QueryPublisherSequence, "me", "nowhere")
        assert (refused.code, refused.sequence) == (Code.STREAM_DOES_NOT_EXIST, 0)


def test_permissions_are_those_of_amqp_and_may_change(broker: Broker) -> None:
    put_user(broker, "ann", write="^open")
    with connected(broker) as client:
        client.do(commands.Create, "open-1", {})
        client.do(commands.Create, "shut-1", {})
    with connected(broker, user="ann", password="secret") as client:
        assert client.code(commands.DeclarePublisher, 1, "", "shut-1") == Code.ACCESS_REFUSED
        client.do(commands.DeclarePublisher, 1, "", "open-1")
        publish(client, 1, b"a")
        permit(broker, "ann", write="^$")
        assert client.receive(commands.MetadataUpdate).stream == "open-1"
        client.publish(1, (5, b"b"))
        assert client.receive(commands.PublishError) == commands.PublishError(1, [(5, Code.PUBLISHER_DOES_NOT_EXIST)])
        assert client.code(commands.DeclarePublisher, 1, "", "open-1") == Code.ACCESS_REFUSED
        permit(broker, "ann", write="^open")
        client.do(commands.DeclarePublisher, 1, "", "open-1")
        publish(client, 1, b"c")
        permit(broker, "ann", read="^$")
        assert client.code(commands.QueryPublisherSequence, "me", "open-1") == Code.ACCESS_REFUSED


def test_an_alarm_holds_publishers_up_and_nobody_else(broker: Broker) -> None:
    with connected(broker) as publisher, connected(broker) as reader:
        filled(publisher, "alarmed", b"before")
        publisher.do(commands.DeclarePublisher, 1, "", "alarmed")
        broker.raise_alarm("disk")
        try:
            assert reader.code(commands.DeclarePublisher, 1, "", "alarmed") == Code.PRECONDITION_FAILED
            # The one that tells that the client publishes is taken; nothing behind it is read.
            publisher.publish(1, (1, b"a"))
            assert publisher.receive(commands.PublishConfirm).publishing_ids == [1]
            publisher.publish(1, (2, b"b"))
            publisher.send(commands.StreamStats(1, "alarmed"))
            assert publisher.is_silent()
            assert reader.do(commands.StreamStats, "alarmed").statistics["committed_offset"] == 1
        finally:
            broker.clear_alarm("disk")
        assert publisher.receive(commands.StreamStatsResponse).correlation_id == 1
        assert publisher.receive(commands.PublishConfirm).publishing_ids == [2]


def test_memory_holds_nobody_up(broker: Broker) -> None:
    """What is published goes to disk at once, and nothing could tell the client why it is not read."""
    with connected(broker) as publisher:
        filled(publisher, "small", b"before")
        publisher.do(commands.DeclarePublisher, 1, "", "small")
        broker.raise_alarm("memory")
        try:
            publish(publisher, 1, b"a")
            publish(publisher, 1, b"b")
            broker.raise_alarm("disk")
            publisher.publish(1, (8, b"c"), (9, b"d"))
            publisher.publish(1, (10, b"e"))
            broker.clear_alarm("disk")
            confirmed: set[int] = set()
            while 10 not in confirmed:
                confirmed.update(publisher.receive(commands.PublishConfirm).publishing_ids)
        finally:
            broker.clear_alarm("memory")


def test_who_is_held_up_can_be_closed_and_can_leave(broker: Broker) -> None:
    with connected(broker) as client, connected(broker) as leaving:
        for each, stream in ((client, "held"), (leaving, "left-alone")):
            each.do(commands.Create, stream, {})
            each.do(commands.DeclarePublisher, 1, "", stream)
        broker.raise_alarm("disk")
        try:
            for each in (client, leaving):
                each.publish(1, (1, b"a"))
                each.receive(commands.PublishConfirm)
            leaving.close()
            broker.close_connections("maintenance")
            assert client.is_closed()
            eventually(lambda: connection_count(broker) == 0)
        finally:
            broker.clear_alarm("disk")


def test_a_deleted_stream_ends_its_publishers(broker: Broker) -> None:
    with connected(broker) as client, connected(broker) as other:
        client.do(commands.Create, "short-lived", {})
        client.do(commands.DeclarePublisher, 1, "", "short-lived")
        client.do(commands.DeclarePublisher, 2, "", "short-lived")
        other.do(commands.Delete, "short-lived")
        assert client.receive(commands.MetadataUpdate) == commands.MetadataUpdate(
            Code.STREAM_NOT_AVAILABLE, "short-lived"
        )
        client.publish(1, (1, b"x"))
        assert client.receive(commands.PublishError).errors == [(1, Code.PUBLISHER_DOES_NOT_EXIST)]
        assert client.code(commands.DeletePublisher, 2) == Code.PUBLISHER_DOES_NOT_EXIST
        # Whoever does it himself has his answer first.
        client.do(commands.Create, "short-lived", {})
        client.do(commands.DeclarePublisher, 1, "", "short-lived")
        client.do(commands.Delete, "short-lived")
        assert client.receive(commands.MetadataUpdate).stream == "short-lived"
        assert other.is_silent()


def test_nothing_is_left_of_a_client_that_is_gone(broker: Broker) -> None:
    with connected(broker) as client:
        client.do(commands.Create, "left", {})
        client.do(commands.DeclarePublisher, 1, "", "left")
        assert broker.call(lambda node: len(node.broker.vhosts["/"].watchers["left"])) == 1
    eventually(lambda: broker.call(lambda node: "left" not in node.broker.vhosts["/"].watchers))


def test_a_publisher_that_is_ahead_of_the_disk_is_not_read(broker: Broker) -> None:
    """Whatever comes in faster than it can be written waits in the client's socket, and nothing is lost."""
    with connected(broker) as client:
        client.do(commands.Create, "fast", {})
        client.do(commands.DeclarePublisher, 1, "", "fast")
        body, count = b"x" * 60000, 500
        begun = time.monotonic()
        for start in range(0, count, 10):
            client.publish(1, *[(number, body) for number in range(start, start + 10)])
        confirmed = []
        while len(confirmed) < count:
            confirmed += client.receive(commands.PublishConfirm).publishing_ids
        assert confirmed == list(range(count))
        assert time.monotonic() - begun < 30
        assert not broker.call(lambda node: node.broker.stalled)

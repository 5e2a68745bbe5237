"""The blocking face: questions and answers, streams; and that it has everything that the asyncio client has."""

from __future__ import annotations

import inspect
import itertools
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

import leveret.client as asyncio_client
from leveret.client import blocking
from leveret.client.publishing.pool import Pool
from leveret.client.publishing.pooled_channel import PooledChannel
from leveret.client.publishing.producer import Producer
from leveret.client.rpc.caller import RemoteError, Rpc
from leveret.client.rpc.server import RpcServer
from leveret.client.streams.stream import Stream
from leveret.client.streams.super_stream import SuperStream, declare_super_stream, partition_key
from leveret.client.topology import Queue, Topology
from tests.client.amqp_server import AmqpServer
from tests.client.blocking_scene import Scene, scene_at
from tests.client.waiting import until_blocking


@pytest.fixture
def scene(amqp_server: AmqpServer) -> Iterator[Scene]:
    with scene_at(amqp_server.url) as scene:
        yield scene


def test_questions_are_answered_by_threads(scene: Scene) -> None:
    def square(request: blocking.Delivery) -> str:
        assert isinstance(request, blocking.Delivery)
        assert threading.current_thread() is not threading.main_thread()
        return str(int(request.body) ** 2)

    with scene.connection.serve(scene.queue, square, concurrency=4) as server, scene.connection.rpc() as rpc:
        with ThreadPoolExecutor(8) as pool:
            asked = [pool.submit(rpc.call, str(n), routing_key=scene.queue, type=int) for n in range(20)]
            assert [one.result(10) for one in asked] == [n * n for n in range(20)]
        assert rpc.call("3", routing_key=scene.queue).body == b"9"
        with pytest.raises(RemoteError, match="ValueError"):
            rpc.call("three", routing_key=scene.queue)
        with pytest.raises(asyncio_client.Unroutable):
            rpc.call("3", routing_key="nowhere")
        assert rpc.counters.replies_total == 22
        assert server.counters.requests_total == 22


def test_a_server_is_waited_for_until_it_is_stopped(scene: Scene) -> None:
    server = scene.connection.serve(scene.queue, lambda request: request.body)
    server.start()
    threading.Timer(0.2, server.stop).start()
    server.wait()


def test_a_stream_is_read_from_any_place(scene: Scene) -> None:
    name = f"{scene.queue}-stream"
    scene.connection.topology.declare(Queue(name, arguments={"x-queue-type": "stream"}))
    try:
        scene.connection.producer(routing_key=name).publish_batch([b"%d" % number for number in range(10)])
        with scene.connection.stream(name, offset="first") as stream:
            assert [message.body for message in itertools.islice(stream, 5)] == [b"0", b"1", b"2", b"3", b"4"]
            assert stream.offset == 4 and stream.counters.messages_total == 5
        with scene.connection.stream(name, offset=7) as stream:
            assert [message.offset for message in itertools.islice(stream, 3)] == [7, 8, 9]
            threading.Timer(0.2, stream.close).start()
            assert list(stream) == []
    finally:
        scene.connection.topology.delete(Queue(name))


def test_offsets_are_stored_and_super_streams_are_read_as_one(leveret_server: AmqpServer) -> None:
    with scene_at(leveret_server.url) as scene:
        connection = scene.connection
        connection._bridge.call(10, declare_super_stream, connection._inner, "blocking-super", 3)
        producer = connection.producer("blocking-super")
        for number in range(30):
            producer.publish(b"%d" % number, routing_key=partition_key(f"key-{number}", 3))
        with connection.super_stream("blocking-super", offset="first", consumer="reader") as stream:
            bodies = [message.body for message in itertools.islice(stream, 30)]
            assert sorted(bodies, key=int) == [b"%d" % number for number in range(30)]
            stream.store_offset()
            assert sum(offset + 1 for offset in stream.offsets.values()) == 30
        until_blocking(lambda: stored(leveret_server, "blocking-super-0") > 0)


def stored(server: AmqpServer, name: str) -> int:
    assert server.broker is not None
    return server.broker.call(lambda node: len(node.broker.vhosts["/"].queues[name.encode()].log.tracking.consumers))


# ---- the same names

# What a part of a connection has for the connection itself.
OF_PARTS = {"kind", "label", "lost", "name", "numbers", "rank", "restore", "stop"}
# Each pair with what is for the client's own parts only, or what threads do in another way.
PAIRS: list[tuple[Any, Any, set[str]]] = [
    (asyncio_client.Connection, blocking.Connection, {"attach", "check", "detach", "link", "open", "parts", "tell"}),
    (asyncio_client.Channel, blocking.Channel, {"cancel", "check", "consume", "give_up", "link", "on_end", "open"}),
    (asyncio_client.Consumer, blocking.Consumer, {"is_holding"}),
    (asyncio_client.Batch, blocking.Batch, set()),
    (asyncio_client.Delivery, blocking.Delivery, {"codec", "mark_settled", "settle"}),
    # The numbers are in `counters`; what is made already is published by connectors of ours.
    (
        Producer,
        blocking.Producer,
        {"make", "publish_made", "confirmed", "published", "refused", "retransmitted", "returned"},
    ),
    (Pool, blocking.Pool, {"free", "leave", "put", "reopen", "take"}),
    (PooledChannel, blocking.PooledChannel, {"begin", "ended", "finish"}),
    (Topology, blocking.Topology, {"close", "consumer_added", "consumer_removed", "doubt", "recover"}),
    (Rpc, blocking.Rpc, set()),
    (RpcServer, blocking.RpcServer, set()),
    (Stream, blocking.Stream, {"check", "finish", "take"}),
    (SuperStream, blocking.SuperStream, {"streams"}),
]


def names_of(kind: Any) -> set[str]:
    return {name for name in [*dir(kind), *getattr(kind, "__annotations__", {})] if not name.startswith("_")}


@pytest.mark.parametrize(("ours", "theirs", "left_out"), PAIRS, ids=[pair[1].__name__ for pair in PAIRS])
def test_it_has_what_the_asyncio_client_has(ours: Any, theirs: Any, left_out: set[str]) -> None:
    assert names_of(ours) - names_of(theirs) - OF_PARTS - left_out == set()
    for name in sorted(names_of(ours) & names_of(theirs)):
        one, other = getattr(ours, name, None), getattr(theirs, name, None)
        if inspect.isfunction(one) and inspect.isfunction(other):
            wanted, given = list(inspect.signature(one).parameters), list(inspect.signature(other).parameters)
            # Plain functions are always called in threads.
            assert [word for word in wanted if word != "threads"] == [word for word in given if word in wanted], (
                f"{name}: {wanted}, {given}"
            )
            assert not set(given) - set(wanted) - {"deadline_s"}, name

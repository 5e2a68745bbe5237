"""The blocking face: publishing, the pool and the topology."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from leveret.client import BatchFailed, ClientClosed, DeadlineExceeded, Message, Unroutable
from leveret.client.blocking import producer as producer_module
from leveret.client.topology import Binding, Exchange, Queue, TopologyConflict
from leveret.wire.queue_methods import QueuePurge
from tests.client.amqp_server import AmqpServer
from tests.client.blocking_scene import Scene, scene_at


@pytest.fixture
def scene(amqp_server: AmqpServer) -> Iterator[Scene]:
    with scene_at(amqp_server.url) as scene:
        yield scene


def test_a_message_is_there_when_publish_returns(scene: Scene) -> None:
    with scene.connection.producer(routing_key=scene.queue, app_id="shop") as producer:
        producer.publish({"tea": 1}, headers={"kind": "order"}, message_id="m1", priority=3)
        assert (producer.in_flight, producer.in_flight_bytes, producer.waiting) == (0, 0, 0)
        assert producer.counters.confirmed == 1
    got = scene.connection.get(scene.queue)
    assert got is not None
    assert (got.body, got.message_id, got.app_id, got.headers) == (b'{"tea":1}', "m1", "shop", {"kind": "order"})
    got.ack()
    assert not producer.is_open
    with pytest.raises(ClientClosed):
        producer.publish(b"late")
    producer.close()


def test_a_message_without_a_queue_is_an_error(scene: Scene) -> None:
    producer = scene.connection.producer()
    with pytest.raises(Unroutable) as lost:
        producer.publish(b"x", routing_key="nowhere")
    assert lost.value.routing_key == "nowhere"
    producer.publish(b"x", routing_key="nowhere", mandatory=False)
    producer.flush()


def test_a_batch_says_which_failed(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    producer = scene.connection.producer(routing_key=scene.queue)
    producer.publish_batch([b"0", "1", {"n": 2}])
    with pytest.raises(BatchFailed) as failed:
        producer.publish_batch([b"3", Message(b"lost", routing_key="nowhere")])
    assert [place for place, _ in failed.value.failures] == [1]
    monkeypatch.setattr(producer_module, "PART", 3)
    threads = set()

    def generated() -> Iterator[Message]:
        for number in range(8):
            threads.add(threading.current_thread())
            yield Message(b"%d" % number, routing_key="nowhere" if number in (1, 7) else None)

    with pytest.raises(BatchFailed) as failed:
        producer.publish_batch(generated())
    assert [place for place, _ in failed.value.failures] == [1, 7]
    assert threads == {threading.current_thread()}
    assert scene.count == 3 + 1 + 6


def test_an_answer_can_be_waited_for_later(scene: Scene) -> None:
    producer = scene.connection.producer(routing_key=scene.queue)
    good = [producer.submit(b"%d" % number) for number in range(10)]
    bad = producer.submit(b"x", routing_key="nowhere")
    for answer in good:
        answer.wait()
        assert answer.is_done
    for _ in range(2):
        with pytest.raises(Unroutable):
            bad.wait(5)
    assert len({answer.message_id for answer in good}) == 10
    assert scene.count == 10


def test_many_threads_publish_with_one_producer(scene: Scene) -> None:
    producer = scene.connection.producer(routing_key=scene.queue)

    def publish(number: int) -> None:
        for turn in range(25):
            producer.publish(f"{number}-{turn}")

    with ThreadPoolExecutor(20) as pool:
        list(pool.map(publish, range(20)))
    assert scene.count == 500
    assert producer.counters.confirmed == 500


def test_a_window_that_is_full_has_a_deadline(leveret_server: AmqpServer) -> None:
    assert leveret_server.broker is not None
    with scene_at(leveret_server.url) as scene:
        producer = scene.connection.producer(routing_key=scene.queue, window=1)
        producer.publish(b"first")
        leveret_server.broker.raise_alarm("memory")
        try:
            late = producer.submit(b"second", deadline_s=1)
            with pytest.raises(DeadlineExceeded):
                producer.publish(b"third", deadline_s=0.2)
            with pytest.raises(DeadlineExceeded, match="was not confirmed"):
                late.wait(0.1)
            late.cancel()
            with pytest.raises((ClientClosed, DeadlineExceeded)):
                late.wait(5)
        finally:
            leveret_server.broker.clear_alarm("memory")


def test_a_channel_of_the_pool(scene: Scene) -> None:
    pool = scene.connection.pool
    with pool.borrow() as channel:
        answers = [channel.publish(b"%d" % number, routing_key=scene.queue) for number in range(5)]
        channel.wait_confirms()
        assert channel.outstanding == 0 and all(answer.is_done for answer in answers)
        assert channel.channel.call(QueuePurge(scene.queue)).message_count == 5
        assert pool.statistics.borrowed == 1
        channel.publish(b"lost", routing_key="nowhere")
        with pytest.raises(BatchFailed):
            channel.wait_confirms(5)
    assert pool.statistics.borrowed == 0
    with pytest.raises(ClientClosed):
        channel.publish(b"x", routing_key=scene.queue)


def test_the_topology(scene: Scene, tmp_path: Path) -> None:
    topology = scene.connection.topology
    exchange = Exchange("blocking-exchange", type="topic", durable=False, auto_delete=True)
    (handle,) = topology.declare(
        Binding("blocking-exchange", "blocking-bound", "order.#"),
        Queue("blocking-bound", durable=False, exclusive=True),
        exchange,
    )
    assert handle.name == "blocking-bound"
    assert topology.exists(handle) and topology.exists(exchange)
    scene.connection.producer("blocking-exchange").publish(b"x", routing_key="order.eu")
    assert topology.counts(handle).message_count == 1
    found = topology.diff()
    assert (found.missing, found.different) == ([], [])
    with pytest.raises(TopologyConflict):
        topology.declare(exchange.replace(type="fanout"))
    made_up = topology.declare_queue()
    assert topology.resolve(made_up) == made_up.name
    text = topology.dump()
    assert "blocking-bound" in text and made_up.name not in text
    assert exchange in topology.exchanges and handle in topology.queues
    topology.unbind(*topology.bindings)
    topology.delete(handle, made_up)
    assert not topology.exists(Queue("blocking-bound")) and topology.bindings == []
    (tmp_path / "topology.toml").write_text('[[queues]]\nname = "blocking-file"\ndurable = false\nexclusive = true\n')
    assert [queue.name for queue in topology.load(tmp_path / "topology.toml")] == ["blocking-file"]
    assert topology.last_recovery is not None and topology.last_recovery.failures == []

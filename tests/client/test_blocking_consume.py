"""The blocking face: consumers, by loop, by handler and by the batch."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import msgspec
import pytest

from leveret.client import ChannelClosed, ClientClosed, DeadlineExceeded, Reject, Requeue, StaleDelivery
from leveret.client.blocking import Batch, Consumer, Delivery
from leveret.client.payload import Typed
from tests.client.amqp_server import AmqpServer
from tests.client.blocking_scene import Scene, interrupt_soon, our_threads, scene_at
from tests.client.waiting import until_blocking


class Order(msgspec.Struct):
    id: int


@pytest.fixture
def scene(amqp_server: AmqpServer) -> Iterator[Scene]:
    with scene_at(amqp_server.url) as scene:
        yield scene


@pytest.fixture
def leveret_scene(leveret_server: AmqpServer) -> Iterator[Scene]:
    with scene_at(leveret_server.url) as scene:
        yield scene


def numbers(count: int, start: int = 0) -> list[bytes]:
    return [b"%d" % number for number in range(start, start + count)]


def taken(consumer: Consumer[Delivery], count: int) -> list[bytes]:
    bodies = []
    for delivery in consumer:
        bodies.append(delivery.body)
        delivery.ack()
        if len(bodies) == count:
            break
    return bodies


def test_one_by_one_in_order_and_the_rest_goes_back(scene: Scene) -> None:
    scene.fill(*numbers(300))
    with scene.connection.consumer(scene.queue, prefetch=200) as consumer:
        assert taken(consumer, 150) == numbers(150)
        assert taken(consumer, 20) == numbers(20, 150)
        assert consumer.queue == scene.queue
        until_blocking(lambda: consumer.acked == 170)
    assert scene.count == 130


def test_stopping_waits_for_what_is_in_hand_only(scene: Scene) -> None:
    scene.fill(*numbers(100))
    consumer = scene.connection.consumer(scene.queue)
    consumer.start()
    first = consumer.next()
    timer = threading.Timer(0.3, first.ack)
    timer.start()
    started = time.monotonic()
    consumer.stop(deadline_s=100)
    assert time.monotonic() - started < 50
    timer.join()
    assert scene.count == 99
    assert list(consumer) == []
    with pytest.raises(ClientClosed):
        consumer.next(1)


def test_several_threads_share_a_consumer(scene: Scene) -> None:
    scene.fill(*numbers(500))
    found: list[bytes] = []
    with scene.connection.consumer(scene.queue) as consumer, ThreadPoolExecutor(5) as pool:

        def work() -> None:
            for delivery in consumer:
                found.append(delivery.body)
                delivery.ack()
                if len(found) >= 500:
                    consumer.stop_soon()

        for future in [pool.submit(work) for _ in range(5)]:
            future.result(20)
    assert sorted(found, key=int) == numbers(500)
    assert scene.count == 0


def test_nothing_comes_within_the_deadline(scene: Scene) -> None:
    with scene.connection.consumer(scene.queue) as consumer:
        with pytest.raises(DeadlineExceeded, match=r"no message came from queue .* within 0\.1 s"):
            consumer.next(0.1)
        scene.fill(b"x")
        consumer.next(5).ack()
    with pytest.raises(ChannelClosed) as refused:
        scene.connection.consumer("blocking-nothing").start()
    assert refused.value.code == 404


def test_auto_ack_acknowledges_when_the_loop_comes_back(scene: Scene) -> None:
    scene.fill(*numbers(10))
    with scene.connection.consumer(scene.queue, auto_ack=True) as consumer:
        for delivery in consumer:
            if delivery.body == b"4":
                break
    assert scene.count == 6


def test_typed_messages(scene: Scene) -> None:
    scene.fill(b'{"id": 1}', b'{"id": 2}')
    with scene.connection.consumer(scene.queue, type=Order) as consumer:
        first: Typed[Order] = consumer.next()
        assert first.payload == Order(1) and first.routing_key == scene.queue
        first.ack()
        seen: list[Any] = []

        def handler(order: Order, delivery: Delivery) -> None:
            seen.append((order, type(delivery)))
            delivery.ack()
            consumer.stop_soon()

        consumer.run(handler)
    assert seen == [(Order(2), Delivery)]
    assert scene.count == 0


def test_a_handler_is_called_in_threads_side_by_side(scene: Scene) -> None:
    scene.fill(*numbers(40))
    together = threading.Barrier(4)
    seen: list[bytes] = []
    consumer = scene.connection.consumer(scene.queue)

    def handler(delivery: Delivery) -> None:
        assert threading.current_thread() is not threading.main_thread()
        together.wait(10)
        seen.append(delivery.body)
        if len(seen) == 40:
            consumer.stop_soon()

    consumer.run(handler, concurrency=4)
    assert sorted(seen, key=int) == numbers(40)
    assert consumer.acked == 40
    assert scene.count == 0


def test_what_a_handler_raises_decides(scene: Scene) -> None:
    scene.fill(b"good", b"bad", b"again")
    seen: list[tuple[bytes, bool]] = []
    consumer = scene.connection.consumer(scene.queue, requeue_pause_s=0)

    def handler(delivery: Delivery) -> None:
        seen.append((delivery.body, delivery.redelivered))
        if delivery.body == b"bad":
            raise Reject("no")
        if delivery.body == b"again" and not delivery.redelivered:
            raise Requeue("later")
        if delivery.body == b"again":
            consumer.stop_soon()

    consumer.run(handler, concurrency=1)
    assert seen == [(b"good", False), (b"bad", False), (b"again", False), (b"again", True)]
    assert scene.count == 0


def test_a_run_ends_when_another_thread_stops_it(scene: Scene) -> None:
    scene.fill(*numbers(5))
    done: list[bytes] = []

    def handler(delivery: Delivery) -> None:
        time.sleep(0.3)
        done.append(delivery.body)

    consumer = scene.connection.consumer(scene.queue)
    thread = threading.Thread(target=consumer.run, args=(handler,), kwargs={"concurrency": 2})
    thread.start()
    until_blocking(lambda: consumer.in_hand == 2)
    consumer.stop(5)
    thread.join(5)
    assert not thread.is_alive()
    assert scene.count == 5 - len(done) and len(done) >= 2


def test_batches(scene: Scene) -> None:
    scene.fill(*numbers(25))
    with scene.connection.consumer(scene.queue) as consumer:
        sizes = []
        for batch in consumer.batches(size=10, wait_s=0.3):
            sizes.append(len(batch))
            if len(sizes) == 1:
                batch.failed(batch.deliveries[3])
            batch.ack()
            assert all(delivery.is_settled for delivery in batch)
            if sum(sizes) == 25:
                break
    assert sizes == [10, 10, 5]
    assert scene.count == 0


def test_a_batch_handler_says_what_failed(scene: Scene) -> None:
    scene.fill(*(b'{"id": %d}' % number for number in range(20)))
    failed: list[int] = []
    consumer = scene.connection.consumer(scene.queue, type=Order, on_error="reject")

    def handler(batch: Batch[Typed[Order]]) -> list[Typed[Order]]:
        odd = [message for message in batch if message.payload.id % 2]
        failed.extend(message.payload.id for message in odd)
        assert batch.payloads == [message.payload for message in batch]
        if len(failed) == 10:
            consumer.stop_soon()
        return odd

    consumer.run_batches(handler, size=10, wait_s=0.5)
    assert failed == list(range(1, 20, 2))
    assert (consumer.acked, consumer.failed) == (10, 10)
    assert scene.count == 0


def test_coroutine_functions_are_refused(leveret_scene: Scene) -> None:
    async def handler(delivery: object) -> None: ...

    consumer = leveret_scene.connection.consumer(leveret_scene.queue)
    with pytest.raises(TypeError, match="plain functions"):
        consumer.run(handler)
    with pytest.raises(TypeError, match="plain functions"):
        leveret_scene.connection.serve(leveret_scene.queue, handler)


def test_an_interrupted_loop_loses_nothing(leveret_scene: Scene) -> None:
    scene = leveret_scene
    with scene.connection.consumer(scene.queue) as consumer:
        thread = interrupt_soon()
        with pytest.raises(KeyboardInterrupt):
            for _ in consumer:
                pass
        thread.join()
        scene.fill(*numbers(3))
        assert taken(consumer, 3) == numbers(3)
    assert scene.count == 0


def test_an_interrupted_run_puts_everything_back(leveret_scene: Scene) -> None:
    scene = leveret_scene
    scene.fill(*numbers(20))
    let_go = threading.Event()

    def handler(delivery: Delivery) -> None:
        let_go.wait(10)

    thread = interrupt_soon()
    with pytest.raises(KeyboardInterrupt):
        scene.connection.consumer(scene.queue).run(handler, concurrency=3)
    thread.join()
    until_blocking(lambda: scene.count == 20)
    let_go.set()
    until_blocking(lambda: not [name for name in our_threads() if name.startswith("leveret-handler")])


def test_a_loop_goes_on_after_a_reconnect(leveret_server: AmqpServer) -> None:
    assert leveret_server.broker is not None
    with scene_at(leveret_server.url) as lasting:
        from leveret.client.topology import Queue

        lasting.queue = "blocking-lasting"
        lasting.connection.topology.declare(Queue(lasting.queue, durable=True))
        lasting.fill(*numbers(50))
        seen: set[bytes] = set()
        with lasting.connection.consumer(lasting.queue) as consumer:
            for delivery in consumer:
                if len(seen) == 20 and not lasting.connection.reconnects_total:
                    leveret_server.broker.close_connections()
                    until_blocking(lambda: lasting.connection.reconnects_total == 1)
                    with pytest.raises(StaleDelivery):
                        delivery.ack()
                    continue
                seen.add(delivery.body)
                with contextlib.suppress(StaleDelivery):
                    delivery.ack()
                if len(seen) == 50:
                    break
            until_blocking(lambda: lasting.count == 0)
            assert consumer.resubscribed == 1
        lasting.connection.topology.delete(Queue(lasting.queue))


def test_closing_the_connection_ends_a_run_of_another_thread(leveret_server: AmqpServer) -> None:
    ended: list[str] = []
    with scene_at(leveret_server.url) as scene:
        scene.fill(*numbers(10))
        consumer = scene.connection.consumer(scene.queue)

        def run() -> None:
            try:
                consumer.run(lambda delivery: time.sleep(0.05), concurrency=2)
            except ClientClosed as error:
                ended.append(str(error))

        thread = threading.Thread(target=run)
        thread.start()
        until_blocking(lambda: consumer.acked >= 2)
        scene.connection.close()
        thread.join(60)
        assert not thread.is_alive()
    assert len(ended) == 1

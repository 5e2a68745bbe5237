"""A real broker for your tests: on a free port of 127.0.0.1, in a thread of the test's own process, gone afterwards.

    with Broker() as broker:
        connection = pika.BlockingConnection(pika.URLParameters(broker.url))

    async with Broker() as broker:
        connection = await aio_pika.connect(broker.url)

It is the broker that `leveret serve` runs, with nothing left out. With pytest, the fixture `leveret_broker` gives every
test one of its own.

    broker.queue("orders").expect(count=3)

waits until it is so, or fails and shows what there is."""

from leveret.testing.broker import Broker
from leveret.testing.seen_message import SeenMessage
from leveret.testing.watched_queue import WatchedQueue

__all__ = ["Broker", "SeenMessage", "WatchedQueue"]

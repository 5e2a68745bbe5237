"""pika's asynchronous connection: publishing with confirms and consuming, driven by callbacks."""

from typing import Any

import pika
import pytest
from pika.channel import Channel

from tests.conformance.target import Target
from tests.conformance.topology import unique_name

MESSAGE_COUNT = 100
WAIT_SECONDS_MAX = 30


class Flow:
    """Declares, binds, consumes, publishes with confirms, and stops when all is confirmed and received."""

    def __init__(self, url: str, mandatory_to_nobody: bool = False) -> None:
        self.exchange = unique_name("exchange")
        self.mandatory_to_nobody = mandatory_to_nobody
        self.received: list[bytes] = []
        self.confirmed: set[int] = set()
        self.returned: list[bytes] = []
        self.failure: BaseException | str | None = None
        self.channel: Channel | None = None
        self.queue = ""
        self.connection = pika.SelectConnection(
            pika.URLParameters(url),
            on_open_callback=lambda connection: connection.channel(on_open_callback=self.channel_opened),
            on_open_error_callback=self.failed,
            on_close_callback=lambda connection, _reason: connection.ioloop.stop(),
        )

    def failed(self, _connection: Any, error: BaseException) -> None:
        self.failure = error
        self.connection.ioloop.stop()

    def channel_opened(self, channel: Channel) -> None:
        self.channel = channel
        channel.add_on_return_callback(lambda _channel, _method, _properties, body: self.returned.append(body))
        channel.exchange_declare(
            self.exchange, "topic", auto_delete=True, callback=lambda _: self.exchange_declared(channel)
        )

    def exchange_declared(self, channel: Channel) -> None:
        channel.queue_declare("", exclusive=True, callback=lambda frame: self.queue_declared(channel, frame))

    def queue_declared(self, channel: Channel, frame: Any) -> None:
        self.queue = frame.method.queue
        channel.queue_bind(self.queue, self.exchange, "a.#", callback=lambda _: self.bound(channel))

    def bound(self, channel: Channel) -> None:
        channel.basic_qos(prefetch_count=7)
        channel.basic_consume(self.queue, self.delivered, callback=lambda _: self.consuming(channel))

    def consuming(self, channel: Channel) -> None:
        channel.confirm_delivery(ack_nack_callback=self.settled, callback=lambda _: self.publish(channel))

    def publish(self, channel: Channel) -> None:
        key = "b" if self.mandatory_to_nobody else "a.b"
        for number in range(MESSAGE_COUNT):
            channel.basic_publish(self.exchange, key, b"%d" % number, mandatory=True)

    def settled(self, frame: Any) -> None:
        assert frame.method.NAME == "Basic.Ack"
        tag = frame.method.delivery_tag
        self.confirmed |= set(range(1, tag + 1)) if frame.method.multiple else {tag}
        self.stop_when_done()

    def delivered(self, channel: Channel, method: Any, _properties: Any, body: bytes) -> None:
        self.received.append(body)
        channel.basic_ack(method.delivery_tag)
        self.stop_when_done()

    def stop_when_done(self) -> None:
        arrived = self.returned if self.mandatory_to_nobody else self.received
        if len(self.confirmed) == MESSAGE_COUNT and len(arrived) == MESSAGE_COUNT:
            self.connection.close()

    def run(self) -> None:
        deadline = self.connection.ioloop.call_later(WAIT_SECONDS_MAX, lambda: self.failed(None, TimeoutError()))
        try:
            self.connection.ioloop.start()
            self.connection.ioloop.remove_timeout(deadline)
        finally:
            self.connection.ioloop.close()


def test_publish_confirm_and_consume(target: Target) -> None:
    flow = Flow(target.url)
    flow.run()
    assert flow.failure is None
    assert flow.confirmed == set(range(1, MESSAGE_COUNT + 1))
    assert flow.received == [b"%d" % number for number in range(MESSAGE_COUNT)]
    assert flow.returned == []


def test_returns_come_before_confirms(target: Target) -> None:
    flow = Flow(target.url, mandatory_to_nobody=True)
    flow.run()
    assert flow.failure is None
    assert flow.returned == [b"%d" % number for number in range(MESSAGE_COUNT)]


@pytest.mark.parametrize("change", ["guest:wrong@", "nobody:guest@"])
def test_a_refused_login_is_told(target: Target, change: str) -> None:
    flow = Flow(target.url.replace("guest:guest@", change))
    flow.run()
    assert isinstance(flow.failure, pika.exceptions.ProbableAuthenticationError)

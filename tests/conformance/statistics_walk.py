"""One walk through everything that is counted: publishing, routing, returns, gets, consuming, rejects, dead letters.

The numbers that it leads to stand beside it: what the management API of RabbitMQ 3.10 says after the same walk. There
are two exceptions. Its default exchange has a publish_out of 8, because it counts what went nowhere as well, and its
queue of dead letters has no publish, because it counts only what came through a channel."""

from __future__ import annotations

from typing import Any, Final

import pika
import pika.exceptions

# What the queues have afterwards, by RabbitMQ's names.
OF_WORK: Final = {
    "publish": 10,
    "deliver": 9,
    "deliver_no_ack": 0,
    "get": 2,
    "get_no_ack": 1,
    "get_empty": 1,
    "deliver_get": 12,
    "redeliver": 2,
    "ack": 8,
}
OF_DEAD: Final = {"publish": 1}
OF_OPEN: Final = {
    "publish": 5,
    "deliver": 0,
    "deliver_no_ack": 5,
    "get": 0,
    "get_no_ack": 0,
    "get_empty": 0,
    "deliver_get": 5,
    "redeliver": 0,
    "ack": 0,
}
# The exchange that both are bound to, and the default one.
OF_FAN: Final = {"publish_in": 5, "publish_out": 10}
OF_DEFAULT: Final = {"publish_in": 8, "publish_out": 5}
# The channel that publishes, and the one that consumes.
OF_PUBLISHER: Final = {"publish": 13, "confirm": 13, "return_unroutable": 1, "drop_unroutable": 2}
OF_CONSUMER: Final = {
    "deliver": 9,
    "deliver_no_ack": 5,
    "get": 2,
    "get_no_ack": 1,
    "get_empty": 1,
    "deliver_get": 17,
    "redeliver": 2,
    "ack": 8,
}


def publish_all(channel: Any) -> None:
    """Ten messages for `work`, five of which `open` gets as well; three for nobody, one of which comes back."""
    channel.exchange_declare("fan", "fanout")
    channel.queue_declare("dead")
    channel.queue_declare("work", arguments={"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "dead"})
    channel.queue_declare("open")
    for queue in ("work", "open"):
        channel.queue_bind(queue, "fan")
    channel.confirm_delivery()
    for _ in range(5):
        channel.basic_publish("fan", "", b"fan")
        channel.basic_publish("", "work", b"work")
    for mandatory in (False, True, False):
        try:
            channel.basic_publish("", "nowhere", b"lost", mandatory=mandatory)
        except pika.exceptions.UnroutableError:
            assert mandatory


def consume_all(channel: Any) -> None:
    """Gets: one is acknowledged, one is without acks, one put back, one in vain. The rest by consumers, in turn."""
    channel.basic_qos(prefetch_count=1)
    method, _, _ = channel.basic_get("work")
    channel.basic_ack(method.delivery_tag)
    channel.basic_get("work", auto_ack=True)
    method, _, _ = channel.basic_get("work")
    channel.basic_nack(method.delivery_tag, requeue=True)
    # What went back comes first again, twice.
    got = _consume(channel, "work", 9, auto_ack=False)
    assert [method.redelivered for method in got] == [True, True, *[False] * 7]
    channel.basic_get("work")
    _consume(channel, "open", 5, auto_ack=True)


def _consume(channel: Any, queue: str, count: int, auto_ack: bool) -> list[Any]:
    """Takes so many; of those that are not acknowledged by themselves the first goes back, the last is rejected."""
    got: list[Any] = []
    for method, _, _ in channel.consume(queue, auto_ack=auto_ack):
        got.append(method)
        if not auto_ack:
            if len(got) == 1:
                channel.basic_nack(method.delivery_tag, requeue=True)
            elif len(got) == count:
                channel.basic_reject(method.delivery_tag, requeue=False)
            else:
                channel.basic_ack(method.delivery_tag)
        if len(got) == count:
            break
    channel.cancel()
    return got

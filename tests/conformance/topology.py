"""Queues and exchanges for one test: unique names, made over a raw client, taken away when the test ends."""

import time
import uuid
from collections.abc import Callable, Iterable
from typing import Final

from tests.conformance.amqp_codec import Value
from tests.conformance.raw_client import WAIT_SECONDS_MAX, Method, RawClient, Refusal

# A channel that no test uses.
_PUBLISHING_CHANNEL: Final = 999


def unique_name(kind: str) -> str:
    return f"conformance-{kind}-{uuid.uuid4().hex[:12]}"


class Topology:
    """Makes queues and exchanges and remembers those that do not go by themselves."""

    def __init__(self) -> None:
        self.queues: list[str] = []
        self.exchanges: list[str] = []

    def queue(self, client: RawClient, channel: int = 1, **options: Value) -> str:
        """Declares a queue under a new name; exclusive unless told otherwise."""
        name = unique_name("queue")
        options = {"exclusive": True, **options}
        client.call(channel, "queue.declare", queue=name, **options)
        if not options["exclusive"]:
            self.queues.append(name)
        return name

    def exchange(self, client: RawClient, kind: str, channel: int = 1, **options: Value) -> str:
        name = unique_name("exchange")
        client.call(channel, "exchange.declare", exchange=name, type=kind, **options)
        self.exchanges.append(name)
        return name

    def bound_queue(self, client: RawClient, exchange: str, *routing_keys: str, channel: int = 1) -> str:
        """An exclusive queue that is bound to the exchange by each of these keys."""
        name = self.queue(client, channel)
        for routing_key in routing_keys:
            client.call(channel, "queue.bind", queue=name, exchange=exchange, routing_key=routing_key)
        return name

    def remove(self, client: RawClient) -> None:
        """Deleting what is gone already succeeds, so everything is simply deleted."""
        for name in self.queues:
            client.call(1, "queue.delete", queue=name)
        for name in self.exchanges:
            client.call(1, "exchange.delete", exchange=name)


def publish_all(client: RawClient, queue: str, bodies: Iterable[bytes]) -> None:
    """Publishes to the queue, and returns when every message is in it. The client must have no live consumers."""
    channel = client.open_channel(_PUBLISHING_CHANNEL)
    client.call(channel, "confirm.select")
    confirmed = published = 0
    for body in bodies:
        client.publish(channel, "", queue, body)
        published += 1
    while confirmed < published:
        confirmed = client.expect(channel, "basic.ack")["delivery_tag"]
    client.call(channel, "channel.close")


def drain(client: RawClient, queue: str, channel: int = 1) -> list[bytes]:
    """Takes every message out of the queue."""
    bodies = []
    while (method := client.call(channel, "basic.get", queue=queue, no_ack=True)).name == "basic.get-ok":
        bodies.append(method.body)
    return bodies


def counts(client: RawClient, queue: str, channel: int = 1) -> tuple[int, int]:
    """Ready messages and consumers of the queue. RabbitMQ may answer before it has done what was asked earlier."""
    declared = client.call(channel, "queue.declare", queue=queue, passive=True)
    return declared["message_count"], declared["consumer_count"]


def wait_for_counts(client: RawClient, queue: str, ready: int, consumers: int) -> None:
    seen: list[tuple[int, int]] = []

    def reached() -> bool:
        seen.append(counts(client, queue))
        return seen[-1] == (ready, consumers)

    wait_for(f"{ready} ready messages and {consumers} consumers", reached)


def wait_for(what: str, condition: Callable[[], bool]) -> None:
    """Polls until the condition holds."""
    deadline = time.monotonic() + WAIT_SECONDS_MAX
    while not condition():
        assert time.monotonic() < deadline, f"waited {WAIT_SECONDS_MAX} s for: {what}"
        time.sleep(0.02)


def refusal_of(client: RawClient, name: str, channel: int = 1, **fields: Value) -> Refusal:
    """Sends a method that must be refused, and gives how it was."""
    client.send(channel, name, fields)
    return client.refusal()


def deliveries(client: RawClient, count: int, channel: int = 1) -> list[Method]:
    """The next messages delivered to the channel's consumers."""
    return [client.expect(channel, "basic.deliver") for _ in range(count)]


def bodies_of(methods: Iterable[Method]) -> list[bytes]:
    return [method.body for method in methods]

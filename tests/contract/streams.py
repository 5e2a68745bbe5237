"""Streams, and readers that stand somewhere in them.

Messages are published one by one, each confirmed: RabbitMQ hands out what was written at once as a whole, whatever the
prefetch, and so each message is written alone."""

from typing import Final

from tests.conformance.amqp_codec import Typed, Value
from tests.conformance.raw_client import Method, RawClient, Refusal
from tests.conformance.topology import Topology, refusal_of, unique_name
from tests.contract.letters import Table

STREAM: Final[Table] = {"x-queue-type": "stream"}


def make_stream(client: RawClient, topology: Topology, arguments: Table | None = None) -> str:
    """Declares a stream under a new name; it goes when the test ends."""
    return topology.queue(client, exclusive=False, durable=True, arguments={**STREAM, **(arguments or {})})


def refused_declare(client: RawClient, queue: str, arguments: Table, **options: Value) -> Refusal:
    """A durable queue that must be refused; the channel is open again afterwards."""
    refusal = refusal_of(client, "queue.declare", queue=queue, arguments=arguments, **{"durable": True, **options})
    client.open_channel(1)
    return refusal._replace(text=refusal.text.replace(f"'{queue}'", "'NAME'"))


def refused_stream(client: RawClient, arguments: Table, **options: Value) -> Refusal:
    """The same for a stream under a new name."""
    return refused_declare(client, unique_name("stream"), {**STREAM, **arguments}, **options)


def not_implemented(text: str, class_id: int, method_id: int) -> Refusal:
    """How streams refuse what they have not got: the whole connection goes."""
    return Refusal("connection", 540, f"NOT_IMPLEMENTED - {text}", class_id, method_id)


def no_settling(stream: str, class_id: int, method_id: int) -> Refusal:
    text = f"basic.nack and basic.reject not supported by stream queues queue '{stream}' in vhost '/'"
    return not_implemented(text, class_id, method_id)


class Reader:
    """One consumer of a stream; the only one of its channel, which it may share with nobody who receives."""

    def __init__(
        self,
        client: RawClient,
        stream: str,
        offset: Value = "first",
        *,
        prefetch: int = 100,
        channel: int = 1,
        tag: str = "reader",
        **options: Value,
    ) -> None:
        self.client = client
        self.channel = channel
        # RabbitMQ may deliver before it says consume-ok.
        self.early: list[Method] = []
        self.last_tag = 0
        client.call(channel, "basic.qos", prefetch_count=prefetch)
        arguments = {} if offset is None else {"x-stream-offset": offset}
        client.send(channel, "basic.consume", queue=stream, consumer_tag=tag, arguments=arguments, **options)
        while (method := client.expect(channel, "basic.consume-ok", "basic.deliver")).name == "basic.deliver":
            self.early.append(method)

    def take(self, count: int) -> list[Method]:
        """The next messages, none of them acknowledged."""
        taken, self.early = self.early[:count], self.early[count:]
        while len(taken) < count:
            taken.append(self.client.expect(self.channel, "basic.deliver"))
        self.last_tag = max([self.last_tag, *(letter["delivery_tag"] for letter in taken)])
        return taken

    def bodies(self, count: int) -> list[bytes]:
        return [letter.body for letter in self.take(count)]

    def ack(self, delivery_tag: int, *, multiple: bool = False) -> None:
        self.client.send(self.channel, "basic.ack", delivery_tag=delivery_tag, multiple=multiple)

    def read_to(self, last: bytes) -> list[Method]:
        """Everything up to the message with this body, acknowledged as it comes."""
        letters: list[Method] = []
        while not letters or letters[-1].body != last:
            letters += self.take(1)
            self.ack(self.last_tag)
        return letters

    def expect_quiet(self) -> None:
        assert not self.early
        self.client.expect_quiet()


def read(client: RawClient, stream: str, count: int, offset: Value = "first") -> list[Method]:
    """These many messages from this place on; the reader is gone afterwards."""
    reader = Reader(client, stream, offset)
    letters = reader.take(count)
    client.call(1, "basic.cancel", consumer_tag="reader")
    reader.ack(0, multiple=True)
    return letters


def read_bodies(client: RawClient, stream: str, count: int, offset: Value = "first") -> list[bytes]:
    return [letter.body for letter in read(client, stream, count, offset)]


def offsets_of(letters: list[Method]) -> list[int]:
    return [letter.properties["headers"]["x-stream-offset"] for letter in letters]


def at(offset: int) -> Typed:
    """A place as the header of a delivery has it."""
    return Typed(b"l", offset)

"""Messages sent with the broker's verdict, collected by polling, and what dead letters say about their deaths."""

import time
from typing import Final

from tests.conformance.amqp_codec import Typed, Value, decode_properties, encode_properties
from tests.conformance.raw_client import Method, RawClient
from tests.conformance.target import ORACLE_IS_TARGET
from tests.conformance.topology import Topology, wait_for

# Time that must pass before a test says that something did not happen.
SETTLING_SECONDS: Final = 0.5

Table = dict[str, Value]


class Publisher:
    """A channel in confirm mode. Publishes one message at a time and tells what was heard about it."""

    def __init__(self, client: RawClient, channel: int = 1) -> None:
        self.client = client
        self.channel = channel
        self.returned: list[Method] = []
        client.call(channel, "confirm.select")

    def publish(
        self,
        routing_key: str,
        body: bytes = b"",
        *,
        exchange: str = "",
        mandatory: bool = False,
        properties_raw: bytes | None = None,
        **properties: Value,
    ) -> str:
        """Gives "ack" or "nack", with "return " before it if the message came back."""
        self.client.send(self.channel, "basic.publish", exchange=exchange, routing_key=routing_key, mandatory=mandatory)
        raw = encode_properties(properties) if properties_raw is None else properties_raw
        self.client.send_content(self.channel, body, raw)
        return self.verdict()

    def verdict(self) -> str:
        method = self.client.expect(self.channel, "basic.ack", "basic.nack", "basic.return")
        name = method.name.removeprefix("basic.")
        if name != "return":
            return name
        self.returned.append(method)
        return f"return {self.verdict()}"

    def publish_all(self, routing_key: str, *bodies: bytes, **properties: Value) -> None:
        for body in bodies:
            assert self.publish(routing_key, body, **properties) == "ack"


def collect(client: RawClient, queue: str, count: int, channel: int = 1, no_ack: bool = True) -> list[Method]:
    """Takes this many messages out of the queue with basic.get, waiting for those that have yet to come."""
    letters: list[Method] = []

    def complete() -> bool:
        while len(letters) < count:
            method = client.call(channel, "basic.get", queue=queue, no_ack=no_ack)
            if method.name == "basic.get-empty":
                return False
            letters.append(method)
        return True

    wait_for(f"{count} messages in {queue}", complete)
    return letters


def collect_bodies(client: RawClient, queue: str, count: int) -> list[bytes]:
    return [letter.body for letter in collect(client, queue, count)]


def hold(client: RawClient, queue: str, channel: int = 1) -> int:
    """Takes one message without acknowledging it; gives its delivery tag."""
    tag: int = collect(client, queue, 1, channel, no_ack=False)[0]["delivery_tag"]
    return tag


def reject(client: RawClient, queue: str) -> None:
    """Takes one message out of the queue and rejects it."""
    client.send(1, "basic.reject", delivery_tag=hold(client, queue), requeue=False)


def ready(client: RawClient, queue: str) -> int:
    count: int = client.call(1, "queue.declare", queue=queue, passive=True)["message_count"]
    return count


def wait_for_ready(client: RawClient, queue: str, count: int) -> None:
    wait_for(f"{count} messages ready in {queue}", lambda: ready(client, queue) == count)


def stays_empty(client: RawClient, *queues: str) -> None:
    """Nothing may arrive in these queues for a while."""
    time.sleep(SETTLING_SECONDS)
    assert [ready(client, queue) for queue in queues] == [0] * len(queues)


def queue_with_dead_letters(
    client: RawClient, topology: Topology, arguments: Table | None = None, **options: Value
) -> tuple[str, str]:
    """A queue with these arguments, and the queue that its dead letters go to by way of the default exchange."""
    grave = topology.queue(client)
    reach = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": grave}
    return topology.queue(client, arguments={**reach, **(arguments or {})}, **options), grave


LAST_DEATH = {f"x-last-death-{what}": what for what in ("exchange", "queue", "reason")}


def headers_of(letter: Method) -> Table:
    """The headers, without those of the last death, which newer versions of RabbitMQ have as well as Leveret: they are
    compared with the newest entry of x-death and taken out."""
    headers: Table = letter.properties.get("headers", {})
    if ORACLE_IS_TARGET or "x-last-death-reason" not in headers:
        return headers
    newest = headers["x-death"][0]
    assert [headers[name] for name in LAST_DEATH if name != "x-last-death-exchange"] == [
        newest["queue"],
        newest["reason"],
    ]
    return {name: value for name, value in headers.items() if name not in LAST_DEATH}


def deaths(letter: Method) -> list[Table]:
    """The x-death tables, newest first, without their times."""
    return [{key: value for key, value in death.items() if key != "time"} for death in headers_of(letter)["x-death"]]


def reasons(letter: Method) -> list[tuple[str, str, int]]:
    """Queue, reason and count of each death, newest first."""
    return [(death["queue"], death["reason"], death["count"]) for death in headers_of(letter)["x-death"]]


def last_words(letter: Method) -> tuple[bytes, str]:
    """Body and reason of the newest death."""
    return letter.body, reasons(letter)[0][1]


def death(queue: str, reason: str, exchange: str, *routing_keys: str, expiration: str | None = None) -> Table:
    """The table of a first death as it stands on the wire, in order, for `assert_properties`."""
    table: Table = {
        "count": Typed(b"l", 1),
        "reason": reason,
        "queue": queue,
        "time": None,
        "exchange": exchange,
        "routing-keys": list(routing_keys),
    }
    return table if expiration is None else {**table, "original-expiration": expiration}


def again(table: Table, count: int = 1) -> Table:
    """The table of a death that is not the message's first: its keys are in the order of the alphabet."""
    return dict(sorted({**table, "count": Typed(b"l", count)}.items()))


def assert_properties(letter: Method, expected: Table) -> None:
    """The properties must be these in every octet, but for the times of deaths, which must be of today."""
    noted = [table["time"] for table in headers_of(letter)["x-death"]]
    assert all(abs(moment - time.time()) < 3600 for moment in noted)
    headers = dict(expected["headers"])
    tables = headers["x-death"]
    assert len(tables) == len(noted)
    timed = [{**table, "time": Typed(b"T", moment)} for table, moment in zip(tables, noted, strict=True)]
    headers["x-death"] = timed
    if not ORACLE_IS_TARGET:
        told = letter.properties["headers"]
        # In their place among the others, which are in the order of the alphabet.
        headers = dict(sorted({**headers, **{name: told[name] for name in LAST_DEATH}}.items()))
    raw = encode_properties({**expected, "headers": headers})
    assert letter.properties == decode_properties(raw)
    assert letter.properties_raw == raw

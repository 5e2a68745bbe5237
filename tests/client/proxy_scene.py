"""What the proxy's own tests share: a broker behind a proxy, raw clients through it, and one whole session."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager

from leveret.testing import Broker
from tests.client.faults import Side, When
from tests.client.proxy import Proxy
from tests.conformance.raw_client import RawClient
from tests.unit.session.clients import eventually

WAIT_S = 60.0
Connect = Callable[[], RawClient]


@contextmanager
def proxied(broker: Broker) -> Iterator[Proxy]:
    """A proxy for one test, which leaves the broker without connections."""
    with Proxy((broker.host, broker.port)) as proxy:
        yield proxy
    expect_gone(proxy, broker)


@contextmanager
def connecting(proxy: Proxy) -> Iterator[Connect]:
    """Opens connections through the proxy, with channel 1; they are closed at the end."""
    with ExitStack() as stack:

        def connected() -> RawClient:
            client = stack.enter_context(RawClient(proxy.host, proxy.port)).log_in()
            client.open_channel(1)
            return client

        yield connected


def broker_connections(broker: Broker) -> int:
    return broker.call(lambda node: len(node.broker.connections))


def has_queue(broker: Broker, name: str) -> bool:
    return broker.call(lambda node: name.encode() in node.broker.vhosts["/"].queues)


def expect_gone(proxy: Proxy, broker: Broker) -> None:
    eventually(lambda: proxy.connections == 0, "the proxy has no connections")
    eventually(lambda: broker_connections(broker) == 0, "the broker has no connections")


def declare(client: RawClient, queue: str) -> None:
    """Without waiting for the answer. The queue goes with the connection."""
    client.send(1, "queue.declare", queue=queue, exclusive=True)


def declare_ok_bytes(queue: str) -> int:
    """Of the frame that answers: head, method id, name, two counts, end."""
    return 7 + 4 + 1 + len(queue) + 8 + 1


def octets_forwarded(when: When, frame_bytes: int) -> int:
    return {"before": 0, "middle": frame_bytes // 2, "after": frame_bytes}[when]


def talk(proxy: Proxy) -> None:
    """A whole session with a message in it."""
    with RawClient(proxy.host, proxy.port) as client:
        client.log_in().open_channel(1)
        client.call(1, "confirm.select")
        client.call(1, "queue.declare", queue="talk", exclusive=True)
        client.publish(1, "", "talk", b"hello")
        client.expect(1, "basic.ack")
        got = client.call(1, "basic.get", queue="talk", no_ack=True)
        assert got.body == b"hello"
        client.call(1, "channel.close")
        client.log_out()


# Up to the first channel.
OPENING: list[tuple[Side, str]] = [
    ("client", "protocol-header"),
    ("server", "connection.start"),
    ("client", "connection.start-ok"),
    ("server", "connection.tune"),
    ("client", "connection.tune-ok"),
    ("client", "connection.open"),
    ("server", "connection.open-ok"),
    ("client", "channel.open"),
    ("server", "channel.open-ok"),
]
TALK: list[tuple[Side, str]] = [
    *OPENING,
    ("client", "confirm.select"),
    ("server", "confirm.select-ok"),
    ("client", "queue.declare"),
    ("server", "queue.declare-ok"),
    ("client", "basic.publish"),
    ("client", "header"),
    ("client", "body"),
    ("server", "basic.ack"),
    ("client", "basic.get"),
    ("server", "basic.get-ok"),
    ("server", "header"),
    ("server", "body"),
    ("client", "channel.close"),
    ("server", "channel.close-ok"),
    ("client", "connection.close"),
    ("server", "connection.close-ok"),
]

"""A broker and stream clients of it, for the tests of stream sessions."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from leveret.catalog import commands as changes
from leveret.catalog.records import Permission, User
from leveret.testing import Broker
from leveret.wire import stream_commands as commands
from leveret.wire.stream_commands import OffsetSpec
from tests.conformance.raw_stream_client import RawStreamClient

FIRST = OffsetSpec(1)


@contextmanager
def connected(broker: Broker, **login: Any) -> Iterator[RawStreamClient]:
    with RawStreamClient(broker.host, broker.stream_port) as client:
        yield client.log_in(**login)


def eventually(condition: Callable[[], bool], seconds: float = 60.0) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "it never happened"
        time.sleep(0.01)


def put_user(broker: Broker, name: str, configure: str = ".*", write: str = ".*", read: str = ".*") -> None:
    password_hash = broker.call(lambda node: node.broker.logins.hash(b"secret"))
    broker.call(lambda node: node.broker.apply(changes.PutUser(User(name, password_hash, ()))))
    permit(broker, name, configure, write, read)


def permit(broker: Broker, name: str, configure: str = ".*", write: str = ".*", read: str = ".*") -> None:
    permission = Permission(name, "/", configure, write, read)
    broker.call(lambda node: node.broker.apply(changes.PutPermission(permission)))


def connection_count(broker: Broker) -> int:
    count: int = broker.call(lambda node: len(node.broker.connections))
    return count


def publish(client: RawStreamClient, publisher: int, *bodies: bytes, first: int = 0) -> None:
    """Publishes these messages and waits until they are confirmed."""
    for start in range(0, len(bodies), 10):
        client.publish(publisher, *enumerate(bodies[start : start + 10], first + start))
    left = set(range(first, first + len(bodies)))
    while left:
        confirm = client.receive(commands.PublishConfirm)
        assert confirm.publisher_id == publisher
        left -= set(confirm.publishing_ids)


def filled(client: RawStreamClient, stream: str, *bodies: bytes) -> None:
    """Makes a stream with these messages."""
    client.do(commands.Create, stream, {})
    client.do(commands.DeclarePublisher, 99, "", stream)
    if bodies:
        publish(client, 99, *bodies)
    client.do(commands.DeletePublisher, 99)

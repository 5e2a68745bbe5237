"""Limits on a live broker, for every protocol: fifty who come at once get exactly the places there are."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.conformance.own_broker import running
from tests.conformance.raw_client import RawClient

CROWD = 50
PLACES = 7


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[Any]:
    with running(tmp_path) as made:
        yield made


def set_limits(broker: Any, vhost: dict[str, int] | None = None, user: dict[str, int] | None = None) -> None:
    from leveret.catalog import commands
    from leveret.catalog.records import Vhost

    def change(node: Any) -> None:
        import msgspec

        node.broker.apply(commands.PutVhost(Vhost("/", limits=vhost or {})))
        guest = node.broker.catalog.users["guest"]
        node.broker.apply(commands.PutUser(msgspec.structs.replace(guest, limits=user or {})))

    broker.call(change)


def at_once(act: Callable[[int], bool]) -> int:
    """How many of a crowd succeed."""
    barrier, succeeded = threading.Barrier(CROWD), []

    def run(number: int) -> None:
        barrier.wait(20)
        if act(number):
            succeeded.append(number)

    threads = [threading.Thread(target=run, args=(number,)) for number in range(CROWD)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    return len(succeeded)


def amqp_opener(broker: Any, kept: list[Any]) -> Callable[[int], bool]:
    def act(number: int) -> bool:
        client = RawClient(broker.host, broker.port)
        kept.append(client)
        client.start()
        client.start_ok()
        client.tune_ok(client.expect(0, "connection.tune"))
        client.send(0, "connection.open", virtual_host="/")
        answer = client.read()
        assert answer.name == "connection.open-ok" or answer["reply_code"] == 530, answer
        return answer.name == "connection.open-ok"

    return act


def stream_opener(broker: Any, kept: list[Any]) -> Callable[[int], bool]:
    from leveret.wire import stream_commands as commands
    from leveret.wire.stream_codes import Code
    from tests.conformance.raw_stream_client import RawStreamClient

    def act(number: int) -> bool:
        client = RawStreamClient(broker.host, broker.stream_port)
        kept.append(client)
        assert client.authenticate() == Code.OK
        client.receive(commands.Tune)
        client.send(commands.Tune(0, 0))
        code = client.code(commands.Open, "/")
        assert code in (Code.OK, Code.VIRTUAL_HOST_ACCESS_FAILURE)
        return code == Code.OK

    return act


@pytest.mark.parametrize("opener", [amqp_opener, stream_opener])
@pytest.mark.parametrize("whose", ["vhost", "user"])
def test_a_crowd_gets_exactly_the_places_there_are(broker: Any, opener: Any, whose: str) -> None:
    set_limits(broker, **{whose: {"max-connections": PLACES}})
    kept: list[Any] = []
    try:
        assert at_once(opener(broker, kept)) == PLACES
        assert broker.call(lambda node: len(node.broker.connections)) == PLACES
    finally:
        for client in kept:
            client.socket.close()


def test_both_protocols_count_together(broker: Any) -> None:
    set_limits(broker, vhost={"max-connections": 1})
    kept: list[Any] = []
    try:
        assert stream_opener(broker, kept)(0)
        assert not amqp_opener(broker, kept)(0)
        kept[0].socket.close()
        while broker.call(lambda node: len(node.broker.connections)):
            pass
        assert amqp_opener(broker, kept)(0)
    finally:
        for client in kept:
            client.socket.close()


def test_a_node_takes_as_many_as_its_settings_say(tmp_path: Path) -> None:
    with running(tmp_path, limits__connections_max=PLACES) as broker:
        kept: list[Any] = []
        assert at_once(amqp_opener(broker, kept)) == PLACES
        for client in kept:
            client.socket.close()


def test_fifty_channels_at_once_of_one_user_over_many_connections(broker: Any) -> None:
    set_limits(broker, user={"max-channels": PLACES})
    clients = [RawClient(broker.host, broker.port).log_in() for _ in range(CROWD)]

    def act(number: int) -> bool:
        clients[number].send(1, "channel.open")
        answer = clients[number].read()
        assert answer.name == "channel.open-ok" or answer["reply_code"] == 530, answer
        return answer.name == "channel.open-ok"

    assert at_once(act) == PLACES
    for client in clients:
        client.socket.close()


def test_a_channel_that_is_closed_makes_room(broker: Any) -> None:
    set_limits(broker, user={"max-channels": 1})
    with RawClient(broker.host, broker.port) as client:
        client.log_in().open_channel(1)
        client.call(1, "channel.close")
        client.open_channel(2)
        client.send(2, "basic.get", queue="missing")
        assert client.refusal().code == 404
        client.open_channel(3)
    set_limits(broker, user={"max-channels": 1})


def test_fifty_declares_at_once_make_as_many_queues_as_there_may_be(broker: Any) -> None:
    set_limits(broker, vhost={"max-queues": PLACES})
    clients = [RawClient(broker.host, broker.port).log_in() for _ in range(CROWD)]
    for client in clients:
        client.open_channel(1)

    def act(number: int) -> bool:
        clients[number].send(1, "queue.declare", queue=f"q{number}", exclusive=bool(number % 2))
        answer = clients[number].read()
        assert answer.name == "queue.declare-ok" or answer["reply_code"] == 406, answer
        return answer.name == "queue.declare-ok"

    assert at_once(act) == PLACES
    for client in clients:
        client.socket.close()


def test_streams_and_super_streams_count_as_queues(broker: Any) -> None:
    from leveret.wire import stream_commands as commands
    from leveret.wire.stream_codes import Code
    from tests.conformance.raw_stream_client import RawStreamClient

    set_limits(broker, vhost={"max-queues": 3})
    with RawStreamClient(broker.host, broker.stream_port) as client:
        client.log_in()
        client.do(commands.Create, "one", {})
        wide = ("wide", ["a", "b", "c"], ["0", "1", "2"], {})
        assert client.code(commands.CreateSuperStream, *wide) == Code.PRECONDITION_FAILED
        client.do(commands.CreateSuperStream, "narrow", ["a", "b"], ["0", "1"], {})
        assert client.code(commands.Create, "two", {}) == Code.PRECONDITION_FAILED


def test_lowering_a_limit_closes_nothing(broker: Any) -> None:
    with RawClient(broker.host, broker.port) as client:
        client.log_in().open_channel(1)
        client.call(1, "queue.declare", queue="q")
        set_limits(broker, vhost={"max-connections": 0, "max-queues": 0}, user={"max-channels": 0})
        client.call(1, "queue.declare", queue="q")
        client.call(1, "queue.delete", queue="q")


def test_the_default_type_of_a_virtual_host_is_that_of_queues_that_ask_for_none(broker: Any) -> None:
    from leveret.catalog import commands
    from leveret.catalog.records import Vhost

    broker.call(lambda node: node.broker.apply(commands.PutVhost(Vhost("/", default_queue_type="stream"))))
    kind = lambda name: broker.call(lambda node: node.broker.vhosts["/"].queues[name.encode()].record.kind)  # noqa: E731
    with RawClient(broker.host, broker.port) as client:
        client.log_in().open_channel(1)
        for _ in range(2):
            client.call(1, "queue.declare", queue="plain", durable=True)
        assert kind("plain") == "stream"
        for name, fields in (("a", {}), ("b", {"exclusive": True, "durable": True}), ("c", {"auto_delete": True})):
            client.call(1, "queue.declare", queue=name, **fields)
            assert kind(name) == "classic"
        classic = {"queue": "asked", "durable": True, "arguments": {"x-queue-type": "classic"}}
        client.call(1, "queue.declare", classic)
        assert kind("asked") == "classic"
        client.send(1, "queue.declare", queue="asked", durable=True)
        assert client.refusal().text == (
            "PRECONDITION_FAILED - inequivalent arg 'x-queue-type' for queue 'asked' in vhost '/': received 'stream' "
            "but current is 'classic'"
        )

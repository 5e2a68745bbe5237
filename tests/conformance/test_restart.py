"""What survives a restart of the broker: durable things, persistent messages that were confirmed, and nothing else."""

from importlib.util import find_spec

import pytest

from tests.conformance.raw_client import RawClient
from tests.conformance.target import ORACLE_IS_TARGET, RestartableTarget
from tests.conformance.topology import drain, refusal_of, unique_name

STORAGE_IS_THERE = ORACLE_IS_TARGET or find_spec("leveret.storage") is not None

pytestmark = [
    pytest.mark.slow,
    pytest.mark.timeout(240),
    pytest.mark.skipif(not STORAGE_IS_THERE, reason="Leveret has no storage yet: nothing survives a restart"),
]

PERSISTENT = {"delivery_mode": 2}


def connected(server: RestartableTarget) -> RawClient:
    client = RawClient("127.0.0.1", server.port).log_in()
    client.open_channel(1)
    return client


def publish_confirmed(client: RawClient, exchange: str, key: str, bodies: list[bytes]) -> None:
    client.call(1, "confirm.select")
    for body in bodies:
        client.publish(1, exchange, key, body, PERSISTENT)
    confirmed = 0
    while confirmed < len(bodies):
        ack = client.expect(1, "basic.ack")
        confirmed = ack["delivery_tag"] if ack["multiple"] else confirmed + 1


def is_there(server: RestartableTarget, name: str, **fields: str) -> bool:
    with connected(server) as client:
        client.send(1, name, {**fields, "passive": True})
        return client.read().name == f"{name}-ok"


def durable_queue(server: RestartableTarget) -> str:
    """A durable queue that a kill cannot take. RabbitMQ writes what was declared a little later than it says."""
    name = unique_name("queue")
    with connected(server) as client:
        client.call(1, "queue.declare", queue=name, durable=True)
        client.log_out()
    if ORACLE_IS_TARGET:
        server.stop()
        server.start()
    return name


def test_durable_things_survive_and_others_do_not(server_process: RestartableTarget) -> None:
    durable, transient = unique_name("durable"), unique_name("transient")
    with connected(server_process) as client:
        for name, is_durable in ((durable, True), (transient, False)):
            client.call(1, "queue.declare", queue=name, durable=is_durable)
            client.call(1, "exchange.declare", exchange=name, type="topic", durable=is_durable)
        client.call(1, "queue.bind", queue=durable, exchange=durable, routing_key="kept.#")
        client.call(1, "queue.bind", queue=durable, exchange=transient, routing_key="#")
        client.call(1, "queue.bind", queue=transient, exchange=durable, routing_key="#")
        client.publish(1, "", durable, b"transient")
        publish_confirmed(client, durable, "kept.key", [b"1", b"2", b"3"])
        publish_confirmed(client, "", transient, [])
        client.log_out()
    server_process.stop()
    server_process.start()
    assert is_there(server_process, "queue.declare", queue=durable)
    assert is_there(server_process, "exchange.declare", exchange=durable)
    assert not is_there(server_process, "queue.declare", queue=transient)
    assert not is_there(server_process, "exchange.declare", exchange=transient)
    with connected(server_process) as client:
        # The queue as it was declared, with its persistent messages and its durable binding alone.
        client.call(1, "queue.declare", queue=durable, durable=True)
        assert drain(client, durable) == [b"1", b"2", b"3"]
        client.publish(1, durable, "kept.again", b"bound")
        client.publish(1, durable, "other", b"not bound", mandatory=True)
        assert client.expect(1, "basic.return").body == b"not bound"
        assert drain(client, durable) == [b"bound"]


def test_confirmed_messages_survive_a_kill(server_process: RestartableTarget) -> None:
    queue = durable_queue(server_process)
    bodies = [b"%d" % number for number in range(200)]
    with connected(server_process) as client:
        publish_confirmed(client, "", queue, bodies)
        # Delivered but not acknowledged is not gone.
        client.call(1, "basic.get", queue=queue)
        server_process.kill()
    server_process.start()
    with connected(server_process) as client:
        first = client.call(1, "basic.get", queue=queue, no_ack=True)
        assert first.body == b"0"
        assert drain(client, queue) == bodies[1:]


def test_a_committed_transaction_survives_a_kill(server_process: RestartableTarget) -> None:
    queue = durable_queue(server_process)
    with connected(server_process) as client:
        client.call(1, "tx.select")
        for number in range(20):
            client.publish(1, "", queue, b"%d" % number, PERSISTENT)
        client.call(1, "tx.commit")
        client.publish(1, "", queue, b"never committed", PERSISTENT)
        server_process.kill()
    server_process.start()
    with connected(server_process) as client:
        assert drain(client, queue) == [b"%d" % number for number in range(20)]
        assert refusal_of(client, "queue.declare", queue=unique_name("gone"), passive=True).code == 404

"""x-delivery-limit over crashes: how often a message was handed out survives kills, cut connections and compaction.

25 deaths if `LEVERET_CRASH_CYCLES` asks for the full form, a few without."""

import os
import time
from typing import Final

import pytest

from tests.crash.broker_process import BrokerProcess
from tests.crash.client import Address, CrashClient, Delivery, connected
from tests.crash.fault_scenarios import await_confirms
from tests.crash.rounds import SMALL_SEGMENTS

CYCLES: Final = 25 if "LEVERET_CRASH_CYCLES" in os.environ else 7
LIMIT: Final = 5
# Without priorities deliveries are noted by how far they came, with priorities one by one.
_QUEUES: Final = ("limited", "limited.levels")
_DEAD, _FILLER = "limited.dead", "filler"
# So that what was noted of deliveries goes to disk, which takes milliseconds.
_NOTED_S: Final = 0.1

pytestmark = [pytest.mark.slow, pytest.mark.timeout(240)]


def declare(client: CrashClient) -> None:
    for queue in (_DEAD, _FILLER):
        client.call(1, "queue.declare", queue=queue, durable=True)
    arguments = {"x-delivery-limit": LIMIT, "x-dead-letter-exchange": "", "x-dead-letter-routing-key": _DEAD}
    for queue, own in zip(_QUEUES, ({}, {"x-max-priority": 3}), strict=True):
        client.call(1, "queue.declare", queue=queue, durable=True, arguments=arguments | own)


def fill_segments(client: CrashClient, body: bytes) -> None:
    """Publishes to both queues and, around it, so much else that segments roll; the filler is consumed, so they get
    sparse and what is left in them is copied on."""
    client.call(1, "confirm.select")
    filler = [b"x" * 4000] * 40
    client.publish_burst(Address("", _FILLER), filler)
    for queue in _QUEUES:
        client.publish_burst(Address("", queue), [f"{queue} ".encode() + body])
    client.publish_burst(Address("", _FILLER), filler)
    await_confirms(client, 2 * len(filler) + len(_QUEUES))
    purged = client.call(1, "queue.purge", queue=_FILLER)
    assert purged["message_count"] == 2 * len(filler)


def take_all(client: CrashClient, expected: int) -> list[bytes]:
    """Consumes and settles nothing."""
    if not expected:
        return []
    for queue in _QUEUES:
        client.send(1, "basic.consume", queue=queue, consumer_tag=queue)
    bodies: list[bytes] = []
    deadline = time.monotonic() + 20.0
    while len(bodies) < expected:
        assert time.monotonic() < deadline, f"{len(bodies)} of {expected} messages came"
        bodies += [item.body for item in client.incoming(0.1) if isinstance(item, Delivery)]
    time.sleep(_NOTED_S)
    return bodies


def buried(client: CrashClient) -> dict[bytes, str]:
    """Body -> why it is dead, once each."""
    found: dict[bytes, str] = {}
    while (got := client.call(1, "basic.get", queue=_DEAD, no_ack=True)).name == "basic.get-ok":
        assert got.body not in found
        found[got.body] = got.properties["headers"]["x-death"][0]["reason"]
    return found


def await_count(client: CrashClient, queue: str, expected: int) -> None:
    deadline = time.monotonic() + 10.0
    while (count := client.call(1, "queue.declare", queue=queue, passive=True)["message_count"]) != expected:
        assert time.monotonic() < deadline, f"{queue} has {count} messages, not {expected}"
        time.sleep(0.02)


def test_the_count_of_deliveries_survives(broker: BrokerProcess) -> None:
    """One message more in each cycle. The ends alternate between killed brokers and cut connections, with a stop in
    good order now and then. After its sixth delivery a message is dead, not earlier."""
    broker.configure(SMALL_SEGMENTS)
    broker.start()
    with connected(broker.port) as client:
        declare(client)
    delivered: dict[bytes, int] = {}
    for cycle in range(CYCLES):
        with connected(broker.port) as client:
            fresh = b"message-%d" % cycle
            delivered |= {f"{queue} ".encode() + fresh: 0 for queue in _QUEUES}
            fill_segments(client, fresh)
            alive = [body for body, times in delivered.items() if times <= LIMIT]
            dead = len(delivered) - len(alive)
            await_count(client, _DEAD, dead)
            for body in take_all(client, len(alive)):
                delivered[body] += 1
            if cycle % 2:
                broker.kill()
            elif cycle % 4 == 0:
                broker.stop()
        if not broker.is_alive:
            broker.start()
    with connected(broker.port) as client:
        expected = {body: "delivery_limit" for body, times in delivered.items() if times > LIMIT}
        await_count(client, _DEAD, len(expected))
        assert buried(client) == expected
        assert all(times <= LIMIT + 1 for times in delivered.values()), delivered
        for queue in _QUEUES:
            await_count(client, queue, (len(delivered) - len(expected)) // len(_QUEUES))

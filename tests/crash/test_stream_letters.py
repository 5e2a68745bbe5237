"""Messages that go from a queue into a stream while the broker dies: none is lost on the way, and none is there twice.

The stream is written before the log of queues: what it has of a batch that the log lacks does not count."""

import random
import time
from typing import Final

import pytest

from tests.conformance.amqp_codec import Value
from tests.crash.broker_process import BrokerProcess
from tests.crash.client import Address, connected
from tests.crash.faults import wait_for
from tests.crash.load import Crew, abandon_quietly
from tests.crash.messages import MessageId
from tests.crash.power import lose_power
from tests.crash.publisher import Publisher
from tests.crash.rounds import Crash, seed_of
from tests.crash.stream_checkers import StreamHistory, holes
from tests.crash.stream_load import query, read_state
from tests.crash.volume import Volume

QUEUE: Final = "letters.queue"
STREAM: Final = "letters.stream"
_CYCLES: Final = 3

pytestmark = [pytest.mark.slow, pytest.mark.timeout(240)]


def declare_letters(port: int) -> None:
    """What is in the queue for a moment goes into the stream."""
    expiring: dict[str, Value] = {
        "x-message-ttl": 20,
        "x-dead-letter-exchange": "",
        "x-dead-letter-routing-key": STREAM,
    }
    with connected(port) as client:
        client.call(1, "queue.declare", queue=STREAM, durable=True, arguments={"x-queue-type": "stream"})
        client.call(1, "queue.declare", queue=QUEUE, durable=True, arguments=expiring)
        client.leave()


def is_empty(port: int) -> bool:
    with connected(port) as client:
        return client.call(1, "queue.declare", queue=QUEUE, passive=True)["message_count"] == 0


def is_quiet(port: int) -> bool:
    """Whether nothing is on its way any more: letters leave the queue before they are in the stream."""
    with connected(port) as client:
        _, before = query(client, STREAM)
        time.sleep(0.5)
        _, after = query(client, STREAM)
    return before == after and is_empty(port)


def letters_survive(broker: BrokerProcess, crash: Crash) -> None:
    seed = seed_of(0)
    dice, history = random.Random(seed), StreamHistory()
    broker.start()
    declare_letters(broker.port)
    load = Crew(broker.port, history, [Publisher(0, Address("", QUEUE), (QUEUE,), 3000.0, history, seed)], [])
    try:
        load.start()
        for _ in range(_CYCLES):
            load.wait_until_under_way()
            time.sleep(dice.uniform(0.1, 0.6))
            crash(broker)
            history.life += 1
            broker.start()
        load.wait_until_under_way()
        load.stop()
    finally:
        abandon_quietly(load)
    wait_for("the queue to be empty", lambda: is_quiet(broker.port), 30.0)
    state = read_state(broker.port, history, STREAM)
    there = list(state.messages.values())
    lost = [number for number in history.published[0].confirmed if MessageId(0, number) not in set(there)]
    assert not lost, f"{len(lost)} of {history.confirmed_count} are lost, LEVERET_CRASH_SEED={seed}: {sorted(lost)[:8]}"
    assert not holes(history)
    assert {message.publisher for message in there} == {0}
    assert max(message.sequence for message in there) < history.published[0].attempted
    twice = len(there) - len(set(there))
    assert not twice, f"{twice} of {len(there)} are there twice, LEVERET_CRASH_SEED={seed}"


def test_no_letter_is_lost_by_kills(broker: BrokerProcess) -> None:
    letters_survive(broker, BrokerProcess.kill)


def test_no_letter_is_lost_with_the_power(broker_on_volume: BrokerProcess, volume: Volume) -> None:
    letters_survive(broker_on_volume, lambda it: lose_power(it, volume))

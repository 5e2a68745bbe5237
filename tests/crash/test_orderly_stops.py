"""SIGTERM again and again while messages expire, overflow, become due and are dead-lettered into streams and queues: an
orderly stop is exact.

Whatever was confirmed is there afterwards, once and in one place, nothing is marked as seen that nobody saw, and
`leveret storage check` finds no damage after any stop. `LEVERET_CRASH_STOPS` says how often; stops are spread over
rounds with a data directory each."""

import os
import random
import subprocess
import sys
import time
from collections import Counter
from typing import Final

import pytest

from tests.conformance.amqp_codec import Value, encode_properties
from tests.crash.broker_process import BrokerProcess
from tests.crash.client import Address, connected
from tests.crash.consumer import Consumer, Manners
from tests.crash.faults import wait_for
from tests.crash.history import History, Kind
from tests.crash.load import Crew, abandon_quietly, drain
from tests.crash.messages import MessageId
from tests.crash.publisher import Publisher
from tests.crash.rounds import rounds_of, seed_of, settings_of
from tests.crash.stream_checkers import StreamHistory, holes
from tests.crash.stream_load import query, read_state

STOPS: Final = int(os.environ.get("LEVERET_CRASH_STOPS", "6"))
RATE: Final = 350.0
_QUIET_S_MAX: Final = 60.0
_CHECK_S_MAX: Final = 240.0

# Where each publisher's messages end, by its number; those of the first four come there by themselves.
ENDS: Final = (
    "stops.expired.stream",
    "stops.expired",
    "stops.due.stream",
    "stops.overflown.stream",
    "stops.both.stream",
)
BOTH_QUEUE: Final = "stops.both"
WORKED: Final = "stops.worked"
FANOUT: Final = "stops.fanout"
_SOURCES: Final[dict[str, dict[str, Value]]] = {
    "stops.expiring.0": {"x-message-ttl": 15},
    "stops.expiring.1": {"x-message-ttl": 30},
    "stops.delaying": {"x-message-ttl": 5},
    "stops.overflowing": {"x-max-length": 20, "x-message-ttl": 2000},
}
_ADDRESSES: Final = (*(Address("", source) for source in _SOURCES), Address(FANOUT, ""), Address("", WORKED))
DELAYED: Final = 2

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1800 if "LEVERET_CRASH_STOPS" in os.environ else 400)]


def declare_all(port: int) -> None:
    with connected(port) as client:
        for end in ENDS:
            arguments: dict[str, Value] = {"x-queue-type": "stream"} if end.endswith("stream") else {}
            client.call(1, "queue.declare", queue=end, durable=True, arguments=arguments)
        for end, (source, rules) in zip(ENDS, _SOURCES.items(), strict=False):
            arguments = {**rules, "x-dead-letter-exchange": "", "x-dead-letter-routing-key": end}
            client.call(1, "queue.declare", queue=source, durable=True, arguments=arguments)
        client.call(1, "exchange.declare", exchange=FANOUT, type="fanout", durable=True)
        for queue in (BOTH_QUEUE, WORKED):
            client.call(1, "queue.declare", queue=queue, durable=True)
        for queue in (BOTH_QUEUE, ENDS[4]):
            client.call(1, "queue.bind", queue=queue, exchange=FANOUT)
        client.leave()


class DelayingPublisher(Publisher):
    """Its messages are due in a moment, expire then, and go into a stream."""

    def _properties(self, message: MessageId) -> bytes | None:
        delay_ms = self.dice.randint(20, 600)
        return encode_properties({"delivery_mode": 2, "headers": {"x-delay": delay_ms}})


def make_load(port: int, history: History, seed: int) -> Crew:
    publishers = [
        (DelayingPublisher if number == DELAYED else Publisher)(number, address, (), RATE, history, seed)
        for number, address in enumerate(_ADDRESSES)
    ]
    # Acks and deliveries under way at every stop.
    consumers = [Consumer("worker", WORKED, Manners.ACK_SINGLE, history, seed)]
    return Crew(port, history, publishers, consumers)


def is_quiet(port: int) -> bool:
    """Whether nothing waits any more to expire or to become due."""
    with connected(port) as client:
        before = [query(client, end) for end in ENDS if end.endswith("stream")]
        time.sleep(0.8)
        after = [query(client, end) for end in ENDS if end.endswith("stream")]
        counts = [client.call(1, "queue.declare", queue=queue, passive=True)["message_count"] for queue in _SOURCES]
    return before == after and not any(counts)


def expect_clean(broker: BrokerProcess) -> None:
    command = [sys.executable, "-m", "leveret", "storage", "check", "--data-dir", str(broker.data_directory)]
    checked = subprocess.run(command, capture_output=True, text=True, timeout=_CHECK_S_MAX, check=False)
    assert checked.returncode == 0 and "all good" in checked.stdout, f"{checked.stdout}\n{broker.log_tail()}"


def expect_exactly(history: History, number: int, there: list[MessageId], where: str) -> None:
    published = history.published[number]
    counts = Counter(message.sequence for message in there)
    assert {message.publisher for message in there} <= {number}, f"{where} has what belongs elsewhere"
    lost = sorted(published.confirmed - counts.keys())
    assert not lost, f"{len(lost)} of {len(published.confirmed)} confirmed messages are not in {where}: {lost[:8]}"
    twice = sorted(sequence for sequence, count in counts.items() if count > 1)
    assert not twice, f"{len(twice)} messages are in {where} more than once: {twice[:8]}"
    assert all(sequence < published.attempted for sequence in counts)


def judge(port: int, history: StreamHistory) -> None:
    for number, end in enumerate(ENDS):
        if end.endswith("stream"):
            expect_exactly(history, number, list(read_state(port, history, end).messages.values()), end)
    assert not holes(history)
    for number, queue in ((1, ENDS[1]), (4, BOTH_QUEUE)):
        drain(port, history, (queue,))
        found = [event for event in history.events if event.queue == queue and event.kind is Kind.DELIVERED]
        expect_exactly(history, number, [event.message for event in found], queue)
        assert not any(event.redelivered for event in found), f"{queue} was in no consumer's hands"


@pytest.mark.parametrize(("number", "stops"), rounds_of(STOPS))
def test_orderly_stops_are_exact(broker: BrokerProcess, number: int, stops: int) -> None:
    seed = seed_of(number)
    dice, history = random.Random(seed), StreamHistory()
    broker.configure(settings_of(number))
    broker.start()
    declare_all(broker.port)
    load = make_load(broker.port, history, seed)
    try:
        load.start()
        for _ in range(stops):
            load.wait_until_under_way()
            time.sleep(dice.uniform(0.05, 0.7))
            broker.stop()
            history.life += 1
            expect_clean(broker)
            broker.start()
        load.wait_until_under_way()
        load.stop()
        wait_for("letters and delays to come to an end", lambda: is_quiet(broker.port), _QUIET_S_MAX)
        judge(broker.port, history)
    except AssertionError as error:
        error.add_note(f"LEVERET_CRASH_SEED={seed}")
        raise
    finally:
        abandon_quietly(load)
    assert all("320" in refusal for refusal in history.refusals), history.refusals[:5]
    assert "damage" not in broker.log.read_text()
    assert history.confirmed_count > 100 * stops

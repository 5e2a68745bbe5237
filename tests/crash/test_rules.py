"""Crashes under load on queues with rules: `kill -9` and power loss while messages are rejected, expire, overflow, wait
for their time, are tried again, overtake each other and are sent twice.

`LEVERET_CRASH_CYCLES` and `LEVERET_CRASH_POWER_CYCLES` say how often, as in the rounds on plain queues."""

import os
from typing import Final

import pytest

from tests.conformance.amqp_codec import encode_properties
from tests.crash.broker_process import BrokerProcess
from tests.crash.client import Confirm, Delivery, connected
from tests.crash.faults import FaultyDisk
from tests.crash.power import lose_power
from tests.crash.rounds import SMALL_SEGMENTS, rounds_of, seed_of
from tests.crash.rules_load import ADDRESSES, QUEUES, Purpose, declare_rules
from tests.crash.rules_round import RulesRound, repeat_all
from tests.crash.volume import Volume

KILL_CYCLES: Final = int(os.environ.get("LEVERET_CRASH_CYCLES", "6")) // 2
POWER_CYCLES: Final = int(os.environ.get("LEVERET_CRASH_POWER_CYCLES", "2")) // 2

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]


@pytest.mark.parametrize(("number", "cycles"), rounds_of(KILL_CYCLES) if KILL_CYCLES > 10 else [(0, KILL_CYCLES)])
def test_rules_hold_over_kills(broker: BrokerProcess, number: int, cycles: int) -> None:
    """Segments are always small: they roll, are compacted and deleted, and what they know must outlive them."""
    broker.configure(SMALL_SEGMENTS)
    crash_round = RulesRound(broker, BrokerProcess.kill, seed_of(number))
    crash_round.run(cycles)
    broker.stop()
    broker.start()
    for purpose in (Purpose.ONCE_IN_QUEUE, Purpose.ONCE_BY_EXCHANGE, Purpose.ONCE_CONSUMED):
        assert repeat_all(broker.port, crash_round.told, purpose) == 0, "a clean restart forgot what it had seen"


@pytest.mark.parametrize(("number", "cycles"), rounds_of(POWER_CYCLES) if POWER_CYCLES > 10 else [(0, POWER_CYCLES)])
def test_rules_hold_over_power_losses(
    broker_on_volume: BrokerProcess, volume: Volume, number: int, cycles: int
) -> None:
    broker_on_volume.configure(SMALL_SEGMENTS)
    RulesRound(broker_on_volume, lambda it: lose_power(it, volume), seed_of(number), power_loss=True).run(cycles)


@pytest.mark.parametrize("purpose", [Purpose.DELAYED, Purpose.LATER])
def test_a_delayed_message_that_was_delivered_says_so(
    broker_on_faulty_disk: BrokerProcess, disk: FaultyDisk, purpose: Purpose
) -> None:
    """The disk loses that it was sent on its way, so after the kill it still waits; but somebody may have got it."""
    broker, queue = broker_on_faulty_disk, QUEUES[purpose][0]
    broker.start()
    declare_rules(broker.port)
    with connected(broker.port) as client:
        client.call(1, "confirm.select")
        delayed = encode_properties({"delivery_mode": 2, "headers": {"x-delay": 400}})
        client.publish_burst(ADDRESSES[purpose], [b"message"], [delayed])
        assert client.incoming(20.0) == [Confirm(1, False, positive=True)]
        disk["write_lies"] = 1
        client.send(1, "basic.consume", queue=queue)
        while not (came := [item for item in client.incoming(20.0) if isinstance(item, Delivery)]):
            pass
        assert not came[0].redelivered
        broker.kill()
    disk.mend()
    broker.start()
    with connected(broker.port) as client:
        client.send(1, "basic.consume", queue=queue)
        while not (came := [item for item in client.incoming(20.0) if isinstance(item, Delivery)]):
            pass
        assert came[0].redelivered

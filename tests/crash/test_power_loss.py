"""Power loss under load: what was confirmed is on the disk, and whatever is on the disk boots.

`LEVERET_CRASH_POWER_CYCLES` says how often. Needs root; skipped where the kernel or the rights forbid it."""

import os
import random
import time
from typing import Final

import pytest

from tests.crash.broker_process import BrokerProcess
from tests.crash.client import Address, Confirm, connected
from tests.crash.power import lose_power
from tests.crash.rounds import CrashRound, rounds_of, seed_of, settings_of
from tests.crash.volume import Volume

CYCLES: Final = int(os.environ.get("LEVERET_CRASH_POWER_CYCLES", "8"))

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]


@pytest.mark.parametrize(("number", "cycles"), rounds_of(CYCLES))
def test_nothing_confirmed_is_lost_with_the_power(
    broker_on_volume: BrokerProcess, volume: Volume, number: int, cycles: int
) -> None:
    broker_on_volume.configure(settings_of(number))
    crash_round = CrashRound(broker_on_volume, lambda it: lose_power(it, volume), seed_of(number), power_loss=True)
    crash_round.run(cycles)


def declare_and_confirm(port: int, queue: str) -> None:
    """A new queue and one message in it, confirmed."""
    with connected(port) as client:
        client.call(1, "queue.declare", queue=queue, durable=True)
        client.call(1, "confirm.select")
        client.publish_burst(Address("", queue), [b"first"])
        assert client.incoming(20.0) == [Confirm(1, False, positive=True)]


def test_a_fresh_queue_survives_without_settling(broker_on_volume: BrokerProcess, volume: Volume) -> None:
    """The very first thing that a new node did; other stores did not boot after this."""
    for cycle in range(3):
        broker_on_volume.start()
        declare_and_confirm(broker_on_volume.port, f"fresh-{cycle}")
        lose_power(broker_on_volume, volume)
    broker_on_volume.start()
    with connected(broker_on_volume.port) as client:
        for cycle in range(3):
            got = client.call(1, "basic.get", queue=f"fresh-{cycle}", no_ack=True)
            assert (got.name, got.body) == ("basic.get-ok", b"first")


def test_what_was_declared_survives(broker_on_volume: BrokerProcess, volume: Volume) -> None:
    """The answer to a declaration of something durable is a promise like a confirm."""
    broker_on_volume.start()
    with connected(broker_on_volume.port) as client:
        client.call(1, "exchange.declare", exchange="kept", type="topic", durable=True)
        client.call(1, "queue.declare", queue="kept", durable=True)
        client.call(1, "queue.bind", queue="kept", exchange="kept", routing_key="a.#")
        client.call(1, "queue.declare", queue="gone", durable=True)
        client.call(1, "queue.delete", queue="gone")
        lose_power(broker_on_volume, volume)
    broker_on_volume.start()
    with connected(broker_on_volume.port) as client:
        client.publish(1, "kept", "a.b", b"routed")
        assert client.call(1, "queue.declare", queue="kept", durable=True)["message_count"] == 1
        client.send(1, "queue.declare", queue="gone", passive=True)
        assert client.refusal().code == 404


def test_power_loss_in_the_first_moments(broker_on_volume: BrokerProcess, volume: Volume) -> None:
    """A node that never came to serve leaves a disk on which the next one starts."""
    dice = random.Random()
    broker_on_volume.start()
    lose_power(broker_on_volume, volume)
    for _ in range(4):
        broker_on_volume.spawn()
        time.sleep(dice.random() * 1.2 * broker_on_volume.boot_s)
        lose_power(broker_on_volume, volume)
    broker_on_volume.start()

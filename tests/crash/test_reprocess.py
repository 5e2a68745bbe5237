"""`kill -9` in the middle of reprocessing: a dead letter is in its grave or back in its queue, not in both or nowhere.

The copy and the end of the original are one batch of the log, so even duplicates are not excused."""

import os
import random
import time
from typing import Final

import pytest

from tests.conformance.raw_client import RawClient, ServerClosed
from tests.crash.broker_process import BrokerProcess
from tests.crash.rounds import seed_of, settings_of

CYCLES: Final = max(2, int(os.environ.get("LEVERET_CRASH_CYCLES", "12")) // 3)
MESSAGES: Final = 3000
PREFETCH: Final = 200
DRAIN_S_MAX: Final = 60.0
ORDERS, GRAVE = "orders", "grave"
SCHEDULE: Final = {"dead_letters": {"queues": [GRAVE], "every_s": 0.1}}

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]


def connected(broker: BrokerProcess) -> RawClient:
    client = RawClient("127.0.0.1", broker.port).log_in()
    client.open_channel(1)
    return client


def fill(broker: BrokerProcess, bodies: list[bytes]) -> None:
    """A queue whose dead letters go to a grave, and confirmed messages in it."""
    with connected(broker) as client:
        to_grave = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": GRAVE}
        client.call(1, "queue.declare", queue=GRAVE, durable=True)
        client.call(1, "queue.declare", queue=ORDERS, durable=True, arguments=to_grave)
        client.call(1, "confirm.select")
        for body in bodies:
            client.publish(1, "", ORDERS, body, {"delivery_mode": 2})
        confirmed = 0
        while confirmed < len(bodies):
            ack = client.expect(1, "basic.ack")
            confirmed = ack["delivery_tag"] if ack["multiple"] else confirmed + 1


def reject_for(broker: BrokerProcess, seconds: float) -> int:
    """Rejects whatever comes, dead letters that came back included; how many came back."""
    replayed = 0
    deadline = time.monotonic() + seconds
    with connected(broker) as client:
        client.call(1, "basic.qos", prefetch_count=PREFETCH)
        client.call(1, "basic.consume", queue=ORDERS)
        client.socket.settimeout(0.2)
        while time.monotonic() < deadline:
            try:
                letter = client.expect(1, "basic.deliver")
            except TimeoutError:
                continue
            replayed += "x-replay-count" in letter.properties.get("headers", {})
            client.send(1, "basic.reject", delivery_tag=letter["delivery_tag"], requeue=False)
        broker.kill()
    return replayed


def drain(broker: BrokerProcess) -> list[bytes]:
    """All there is in both queues; a job that was interrupted may still move some."""
    found: list[bytes] = []
    deadline = time.monotonic() + DRAIN_S_MAX
    with connected(broker) as client:
        empty = 0
        while empty < 20 and time.monotonic() < deadline:
            before = len(found)
            for queue in (GRAVE, ORDERS):
                while (method := client.call(1, "basic.get", queue=queue, no_ack=True)).name == "basic.get-ok":
                    found.append(method.body)
            empty = 0 if len(found) > before else empty + 1
            if empty:
                time.sleep(0.05)
    return found


@pytest.mark.parametrize("number", [0, 1])
def test_no_dead_letter_is_lost_or_doubled_by_kills(broker: BrokerProcess, number: int) -> None:
    seed = seed_of(number)
    dice = random.Random(seed)
    broker.configure({**settings_of(number), **SCHEDULE})
    broker.start()
    bodies = [b"%d" % count + bytes(dice.choice((0, 10, 1000))) for count in range(MESSAGES)]
    fill(broker, bodies)
    replayed = 0
    for _ in range(CYCLES):
        try:
            replayed += reject_for(broker, dice.uniform(0.3, 1.0))
        except (OSError, ServerClosed) as error:
            raise AssertionError(f"LEVERET_CRASH_SEED={seed}: {error!r}\n{broker.log_tail()}") from error
        broker.start()
    broker.kill()
    broker.configure(settings_of(number))
    broker.start()
    assert sorted(drain(broker)) == sorted(bodies), f"LEVERET_CRASH_SEED={seed}"
    assert replayed > 0, "nothing was replayed: this shows nothing"

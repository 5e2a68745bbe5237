"""`kill -9` while dead letters are archived: each is in its queue or in a complete file, and those in both have the id
by which they are told."""

import base64
import json
import random
import time
from pathlib import Path
from typing import Any, Final

import pytest

from tests.conformance.raw_client import RawClient
from tests.crash.broker_process import BrokerProcess
from tests.crash.rounds import seed_of, settings_of

CYCLES: Final = 4
MESSAGES: Final = 5000
GRAVE: Final = "grave"
END_S_MAX: Final = 60.0

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]


def connected(broker: BrokerProcess) -> RawClient:
    client = RawClient("127.0.0.1", broker.port).log_in()
    client.open_channel(1)
    return client


def fill(broker: BrokerProcess, bodies: list[bytes]) -> None:
    with connected(broker) as client:
        client.call(1, "queue.declare", queue=GRAVE, durable=True)
        client.call(1, "confirm.select")
        long_ago = int(time.time()) - 7200
        for body in bodies:
            client.publish(1, "", GRAVE, body, {"delivery_mode": 2, "headers": {"x-first-death-time": long_ago}})
        confirmed = 0
        while confirmed < len(bodies):
            ack = client.expect(1, "basic.ack")
            confirmed = ack["delivery_tag"] if ack["multiple"] else confirmed + 1


def depth(broker: BrokerProcess) -> int:
    with connected(broker) as client:
        declared = client.call(1, "queue.declare", queue=GRAVE, durable=True, passive=True)
        count: int = declared["message_count"]
        return count


def archived(root: Path) -> list[dict[str, Any]]:
    files = root.glob("date=*/dead-letters-*.jsonl")
    # Every line of a file with that name is whole.
    return [json.loads(line) for file in files for line in file.read_bytes().splitlines()]


@pytest.mark.parametrize("number", [0])
def test_no_archived_letter_is_lost_by_kills(broker: BrokerProcess, tmp_path: Path, number: int) -> None:
    seed = seed_of(number)
    dice = random.Random(seed)
    root = tmp_path / "archive"
    broker.configure(settings_of(number))
    broker.start()
    bodies = [b"%d " % count + bytes(dice.choice((0, 10, 1000))) for count in range(MESSAGES)]
    fill(broker, bodies)
    broker.kill()
    schedule = {"queues": [GRAVE], "every_s": 0.1, "archive_after_s": 3600.0, "archive_dir": str(root)}
    broker.configure({**settings_of(number), "dead_letters": schedule})
    for _ in range(CYCLES):
        broker.start()
        time.sleep(dice.uniform(0.05, 0.6))
        broker.kill()
    broker.start()
    deadline = time.monotonic() + END_S_MAX
    while len({line["id"] for line in archived(root)}) < MESSAGES and time.monotonic() < deadline:
        time.sleep(0.1)
    found = {line["id"]: base64.b64decode(line["body"]) for line in archived(root)}
    assert sorted(found.values()) == sorted(bodies), f"LEVERET_CRASH_SEED={seed}"
    while depth(broker) and time.monotonic() < deadline:
        time.sleep(0.1)
    assert depth(broker) == 0
    # What the kills left unfinished was removed when the next file was begun.
    assert [path for path in root.rglob(".*") if path.is_file()] == []

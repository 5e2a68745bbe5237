"""Shovels whose brokers are killed and whose connections are cut under load: nothing is lost, order is kept, and
duplicates are no more than what was under way.

Short here; `make links-adversity` repeats it with LEVERET_LINKS_ROUNDS."""

from __future__ import annotations

import asyncio
import os
import random
import time
from pathlib import Path

import pytest

from leveret.client import Message, connect
from leveret.testing import Broker
from tests.client.proxy import Proxy
from tests.links.broker_process import BrokerProcess
from tests.links.shovel_scene import Scene, drain, publish, until

ROUNDS = int(os.environ.get("LEVERET_LINKS_ROUNDS", "1"))
PREFETCH = 200
MESSAGES = 4000


def numbered(count: int, first: int = 0) -> list[bytes]:
    return [b"%d" % number for number in range(first, first + count)]


def check_moved(found: list[bytes], count: int, breaks: int | None) -> None:
    """Each at least once, in order but for stretches that were sent again, and no more duplicates than were under way
    when a connection broke; None if a source was killed, which may have forgotten more acknowledgements."""
    numbers = [int(body) for body in found]
    assert sorted(set(numbers)) == list(range(count))
    assert breaks is None or len(numbers) - count <= breaks * PREFETCH
    highest = -1
    for number in numbers:
        # Either the next one, or one that came before: never one too early.
        assert number <= highest + 1, f"{number} came after {highest}"
        highest = max(highest, number)


@pytest.mark.parametrize("end", ["source", "destination"])
def test_links_that_are_cut_under_load(end: str) -> None:
    dice = random.Random(7)
    with Broker() as here, Broker() as there:
        scene = Scene(here)
        target = there if end == "destination" else here
        with Proxy((target.host, target.port)) as proxy:
            source_uri = proxy.url if end == "source" else here.url
            target_uri = proxy.url if end == "destination" else there.url
            scene.queue("out")
            Scene(there).queue("in")
            scene.shovel(
                "cut",
                src_uri=source_uri,
                src_queue="out",
                dest_uri=target_uri,
                dest_queue="in",
                src_prefetch_count=PREFETCH,
            )
            scene.until_state("cut", "running")
            breaks = 3 * ROUNDS
            for round_number in range(breaks):
                publish(here.url, "out", numbered(MESSAGES, round_number * MESSAGES))
                time.sleep(dice.random() * 0.05)
                dice.choice([proxy.cut_all, proxy.reset_all])()
            total = breaks * MESSAGES
            until(lambda: Scene(there).count("in") >= total)
            # Duplicates count, too: the last ones may still be on their way.
            scene.until_settled("out")
            scene.delete("cut")
        check_moved(drain(there.url, "in"), total, breaks)


@pytest.mark.parametrize("killed", ["source", "destination"])
def test_a_broker_that_is_killed_under_load(killed: str, tmp_path: Path) -> None:
    """The shovel runs in a third broker."""
    with Broker() as runner, BrokerProcess(tmp_path / "s") as source, BrokerProcess(tmp_path / "d") as target:
        scene = Scene(runner)
        victim = source if killed == "source" else target
        source.api.put("/queues/%2F/out", {"durable": True})
        target.api.put("/queues/%2F/in", {"durable": True})
        scene.shovel(
            "k",
            src_uri=source.url,
            src_queue="out",
            dest_uri=target.url,
            dest_queue="in",
            src_prefetch_count=PREFETCH,
        )
        for round_number in range(ROUNDS):
            publish(source.url, "out", numbered(MESSAGES, round_number * MESSAGES))
            victim.kill()
            victim.start()
        total = ROUNDS * MESSAGES
        until(lambda: _messages(target, "in") >= total)
        # Duplicates count, too: the last ones may still be on their way.
        until(lambda: _messages(source, "out") == 0)
        scene.delete("k")
        check_moved(drain(target.url, "in"), total, None if killed == "source" else ROUNDS)


def _messages(broker: BrokerProcess, queue: str) -> int:
    """Those that are delivered and not acknowledged, too."""
    reply = broker.api.get(f"/queues/%2F/{queue}")
    return int(reply.body["messages"]) if reply.status == 200 else -1


def test_the_broker_that_runs_the_shovel_is_killed(tmp_path: Path) -> None:
    """Parameter, password and pause survive; the shovel goes on by itself."""
    with Broker() as there, BrokerProcess(tmp_path) as here:
        Scene(there).queue("in")
        here.api.put("/queues/%2F/out", {"durable": True})
        value = {"src-uri": "amqp://", "src-queue": "out", "dest-uri": there.url, "dest-queue": "in"}
        value |= {"src-prefetch-count": PREFETCH, "reconnect-delay": 1}
        assert here.api.put("/parameters/shovel/%2F/s", {"value": value}).status == 201
        publish(here.url, "out", numbered(MESSAGES))
        here.kill()
        octets = b"".join(file.read_bytes() for file in (tmp_path / "data" / "catalog").iterdir())
        assert b"sealed:1:" in octets
        assert b"guest:guest@" not in octets
        here.start()
        until(lambda: Scene(there).count("in") >= MESSAGES)
        until(lambda: _messages(here, "out") == 0)
        assert here.api.get("/parameters/shovel/%2F/s").body["value"]["dest-uri"] == there.url
        here.api.delete("/shovels/vhost/%2F/s")
    # The other broker's queue is gone with it; what arrived was counted before.


def test_exactly_once_where_the_destination_deduplicates() -> None:
    with Broker() as here, Broker() as there, Proxy((there.host, there.port)) as proxy:
        scene, target = Scene(here), Scene(there)
        scene.queue("out")
        target.queue("once", x_message_deduplication=True, x_cache_size=100_000)
        scene.shovel("once", src_queue="out", dest_uri=proxy.url, dest_queue="once", src_prefetch_count=PREFETCH)
        scene.until_state("once", "running")
        _publish_with_keys(here.url, "out", MESSAGES)
        for _ in range(3 * ROUNDS):
            proxy.cut_all()
            scene.until_state("once", "running")
        target.until_count("once", MESSAGES)
        scene.until_count("out", 0)
        scene.delete("once")
        assert drain(there.url, "once") == numbered(MESSAGES)


def _publish_with_keys(url: str, queue: str, count: int) -> None:
    async def run() -> None:
        async with connect(url) as connection, connection.producer(routing_key=queue) as producer:
            messages = [Message(body, headers={"x-deduplication-header": body.decode()}) for body in numbered(count)]
            await producer.publish_batch(messages)

    asyncio.run(run())

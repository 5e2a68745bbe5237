"""A shovel from one durable queue to another of the same broker, over loopback, with `on-confirm`.

    python -m benchmarks.links [--messages 200000] [--size 1024] [--prefetch 1000] [--rounds 3] [--only leveret]

Each round fills the source with persistent messages, then sets the shovel and takes the time until all are in the
destination. The median counts. `local` is Leveret's way inside the broker, without a port."""

from __future__ import annotations

import argparse
import asyncio
import base64
import http.client
import json
import statistics
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.broker.peers import Leveret, Peer, RabbitMQ, Running, free_port, running
from leveret.client import connect
from leveret.client.connection import Connection
from leveret.wire.queue_methods import QueueDeclare, QueueDelete

SOURCE, TARGET, SHOVEL = "bench.from", "bench.to", "bench"
BATCH = 1000
POLL_S = 0.005
DEADLINE_S = 600.0
PARAMETER = f"/api/parameters/shovel/%2F/{SHOVEL}"


@dataclass(frozen=True)
class Options:
    messages: int
    size: int
    prefetch: int
    rounds: int


class Contender:
    """A broker with its management API. `uri` is what both ends of the shovel are, None for the broker's own port."""

    def __init__(self, name: str, uri: str | None = None) -> None:
        self.name = name
        self.uri = uri
        self.port = free_port()
        self.peer = self._peer()

    def _peer(self) -> Peer:
        if self.name.startswith("leveret"):
            leveret = Leveret()
            leveret.management_port = self.port
            return leveret
        rabbitmq = RabbitMQ()
        rabbitmq.plugins = ("rabbitmq_management", "rabbitmq_shovel")
        rabbitmq.configuration = f"management.tcp.port = {self.port}\nmanagement.tcp.ip = 127.0.0.1\n"
        return rabbitmq

    def ask(self, method: str, path: str, body: Any = None) -> int:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=30)
        login = base64.b64encode(b"guest:guest").decode()
        headers = {"Authorization": f"Basic {login}", "Content-Type": "application/json"}
        try:
            connection.request(method, path, None if body is None else json.dumps(body), headers)
            answer = connection.getresponse()
            answer.read()
            return answer.status
        finally:
            connection.close()

    def wait_for_api(self) -> None:
        end = time.monotonic() + 60
        while True:
            try:
                if self.ask("GET", "/api/overview") == 200:
                    return
            except OSError:
                pass
            assert time.monotonic() < end, f"the management API of {self.name} does not answer"
            time.sleep(0.1)


async def fill(connection: Connection, options: Options) -> None:
    channel = await connection.channel()
    for queue in (SOURCE, TARGET):
        await channel.call(QueueDelete(queue))
        await channel.call(QueueDeclare(queue, durable=True))
    await channel.close()
    async with connection.producer(routing_key=SOURCE) as producer:
        for start in range(0, options.messages, BATCH):
            await producer.publish_batch([b"x" * options.size] * min(BATCH, options.messages - start))


async def measure(contender: Contender, broker: Running, options: Options) -> tuple[float, float]:
    """Messages a second, and microseconds of CPU a message."""
    url = f"amqp://guest:guest@127.0.0.1:{broker.port}"
    async with connect(url) as connection:
        await fill(connection, options)
        channel = await connection.channel()
        uri = contender.uri or url
        value: dict[str, Any] = {"src-uri": uri, "src-queue": SOURCE, "dest-uri": uri, "dest-queue": TARGET}
        value |= {"src-prefetch-count": options.prefetch, "ack-mode": "on-confirm"}
        cpu, begun = broker.cpu_seconds(), time.monotonic()
        status = await asyncio.to_thread(contender.ask, "PUT", PARAMETER, {"value": value})
        assert status in (201, 204), f"{contender.name} does not take the shovel: {status}"
        while (await channel.call(QueueDeclare(TARGET, passive=True))).message_count < options.messages:
            assert time.monotonic() < begun + DEADLINE_S, f"{contender.name} did not move all messages"
            await asyncio.sleep(POLL_S)
        took, cpu = time.monotonic() - begun, broker.cpu_seconds() - cpu
        await asyncio.to_thread(contender.ask, "DELETE", PARAMETER)
        return options.messages / took, cpu / options.messages * 1e6


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--messages", type=int, default=200_000)
    parser.add_argument("--size", type=int, default=1024)
    parser.add_argument("--prefetch", type=int, default=1000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--only", default="", help="leveret or rabbitmq")
    given = parser.parse_args()
    options = Options(given.messages, given.size, given.prefetch, given.rounds)
    every = [Contender("leveret, local", "amqp://"), Contender("leveret"), Contender("rabbitmq")]
    for contender in every:
        if not contender.name.startswith(given.only) or not contender.peer.installed():
            continue
        with tempfile.TemporaryDirectory() as root, running(contender.peer, Path(root)) as broker:
            contender.wait_for_api()
            found = [asyncio.run(measure(contender, broker, options)) for _ in range(options.rounds)]
        rate = statistics.median(rate for rate, _ in found)
        cpu = statistics.median(cpu for _, cpu in found)
        print(f"{contender.name:16} {rate:12,.0f} messages/s {cpu:8.1f} us of CPU a message")


if __name__ == "__main__":
    main()

"""A broker whose clock stands still until a test moves it, with queues to publish to and its statistics."""

from __future__ import annotations

from leveret.broker.activity import AMQP091, Activity
from leveret.broker.broker import Broker
from leveret.catalog import commands
from leveret.catalog.records import QueueRecord, Vhost
from leveret.core.connection.channel import Channel
from leveret.core.queue.classic_queue import ClassicQueue
from leveret.operations.statistics.statistics import Statistics
from leveret.runtime.clock import Clock
from leveret.runtime.dice import Dice
from tests.unit.queues.dataplane import Workbench, message

# A whole hour, so that every level has a sample at it.
START_MS = 1_800_000_000_000


class HandClock(Clock):
    """Goes on when it is told."""

    def __init__(self) -> None:
        self.ms = START_MS

    def monotonic(self) -> float:
        return self.ms / 1000

    def wall(self) -> float:
        return self.ms / 1000

    def now_ms(self) -> int:
        return self.ms


class Caller:
    """A connection of one client, without a socket."""

    def __init__(self, bench: Workbench) -> None:
        self.bench = bench
        self.name = "caller"
        self.user = "ann"
        self.vhost_name = "/"
        self.protocol = "AMQP 0-9-1"

    def counted(self) -> tuple[object, list[Channel]]:
        return self.bench.connection, list(self.bench.connection.channels.values())

    def count_into(self, activity: Activity) -> None:
        activity.add_connection(AMQP091, self.bench.connection, self.bench.write_buffer)
        for channel in self.bench.connection.channels.values():
            activity.add_channel(channel)


class Observed:
    def __init__(self, interval_s: float = 5.0) -> None:
        self.clock = HandClock()
        self.broker = Broker(Dice(), self.clock)
        self.broker.apply(commands.PutVhost(Vhost("/")))
        self.statistics = Statistics(self.broker, interval_s)

    def queue(self, name: str = "q") -> ClassicQueue:
        self.broker.apply(commands.DeclareQueue(QueueRecord("/", name, "classic", False, False, 0, {}, 0)))
        return self.broker.vhosts["/"].queues[name.encode()]

    def delete(self, name: str = "q") -> None:
        self.broker.apply(commands.DeleteQueue("/", name))

    def publish(self, queue: ClassicQueue, count: int = 1) -> None:
        for _ in range(count):
            queue.publish(message(b"x"))

    def after(self, seconds: float) -> None:
        """Goes so far on, and takes the sample that is due then."""
        self.clock.ms += round(seconds * 1000)
        self.statistics.sample()

    def close(self) -> None:
        self.statistics.stop()
        self.broker.close()

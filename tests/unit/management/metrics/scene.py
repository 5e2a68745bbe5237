"""A broker without a node around it, and a scraper that looks at it."""

from dataclasses import dataclass, field

from prometheus_client.parser import text_string_to_metric_families

from leveret.broker.broker import Broker
from leveret.catalog import commands
from leveret.catalog.records import QueueRecord
from leveret.core.codec.field_types import Timestamp
from leveret.core.codec.message import new_message
from leveret.core.codec.properties import encode_properties, parse_properties
from leveret.management.http.budget import Budget
from leveret.management.metrics.scraper import Scraper, Wanted
from leveret.management.metrics.source import Identity, Source
from leveret.operations.reprocess.reprocessor import Reprocessor
from leveret.operations.statistics.statistics import Statistics
from leveret.operations.webhooks.webhooks import Webhooks
from leveret.runtime.clock import Clock
from leveret.runtime.dice import Dice

Samples = dict[tuple[str, frozenset[tuple[str, str]]], float]


@dataclass
class Room:
    resident_bytes: int = 1000
    memory_watermark_bytes: int = 5000
    disk_free_bytes: int | None = 70
    disk_free_bytes_min: int = 7
    memory_alarms_averted_total: int = 3
    returned_bytes_total: int = 4000
    collections_total: int = 2


@dataclass
class Scene:
    room: Room | None = field(default_factory=Room)

    def __post_init__(self) -> None:
        self.broker = Broker(Dice(), Clock())
        self.broker.create_defaults()
        self.source = Source(
            broker=self.broker,
            statistics=Statistics(self.broker),
            identity=Identity("leveret@here", "test", "an id", "1.2.3"),
            started_at=self.broker.clock.wall() - 60,
            watched=lambda: self.room,
            reprocessor=Reprocessor(self.broker),
            webhooks=Webhooks(self.broker.dice.name, self.broker.clock.wall),
            http_budgets={"http_bodies": Budget("bodies", "management.bodies_bytes_max", 1_000_000)},
        )
        self.source.reprocessor.moved_total = 4
        self.scraper = Scraper(self.source)

    def declare(self, name: str, vhost: str = "/", arguments: dict[str, object] | None = None) -> None:
        record = QueueRecord(vhost, name, "classic", False, False, 0, arguments or {}, 0)
        self.broker.apply(commands.DeclareQueue(record))

    def publish(self, queue: str, body: bytes = b"hello", age_ms: int = 0, timestamp: int | None = None) -> None:
        self.broker.tick()
        name = queue.encode("utf-8", "surrogateescape")
        properties = {} if timestamp is None else {"timestamp": Timestamp(timestamp)}
        message = new_message(b"", name, parse_properties(encode_properties(**properties)), body)
        message.stamp = self.broker.office.now - age_ms
        self.broker.vhosts["/"].queues[name].publish(message)

    async def text(self, endpoint: str = "aggregated", **wishes: object) -> str:
        return "".join([text async for text in self.scraper.scrape(Wanted(endpoint, **wishes))])  # type: ignore[arg-type]

    async def samples(self, endpoint: str = "aggregated", **wishes: object) -> Samples:
        return samples_of(await self.text(endpoint, **wishes))


def samples_of(text: str) -> Samples:
    """By name and labels; each of them once."""
    found: Samples = {}
    for family in text_string_to_metric_families(text):
        assert family.documentation and family.type != "unknown", family.name
        for sample in family.samples:
            key = (sample.name, frozenset(sample.labels.items()))
            assert key not in found, key
            found[key] = sample.value
    return found


def value(samples: Samples, name: str, **labels: str) -> float:
    return samples[name, frozenset(labels.items())]


def names(samples: Samples) -> set[str]:
    return {name for name, _ in samples}

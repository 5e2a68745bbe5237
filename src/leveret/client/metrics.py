"""What a connection and everything on it has done, in numbers: `connection.metrics()`, and the same for Prometheus.

A snapshot without any registry. Parts that have something to tell have `kind`, `label` and `numbers()`; a number whose
name ends with _total only grows. Prometheus needs prometheus-client, which is imported when a collector is made."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from importlib import import_module
from typing import Any, Protocol, runtime_checkable

import msgspec

from leveret.client.errors import ClientError
from leveret.client.options import Options
from leveret.client.owner import Part
from leveret.client.transport.link import Link
from leveret.client.transport.recovery import State
from leveret.client.url import Address

__all__ = ["ConnectionMetrics", "Counted", "Measured", "PartMetrics", "PrometheusCollector", "take_metrics"]

PREFIX = "leveret_client"
OWN = {
    "open": "Whether the connection is open and everything on it restored",
    "blocked": "Whether the broker takes no messages at present",
    "reconnects_total": "Connections that were lost and came back",
    "channels": "Open channels",
    "pending_bytes": "What waits to be sent",
}


@runtime_checkable
class Measured(Protocol):
    """A part of a connection that counts."""

    # Such as "producer": parts of one kind have the same numbers.
    kind: str
    # Which of them: the queue's name, say.
    label: str

    def numbers(self) -> Mapping[str, float]: ...


class Counted(Protocol):
    """A connection, as far as it is counted."""

    @property
    def options(self) -> Options: ...

    @property
    def address(self) -> Address: ...

    @property
    def state(self) -> State: ...

    @property
    def blocked(self) -> str | None: ...

    @property
    def reconnects_total(self) -> int: ...

    @property
    def link(self) -> Link | None: ...

    @property
    def parts(self) -> Sequence[Part]: ...


class PartMetrics(msgspec.Struct, frozen=True):
    kind: str
    label: str
    numbers: dict[str, float]


class ConnectionMetrics(msgspec.Struct, frozen=True):
    name: str
    address: str
    state: str
    # Why the broker takes no messages at present.
    blocked: str | None
    reconnects_total: int
    channels: int
    pending_bytes: int
    parts: list[PartMetrics]

    def total(self, kind: str, number: str) -> float:
        """The sum over all parts of this kind: metrics.total("producer", "confirmed_total")."""
        return sum(part.numbers.get(number, 0) for part in self.parts if part.kind == kind)

    def own(self) -> dict[str, float]:
        """The connection's own numbers, by the names of OWN."""
        return {
            "open": float(self.state == State.OPEN.value),
            "blocked": float(self.blocked is not None),
            "reconnects_total": self.reconnects_total,
            "channels": self.channels,
            "pending_bytes": self.pending_bytes,
        }


def take_metrics(connection: Counted) -> ConnectionMetrics:
    link = connection.link
    parts = [part for part in connection.parts if isinstance(part, Measured)]
    return ConnectionMetrics(
        name=connection.options.name,
        address=str(connection.address),
        state=connection.state.value,
        blocked=connection.blocked,
        reconnects_total=connection.reconnects_total,
        channels=0 if link is None else link.channel_count,
        pending_bytes=0 if link is None else link.pending_bytes,
        parts=[PartMetrics(part.kind, part.label, dict(part.numbers())) for part in parts],
    )


def numbers_of(counters: msgspec.Struct) -> dict[str, float]:
    return {name: getattr(counters, name) for name in counters.__struct_fields__}


class PrometheusCollector:
    """For prometheus_client: REGISTRY.register(PrometheusCollector(connection)). Takes several connections, which
    differ by the label `connection`: their name if they have one, else their address."""

    def __init__(self, *connections: Counted) -> None:
        try:
            self._core: Any = import_module("prometheus_client.core")
        except ImportError:
            raise ClientError("this needs prometheus-client: pip install prometheus-client") from None
        self._connections = connections

    def describe(self) -> list[Any]:
        """Nothing is known before it is there; also keeps the registry from collecting at once."""
        return []

    def collect(self) -> Iterator[Any]:
        taken = [take_metrics(connection) for connection in self._connections]
        families: dict[str, Any] = {}
        for metrics in taken:
            label = metrics.name or metrics.address
            for number, value in metrics.own().items():
                family = self._family(families, f"connection_{number}", OWN[number], ["connection"])
                family.add_metric([label], value)
            # Two producers may well have one label: together they are one series.
            sums: dict[tuple[str, str, str], float] = {}
            for part in metrics.parts:
                for number, value in part.numbers.items():
                    key = (part.kind, number, part.label)
                    sums[key] = sums.get(key, 0) + value
            for (kind, number, name), value in sums.items():
                words = number.removesuffix("_total").replace("_", " ")
                family = self._family(families, f"{kind}_{number}", f"Of a {kind}: {words}", ["connection", "name"])
                family.add_metric([label, name], value)
        yield from families.values()

    def _family(self, families: dict[str, Any], number: str, text: str, labels: list[str]) -> Any:
        name = f"{PREFIX}_{number}"
        if name not in families:
            made = self._core.CounterMetricFamily if number.endswith("_total") else self._core.GaugeMetricFamily
            families[name] = made(name, text, labels=labels)
        return families[name]

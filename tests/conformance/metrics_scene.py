"""The metrics of a broker of a test's own, as Prometheus' client reads them."""

import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from prometheus_client.parser import text_string_to_metric_families

from tests.conformance.own_broker import running

Samples = dict[tuple[str, frozenset[tuple[str, str]]], float]


class Metrics:
    def __init__(self, broker: Any, port: int) -> None:
        self.broker = broker
        self.target = f"127.0.0.1:{port}"

    def text(self, path: str = "/metrics") -> str:
        with urllib.request.urlopen(f"http://{self.target}{path}", timeout=20) as answer:
            return str(answer.read().decode())

    def samples(self, path: str = "/metrics") -> Samples:
        return {
            (sample.name, frozenset(sample.labels.items())): sample.value
            for family in text_string_to_metric_families(self.text(path))
            for sample in family.samples
        }

    def value(self, name: str, path: str = "/metrics", **labels: str) -> float:
        """Of all samples that have these labels, and perhaps others, together."""
        wanted = set(labels.items())
        found = [value for (of, has), value in self.samples(path).items() if of == name and wanted <= has]
        assert found, f"no {name} with {labels}"
        return sum(found)


@contextmanager
def metrics_of(directory: Path) -> Iterator[Metrics]:
    with running(directory) as broker:
        yield Metrics(broker, broker.metrics_port)

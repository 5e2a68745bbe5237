"""What the broker calls itself: the one rule for AMQP, streams, the HTTP API, definitions and metrics.

Clients and tools of RabbitMQ choose by product and version what they use, so every interface announces the same two:
the product is a setting, the version is that of the RabbitMQ whose interfaces ours are like. `leveret_version` is
always there and is Leveret's own; our own client and commands look at nothing else."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from leveret import __version__

RABBITMQ_VERSION: Final = "4.3.0"
LEVERET_VERSION_KEY: Final = "leveret_version"


@dataclass(frozen=True, slots=True)
class Announced:
    product: str = "RabbitMQ"
    version: str = RABBITMQ_VERSION
    leveret_version: str = __version__

    @property
    def server_properties(self) -> dict[str, str]:
        """For the handshakes of AMQP and the stream protocol."""
        return {"product": self.product, "version": self.version, LEVERET_VERSION_KEY: self.leveret_version}

    @property
    def http_fields(self) -> dict[str, str]:
        """For the overview and for definitions."""
        return {
            "rabbitmq_version": self.version,
            "product_name": self.product,
            "product_version": self.version,
            LEVERET_VERSION_KEY: self.leveret_version,
        }

"""The port that Prometheus scrapes: bound at once, serving as soon as the loop runs."""

from __future__ import annotations

import asyncio
import socket
from typing import TYPE_CHECKING

from leveret import __version__
from leveret.management.metrics.server import MetricsServer
from leveret.management.metrics.source import Identity, Source
from leveret.node.sockets import bound
from leveret.runtime.log import get_logger

if TYPE_CHECKING:
    from leveret.node.config.settings import Settings
    from leveret.node.node import Node

log = get_logger(__name__)


def source_of(node: Node) -> Source:
    services = node.management.services
    identity = Identity(services.node_name, services.cluster_name, node.cluster_id, __version__)
    return Source(
        node.broker,
        node.statistics,
        identity,
        services.started_at,
        services.watched,
        node.reprocessor,
        node.dead_letters.webhooks,
        services.certificates,
        lambda: len(node.http_leases),
        node.descriptor_watch,
        {"http_bodies": services.bodies, "http_answers": services.answers},
        node.firehoses,
        node.links,
        lambda: len(services.sessions),
    )


class Metrics:
    def __init__(self, node: Node) -> None:
        self._node = node
        self._socket: socket.socket | None = None
        self._task: asyncio.Task[None] | None = None
        self._server: MetricsServer | None = None
        self.port: int | None = None
        self.host = ""
        node.on_reload.append(self._bound)

    def open(self) -> None:
        """Raises StartupError."""
        door = self._node.settings.listen.door("metrics_")
        if door is not None:
            self._socket = bound(*door, "metrics")
            self.host, self.port = self._socket.getsockname()[:2]

    def start(self, loop: asyncio.AbstractEventLoop) -> None:
        if self._socket is not None:
            self._task = loop.create_task(self._serve(self._socket))

    async def _serve(self, listening: socket.socket) -> None:
        self._server = MetricsServer(source_of(self._node))
        self._bound(self._node.settings)
        certificates = self._node.certificates if self._node.settings.listen.metrics_tls else None
        try:
            share = self._node.descriptors.metrics
            await self._server.start_on(listening, share, None if certificates is None else certificates.front)
        except Exception:
            log.exception("metrics could not be served")

    def _bound(self, settings: Settings) -> None:
        if self._server is not None:
            bounds = settings.management
            self._server.connections.bound(bounds.header_deadline_s, bounds.connections_per_address_max)

    async def stop(self) -> None:
        if self._task is not None:
            await self._task
            self._task = None
        if self._server is not None:
            await self._server.stop()
        self.close_socket()

    def close_socket(self) -> None:
        """Unless it is being served: then whoever serves it closes it."""
        if self._task is None and self._socket is not None:
            self._socket.close()
            self._socket = None

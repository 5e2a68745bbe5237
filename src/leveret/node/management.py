"""The management API of a node: its sockets, and what its routes may reach."""

from __future__ import annotations

import asyncio
import socket
import ssl
from pathlib import Path
from typing import TYPE_CHECKING

from leveret.broker.definitions import DefinitionService
from leveret.broker.parameters import ParameterService
from leveret.broker.streams import StreamService
from leveret.broker.users import UserService
from leveret.broker.vhosts import VhostService
from leveret.errors import StartupError
from leveret.management.api.table import make_table
from leveret.management.http.pages import read_pages
from leveret.management.http.server import HttpServer
from leveret.management.http.sessions import Sessions
from leveret.management.services import ServedCertificate, Services
from leveret.node.sockets import bound
from leveret.operations.browsing import Browsing
from leveret.operations.dead_letters import DeadLetters
from leveret.operations.route_trace import RouteTrace
from leveret.operations.taps import Taps
from leveret.runtime.log import get_logger
from leveret.runtime.peers.unix_sockets import bound_path, is_too_long

if TYPE_CHECKING:
    from leveret.node.config.settings import Settings
    from leveret.node.node import Node

log = get_logger(__name__)


def services_of(node: Node) -> Services:
    settings = node.settings
    users = UserService(node.broker)
    streams = StreamService(node.broker, node.topology)
    browsing = Browsing(node.broker, streams, node.http_leases)
    return Services(
        broker=node.broker,
        topology=node.topology,
        policies=node.policies,
        super_streams=node.super_streams,
        streams=streams,
        delayed=node.delayed,
        reprocessor=node.reprocessor,
        users=users,
        vhosts=VhostService(node.broker),
        parameters=ParameterService(node.broker),
        definitions=DefinitionService(node.broker, users),
        publishing=node.publishing,
        http_leases=node.http_leases,
        audit=node.audit,
        browsing=browsing,
        pauses=node.pauses,
        dead_letters=DeadLetters(node.broker, browsing),
        taps=Taps(node.broker),
        route_trace=RouteTrace(node.broker),
        statistics=node.statistics,
        links=node.links,
        table=make_table(settings.management.root_aliases),
        sessions=Sessions(node.broker),
        pages=read_pages(),
        schedule=lambda: node.dead_letters.schedule,
        webhooks=node.dead_letters.webhooks,
        node_name=settings.chosen_node_name,
        listeners=node.listening,
        small_body_bytes_max=settings.management.small_body_bytes_max,
        large_body_bytes_max=settings.management.body_bytes_max,
        root_aliases=settings.management.root_aliases,
        cluster_name=settings.cluster_name,
        data_dir=settings.chosen_data_dir,
        mechanisms=settings.auth.mechanisms,
        connections_max=lambda: node.settings.limits.connections_max,
        started_at=node.broker.clock.wall(),
        watched=lambda: node.watch,
        descriptors=node.descriptor_watch,
        certificates=lambda: served_certificates(node),
        in_service=lambda: node.in_service,
    )


def served_certificates(node: Node) -> list[ServedCertificate]:
    shown = node.certificates
    return [] if shown is None else [ServedCertificate(shown.subject, shown.not_after.timestamp())]


class Management:
    """Bound at once, so that a port that is taken ends the start; serving as soon as the loop runs."""

    def __init__(self, node: Node) -> None:
        self._node = node
        self._sockets: list[socket.socket] = []
        self._path: str | None = None
        self._task: asyncio.Task[None] | None = None
        self.services = services_of(node)
        self.server = HttpServer(self.services, self.services.table)
        self._bound(node.settings)
        self.port: int | None = None
        self.host = ""
        node.on_reload.append(self._reload)

    def _reload(self, settings: Settings) -> None:
        self.services.small_body_bytes_max = settings.management.small_body_bytes_max
        self.services.large_body_bytes_max = settings.management.body_bytes_max
        self.services.audit.resize(settings.management.audit_bytes_max)
        self._bound(settings)

    def _bound(self, settings: Settings) -> None:
        """How much, how long and how many at a time."""
        bounds = settings.management
        self.services.bodies.limit = bounds.bodies_bytes_max
        self.services.answers.limit = bounds.answers_bytes_max
        self.services.sessions.session_s = bounds.session_s
        self.services.write_deadline_s = bounds.write_deadline_s
        self.server.connections.bound(bounds.header_deadline_s, bounds.connections_per_address_max)

    def open(self) -> None:
        """Raises StartupError."""
        door = self._node.settings.listen.door("management_")
        try:
            if door is not None:
                made = bound(*door, "the management API")
                self._sockets.append(made)
                self.host, self.port = made.getsockname()[:2]
            path = self._socket_path()
            if path is not None:
                self._sockets.append(bound_path(path))
                self._path = path
        except StartupError:
            self.close_sockets()
            raise

    def _socket_path(self) -> str | None:
        path = self._node.settings.chosen_socket
        if path is None or self._node.settings.listen.socket or not is_too_long(path):
            return path
        # Nobody asked for this one: a data directory with a long name is no reason not to start.
        log.warning("no unix socket for the command line: its path would be too long", path=path)
        return None

    def start(self, loop: asyncio.AbstractEventLoop) -> None:
        self._task = loop.create_task(self._serve())

    async def _serve(self) -> None:
        try:
            await self.server.start()
            for listening in self._sockets:
                shares = self._node.descriptors
                share = shares.local if listening.family == socket.AF_UNIX else shares.http
                await self.server.listen(listening, share, self._context(listening), self._node.proxies)
        except Exception:
            log.exception("the management API could not be started")

    def _context(self, listening: socket.socket) -> ssl.SSLContext | None:
        certificates = self._node.certificates
        speaks = self._node.settings.listen.management_tls and listening.family != socket.AF_UNIX
        return certificates.front if speaks and certificates is not None else None

    async def stop(self) -> None:
        # Whoever listens would else be waited for.
        self.services.broker.events.close()
        self.services.taps.close()
        if self._task is not None:
            await self._task
            self._task = None
            await self.server.stop()
        self.close_sockets()

    def close_sockets(self) -> None:
        """Unless they are being served: then whoever serves them closes them."""
        if self._task is not None:
            return
        for listening in self._sockets:
            listening.close()
        self._sockets.clear()
        if self._path is not None:
            try:
                Path(self._path).unlink(missing_ok=True)
            except OSError as error:
                # The next start does it.
                log.warning("the unix socket cannot be removed", path=self._path, error=error.strerror)
            self._path = None

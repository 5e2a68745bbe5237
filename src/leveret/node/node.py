"""One node: made of a broker and its listeners, started and stopped on a running loop.

Assembles the rooms and holds nothing else. Several nodes can run in one process."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable
from functools import partial
from pathlib import Path

from leveret.auth.audit import Audit
from leveret.auth.identity import Identity
from leveret.broker.broker import Broker
from leveret.broker.policies import Policies
from leveret.broker.product_name import Announced
from leveret.broker.recovery import recover
from leveret.broker.super_streams import SuperStreams
from leveret.broker.topology import Topology
from leveret.catalog import commands
from leveret.catalog.records import GlobalParameter
from leveret.errors import LeveretError, StartupError
from leveret.management.services import Listening
from leveret.node.auth import auth_settings, node_limits
from leveret.node.bootstrap import prepare
from leveret.node.certificates import load_certificates, tls_options
from leveret.node.config.network import TlsSettings
from leveret.node.config.settings import Settings
from leveret.node.dead_letters import DeadLetterCare
from leveret.node.descriptor_watch import DescriptorWatch
from leveret.node.links import NodeLinks
from leveret.node.management import Management
from leveret.node.metrics import Metrics
from leveret.node.reload import changes
from leveret.node.watch import Watch, watermark_bytes
from leveret.operations.default_password import DefaultPassword
from leveret.operations.delayed import Delayed
from leveret.operations.firehose import Firehoses
from leveret.operations.http_leases import HttpLeases
from leveret.operations.paused_queues import Pauses
from leveret.operations.publishing import Publishing
from leveret.operations.statistics.statistics import Statistics
from leveret.routing.headers import IGNORE_X
from leveret.runtime.clock import Clock
from leveret.runtime.collector import Collector
from leveret.runtime.descriptors import DescriptorBudget
from leveret.runtime.dice import Dice
from leveret.runtime.listener import Listener, MakeTransport
from leveret.runtime.memory import memory_limit_bytes
from leveret.runtime.network import SocketHub, SocketTransport
from leveret.runtime.proxy_acceptor import ProxyNetworks
from leveret.runtime.rolling_file import RollingFile
from leveret.runtime.tls_transport import TlsDoor
from leveret.session.session import Session
from leveret.session.settings import SessionSettings
from leveret.session.stream.session import StreamSession
from leveret.storage.store import Store, StoreSettings

# As RabbitMQ calls it.
CLUSTER_ID = "internal_cluster_id"
# How long connections get to answer the close of a stopping node.
STOP_DEADLINE_S = 3.0
# How long a stopping node waits for its disk.
FLUSH_DEADLINE_S = 10.0


class Node:
    def __init__(self, settings: Settings) -> None:
        if not __debug__:
            raise StartupError("python -O removes the checks that guard the data; start without it")
        self.settings = settings
        # None if nothing listens for TLS.
        self.certificates = load_certificates(settings)
        # Those whose word about their clients' addresses counts.
        self.proxies = ProxyNetworks(settings.listen.proxy_networks)
        dice = Dice()
        self.descriptors = DescriptorBudget()
        self.descriptors.require_enough()
        self.store = Store(
            Path(settings.chosen_data_dir),
            StoreSettings(settings.storage.segment_bytes, settings.storage.sync, settings.streams.segment_bytes_min),
            dice.number,
        )
        self.broker = Broker(dice, Clock(), self.store, auth_settings(settings))
        self.broker.announced = Announced(settings.compatibility.product)
        self.broker.limits.node = node_limits(settings)
        self.broker.exchange_defaults = {IGNORE_X: settings.routing.headers_ignore_x}
        self.audit = Audit(
            self.broker.clock.wall,
            RollingFile(self.store.root / "audit", "audit", 0),
            RollingFile(self.store.root / "audit", "refused", 0),
        )
        self.audit.resize(settings.management.audit_bytes_max)
        self.broker.audit = self.audit
        self.topology = Topology(self.broker)
        self.super_streams = SuperStreams(self.broker)
        self.default_password = DefaultPassword(self.broker)
        self.policies = Policies(self.broker)
        self.delayed = Delayed(self.broker)
        self.dead_letters = DeadLetterCare(self.broker, settings)
        self.reprocessor = self.dead_letters.reprocessor
        self.publishing = Publishing(self.broker, settings.limits.body_bytes_max)
        self.http_leases = HttpLeases(self.broker, self.topology, settings.management.lease_s)
        self.pauses = Pauses(self.broker)
        self.firehoses = Firehoses(self.broker, settings.chosen_node_name)
        self.statistics = Statistics(self.broker, settings.management.sample_interval_s, self._disk_free_bytes)
        self.descriptor_watch = DescriptorWatch(self.descriptors, self.broker)
        self._session_settings = _session_settings(settings)
        # Called with every reload, by whoever keeps settings of his own or has files to read again; may raise.
        self.on_reload: list[Callable[[Settings], None]] = [lambda chosen: self.reload_tls(chosen.tls)]
        self.links = NodeLinks(self, self._link_accepted)
        self.management = Management(self)
        self.metrics = Metrics(self)
        self._board: SocketHub | None = None
        # Of this process; managed by whoever runs nothing but the node in it.
        self.collector = Collector()
        self._listener: Listener | None = None
        self._stream_listener: Listener | None = None
        self._tls_listener: Listener | None = None
        self._stream_tls_listener: Listener | None = None
        # How many TLS handshakes there were is counted here.
        self.tls_door: TlsDoor | None = None
        # Every accepted connection, those in their handshake included.
        self._sessions: dict[SocketTransport, Session | StreamSession] = {}
        # Set by the last of them when the node stops.
        self._drained: asyncio.Event | None = None
        self._watch: Watch | None = None
        self._stopping = False
        # What connections hear when the node stops: text and reply code.
        self._farewell = ("broker forced connection closure with reason 'shutdown'", 320)
        # Set with a reason when the disk has failed: the node is of no use any more.
        self.failure: asyncio.Future[str] | None = None

    def start(self) -> None:
        """Listens, and recovers what is on disk before the loop sees the first client; must be called on the loop that
        the node is to run on."""
        loop = asyncio.get_running_loop()
        self.failure = loop.create_future()
        self._board = SocketHub(loop, self.descriptors.amqp, self.broker.office.meter)
        try:
            self._listen()
            recover(self.broker, partial(prepare, self.broker, self.settings))
        except (OSError, StartupError) as error:
            self._close_listeners()
            self.store.abandon()
            if isinstance(error, StartupError):
                raise
            raise StartupError(f"cannot use the data directory {self.store.root}: {error}") from error
        self.store.on_synced = self._board.batch_synced
        self.store.on_failure = self._disk_failed
        self.store.kick = self.kick
        self.store.on_shortage = self.descriptor_watch.shortage
        self.descriptor_watch.on_changed = self.store.limit_descriptors
        self.store.start(loop)
        self._make_cluster_id()
        self.broker.start(loop, self.kick)
        self.statistics.start(loop)
        self.pauses.open()
        self.firehoses.open()
        self.dead_letters.open(loop, self.settings, self.cluster_id)
        self._watch = self._make_watch(loop)
        self._watch.start()
        self.descriptor_watch.start(loop)
        self.audit.start(loop)
        self.management.start(loop)
        self.metrics.start(loop)
        self.links.open(self.settings)

    def _make_watch(self, loop: asyncio.AbstractEventLoop) -> Watch:
        alarms = self.settings.alarms
        return Watch(
            loop,
            self.broker,
            str(self.store.root),
            memory_watermark_bytes=watermark_bytes(alarms.memory_watermark, memory_limit_bytes()),
            disk_free_bytes_min=alarms.disk_free_bytes_min,
            on_pressure=self.store.paging.press,
            kick=self.kick,
            collector=self.collector,
        )

    def reload(self, settings: Settings) -> list[str]:
        """Takes over what can change while the node runs, and gives the keys that did. If something of it cannot be
        used it raises, and nothing has changed."""
        before, changed = self.settings, changes(self.settings, settings)
        # First whoever may refuse.
        auth = auth_settings(changed.settings)
        self.settings = changed.settings
        try:
            for told in self.on_reload:
                told(self.settings)
        except LeveretError:
            self.settings = before
            raise
        if auth != self.broker.logins.settings:
            self.broker.logins.configure(auth)
        self.broker.limits.node = node_limits(self.settings)
        self.proxies.set(self.settings.listen.proxy_networks)
        self.publishing.body_bytes_max = self.settings.limits.body_bytes_max
        self.http_leases.lease_s = self.settings.management.lease_s
        self._session_settings = _session_settings(self.settings)
        if self._watch is not None and any(key.startswith("alarms.") for key in changed.live):
            alarms = self.settings.alarms
            memory = watermark_bytes(alarms.memory_watermark, memory_limit_bytes())
            self._watch.set_limits(memory, alarms.disk_free_bytes_min)
        if any(key.startswith("dead_letters.") for key in changed.live):
            self.dead_letters.reload(self.settings)
        if "auth.default_password" in changed.live:
            chosen = self.settings.auth
            self.default_password.change(
                chosen.default_user, chosen.default_password.reveal().encode("utf-8", "surrogatepass")
            )
        return changed.live

    def _listen(self) -> None:
        assert self._board is not None
        self._listener = self._open(self._board, "", self._accepted)
        self._stream_listener = self._open(self._board, "stream_", self._stream_accepted)
        self._listen_for_tls(self._board)
        self.management.open()
        self.metrics.open()

    def _listen_for_tls(self, board: SocketHub) -> None:
        if self.certificates is None:
            return
        door = self.tls_door = TlsDoor(board.loop, self.certificates)
        self._tls_listener = self._open(board, "tls_", self._accepted, door)
        self._stream_tls_listener = self._open(board, "stream_tls_", self._stream_accepted, door)

    def _open(
        self,
        board: SocketHub,
        name: str,
        accepted: Callable[[SocketTransport], None],
        make_transport: MakeTransport = SocketTransport,
    ) -> Listener | None:
        """One of the doors that the settings name; None if it is off."""
        place = self.settings.listen.door(name)
        if place is None:
            return None
        host, port = place
        try:
            return Listener(board, host, port, accepted, make_transport, self.proxies)
        except OSError as error:
            raise StartupError(
                f"cannot listen on {host}:{port}: {error.strerror}; is another broker running there?"
            ) from None

    def _close_listeners(self) -> None:
        for listener in (self._listener, self._stream_listener, self._tls_listener, self._stream_tls_listener):
            if listener is not None:
                listener.close()
        self.management.close_sockets()
        self.metrics.close_socket()

    @property
    def watch(self) -> Watch | None:
        """What looks after memory and disk; None before the start."""
        return self._watch

    @property
    def board(self) -> SocketHub | None:
        """What the connections of the node share; None before the start."""
        return self._board

    @property
    def in_service(self) -> bool:
        """Whether clients are let in: everything is recovered, and nobody has asked the node to stop."""
        return self._watch is not None and not self._stopping

    @property
    def host(self) -> str:
        """Where AMQP is spoken, or would be."""
        return self.settings.listen.host if self._listener is None else self._listener.host

    @property
    def port(self) -> int | None:
        """None if AMQP is not spoken without TLS."""
        return None if self._listener is None else self._listener.port

    @property
    def stream_port(self) -> int | None:
        """None if the stream protocol is off."""
        return None if self._stream_listener is None else self._stream_listener.port

    @property
    def tls_port(self) -> int | None:
        """None if AMQP is not spoken over TLS."""
        return None if self._tls_listener is None else self._tls_listener.port

    @property
    def stream_tls_port(self) -> int | None:
        return None if self._stream_tls_listener is None else self._stream_tls_listener.port

    def reload_tls(self, settings: TlsSettings | None = None) -> None:
        """Reads the certificate again, or that of other settings: for new connections, the others live on. Raises
        ConfigError and changes nothing if it cannot be used."""
        if self.certificates is not None:
            self.certificates.reload(tls_options(settings) if settings is not None else None)

    @property
    def management_port(self) -> int | None:
        """None if there is no management API over the network."""
        return self.management.port

    @property
    def metrics_port(self) -> int | None:
        """None if there are no metrics."""
        return self.metrics.port

    @property
    def cluster_id(self) -> str:
        """Made once and kept, so that dashboards know the cluster under another name, too."""
        kept = self.broker.catalog.global_parameters.get(CLUSTER_ID)
        return str(kept.value) if kept is not None else ""

    def _make_cluster_id(self) -> None:
        if CLUSTER_ID not in self.broker.catalog.global_parameters:
            made = GlobalParameter(CLUSTER_ID, f"leveret-cluster-id-{self.broker.dice.name()}")
            self.broker.apply(commands.PutGlobalParameter(made))

    def listening(self) -> list[Listening]:
        """Every port that is open."""
        clients = (
            ("amqp", self._listener, False),
            ("stream", self._stream_listener, False),
            ("amqp", self._tls_listener, True),
            ("stream", self._stream_tls_listener, True),
        )
        found = [Listening(name, one.host, one.port, tls) for name, one, tls in clients if one is not None]
        if self.management.port is not None:
            tls = self.settings.listen.management_tls
            found.append(Listening("http", self.management.host, self.management.port, tls))
        if self.metrics.port is not None:
            tls = self.settings.listen.metrics_tls
            found.append(Listening("http/prometheus", self.metrics.host, self.metrics.port, tls))
        return found

    def _accepted(self, transport: SocketTransport) -> None:
        assert self._board is not None
        self._begin(transport, Session(self.broker, self.topology, self._session_settings, self._board, transport))

    def _link_accepted(self, transport: SocketTransport, identity: Identity | None) -> None:
        """A link of this node to itself; `identity` is None if it has to log in."""
        assert self._board is not None
        session = Session(self.broker, self.topology, self._session_settings, self._board, transport)
        session.vouched_for = identity
        self._begin(transport, session)

    def _stream_accepted(self, transport: SocketTransport) -> None:
        assert self._board is not None
        session = StreamSession(
            self.broker,
            self.topology,
            self.super_streams,
            self._session_settings,
            self._board,
            transport,
        )
        self._begin(transport, session)

    def _begin(self, transport: SocketTransport, session: Session | StreamSession) -> None:
        self._sessions[transport] = session
        transport.on_closed = self._closed
        transport.start(session)

    def _closed(self, transport: SocketTransport) -> None:
        self._sessions.pop(transport, None)
        if self._drained is not None and not self._sessions:
            self._drained.set()

    def _disk_free_bytes(self) -> int | None:
        return None if self._watch is None else self._watch.disk_free_bytes

    def kick(self) -> None:
        """After changing the broker from outside a session: sends what that has put into write buffers."""
        if self._board is not None:
            self._board.kick()

    async def stop(self, deadline_s: float = STOP_DEADLINE_S) -> None:
        """Ends every source of writes, has everything written and confirmed, closes connections with 320, waits a
        moment for them, then closes their sockets. The store is the last: behind its last record nothing may come."""
        self._stopping = True
        self._close_listeners()
        await self.links.close()
        if self._watch is not None:
            self._watch.stop()
        self.descriptor_watch.stop()
        for transport in self._sessions:
            transport.pause_reading()
        self.broker.quiesce()
        self.dead_letters.quiesce()
        await self.management.stop()
        await self.metrics.stop()
        self.http_leases.close()
        await self.default_password.close()
        # Jobs that end now have something to say in the audit log.
        await self.dead_letters.close()
        await self.audit.stop()
        with contextlib.suppress(OSError, TimeoutError):
            await asyncio.wait_for(self.store.flush(), FLUSH_DEADLINE_S)
        for transport, session in list(self._sessions.items()):
            session.shut_down(*self._farewell)
            # What still comes is thrown away, but for the answer.
            transport.resume_reading()
        self.kick()
        if self._sessions:
            self._drained = asyncio.Event()
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._drained.wait(), deadline_s)
        for transport in list(self._sessions):
            transport.abort("shutdown")
        if self._board is not None:
            self._board.close()
        self.statistics.stop()
        self.broker.close()
        await self.store.close()

    def _disk_failed(self, reason: str) -> None:
        """Nothing can be kept any more: nobody is to believe otherwise."""
        self._close_listeners()
        # Who is still logging in finds its connection open a moment later, and is to hear the same.
        self._farewell = (f"the broker stops: {reason}", 541)
        self.broker.close_connections(*self._farewell)
        self.kick()
        if self.failure is not None and not self.failure.done():
            self.failure.set_result(reason)


def _session_settings(settings: Settings) -> SessionSettings:
    chosen, streams = settings.limits, settings.streams
    return SessionSettings(
        frame_max=chosen.frame_max,
        channel_max=chosen.channel_max,
        heartbeat_s=chosen.heartbeat_s,
        body_bytes_max=chosen.body_bytes_max,
        handshake_deadline_s=chosen.handshake_deadline_s,
        ack_timeout_ms=chosen.ack_timeout_ms,
        ack_timeout_action=chosen.ack_timeout_action,
        mechanisms=settings.auth.mechanisms,
        external_name=settings.auth.external_name,
        stream_frame_max=chosen.stream_frame_max,
        stream_advertised=(streams.advertised_host, streams.advertised_port),
        stream_tls_advertised=(streams.advertised_tls_host or streams.advertised_host, streams.advertised_tls_port),
        cluster_name=settings.cluster_name,
    )

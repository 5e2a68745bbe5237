"""One client's connection from accept to close: what the compiled connection hands up, and everything around it.

Owns the state machine of the connection and its channels. It never waits: a step that must (a login, an alarm)
suspends the session, which stops reading until it is resumed. All errors of the data plane and of the handlers end
here and become channel.close or connection.close; nothing of one session reaches another."""

from __future__ import annotations

import asyncio
from typing import Any

from leveret.broker.access import Access
from leveret.broker.broker import Broker
from leveret.broker.topology import Topology
from leveret.broker.vhost import LiveVhost
from leveret.core.connection import Connection
from leveret.core.outbox import Outbox
from leveret.errors import AmqpError, HardError, SoftError
from leveret.runtime.log import get_logger
from leveret.runtime.network import PAUSE_DISK, Pump, Switchboard
from leveret.session import basic_methods, channel_methods, exchange_methods, handshake, mode_methods, queue_methods
from leveret.session.ack_timeouts import recheck_acks
from leveret.session.blocking import Blocking
from leveret.session.channel import ChannelDesk
from leveret.session.heartbeat import Heartbeat
from leveret.session.settings import SessionSettings
from leveret.session.suspension import FOR_ALARM, FOR_TURN
from leveret.wire.basic_methods import BasicPublish
from leveret.wire.channel_methods import ChannelClose, ChannelOpen
from leveret.wire.codec import decode_method, encode_method
from leveret.wire.connection_methods import (
    ConnectionClose,
    ConnectionCloseOk,
    ConnectionStartOk,
    ConnectionTune,
    ConnectionUpdateSecret,
    ConnectionUpdateSecretOk,
)
from leveret.wire.constants import PROTOCOL_HEADER
from leveret.wire.limits import FRAME_MAX_BEFORE_AUTHENTICATION
from leveret.wire.method import Method

log = get_logger(__name__)

CHANNEL_HANDLERS: dict[int, Any] = {
    **channel_methods.HANDLERS,
    **exchange_methods.HANDLERS,
    **queue_methods.HANDLERS,
    **basic_methods.HANDLERS,
    **mode_methods.HANDLERS,
}
HANDSHAKE_HANDLERS: dict[int, Any] = handshake.HANDLERS
# How long a client may take to answer connection.close before the socket is closed anyway.
CLOSE_DEADLINE_S = 5.0
RUNNING = 0
# Control methods of one connection handled before the loop turns to others.
METHODS_A_TURN = 256
# How often a session looks whether its client has read enough of its answers to be given more.
FLOOD_POLL_S = 0.01


class Session:
    def __init__(
        self, broker: Broker, topology: Topology, settings: SessionSettings, board: Switchboard, pump: Pump
    ) -> None:
        self.broker = broker
        self.topology = topology
        self.settings = settings
        self.board = board
        self.pump = pump
        self.peer = pump.peer
        self.connection_id = broker.new_connection_id()
        self.outbox = Outbox(board.dirty, board.spares)
        self.core = Connection(self.outbox, FRAME_MAX_BEFORE_AUTHENTICATION, settings.channel_max)
        self.desks: dict[int, ChannelDesk] = {}
        # The protocol header as far as it has come, or None once it is complete.
        self._header: bytearray | None = bytearray()
        # Where durable queues log their messages; None if there is no disk behind this broker.
        self.journal = broker.store.journal if broker.store is not None else None
        # The only method allowed next while the connection is being opened; RUNNING afterwards.
        self._expected = ConnectionStartOk.METHOD
        # A set of FOR_ bits, 0 while it runs.
        self._suspended = 0
        # The pending resume of a session that gave way to others.
        self._turn: asyncio.Handle | None = None
        self._task: asyncio.Future[None] | None = None
        self._closing = False
        self.gone = False
        self._blocking = Blocking()
        # The method being handled, which errors name; 0 while the data plane runs.
        self._method = 0
        self._handling = False
        self._deferred: list[bytes] = []
        self._timer = board.loop.call_later(settings.handshake_deadline_s, self._handshake_late)
        self._heartbeat: Heartbeat | None = None
        # Agreed in the handshake
        self.client_properties: dict[str, Any] = {}
        self.mechanism = ""
        self.user = ""
        self.offered: ConnectionTune | None = None
        self.frame_max = settings.frame_max
        self.channel_max = settings.channel_max
        self.heartbeat_s = 0
        self.vhost: LiveVhost
        self.access: Access
        self.connected_at = broker.clock.wall()

    @property
    def peer_name(self) -> str:
        return f"{self.peer[0]}:{self.peer[1]}"

    def client_can(self, capability: str) -> bool:
        capabilities = self.client_properties.get("capabilities")
        return isinstance(capabilities, dict) and capabilities.get(capability) is True

    def may_impersonate(self) -> bool:
        user = self.broker.catalog.users.get(self.user)
        return user is not None and "impersonator" in user.tags

    def send(self, method: Method) -> None:
        """Sends a method of the connection itself, on channel 0."""
        self.outbox.write(encode_method(0, method))

    # ---- bytes in

    def received(self, data: bytearray, size: int) -> None:
        self.broker.tick()
        if self._header is not None:
            size = self._take_header(data, size)
            if size == 0:
                return
        self._run(data, size)
        if self.journal is not None and self.journal.congested and self.core.published:
            self.pump.pause_reading(PAUSE_DISK)
            self.broker.stalled[self.connection_id] = self
            self.heed_heartbeats()
        self.core.published = False

    def _take_header(self, data: bytearray, size: int) -> int:
        """Collects the protocol header; what follows it is moved to the start of data. The octets left there."""
        header = self._header
        assert header is not None
        count = min(len(PROTOCOL_HEADER) - len(header), size)
        header += data[:count]
        if not PROTOCOL_HEADER.startswith(header):
            self.outbox.write(PROTOCOL_HEADER)
            self._close_socket()
            return 0
        if len(header) == len(PROTOCOL_HEADER):
            self._header = None
            handshake.send_start(self)
        data[: size - count] = data[count:size]
        return size - count

    def _run(self, data: bytearray | None, size: int) -> None:
        """Works through a chunk, or goes on with the one it stopped in."""
        fresh = data is not None
        handled = 0
        while not self.gone:
            try:
                self._method = 0
                event = self.core.feed(data, size) if fresh else self.core.proceed()
                fresh = False
                if event is None:
                    return
                self._handling = True
                try:
                    self._handle(*event)
                finally:
                    self._handling = False
                    self._send_deferred()
            except AmqpError as error:
                fresh = False
                error.method = error.method or self._method
                if self._closing and error.ends_connection:
                    # Out of step with a client that is being closed anyway: the close is already on its way.
                    self._close_socket()
                    return
                self.fail(error)
            except Exception:
                fresh = False
                log.exception("connection handler failed", peer=self.peer_name, user=self.user)
                self.fail_internally()
            handled += 1
            if (handled == METHODS_A_TURN or self.outbox.flooded()) and not self._suspended:
                # Others want their turn, too; and a client that does not read its answers gets no more of them.
                self.suspend(FOR_TURN)
                self._turn = self.board.loop.call_soon(self._next_turn)
            if self._suspended:
                self.core.detach()
                return

    def send_after_reply(self, number: int, method: Method) -> None:
        """Sends a method that is not the answer to the one being handled: not before that answer."""
        self._deferred.append(encode_method(number, method))
        if not self._handling:
            self._send_deferred()

    def _send_deferred(self) -> None:
        for frame in self._deferred:
            self.outbox.write(frame)
        self._deferred.clear()

    # ---- suspending

    def suspend(self, why: int) -> None:
        """Nothing more is read or handled until it was resumed for every reason there was."""
        self._suspended |= why
        self.pump.pause_reading()

    def _next_turn(self) -> None:
        if self.outbox.flooded():
            self._turn = self.board.loop.call_later(FLOOD_POLL_S, self._next_turn)
        else:
            self._turn = None
            self.resume(FOR_TURN)

    def resume(self, why: int) -> None:
        self._suspended &= ~why
        if self._suspended:
            return
        self._run(None, 0)
        if not self._suspended and not self.gone:
            self.pump.resume_reading()
        self.board.kick()

    def own_task(self, task: asyncio.Future[None]) -> None:
        """The one piece of slow work a suspended session waits for; it ends with the session."""
        self._task = task

    # ---- methods

    def expect(self, method: int) -> None:
        self._expected = method

    def _handle(self, number: int, method_id: int, payload: bytes) -> None:
        if number == 0:
            self._handle_connection(method_id, payload)
        elif self._expected != RUNNING:
            raise HardError(503, "a channel's method before the connection is open", method_id)
        elif method_id == BasicPublish.METHOD and number in self.desks:
            self._blocking.published(self)
        else:
            self._handle_channel(number, method_id, payload)

    def _handle_connection(self, method_id: int, payload: bytes) -> None:
        method = decode_method(method_id, payload)
        if isinstance(method, ConnectionCloseOk) and self._closing:
            self._close_socket()
        elif isinstance(method, ConnectionClose):
            self._release()
            self.send(ConnectionCloseOk())
            self._closing = self.core.muted = True
            self._close_socket()
        elif self._closing:
            return
        elif self._expected != RUNNING and method_id == self._expected:
            self._method = method_id
            HANDSHAKE_HANDLERS[method_id](self, method)
        elif self._expected == RUNNING and isinstance(method, ConnectionUpdateSecret):
            # As with RabbitMQ's passwords there is nothing to renew; tokens will be checked here.
            self.send(ConnectionUpdateSecretOk())
        else:
            state = "running" if self._expected == RUNNING else "starting"
            raise HardError(504, f"unexpected method in connection state {state}", method_id)

    def opened(self) -> None:
        """The handshake is over."""
        self._expected = RUNNING
        self._timer.cancel()
        self.broker.connected(self.connection_id, self)
        if self.heartbeat_s:
            self._heartbeat = Heartbeat(self.board, self.pump, self.core, self.outbox, self.heartbeat_s)
        self.core.alarmed = self.broker.blocked_reason is not None
        log.debug("connection opened", peer=self.peer_name, user=self.user, vhost=self.vhost.name)

    def hold_output(self) -> None:
        """Sends nothing, the answer to this method first of all, before what was done is on disk."""
        if self.broker.store is not None:
            self.outbox.barrier = self.broker.store.require_sync()

    def disk_calmed(self) -> None:
        """The disk has caught up: the client is read again."""
        self.pump.resume_reading(PAUSE_DISK)
        self.heed_heartbeats()

    # ---- channels

    def _handle_channel(self, number: int, method_id: int, payload: bytes) -> None:
        desk = self.desks.get(number)
        if desk is None:
            if method_id != ChannelOpen.METHOD:
                raise HardError(504, "expected 'channel.open'", method_id)
            channel_methods.open_channel(self, number)
            return
        method = decode_method(method_id, payload)
        self._method = method_id
        handler = CHANNEL_HANDLERS.get(method_id)
        if handler is None:
            raise HardError(503, "unimplemented method")
        store = self.broker.store
        logged = store.commands_total if store is not None else 0
        handler(desk, method)
        if store is not None and store.commands_total != logged:
            self.hold_output()

    # ---- errors

    def fail(self, error: AmqpError) -> None:
        """Closes the channel or the connection that the error ends, and tells the client why."""
        number = self.core.current
        if error.method == 0 and isinstance(error, SoftError):
            # Handlers name their method; what the data plane raises without one comes from a publish's gate.
            error.method = BasicPublish.METHOD
        class_id, method_id = error.method >> 16, error.method & 0xFFFF
        if isinstance(error, SoftError) and number in self.desks:
            self.close_channel(self.desks[number], error)
            return
        log.info("connection closed by error", peer=self.peer_name, error=str(error))
        self._start_close(ConnectionClose(error.code, error.reply_text, class_id, method_id))

    def close_channel(self, desk: ChannelDesk, error: AmqpError) -> None:
        """Gives back what the channel holds and says why; it is forgotten when the client has answered."""
        log.info("channel closed by error", peer=self.peer_name, channel=desk.number, error=str(error))
        desk.release()
        desk.core.start_closing()
        desk.send(ChannelClose(error.code, error.reply_text, error.method >> 16, error.method & 0xFFFF))

    def fail_internally(self) -> None:
        """A mistake of ours: the client is told so, or let go if even that fails. Nobody else is touched."""
        try:
            self.fail(HardError(541, "the broker made a mistake; its log says more"))
        except Exception:
            log.exception("closing after the failure failed, too", peer=self.peer_name, user=self.user)
            self.drop("internal error")

    def _start_close(self, close: ConnectionClose) -> None:
        """Gives everything back, says why, and waits for the answer, but not forever."""
        if self._closing or self.gone:
            return
        self._release()
        self._closing = self.core.muted = True
        self.send(close)
        self._timer.cancel()
        self._timer = self.board.loop.call_later(CLOSE_DEADLINE_S, self._close_socket)
        if self._suspended:
            if self._turn is not None:
                self._turn.cancel()
                self._turn = None
            self.resume(self._suspended)

    def close_by_broker(self, code: int, text: str) -> None:
        self._start_close(ConnectionClose(code, f"{HardError(code, text).reply_text}"))
        self.board.kick()

    def shut_down(self, text: str) -> None:
        """The node stops: an open connection is told, a stranger is simply let go."""
        if self._expected == RUNNING:
            self.close_by_broker(320, text)
        else:
            self.drop("shutdown")

    def drop(self, reason: str) -> None:
        """Closes the socket without a word, as RabbitMQ does with strangers."""
        self.pump.abort(reason)

    def _close_socket(self) -> None:
        self.pump.close()

    def _handshake_late(self) -> None:
        log.info("handshake took too long", peer=self.peer_name)
        self.drop("handshake timeout")

    # ---- the end

    def _release(self) -> None:
        """Unacked messages return, consumers leave, exclusive queues go."""
        opened = [desk for desk in self.desks.values() if desk.is_open]
        # First of all none takes any more: what one channel gives back must not go to another one of a lost client.
        for desk in opened:
            desk.core.start_closing()
        for desk in opened:
            desk.release()
        for number in list(self.desks):
            channel_methods.forget_channel(self.desks[number])
        if self.connection_id in self.broker.connections:
            self.topology.connection_left(self.vhost, self.connection_id)
            self.broker.disconnected(self.connection_id)

    def lost(self, reason: str) -> None:
        """The socket is closed."""
        self.gone = True
        self.broker.stalled.pop(self.connection_id, None)
        self._timer.cancel()
        if self._turn is not None:
            self._turn.cancel()
            self._turn = None
        if self._heartbeat is not None:
            self._heartbeat.stop()
            self._heartbeat = None
        if self._task is not None:
            self._task.cancel()
        try:
            self._release()
        except Exception:
            log.exception("giving back what the connection held failed", peer=self.peer_name, user=self.user)
        log.debug("connection closed", peer=self.peer_name, user=self.user, reason=reason)

    def calmed(self) -> None:
        self.core.calm()

    # ---- alarms and permissions

    def permissions_changed(self, user: str) -> None:
        if user == self.user:
            self.access.forget()
            for desk in self.desks.values():
                desk.core.intake.forget_permissions()

    def user_deleted(self, user: str) -> None:
        if user == self.user:
            self.close_by_broker(320, f"user '{user}' is deleted")

    def vhost_deleted(self, vhost: str) -> None:
        if vhost == self.vhost.name:
            self.close_by_broker(320, f"vhost '{vhost}' is deleted")

    def blocked_changed(self, reason: str | None) -> None:
        self._blocking.alarm_changed(self, reason)

    def collect_located(self, number: int, found: dict[tuple[int, int], object]) -> None:
        for desk in self.desks.values():
            desk.core.collect_located(number, found)

    def ack_timeouts_changed(self) -> None:
        """Queues have got other timeouts for acknowledgements."""
        for desk in self.desks.values():
            if desk.is_open:
                recheck_acks(desk)

    @property
    def held_up(self) -> bool:
        """Whether the broker does not read the client, because of an alarm or a slow disk."""
        return bool(self._suspended & FOR_ALARM) or self.connection_id in self.broker.stalled

    def heed_heartbeats(self) -> None:
        """A client that is held up, by an alarm, by the disk or by both, is not read: its silence says nothing then."""
        if self._heartbeat is not None:
            self._heartbeat.listen(not self.held_up)

"""One client's conversation: what the compiled connection hands up, and everything around it.

Owns the state machine of the connection and its channels; what every connection goes through is in
session/protocol_session.py. It never waits: a step that must (a login, an alarm) suspends the session, which stops
reading until it is resumed. All errors of the data plane and of the handlers end here and become channel.close or
connection.close; nothing of one session reaches another."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Iterator
from typing import Any

from leveret.auth.consumer_limits import check_arguments
from leveret.auth.identity import Identity
from leveret.broker.activity import AMQP091, Activity
from leveret.broker.broker import Broker
from leveret.broker.connected import (
    AMQP,
    OPENING,
    STARTING,
    TUNING,
    ChannelInfo,
    ConsumerInfo,
    PublisherInfo,
    SubscriptionInfo,
)
from leveret.broker.topology import Topology
from leveret.core.connection.channel import Channel
from leveret.core.connection.connection import CONGESTED, UNFINISHED, Connection
from leveret.errors import AmqpError, HardError, SoftError
from leveret.runtime.log import get_logger
from leveret.runtime.network import SocketHub, SocketTransport
from leveret.runtime.proxy_header import is_header
from leveret.session import basic_methods, channel_methods, exchange_methods, handshake, mode_methods, queue_methods
from leveret.session.ack_timeouts import recheck_acks
from leveret.session.blocking import Blocking
from leveret.session.channel import ChannelSession
from leveret.session.protocol_session import ProtocolSession
from leveret.session.rights import end_unreadable
from leveret.session.seen import seen_channel, seen_consumer
from leveret.session.settings import SessionSettings
from leveret.wire.basic_methods import BasicPublish
from leveret.wire.channel_methods import ChannelClose, ChannelOpen
from leveret.wire.codec import decode_method, encode_method
from leveret.wire.connection_methods import (
    ConnectionClose,
    ConnectionCloseOk,
    ConnectionOpen,
    ConnectionStartOk,
    ConnectionTune,
    ConnectionTuneOk,
    ConnectionUpdateSecret,
)
from leveret.wire.constants import AMQP_0_9, HEARTBEAT_FRAME, PROTOCOL_HEADER, PROTOCOL_VERSIONS
from leveret.wire.limits import FRAME_MAX_BEFORE_AUTHENTICATION, METHOD_FIELDS_BYTES_MAX
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
# By the method that is awaited.
HANDSHAKE_STATES = {
    ConnectionStartOk.METHOD: STARTING,
    ConnectionTuneOk.METHOD: TUNING,
    ConnectionOpen.METHOD: OPENING,
}
RUNNING = 0


class Session(ProtocolSession[Method]):
    noun = "connection"
    spoken = AMQP
    heartbeat_frame = HEARTBEAT_FRAME
    close_deadline_s = 5.0
    core: Connection

    def __init__(
        self,
        broker: Broker,
        topology: Topology,
        settings: SessionSettings,
        board: SocketHub,
        transport: SocketTransport,
    ) -> None:
        super().__init__(broker, topology, settings, board, transport)
        self.core = Connection(
            self.write_buffer,
            FRAME_MAX_BEFORE_AUTHENTICATION,
            settings.channel_max,
            broker.office.meter,
            self.journal,
            broker.office,
        )
        # Who this is, if that is known without a login: a link of the node's own.
        self.vouched_for: Identity | None = None
        self.channel_sessions: dict[int, ChannelSession] = {}
        # The protocol header as far as it has come, or None once it is complete.
        self._header: bytearray | None = bytearray()
        self.protocol_version = AMQP_0_9
        # The only method allowed next while the connection is being opened; RUNNING afterwards.
        self._expected = ConnectionStartOk.METHOD
        self._blocking = Blocking()
        # The method being handled, which errors name; 0 while the data plane runs.
        self._method = 0
        self._handling = False
        self._deferred: list[bytes] = []
        # Agreed in the handshake
        self.offered: ConnectionTune | None = None
        self.frame_max = settings.frame_max
        self.channel_max = settings.channel_max
        # What has come of messages that are not complete or not committed.
        self.unfinished = broker.limits.unfinished.open_account(self)

    @property
    def is_open(self) -> bool:
        return self._expected == RUNNING

    @property
    def handshake_state(self) -> str:
        return HANDSHAKE_STATES[self._expected]

    @property
    def last_heartbeat_ms(self) -> int:
        last: int = self.core.last_heartbeat_ms
        return last

    def client_can(self, capability: str) -> bool:
        capabilities = self.client_properties.get("capabilities")
        return isinstance(capabilities, dict) and capabilities.get(capability) is True

    def send(self, said: Method) -> None:
        """Sends a method of the connection itself, on channel 0."""
        self.write_buffer.write(encode_method(0, said))

    # ---- bytes in

    def received(self, data: bytearray, size: int) -> None:
        self.broker.tick()
        if self._header is not None:
            size = self._take_header(data, size)
            if size == 0:
                return
        self._run(data, size)
        self._heed_congestion()

    def _take_header(self, data: bytearray, size: int) -> int:
        """Collects the protocol header; what follows it is moved to the start of data. The octets left there."""
        header = self._header
        assert header is not None
        count = min(len(PROTOCOL_HEADER) - len(header), size)
        header += data[:count]
        if not any(known.startswith(header) for known in PROTOCOL_VERSIONS):
            if is_header(bytes(header)):
                log.info("a PROXY header from an address that is not in listen.proxy_networks", peer=self.peer_name)
            self.write_buffer.write(PROTOCOL_HEADER)
            self.transport.close()
            return 0
        if len(header) == len(PROTOCOL_HEADER):
            self.protocol_version = PROTOCOL_VERSIONS[bytes(header)]
            self._header = None
            handshake.send_start(self)
        data[: size - count] = data[count:size]
        return size - count

    def _run(self, data: bytearray | None, size: int) -> None:
        self.board.turns.start_slice()
        while not self.gone:
            try:
                self._method = 0
                event = self.core.proceed() if data is None else self.core.feed(data, size)
                data = None
                if event is None:
                    return
                if event is UNFINISHED and self._must_stop(0):
                    return
                if event is CONGESTED:
                    self._hold_for_disk()
                    return
                if event is UNFINISHED:
                    continue
                self._handling = True
                try:
                    self._handle(*event)
                finally:
                    self._handling = False
                    self._send_deferred()
            except AmqpError as error:
                data = None
                error.method = error.method or self._method
                if self._closing and error.ends_connection:
                    # Out of step with a client that is being closed anyway: the close is already on its way.
                    self.transport.close()
                    return
                self.fail(error)
            except Exception:
                data = None
                log.exception("connection handler failed", peer=self.peer_name, user=self.user)
                self.fail_internally()
            if self._must_stop():
                return

    def send_after_reply(self, number: int, method: Method) -> None:
        """Sends a method that is not the answer to the one being handled: not before that answer."""
        self._deferred.append(encode_method(number, method))
        if not self._handling:
            self._send_deferred()

    def _send_deferred(self) -> None:
        for frame in self._deferred:
            self.write_buffer.write(frame)
        self._deferred.clear()

    def wait_for(self, work: Coroutine[Any, Any, None], why: int) -> None:
        """Does slow work, one at a time, before anything more is read; it ends with the session."""
        self.suspend(why)
        self._task = asyncio.ensure_future(self._work(work, why))
        # A task that is cancelled before its first step leaves the work as it is: neither begun nor ended.
        self._task.add_done_callback(lambda _: work.close())

    async def _work(self, work: Coroutine[Any, Any, None], why: int) -> None:
        try:
            await work
        except AmqpError as error:
            self.fail(error)
        except Exception:
            log.exception("connection handler failed", peer=self.peer_name, user=self.user)
            self.fail_internally()
        if not self.gone:
            self.resume(why)

    # ---- methods

    def expect(self, method: int) -> None:
        self._expected = method

    def _handle(self, number: int, method_id: int, payload: bytes) -> None:
        if number == 0:
            self._handle_connection(method_id, payload)
        elif self._expected != RUNNING:
            raise HardError(503, "a channel's method before the connection is open", method_id)
        elif method_id == BasicPublish.METHOD and number in self.channel_sessions:
            self._blocking.published(self)
        else:
            self._handle_channel(number, method_id, payload)

    def _handle_connection(self, method_id: int, payload: bytes) -> None:
        method = decode_method(method_id, payload)
        if isinstance(method, ConnectionCloseOk) and self._closing:
            self.transport.close()
        elif isinstance(method, ConnectionClose):
            self._answer_close(ConnectionCloseOk())
        elif self._closing:
            return
        elif self._expected != RUNNING and method_id == self._expected:
            self._method = method_id
            HANDSHAKE_HANDLERS[method_id](self, method)
        elif self._expected == RUNNING and isinstance(method, ConnectionUpdateSecret):
            handshake.update_secret(self, method)
        else:
            state = "running" if self._expected == RUNNING else "starting"
            raise HardError(504, f"unexpected method in connection state {state}", method_id)

    def opened(self) -> None:
        self._expected = RUNNING
        super().opened()

    # ---- channels

    def _handle_channel(self, number: int, method_id: int, payload: bytes) -> None:
        channel_session = self.channel_sessions.get(number)
        if channel_session is None:
            if method_id != ChannelOpen.METHOD:
                raise HardError(504, "expected 'channel.open'", method_id)
            channel_methods.open_channel(self, number)
            return
        arguments_max = self.broker.limits.node.arguments_bytes_max
        if arguments_max and len(payload) > METHOD_FIELDS_BYTES_MAX + arguments_max:
            # Before it is decoded, which costs many times its octets; what it has is checked where it is kept.
            self._method = method_id
            check_arguments(len(payload) - METHOD_FIELDS_BYTES_MAX, arguments_max)
        method = decode_method(method_id, payload)
        self._method = method_id
        handler = CHANNEL_HANDLERS.get(method_id)
        if handler is None:
            raise HardError(503, "unimplemented method")
        store = self.broker.store
        logged = store.commands_total if store is not None else 0
        handler(channel_session, method)
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
        if isinstance(error, SoftError) and number in self.channel_sessions:
            self.close_channel(self.channel_sessions[number], error)
            return
        log.info("connection closed by error", peer=self.peer_name, error=str(error))
        self._start_close(ConnectionClose(error.code, error.reply_text, class_id, method_id))

    def close_channel(self, channel_session: ChannelSession, error: AmqpError) -> None:
        """Gives back what the channel holds and says why; it is forgotten when the client has answered."""
        log.info("channel closed by error", peer=self.peer_name, channel=channel_session.number, error=str(error))
        channel_session.release()
        channel_session.core.start_closing()
        channel_session.send(ChannelClose(error.code, error.reply_text, error.method >> 16, error.method & 0xFFFF))

    def close_by_broker(self, code: int, text: str) -> None:
        self._start_close(ConnectionClose(code, f"{HardError(code, text).reply_text}"))
        self.board.kick()

    def _mute(self) -> None:
        self.core.muted = True

    # ---- the end

    def lost(self, reason: str) -> None:
        super().lost(reason)
        self.broker.limits.unfinished.close_account(self.unfinished)

    def _release(self) -> None:
        """Unacked messages return, consumers leave, exclusive queues go."""
        opened = [channel_session for channel_session in self.channel_sessions.values() if channel_session.is_open]
        # First of all none takes any more: what one channel gives back must not go to another one of a lost client.
        for channel_session in opened:
            channel_session.core.start_closing()
        for channel_session in opened:
            channel_session.release()
        for number in list(self.channel_sessions):
            channel_methods.forget_channel(self.channel_sessions[number])
        if self.connection_id in self.broker.connections:
            self.topology.connection_left(self.vhost, self.connection_id)
            self.broker.disconnected(self.connection_id)

    def calmed(self) -> None:
        self.core.calm()

    # ---- alarms and permissions

    def _ask_again(self) -> None:
        for channel_session in self.channel_sessions.values():
            channel_session.core.publish_path.forget_permissions()

    def _end_what_is_not_allowed(self) -> None:
        for channel_session in list(self.channel_sessions.values()):
            if channel_session.is_open:
                end_unreadable(channel_session)

    def blocked_changed(self, reason: str | None) -> None:
        self._blocking.alarm_changed(self, reason)

    def collect_located(self, number: int, found: dict[tuple[int, int], object]) -> None:
        for channel_session in self.channel_sessions.values():
            channel_session.core.collect_located(number, found)

    # ---- what operators see

    @property
    def channel_count(self) -> int:
        return len(self.channel_sessions)

    def channels(self) -> Iterator[ChannelInfo]:
        return (
            seen_channel(channel_session)
            for _, channel_session in sorted(self.channel_sessions.items())
            if channel_session.is_open
        )

    def channel(self, number: int) -> ChannelInfo | None:
        channel_session = self.channel_sessions.get(number)
        return seen_channel(channel_session) if channel_session is not None and channel_session.is_open else None

    def consumers(self) -> Iterator[ConsumerInfo]:
        for channel_session in list(self.channel_sessions.values()):
            for consumer in list(channel_session.core.consumers.values()):
                yield seen_consumer(channel_session, consumer)

    def publishers_seen(self) -> Iterator[PublisherInfo]:
        return iter(())

    def subscriptions_seen(self) -> Iterator[SubscriptionInfo]:
        return iter(())

    def counted(self) -> tuple[Connection, list[Channel]]:
        return self.core, [channel_session.core for channel_session in self.channel_sessions.values()]

    def count_into(self, activity: Activity) -> None:
        activity.add_connection(AMQP091, self.core, self.write_buffer)
        for channel_session in self.channel_sessions.values():
            activity.add_channel(channel_session.core)

    def tracing_changed(self) -> None:
        for channel_session in self.channel_sessions.values():
            channel_session.heed_tracing()

    def ack_timeouts_changed(self) -> None:
        """Queues have got other timeouts for acknowledgements."""
        for channel_session in self.channel_sessions.values():
            if channel_session.is_open:
                recheck_acks(channel_session)

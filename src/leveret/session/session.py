"""One client's conversation: what the compiled connection hands up, and everything around it.

Owns the state machine of the connection and its channels; what every connection goes through is in session/life.py. It
never waits: a step that must (a login, an alarm) suspends the session, which stops reading until it is resumed. All
errors of the data plane and of the handlers end here and become channel.close or connection.close; nothing of one
session reaches another."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Iterator
from typing import Any

from leveret.broker.broker import Broker
from leveret.broker.connected import AMQP, SeenChannel, SeenConsumer, SeenPublisher, SeenSubscription
from leveret.broker.statistics.activity import AMQP091, Activity
from leveret.broker.topology import Topology
from leveret.core.channel import Channel
from leveret.core.connection import Connection
from leveret.errors import AmqpError, HardError, SoftError
from leveret.runtime.log import get_logger
from leveret.runtime.network import Pump, Switchboard
from leveret.session import basic_methods, channel_methods, exchange_methods, handshake, mode_methods, queue_methods
from leveret.session.ack_timeouts import recheck_acks
from leveret.session.blocking import Blocking
from leveret.session.channel import ChannelDesk
from leveret.session.life import ConnectionLife
from leveret.session.rights import end_unreadable
from leveret.session.seen import seen_channel, seen_consumer
from leveret.session.settings import SessionSettings
from leveret.wire.basic_methods import BasicPublish
from leveret.wire.channel_methods import ChannelClose, ChannelOpen
from leveret.wire.codec import decode_method, encode_method
from leveret.wire.connection_methods import (
    ConnectionClose,
    ConnectionCloseOk,
    ConnectionStartOk,
    ConnectionTune,
    ConnectionUpdateSecret,
)
from leveret.wire.constants import HEARTBEAT_FRAME, PROTOCOL_HEADER
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
RUNNING = 0


class Session(ConnectionLife[Method]):
    noun = "connection"
    spoken = AMQP
    heartbeat_frame = HEARTBEAT_FRAME
    close_deadline_s = 5.0
    core: Connection

    def __init__(
        self, broker: Broker, topology: Topology, settings: SessionSettings, board: Switchboard, pump: Pump
    ) -> None:
        super().__init__(broker, topology, settings, board, pump)
        self.core = Connection(self.outbox, FRAME_MAX_BEFORE_AUTHENTICATION, settings.channel_max)
        self.desks: dict[int, ChannelDesk] = {}
        # The protocol header as far as it has come, or None once it is complete.
        self._header: bytearray | None = bytearray()
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

    @property
    def is_open(self) -> bool:
        return self._expected == RUNNING

    def client_can(self, capability: str) -> bool:
        capabilities = self.client_properties.get("capabilities")
        return isinstance(capabilities, dict) and capabilities.get(capability) is True

    def send(self, said: Method) -> None:
        """Sends a method of the connection itself, on channel 0."""
        self.outbox.write(encode_method(0, said))

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
        if not PROTOCOL_HEADER.startswith(header):
            self.outbox.write(PROTOCOL_HEADER)
            self.pump.close()
            return 0
        if len(header) == len(PROTOCOL_HEADER):
            self._header = None
            handshake.send_start(self)
        data[: size - count] = data[count:size]
        return size - count

    def _run(self, data: bytearray | None, size: int) -> None:
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
                    self.pump.close()
                    return
                self.fail(error)
            except Exception:
                fresh = False
                log.exception("connection handler failed", peer=self.peer_name, user=self.user)
                self.fail_internally()
            handled += 1
            if self._must_stop(handled):
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

    def wait_for(self, work: Coroutine[Any, Any, None], why: int) -> None:
        """Does slow work, one at a time, before anything more is read; it ends with the session."""
        self.suspend(why)
        self._task = asyncio.ensure_future(self._work(work, why))

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
        elif method_id == BasicPublish.METHOD and number in self.desks:
            self._blocking.published(self)
        else:
            self._handle_channel(number, method_id, payload)

    def _handle_connection(self, method_id: int, payload: bytes) -> None:
        method = decode_method(method_id, payload)
        if isinstance(method, ConnectionCloseOk) and self._closing:
            self.pump.close()
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

    def close_by_broker(self, code: int, text: str) -> None:
        self._start_close(ConnectionClose(code, f"{HardError(code, text).reply_text}"))
        self.board.kick()

    def _mute(self) -> None:
        self.core.muted = True

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

    def calmed(self) -> None:
        self.core.calm()

    # ---- alarms and permissions

    def _ask_again(self) -> None:
        for desk in self.desks.values():
            desk.core.intake.forget_permissions()

    def _end_what_is_not_allowed(self) -> None:
        for desk in list(self.desks.values()):
            if desk.is_open:
                end_unreadable(desk)

    def blocked_changed(self, reason: str | None) -> None:
        self._blocking.alarm_changed(self, reason)

    def collect_located(self, number: int, found: dict[tuple[int, int], object]) -> None:
        for desk in self.desks.values():
            desk.core.collect_located(number, found)

    # ---- what operators see

    @property
    def channel_count(self) -> int:
        return len(self.desks)

    def channels(self) -> Iterator[SeenChannel]:
        return (seen_channel(desk) for _, desk in sorted(self.desks.items()) if desk.is_open)

    def channel(self, number: int) -> SeenChannel | None:
        desk = self.desks.get(number)
        return seen_channel(desk) if desk is not None and desk.is_open else None

    def consumers(self) -> Iterator[SeenConsumer]:
        for desk in list(self.desks.values()):
            for consumer in list(desk.core.consumers.values()):
                yield seen_consumer(desk, consumer)

    def publishers_seen(self) -> Iterator[SeenPublisher]:
        return iter(())

    def subscriptions_seen(self) -> Iterator[SeenSubscription]:
        return iter(())

    def counted(self) -> tuple[Connection, list[Channel]]:
        return self.core, [desk.core for desk in self.desks.values()]

    def count_into(self, activity: Activity) -> None:
        activity.add_connection(AMQP091, self.core, self.outbox)
        for desk in self.desks.values():
            activity.add_channel(desk.core)

    def ack_timeouts_changed(self) -> None:
        """Queues have got other timeouts for acknowledgements."""
        for desk in self.desks.values():
            if desk.is_open:
                recheck_acks(desk)

"""One stream client's conversation: what the compiled connection hands up, and everything around it.

The stream protocol's counterpart of session/session.py, on the same session/protocol_session.py: it never waits, a step
that must (a login, an offset that is looked up on disk, an alarm) suspends it, and all errors end here. What a request
lacks is told in its response; a frame that makes no sense ends the connection."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Iterator
from typing import Any

from leveret.auth.access import READ, WRITE
from leveret.broker.activity import Activity
from leveret.broker.broker import Broker
from leveret.broker.connected import STREAM, ChannelInfo, ConsumerInfo, PublisherInfo, SubscriptionInfo
from leveret.broker.streams import StreamService
from leveret.broker.super_streams import SuperStreams
from leveret.broker.topology import Topology
from leveret.core.connection.channel import Channel
from leveret.core.stream.connection import StreamConnection
from leveret.core.stream.publish_path import StreamPublisher
from leveret.errors import AlreadyExists, AmqpError, HardError
from leveret.runtime.log import get_logger
from leveret.runtime.network import SocketHub, SocketTransport
from leveret.session.protocol_session import ProtocolSession
from leveret.session.settings import SessionSettings
from leveret.session.stream import consuming, handshake, publishing, streams
from leveret.session.stream.info import seen_publisher, seen_stream_consumer, seen_subscription
from leveret.session.stream.subscription import Subscription
from leveret.session.suspension import FOR_ALARM, FOR_LOAD
from leveret.wire import stream_commands as commands
from leveret.wire.limits import STREAM_FRAME_MAX_BEFORE_AUTHENTICATION
from leveret.wire.stream_codec import decode_command, frame_of
from leveret.wire.stream_codes import CODE_NAMES, Code, Key
from leveret.wire.stream_commands import Command, Request

log = get_logger(__name__)

# What each command leads to, and which class its answer is, by the command's class.
HANDLERS: dict[type[Command], Callable[[StreamSession, Any], None]] = {
    **publishing.HANDLERS,
    **consuming.HANDLERS,
    **streams.HANDLERS,
}
# AMQP's reply codes as the stream protocol's.
CODES = {
    311: Code.FRAME_TOO_LARGE,
    403: Code.ACCESS_REFUSED,
    404: Code.STREAM_DOES_NOT_EXIST,
    405: Code.PRECONDITION_FAILED,
    406: Code.PRECONDITION_FAILED,
    541: Code.INTERNAL_ERROR,
}


def code_of(error: AmqpError) -> int:
    if isinstance(error, AlreadyExists):
        return Code.STREAM_ALREADY_EXISTS
    return CODES.get(error.code, Code.PRECONDITION_FAILED)


class StreamSession(ProtocolSession[Command]):
    noun = "stream connection"
    spoken = STREAM
    heartbeat_frame = frame_of(commands.Heartbeat())
    # Not long, because some clients never answer and notice only the socket's end.
    close_deadline_s = 1.0
    core: StreamConnection

    def __init__(
        self,
        broker: Broker,
        topology: Topology,
        super_streams: SuperStreams,
        settings: SessionSettings,
        board: SocketHub,
        transport: SocketTransport,
    ) -> None:
        super().__init__(broker, topology, settings, board, transport)
        self.super_streams = super_streams
        self.streams = StreamService(broker, topology)
        # The address by which this client has come.
        self._arrival = transport.local
        self.unfinished = broker.limits.unfinished.open_account(self)
        self.core = StreamConnection(self.write_buffer, STREAM_FRAME_MAX_BEFORE_AUTHENTICATION, self.unfinished)
        self.subscriptions: dict[int, Subscription] = {}
        self.step = handshake.Step.STARTING
        # The last correlation id of a request of ours, and who waits for the answer.
        self._last_correlation = 0
        self._waiting: dict[int, Callable[[commands.ConsumerUpdateResponse], None]] = {}
        # Agreed in the handshake
        self.frame_max = settings.stream_frame_max
        self.deliver_version = 1
        self._last_heartbeat_ms = 0

    @property
    def is_open(self) -> bool:
        return self.step is handshake.Step.OPEN

    @property
    def advertised(self) -> tuple[str, int]:
        """What the client is told to connect to."""
        chosen = self.settings.stream_advertised if self.transport.tls is None else self.settings.stream_tls_advertised
        return chosen[0] or self._arrival[0], chosen[1] or self._arrival[1]

    @property
    def handshake_state(self) -> str:
        return handshake.STATES[self.step]

    @property
    def last_heartbeat_ms(self) -> int:
        return self._last_heartbeat_ms

    @property
    def publishers(self) -> dict[int, StreamPublisher]:
        publishers: dict[int, StreamPublisher] = self.core.publishers
        return publishers

    def send(self, said: Command) -> None:
        self.write_buffer.write(frame_of(said))

    # ---- octets in

    def received(self, data: bytearray, size: int) -> None:
        self.broker.tick()
        self._run(data, size)
        self._heed_congestion()

    def _run(self, data: bytearray | None, size: int) -> None:
        self.board.turns.start_slice()
        while not self.gone:
            try:
                event = self.core.proceed() if data is None else self.core.feed(data, size)
                data = None
                if event is None:
                    return
                self._handle(event)
            except AmqpError as error:
                data = None
                self.fail(error)
            except Exception:
                data = None
                log.exception("stream connection handler failed", peer=self.peer_name, user=self.user)
                self.fail_internally()
            if self._must_stop():
                return

    def wait_for(self, work: Coroutine[Any, Any, None], why: int = FOR_LOAD) -> None:
        """Does slow work, one at a time, before anything more is read."""
        assert not self._suspended & why
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
            log.exception("stream connection handler failed", peer=self.peer_name, user=self.user)
            self.fail_internally()
        if not self.gone:
            self.resume(why)

    # ---- commands

    def _handle(self, event: bytes) -> None:
        if not event:
            self._published_during_alarm()
            return
        command = decode_command(event)
        if isinstance(command, commands.CloseResponse) and self._closing:
            self.transport.close()
        elif isinstance(command, commands.Close):
            self._answer_close(commands.CloseResponse(command.correlation_id, Code.OK))
        elif isinstance(command, commands.Heartbeat):
            self._last_heartbeat_ms = self.broker.office.now
        elif self._closing:
            return
        elif not self.is_open:
            handshake.take_step(self, command)
        elif isinstance(command, commands.ConsumerUpdateResponse):
            self._answered(command)
        elif isinstance(command, commands.SaslHandshake | commands.SaslAuthenticate):
            handshake.authenticate_again(self, command)
        else:
            self._perform(command)

    def _perform(self, command: Command) -> None:
        handler = HANDLERS.get(type(command))
        if handler is None:
            raise HardError(503, f"a stream client cannot send {type(command).__name__} now")
        store = self.broker.store
        logged = store.commands_total if store is not None else 0
        try:
            handler(self, command)
        except AmqpError as error:
            if error.ends_connection or not isinstance(command, Request):
                raise
            self.refuse(command, code_of(error), error.text)
        if store is not None and store.commands_total != logged:
            self.hold_output()

    def refuse(self, command: Request, code: int, why: str = "") -> None:
        """Answers with a code and nothing else that the answer's class may have."""
        log.info(
            "stream command refused",
            command=type(command).__name__,
            peer=self.peer_name,
            user=self.user,
            code=CODE_NAMES[code],
            reason=why,
        )
        self.broker.churn.stream_errors[code] += 1
        self.send(empty_response(command, code))

    def ask(
        self, command: Callable[[int], Command], answered: Callable[[commands.ConsumerUpdateResponse], None]
    ) -> int:
        """Sends a request of ours, made with the correlation id that it gets; that id."""
        correlation_id = self._next_correlation()
        self._waiting[correlation_id] = answered
        self.send(command(correlation_id))
        return correlation_id

    def _next_correlation(self) -> int:
        self._last_correlation = self._last_correlation % 0xFFFFFFFF + 1
        return self._last_correlation

    def forget_answer(self, correlation_id: int) -> None:
        self._waiting.pop(correlation_id, None)

    def _answered(self, response: commands.ConsumerUpdateResponse) -> None:
        answered = self._waiting.pop(response.correlation_id, None)
        if answered is not None:
            answered(response)

    # ---- the life of the connection

    def opened(self) -> None:
        self.core.opened = True
        super().opened()

    def fail(self, error: AmqpError) -> None:
        """A frame that makes no sense, or a mistake of ours: the client is told why and the connection closed."""
        log.info("stream connection closed by error", peer=self.peer_name, user=self.user, error=str(error))
        if self._closing or not self.is_open:
            # Closing already, or not open yet: the socket is closed without a Close command.
            self.core.stop()
            self.transport.close()
            return
        code = CODES.get(error.code, Code.UNKNOWN_FRAME)
        self.broker.churn.stream_errors[code] += 1
        self._start_close(commands.Close(self._next_correlation(), code, error.text))

    def close_by_broker(self, code: int, text: str) -> None:
        """Closes the socket without a Close command, as RabbitMQ does: clients take that command for an end that they
        wanted themselves, and would not connect again."""
        log.info("stream connection closed by the broker", peer=self.peer_name, user=self.user, code=code, reason=text)
        self._hang_up()
        self.board.kick()

    def _mute(self) -> None:
        self.core.stop()

    def lost(self, reason: str) -> None:
        super().lost(reason)
        # Gives back what has come of a frame.
        self.core.stop()
        self.broker.limits.unfinished.close_account(self.unfinished)

    def _release(self) -> None:
        """Publishers and subscriptions end."""
        for publisher in list(self.publishers.values()):
            publishing.remove(self, publisher)
        for subscription in list(self.subscriptions.values()):
            consuming.remove(self, subscription)
        self._waiting.clear()
        if self.connection_id in self.broker.connections:
            self.broker.disconnected(self.connection_id)

    def calmed(self) -> None:
        """The write buffer is no longer congested."""
        for subscription in list(self.subscriptions.values()):
            subscription.core.transport()

    # ---- what happens to others

    def stream_deleted(self, name: str) -> None:
        """A stream is gone that this client publishes to or reads."""
        for publisher in [each for each in self.publishers.values() if each.stream.record.name == name]:
            publishing.remove(self, publisher)
        for subscription in [each for each in self.subscriptions.values() if each.stream_name == name]:
            consuming.remove(self, subscription)
        self.after_reply(commands.MetadataUpdate(Code.STREAM_NOT_AVAILABLE, name))

    def after_reply(self, command: Command) -> None:
        """Sends something that is not the answer to the command being handled: not before that answer."""
        self.board.loop.call_soon(self._send_late, command)

    def _send_late(self, command: Command) -> None:
        if not self.gone and not self._closing:
            self.send(command)
            self.board.kick()

    def _ask_again(self) -> None:
        publishing.check_again(self)

    def _end_what_is_not_allowed(self) -> None:
        """The protocol has no word for a subscription or a publisher that ends: as in RabbitMQ the client hears that
        the stream is not to be had."""
        used = {(READ, subscription.stream_name) for subscription in self.subscriptions.values()}
        used |= {(WRITE, publisher.stream.record.name) for publisher in self.publishers.values()}
        for name in {name for right, name in used if not self.access.allows_queue(right, name)}:
            self.stream_deleted(name)

    def tracing_changed(self) -> None:
        """The stream protocol is not traced, as with RabbitMQ."""

    def ack_timeouts_changed(self) -> None:
        """Nothing is acknowledged here."""

    def collect_located(self, number: int, found: dict[tuple[int, int], object]) -> None:
        """Nothing of the node's log is held here."""

    # ---- what operators see

    @property
    def channel_count(self) -> int:
        return 0

    def channels(self) -> Iterator[ChannelInfo]:
        return iter(())

    def channel(self, number: int) -> ChannelInfo | None:
        return None

    def consumers(self) -> Iterator[ConsumerInfo]:
        return (seen_stream_consumer(self, one) for one in list(self.subscriptions.values()))

    def publishers_seen(self) -> Iterator[PublisherInfo]:
        return (seen_publisher(self, one) for one in list(self.publishers.values()))

    def subscriptions_seen(self) -> Iterator[SubscriptionInfo]:
        return (seen_subscription(self, one) for one in list(self.subscriptions.values()))

    def counted(self) -> tuple[StreamConnection, list[Channel]]:
        return self.core, []

    def count_into(self, activity: Activity) -> None:
        activity.add_connection(STREAM, self.core, self.write_buffer)
        for publisher in self.publishers.values():
            activity.add_publisher(publisher)
        activity.stream_consumers += len(self.subscriptions)
        activity.stream_errors[Code.PUBLISHER_DOES_NOT_EXIST] += self.core.unknown_publishers_total

    # ---- alarms

    def _published_during_alarm(self) -> None:
        """The client publishes although there is an alarm: it is read no further until that ends."""
        if self._must_not_publish():
            self.suspend(FOR_ALARM)
            self.heed_heartbeats()

    def _must_not_publish(self) -> bool:
        """As in RabbitMQ only while the disk is full. What is published here goes to disk at once and takes no memory;
        and the protocol has no command that would tell a client why it is not read."""
        return self.broker.is_blocked_by("disk")

    def blocked_changed(self, reason: str | None) -> None:
        self.core.alarmed = self._must_not_publish()
        if not self.core.alarmed and self._suspended & FOR_ALARM:
            self.resume(FOR_ALARM)
            self.heed_heartbeats()


# Which class answers which request, with the fields that follow the code if there is nothing to say.
_EMPTY: dict[int, tuple[Any, ...]] = {
    Key.QUERY_PUBLISHER_SEQUENCE: (0,),
    Key.QUERY_OFFSET: (0,),
    Key.RESOLVE_OFFSET_SPEC: (4, 0),
    Key.ROUTE: ([],),
    Key.PARTITIONS: ([],),
    Key.STREAM_STATS: ({},),
    Key.EXCHANGE_COMMAND_VERSIONS: ([],),
    Key.OPEN: ({},),
    Key.PEER_PROPERTIES: ({},),
    Key.SASL_HANDSHAKE: ([],),
}


def empty_response(command: Request, code: int) -> Command:
    kind: Any = commands.COMMANDS[command.KEY | 0x8000]
    made: Command = kind(command.correlation_id, code, *_EMPTY.get(command.KEY, ()))
    return made

"""One stream client's connection from accept to close: what the compiled connection hands up, and everything around it.

The stream protocol's counterpart of session/session.py, and built the same way: it never waits, a step that must (a
login, an offset that is looked up on disk, an alarm) suspends it, and all errors end here. What a request lacks is told
in its response; a frame that makes no sense ends the connection."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

from leveret.broker.access import Access
from leveret.broker.broker import Broker
from leveret.broker.streams import StreamService
from leveret.broker.super_streams import SuperStreams
from leveret.broker.topology import Topology
from leveret.broker.vhost import LiveVhost
from leveret.core.outbox import Outbox
from leveret.core.stream_connection import StreamConnection
from leveret.core.stream_intake import StreamPublisher
from leveret.errors import AlreadyExists, AmqpError, HardError
from leveret.runtime.log import get_logger
from leveret.runtime.network import PAUSE_DISK, Pump, Switchboard
from leveret.session.heartbeat import Heartbeat
from leveret.session.settings import SessionSettings
from leveret.session.stream import consuming, handshake, publishing, streams
from leveret.session.stream.subscription import Subscription
from leveret.session.suspension import FOR_ALARM, FOR_LOAD, FOR_TURN
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
# How long a client may take to answer a close before the socket is closed anyway: not long, because some never do and
# notice only that.
CLOSE_DEADLINE_S = 1.0
# Commands of one connection handled before the loop turns to others.
COMMANDS_A_TURN = 256
# How often a session looks whether its client has read enough of its answers to be given more.
FLOOD_POLL_S = 0.01
HEARTBEAT_FRAME = frame_of(commands.Heartbeat())

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


class StreamSession:
    def __init__(
        self,
        broker: Broker,
        topology: Topology,
        super_streams: SuperStreams,
        settings: SessionSettings,
        board: Switchboard,
        pump: Pump,
    ) -> None:
        self.broker = broker
        self.topology = topology
        self.super_streams = super_streams
        self.streams = StreamService(broker, topology)
        self.settings = settings
        self.board = board
        self.pump = pump
        self.peer = pump.peer
        # What clients are told to connect to: the address by which this one has come.
        self.advertised = pump.local
        self.connection_id = broker.new_connection_id()
        self.outbox = Outbox(board.dirty, board.spares)
        self.core = StreamConnection(self.outbox, STREAM_FRAME_MAX_BEFORE_AUTHENTICATION)
        self.subscriptions: dict[int, Subscription] = {}
        self.journal = broker.store.journal if broker.store is not None else None
        self.step = handshake.Step.STARTING
        # A set of FOR_ bits, 0 while it runs.
        self._suspended = 0
        # The pending resume of a session that gave way to others.
        self._turn: asyncio.Handle | None = None
        self._task: asyncio.Future[None] | None = None
        self._closing = False
        self.gone = False
        self._held = False
        # The last correlation id of a request of ours, and who waits for the answer.
        self._last_correlation = 0
        self._waiting: dict[int, Callable[[commands.ConsumerUpdateResponse], None]] = {}
        self._timer = board.loop.call_later(settings.handshake_deadline_s, self._handshake_late)
        self._heartbeat: Heartbeat | None = None
        # Agreed in the handshake
        self.client_properties: dict[str, str] = {}
        self.mechanism = ""
        self.user = ""
        self.frame_max = settings.stream_frame_max
        self.heartbeat_s = 0
        self.deliver_version = 1
        self.vhost: LiveVhost
        self.access: Access
        self.connected_at = broker.clock.wall()

    @property
    def peer_name(self) -> str:
        return f"{self.peer[0]}:{self.peer[1]}"

    @property
    def publishers(self) -> dict[int, StreamPublisher]:
        publishers: dict[int, StreamPublisher] = self.core.publishers
        return publishers

    def send(self, command: Command) -> None:
        self.outbox.write(frame_of(command))

    # ---- octets in

    def received(self, data: bytearray, size: int) -> None:
        self.broker.tick()
        self._run(data, size)
        if self.journal is not None and self.journal.congested and self.core.published:
            self.pump.pause_reading(PAUSE_DISK)
            self.broker.stalled[self.connection_id] = self
            self.heed_heartbeats()
        self.core.published = False

    def _run(self, data: bytearray | None, size: int) -> None:
        """Works through a chunk, or goes on with the one it stopped in."""
        fresh = data is not None
        handled = 0
        while not self.gone:
            try:
                event = self.core.feed(data, size) if fresh else self.core.proceed()
                fresh = False
                if event is None:
                    return
                self._handle(event)
            except AmqpError as error:
                fresh = False
                self.fail(error)
            except Exception:
                fresh = False
                log.exception("stream connection handler failed", peer=self.peer_name, user=self.user)
                self.fail(HardError(541, "the broker made a mistake; its log says more"))
            handled += 1
            if (handled == COMMANDS_A_TURN or self.outbox.flooded()) and not self._suspended:
                self.suspend(FOR_TURN)
                self._turn = self.board.loop.call_soon(self._next_turn)
            if self._suspended:
                self.core.detach()
                return

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

    def wait_for(self, work: Coroutine[Any, Any, None], why: int = FOR_LOAD) -> None:
        """Does slow work, one at a time, before anything more is read."""
        assert not self._suspended & why
        self.suspend(why)
        self._task = asyncio.ensure_future(self._work(work, why))

    async def _work(self, work: Coroutine[Any, Any, None], why: int) -> None:
        try:
            await work
        except AmqpError as error:
            self.fail(error)
        except Exception:
            log.exception("stream connection handler failed", peer=self.peer_name, user=self.user)
            self.fail(HardError(541, "the broker made a mistake; its log says more"))
        if not self.gone:
            self.resume(why)

    # ---- commands

    def _handle(self, event: bytes) -> None:
        if not event:
            self._published_during_alarm()
            return
        command = decode_command(event)
        if isinstance(command, commands.CloseResponse) and self._closing:
            self.pump.close()
        elif isinstance(command, commands.Close):
            self._release()
            self.send(commands.CloseResponse(command.correlation_id, Code.OK))
            self._closing = True
            self.core.stop()
            self.pump.close()
        elif self._closing or isinstance(command, commands.Heartbeat):
            return
        elif self.step is not handshake.Step.OPEN:
            handshake.take_step(self, command)
        elif isinstance(command, commands.ConsumerUpdateResponse):
            self._answered(command)
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
            # The answer first of all waits until what was done is on disk.
            self.outbox.barrier = store.require_sync()

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
        self.send(empty_response(command, code))

    def ask(
        self, command: Callable[[int], Command], answered: Callable[[commands.ConsumerUpdateResponse], None]
    ) -> int:
        """Sends a request of ours, made with the correlation id that it gets; that id."""
        self._last_correlation = self._last_correlation % 0xFFFFFFFF + 1
        self._waiting[self._last_correlation] = answered
        self.send(command(self._last_correlation))
        return self._last_correlation

    def forget_answer(self, correlation_id: int) -> None:
        self._waiting.pop(correlation_id, None)

    def _answered(self, response: commands.ConsumerUpdateResponse) -> None:
        answered = self._waiting.pop(response.correlation_id, None)
        if answered is not None:
            answered(response)

    # ---- the life of the connection

    def opened(self) -> None:
        """The handshake is over."""
        self._timer.cancel()
        self.core.opened = True
        self.broker.connected(self.connection_id, self)
        if self.heartbeat_s:
            self._heartbeat = Heartbeat(
                self.board, self.pump, self.core, self.outbox, self.heartbeat_s, HEARTBEAT_FRAME
            )
        self.core.alarmed = self.broker.blocked_reason is not None
        log.debug("stream connection opened", peer=self.peer_name, user=self.user, vhost=self.vhost.name)

    def fail(self, error: AmqpError) -> None:
        """A frame that makes no sense, or a mistake of ours: the client is told why and the connection closed."""
        log.info("stream connection closed by error", peer=self.peer_name, user=self.user, error=str(error))
        if self._closing or self.step is not handshake.Step.OPEN:
            # Nobody whom we know: no more words are wasted.
            self.core.stop()
            self.pump.close()
            return
        self._start_close(CODES.get(error.code, Code.UNKNOWN_FRAME), error.text)

    def _start_close(self, code: int, reason: str) -> None:
        """Gives everything back, says why, and waits for the answer, but not forever."""
        if self._closing or self.gone:
            return
        self._release()
        self._closing = True
        self.core.stop()
        self._last_correlation = self._last_correlation % 0xFFFFFFFF + 1
        self.send(commands.Close(self._last_correlation, code, reason))
        self._timer.cancel()
        self._timer = self.board.loop.call_later(CLOSE_DEADLINE_S, self.pump.close)
        if self._suspended:
            if self._turn is not None:
                self._turn.cancel()
                self._turn = None
            self.resume(self._suspended)

    def close_by_broker(self, code: int, text: str) -> None:
        self._start_close(Code.OK if code == 320 else CODES.get(code, Code.INTERNAL_ERROR), text)
        self.board.kick()

    def shut_down(self, text: str) -> None:
        """The node stops: an open connection is told, a stranger is simply let go."""
        if self.step is handshake.Step.OPEN:
            self.close_by_broker(320, text)
        else:
            self.pump.abort("shutdown")

    def _handshake_late(self) -> None:
        log.info("handshake took too long", peer=self.peer_name)
        self.pump.abort("handshake timeout")

    def _release(self) -> None:
        """Publishers and subscriptions end."""
        for publisher in list(self.publishers.values()):
            publishing.remove(self, publisher)
        for subscription in list(self.subscriptions.values()):
            consuming.remove(self, subscription)
        self._waiting.clear()
        if self.connection_id in self.broker.connections:
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
        log.debug("stream connection closed", peer=self.peer_name, user=self.user, reason=reason)

    def calmed(self) -> None:
        """The outbox is no longer congested."""
        for subscription in list(self.subscriptions.values()):
            subscription.core.pump()

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

    def permissions_changed(self, user: str) -> None:
        if user == self.user:
            self.access.forget()
            publishing.check_again(self)

    def user_deleted(self, user: str) -> None:
        if user == self.user:
            self.close_by_broker(320, f"user '{user}' is deleted")

    def vhost_deleted(self, vhost: str) -> None:
        if vhost == self.vhost.name:
            self.close_by_broker(320, f"vhost '{vhost}' is deleted")

    def ack_timeouts_changed(self) -> None:
        """Nothing is acknowledged here."""

    def collect_located(self, number: int, found: dict[tuple[int, int], object]) -> None:
        """Nothing of the node's log is held here."""

    # ---- alarms and the disk

    def _published_during_alarm(self) -> None:
        """The client publishes although there is an alarm: it is read no further until that ends."""
        if self.broker.blocked_reason is not None and not self._held:
            self._held = True
            self.suspend(FOR_ALARM)
            self.heed_heartbeats()

    def blocked_changed(self, reason: str | None) -> None:
        self.core.alarmed = reason is not None
        if reason is None and self._held:
            self._held = False
            self.resume(FOR_ALARM)
            self.heed_heartbeats()

    def disk_calmed(self) -> None:
        """The disk has caught up: the client is read again."""
        self.pump.resume_reading(PAUSE_DISK)
        self.heed_heartbeats()

    @property
    def held_up(self) -> bool:
        return self._held or self.connection_id in self.broker.stalled

    def heed_heartbeats(self) -> None:
        """A client that is held up is not read: its silence says nothing then."""
        if self._heartbeat is not None:
            self._heartbeat.listen(not self.held_up)


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

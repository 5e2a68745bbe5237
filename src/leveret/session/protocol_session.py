"""The life of a client's connection, whichever protocol it speaks: accepted, opened, held up, closed, gone.

Owns what both kinds of session do alike: being suspended and resumed, giving way to others, the deadlines of the
handshake and of a close, heartbeats, and what the broker tells every connection. It never looks into a frame: what is
said, and what a client holds, belongs to session/session.py and session/stream/session.py."""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from typing import Any, ClassVar, Generic, Protocol, TypeVar

from leveret.auth.access import Access
from leveret.auth.audit import Actor
from leveret.auth.identity import Identity
from leveret.broker.broker import Broker
from leveret.broker.connected import Connected, ConnectionInfo, connection_name
from leveret.broker.topology import Topology
from leveret.broker.vhost import LiveVhost
from leveret.core.codec.write_buffer import WriteBuffer
from leveret.errors import AmqpError, HardError
from leveret.runtime.log import get_logger
from leveret.runtime.network import PAUSE_DISK, SocketHub, SocketTransport
from leveret.runtime.turns import METHOD_WORK, Waiting
from leveret.session.heartbeat import Heartbeat, Receiver
from leveret.session.seen import seen_connection
from leveret.session.settings import SessionSettings
from leveret.session.suspension import FOR_ALARM, FOR_DISK, FOR_TURN

log = get_logger(__name__)

# How often a session looks whether its client has read enough of its answers to be given more.
FLOOD_POLL_S = 0.01
# How often a session looks at least whether its client's token has ended.
EXPIRY_LOOK_S = 60.0

# What is sent to the client: a method of AMQP or a command of the stream protocol.
Said = TypeVar("Said")


class Core(Receiver, Protocol):
    """The compiled connection of either protocol, as far as it matters here."""

    # A publish came since this was last looked at.
    published: bool
    # Whether a publish is to be seen here before anything more is read.
    alarmed: bool

    @property
    def chunks_received(self) -> int: ...

    def detach(self) -> object: ...


class ProtocolSession(Connected, ABC, Generic[Said]):
    """A session without its conversation.

    A subclass works through what comes in (`received`, `_run`), says things its own way (`send`, `fail`,
    `close_by_broker`) and knows what is to be given back (`_release`)."""

    # What the log calls it.
    noun: ClassVar[str]
    # What operators call it.
    spoken: ClassVar[str]
    heartbeat_frame: ClassVar[bytes]
    # How long a client may take to answer a close before the socket is closed anyway.
    close_deadline_s: ClassVar[float]
    # Made by the subclass; its frames go to the write buffer that is made here.
    core: Core

    def __init__(
        self,
        broker: Broker,
        topology: Topology,
        settings: SessionSettings,
        board: SocketHub,
        transport: SocketTransport,
    ) -> None:
        self.broker = broker
        self.topology = topology
        self.settings = settings
        self.board = board
        self.transport = transport
        self.peer = transport.peer
        # Known once it is open.
        self.local = ("", 0)
        self.name = ""
        self.connection_id = broker.new_connection_id()
        broker.half_open[self.connection_id] = self
        self.write_buffer = WriteBuffer(board.dirty, board.spares)
        # Where durable queues log their messages; None if there is no disk behind this broker.
        self.journal = broker.store.journal if broker.store is not None else None
        # A set of FOR_ bits, 0 while it runs.
        self._suspended = 0
        # The pending resume of a session that gave way to others.
        self._turn: Waiting | asyncio.TimerHandle | None = None
        # The one piece of slow work that a suspended session waits for.
        self._task: asyncio.Future[None] | None = None
        self._closing = False
        self.gone = False
        # Until when the handshake must be over; later, until when a close must be answered.
        self._timer = board.loop.call_later(settings.handshake_deadline_s, self._handshake_late)
        self._heartbeat: Heartbeat | None = None
        # Agreed in the handshake
        self.client_properties: dict[str, Any] = {}
        self.mechanism = ""
        self.user = ""
        self.identity: Identity
        self.channel_max = 0
        self.frame_max = 0
        self.heartbeat_s = 0
        self.vhost: LiveVhost
        self.access: Access
        self.connected_at = broker.clock.wall()
        # What its rights end with, if they do; and what makes it heed that they have changed.
        self._expiry: asyncio.TimerHandle | None = None
        self._rights_turn: asyncio.Handle | None = None

    @property
    def peer_name(self) -> str:
        return f"{self.peer[0]}:{self.peer[1]}"

    @property
    def actor(self) -> Actor:
        """For the audit log."""
        return Actor(self.user, self.peer_name, self.spoken)

    # ---- what the protocols do differently

    @property
    @abstractmethod
    def is_open(self) -> bool:
        """Whether the handshake is over."""

    @abstractmethod
    def _run(self, data: bytearray | None, size: int) -> None:
        """Works through a chunk, or goes on with the one it stopped in. No error leaves it."""

    @abstractmethod
    def send(self, said: Said) -> None: ...

    @abstractmethod
    def fail(self, error: AmqpError) -> None:
        """Ends what the error ends, and tells the client why."""

    @abstractmethod
    def close_by_broker(self, code: int, text: str) -> None:
        """The broker does not want the client any more, for the reason of this reply code."""

    @abstractmethod
    def _mute(self) -> None:
        """Nothing that still comes counts, but for what ends the conversation."""

    @abstractmethod
    def _release(self) -> None:
        """Gives back what the client holds; called again when that is done already."""

    # ---- turns

    def suspend(self, why: int) -> None:
        """Nothing more is read or handled until it was resumed for every reason there was."""
        self._suspended |= why
        self.transport.pause_reading()

    def resume(self, why: int) -> None:
        self._suspended &= ~why
        if self._suspended:
            return
        self._run(None, 0)
        self._heed_congestion()
        if not self._suspended and not self.gone:
            self.transport.resume_reading()
        self.board.kick()

    def _must_stop(self, work: int = METHOD_WORK) -> bool:
        """For `_run`, after each thing it has handled, which was so much work: true if the rest of the chunk has to
        wait."""
        if (self.board.turns.is_slice_over(work) or self.write_buffer.flooded()) and not self._suspended:
            # Others want their turn, too; and a client that does not read its answers gets no more of them.
            self.suspend(FOR_TURN)
            self._turn = self.board.turns.wait(self.transport.group, self._next_turn)
        if self._suspended:
            self.core.detach()
            return True
        return False

    def _next_turn(self) -> None:
        if self.write_buffer.flooded():
            self._turn = self.board.loop.call_later(FLOOD_POLL_S, self._next_turn)
        else:
            self._turn = None
            self.resume(FOR_TURN)

    def _cancel_turn(self) -> None:
        if self._turn is not None:
            self._turn.cancel()
            self._turn = None

    # ---- opened

    def opened(self) -> None:
        """The handshake is over."""
        self._timer.cancel()
        self.broker.half_open.pop(self.connection_id, None)
        self.local = self.transport.local
        self.name = connection_name(self.peer, self.local)
        self.transport.group = self.vhost.name
        self.broker.connected(self.connection_id, self)
        self._await_expiry()
        if self.heartbeat_s:
            self._heartbeat = Heartbeat(
                self.board, self.transport, self.core, self.write_buffer, self.heartbeat_s, self.heartbeat_frame
            )
        self.core.alarmed = self._must_not_publish()
        log.debug(f"{self.noun} opened", peer=self.peer_name, user=self.user, vhost=self.vhost.name)

    def _must_not_publish(self) -> bool:
        """Whether an alarm holds up publishers of this protocol."""
        return self.broker.blocked_reason is not None

    def _handshake_late(self) -> None:
        log.info("handshake took too long", peer=self.peer_name)
        self.drop("handshake timeout")

    # ---- the disk, and being held up

    def hold_output(self) -> None:
        """Sends nothing, the answer to what is being handled first of all, before what was done is on disk."""
        if self.broker.store is not None:
            self.write_buffer.barrier = self.broker.store.require_sync()

    def _heed_congestion(self) -> None:
        """After a chunk: a client that publishes is read no further while it is far ahead of the disk."""
        if self.gone:
            return
        if self.core.published and self.broker.store is not None and self.broker.store.is_congested:
            self._await_disk()
        self.core.published = False

    def _await_disk(self) -> None:
        self.transport.pause_reading(PAUSE_DISK)
        self.broker.stalled[self.connection_id] = self
        self.heed_heartbeats()

    def _hold_for_disk(self) -> None:
        """In the middle of a chunk: the disk is so far behind that not even its rest can be taken."""
        self.suspend(FOR_DISK)
        self._await_disk()
        self.core.detach()

    def disk_calmed(self) -> None:
        """The disk has caught up: the client is read again."""
        self.transport.resume_reading(PAUSE_DISK)
        if self._suspended & FOR_DISK:
            self.resume(FOR_DISK)
        self.heed_heartbeats()

    @property
    def held_up(self) -> bool:
        """Whether the broker does not read the client, because of an alarm or a slow disk."""
        return bool(self._suspended & FOR_ALARM) or self.connection_id in self.broker.stalled

    def heed_heartbeats(self) -> None:
        """A client that is held up, by an alarm, by the disk or by both, is not read: its silence says nothing then."""
        self.broker.blocked_connections.note(self.connection_id, self.held_up)
        if self._heartbeat is not None:
            self._heartbeat.listen(not self.held_up)

    # ---- the end

    def fail_internally(self) -> None:
        """An internal error: the client gets code 541, or is disconnected if that fails. Others are not affected."""
        try:
            self.fail(HardError(541, "the broker made a mistake; its log says more"))
        except Exception:
            log.exception("closing after the failure failed, too", peer=self.peer_name, user=self.user)
            self.drop("internal error")

    def _start_close(self, close: Said) -> None:
        """Gives everything back, says why, and waits for the answer, but not forever."""
        if self._closing or self.gone:
            return
        self._end_work()
        self.send(close)
        self._timer = self.board.loop.call_later(self.close_deadline_s, self.transport.close)
        if self._suspended:
            self._cancel_turn()
            self.resume(self._suspended)

    def _hang_up(self) -> None:
        """Gives everything back, sends what was already said, and closes the socket without a reason."""
        if not self._closing and not self.gone:
            self._end_work()
            self.transport.close()

    def _end_work(self) -> None:
        self._release()
        self._begin_closing()
        self._forget_rights()
        self._mute()
        self._timer.cancel()

    def _answer_close(self, answer: Said) -> None:
        """The client itself closes: it gets everything done, this answer, and the end of the socket."""
        self._release()
        self.send(answer)
        self._begin_closing()
        self._mute()
        self.transport.close()

    def _begin_closing(self) -> None:
        self._closing = True
        if not self.gone:
            self.broker.half_open[self.connection_id] = self

    def drop(self, reason: str) -> None:
        """Closes the socket without a word, as RabbitMQ does with strangers."""
        self.transport.abort(reason)

    def shut_down(self, text: str, code: int = 320) -> None:
        """The node stops: an open connection is told, a stranger is simply let go."""
        if self.is_open:
            self.close_by_broker(code, text)
        else:
            self.drop("shutdown")

    def lost(self, reason: str) -> None:
        """The socket is closed."""
        self.gone = True
        self.broker.half_open.pop(self.connection_id, None)
        self.broker.stalled.pop(self.connection_id, None)
        self.broker.blocked_connections.note(self.connection_id, False)
        self._timer.cancel()
        self._cancel_turn()
        self._forget_rights()
        if self._heartbeat is not None:
            self._heartbeat.stop()
            self._heartbeat = None
        if self._task is not None:
            self._task.cancel()
        try:
            self._release()
        except Exception:
            log.exception("giving back what the connection held failed", peer=self.peer_name, user=self.user)
        log.debug(f"{self.noun} closed", peer=self.peer_name, user=self.user, reason=reason)

    # ---- what operators see

    @property
    def protocol(self) -> str:
        return self.spoken

    @property
    def vhost_name(self) -> str:
        """Empty as long as the client has not said which one it wants."""
        vhost: LiveVhost | None = getattr(self, "vhost", None)
        return "" if vhost is None else vhost.name

    @property
    def is_closing(self) -> bool:
        return self._closing

    @property
    @abstractmethod
    def handshake_state(self) -> str:
        """What is awaited of the client before the connection is open."""

    @property
    @abstractmethod
    def last_heartbeat_ms(self) -> int:
        """When the client's last heartbeat came; 0 if none did."""

    @property
    def is_blocked(self) -> bool:
        """Whether it is not read because it publishes while there is an alarm."""
        return bool(self._suspended & FOR_ALARM)

    def seen(self) -> ConnectionInfo:
        return seen_connection(self)

    # ---- rights

    def permissions_changed(self, user: str) -> None:
        if user == self.user:
            self.rights_changed()

    def rights_changed(self) -> None:
        """Nothing that was decided counts any more; and what has begun goes on only if it may. That waits for the end
        of the turn, when everything of a change is done."""
        self.access.forget()
        self._ask_again()
        if self._rights_turn is None:
            self._rights_turn = self.board.loop.call_soon(self._heed_rights)

    def _heed_rights(self) -> None:
        self._rights_turn = None
        if self.gone or self._closing:
            return
        if not self.identity.may_enter(self.vhost.name):
            self.close_by_broker(320, f"access to vhost '{self.vhost.name}' refused for user '{self.user}'")
        else:
            self._end_what_is_not_allowed()
            self.board.kick()

    @abstractmethod
    def _ask_again(self) -> None:
        """The data plane forgets what the user may do."""

    @abstractmethod
    def _end_what_is_not_allowed(self) -> None: ...

    def renew(self, identity: Identity) -> None:
        """The same user has shown a newer token."""
        self.identity = identity
        self.access.renew(identity)
        self.rights_changed()
        self._await_expiry()

    def _await_expiry(self) -> None:
        if self._expiry is not None:
            self._expiry.cancel()
            self._expiry = None
        if self.identity.expires_at is not None:
            left_s = self.identity.expires_at - self.broker.clock.wall()
            # Not in one go: the clock may be set.
            self._expiry = self.board.loop.call_later(min(max(left_s, 0.0), EXPIRY_LOOK_S), self._look_at_expiry)

    def _look_at_expiry(self) -> None:
        expires_at = self.identity.expires_at
        if expires_at is not None and self.broker.clock.wall() >= expires_at:
            self.close_by_broker(320, "credential expired")
        else:
            self._await_expiry()

    def _forget_rights(self) -> None:
        for handle in (self._expiry, self._rights_turn):
            if handle is not None:
                handle.cancel()
        self._expiry = self._rights_turn = None

    # ---- what happens to others

    def user_deleted(self, user: str) -> None:
        # A token's bearer may have the same name without being that user.
        if user == self.user and not self.identity.exists:
            self.close_by_broker(320, f"user '{user}' is deleted")

    def vhost_deleted(self, vhost: str) -> None:
        if vhost == self.vhost.name:
            self.close_by_broker(320, f"vhost '{vhost}' is deleted")

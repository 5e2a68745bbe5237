"""Sockets: a transport that moves bytes between one socket and one session, and what the transports of a loop share.

With runtime/tls_transport.py the only code that calls recv and send. One receive buffer serves all transports of a
loop, because a session works through a chunk in one go; output gathers in write buffers and goes out once per loop
turn, one send a connection."""

from __future__ import annotations

import asyncio
import select
import socket
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Protocol

from leveret.runtime.descriptors import Share
from leveret.runtime.log import get_logger
from leveret.runtime.process import UNLIMITED
from leveret.runtime.turns import Turns, Waiting

if TYPE_CHECKING:
    from leveret.runtime.tls_peer import TlsPeer

log = get_logger(__name__)

# Half of what congests an write buffer: then what one chunk publishes fits into one consumer's write buffer and need
# not wait in its queue. Measured: 0.16 instead of 0.21 us of CPU a message of 16 B, 0.8 instead of 1.1 of 1 KiB.
RECEIVE_BYTES = 131072
# Pieces of one sendmsg; the kernel takes at most 1024.
PIECES_MAX = 64
RESETS_A_TURN = 256
# How long a closing connection may take to send its last octets and to see the peer close.
DRAIN_DEADLINE_S = 2.0
# How long a peer that has closed its side may stay while nothing is read. Most pauses are shorter, and what it sent
# before is read then as ever; an alarm may last for hours.
ENDED_UNREAD_S = 3.0
# A peer that is silent for so long is asked by the kernel whether it is still there, and given up after so many
# questions without an answer: two minutes in all, where heartbeats are off or not listened to.
KEEPALIVE_IDLE_S = 60
KEEPALIVE_INTERVAL_S = 15
KEEPALIVE_PROBES = 4

# The first octet of TCP_INFO when nothing will come any more.
TCP_CLOSED = 7
# Why a transport does not read: its session said so; its peer does not read either; it is closing;
PAUSE_SESSION = 1
PAUSE_FLOODED = 2
PAUSE_CLOSING = 4
# it publishes faster than the disk takes it.
PAUSE_DISK = 8
# it waits for its turn, because others have used up this one.
PAUSE_TURN = 32
# Outboxes that are flushed before others have their turn: each is a system call.
FLUSHED_A_TURN = 512


class Endpoint(Protocol):
    """What a transport needs of a session."""

    # core.codec.write_buffer.WriteBuffer, which this floor cannot name.
    write_buffer: Any

    def received(self, data: bytearray, size: int) -> None: ...

    def calmed(self) -> None:
        """The write buffer was congested and no longer is."""

    def lost(self, reason: str) -> None:
        """The socket is closed, for whatever reason; called once."""


class SocketHub:
    """What the transports of one loop share: the receive buffer, the write buffers with something in them (which put
    themselves on the list), and spare buffers that write buffers pass on to one another."""

    def __init__(
        self, loop: asyncio.AbstractEventLoop, descriptors: Share | None = None, meter: Any | None = None
    ) -> None:
        """`descriptors` counts the sockets of the transports; `meter`, a core.observe.meter.Meter, what their sessions
        do."""
        self.loop = loop
        self.turns = Turns(loop, self._flush, meter)
        self.descriptors = descriptors or Share("amqp", UNLIMITED)
        self.buffer = bytearray(RECEIVE_BYTES)
        self.view = memoryview(self.buffer)
        self.dirty: list[Any] = []
        self.spares: list[bytearray] = []
        self._scheduled = False
        # The last batch of the log that is on disk, and write buffers that wait for a later one.
        self._safe_batch = 0
        self._held: dict[Any, bool] = {}
        # Tells of sockets that were reset or whose peer has closed its side, see watch.
        self._resets = select.epoll()
        self._watched: dict[int, SocketTransport] = {}
        loop.add_reader(self._resets.fileno(), self._on_resets)

    def close(self) -> None:
        """The loop is about to end."""
        if not self._resets.closed:
            self.loop.remove_reader(self._resets.fileno())
            self._resets.close()

    def watch(self, sock: socket.socket, transport: SocketTransport) -> None:
        """A peer may send something and reset the connection at once. The loop tells of that a single time and watches
        the socket no more, but what was sent is read first: the reset would never be noticed. Nor would the end of a
        peer that is not read at present."""
        if sock.family != socket.AF_UNIX:
            self._watched[sock.fileno()] = transport
            # Errors and hang-ups are told of without being asked for.
            self._resets.register(sock, select.EPOLLET | select.EPOLLRDHUP)
            _keep_alive(sock)

    def unwatch(self, fd: int) -> None:
        if self._watched.pop(fd, None) is not None and not self._resets.closed:
            self._resets.unregister(fd)

    def _on_resets(self) -> None:
        for fd, events in self._resets.poll(0, RESETS_A_TURN):
            transport = self._watched.get(fd)
            if transport is None:
                continue
            if events & (select.EPOLLHUP | select.EPOLLERR):
                transport.was_reset()
            else:
                transport.peer_ended()

    def holds(self, write_buffer: Any) -> bool:
        """Whether the write buffer must wait for the disk; then it is flushed when the disk is done."""
        if write_buffer.barrier <= self._safe_batch:
            write_buffer.barrier = 0
            return False
        self._held[write_buffer] = True
        return True

    def batch_synced(self, batch: int) -> None:
        """Everything up to this batch of the log is on disk."""
        self._safe_batch = batch
        if self._held:
            self.dirty.extend(self._held)
            self._held.clear()
            self.kick()

    def kick(self) -> None:
        """To be called after anything that may have written into write buffers: flushes them when the turn ends."""
        if self.dirty and not self._scheduled:
            self._scheduled = True
            self.loop.call_soon(self._flush)

    def _flush(self) -> None:
        self._scheduled = False
        batch = self.dirty[:FLUSHED_A_TURN]
        del self.dirty[:FLUSHED_A_TURN]
        for write_buffer in batch:
            transport: SocketTransport | None = write_buffer.owner
            if transport is None:
                write_buffer.discard()
                write_buffer.calm_down()
            else:
                try:
                    transport.flush()
                except Exception:
                    # A mistake of ours with one connection must not keep the others' output from going out.
                    log.exception("flushing a connection failed", peer=transport.peer)
                    transport.abort("internal error")
        self.kick()


class SocketTransport:
    """One accepted socket. Reads while it may, writes what the write buffer holds, and tells its endpoint when it is
    over."""

    __slots__ = (
        "_board",
        "_closing",
        "_drain_timer",
        "_end_timer",
        "_ended",
        "_fd",
        "_pauses",
        "_reading",
        "_sock",
        "_turn",
        "_writing",
        "endpoint",
        "group",
        "on_closed",
        "peer",
        "reached",
        "tls",
    )

    def __init__(self, board: SocketHub, sock: socket.socket, peer: tuple[str, int]) -> None:
        self._board = board
        board.descriptors.used += 1
        self._sock: socket.socket | None = sock
        self._fd = sock.fileno()
        # The client's, also if it came through a proxy.
        self.peer = peer
        # The address of the proxy that the client connected to, if a proxy has said so.
        self.reached: tuple[str, int] | None = None
        # What is known of the other end if this is TLS and its handshake is over.
        self.tls: TlsPeer | None = None
        # Why nothing is read at present: a set of PAUSE bits. `_reading` says whether the loop watches the socket.
        self._pauses = 0
        self._reading = False
        self._writing = False
        self._closing = False
        self._drain_timer: asyncio.TimerHandle | None = None
        # Whether the peer has closed its side, and until when what it sent before may wait to be read.
        self._ended = False
        self._end_timer: asyncio.TimerHandle | None = None
        # Its place among those who wait for a turn, if it does; and with whom it shares the turns: its virtual host.
        self._turn: Waiting | None = None
        self.group = ""
        self.endpoint: Endpoint | None = None
        # Told once, when the socket is closed.
        self.on_closed: Callable[[SocketTransport], None] | None = None

    def start(self, endpoint: Endpoint) -> None:
        self.endpoint = endpoint
        endpoint.write_buffer.owner = self
        if self._sock is not None:
            self._board.watch(self._sock, self)
        self.resume_reading()

    @property
    def local(self) -> tuple[str, int]:
        """The address by which the peer has come."""
        if self.reached is not None:
            return self.reached
        assert self._sock is not None
        name = self._sock.getsockname()
        return name[0], name[1]

    # ---- in

    @property
    def flooded(self) -> bool:
        """Whether nothing is read because the peer does not read."""
        return bool(self._pauses & PAUSE_FLOODED)

    def resume_reading(self, why: int = PAUSE_SESSION) -> None:
        self._pauses &= ~why
        if self._pauses == 0 and not self._reading and self._sock is not None:
            self._reading = True
            self._board.loop.add_reader(self._fd, self._readable)

    def pause_reading(self, why: int = PAUSE_SESSION) -> None:
        self._pauses |= why
        if self._reading:
            self._reading = False
            self._board.loop.remove_reader(self._fd)
        if self._ended:
            self._await_reading()

    def _readable(self) -> None:
        """The socket has something. It stays there while others are to come first."""
        if self._board.turns.is_over():
            self.pause_reading(PAUSE_TURN)
            self._turn = self._board.turns.wait(self.group, self._take_turn)
        else:
            self._read()

    def _take_turn(self) -> None:
        self._turn = None
        self._pauses &= ~PAUSE_TURN
        if self._pauses == 0:
            self._read()
            self.resume_reading(PAUSE_TURN)

    def _read(self) -> None:
        sock, endpoint = self._sock, self.endpoint
        if sock is None or endpoint is None:
            return
        board = self._board
        try:
            size = sock.recv_into(board.view)
        except (BlockingIOError, InterruptedError):
            return
        except OSError as error:
            self._drop(f"reading failed: {error}")
            return
        if size == 0:
            self._drop("closed by peer")
            return
        board.turns.charge(size)
        endpoint.received(board.buffer, size)
        if endpoint.write_buffer.flooded():
            self.pause_reading(PAUSE_FLOODED)
        if board.dirty:
            board.kick()

    def was_reset(self) -> None:
        """The peer is gone for good. What it sent before is still worked through, unless nothing is read at present:
        then nobody knows when that would be."""
        if self._sock is None:
            return
        if self._pauses == PAUSE_TURN:
            # It is about to be read.
            self._board.loop.call_soon(self.was_reset)
            return
        if self._pauses:
            self._drop("closed" if self._closing else "reset by peer")
            return
        self._read()
        if self._sock is not None and _is_over(self._sock):
            self._board.loop.call_soon(self.was_reset)

    def peer_ended(self) -> None:
        """The peer has closed its side. Whoever reads sees that behind what was sent before; if nobody does, nobody
        knows whether the peer is there at all."""
        self._ended = True
        if self._pauses:
            self._await_reading()

    def _await_reading(self) -> None:
        if self._sock is not None and not self._closing and self._end_timer is None:
            self._end_timer = self._board.loop.call_later(ENDED_UNREAD_S, self._still_unread)

    def _still_unread(self) -> None:
        self._end_timer = None
        if self._pauses == PAUSE_TURN:
            self._await_reading()
        elif self._pauses and not self._closing:
            self._drop("closed by peer while it was not read")

    # ---- out

    def flush(self) -> None:
        """Sends what the socket takes now; the rest goes when it is writable again."""
        endpoint, sock = self.endpoint, self._sock
        if endpoint is None or sock is None:
            return
        write_buffer = endpoint.write_buffer
        if write_buffer.barrier and self._board.holds(write_buffer):
            self._watch_writing(False)
            return
        try:
            views = write_buffer.views(PIECES_MAX)
            while views:
                count = sock.send(views[0]) if len(views) == 1 else sock.sendmsg(views)
                total = sum(map(len, views)) if len(views) > 1 else len(views[0])
                write_buffer.sent(count)
                if count < total:
                    break
                views = write_buffer.views(PIECES_MAX)
        except (BlockingIOError, InterruptedError):
            pass
        except OSError as error:
            write_buffer.calm_down()
            self._drop(f"writing failed: {error}")
            return
        self._after_flush(write_buffer, endpoint, write_buffer.pending())

    def _after_flush(self, write_buffer: Any, endpoint: Endpoint, pending: int) -> None:
        """`pending` octets wait for the socket."""
        calmed = write_buffer.calm_down()
        if pending:
            self._watch_writing(True)
        elif self._writing:
            self._watch_writing(False)
        if self._pauses & PAUSE_FLOODED and not write_buffer.flooded():
            self.resume_reading(PAUSE_FLOODED)
        if calmed:
            endpoint.calmed()
        if self._closing and not write_buffer.pending():
            self._say_goodbye()

    def _watch_writing(self, watch: bool) -> None:
        """Whether the loop is to say when the socket takes more."""
        if watch and not self._writing:
            self._writing = True
            self._board.loop.add_writer(self._fd, self._writable)
        elif not watch and self._writing:
            self._writing = False
            self._board.loop.remove_writer(self._fd)

    def _writable(self) -> None:
        self.flush()
        self._board.kick()

    # ---- the end

    def close(self) -> None:
        """Sends what is left, then says goodbye and waits a moment for the peer to close its side.

        Closing at once with unread input would make the kernel reset the connection, and the peer might lose the
        very frame that says why. So what still comes is read and thrown away, for a bounded time."""
        if self._sock is None or self._closing:
            return
        self._closing = True
        self._drain_timer = self._board.loop.call_later(DRAIN_DEADLINE_S, self._drop, "closed")
        self.pause_reading(PAUSE_CLOSING)
        self.flush()

    def _say_goodbye(self) -> None:
        sock = self._sock
        if sock is None or self._reading:
            return
        try:
            sock.shutdown(socket.SHUT_WR)
        except OSError:
            self._drop("closed")
            return
        self._reading = True
        self._board.loop.add_reader(self._fd, self._drain)

    def _drain(self) -> None:
        assert self._sock is not None
        try:
            if self._sock.recv_into(self._board.view) == 0:
                self._drop("closed")
        except (BlockingIOError, InterruptedError):
            return
        except OSError:
            self._drop("closed")

    def abort(self, reason: str) -> None:
        """Closes at once; what was not sent is lost."""
        self._drop(reason)

    def _drop(self, reason: str) -> None:
        sock, self._sock = self._sock, None
        if sock is None:
            return
        self.pause_reading(PAUSE_CLOSING)
        self._watch_writing(False)
        if self._turn is not None:
            self._turn.cancel()
        for timer in (self._drain_timer, self._end_timer):
            if timer is not None:
                timer.cancel()
        self._board.unwatch(self._fd)
        sock.close()
        self._board.descriptors.used -= 1
        endpoint, self.endpoint = self.endpoint, None
        if endpoint is not None:
            endpoint.write_buffer.owner = None
            endpoint.write_buffer.discard()
            endpoint.lost(reason)
        if self.on_closed is not None:
            self.on_closed(self)
        self._board.kick()


def _is_over(sock: socket.socket) -> bool:
    """Whether no more will come but what is here, and the end."""
    return sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 1)[0] == TCP_CLOSED


def _keep_alive(sock: socket.socket) -> None:
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    # macOS has another name for the first.
    idle = getattr(socket, "TCP_KEEPIDLE", None) or getattr(socket, "TCP_KEEPALIVE", None)
    if idle is not None:
        sock.setsockopt(socket.IPPROTO_TCP, idle, KEEPALIVE_IDLE_S)
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPINTVL, KEEPALIVE_INTERVAL_S)
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPCNT, KEEPALIVE_PROBES)

"""Sockets: a listener that accepts, and a pump that moves bytes between one socket and one session.

With runtime/tls_pump.py the only code that calls recv and send. One receive buffer serves all pumps of a loop, because
a session works through a chunk in one go; output gathers in outboxes and goes out once per loop turn, one send a
connection."""

from __future__ import annotations

import asyncio
import errno
import resource
import select
import socket
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Protocol

from leveret.runtime.log import get_logger

if TYPE_CHECKING:
    from leveret.runtime.tls_peer import TlsPeer

log = get_logger(__name__)

# Half of what congests an outbox: then what one chunk publishes fits into one consumer's outbox and need not wait in
# its queue. Measured: 0.16 instead of 0.21 us of CPU a message of 16 B, 0.8 instead of 1.1 of 1 KiB.
RECEIVE_BYTES = 131072
# Pieces of one sendmsg; the kernel takes at most 1024.
PIECES_MAX = 64
ACCEPTS_A_TURN = 64
RESETS_A_TURN = 256
# File descriptors that connections never get: the store needs some whatever happens.
DESCRIPTORS_KEPT = 640
# How long accepting pauses when the process is out of file descriptors.
ACCEPT_PAUSE_S = 0.5
# How long a closing connection may take to send its last octets and to see the peer close.
DRAIN_DEADLINE_S = 2.0
OUT_OF_DESCRIPTORS = (errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM)


# The first octet of TCP_INFO when nothing will come any more.
TCP_CLOSED = 7
# Why a pump does not read: its session said so; its peer does not read either; it is closing;
PAUSE_SESSION = 1
PAUSE_FLOODED = 2
PAUSE_CLOSING = 4
# it publishes faster than the disk takes it.
PAUSE_DISK = 8


class Endpoint(Protocol):
    """What a pump needs of a session."""

    # core.outbox.Outbox, which this floor cannot name.
    outbox: Any

    def received(self, data: bytearray, size: int) -> None: ...

    def calmed(self) -> None:
        """The outbox was congested and no longer is."""

    def lost(self, reason: str) -> None:
        """The socket is closed, for whatever reason; called once."""


class Switchboard:
    """What the pumps of one loop share: the receive buffer, the outboxes with something in them (which put
    themselves on the list), and spare buffers that outboxes pass on to one another."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.loop = loop
        self.buffer = bytearray(RECEIVE_BYTES)
        self.view = memoryview(self.buffer)
        self.dirty: list[Any] = []
        self.spares: list[bytearray] = []
        self._scheduled = False
        # The last batch of the log that is on disk, and outboxes that wait for a later one.
        self._safe_batch = 0
        self._held: dict[Any, bool] = {}
        self.open_pumps = 0
        # Tells of sockets that were reset, see watch.
        self._resets = select.epoll()
        self._watched: dict[int, Pump] = {}
        loop.add_reader(self._resets.fileno(), self._on_resets)

    def close(self) -> None:
        """The loop is about to end."""
        if not self._resets.closed:
            self.loop.remove_reader(self._resets.fileno())
            self._resets.close()

    def watch(self, sock: socket.socket, pump: Pump) -> None:
        """A peer may send something and reset the connection at once. The loop tells of that a single time and watches
        the socket no more, but what was sent is read first: the reset would never be noticed."""
        if sock.family != socket.AF_UNIX:
            self._watched[sock.fileno()] = pump
            # Errors and hang-ups are told of without being asked for.
            self._resets.register(sock, select.EPOLLET)

    def unwatch(self, fd: int) -> None:
        if self._watched.pop(fd, None) is not None and not self._resets.closed:
            self._resets.unregister(fd)

    def _on_resets(self) -> None:
        for fd, _ in self._resets.poll(0, RESETS_A_TURN):
            pump = self._watched.get(fd)
            if pump is not None:
                pump.was_reset()

    def holds(self, outbox: Any) -> bool:
        """Whether the outbox must wait for the disk; then it is flushed when the disk is done."""
        if outbox.barrier <= self._safe_batch:
            outbox.barrier = 0
            return False
        self._held[outbox] = True
        return True

    def batch_synced(self, batch: int) -> None:
        """Everything up to this batch of the log is on disk."""
        self._safe_batch = batch
        if self._held:
            self.dirty.extend(self._held)
            self._held.clear()
            self.kick()

    def kick(self) -> None:
        """To be called after anything that may have written into outboxes: flushes them when the turn ends."""
        if self.dirty and not self._scheduled:
            self._scheduled = True
            self.loop.call_soon(self._flush)

    def _flush(self) -> None:
        self._scheduled = False
        batch = self.dirty.copy()
        self.dirty.clear()
        for outbox in batch:
            pump: Pump | None = outbox.owner
            if pump is None:
                outbox.discard()
                outbox.calm_down()
            else:
                try:
                    pump.flush()
                except Exception:
                    # A mistake of ours with one connection must not keep the others' output from going out.
                    log.exception("flushing a connection failed", peer=pump.peer)
                    pump.abort("internal error")
        self.kick()


class Pump:
    """One accepted socket. Reads while it may, writes what the outbox holds, and tells its endpoint when it is over."""

    __slots__ = (
        "_board",
        "_closing",
        "_drain_timer",
        "_fd",
        "_pauses",
        "_reading",
        "_sock",
        "_writing",
        "endpoint",
        "on_closed",
        "peer",
        "tls",
    )

    def __init__(self, board: Switchboard, sock: socket.socket, peer: tuple[str, int]) -> None:
        self._board = board
        board.open_pumps += 1
        self._sock: socket.socket | None = sock
        self._fd = sock.fileno()
        self.peer = peer
        # What is known of the other end if this is TLS and its handshake is over.
        self.tls: TlsPeer | None = None
        # Why nothing is read at present: a set of PAUSE bits. `_reading` says whether the loop watches the socket.
        self._pauses = 0
        self._reading = False
        self._writing = False
        self._closing = False
        self._drain_timer: asyncio.TimerHandle | None = None
        self.endpoint: Endpoint | None = None
        # Told once, when the socket is closed.
        self.on_closed: Callable[[Pump], None] | None = None

    def start(self, endpoint: Endpoint) -> None:
        self.endpoint = endpoint
        endpoint.outbox.owner = self
        if self._sock is not None:
            self._board.watch(self._sock, self)
        self.resume_reading()

    @property
    def local(self) -> tuple[str, int]:
        """The address by which the peer has come."""
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

    def _readable(self) -> None:
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
        endpoint.received(board.buffer, size)
        if endpoint.outbox.flooded():
            self.pause_reading(PAUSE_FLOODED)
        if board.dirty:
            board.kick()

    def was_reset(self) -> None:
        """The peer is gone for good. What it sent before is still worked through, unless nothing is read at present:
        then nobody knows when that would be."""
        if self._sock is None:
            return
        if self._pauses:
            self._drop("closed" if self._closing else "reset by peer")
            return
        self._readable()
        if self._sock is not None and _is_over(self._sock):
            self._board.loop.call_soon(self.was_reset)

    # ---- out

    def flush(self) -> None:
        """Sends what the socket takes now; the rest goes when it is writable again."""
        endpoint, sock = self.endpoint, self._sock
        if endpoint is None or sock is None:
            return
        outbox = endpoint.outbox
        if outbox.barrier and self._board.holds(outbox):
            self._watch_writing(False)
            return
        try:
            views = outbox.views(PIECES_MAX)
            while views:
                count = sock.send(views[0]) if len(views) == 1 else sock.sendmsg(views)
                total = sum(map(len, views)) if len(views) > 1 else len(views[0])
                outbox.sent(count)
                if count < total:
                    break
                views = outbox.views(PIECES_MAX)
        except (BlockingIOError, InterruptedError):
            pass
        except OSError as error:
            outbox.calm_down()
            self._drop(f"writing failed: {error}")
            return
        self._after_flush(outbox, endpoint, outbox.pending())

    def _after_flush(self, outbox: Any, endpoint: Endpoint, pending: int) -> None:
        """`pending` octets wait for the socket."""
        calmed = outbox.calm_down()
        if pending:
            self._watch_writing(True)
        elif self._writing:
            self._watch_writing(False)
        if self._pauses & PAUSE_FLOODED and not outbox.flooded():
            self.resume_reading(PAUSE_FLOODED)
        if calmed:
            endpoint.calmed()
        if self._closing and not outbox.pending():
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
        if self._drain_timer is not None:
            self._drain_timer.cancel()
        self._board.unwatch(self._fd)
        sock.close()
        self._board.open_pumps -= 1
        endpoint, self.endpoint = self.endpoint, None
        if endpoint is not None:
            endpoint.outbox.owner = None
            endpoint.outbox.discard()
            endpoint.lost(reason)
        if self.on_closed is not None:
            self.on_closed(self)
        self._board.kick()


def _is_over(sock: socket.socket) -> bool:
    """Whether no more will come but what is here, and the end."""
    return sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 1)[0] == TCP_CLOSED


MakePump = Callable[[Switchboard, socket.socket, tuple[str, int]], Pump]


class Listener:
    """A listening socket. Accepts in small batches, and pauses while the process runs out of file descriptors."""

    def __init__(
        self,
        board: Switchboard,
        host: str,
        port: int,
        accept: Callable[[Pump], None],
        make_pump: MakePump = Pump,
    ) -> None:
        self._board = board
        self._accept = accept
        self._make_pump = make_pump
        self._resume: asyncio.TimerHandle | None = None
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        self._sock = socket.socket(family, socket.SOCK_STREAM)
        self._sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self._sock.setblocking(False)
        try:
            self._sock.bind((host, port))
            self._sock.listen(1024)
        except OSError:
            self._sock.close()
            raise
        name = self._sock.getsockname()
        self.host: str = name[0]
        self.port: int = name[1]
        board.loop.add_reader(self._sock.fileno(), self._acceptable)

    def _acceptable(self) -> None:
        limit = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
        room = limit - min(DESCRIPTORS_KEPT, limit // 2) - self._board.open_pumps
        if room <= 0:
            self._pause()
            return
        for _ in range(min(ACCEPTS_A_TURN, room)):
            try:
                sock, peer = self._sock.accept()
            except (BlockingIOError, InterruptedError, ConnectionAbortedError):
                break
            except OSError as error:
                if error.errno not in OUT_OF_DESCRIPTORS:
                    raise
                self._pause()
                break
            sock.setblocking(False)
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            # A peer that vanished without heartbeats is noticed by the kernel at least.
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
            self._accept(self._make_pump(self._board, sock, (peer[0], peer[1])))
        self._board.kick()

    def _pause(self) -> None:
        self._board.loop.remove_reader(self._sock.fileno())
        self._resume = self._board.loop.call_later(ACCEPT_PAUSE_S, self._unpause)

    def _unpause(self) -> None:
        self._resume = None
        self._board.loop.add_reader(self._sock.fileno(), self._acceptable)

    def close(self) -> None:
        if self._resume is not None:
            self._resume.cancel()
            self._resume = None
        if self._sock.fileno() >= 0:
            self._board.loop.remove_reader(self._sock.fileno())
            self._sock.close()

"""TLS between a socket and a session: a transport whose octets are sealed on the way out and opened on the way in.

To its session it is a transport like any other. OpenSSL never touches the socket: what came is put into one memory
buffer, what is to go is taken from another, so that both are bounded here. Everything that came is opened at once:
nothing is ever left inside OpenSSL for which the socket would not wake us."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import ssl
from collections import deque
from collections.abc import Callable
from time import monotonic
from typing import Any, Protocol

from leveret.runtime.log import get_logger
from leveret.runtime.network import (
    PAUSE_FLOODED,
    PAUSE_SESSION,
    PIECES_MAX,
    RECEIVE_BYTES,
    Endpoint,
    SocketHub,
    SocketTransport,
)
from leveret.runtime.proxy_header import is_header
from leveret.runtime.tls_peer import TlsPeer

log = get_logger(__name__)

HANDSHAKE_DEADLINE_S = 5.0
# How long the handshakes of all may take before the loop turns to others. One with a long RSA key takes as much.
HANDSHAKE_TURN_S = 0.005
# A record with all that TLS may add to it. One can be there in part when a chunk comes, and what both contain must fit
# into the buffer that all transports share.
RECORD_BYTES_MAX = 5 + 16384 + 2048
CHUNK_BYTES = RECEIVE_BYTES - RECORD_BYTES_MAX
# How much is sealed ahead of the socket: four records.
SEALED_BYTES = 65536
# More than that is not ours: the peer makes OpenSSL answer (to new keys, to wished renegotiation) and does not read.
UNREAD_BYTES_MAX = 4 * SEALED_BYTES
# Why a transport does not read: its handshake waits for its turn.
PAUSE_HANDSHAKE = 16


class Certificates(Protocol):
    """As runtime.tls.ServerCertificates."""

    @property
    def context(self) -> ssl.SSLContext:
        """For the next connection; not to be kept."""


class TlsDoor:
    """Makes the transports of a listener, and shares the loop's time between their handshakes: a crowd that comes at
    once must not stall those who are in."""

    # Whether the transports are clients, which speak first.
    dials = False

    def __init__(self, loop: asyncio.AbstractEventLoop, certificates: Certificates) -> None:
        self._loop = loop
        self.certificates = certificates
        self._waiting: deque[TlsTransport] = deque()
        self._scheduled = False
        self.handshakes_total = 0
        self.handshakes_failed_total = 0

    def __call__(self, board: SocketHub, sock: socket.socket, peer: tuple[str, int]) -> SocketTransport:
        return TlsTransport(board, sock, peer, self)

    def wrap(self, incoming: ssl.MemoryBIO, outgoing: ssl.MemoryBIO) -> ssl.SSLObject:
        return self.certificates.context.wrap_bio(incoming, outgoing, server_side=not self.dials)

    def refused(self, transport: TlsTransport, error: OSError, first_octets: bytes) -> None:
        """A handshake has failed; a TimeoutError says that it was not over in time."""
        self.handshakes_failed_total += 1
        peer = f"{transport.peer[0]}:{transport.peer[1]}"
        if isinstance(error, TimeoutError):
            log.info("TLS handshake took too long", peer=peer)
        else:
            log.info("TLS handshake failed", peer=peer, reason=self.explain(error, first_octets))

    def explain(self, error: OSError, first_octets: bytes) -> str:
        if first_octets.startswith(b"AMQP"):
            return "the client speaks AMQP without TLS"
        if is_header(first_octets):
            return "a PROXY header from an address that is not in listen.proxy_networks"
        if isinstance(error, ssl.SSLCertVerificationError):
            return f"the client's certificate is refused: {error.verify_message}"
        return ssl_reason(error)

    def enqueue(self, transport: TlsTransport) -> None:
        self._waiting.append(transport)
        if not self._scheduled:
            self._scheduled = True
            self._loop.call_soon(self._turn)

    def _turn(self) -> None:
        self._scheduled = False
        # The loop's own time stands still within a turn.
        until = monotonic() + HANDSHAKE_TURN_S
        while self._waiting:
            transport = self._waiting.popleft()
            try:
                transport.shake_hands()
            except Exception:
                # A mistake of ours with one stranger must not keep the others out.
                log.exception("a TLS handshake failed inside", peer=transport.peer)
                transport.abort("internal error")
            if monotonic() >= until:
                break
        if self._waiting:
            self._scheduled = True
            self._loop.call_soon(self._turn)


class TlsTransport(SocketTransport):
    __slots__ = (
        "_deadline",
        "_door",
        "_established",
        "_first_octets",
        "_incoming",
        "_outgoing",
        "_read_into",
        "_said_goodbye",
        "_sealed",
        "_ssl",
        "_unopened",
    )

    def __init__(self, board: SocketHub, sock: socket.socket, peer: tuple[str, int], door: TlsDoor) -> None:
        super().__init__(board, sock, peer)
        self._door = door
        self._incoming = ssl.MemoryBIO()
        self._outgoing = ssl.MemoryBIO()
        self._ssl = door.wrap(self._incoming, self._outgoing)
        # With a buffer it gives how much it has put there, which its type does not say.
        self._read_into: Callable[[int, memoryview], int] = self._ssl.read  # type: ignore[assignment]
        self._established = False
        # Whether what came together with the end of the handshake, if anything, is still to be opened.
        self._unopened = False
        self._said_goodbye = False
        # What was taken from `_outgoing` and the socket has not taken yet.
        self._sealed = memoryview(b"")
        # To tell in the log who knocks here by mistake.
        self._first_octets = b""
        self._deadline: asyncio.TimerHandle | None = board.loop.call_later(HANDSHAKE_DEADLINE_S, self._late)

    # ---- the handshake

    def start(self, endpoint: Endpoint) -> None:
        super().start(endpoint)
        if self._door.dials:
            self.pause_reading(PAUSE_HANDSHAKE)
            self._door.enqueue(self)

    def shake_hands(self) -> None:
        """Goes on with the handshake as far as what has come allows; called when it is this transport's turn."""
        if self._sock is None:
            return
        try:
            self._ssl.do_handshake()
        except ssl.SSLWantReadError:
            self.flush()
            self.resume_reading(PAUSE_HANDSHAKE)
        except OSError as error:
            self._refuse(error)
        else:
            self._establish()

    def _establish(self) -> None:
        self._established = True
        self._forget_deadline()
        self._door.handshakes_total += 1
        cipher = self._ssl.cipher()
        self.tls = TlsPeer(
            self._ssl.version() or "", cipher[0] if cipher is not None else "", self._ssl.getpeercert(binary_form=True)
        )
        log.debug("TLS established", peer=self.peer, protocol=self.tls.protocol, cipher=self.tls.cipher_name)
        self.flush()
        # The first words of the client may have come with the end of the handshake.
        self._unopened = True
        self.resume_reading(PAUSE_HANDSHAKE)

    def _refuse(self, error: OSError) -> None:
        self._door.refused(self, error, self._first_octets)
        self._forget_deadline()
        # Not at once: the alert that says why is to arrive.
        self.close()

    def _late(self) -> None:
        self._deadline = None
        self._door.refused(self, TimeoutError("TLS handshake timeout"), self._first_octets)
        self._drop("TLS handshake timeout")

    def _forget_deadline(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None

    # ---- in

    def resume_reading(self, why: int = PAUSE_SESSION) -> None:
        if not self._unopened:
            super().resume_reading(why)
            return
        # What is here comes first: the socket may have the end of it all.
        self._pauses &= ~why
        if self._pauses == 0:
            self._board.loop.call_soon(self._open_rest)

    def _open_rest(self) -> None:
        if self._unopened and self._pauses == 0:
            self._unopened = False
            self._open()
            super().resume_reading(0)

    def was_reset(self) -> None:
        if self._pauses & PAUSE_HANDSHAKE:
            # What has come is about to be looked at, and may say why.
            self._board.loop.call_soon(self.was_reset)
        else:
            super().was_reset()

    def _read(self) -> None:
        sock = self._sock
        if sock is None or self.endpoint is None:
            return
        board = self._board
        try:
            size = sock.recv_into(board.view, CHUNK_BYTES)
        except (BlockingIOError, InterruptedError):
            return
        except OSError as error:
            self._drop(f"reading failed: {error}")
            return
        if size == 0:
            self._drop("closed by peer")
            return
        board.turns.charge(size)
        self._incoming.write(board.view[:size])
        if self._established:
            self._open()
            return
        if len(self._first_octets) < 4:
            self._first_octets += bytes(board.view[: min(size, 4)])
        self.pause_reading(PAUSE_HANDSHAKE)
        self._door.enqueue(self)

    def _open(self) -> None:
        """Opens everything that has come and hands it to the session, in one chunk."""
        endpoint, board = self.endpoint, self._board
        if self._sock is None or endpoint is None or self._closing:
            return
        view, filled, end = board.view, 0, ""
        try:
            while count := self._read_into(RECEIVE_BYTES - filled, view[filled:]):
                filled += count
            end = "closed by peer"
        except ssl.SSLWantReadError:
            pass
        except OSError as error:
            end = f"reading failed: {self._door.explain(error, self._first_octets)}"
        if filled:
            endpoint.received(board.buffer, filled)
            if endpoint.write_buffer.flooded():
                self.pause_reading(PAUSE_FLOODED)
        if end:
            self._end(end)
        elif self._outgoing.pending:
            self._answer()
        if board.dirty:
            board.kick()

    def _answer(self) -> None:
        """OpenSSL itself has something to say."""
        if self._outgoing.pending + len(self._sealed) > UNREAD_BYTES_MAX:
            self._drop("the peer does not read what TLS answers")
        elif not self._writing:
            self.flush()

    def _end(self, reason: str) -> None:
        """The peer has closed its side, or sent what cannot be opened. Says so, if the socket takes it now."""
        if self._sock is None:
            return
        self._close_ssl()
        with contextlib.suppress(OSError):
            self._send_sealed(self._sock)
        self._drop(reason)

    # ---- out

    def flush(self) -> None:
        endpoint, sock = self.endpoint, self._sock
        if endpoint is None or sock is None:
            return
        write_buffer = endpoint.write_buffer
        try:
            while self._send_sealed(sock) and self._established and not self._said_goodbye:
                if write_buffer.barrier and self._board.holds(write_buffer):
                    self._watch_writing(False)
                    return
                if not self._seal(write_buffer):
                    break
        except OSError as error:
            write_buffer.calm_down()
            self._drop(f"writing failed: {error}")
            return
        self._after_flush(write_buffer, endpoint, write_buffer.pending() + len(self._sealed))

    def _send_sealed(self, sock: socket.socket) -> bool:
        """Whether the socket took everything that is sealed."""
        try:
            while self._sealed or self._outgoing.pending:
                if not self._sealed:
                    self._sealed = memoryview(self._outgoing.read())
                self._sealed = self._sealed[sock.send(self._sealed) :]
        except (BlockingIOError, InterruptedError):
            return False
        return True

    def _seal(self, write_buffer: Any) -> bool:
        """Seals the next of what waits, not more than the socket is likely to take; false if nothing does.

        Small pieces are put together first: each write is a record of its own."""
        views = write_buffer.views(PIECES_MAX)
        if not views:
            return False
        chosen, size = [], 0
        for view in views:
            part = view[: SEALED_BYTES - size]
            chosen.append(part)
            size += len(part)
            if size == SEALED_BYTES:
                break
        write_buffer.sent(self._ssl.write(chosen[0] if len(chosen) == 1 else b"".join(chosen)))
        return True

    # ---- the end

    def _say_goodbye(self) -> None:
        sock = self._sock
        if sock is None or self._reading:
            return
        self._close_ssl()
        try:
            if not self._send_sealed(sock):
                self._watch_writing(True)
                return
        except OSError:
            self._drop("closed")
            return
        super()._say_goodbye()

    def _close_ssl(self) -> None:
        """Puts the close_notify behind everything else that is sealed; the peer then knows that nothing is missing."""
        if self._established and not self._said_goodbye:
            self._said_goodbye = True
            # It waits for the peer's, which we need not see; or there is nothing left to close.
            with contextlib.suppress(OSError):
                self._ssl.unwrap()

    def _drop(self, reason: str) -> None:
        self._forget_deadline()
        super()._drop(reason)


def ssl_reason(error: OSError) -> str:
    """OpenSSL's word for it, without underscores."""
    if isinstance(error, ssl.SSLError) and error.reason:
        return error.reason.replace("_", " ").lower()
    return str(error)

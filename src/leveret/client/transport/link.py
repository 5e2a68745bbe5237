"""One TCP connection to a broker, from its first octet to its last. It never recovers: it ends once, with a reason.

Moves octets between the socket and the compiled data plane, keeps heartbeats, and hands control methods to channels.
What it is used for, and what happens after its end, is the connection's business."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections import deque
from collections.abc import Callable
from typing import Any, cast

from leveret.client.errors import ClientError, ConnectionLost, again
from leveret.client.transport.heartbeat import Heartbeat
from leveret.core.client.channel_codec import ChannelCodec
from leveret.core.client.reader import Reader
from leveret.core.codec.write_buffer import WriteBuffer
from leveret.errors import HardError
from leveret.wire.codec import decode_method, encode_method
from leveret.wire.connection_methods import (
    ConnectionBlocked,
    ConnectionClose,
    ConnectionCloseOk,
    ConnectionUnblocked,
)
from leveret.wire.constants import FRAME_OVERHEAD_BYTES, HEARTBEAT_FRAME, PROTOCOL_HEADER
from leveret.wire.method import Method
from leveret.wire.negotiation import Agreement

log = logging.getLogger(__name__)

RECEIVE_BYTES = 262144
PIECES_AT_ONCE = 256
# Until the two sides have agreed on something.
FIRST_FRAME_MAX = 131072
GOODBYE = 200
# How long a socket that was closed may try to send the rest.
LINGER_S = 2.0
# Methods of channel 0 that wait to be looked at: a broker says one thing at a time.
TALK_MAX = 8

# What a channel makes of a control method, or of what a get gave.
Handler = Callable[[int, Any], None]


class Link(asyncio.BufferedProtocol):
    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._transport: asyncio.Transport | None = None
        self._chunk = bytearray(RECEIVE_BYTES)
        self._view = memoryview(self._chunk)
        self._reader = Reader(FIRST_FRAME_MAX)
        self._dirty: list[WriteBuffer] = []
        self._write_buffer = WriteBuffer(self._dirty, [])
        self._flush_planned = False
        self._heartbeat: Heartbeat | None = None
        self._handlers: dict[int, Handler] = {}
        self._ends: dict[int, Callable[[ClientError], None]] = {}
        self._holders: set[object] = set()
        # Methods of channel 0 that came and nobody has looked at; only during handshakes and the close.
        self._talk: deque[Method] = deque()
        # Set when there is something to hear, be it the end; and when the socket takes more, or it has ended.
        self._heard = asyncio.Event()
        self._is_paused = False
        self._room = asyncio.Event()
        self._room.set()
        self._closing = False
        # The socket is closed; and the timer that closes it by force.
        self._gone = asyncio.Event()
        self._linger: asyncio.TimerHandle | None = None
        self.agreed = Agreement(1, FIRST_FRAME_MAX, 0)
        self.server_properties: dict[str, Any] = {}
        # Why the broker does not read publishes at present.
        self.blocked: str | None = None
        self.on_blocked: Callable[[str | None], None] | None = None
        # Done when all is over, with the reason.
        self.ended: asyncio.Future[ClientError] = loop.create_future()

    # ---- the socket

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        # Not asserted: uvloop's transports do all that asyncio's do, but are none of them.
        self._transport = cast(asyncio.Transport, transport)
        self._transport.write(PROTOCOL_HEADER)

    def get_buffer(self, sizehint: int) -> memoryview:
        return self._view

    def buffer_updated(self, count: int) -> None:
        if self.ended.done():
            return
        reader = self._reader
        if reader.bytes_received == 0 and self._chunk[:4] == b"AMQP":
            self.fail(ConnectionLost("the broker speaks another version of AMQP"))
            return
        problem: HardError | None = None
        try:
            for number, method, arguments in reader.feed(self._chunk, count):
                self._dispatch(number, method, arguments)
        except HardError as error:
            problem = error
        # Also what stood before a mistake of the broker's: a message that is confirmed need not be sent again.
        self._tell_answered(reader.take_answered())
        for delivery_buffer in reader.take_woken():
            if delivery_buffer.wake is not None:
                delivery_buffer.wake()
        if problem is not None:
            self._refuse(problem)

    @staticmethod
    def _tell_answered(codecs: list[ChannelCodec]) -> None:
        """Whoever publishes on them may go on."""
        for codec in codecs:
            if codec.owner is not None:
                codec.owner(codec)

    def eof_received(self) -> bool:
        self.fail(ConnectionLost("the broker hung up"))
        return False

    def connection_lost(self, error: Exception | None) -> None:
        self._gone.set()
        if self._linger is not None:
            self._linger.cancel()
        self.fail(ConnectionLost("the broker hung up" if error is None else f"the connection broke: {error}"))

    def pause_writing(self) -> None:
        self._is_paused = True
        self._room.clear()

    def resume_writing(self) -> None:
        self._is_paused = False
        self._room.set()
        self._flush()

    # ---- out

    def send(self, channel: int, method: Method) -> None:
        """Raises ValueError or TypeError, naming the field, if the method cannot be written."""
        frame = encode_method(channel, method)
        if not self.ended.done():
            self.kick()
            self._write_buffer.write(frame)

    def kick(self) -> None:
        """Something is about to be written: it goes out at the end of the loop's turn, with all else."""
        if not self._flush_planned:
            self._flush_planned = True
            self._loop.call_soon(self._flush)

    def _flush(self) -> None:
        self._flush_planned = False
        self._dirty.clear()
        write_buffer = self._write_buffer
        if self._transport is None or self.ended.done():
            write_buffer.discard()
        while self._transport is not None and not self._is_paused and write_buffer.pending():
            data = b"".join(write_buffer.views(PIECES_AT_ONCE))
            write_buffer.sent(len(data))
            self._transport.write(data)
            if self._heartbeat is not None:
                self._heartbeat.sent()
        # After that, so that it is congested only while something waits.
        if write_buffer.calm_down():
            self._tell_answered(list(self._reader.codecs.values()))

    @property
    def pending_bytes(self) -> int:
        """What waits to be sent."""
        return int(self._write_buffer.pending())

    @property
    def channel_count(self) -> int:
        return len(self._handlers)

    @property
    def is_congested(self) -> bool:
        """The broker does not read as fast as we write: more is only kept in memory."""
        return self._is_paused

    async def room(self) -> None:
        """Waits until the socket takes more. Raises what the link ended with."""
        while self._is_paused and not self.ended.done():
            await self._room.wait()
        self.check()

    def check(self) -> None:
        if self.ended.done():
            raise again(self.ended.result())

    # ---- in

    def hold_reading(self, holder: object) -> None:
        """Reads nothing until all who hold it have let go: somebody has more than it can take."""
        if self.ended.done():
            return
        if not self._holders and self._transport is not None:
            self._transport.pause_reading()
        self._holders.add(holder)
        if self._heartbeat is not None:
            self._heartbeat.is_deaf = True

    def let_read(self, holder: object) -> None:
        self._holders.discard(holder)
        if self._holders or self.ended.done():
            return
        if self._heartbeat is not None:
            self._heartbeat.listen_again()
        if self._transport is not None:
            with contextlib.suppress(RuntimeError):
                self._transport.resume_reading()

    def _dispatch(self, number: int, method: int, arguments: Any) -> None:
        handler = self._handlers.get(number)
        if handler is not None:
            handler(method, arguments)
        elif number == 0:
            self._on_connection_method(decode_method(method, arguments))
        # Else it is of a channel that was given up.

    def _on_connection_method(self, method: Method) -> None:
        if isinstance(method, ConnectionClose):
            self.send(0, ConnectionCloseOk())
            self._flush()
            self.fail(ConnectionLost(method.reply_text, method.reply_code), orderly=True)
        elif isinstance(method, ConnectionBlocked):
            self._block(method.reason)
        elif isinstance(method, ConnectionUnblocked):
            self._block(None)
        elif len(self._talk) < TALK_MAX:
            self._talk.append(method)
            self._heard.set()
        else:
            raise HardError(503, f"nobody asked for {type(method).__name__}")

    def _block(self, reason: str | None) -> None:
        self.blocked = reason
        if self.on_blocked is not None:
            self.on_blocked(reason)

    def _refuse(self, error: HardError) -> None:
        """The broker sent what makes no sense: it is told, and believed no more."""
        log.error("the broker sent what makes no sense: %s", error.text, extra={"reason": error.text})
        self.send(0, ConnectionClose(error.code, "the client cannot read this"))
        self._flush()
        self.fail(ConnectionLost(f"the broker sent what makes no sense: {error.text}"), orderly=True)

    # ---- what its users need

    async def hear(self) -> Method:
        """The next method of channel 0. Raises what the link ended with."""
        while not self._talk:
            self.check()
            self._heard.clear()
            await self._heard.wait()
        return self._talk.popleft()

    def agree(self, agreed: Agreement) -> None:
        self.agreed = agreed
        # Never 0, which is no limit: see options.LIMITS.
        self._reader.frame_max = agreed.frame_max

    def start_heartbeats(self, interval_s: float) -> None:
        if interval_s > 0 and not self.ended.done():
            self._heartbeat = Heartbeat(self._loop, interval_s, self._beat, self._silent, self._received)

    def _received(self) -> int:
        return int(self._reader.bytes_received)

    def _beat(self) -> None:
        if not self._is_paused:
            self.kick()
            self._write_buffer.write(HEARTBEAT_FRAME)

    def _silent(self, seconds: float) -> None:
        self.fail(ConnectionLost(f"nothing was heard of the broker for {seconds:.1f} s"))

    def free_number(self) -> int:
        """For a new channel, 0 if all are in use."""
        numbers = range(1, self.agreed.channel_max + 1)
        return next((number for number in numbers if number not in self._handlers), 0)

    def add_channel(self, number: int, handler: Handler, end: Callable[[ClientError], None]) -> ChannelCodec:
        codec = ChannelCodec(number, self._write_buffer, self.agreed.frame_max - FRAME_OVERHEAD_BYTES)
        codec.kick = self.kick
        self._handlers[number] = handler
        self._ends[number] = end
        self._reader.add_lane(codec)
        return codec

    def drop_channel(self, number: int) -> None:
        self._handlers.pop(number, None)
        self._ends.pop(number, None)
        self._reader.drop_lane(number)

    # ---- the end

    async def close(self, deadline_s: float) -> None:
        """Says goodbye, and waits for the answer at most that long, then for the end of the socket. It is over when
        this is cancelled, too."""
        answered = False
        try:
            if not self.ended.done() and not self._closing:
                self._closing = True
                self.send(0, ConnectionClose(GOODBYE, "goodbye"))
                with contextlib.suppress(TimeoutError, ClientError):
                    async with asyncio.timeout(deadline_s):
                        while not answered:
                            answered = isinstance(await self.hear(), ConnectionCloseOk)
        finally:
            self.fail(ConnectionLost("the connection was closed"), orderly=answered)
        # A loop that ends before, as TLS still says goodbye, would leave the socket behind.
        if self._transport is not None:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(LINGER_S):
                    await self._gone.wait()

    def fail(self, reason: ClientError, orderly: bool = False) -> None:
        """It is over: every channel learns why. What comes later changes nothing. What is written already still goes
        out if the end is an orderly one; else the broker may well be out of reach."""
        if self.ended.done():
            return
        self.ended.set_result(reason)
        if self._heartbeat is not None:
            self._heartbeat.stop()
        if self._transport is not None:
            if orderly and not self._is_paused:
                self._transport.close()
                self._linger = self._loop.call_later(LINGER_S, self._transport.abort)
            else:
                self._transport.abort()
        self._heard.set()
        self._room.set()
        self._write_buffer.discard()
        ends, self._ends = self._ends, {}
        self._handlers = {}
        for end in ends.values():
            try:
                end(reason)
            except Exception:
                # A mistake of ours; the other channels are not to wait for ever.
                log.exception("a channel cannot end")

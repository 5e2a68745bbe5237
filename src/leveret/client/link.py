"""One TCP connection to a broker, from its first octet to its last. It never recovers: it ends once, with a reason.

Moves octets between the socket and the compiled data plane, keeps heartbeats, and hands control methods to channels.
What it is used for, and what happens after its end, is the connection's business."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Callable
from typing import Any, cast

from leveret.client.errors import ClientError, ConnectionLost, again
from leveret.client.heartbeat import Heartbeat
from leveret.core.client.lane import Lane
from leveret.core.client.reader import Reader
from leveret.core.outbox import Outbox
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

# What a channel makes of a control method, or of what a get gave.
Handler = Callable[[int, Any], None]


class Link(asyncio.BufferedProtocol):
    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._transport: asyncio.Transport | None = None
        self._chunk = bytearray(RECEIVE_BYTES)
        self._view = memoryview(self._chunk)
        self._reader = Reader(FIRST_FRAME_MAX)
        self._dirty: list[Outbox] = []
        self._outbox = Outbox(self._dirty, [])
        self._flush_planned = False
        self._heartbeat: Heartbeat | None = None
        self._handlers: dict[int, Handler] = {}
        self._ends: dict[int, Callable[[ClientError], None]] = {}
        self._holders: set[object] = set()
        # Methods of channel 0 that came and nobody has looked at; only during handshakes and the close.
        self._talk: asyncio.Queue[Method] = asyncio.Queue()
        self._is_paused = False
        self._room = asyncio.Event()
        self._room.set()
        self._closing = False
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
        try:
            events = reader.feed(self._chunk, count)
            for number, method, arguments in events:
                self._dispatch(number, method, arguments)
        except HardError as error:
            self._refuse(error)
            return
        for lane in reader.take_answered():
            if lane.owner is not None:
                lane.owner(lane)
        for sink in reader.take_woken():
            if sink.wake is not None:
                sink.wake()

    def eof_received(self) -> bool:
        self.fail(ConnectionLost("the broker hung up"))
        return False

    def connection_lost(self, error: Exception | None) -> None:
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
            self._outbox.write(frame)

    def kick(self) -> None:
        """Something is about to be written: it goes out at the end of the loop's turn, with all else."""
        if not self._flush_planned:
            self._flush_planned = True
            self._loop.call_soon(self._flush)

    def _flush(self) -> None:
        self._flush_planned = False
        self._dirty.clear()
        outbox = self._outbox
        outbox.calm_down()
        if self._transport is None or self.ended.done():
            outbox.discard()
            return
        while not self._is_paused and outbox.pending():
            data = b"".join(outbox.views(PIECES_AT_ONCE))
            outbox.sent(len(data))
            self._transport.write(data)
        if self._heartbeat is not None:
            self._heartbeat.sent()

    @property
    def pending_bytes(self) -> int:
        """What waits to be sent."""
        return int(self._outbox.pending())

    @property
    def is_congested(self) -> bool:
        """The broker does not read as fast as we write: more is only kept in memory."""
        return self._is_paused

    async def room(self) -> None:
        """Waits until the socket takes more. Raises what the link ended with."""
        while self._is_paused:
            await self.unless_ended(self._room.wait())
        self.check()

    async def unless_ended(self, awaitable: Any) -> None:
        """Waits for something of this link, and raises what it ended with if that is first."""
        waiting = asyncio.ensure_future(awaitable)
        try:
            await asyncio.wait((waiting, self.ended), return_when=asyncio.FIRST_COMPLETED)
        finally:
            waiting.cancel()
        self.check()

    def check(self) -> None:
        if self.ended.done():
            raise again(self.ended.result())

    # ---- in

    def hold_reading(self, holder: object) -> None:
        """Reads nothing until all who hold it have let go: somebody has more than it can take."""
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
        else:
            self._talk.put_nowait(method)

    def _block(self, reason: str | None) -> None:
        self.blocked = reason
        if self.on_blocked is not None:
            self.on_blocked(reason)

    def _refuse(self, error: HardError) -> None:
        """The broker sent what makes no sense: it is told, and believed no more."""
        log.error("the broker sent what makes no sense", extra={"problem": error.text})
        self.send(0, ConnectionClose(error.code, "the client cannot read this"))
        self._flush()
        self.fail(ConnectionLost(f"the broker sent what makes no sense: {error.text}"), orderly=True)

    # ---- what its users need

    async def hear(self) -> Method:
        """The next method of channel 0. Raises what the link ended with."""
        if self._talk.empty():
            waiting = asyncio.ensure_future(self._talk.get())
            try:
                await asyncio.wait((waiting, self.ended), return_when=asyncio.FIRST_COMPLETED)
                if waiting.done():
                    return waiting.result()
            finally:
                waiting.cancel()
            self.check()
        return self._talk.get_nowait()

    def agree(self, agreed: Agreement) -> None:
        self.agreed = agreed
        self._reader.frame_max = agreed.frame_max or 2**32 - 1

    def start_heartbeats(self, interval_s: float) -> None:
        if interval_s > 0 and not self.ended.done():
            self._heartbeat = Heartbeat(self._loop, interval_s, self._beat, self._silent, self._received)

    def _received(self) -> int:
        return int(self._reader.bytes_received)

    def _beat(self) -> None:
        if not self._is_paused:
            self.kick()
            self._outbox.write(HEARTBEAT_FRAME)

    def _silent(self, seconds: float) -> None:
        self.fail(ConnectionLost(f"nothing was heard of the broker for {seconds:.1f} s"))

    def free_number(self) -> int:
        """For a new channel, 0 if all are in use."""
        limit = self.agreed.channel_max or 65535
        return next((number for number in range(1, limit + 1) if number not in self._handlers), 0)

    def add_channel(self, number: int, handler: Handler, end: Callable[[ClientError], None]) -> Lane:
        lane = Lane(number, self._outbox, (self.agreed.frame_max or FIRST_FRAME_MAX) - FRAME_OVERHEAD_BYTES)
        lane.kick = self.kick
        self._handlers[number] = handler
        self._ends[number] = end
        self._reader.add_lane(lane)
        return lane

    def drop_channel(self, number: int) -> None:
        self._handlers.pop(number, None)
        self._ends.pop(number, None)
        self._reader.drop_lane(number)

    # ---- the end

    async def close(self, deadline_s: float) -> None:
        """Says goodbye, and waits for the answer at most that long."""
        answered = False
        if not self.ended.done() and not self._closing:
            self._closing = True
            self.send(0, ConnectionClose(GOODBYE, "goodbye"))
            with contextlib.suppress(TimeoutError, ClientError):
                async with asyncio.timeout(deadline_s):
                    while not answered:
                        answered = isinstance(await self.hear(), ConnectionCloseOk)
        self.fail(ConnectionLost("the connection was closed"), orderly=answered)

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
                self._loop.call_later(LINGER_S, self._transport.abort)
            else:
                self._transport.abort()
        ends, self._ends = self._ends, {}
        self._handlers = {}
        for end in ends.values():
            end(reason)

"""One connection through the proxy: a socket to the client, one to the server, and what is done to the octets between.

Lives in the proxy's loop and is touched there only. Never decides about other connections."""

import asyncio
import fcntl
import socket
import struct
import threading
from contextlib import suppress
from typing import Final

from tests.client.faults import (
    CUT,
    DROP_FRAME,
    HALF_OPEN,
    RESET,
    STALL_READING,
    STALL_SERVER,
    Action,
    Armed,
    Faults,
    Frame,
    FrameCutter,
    Side,
)

Address = tuple[str, int]

CHUNK_BYTES: Final = 1 << 18
# How long a cut connection is still read: closing a socket that has unread octets would send an RST.
LINGER_S: Final = 1.0
# How long an end waits for octets before it to leave.
LEAVE_S: Final = 1.0
# Asks Linux how many octets of a socket were not sent yet; Python has no name for it.
SIOCOUTQNSD: Final = 0x894B
# How often a second a slow link sends a piece.
SLOW_PIECES_PER_S: Final = 20
STEPS_MAX: Final = 10_000

OTHER: Final[dict[Side, Side]] = {"client": "server", "server": "client"}
# Of which sides nothing is read any more.
STOPPED_BY: Final[dict[Action, tuple[Side, ...]]] = {
    CUT: ("client", "server"),
    RESET: ("client", "server"),
    HALF_OPEN: ("client", "server"),
    STALL_READING: ("client",),
    STALL_SERVER: ("server",),
}


class Link:
    """`run` carries until both sides have closed or `end` is called. `close` must be called after it."""

    def __init__(self, client: socket.socket, target: Address, faults: Faults, *, black: bool, frozen: bool) -> None:
        self.client = client
        self.server = socket.socket(socket.AF_INET6 if ":" in target[0] else socket.AF_INET)
        for end in (self.client, self.server):
            end.setblocking(False)
            end.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.target = target
        self.faults = faults
        # Accepted, but there is nobody behind.
        self.black = black
        # What was seen, in order; the first STEPS_MAX of it.
        self.steps: list[tuple[Side, str]] = []
        # Octets per second each way; 0 for as fast as it goes.
        self.bytes_per_s = 0
        # Whether what this side sends is read and forwarded.
        self.flowing: dict[Side, asyncio.Event] = {"client": asyncio.Event(), "server": asyncio.Event()}
        if not frozen:
            self.thaw()
        # Who writes to the socket towards the receiver of what this side sends: garbage comes from either direction.
        self._writing: dict[Side, asyncio.Lock] = {"client": asyncio.Lock(), "server": asyncio.Lock()}
        self._ending: asyncio.Future[Action] = asyncio.get_running_loop().create_future()
        # Told when the connection has ended.
        self._witnesses: list[threading.Event] = []
        self._ended = False

    # ---- its end

    @property
    def is_open(self) -> bool:
        return not self._ended and not self._ending.done()

    def end(self, how: Action, witness: threading.Event | None = None) -> None:
        """Ends it by CUT or RESET. The witness is told when that has been done."""
        if witness is not None:
            self._witnesses.append(witness)
        if self._ended:
            self._tell()
        elif not self._ending.done():
            self._ending.set_result(how)

    def _tell(self) -> None:
        self._ended = True
        for witness in self._witnesses:
            witness.set()

    def close(self) -> None:
        self.client.close()
        self.server.close()
        self._tell()

    # ---- standing still

    def freeze(self, *sides: Side) -> None:
        for side in sides:
            self.flowing[side].clear()

    def thaw(self) -> None:
        for flowing in self.flowing.values():
            flowing.set()

    # ---- carrying

    async def run(self) -> None:
        work = asyncio.ensure_future(self._swallow() if self.black else self._bridge())
        try:
            await asyncio.wait((work, self._ending), return_when=asyncio.FIRST_COMPLETED)
        finally:
            work.cancel()
            await asyncio.wait((work,))
        how = None if work.cancelled() else work.result()
        if self._ending.done():
            how = self._ending.result()
        if how == RESET:
            for end in (self.client, self.server):
                # Lingering for no time at all is how a socket is told to close with an RST.
                end.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        elif how == CUT:
            await self._cut()

    async def _cut(self) -> None:
        for end in (self.client, self.server):
            with suppress(OSError):
                end.shutdown(socket.SHUT_WR)
        self._tell()
        with suppress(TimeoutError):
            async with asyncio.timeout(LINGER_S):
                await asyncio.gather(*(read_to_end(end) for end in (self.client, self.server)))

    async def _swallow(self) -> Action | None:
        await read_to_end(self.client)
        return None

    async def _bridge(self) -> Action | None:
        """Gives how the link ends: None if both sides have closed in good order."""
        how = None
        try:
            async with asyncio.TaskGroup() as transports:
                await self.flowing["client"].wait()
                await asyncio.get_running_loop().sock_connect(self.server, self.target)
                transports.create_task(self._transport("client", self.client))
                transports.create_task(self._transport("server", self.server))
        except* OSError:
            # One side has reset it, or there is no server: both sides are to see that.
            how = RESET
        return how

    async def _transport(self, side: Side, source: socket.socket) -> None:
        """Forwards what one side sends, up to its end and including that."""
        loop = asyncio.get_running_loop()
        cutter = FrameCutter()
        while True:
            await self.flowing[side].wait()
            chunk = await loop.sock_recv(source, CHUNK_BYTES)
            # It may have been stopped since: then what was read has not been seen yet.
            await self.flowing[side].wait()
            quiet: list[bytes] = []
            for frame in cutter.cut(chunk):
                if len(self.steps) < STEPS_MAX:
                    self.steps.append((side, frame.name))
                fault = self.faults.struck_by(side, frame.name)
                if fault is None:
                    quiet.append(frame.octets)
                    continue
                await self._send(side, b"".join(quiet))
                quiet.clear()
                if not await self._strike(fault, frame):
                    return
            if not chunk:
                await self._send(side, cutter.rest)
                with suppress(OSError):
                    self._delivery_buffer(side).shutdown(socket.SHUT_WR)
                return
            await self._send(side, b"".join(quiet))

    async def _strike(self, fault: Armed, frame: Frame) -> bool:
        """Lets the fault happen at this frame; gives whether the connection lives on."""
        side = fault.step.side
        at = fault.step.octets_before_fault(len(frame.octets))
        # First of all the other way, where the receiver's answer to this frame must not pass any more.
        if OTHER[side] in STOPPED_BY.get(fault.action, ()):
            self.freeze(OTHER[side])
        await self._send(side, frame.octets[:at])
        rest = frame.octets[at:]
        if fault.action in (CUT, RESET):
            await left(self._delivery_buffer(side))
        # Before anybody can notice: who does may ask whether it has happened.
        fault.happened.set()
        if fault.action in (CUT, RESET):
            self.end(fault.action)
            return False
        self.freeze(*STOPPED_BY.get(fault.action, ()))
        self.bytes_per_s = fault.action.bytes_per_s or self.bytes_per_s
        if fault.action.octets:
            await self._send("server", fault.action.octets)
        elif fault.action != DROP_FRAME:
            await self._send(side, rest)
        return True

    def _delivery_buffer(self, side: Side) -> socket.socket:
        return self.server if side == "client" else self.client

    async def _send(self, side: Side, octets: bytes) -> None:
        """To the other side, at the speed that is allowed now, when it is allowed."""
        loop = asyncio.get_running_loop()
        at = 0
        async with self._writing[side]:
            while at < len(octets):
                await self.flowing[side].wait()
                rate = self.bytes_per_s
                piece = octets[at : at + max(1, rate // SLOW_PIECES_PER_S)] if rate else octets[at:]
                await loop.sock_sendall(self._delivery_buffer(side), piece)
                at += len(piece)
                if rate:
                    await asyncio.sleep(len(piece) / rate)


async def read_to_end(end: socket.socket) -> None:
    """Reads and forgets until the peer has closed."""
    loop = asyncio.get_running_loop()
    with suppress(OSError):
        while await loop.sock_recv(end, CHUNK_BYTES):
            pass


async def left(end: socket.socket) -> None:
    """Waits until all that was sent is on its way, which on this machine is as good as there: an RST would throw away
    what the kernel still holds."""
    with suppress(TimeoutError):
        async with asyncio.timeout(LEAVE_S):
            # The kernel tells nobody when that has happened.
            while struct.unpack("i", fcntl.ioctl(end, SIOCOUTQNSD, bytes(4)))[0]:  # noqa: ASYNC110
                await asyncio.sleep(0.001)

"""The audit log: who changed what, from where, when, and whether it was let happen.

Lines of JSON in files of bounded size, written in a thread of its own, and the last of them in memory for the API.
Names only: never a body, a password, a hash or a message. It never blocks: what comes faster than it can be
written is dropped, and how much is told. What was refused is kept apart, in a file and a ring of its own and with a
share for each user (auth/refusals.py), so that refused requests never displace changes."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import Any, NamedTuple, Protocol

import msgspec

from leveret.auth.refusals import FairRing, RefusalShares
from leveret.catalog import commands
from leveret.catalog.commands import Command
from leveret.core.codec.names import name_octets
from leveret.runtime.log import get_logger
from leveret.runtime.rolling_file import RollingFile
from leveret.runtime.threads import started_pool

log = get_logger(__name__)

REMEMBERED_MAX = 1000
# Lines that wait to be written; refusals leave room for changes.
PENDING_MAX = 10_000
PENDING_REFUSALS_MAX = 5_000
REMEMBERED_BYTES_MAX = 1024 * 1024
WRITE_DELAY_S = 0.2
NAME_CHARACTERS_MAX = 255
NAMES_MAX = 100
# Of those who did not even log in: they are not to flood the log with what they are refused.
STRANGERS_PER_SECOND_MAX = 10

# What of the room for lines is for those that were refused.
REFUSED_PART = 4

DONE, REFUSED, FAILED = "done", "refused", "failed"


class Actor(NamedTuple):
    """The author of a change: the user, the address, and the protocol. Without a user it is unauthenticated."""

    user: str
    peer: str
    via: str


class Acting(Protocol):
    """The author whose changes are noted here; None if they are noted elsewhere."""

    @property
    def actor(self) -> Actor | None: ...


class Noted(msgspec.Struct, frozen=True, omit_defaults=True):
    """One line."""

    # Seconds of the wall clock.
    time: float
    user: str
    peer: str
    via: str
    # Such as queue.declare, or the method and path of a route.
    action: str
    names: dict[str, Any]
    outcome: str
    # Of an answer over HTTP.
    status: int = 0
    # How many before this one were not noted.
    dropped: int = 0


_encoder = msgspec.json.Encoder()
_decoder = msgspec.json.Decoder(Noted)


class Audit:
    def __init__(
        self, wall: Callable[[], float], file: RollingFile | None = None, refused_file: RollingFile | None = None
    ) -> None:
        """Without a file of their own, refusals go where changes go."""
        self._wall = wall
        self._file = file
        self._refused_file = file if refused_file is None else refused_file
        self._number = 0
        # Each with its number, by which both together have an order.
        self._changes: deque[tuple[int, Noted]] = deque(maxlen=REMEMBERED_MAX)
        self._refusals: FairRing[tuple[int, Noted]] = FairRing(REMEMBERED_MAX)
        self._shares = RefusalShares()
        self._pending: list[Noted] = []
        self._dropped = 0
        self.noted_total = 0
        self.dropped_total = 0
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: ThreadPoolExecutor | None = None
        self._writing = False
        self._failing = False
        # The second of the last stranger, and how many there were in it.
        self._strangers = (0, 0)

    # ---- life

    def start(self, loop: asyncio.AbstractEventLoop) -> None:
        """What earlier lives noted last is remembered."""
        self._loop = loop
        if self._file is None:
            return
        self._thread = started_pool("leveret-audit")
        for noted in sorted(self._remembered(), key=lambda noted: noted.time):
            self._remember(noted)
        self._wake()

    def _remembered(self) -> list[Noted]:
        found: list[Noted] = []
        for file in {id(file): file for file in (self._file, self._refused_file) if file is not None}.values():
            try:
                lines = file.tail(REMEMBERED_MAX, REMEMBERED_BYTES_MAX)
            except OSError as error:
                # They are there for people to read; that the API does not have them is no reason not to start.
                log.warning("what was noted in the audit log before cannot be read", error=str(error))
                continue
            for line in lines:
                # One may be torn by a crash.
                with suppress(msgspec.MsgspecError):
                    found.append(_decoder.decode(line))
        return found

    def _remember(self, noted: Noted) -> None:
        self._number += 1
        if noted.outcome == DONE:
            self._changes.append((self._number, noted))
        else:
            self._refusals.append(noted.user, (self._number, noted))

    @property
    def recent(self) -> list[Noted]:
        """The newest last."""
        return [noted for _, noted in sorted([*self._changes, *self._refusals.entries()], key=lambda pair: pair[0])]

    async def stop(self) -> None:
        thread, self._thread = self._thread, None
        if thread is None or self._loop is None:
            return
        await self._loop.run_in_executor(thread, self._write, self._taken())
        thread.shutdown(wait=False)

    @property
    def bytes_max(self) -> int:
        files = {id(file): file for file in (self._file, self._refused_file) if file is not None}
        return sum(file.bytes_max for file in files.values())

    def resize(self, bytes_max: int) -> None:
        if self._file is None or self._refused_file is None:
            return
        if self._refused_file is self._file:
            self._file.bytes_max = bytes_max
        else:
            self._refused_file.bytes_max = bytes_max // REFUSED_PART
            self._file.bytes_max = bytes_max - self._refused_file.bytes_max

    # ---- noting

    def note(self, actor: Actor, action: str, names: Mapping[str, Any], outcome: str = DONE, status: int = 0) -> None:
        now = self._wall()
        if not actor.user and not self._hears_stranger(now):
            self._drop()
            return
        unheard: int | None = 0
        if actor.user and outcome != DONE:
            unheard = self._shares.take(actor.user, now)
        if unheard is None or len(self._pending) >= (PENDING_MAX if outcome == DONE else PENDING_REFUSALS_MAX):
            if unheard is None:
                # The next line of the same user tells.
                self.dropped_total += 1
            else:
                self._drop()
            return
        shown = {name: _bounded(value) for name, value in names.items()}
        dropped, self._dropped = self._dropped + unheard, 0
        noted = Noted(now, _short(actor.user), actor.peer, actor.via, action, shown, outcome, status, dropped)
        self.noted_total += 1
        self._remember(noted)
        if self._file is not None:
            self._pending.append(noted)
            self._wake()

    def changed(self, by: Acting, command: Command) -> None:
        """A command that changed something which survives."""
        actor = by.actor
        described = _described(command)
        if actor is not None and described is not None:
            self.note(actor, *described)

    def _hears_stranger(self, now: float) -> bool:
        second, count = self._strangers
        count = count + 1 if second == int(now) else 1
        self._strangers = (int(now), count)
        return count <= STRANGERS_PER_SECOND_MAX

    def _drop(self) -> None:
        self._dropped += 1
        self.dropped_total += 1

    # ---- writing

    def _wake(self) -> None:
        if not self._writing and self._pending and self._loop is not None and self._thread is not None:
            self._writing = True
            self._loop.call_later(WRITE_DELAY_S, self._begin)

    def _begin(self) -> None:
        if self._thread is None or self._loop is None:
            self._writing = False
            return
        written = self._loop.run_in_executor(self._thread, self._write, self._taken())
        written.add_done_callback(self._written)

    def _written(self, done: asyncio.Future[None]) -> None:
        self._writing = False
        if not done.cancelled() and done.exception() is None:
            self._wake()

    def _taken(self) -> list[Noted]:
        taken, self._pending = self._pending, []
        return taken

    def _write(self, lines: list[Noted]) -> None:
        """In the thread."""
        if not lines or self._file is None:
            return
        assert self._refused_file is not None
        changes = [_encoder.encode(line) for line in lines if line.outcome == DONE]
        refusals = [_encoder.encode(line) for line in lines if line.outcome != DONE]
        try:
            for file, encoded in ((self._file, changes), (self._refused_file, refusals)):
                if encoded:
                    file.append(encoded)
            self._failing = False
        except OSError as error:
            if not self._failing:
                self._failing = True
                log.error("the audit log cannot be written", reason=str(error))


def _described(command: Command) -> tuple[str, dict[str, Any]] | None:
    """What a client's command does, by names; None for what clients cannot do."""
    match command:
        case commands.DeclareQueue(queue=queue):
            return "queue.declare", {"vhost": queue.vhost, "queue": queue.name}
        case commands.DeleteQueue(vhost=vhost, name=name):
            return "queue.delete", {"vhost": vhost, "queue": name}
        case commands.DeclareExchange(exchange=exchange):
            return "exchange.declare", {"vhost": exchange.vhost, "exchange": exchange.name}
        case commands.DeleteExchange(vhost=vhost, name=name):
            return "exchange.delete", {"vhost": vhost, "exchange": name}
        case commands.Bind(binding=binding) | commands.Unbind(binding=binding):
            action = "binding.create" if isinstance(command, commands.Bind) else "binding.delete"
            kind = "queue" if binding.to_queue else "destination"
            names = {"vhost": binding.vhost, "exchange": binding.source, kind: binding.destination}
            return action, {**names, "routing_key": binding.routing_key}
        case commands.DeleteParameter(vhost=vhost, component=component, name=name):
            return "parameter.delete", {"vhost": vhost, "component": component, "name": name}
        case commands.DeclareSuperStream(exchange=exchange):
            return "super-stream.declare", {"vhost": exchange.vhost, "super_stream": exchange.name}
        case commands.DeleteSuperStream(vhost=vhost, name=name):
            return "super-stream.delete", {"vhost": vhost, "super_stream": name}
        case _:
            return None


def _bounded(value: Any) -> Any:
    if isinstance(value, list | tuple):
        return [_short(one) for one in value[:NAMES_MAX]]
    return value if isinstance(value, int | float) else _short(value)


def _short(value: Any) -> str:
    """Names may hold what is no text at all."""
    text = str(value)[:NAME_CHARACTERS_MAX]
    return name_octets(text).decode("utf-8", "replace")

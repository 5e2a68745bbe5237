"""The real broker and its real sessions in one thread, without sockets and with time that only moves when told.

A Line takes the place of the network's transport: what the client says goes into the session in chunks, what the
session writes is gathered in `heard`. The chunk's buffer is overwritten after each call, so that whoever still points
into it reads rubbish. Errors that leave a session, and errors in the log, fail the test."""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Iterable
from types import TracebackType
from typing import Any, Final, Self

from leveret.auth.identity import CatalogUser, Identity
from leveret.broker.broker import Broker
from leveret.broker.topology import Topology
from leveret.core.queue.contract import Queue
from leveret.errors import LoginRefused
from leveret.runtime.clock import Clock
from leveret.runtime.dice import Dice
from leveret.runtime.network import RECEIVE_BYTES, SocketHub
from leveret.session.session import Session
from leveret.session.settings import SessionSettings
from tests.conformance.raw_client import Method
from tests.fuzz.frames import said

# What a client sends may be quoted in the log, but not at any length.
LOGGED_CHARACTERS_MAX: Final = 2000
DRAIN_DEADLINE_S: Final = 2.0
# More turns than any script needs: a session that keeps the loop busy for ever is a hang.
TURNS_MAX: Final = 20_000


class LoadedDice(Dice):
    """Names in order, so that two runs say the same."""

    def __init__(self) -> None:
        self._count = 0

    def name(self) -> str:
        self._count += 1
        return f"{self._count:022d}"

    def pick(self, count: int) -> int:
        self._count += 1
        return self._count % count


class StandingClock(Clock):
    def monotonic(self) -> float:
        return 0.0

    def wall(self) -> float:
        return 0.0


class LogKeeper(logging.Handler):
    """Takes the broker's log from `info` up, so that its words are made, too, and keeps it from everybody else."""

    def __init__(self, name: str = "leveret") -> None:
        super().__init__()
        self.lines: list[tuple[int, str]] = []
        self._logger = logging.getLogger(name)
        self._before: tuple[list[logging.Handler], int, bool] = ([], 0, True)

    def start(self) -> None:
        self._before = (self._logger.handlers, self._logger.level, self._logger.propagate)
        self._logger.handlers, self._logger.propagate = [self], False
        self._logger.setLevel(logging.INFO)

    def stop(self) -> None:
        self._logger.handlers, level, self._logger.propagate = self._before
        self._logger.setLevel(level)

    def check(self) -> None:
        mistakes = [text for level, text in self.lines if level >= logging.ERROR]
        assert not mistakes, mistakes

    def emit(self, record: logging.LogRecord) -> None:
        text = record.getMessage()
        if record.exc_info:
            text += logging.Formatter().formatException(record.exc_info)
        self.lines.append((record.levelno, text))


class VirtualLoop(asyncio.SelectorEventLoop):
    """A loop whose time stands still while anything is ready to run."""

    def __init__(self) -> None:
        self._moment = 0.0
        super().__init__()

    def time(self) -> float:
        return self._moment

    def settle(self) -> None:
        """Runs what is ready, and what that makes ready, until nothing is."""
        for _ in range(TURNS_MAX):
            if not self._ready:
                return
            self.call_soon(self.stop)
            self.run_forever()
        raise AssertionError(f"still busy after {TURNS_MAX} turns of the loop: {list(self._ready)[:3]}")

    def advance(self, seconds: float) -> None:
        until = self._moment + seconds
        self.settle()
        while timers := self.timers():
            if timers[0] > until:
                break
            self._moment = timers[0]
            # A turn with nothing ready would wait for the selector; this one finds the timer due.
            self.call_soon(lambda: None)
            self.settle()
        self._moment = until

    def timers(self) -> list[float]:
        """When the timers that nobody has cancelled are due, soonest first."""
        return sorted(handle.when() for handle in self._scheduled if not handle.cancelled())


class Line:
    """One client's connection. To the session it is the transport, to the test the client's end."""

    def __init__(self, bench: Workbench, settings: SessionSettings) -> None:
        self._bench = bench
        self.peer = ("127.0.0.1", 50000)
        # Nobody speaks TLS here: see test_tls_port.py.
        self.tls = None
        self.local = ("127.0.0.1", 5672)
        self.heard = bytearray()
        self.spoken = bytearray()
        # How many octets the client still takes; None for all there are.
        self.window: int | None = None
        self.reading = True
        self.closing = False
        self.ended: str | None = None
        self._inbox: deque[bytes] = deque()
        self._drain_timer: asyncio.TimerHandle | None = None
        self.session = Session(bench.broker, bench.topology, settings, bench.board, self)  # type: ignore[arg-type]
        self.session.write_buffer.owner = self

    @property
    def flooded(self) -> bool:
        """Whether the transport would not read because the client does not."""
        return bool(self.session.write_buffer.flooded())

    # ---- the client

    def say(self, *chunks: bytes) -> None:
        """Sends chunks, each of which reaches the session by itself, and lets the broker finish with them."""
        for chunk in chunks:
            self.spoken += chunk
            self._inbox.extend(chunk[at : at + RECEIVE_BYTES] for at in range(0, len(chunk), RECEIVE_BYTES))
        self._bench.call(self._deliver)

    def answers(self, *chunks: bytes) -> list[Method]:
        """Says something and gives what came back for it."""
        before = len(self.heard)
        self.say(*chunks)
        return said(bytes(self.heard[before:]))

    def methods(self) -> list[Method]:
        return said(bytes(self.heard))

    def hang_up(self) -> None:
        self._bench.call(self._drop, "closed by peer")

    def take(self, octets: int | None) -> None:
        """The client reads so much more, or from now on everything."""
        self.window = None if octets is None else (self.window or 0) + octets
        self._bench.call(self._writable)

    @property
    def unread(self) -> int:
        """Octets the broker was not ready to take yet."""
        return sum(map(len, self._inbox))

    def _writable(self) -> None:
        self.flush()
        self._bench.board.kick()

    def _deliver(self) -> None:
        buffer = self._bench.board.buffer
        while self._inbox and self.reading and self.ended is None:
            chunk = self._inbox.popleft()
            buffer[: len(chunk)] = chunk
            self.session.received(buffer, len(chunk))
            assert len(buffer) == RECEIVE_BYTES, "the receive buffer was resized"
            buffer[: len(chunk)] = b"\xaa" * len(chunk)
        self._bench.board.kick()

    # ---- the transport, as a session and the socket hub know it

    def pause_reading(self, *_: int) -> None:
        self.reading = False

    def resume_reading(self, *_: int) -> None:
        if self.ended is None and not self.closing and not self.reading:
            self.reading = True
            self._bench.loop.call_soon(self._deliver)

    def flush(self) -> None:
        if self.ended is not None:
            return
        write_buffer = self.session.write_buffer
        while (views := write_buffer.views(64)) and self.window != 0:
            for view in views:
                octets = bytes(view if self.window is None else view[: self.window])
                self.heard += octets
                if self.window is not None:
                    self.window -= len(octets)
                # One at a time: the views of later pieces stay valid.
                write_buffer.sent(len(octets))
                if len(octets) < len(view):
                    break
        if write_buffer.calm_down():
            self.session.calmed()
        if self.closing and not write_buffer.pending():
            self._drop("closed")

    def close(self) -> None:
        if self.ended is None and not self.closing:
            self.closing = True
            self.reading = False
            self._drain_timer = self._bench.loop.call_later(DRAIN_DEADLINE_S, self._drop, "closed")
            self.flush()

    def abort(self, reason: str) -> None:
        self._drop(reason)

    def _drop(self, reason: str) -> None:
        if self.ended is not None:
            return
        self.ended = reason
        self.reading = False
        self._inbox.clear()
        if self._drain_timer is not None:
            self._drain_timer.cancel()
        self.session.write_buffer.owner = None
        self.session.write_buffer.discard()
        self.session.lost(reason)
        self._bench.board.kick()


class Workbench:
    """A broker, a loop and any number of lines, for one example."""

    def __init__(self, **settings: Any) -> None:
        self.settings = SessionSettings(**settings)
        self.loop = VirtualLoop()
        self.broker = Broker(LoadedDice(), StandingClock())
        self.broker.create_defaults()
        # The slow hash and its thread are not what these tests look at.
        self.broker.logins.authenticate = self._authenticate  # type: ignore[method-assign]
        # The last events are kept, which would look as if something gathered.
        self.broker.events._ring = deque(maxlen=8)
        self.topology = Topology(self.broker)
        self.board = SocketHub(self.loop)
        self._failures: list[dict[str, Any]] = []
        self.loop.set_exception_handler(lambda _, context: self._failures.append(context))
        self._log_keeper = LogKeeper()
        self.log = self._log_keeper.lines

    def __enter__(self) -> Self:
        self._log_keeper.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._log_keeper.stop()
        self.broker.close()
        for task in asyncio.all_tasks(self.loop):
            task.cancel()
        self.loop.settle()
        self.loop.close()

    async def _authenticate(self, user: str, password: bytes, host: str, protocol: str = "amqp") -> Identity:
        await asyncio.sleep(0.01)
        if user != "slow" or password != b"right":
            raise LoginRefused("invalid credentials")
        return CatalogUser(self.broker.catalog, user)

    def connect(self, **settings: Any) -> Line:
        chosen = SessionSettings(**settings) if settings else self.settings
        return self.call(Line, self, chosen)

    def call(self, function: Callable[..., Any], *arguments: Any) -> Any:
        """Calls on the running loop, lets everything settle, and raises what went wrong anywhere."""
        outcome: list[Any] = []
        self.loop.call_soon(lambda: outcome.append(function(*arguments)))
        self.loop.settle()
        self.check_failures()
        return outcome[0]

    def advance(self, seconds: float) -> None:
        self.loop.advance(seconds)
        self.check_failures()

    def check_failures(self) -> None:
        if self._failures:
            context = self._failures[0]
            raise AssertionError(f"an error left a session: {context}") from context.get("exception")
        self._log_keeper.check()
        wordy = [text for _, text in self.log if len(text) > LOGGED_CHARACTERS_MAX]
        assert not wordy, f"a client makes the log grow by {len(wordy[0])} characters: {wordy[0][:200]}"

    # ---- looking inside

    def queue(self, name: str) -> Queue:
        return self.broker.vhosts["/"].queues[name.encode()]

    def queues(self) -> Iterable[Queue]:
        return self.broker.vhosts["/"].queues.values()

    def bodies(self, name: str) -> list[bytes]:
        return [entry.message.body for entry in self.queue(name).ready_entries()]

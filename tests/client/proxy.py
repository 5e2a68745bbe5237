"""A TCP proxy with faults, between a client under test and a broker, in a thread of the test's own process.

    with Broker() as broker, Proxy((broker.host, broker.port)) as proxy:
        struck = proxy.at(Step("client", "basic.publish", nth=3, when="middle"), RESET)
        ...                                   # a client connects to proxy.url, publishes, is reset, recovers
        assert struck.wait(5)

A fault strikes once, at an exact step of the protocol; `faults` has the steps and the actions. To try every step,
record one good run: `proxy.steps()` gives what `proxy.at` takes. Everything may be called from any thread, also from a
coroutine of another loop: nothing here waits for a client or a server."""

import asyncio
import socket
import threading
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from types import TracebackType
from typing import Final, Self, TypeVar

from tests.client.faults import (
    CUT,
    DROP_FRAME,
    GARBAGE,
    HALF_OPEN,
    RESET,
    SEND,
    SLOW,
    STALL_READING,
    STALL_SERVER,
    Action,
    Armed,
    Faults,
    Side,
    Step,
)
from tests.client.proxied_link import Address, Link

__all__ = [
    "CUT",
    "DROP_FRAME",
    "GARBAGE",
    "HALF_OPEN",
    "RESET",
    "SEND",
    "SLOW",
    "STALL_READING",
    "STALL_SERVER",
    "Proxy",
    "Step",
]

T = TypeVar("T")
DEADLINE_S: Final = 10.0
BACKLOG: Final = 512
# Of each client's socket on this side: small, so that a client that is not read soon notices.
RECEIVE_BUFFER_BYTES: Final = 1 << 17


class Proxy:
    """Listens on a free port of 127.0.0.1 and forwards to `target`, which may be changed for connections to come."""

    host: Final = "127.0.0.1"

    def __init__(self, target: Address) -> None:
        self.target = target
        self.port = 0
        # Connections ever accepted, also those that were then hung up on.
        self.accepted_total = 0
        # Accept and close at once, as a load balancer with no server behind it does.
        self.hang_up = False
        # Accept, and then read but never forward or answer. Such a connection stays so until the client closes it.
        self.blackhole = False
        self._refuse = False
        self._frozen = False
        self._faults = Faults()
        self._links: set[Link] = set()
        self._newest: Link | None = None
        # Links under way, with those that have been cut and are still read.
        self._tasks: set[asyncio.Task[None]] = set()
        self._group: asyncio.TaskGroup
        self._loop: asyncio.AbstractEventLoop
        self._stopping: asyncio.Event
        self._listener: socket.socket | None = None
        self._thread: threading.Thread | None = None
        self._started = threading.Event()
        self._failure: BaseException | None = None

    @property
    def url(self) -> str:
        return f"amqp://guest:guest@{self.host}:{self.port}/"

    # ---- faults at a step

    def at(self, step: Step, action: Action) -> threading.Event:
        """Arms a fault, which strikes once. The event is set when it does, just before anybody can notice."""
        fault = Armed(step, action)
        self._call(lambda: self._faults.waiting.append(fault))
        return fault.happened

    def disarm(self) -> None:
        """Forgets the faults that have not struck."""
        self._call(self._faults.waiting.clear)

    def steps(self) -> list[Step]:
        """What passed on the newest connection so far, closed or not; each may be given to `at` for the next run."""
        counts: Counter[tuple[Side, str]] = Counter()
        steps = []
        for seen in self._call(lambda: list(self._newest.steps) if self._newest else []):
            counts[seen] += 1
            steps.append(Step(*seen, nth=counts[seen]))
        return steps

    # ---- faults at once, on all connections

    @property
    def connections(self) -> int:
        """How many are open now."""
        return self._call(lambda: sum(link.is_open for link in self._links))

    def cut_all(self) -> None:
        """Ends all connections in good order, and has done so when it returns."""
        self._end_all(CUT)

    def reset_all(self) -> None:
        """Ends all connections with an RST to both sides, and has done so when it returns."""
        self._end_all(RESET)

    def _end_all(self, how: Action) -> None:
        def begin() -> list[threading.Event]:
            witnesses = [threading.Event() for _ in self._links]
            for link, witness in zip(self._links, witnesses, strict=True):
                link.end(how, witness)
            return witnesses

        for witness in self._call(begin):
            if not witness.wait(DEADLINE_S):
                raise TimeoutError(f"a connection did not end within {DEADLINE_S} s")

    def slow_all(self, bytes_per_s: int) -> None:
        """Slows what is open now, each way; 0 gives back full speed."""

        def slow() -> None:
            for link in self._links:
                link.bytes_per_s = bytes_per_s

        self._call(slow)

    def freeze(self) -> None:
        """Makes all connections HALF_OPEN, also those to come: these are accepted, and get no server before `thaw`."""

        def freeze() -> None:
            self._frozen = True
            for link in self._links:
                link.freeze("client", "server")

        self._call(freeze)

    def thaw(self) -> None:
        """Lets everything flow again, on all connections, also what HALF_OPEN or a stall has stopped."""

        def thaw() -> None:
            self._frozen = False
            for link in self._links:
                link.thaw()

        self._call(thaw)

    @property
    def refuse(self) -> bool:
        """Whether nobody listens: connecting is refused, as when the broker is down. Open connections go on."""
        return self._refuse

    @refuse.setter
    def refuse(self, refuse: bool) -> None:
        self._refuse = refuse
        if self._thread is not None:
            self._call(self._deafen if refuse else self._listen)

    # ---- listening

    def _listen(self) -> None:
        if self._listener is None:
            self._listener = bound(self.port)
            self._listener.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, RECEIVE_BUFFER_BYTES)
            self._listener.listen(BACKLOG)
            self._loop.add_reader(self._listener, self._accept, self._listener)

    def _deafen(self) -> None:
        if self._listener is not None:
            self._loop.remove_reader(self._listener)
            self._listener.close()
            self._listener = None

    def _accept(self, listener: socket.socket) -> None:
        try:
            client, _ = listener.accept()
        except OSError:
            # It has given up in the meantime.
            return
        self.accepted_total += 1
        if self.hang_up:
            client.close()
            return
        link = Link(client, self.target, self._faults, black=self.blackhole, frozen=self._frozen)
        self._links.add(link)
        self._newest = link
        task = self._group.create_task(link.run())
        self._tasks.add(task)

        def ended(task: asyncio.Task[None]) -> None:
            self._tasks.discard(task)
            link.close()
            self._links.discard(link)

        task.add_done_callback(ended)

    # ---- starting and stopping

    def start(self) -> Self:
        assert self._thread is None, "the proxy is running"
        self._thread = threading.Thread(target=self._run, name="faulty-proxy", daemon=True)
        self._thread.start()
        if not self._started.wait(DEADLINE_S):
            raise TimeoutError(f"the proxy did not start within {DEADLINE_S} s")
        if self._failure is not None:
            self.stop()
        return self

    def stop(self) -> None:
        """Closes everything at once. Raises what went wrong in the proxy itself, if anything did."""
        thread, self._thread = self._thread, None
        if thread is None:
            return
        # A loop that has failed may be closed already.
        with suppress(RuntimeError):
            self._loop.call_soon_threadsafe(self._stopping.set)
        thread.join(DEADLINE_S)
        if thread.is_alive():
            raise TimeoutError(f"the proxy did not stop within {DEADLINE_S} s")
        if self._failure is not None:
            raise self._failure

    def _run(self) -> None:
        try:
            asyncio.run(self._serve())
        except BaseException as failure:  # noqa: BLE001 - it is raised again where the test can see it
            self._failure = failure
        finally:
            self._started.set()

    async def _serve(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._stopping = asyncio.Event()
        # Never listens; keeps the port ours while connections are refused.
        with bound(0) as reservation:
            self.port = reservation.getsockname()[1]
            try:
                async with asyncio.TaskGroup() as self._group:
                    if not self._refuse:
                        self._listen()
                    self._started.set()
                    await self._stopping.wait()
                    self._deafen()
                    for task in self._tasks:
                        task.cancel()
            finally:
                self._deafen()

    def _call(self, function: Callable[[], T]) -> T:
        """Runs it in the proxy's loop."""
        if self._thread is None:
            # Nobody else is there: a test arms a fault before it starts, or looks at what was after it stopped.
            return function()

        async def run() -> T:
            return function()

        return asyncio.run_coroutine_threadsafe(run(), self._loop).result(DEADLINE_S)

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.stop()


def bound(port: int) -> socket.socket:
    """A socket with this port of 127.0.0.1, which others of the proxy may have too."""
    made = socket.socket()
    made.setblocking(False)
    made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
    made.bind(("127.0.0.1", port))
    return made

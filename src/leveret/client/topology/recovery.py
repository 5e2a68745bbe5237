"""After a reconnect: everything that was declared, once more; exchanges, then queues, then bindings.

Owns the order, the new names of queues that the broker names, and what is done about a thing that cannot be had again:
it is reported, and the rest goes on. Started by the manager when the connection asks for it."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from typing import Final, NamedTuple

import msgspec

from leveret.client.errors import ChannelClosed, ClientError, ConnectionLost, DeadlineExceeded
from leveret.client.topology.cache import Cache
from leveret.client.topology.caller import CONNECTION_FORCED, Caller, Until
from leveret.client.topology.handle import QueueCounts, QueueHandle
from leveret.client.topology.methods import Thing, declaring, looking
from leveret.client.topology.records import Binding, describe
from leveret.wire.method import Method
from leveret.wire.queue_methods import QueueDeclareOk

__all__ = ["RecoveryFailure", "RecoveryReport", "TopologyIncomplete", "redeclare"]

NOT_FOUND: Final = 404
RESOURCE_LOCKED: Final = 405
# An exclusive queue belongs to our old connection until the broker has noticed its end.
LOCKED_PAUSES_S: Final = (0.1, 0.2, 0.4, 0.8, 1.6, 3.2)

# Declares under way at once.
AT_ONCE_MAX: Final = 256
# After so many answers that did not come no more are waited for.
LATE_MAX: Final = 3

log = logging.getLogger("leveret.client.topology")


class RecoveryFailure(NamedTuple):
    thing: Thing
    error: ClientError

    def __str__(self) -> str:
        return f"{describe(self.thing)}: {self.error}"


class RecoveryReport(msgspec.Struct):
    """`renamed` leads from old to new names of queues that the broker named."""

    declared_count: int = 0
    renamed: dict[str, str] = msgspec.field(default_factory=dict)
    failures: list[RecoveryFailure] = msgspec.field(default_factory=list)

    def __str__(self) -> str:
        parts = [f"{self.declared_count} declared again"]
        parts += [f"queue '{old}' is now '{new}'" for old, new in self.renamed.items()]
        return "\n".join([*parts, *(f"failed: {failure}" for failure in self.failures)])


class TopologyIncomplete(ClientError):
    """Something could not be declared again after a reconnect; `report` has everything."""

    def __init__(self, report: RecoveryReport) -> None:
        super().__init__("\n".join(f"not declared again: {failure}" for failure in report.failures))
        self.report = report


class _Recovery:
    """One run."""

    def __init__(self, cache: Cache, caller: Caller, deadline_s: float) -> None:
        self.cache = cache
        self.caller = caller
        self.deadline_s = deadline_s
        self.report = RecoveryReport()

    async def run(self) -> RecoveryReport:
        self.cache.doubt_everything()
        await self.together([(exchange, None) for exchange in self.cache.exchanges])
        await self.together([(handle.queue, handle) for handle in self.cache.handles])
        await self.together([(binding, None) for binding in self.cache.bindings])
        return self.report

    async def together(self, things: Sequence[tuple[Thing, QueueHandle | None]]) -> None:
        """Many at once, as long as nothing is refused; what needs a closer look goes one by one."""
        alone: list[tuple[Thing, QueueHandle | None]] = []
        rest: list[tuple[Thing, QueueHandle | None]] = []
        for thing, handle in things:
            (alone if self.needs_care(thing, handle) else rest).append((thing, handle))
        for start in range(0, len(rest), AT_ONCE_MAX):
            part = rest[start : start + AT_ONCE_MAX]
            try:
                methods = [declaring(thing) for thing, _ in part]
                answers = await self.caller.call_all(methods, f"{len(part)} declares", Until(self.deadline_s))
            except (ChannelClosed, DeadlineExceeded):
                alone += part
            except ConnectionLost as lost:
                # The next time we want to know which of them it was.
                self.cache.is_careful = is_blamed(lost)
                raise
            else:
                for (thing, handle), answer in zip(part, answers, strict=True):
                    if handle is not None:
                        self.declared(handle, answer)
                    self.succeeded(thing)
        for thing, handle in alone:
            await self.attempt(thing, handle)

    def needs_care(self, thing: Thing, handle: QueueHandle | None) -> bool:
        if self.cache.is_careful or self.cache.breaker(thing) is not None:
            return True
        # A queue whose name may change, or which our old connection may still have.
        return handle is not None and (handle.is_server_named or handle.queue.exclusive)

    async def attempt(self, thing: Thing, handle: QueueHandle | None = None) -> None:
        # Asking for it ended the last connection; it would end each one that comes.
        known = self.cache.breaker(thing)
        if known is not None:
            self.failed(thing, known)
            return
        try:
            if handle is not None:
                await self.queue(handle)
            elif isinstance(thing, Binding):
                await self.bind(thing)
            else:
                await self.ask(declaring(thing), thing)
        except (ChannelClosed, DeadlineExceeded) as error:
            self.failed(thing, error)
        except ConnectionLost as lost:
            if is_blamed(lost):
                self.cache.blame(thing, lost)
            raise
        else:
            self.succeeded(thing)

    async def queue(self, handle: QueueHandle) -> None:
        queue = handle.queue
        if handle.is_server_named and not queue.exclusive:
            # It may live on, with its messages.
            try:
                answer = await self.ask(looking(handle), handle)
            except ChannelClosed as error:
                if error.code != NOT_FOUND:
                    raise
            else:
                self.declared(handle, answer)
                return
        pauses = LOCKED_PAUSES_S if queue.exclusive else ()
        for pause_s in (*pauses, None):
            try:
                answer = await self.ask(declaring(queue), handle)
            except ChannelClosed as error:
                if error.code != RESOURCE_LOCKED or pause_s is None:
                    raise
                await asyncio.sleep(pause_s)
            else:
                self.declared(handle, answer)
                return

    async def bind(self, binding: Binding) -> None:
        try:
            await self.ask(declaring(binding), binding)
        except ChannelClosed as error:
            if error.code != NOT_FOUND:
                raise
            # While the broker takes our old connection's queues away, exchanges that delete themselves go with them;
            # perhaps after they were declared again here.
            for exchange in self.cache.exchanges_of(binding):
                await self.ask(declaring(exchange), exchange)
            await self.ask(declaring(binding), binding)

    async def ask(self, method: Method, about: Thing | QueueHandle) -> Method:
        return await self.caller.call(lambda: method, about, Until(self.deadline_s))

    def declared(self, handle: QueueHandle, answer: Method) -> None:
        assert isinstance(answer, QueueDeclareOk)
        handle.counts = QueueCounts(answer.message_count, answer.consumer_count)
        if answer.queue != handle.name:
            self.report.renamed[handle.name] = answer.queue
            handle.rename(answer.queue)

    def succeeded(self, thing: Thing) -> None:
        self.cache.trust(thing)
        self.report.declared_count += 1

    def failed(self, thing: Thing, error: ClientError) -> None:
        self.report.failures.append(RecoveryFailure(thing, error))
        log.warning("not declared again", extra={"thing": describe(thing), "reason": str(error)})
        late = sum(isinstance(failure.error, DeadlineExceeded) for failure in self.report.failures)
        if late >= LATE_MAX and isinstance(error, DeadlineExceeded):
            raise error


def is_blamed(lost: ConnectionLost) -> bool:
    """Whether the broker ended the connection because of what was asked on it."""
    return lost.code not in (None, CONNECTION_FORCED)


async def redeclare(cache: Cache, caller: Caller, deadline_s: float) -> RecoveryReport:
    """Raises ConnectionLost or DeadlineExceeded if the connection does not carry it through."""
    report = await _Recovery(cache, caller, deadline_s).run()
    cache.is_careful = False
    log.info(
        "topology declared again",
        extra={
            "declared": report.declared_count,
            "renamed": len(report.renamed),
            "failures": len(report.failures),
        },
    )
    return report

"""The topology manager: declares what an application needs, remembers it, and declares it again after a reconnect.

One per connection. Owns the cache of what was declared and a channel of its own, so that a refused declare closes
nobody else's. Never publishes or consumes. The connection calls `recover`, consumers say when they come and go."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from functools import partial
from pathlib import Path
from typing import Final

from leveret.client.errors import ChannelClosed, ClientError
from leveret.client.topology.cache import Cache
from leveret.client.topology.caller import Caller, OpenChannel, Until
from leveret.client.topology.checks import check
from leveret.client.topology.diff import Diff
from leveret.client.topology.diff_live import diff_over_amqp, diff_over_http
from leveret.client.topology.files import dump_topology, read_topology
from leveret.client.topology.handle import QueueCounts, QueueHandle
from leveret.client.topology.methods import Thing, declaring, deleting, looking
from leveret.client.topology.records import Binding, Exchange, Queue
from leveret.client.topology.recovery import (
    NOT_FOUND,
    RESOURCE_LOCKED,
    RecoveryReport,
    TopologyIncomplete,
    redeclare,
)
from leveret.client.topology.retry import Retry
from leveret.client.transport.channel import Channel
from leveret.client.transport.link import Link
from leveret.wire.queue_methods import QueueDeclareOk

__all__ = ["Topology"]

DEADLINE_S: Final = 30.0
_ORDER: Final = (Exchange, Queue, Binding)


class Topology:
    """`open_channel` gives an open channel of the connection, as Connection.channel does. `deadline_s` is for each
    call that names none of its own."""

    # A part of the connection that is restored first.
    rank = 0
    name = "topology"

    def __init__(self, open_channel: OpenChannel, *, virtual_host: str = "/", deadline_s: float = DEADLINE_S) -> None:
        self._caller = Caller(open_channel)
        self._cache = Cache()
        self._virtual_host = virtual_host
        self._deadline_s = deadline_s
        self.last_recovery: RecoveryReport | None = None

    # ---- what is known

    @property
    def exchanges(self) -> list[Exchange]:
        return self._cache.exchanges

    @property
    def queues(self) -> list[QueueHandle]:
        return self._cache.handles

    @property
    def bindings(self) -> list[Binding]:
        return self._cache.bindings

    def resolve(self, queue: str | Queue | QueueHandle) -> str:
        """The name that the queue has now. A name that the broker had made up, and replaced since, leads to the
        new one."""
        handle = self._cache.handle(queue)
        if handle is not None:
            return handle.name
        return queue if isinstance(queue, str) else queue.name

    # ---- declaring

    async def declare(
        self, *things: Exchange | Queue | Binding | Retry, force: bool = False, deadline_s: float | None = None
    ) -> list[QueueHandle]:
        """Makes sure that everything is there: exchanges first, then queues, then bindings, in whatever order they are
        given. Gives a handle for each queue among them, in their order.

        What was declared before with the same parameters is not sent again unless `force`. Raises ValueError before
        anything is sent if a name or argument makes no sense; TopologyConflict if something is there and different."""
        until = self._until(deadline_s)
        plain = _ordered(things)
        for thing in plain:
            check(thing)
        handles: list[QueueHandle] = []
        for thing in plain:
            if isinstance(thing, Queue):
                handles.append(await self._declare_queue(thing, force, until))
            elif force or not self._cache.has(thing):
                await self._declare_other(thing, until)
        return handles

    async def _declare_other(self, thing: Exchange | Binding, until: Until) -> None:
        if isinstance(thing, Binding):
            thing = self._cache.referring(thing)
        await self._caller.call(partial(declaring, thing), thing, until)
        if isinstance(thing, Exchange):
            self._cache.add_exchange(thing)
        else:
            self._cache.add_binding(thing)

    async def declare_queue(
        self, queue: Queue | str = "", *, force: bool = False, deadline_s: float | None = None
    ) -> QueueHandle:
        """One queue, and its handle."""
        record = Queue(queue) if isinstance(queue, str) else queue
        return (await self.declare(record, force=force, deadline_s=deadline_s))[0]

    async def _declare_queue(self, queue: Queue, force: bool, until: Until) -> QueueHandle:
        known = self._cache.handle(queue.name) if queue.name else None
        if known is not None and not force and self._cache.has(queue):
            return known
        answer = await self._caller.call(partial(declaring, queue), queue, until)
        assert isinstance(answer, QueueDeclareOk)
        counts = QueueCounts(answer.message_count, answer.consumer_count)
        # Looked for once more: others may have declared it meanwhile, and a queue has one handle.
        handle = self._cache.handle(queue.name) if queue.name else None
        if handle is None:
            handle = QueueHandle(queue, answer.queue, counts)
        handle.queue, handle.counts = queue, counts
        self._cache.add_queue(handle)
        return handle

    # ---- taking away

    async def delete(
        self,
        *things: Exchange | Queue | QueueHandle | Binding,
        if_unused: bool = False,
        if_empty: bool = False,
        deadline_s: float | None = None,
    ) -> None:
        """Deletes them from the broker and forgets them, with all bindings that go with them. What is not there is no
        error. `if_unused` and `if_empty` make the broker refuse, which is ChannelClosed with code 406."""
        until = self._until(deadline_s)
        for thing in things:
            if isinstance(thing, Queue) and not thing.name:
                raise ValueError("a queue that the broker named is deleted by its handle")
        for thing in things:
            if isinstance(thing, Binding):
                thing = self._cache.referring(thing)
            await self._caller.call(partial(deleting, thing, if_unused, if_empty), thing, until)
            match thing:
                case Exchange():
                    self._cache.forget_exchange(thing.name)
                case Queue() | QueueHandle():
                    self._cache.forget_queue(thing.name)
                case Binding():
                    self._cache.forget_binding(thing)

    async def unbind(self, *bindings: Binding, deadline_s: float | None = None) -> None:
        """An exchange that deletes itself after its last binding is forgotten with that."""
        await self.delete(*bindings, deadline_s=deadline_s)

    # ---- looking

    async def exists(self, thing: Exchange | Queue | QueueHandle, *, deadline_s: float | None = None) -> bool:
        """Whether the broker has an exchange or queue of this name, however it was declared. Makes nothing."""
        if not thing.name:
            raise ValueError("only what has a name can be looked for; use the queue's handle")
        try:
            await self._caller.call(partial(looking, thing), thing, self._until(deadline_s))
        except ChannelClosed as error:
            if error.code == NOT_FOUND:
                return False
            # There, but another connection's own.
            if error.code == RESOURCE_LOCKED:
                return True
            raise
        return True

    async def counts(self, queue: str | Queue | QueueHandle, *, deadline_s: float | None = None) -> QueueCounts:
        """Ready messages and consumers now. Raises ChannelClosed with code 404 if there is no such queue."""
        answer = await self._caller.call(
            lambda: looking(Queue(self.resolve(queue))), Queue(self.resolve(queue)), self._until(deadline_s)
        )
        assert isinstance(answer, QueueDeclareOk)
        return QueueCounts(answer.message_count, answer.consumer_count)

    async def diff(
        self,
        *things: Exchange | Queue | Binding | Retry,
        management: str | None = None,
        deadline_s: float | None = None,
    ) -> Diff:
        """How the broker differs from these things, or from all that was declared if there are none.

        AMQP shows whether a thing is there and the first difference of each, but no bindings and nothing that we do
        not know by name. With the address of the management API, http://user:password@host:15672, the difference is
        exact."""
        until = self._until(deadline_s)
        wanted = _ordered(things) if things else self._declared()
        for thing in wanted if things else ():
            check(thing)
        if management is None:
            return await diff_over_amqp(wanted, self._caller, until)
        return await diff_over_http(wanted, management, self._virtual_host, until.left("diff"))

    def _declared(self) -> list[Thing]:
        """Everything, with the queues under the names that they have now."""
        queues = [handle.queue.replace(name=handle.name) for handle in self._cache.handles]
        return [*self._cache.exchanges, *queues, *self._cache.bindings]

    # ---- files

    async def load(
        self, path: str | Path, *, force: bool = False, deadline_s: float | None = None
    ) -> list[QueueHandle]:
        """Declares what a file says, TOML or JSON by its ending; see files.py for what stands in one."""
        things = await asyncio.to_thread(read_topology, path, self._virtual_host)
        return await self.declare(*things, force=force, deadline_s=deadline_s)

    def dump(self, format: str = "toml") -> str:
        """What was declared, as a file that `load` reads. Queues that the broker named are not in it: their names
        mean nothing to the next connection."""
        queues = [handle.queue for handle in self._cache.handles if not handle.is_server_named]
        bindings = [
            binding
            for binding in self._cache.bindings
            if not (isinstance(binding.destination, QueueHandle) and binding.destination.is_server_named)
        ]
        return dump_topology([*self._cache.exchanges, *queues, *bindings], format)

    # ---- for the connection and its consumers

    async def restore(self, link: Link) -> None:
        """The connection has a new link. Raises TopologyIncomplete when all the rest is declared."""

        async def open_channel(deadline_s: float | None) -> Channel:
            return await Channel.open(link, self._deadline_s if deadline_s is None else deadline_s)

        report = await self.recover(open_channel)
        if report.failures:
            raise TopologyIncomplete(report)

    def lost(self, reason: ClientError) -> None:
        """Nothing to do: whoever asks something waits for the next link."""

    async def stop(self, reason: ClientError) -> None:
        """The channel ends with the connection, and with it all who wait."""

    async def recover(self, open_channel: OpenChannel) -> RecoveryReport:
        """Declares everything again over a connection that has just come up. What cannot be had is in the report, and
        is tried again at the next time. Raises ConnectionLost if the connection goes again."""
        caller = Caller(open_channel, repeats=False)
        try:
            self.last_recovery = await redeclare(self._cache, caller, self._deadline_s)
        finally:
            await caller.close()
        return self.last_recovery

    def consumer_added(self, queue: str | QueueHandle) -> None:
        """Once for each consumer, not again when it is resumed after a reconnect."""
        handle = self._cache.handle(queue)
        if handle is not None:
            self._cache.consumer_added(handle)

    def consumer_removed(self, queue: str | QueueHandle) -> None:
        """A consumer was cancelled by its user. With the last one the broker deletes an auto-delete queue, so it is
        forgotten here."""
        handle = self._cache.handle(queue)
        if handle is not None:
            self._cache.consumer_removed(handle)

    def doubt(self, queue: str | QueueHandle) -> None:
        """The broker said that the queue is gone, and nobody here deleted it: the next declare asks the broker."""
        handle = self._cache.handle(queue)
        if handle is not None:
            self._cache.doubt_queue(handle)

    async def close(self) -> None:
        await self._caller.close()

    def _until(self, deadline_s: float | None) -> Until:
        return Until(self._deadline_s if deadline_s is None else deadline_s)


def _ordered(things: Iterable[Exchange | Queue | Binding | Retry]) -> list[Thing]:
    """Exchanges, then queues, then bindings, with the plans of retries among them; else as they were given."""
    plain: list[Thing] = []
    for thing in things:
        plain.extend(thing.plan() if isinstance(thing, Retry) else [thing])
    return [thing for kind in _ORDER for thing in plain if isinstance(thing, kind)] + [
        # Not ours: the check says so.
        thing
        for thing in plain
        if not isinstance(thing, _ORDER)
    ]

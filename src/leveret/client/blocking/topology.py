"""The topology manager, for threads."""

from __future__ import annotations

from pathlib import Path

from leveret.client.blocking.way import Way
from leveret.client.topology import (
    Binding,
    Diff,
    Exchange,
    Queue,
    QueueCounts,
    QueueHandle,
    RecoveryReport,
    Retry,
)
from leveret.client.topology import Topology as AsyncTopology

__all__ = ["Topology"]


class Topology:
    """Use `connection.topology`. What was declared is declared again after a reconnect."""

    def __init__(self, way: Way, inner: AsyncTopology) -> None:
        self._way = way
        self._inner = inner

    @property
    def exchanges(self) -> list[Exchange]:
        return self._way.bridge.do(lambda: self._inner.exchanges)

    @property
    def queues(self) -> list[QueueHandle]:
        return self._way.bridge.do(lambda: self._inner.queues)

    @property
    def bindings(self) -> list[Binding]:
        return self._way.bridge.do(lambda: self._inner.bindings)

    @property
    def last_recovery(self) -> RecoveryReport | None:
        return self._inner.last_recovery

    def resolve(self, queue: str | Queue | QueueHandle) -> str:
        """The name that the queue has now."""
        return self._way.bridge.do(self._inner.resolve, queue)

    def declare(
        self, *things: Exchange | Queue | Binding | Retry, force: bool = False, deadline_s: float | None = None
    ) -> list[QueueHandle]:
        """Makes sure that everything is there: exchanges first, then queues, then bindings. Gives a handle for each
        queue among them. Raises TopologyConflict if something is there and different."""
        return self._way.call(deadline_s, self._inner.declare, *things, force=force, deadline_s=deadline_s)

    def declare_queue(
        self, queue: Queue | str = "", *, force: bool = False, deadline_s: float | None = None
    ) -> QueueHandle:
        """One queue, and its handle."""
        return self._way.call(deadline_s, self._inner.declare_queue, queue, force=force, deadline_s=deadline_s)

    def delete(
        self,
        *things: Exchange | Queue | QueueHandle | Binding,
        if_unused: bool = False,
        if_empty: bool = False,
        deadline_s: float | None = None,
    ) -> None:
        """Deletes them from the broker and forgets them. What is not there is no error."""
        self._way.call(
            deadline_s, self._inner.delete, *things, if_unused=if_unused, if_empty=if_empty, deadline_s=deadline_s
        )

    def unbind(self, *bindings: Binding, deadline_s: float | None = None) -> None:
        self._way.call(deadline_s, self._inner.unbind, *bindings, deadline_s=deadline_s)

    def exists(self, thing: Exchange | Queue | QueueHandle, *, deadline_s: float | None = None) -> bool:
        """Whether the broker has an exchange or queue of this name. Makes nothing."""
        return self._way.call(deadline_s, self._inner.exists, thing, deadline_s=deadline_s)

    def counts(self, queue: str | Queue | QueueHandle, *, deadline_s: float | None = None) -> QueueCounts:
        """Ready messages and consumers now."""
        return self._way.call(deadline_s, self._inner.counts, queue, deadline_s=deadline_s)

    def diff(
        self,
        *things: Exchange | Queue | Binding | Retry,
        management: str | None = None,
        deadline_s: float | None = None,
    ) -> Diff:
        """How the broker differs from these things, or from all that was declared."""
        return self._way.call(deadline_s, self._inner.diff, *things, management=management, deadline_s=deadline_s)

    def load(self, path: str | Path, *, force: bool = False, deadline_s: float | None = None) -> list[QueueHandle]:
        """Declares what a file says, TOML or JSON by its ending."""
        return self._way.call(deadline_s, self._inner.load, path, force=force, deadline_s=deadline_s)

    def dump(self, format: str = "toml") -> str:
        """What was declared, as a file that `load` reads."""
        return self._way.bridge.do(self._inner.dump, format)

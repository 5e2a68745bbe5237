"""What everything on a blocking connection needs: the bridge, the connection's default deadline, and the connection
itself, which is closed when nobody holds it any more."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import Any, Generic, ParamSpec, TypeVar

from leveret.client.blocking.bridge import Bridge

__all__ = ["Face", "Way"]

P = ParamSpec("P")
T = TypeVar("T")
Inner = TypeVar("Inner")


class Way:
    def __init__(self, bridge: Bridge, owner: object, deadline_s: float) -> None:
        self.bridge = bridge
        self.owner = owner
        self.deadline_s = deadline_s

    def with_deadline(self, deadline_s: float | None) -> Way:
        """The same with another default."""
        return self if deadline_s is None else Way(self.bridge, self.owner, deadline_s)

    def call(
        self,
        deadline_s: float | None,
        function: Callable[P, Coroutine[Any, Any, T]],
        /,
        *args: P.args,
        **kwargs: P.kwargs,
    ) -> T:
        """The result of a coroutine function of the asyncio client; None is the default deadline."""
        return self.bridge.call(self.deadline_s if deadline_s is None else deadline_s, function, *args, **kwargs)

    def acquire(
        self,
        undo: Callable[[T], Coroutine[Any, Any, None]],
        deadline_s: float | None,
        function: Callable[P, Coroutine[Any, Any, T]],
        /,
        *args: P.args,
        **kwargs: P.kwargs,
    ) -> T:
        """The same for what must be given back if the caller is interrupted, see Bridge.acquire."""
        seconds = self.deadline_s if deadline_s is None else deadline_s
        return self.bridge.acquire(undo, seconds, function, *args, **kwargs)


class Face(Generic[Inner]):
    """What threads hold of one object of the asyncio client."""

    def __init__(self, way: Way, inner: Inner) -> None:
        self._way = way
        self._inner = inner

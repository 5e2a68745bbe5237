"""Questions and answers for threads, over direct reply-to."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from types import TracebackType
from typing import Any, TypeVar, overload

from leveret.client.blocking.bridge import Bridge
from leveret.client.blocking.channel import Delivery
from leveret.client.blocking.way import Face
from leveret.client.rpc.caller import Rpc as AsyncRpc
from leveret.client.rpc.caller import RpcCounters
from leveret.client.rpc.server import STOP_DEADLINE_S, ServerCounters
from leveret.client.rpc.server import RpcServer as AsyncRpcServer
from leveret.core.client.delivery import Delivery as AsyncDelivery

__all__ = ["Rpc", "RpcServer", "plain_handler"]

T = TypeVar("T")


class Rpc(Face[AsyncRpc]):
    """Made by `connection.rpc()`. Any number of threads may call at once."""

    @property
    def counters(self) -> RpcCounters:
        return self._inner.counters

    @overload
    def call(
        self,
        body: Any,
        *,
        routing_key: str,
        exchange: str = "",
        type: type[T],
        deadline_s: float | None = None,
        retry: bool = False,
        headers: Mapping[str, Any] | None = None,
        **properties: Any,
    ) -> T: ...

    @overload
    def call(
        self,
        body: Any,
        *,
        routing_key: str,
        exchange: str = "",
        type: None = None,
        deadline_s: float | None = None,
        retry: bool = False,
        headers: Mapping[str, Any] | None = None,
        **properties: Any,
    ) -> Delivery: ...

    def call(
        self,
        body: Any,
        *,
        routing_key: str,
        exchange: str = "",
        type: Any = None,
        deadline_s: float | None = None,
        retry: bool = False,
        headers: Mapping[str, Any] | None = None,
        **properties: Any,
    ) -> Any:
        """Publishes the body and gives the answer: a Delivery, or what its body is as `type`. Raises Unroutable at once
        if no queue takes the question, RemoteError if the handler failed, DeadlineExceeded, and ConnectionLost if the
        connection breaks after it was asked, unless `retry` says that it may be asked again."""

        async def call() -> Any:
            return await self._inner.call(
                body,
                routing_key=routing_key,
                exchange=exchange,
                type=type,
                deadline_s=deadline_s,
                retry=retry,
                headers=headers,
                **properties,
            )

        answer = self._way.call(deadline_s, call)
        return Delivery(self._way.bridge, answer) if type is None else answer

    def close(self) -> None:
        if not self._way.bridge.is_foreign:
            self._way.call(None, self._inner.close)

    def __enter__(self) -> Rpc:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()


class RpcServer(Face[AsyncRpcServer]):
    """Made by `connection.serve(queue, handler)`: the handler is called in threads, as many as `concurrency`."""

    @property
    def counters(self) -> ServerCounters:
        return self._inner.counters

    def start(self, deadline_s: float | None = None) -> RpcServer:
        self._way.call(deadline_s, self._inner.start, deadline_s)
        return self

    def wait(self) -> None:
        """Until it is stopped. Raises why, if that was not by its user."""
        self._way.bridge.call(None, self._inner.wait)

    def stop(self, deadline_s: float = STOP_DEADLINE_S) -> None:
        """Takes no more questions, and lets those in hand be answered; what is left at the deadline goes back."""
        if not self._way.bridge.is_foreign:
            self._way.call(deadline_s + self._way.deadline_s, self._inner.stop, deadline_s)

    def __enter__(self) -> RpcServer:
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.stop()


def plain_handler(bridge: Bridge, handler: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """The handler with a request that threads may touch."""
    if inspect.iscoroutinefunction(handler):
        raise TypeError("a blocking server calls plain functions; coroutine functions are for leveret.client")

    def call(request: Any) -> Any:
        return handler(Delivery(bridge, request) if isinstance(request, AsyncDelivery) else request)

    return call

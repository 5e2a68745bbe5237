"""One AMQP channel and one delivery, for threads."""

from __future__ import annotations

import logging
from collections.abc import Callable
from types import TracebackType
from typing import Any

from leveret.client.blocking.bridge import Bridge
from leveret.client.blocking.way import Way
from leveret.client.errors import AlreadySettled, ClientError, StaleDelivery
from leveret.client.transport.channel import CLOSE_DEADLINE_S
from leveret.client.transport.channel import Channel as AsyncChannel
from leveret.core.client.delivery import Delivery as AsyncDelivery
from leveret.wire.method import Method

__all__ = ["Channel", "Delivery"]

log = logging.getLogger(__name__)


class Delivery:
    """A message from a queue, to be settled once by any thread: `ack`, `nack` or `reject`. Properties that the message
    does not have are None."""

    __slots__ = ("_bridge", "_inner", "_unsettled")

    # Read from the asyncio client's delivery, see __getattr__.
    body: bytes
    exchange: str
    routing_key: str
    delivery_tag: int
    consumer_tag: str
    redelivered: bool
    is_stale: bool
    message_count: int
    properties: Any
    headers: dict[str, Any]
    content_type: str | None
    content_encoding: str | None
    delivery_mode: int | None
    priority: int
    correlation_id: str | None
    reply_to: str | None
    expiration: str | None
    message_id: str | None
    timestamp: int | None
    type: str | None
    user_id: str | None
    app_id: str | None

    def __init__(self, bridge: Bridge, inner: AsyncDelivery) -> None:
        self._bridge = bridge
        self._inner = inner
        # Who takes the one thing out of it settles: that is atomic, whatever the other threads do.
        self._unsettled = [inner]

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)

    def __repr__(self) -> str:
        return repr(self._inner)

    @property
    def inner(self) -> AsyncDelivery:
        """The asyncio client's, which is not to be settled by other threads than its own."""
        return self._inner

    @property
    def is_settled(self) -> bool:
        return not self._unsettled or bool(self._inner.is_settled)

    def ack(self, multiple: bool = False) -> None:
        """Done with it; with `multiple` also with all that came before it on its channel. Does not wait."""
        self._settle(lambda: self._inner.ack(multiple))

    def nack(self, requeue: bool = True, multiple: bool = False) -> None:
        """Not done: back into the queue, or off to the dead letters. Does not wait."""
        self._settle(lambda: self._inner.nack(requeue, multiple))

    def reject(self, requeue: bool = False) -> None:
        self._settle(lambda: self._inner.reject(requeue))

    def _settle(self, settle: Callable[[], None]) -> None:
        self._bridge.check()
        if self._inner.is_settled:
            raise AlreadySettled(f"delivery {self.delivery_tag} is settled already")
        if self._inner.is_stale:
            raise StaleDelivery(f"the channel of delivery {self.delivery_tag} is gone: it will come again")
        try:
            self._unsettled.pop()
        except IndexError:
            raise AlreadySettled(f"delivery {self.delivery_tag} is settled already") from None
        self._bridge.soon(lambda: self._settle_in_loop(settle))

    def _settle_in_loop(self, settle: Callable[[], None]) -> None:
        try:
            settle()
        except (StaleDelivery, AlreadySettled) as error:
            # The channel went away while the word was on its way: the broker delivers the message again.
            log.info("a delivery could not be settled", extra={"reason": str(error)})


class Channel:
    """One AMQP channel. It does not come back when the connection is lost: it ends with `closed_by`."""

    def __init__(self, way: Way, inner: AsyncChannel) -> None:
        self._way = way
        self._inner = inner

    @property
    def number(self) -> int:
        return self._inner.number

    @property
    def is_open(self) -> bool:
        return self._inner.is_open

    @property
    def closed_by(self) -> ClientError | None:
        return self._inner.closed_by

    def call(self, method: Method, deadline_s: float | None = None) -> Any:
        """The broker's answer to a method of leveret.wire, such as QueueDeclare("orders")."""
        return self._way.call(deadline_s, self._inner.call, method, deadline_s)

    def send(self, method: Method) -> None:
        """For what has no answer."""
        self._way.bridge.do(self._inner.send, method)

    def confirm(self) -> None:
        """From now on the broker confirms what is published here."""
        self._way.call(None, self._inner.confirm)

    def prefetch(self, count: int, size: int = 0) -> None:
        """How many unsettled deliveries the consumers to come on this channel may have each; 0 is any number."""
        self._way.call(None, self._inner.prefetch, count, size)

    def get(self, queue: str, no_ack: bool = False, deadline_s: float | None = None) -> Delivery | None:
        """One message, or None if there is none."""
        got = self._way.acquire(put_back, deadline_s, self._inner.get, queue, no_ack, deadline_s)
        return None if got is None else Delivery(self._way.bridge, got)

    def close(self, deadline_s: float = CLOSE_DEADLINE_S) -> None:
        if not self._way.bridge.is_foreign and self._inner.is_open:
            self._way.call(deadline_s, self._inner.close, deadline_s)

    def __enter__(self) -> Channel:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()


async def put_back(delivery: AsyncDelivery | None) -> None:
    """For a delivery that came when nobody wanted it any more."""
    if delivery is not None and not delivery.is_settled and not delivery.is_stale:
        delivery.nack()

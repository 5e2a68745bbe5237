"""Deliveries by the batch, settled together.

One ack with `multiple` stands for all deliveries of the channel up to it. So it is used only where those are exactly
the ones that are meant, and each is settled by itself where they are not."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Generic, TypeVar

from leveret.client.payload import Typed
from leveret.core.client.delivery import Delivery

__all__ = ["Batch", "plain"]

M = TypeVar("M")


def plain(message: Any) -> Delivery:
    """The delivery that a message is, or has."""
    delivery: Delivery = message.delivery if isinstance(message, Typed) else message
    return delivery


class Batch(Generic[M]):
    """`deliveries` came over one channel, in this order. Settle a batch once, with `ack` or `nack`; before that tell
    with `failed` which of it are not done."""

    __slots__ = ("deliveries",)

    def __init__(self, deliveries: list[M]) -> None:
        self.deliveries = deliveries

    def __len__(self) -> int:
        return len(self.deliveries)

    def __iter__(self) -> Iterator[M]:
        return iter(self.deliveries)

    @property
    def payloads(self) -> list[Any]:
        """Of a typed consumer."""
        return [message.payload if isinstance(message, Typed) else plain(message).body for message in self.deliveries]

    @property
    def is_stale(self) -> bool:
        """Its channel is gone: it cannot be settled, and will be delivered again."""
        return bool(self.deliveries) and plain(self.deliveries[0]).is_stale

    def failed(self, message: M, requeue: bool = False) -> None:
        """This one is not done: to the dead letters, or back into the queue. The others are not touched."""
        plain(message).nack(requeue=requeue)

    def ack(self) -> None:
        """All that has not failed. Raises StaleDelivery if the channel is gone."""
        waiting = self._unsettled()
        if not waiting:
            return
        last = waiting[-1]
        if last.codec.unsettled_upto(last.delivery_tag) == len(waiting):
            last.ack(multiple=True)
            return
        for delivery in waiting:
            delivery.ack()

    def nack(self, requeue: bool = True) -> None:
        """All that has not been settled: the whole batch comes again, or goes to the dead letters."""
        waiting = self._unsettled()
        if not waiting:
            return
        last = waiting[-1]
        if last.codec.unsettled_upto(last.delivery_tag) == len(waiting):
            last.nack(requeue=requeue, multiple=True)
            return
        for delivery in waiting:
            delivery.nack(requeue=requeue)

    def _unsettled(self) -> list[Delivery]:
        return [delivery for delivery in map(plain, self.deliveries) if not delivery.is_settled]

    def __repr__(self) -> str:
        return f"<Batch of {len(self.deliveries)}>"

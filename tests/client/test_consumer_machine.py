"""Random histories of a consumer with a ledger: nothing is lost, and what the broker knows to be done is not repeated.

What was acknowledged may come again only if the connection was cut before the broker can have heard of it."""

from __future__ import annotations

import asyncio
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from leveret.client import AlreadySettled, Batch, Consumer, Delivery, StaleDelivery, connect
from tests.client.amqp_server import AmqpServer
from tests.client.consumer_scene import WAIT_S, Place, in_loop
from tests.conformance.topology import unique_name

PREFETCH = 8

step = st.one_of(
    st.tuples(st.just("publish"), st.integers(1, 12)),
    st.tuples(st.just("take"), st.integers(1, 6)),
    st.tuples(st.just("batch"), st.integers(1, PREFETCH)),
    st.tuples(st.sampled_from(("ack", "nack", "reject", "ack multiple", "nack multiple")), st.integers(0, 100)),
    st.tuples(st.just("ack batch"), st.integers(0, 100)),
    st.tuples(st.just("fail in batch"), st.integers(0, 100)),
    st.tuples(st.sampled_from(("cut", "cut at once", "start anew", "sync", "close the channel")), st.just(0)),
)


class Ledger:
    def __init__(self, place: Place, options: dict[str, Any]) -> None:
        self._place = place
        self._options = options
        self.consumer: Consumer[Delivery]
        self._published = 0
        # Done with, as the broker knows for sure; and what it may not have heard of.
        self._known: set[bytes] = set()
        self._told: set[bytes] = set()
        # The connection was cut before it was clear whether the broker had heard of it.
        self._doubtful: set[bytes] = set()
        self._in_hand: list[Delivery] = []
        self._batches: list[Batch[Delivery]] = []

    async def start(self) -> None:
        self.consumer = self._place.connection.consumer(self._place.queue, prefetch=PREFETCH, **self._options)
        await self.consumer.start()

    async def do(self, what: str, number: int) -> None:
        match what:
            case "publish":
                bodies = [str(self._published + one).encode() for one in range(number)]
                self._published += number
                await self._place.publish(*bodies)
            case "take":
                for _ in range(number):
                    delivery = await self._next()
                    if delivery is None:
                        break
                    self._in_hand.append(delivery)
            case "batch":
                await self._take_batch(number)
            case "ack batch" | "fail in batch":
                if self._batches:
                    self._settle_batch(self._batches.pop(number % len(self._batches)), what == "fail in batch")
            case "cut" | "cut at once":
                if what == "cut":
                    await self._sync()
                await self._place.cut()
                self._doubtful |= self._told
                self._told.clear()
            case "start anew":
                await self.consumer.stop(deadline_s=0)
                # Closing a channel is answered, so what was written before is known.
                self._known |= self._told
                await self.start()
            case "close the channel":
                channel = self.consumer._subscription._channel
                if channel is not None:
                    await channel.close()
                    self._known |= self._told
            case "sync":
                await self._sync()
            case _:
                if self._in_hand:
                    self._settle(self._in_hand.pop(number % len(self._in_hand)), what)

    async def _next(self) -> Delivery | None:
        try:
            delivery = await self.consumer.next(0.02)
        except TimeoutError:
            return None
        self._note(delivery)
        return delivery

    def _note(self, delivery: Delivery) -> None:
        assert delivery.body not in self._known, f"{delivery!r} was done"
        self._doubtful.discard(delivery.body)

    async def _take_batch(self, size: int) -> None:
        try:
            async with asyncio.timeout(0.05):
                async for batch in self.consumer.batches(size, wait_s=0.005):
                    for delivery in batch:
                        self._note(delivery)
                    assert len(batch) <= size
                    self._batches.append(batch)
                    break
        except TimeoutError:
            pass

    def _settle(self, delivery: Delivery, how: str) -> None:
        multiple = "multiple" in how
        covered = [delivery]
        if multiple:
            others = [*self._in_hand, *(one for batch in self._batches for one in batch)]
            covered += [
                one
                for one in others
                if one.codec is delivery.codec and one.delivery_tag < delivery.delivery_tag and not one.is_settled
            ]
        try:
            if how == "reject":
                delivery.reject()
            else:
                getattr(delivery, how.split()[0])(multiple=multiple)
        except StaleDelivery:
            assert delivery.is_stale
            return
        except AlreadySettled:
            assert delivery.is_settled
            return
        if how.startswith("ack") or how == "reject":
            self._told.update(one.body for one in covered)

    def _settle_batch(self, batch: Batch[Delivery], fail: bool) -> None:
        waiting = [delivery for delivery in batch if not delivery.is_settled]
        try:
            if fail and waiting:
                failed = waiting.pop(0)
                batch.failed(failed, requeue=True)
            batch.ack()
        except StaleDelivery:
            return
        self._told.update(delivery.body for delivery in waiting)

    async def _sync(self) -> None:
        """When the broker has answered this it has heard what was written before."""
        channel = self.consumer._subscription._channel
        if channel is not None and channel.is_open:
            await channel.prefetch(PREFETCH)
            self._known |= self._told

    async def finish(self) -> None:
        """Everything that is not done comes, and then all is done."""
        await self.consumer.stop(deadline_s=0)
        self._known |= self._told
        wanted = {str(number).encode() for number in range(self._published)} - self._known - self._doubtful
        found: set[bytes] = set()
        async with asyncio.timeout(WAIT_S), self._place.connection.consumer(self._place.queue) as consumer:
            # What is doubtful may come, too.
            while not found >= wanted or await self._place.depth() or consumer.waiting:
                delivery = await consumer.next()
                self._note(delivery)
                found.add(delivery.body)
                delivery.ack()
        await self._place.expect_depth(0)


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(step, min_size=5, max_size=40), st.sampled_from([{}, {"max_deliveries": 1000}]))
def test_nothing_is_lost_and_nothing_that_is_done_comes_again(
    leveret_server: AmqpServer, steps: list[tuple[str, int]], options: dict[str, Any]
) -> None:
    async def script() -> None:
        async with connect(leveret_server.url, backoff_min_s=0.001, backoff_max_s=0.05) as connection:
            place = Place(connection, unique_name("ledger"))
            await place.declare(place.queue)
            ledger = Ledger(place, options)
            await ledger.start()
            for what, number in steps:
                await ledger.do(what, number)
            await ledger.finish()
            await place.delete(place.queue)

    in_loop(script())

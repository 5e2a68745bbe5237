"""The load: publishers and consumers in threads, the queues they use, and the drain that shows what is left.

Goes on through every death of the broker. The history says exactly what was attempted, confirmed, received, acked."""

import threading
import time
from contextlib import suppress
from typing import Final

from tests.conformance.amqp_codec import Value
from tests.crash.client import Address, Closed, CrashClient, Delivery, connected
from tests.crash.consumer import Consumer, Manners
from tests.crash.history import DRAIN, Event, History, Kind, Sighting
from tests.crash.messages import id_of
from tests.crash.publisher import Publisher

FANOUT: Final = "crash.fanout"
# One consumer: order is judged over all lives. Two: their shares.
QUEUE_OF_ONE: Final = "crash.one"
QUEUE_OF_TWO: Final = "crash.two"
# Both bound to the fanout. Nobody takes from the deep one before the drain.
QUEUE_OF_HOARDER: Final = "crash.fanout.hoarder"
QUEUE_DEEP: Final = "crash.fanout.deep"
QUEUES: Final = (QUEUE_OF_ONE, QUEUE_OF_TWO, QUEUE_OF_HOARDER, QUEUE_DEEP)

# Of all publishers together: enough that a group commit is under way at any moment.
RATE: Final = 8000.0
_CONNECT_S_MAX: Final = 20.0
_STOP_S_MAX: Final = 40.0
_DRAIN_S_MAX: Final = 60.0


def declare(port: int, queue_arguments: dict[str, Value] | None = None) -> None:
    """Makes the queues and the exchange that the load uses; once, for a broker is to keep them."""
    with connected(port) as client:
        client.call(1, "exchange.declare", exchange=FANOUT, type="fanout", durable=True)
        for queue in QUEUES:
            client.call(1, "queue.declare", queue=queue, durable=True, arguments=queue_arguments or {})
        for queue in (QUEUE_OF_HOARDER, QUEUE_DEEP):
            client.call(1, "queue.bind", queue=queue, exchange=FANOUT)
        client.leave()


class Crew:
    """Publishers and consumers in threads: everything that goes on at a broker while it is being tormented."""

    def __init__(self, port: int, history: History, publishers: list[Publisher], consumers: list[Consumer]) -> None:
        self.port = port
        self.history = history
        self.publishers = publishers
        self.consumers = consumers
        self._threads: list[threading.Thread] = []

    def start(self) -> None:
        for worker in (*self.publishers, *self.consumers):
            # Daemons: a test that failed on the way must not keep pytest from ending.
            thread = threading.Thread(target=worker.run, args=(self.port,), daemon=True)
            thread.start()
            self._threads.append(thread)

    def wait_until_under_way(self) -> None:
        """Returns when every publisher has had a confirm in the present life; for all of them if they are blocked."""
        before = self.history.confirmed_count
        deadline = time.monotonic() + _CONNECT_S_MAX
        while not (all(p.is_connected for p in self.publishers) and self.history.confirmed_count > before):
            assert time.monotonic() < deadline, f"publishers get no confirms; refused: {self.history.refusals[-3:]}"
            time.sleep(0.005)

    def stop(self) -> None:
        """Ends it in good order: publishers wait for every confirm, consumers finish and leave."""
        self.stop_publishers()
        self._stop(self.consumers)

    def stop_publishers(self) -> None:
        self._stop(self.publishers)

    def abandon(self) -> None:
        """Ends it without a broker: whatever is open ends with errors."""
        for worker in (*self.publishers, *self.consumers):
            worker.stopping.set()
        for thread in self._threads:
            thread.join(_STOP_S_MAX)

    def _stop(self, workers: list[Publisher] | list[Consumer]) -> None:
        for worker in workers:
            worker.stopping.set()
        ending = [t for t, w in zip(self._threads, (*self.publishers, *self.consumers), strict=True) if w in workers]
        deadline = time.monotonic() + _STOP_S_MAX
        for thread in ending:
            thread.join(max(0.0, deadline - time.monotonic()))
        assert not any(thread.is_alive() for thread in ending), f"not done after {_STOP_S_MAX} s: confirms are missing"


class Load(Crew):
    """Plain queues, a fanout and consumers of all manners."""

    def __init__(self, port: int, history: History, seed: int = 0, rate: float = RATE) -> None:
        fanned = (QUEUE_OF_HOARDER, QUEUE_DEEP)
        each = rate / 4
        # Numbers go on where an earlier load on the same history ended: a publisher never begins anew.
        first = len(history.published)
        targets = [
            (Address("", QUEUE_OF_ONE), (QUEUE_OF_ONE,)),
            (Address("", QUEUE_OF_ONE), (QUEUE_OF_ONE,)),
            (Address("", QUEUE_OF_TWO), (QUEUE_OF_TWO,)),
            (Address(FANOUT, "any"), fanned),
        ]
        publishers = [
            Publisher(first + place, address, queues, each, history, seed)
            for place, (address, queues) in enumerate(targets)
        ]
        consumers = [
            Consumer("multiple", QUEUE_OF_ONE, Manners.ACK_MULTIPLE, history, seed),
            Consumer("single", QUEUE_OF_TWO, Manners.ACK_SINGLE, history, seed),
            Consumer("requeue", QUEUE_OF_TWO, Manners.REQUEUE, history, seed),
            Consumer("hoarder", QUEUE_OF_HOARDER, Manners.HOARD, history, seed),
        ]
        super().__init__(port, history, publishers, consumers)


def drain(port: int, history: History, queues: tuple[str, ...] = QUEUES) -> int:
    """Takes everything out of the queues, writes it down, and gives how much it was. A queue may be gone."""
    return sum(_drain_queue(port, history, queue) for queue in queues)


def _drain_queue(port: int, history: History, queue: str) -> int:
    deadline = time.monotonic() + _DRAIN_S_MAX
    taken = empty_in_a_row = 0
    with connected(port) as client:
        while empty_in_a_row < 2:
            assert time.monotonic() < deadline, f"{queue} is not empty after {_DRAIN_S_MAX} s"
            client.send(1, "queue.declare", queue=queue, passive=True)
            declared = client.read()
            if declared.name == "channel.close":
                history.refusals.append(f"drain: {declared['reply_text']}")
                return taken
            count = _take_out(client, history, queue, declared["message_count"])
            taken += count
            empty_in_a_row = 0 if count else empty_in_a_row + 1
            # What connections held that ended just now may still be on its way back into the queue.
            if not count:
                time.sleep(0.1)
        client.leave()
    return taken


def _take_out(client: CrashClient, history: History, queue: str, expected: int) -> int:
    """Consumes as many messages as the queue has said it holds, and whatever comes with them."""
    if not expected:
        return 0
    client.call(1, "basic.qos", prefetch_count=2000)
    client.call(1, "basic.consume", queue=queue, consumer_tag=DRAIN)
    deadline = time.monotonic() + _DRAIN_S_MAX
    taken = 0
    cancelled = False
    while not cancelled:
        assert time.monotonic() < deadline, f"{queue} gave {taken} of {expected} messages"
        items = client.incoming(0.2)
        newest = 0
        for item in items:
            if isinstance(item, Delivery):
                _note(history, queue, item)
                newest = item.tag
                taken += 1
        if newest:
            client.ack(newest, multiple=True)
        assert not any(isinstance(item, Closed) for item in items), items[-1]
        if taken >= expected:
            client.send(1, "basic.cancel", consumer_tag=DRAIN)
            cancelled = True
    return taken + _await_cancel(client, history, queue)


def _await_cancel(client: CrashClient, history: History, queue: str) -> int:
    taken = 0
    while True:
        items = client.incoming(20.0)
        assert items, f"no basic.cancel-ok from {queue}"
        for item in items:
            if isinstance(item, Delivery):
                _note(history, queue, item)
                client.ack(item.tag)
                taken += 1
            elif not isinstance(item, Closed) and getattr(item, "name", "") == "basic.cancel-ok":
                return taken


def _note(history: History, queue: str, delivery: Delivery) -> None:
    message = id_of(delivery.body)
    if message is None:
        history.damaged.append(f"{len(delivery.body)} octets in {queue}, {delivery.body[:32]!r}")
        return
    history.events.append(Event(Kind.DELIVERED, history.life, queue, DRAIN, message, delivery.redelivered))
    if history.sightings is not None:
        seen = (history.life, queue, DRAIN, message, delivery.redelivered, delivery.properties_raw, time.time())
        history.sightings.append(Sighting(*seen))
    history.events.append(Event(Kind.ACKED, history.life, queue, DRAIN, message))


def abandon_quietly(load: Crew) -> None:
    """For the end of a test that may have failed anywhere."""
    with suppress(Exception):
        load.abandon()

"""Consumers of the load, each with its own manners: how it settles what it gets, through every death of the broker."""

import random
import threading
import time
from enum import Enum
from typing import Final

from tests.crash.client import Closed, ConnectionLost, CrashClient, Delivery, Incoming, Refused, connected
from tests.crash.history import NO_MESSAGE, Event, History, Kind, Sighting
from tests.crash.messages import MessageId, id_of

_RECONNECT_S: Final = 0.02
_HOARD_MAX: Final = 100
_MULTIPLE_MAX: Final = 60


class Manners(Enum):
    """What a consumer does with what it gets."""

    ACK_SINGLE = "acks each"
    ACK_MULTIPLE = "acks many at once"
    REQUEUE = "gives some back first"
    HOARD = "leaves some unacked"


class Consumer:
    """Consumes one queue until told to stop."""

    # How many it may hold at once.
    prefetch = 300

    def __init__(self, name: str, queue: str, manners: Manners, history: History, seed: int) -> None:
        self.name = name
        self.queue = queue
        self.manners = manners
        self.history = history
        self.dice = random.Random(f"{seed} {name}")
        self.stopping = threading.Event()
        self.life = 0
        # Of the present connection: unacked in the order they came, and those it means to keep.
        self.held: list[tuple[int, MessageId]] = []
        self.hoard_count = 0

    def run(self, port: int) -> None:
        while True:
            try:
                self._connection(port)
            except Refused as refusal:
                self.history.refusals.append(f"{self.name}: {refusal}")
            except ConnectionLost:
                self._write_down(Kind.CUT, NO_MESSAGE)
            if self.stopping.wait(_RECONNECT_S):
                return

    def _connection(self, port: int) -> None:
        with connected(port) as client:
            # After the login: a broker that answered this is the one of the present life, or already dead.
            self.life = self.history.life
            self.held, self.hoard_count = [], 0
            client.call(1, "basic.qos", prefetch_count=self.prefetch)
            client.send(1, "basic.consume", queue=self.queue, consumer_tag=self.name)
            while not self.stopping.is_set():
                if not self._take(client, client.incoming(0.05)):
                    self._write_down(Kind.CUT, NO_MESSAGE)
                    client.await_end()
                    return
            self._ack_held(client)
            self._note(client.leave(), left_behind=True)

    def _take(self, client: CrashClient, items: list[Incoming]) -> bool:
        """Writes down and settles what came; False when the broker closed the connection or the channel."""
        # All of it is noted before anything is sent, which may fail.
        deliveries = self._note(items)
        for delivery, message in deliveries:
            self._settle(client, delivery, message)
        # Nothing more is under way: do not sit on the last few.
        if len(deliveries) < _MULTIPLE_MAX:
            self._ack_held(client)
        return not any(isinstance(item, Closed) for item in items)

    def _note(self, items: list[Incoming], left_behind: bool = False) -> list[tuple[Delivery, MessageId]]:
        deliveries = []
        for item in items:
            match item:
                case Delivery(_, redelivered, body):
                    message = id_of(body)
                    if message is None:
                        self.history.damaged.append(f"{len(body)} octets in {self.queue}, {body[:32]!r}")
                    else:
                        self._write_down(Kind.DELIVERED, message, redelivered, left_behind)
                        self._witness(item, message)
                        deliveries.append((item, message))
                case Closed(reason):
                    self.history.refusals.append(f"{self.name}: {reason}")
        return deliveries

    def _witness(self, item: Delivery, message: MessageId) -> None:
        if self.history.sightings is not None:
            seen = Sighting(
                self.life, self.queue, self.name, message, item.redelivered, item.properties_raw, time.time()
            )
            self.history.sightings.append(seen)

    def _settle(self, client: CrashClient, delivery: Delivery, message: MessageId) -> None:
        if self.manners is Manners.REQUEUE and not delivery.redelivered and self.dice.random() < 0.05:
            self._write_down(Kind.REQUEUED, message)
            client.requeue(delivery.tag)
        elif self.manners is Manners.HOARD and self.hoard_count < _HOARD_MAX and self.dice.random() < 0.02:
            self.hoard_count += 1
        elif self.manners is Manners.ACK_MULTIPLE:
            self.held.append((delivery.tag, message))
            if len(self.held) >= self.dice.randint(1, _MULTIPLE_MAX):
                self._ack_held(client)
        else:
            self._write_down(Kind.ACKED, message)
            client.ack(delivery.tag)

    def _ack_held(self, client: CrashClient) -> None:
        if self.held:
            held, self.held = self.held, []
            for _, message in held:
                self._write_down(Kind.ACKED, message)
            client.ack(held[-1][0], multiple=True)

    def _write_down(self, kind: Kind, message: MessageId, redelivered: bool = False, left_behind: bool = False) -> None:
        event = Event(kind, self.life, self.queue, self.name, message, redelivered, left_behind)
        self.history.events.append(event)

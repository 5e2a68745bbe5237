"""The network of the simulation: connections that keep their order, lose everything behind a loss, stall at cuts, and
are made anew. Packets of an older connection may come after those of a newer one, and a new connection may repeat what
the one before it had delivered; the receiving end drops what an older connection brings, as links do."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from random import Random
from typing import Any

Packet = tuple[bytes, Sequence[bytes] | None]


@dataclass(slots=True)
class Connection:
    """One direction of one connection."""

    number: int
    broken: bool = False
    # When the last packet arrives: later ones do not overtake it.
    due: int = 0
    stalled: deque[Packet] = field(default_factory=deque)
    sent: deque[Packet] = field(default_factory=lambda: deque(maxlen=3))


class Network:
    def __init__(self, dice: Random, loss: float, slow: float, at: Callable[..., None]) -> None:
        self.dice = dice
        self.loss = loss
        self.slow = slow
        self.at = at
        self.nodes: dict[int, Any] = {}
        self.connections: dict[tuple[int, int], Connection] = {}
        # One direction each.
        self.cuts: set[tuple[int, int]] = set()
        # The last connection of which something was lost on the way: nothing more of it arrives.
        self.torn: dict[tuple[int, int], int] = {}
        # The newest connection that a node has heard of: what an older one brings is dropped.
        self.heard: dict[tuple[int, int], int] = {}
        self.now = 0

    def connection(self, source: int, target: int) -> Connection:
        if (source, target) not in self.connections:
            self.connections[source, target] = Connection(1)
        return self.connections[source, target]

    def send(self, source: int, target: int, packet: Packet) -> None:
        if target not in self.nodes:
            return
        connection = self.connection(source, target)
        if connection.broken:
            return
        if self.dice.random() < self.loss:
            self.break_connection(source, target)
            return
        connection.sent.append(packet)
        if (source, target) in self.cuts:
            connection.stalled.append(packet)
        else:
            self._transmit(source, target, connection, packet)

    def _transmit(self, source: int, target: int, connection: Connection, packet: Packet) -> None:
        delay = self.dice.randint(30, 120) if self.dice.random() < self.slow else self.dice.randint(1, 6)
        connection.due = max(connection.due, self.now + delay)
        self.at(connection.due, self._arrive, source, target, connection.number, packet)

    def _arrive(self, source: int, target: int, number: int, packet: Packet) -> None:
        if number < self.heard.get((source, target), 0) or number <= self.torn.get((source, target), 0):
            return
        connection = self.connection(source, target)
        if (source, target) in self.cuts:
            # It was on its way when the wire was cut: lost, and all that follows with it.
            self.torn[source, target] = number
            if connection.number == number and not connection.broken:
                self.break_connection(source, target)
            return
        if number > self.heard.get((source, target), 0):
            # A connection that is new to the receiver: answers that it awaits may have been in the one before.
            self.heard[source, target] = number
            self.nodes[target].link_lost(source)
        self.nodes[target].receive(source, packet)

    def break_connection(self, source: int, target: int) -> None:
        """What is sent from now on is lost, until the sender has noticed."""
        connection = self.connection(source, target)
        if not connection.broken:
            connection.broken = True
            self.at(self.now + self.dice.randint(1, 60), self._renew, source, target, connection.number)

    def _renew(self, source: int, target: int, number: int) -> None:
        connection = self.connection(source, target)
        if connection.number != number:
            return
        self.connections[source, target] = Connection(number + 1)
        self.nodes[source].link_lost(target)
        if self.dice.random() < 0.3:
            for packet in list(connection.sent):
                self.send(source, target, packet)

    def cut(self, source: int, target: int) -> None:
        self.cuts.add((source, target))

    def heal(self, source: int, target: int) -> None:
        """The connection goes on with what had to wait, or is made anew."""
        self.cuts.discard((source, target))
        connection = self.connection(source, target)
        if self.dice.random() < 0.5:
            self.break_connection(source, target)
        elif not connection.broken:
            while connection.stalled:
                self._transmit(source, target, connection, connection.stalled.popleft())

    def restarted(self, node: int) -> None:
        """Every connection from and to this node is made anew."""
        for source, target in list(self.connections):
            if node in (source, target):
                self.connections[source, target] = Connection(self.connections[source, target].number + 1)
                if source != node:
                    self.nodes[source].link_lost(target)

"""One run of the simulation: nodes, clients, an administrator and faults in virtual time, all by the dice of one
seed."""

from __future__ import annotations

import heapq
import itertools
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from random import Random
from typing import Any

from leveret.cluster.consensus.engine import Members
from tests.simulation.administrator import Administrator
from tests.simulation.checkers import Call, Checkers, Violation
from tests.simulation.network import Network
from tests.simulation.node import Node

GROUP_FIRST = 1
NODES = (1, 2, 3, 4, 5)
BEGINNERS = (1, 2, 3)


@dataclass(frozen=True, slots=True)
class Faults:
    """How bad a run is. A fault happens every `every` units of time on average; a tick is ten units."""

    every: int
    loss: float
    slow_network: float
    slow_disk: float
    changes_members: bool

    @classmethod
    def rolled(cls, dice: Random) -> Faults:
        loss, slow, disk = (dice.choice((0.0, 0.01, 0.05)) for _ in range(3))
        return cls(dice.choice((40, 80, 150)), loss, slow, disk, dice.random() < 0.5)


class World:
    def __init__(self, seed: int, mistakes: Iterable[str] = (), faults: Faults | None = None) -> None:
        self.seed = seed
        self.dice = Random(seed)
        self.mistakes = frozenset(mistakes)
        self.faults = faults or Faults.rolled(self.dice)
        self.now = 0
        self.numbers = itertools.count()
        self.events: list[tuple[int, int, Callable[..., None], tuple[Any, ...]]] = []
        self.checkers = Checkers()
        self.network = Network(self.dice, self.faults.loss, self.faults.slow_network, self.at)
        self.calm = False
        self.crashes = 0
        self.installs = 0
        self.groups = list(range(GROUP_FIRST, GROUP_FIRST + self.dice.choice((1, 1, 2))))
        self.nodes = {number: Node(self, number) for number in NODES}
        self.network.nodes = self.nodes
        self.administrator = Administrator(self)
        for group in self.groups:
            self.administrator.begin(group, BEGINNERS)
        for node in self.nodes.values():
            node.start()
        self.at(1, self._client)
        self.at(self.faults.every, self._fault)
        if self.faults.changes_members:
            self.at(60, self.administrator.act)

    # ---- time

    def at(self, when: int, what: Callable[..., None], *arguments: Any) -> None:
        heapq.heappush(self.events, (when, next(self.numbers), what, arguments))

    def run_until(self, end: int) -> None:
        while self.events and self.events[0][0] <= end:
            self.now, _, what, arguments = heapq.heappop(self.events)
            self.network.now = self.now
            what(*arguments)
        self.now = self.network.now = end

    def run(self, units: int) -> World:
        """Faults for so long, then peace until all replicas agree; a Violation if something is not as it must be."""
        self.run_until(units)
        self.calm = True
        self.network.loss = self.network.slow = 0.0
        for source, target in sorted(self.network.cuts):
            self.network.heal(source, target)
        for node in self.nodes.values():
            node.disk.slow = 0.0
            node.paused_until = 0
            if not node.up:
                self._restart(node)
        deadline = self.now + 6000
        while not self._agree():
            if self.now >= deadline:
                raise Violation(
                    f"liveness: no agreement {deadline - units} units after the last fault; {self._states()}"
                )
            self.run_until(self.now + 50)
        self.checkers.finish()
        return self

    def _states(self) -> dict[int, dict[int, tuple[int, bytes]]]:
        return {
            group: {n.number: n.states[group] for n in self.nodes.values() if group in n.states}
            for group in self.groups
        }

    def _agree(self) -> bool:
        for group in self.groups:
            members = self.administrator.members_of(group)
            states = {self.nodes[replica >> 32].states.get(group) for replica in members}
            leaders = [node for node in self.nodes.values() if group in node.leads]
            last = self.checkers.history(group).last
            if (
                len(states) != 1
                or len(leaders) != 1
                or next(iter(states)) != (last, self.checkers.history(group).digests.get(last))
            ):
                return False
        return all(not node.waiting for node in self.nodes.values())

    # ---- clients

    def _client(self) -> None:
        if not self.calm:
            self.at(self.now + self.dice.randint(1, 16), self._client)
            call = Call(self.dice.choice(self.groups), b"%d" % len(self.checkers.calls), self.now)
            # Sometimes with a body, and mostly to who leads, or thinks so.
            call.payload += b"." * self.dice.choice((0, 0, 0, 30, 120))
            nodes = [node for node in self.nodes.values() if node.up and call.group in node.replicas]
            leaders = [node for node in nodes if call.group in node.leads]
            if leaders or nodes:
                node = self.dice.choice(leaders or nodes)
                self.checkers.calls.append(call)
                node.propose(call)

    def answer(self, call: Call, index: int) -> None:
        call.index, call.answered_at = index, self.now

    def configured(self, group: int, index: int, members: Members) -> None:
        self.administrator.configured(group, index, members)

    # ---- faults

    def _fault(self) -> None:
        if self.calm:
            return
        self.at(self.now + self.dice.randint(1, 2 * self.faults.every), self._fault)
        what = self.dice.choices(
            (self._crash, self._cut_one_way, self._isolate, self._heal_all, self._pause, self._break, self._transfer),
            (30, 15, 10, 20, 10, 10, 10),
        )[0]  # fmt: skip
        what()

    def _up(self) -> list[Node]:
        return [node for node in self.nodes.values() if node.up]

    def _crash(self) -> None:
        if self._up():
            node = self.dice.choice(self._up())
            self.crashes += 1
            node.crash()
            self.at(self.now + self.dice.choice((3, 30, 150)), self._restart, node)

    def _restart(self, node: Node) -> None:
        if not node.up:
            node.start()
            self.network.restarted(node.number)

    def _cut_one_way(self) -> None:
        source, target = self.dice.sample(NODES, 2)
        self.network.cut(source, target)

    def _isolate(self) -> None:
        node = self.dice.choice(NODES)
        for other in NODES:
            if other != node:
                self.network.cut(node, other)
                if self.dice.random() < 0.7:
                    self.network.cut(other, node)

    def _heal_all(self) -> None:
        for source, target in sorted(self.network.cuts):
            self.network.heal(source, target)

    def _pause(self) -> None:
        node = self.dice.choice(list(self.nodes.values()))
        node.paused_until = self.now + self.dice.randint(20, 300)

    def _break(self) -> None:
        source, target = self.dice.sample(NODES, 2)
        self.network.break_connection(source, target)

    def _transfer(self) -> None:
        for node in self._up():
            for group in list(node.leads):
                voters = node.driver.engine.status(group).voters
                node.driver.engine.transfer_leader(group, self.dice.choice(voters))

"""Who changes the members of groups while everything fails: adds learners, promotes them, removes voters and learners,
and destroys a replica once it is known to be removed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from leveret.cluster.consensus.engine import Change, Members, node_of, replica_id

if TYPE_CHECKING:
    from tests.simulation.world import World

VOTERS_MIN = 2
FLOOR = (1, 1)


class Administrator:
    def __init__(self, world: World) -> None:
        self.world = world
        # The latest committed configuration that any node has applied.
        self.known: dict[int, tuple[int, Members]] = {}
        self.serials = 0
        self.changes = 0
        # Replicas that were made and are in no configuration yet.
        self.made: dict[int, set[int]] = {}

    def begin(self, group: int, nodes: Sequence[int]) -> None:
        voters = [replica_id(node, 0) for node in nodes]
        self.known[group] = (FLOOR[0], (voters, []))
        self.made[group] = set()
        for node in nodes:
            self.world.nodes[node].create(group, 0, FLOOR, voters)

    def members_of(self, group: int) -> list[int]:
        voters, learners = self.known[group][1]
        return [*voters, *learners]

    def configured(self, group: int, index: int, members: Members) -> None:
        if index <= self.known[group][0]:
            return
        before = set(self.members_of(group))
        self.known[group] = (index, members)
        self.changes += 1
        self.made[group] -= set(self.members_of(group))
        for replica in sorted(before - set(self.members_of(group))):
            # Somewhat later, as an operator or reconciler would.
            self.world.at(self.world.now + self.world.dice.randint(1, 100), self._destroy, group, replica)

    def _destroy(self, group: int, replica: int) -> None:
        node = self.world.nodes[node_of(replica)]
        if replica in self.members_of(group):
            return
        if not node.up:
            self.world.at(self.world.now + 20, self._destroy, group, replica)
        elif node.replicas.get(group) == replica:
            node.destroy(group)

    def act(self) -> None:
        world = self.world
        if world.calm:
            return
        world.at(world.now + world.dice.randint(20, 120), self.act)
        group = world.dice.choice(world.groups)
        leaders = [node for node in world.nodes.values() if node.up and group in node.leads]
        if not leaders:
            return
        leader = world.dice.choice(leaders)
        change, replica = self._change(group)
        if replica and replica != leader.replicas[group]:
            leader.driver.change_members(group, change, replica)

    def _change(self, group: int) -> tuple[Change, int]:
        dice = self.world.dice
        voters, learners = self.known[group][1]
        waiting = sorted(self.made[group])
        if waiting and dice.random() < 0.7:
            return Change.ADD_LEARNER, dice.choice(waiting)
        if learners and dice.random() < 0.6:
            return Change.ADD_VOTER, dice.choice(list(learners))
        removable = [*(voters if len(voters) > VOTERS_MIN else ()), *learners]
        if removable and dice.random() < 0.5:
            return Change.REMOVE, dice.choice(removable)
        idle = [
            node
            for node in self.world.nodes.values()
            if node.up and group not in node.replicas and not self._on(group, node.number)
        ]
        if idle:
            self.serials += 1
            self.made[group].add(dice.choice(idle).create(group, self.serials, (0, 0), ()))
        return Change.ADD_LEARNER, 0

    def _on(self, group: int, node: int) -> bool:
        return any(node_of(replica) == node for replica in [*self.members_of(group), *self.made[group]])

"""A node of the consensus test: the real engine, driver and entry log over real links, on a disk in memory."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from random import Random

from leveret.cluster.consensus.driver import Driver, Offer
from leveret.cluster.consensus.engine import Members, make_engine, replica_id
from leveret.cluster.consensus.entry_log import EntryLog
from leveret.cluster.members.credentials import Files
from tests.cluster.nodes import SETTINGS, Node, Recorder
from tests.simulation.disk import Disk

GROUP = 5
VOTERS = [replica_id(node, 1) for node in (1, 2, 3)]
TICK_S = 0.02
ELECTION_TICKS, HEARTBEAT_TICKS = 10, 2


class ConsensusNode(Recorder):
    """Listener of its links and machine of its driver. What survives a restart is the disk."""

    def __init__(self, files: Files, disk: Disk | None = None) -> None:
        super().__init__()
        self.node = Node(files, SETTINGS)
        self.node.links._listener = self
        self.number = self.node.identity.node
        self._loop = asyncio.get_running_loop()
        self.disk = disk or Disk(Random(self.number), 0.0, self._at, self._now)
        self.disk.at, self.disk.now, self.disk.on_synced = self._at, self._now, self._synced
        if disk is None:
            self.disk.create(GROUP, VOTERS[self.number - 1], (0, 0), VOTERS, (0, 0, 0))
        self.applied: list[bytes] = []
        self.leads = False
        self.driver = Driver(make_engine(self.number + 1000), EntryLog(self.disk), self.node.links, self)
        self.driver.add_group(Disk.stored(GROUP, self.disk.groups()[GROUP]), ELECTION_TICKS, HEARTBEAT_TICKS)
        self._turning = False
        self._closed = False
        self._timer = self._loop.call_later(TICK_S, self._tick)

    # ---- time and turns

    def _now(self) -> int:
        return int(self._loop.time() * 1000)

    def _at(self, moment: int, call: object, *arguments: object) -> None:
        self._loop.call_at(moment / 1000, call, *arguments)  # type: ignore[arg-type]

    def _tick(self) -> None:
        self._timer = self._loop.call_later(TICK_S, self._tick)
        self.driver.tick()
        self._want_turn()

    def _want_turn(self) -> None:
        if not self._turning and not self._closed:
            self._turning = True
            self._loop.call_soon(self._turn)

    def _turn(self) -> None:
        self._turning = False
        if not self._closed and self.driver.turn():
            self._want_turn()

    def _synced(self, ticket: int) -> None:
        if not self._closed:
            self.driver.synced(ticket)
            self._want_turn()

    def propose(self, payload: bytes) -> bool:
        _, index = self.driver.propose(GROUP, payload)
        self._want_turn()
        return index > 0

    async def close(self) -> None:
        """As a crash: what was not synced is lost."""
        self._closed = True
        self._timer.cancel()
        self.disk.crash()
        await self.node.close()

    # ---- LinkListener

    def received(self, node: int, frame: bytes) -> None:
        self.driver.received(node, frame)
        self._want_turn()

    def received_carrier(self, node: int, frame: bytes, payloads: Sequence[bytes]) -> None:
        self.driver.received_carrier(node, frame, payloads)
        self._want_turn()

    def lost(self, node: int) -> None:
        self.driver.lost(node)

    # ---- Machine

    def apply(self, group: int, index: int, term: int, payload: bytes) -> None:
        if payload:
            self.applied.append(payload)

    def configured(self, group: int, index: int, members: Members) -> None:
        pass

    def led(self, group: int, leader: int, term: int, here: bool) -> None:
        self.leads = here

    def offered(self, offer: Offer) -> None:
        raise AssertionError("nothing is forgotten in this test, so nothing is offered")

    def installed(self, group: int, index: int) -> None:
        raise AssertionError("nothing is forgotten in this test, so nothing is installed")

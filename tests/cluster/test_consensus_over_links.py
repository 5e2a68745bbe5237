"""The consensus over real links: three nodes with the real engine elect, replicate, and survive cuts and restarts."""

from __future__ import annotations

import asyncio

from leveret.cluster.links.hello import Purpose
from leveret.cluster.members.credentials import Files
from tests.cluster.consensus_node import ConsensusNode
from tests.cluster.nodes import meet, until
from tests.simulation.engine_needed import engine_marks
from tests.unit.runtime.endpoints import run

pytestmark = engine_marks()


def leader_of(nodes: list[ConsensusNode]) -> ConsensusNode | None:
    """The one that all agree on."""
    leaders = {node.driver.engine.status(5).leader for node in nodes}
    leading = [node for node in nodes if node.leads]
    return leading[0] if len(leading) == 1 and len(leaders) == 1 and 0 not in leaders else None


async def elected(nodes: list[ConsensusNode]) -> ConsensusNode:
    await until(lambda: leader_of(nodes) is not None)
    found = leader_of(nodes)
    assert found is not None
    return found


async def committed(nodes: list[ConsensusNode], payload: bytes) -> None:
    """Proposes until it is applied everywhere: a leader may go at any time, and then the proposal is lost or is not."""
    while not all(payload in node.applied for node in nodes):
        leader = leader_of(nodes)
        if leader is not None and payload not in leader.applied:
            leader.propose(payload)
        for _ in range(100):
            await asyncio.sleep(0.01)
            if all(payload in node.applied for node in nodes):
                break


def assert_agreed(nodes: list[ConsensusNode]) -> None:
    first = nodes[0].applied
    assert all(node.applied == first for node in nodes), [len(node.applied) for node in nodes]


def test_three_nodes_elect_replicate_and_survive(cluster: list[Files]) -> None:
    async def test() -> None:
        nodes = [ConsensusNode(files) for files in cluster]
        try:
            for one in nodes:
                one.node.listen()
            await meet(*(one.node for one in nodes))
            leader = await elected(nodes)

            # Many small entries, and one that goes in parts.
            payloads = [b"entry %d" % number for number in range(300)] + [bytes(2 << 20), b"last"]
            for payload in payloads:
                assert leader.propose(payload)
            await until(lambda: all(node.applied == payloads for node in nodes))

            # Connections for consensus are cut, those of the leader to a follower and back, under load.
            follower = next(node for node in nodes if node is not leader)
            for round_number in range(5):
                link = leader.node.links.links[follower.number]
                for connection in (link.outgoing.get(Purpose.CONSENSUS), link.incoming.get(Purpose.CONSENSUS)):
                    if connection is not None:
                        connection.transport.abort("cut by the test")
                await committed(nodes, b"round %d" % round_number)
            assert_agreed(nodes)
            assert leader.node.links.links[follower.number].statistics.losses >= 5

            # The leader goes; the others go on; it comes back with its disk and has everything.
            leader = await elected(nodes)
            rest = [node for node in nodes if node is not leader]
            port = leader.node.address.port
            await leader.close()
            await until(lambda: any(node.leads for node in rest))
            await until(lambda: leader_of(rest) is not None)
            await committed(rest, b"without it")
            again = ConsensusNode(leader.node.files, leader.disk)
            nodes = [*rest, again]
            again.node.listen(port=port)
            await meet(*(one.node for one in nodes))
            await committed(nodes, b"together again")
            await until(lambda: again.applied == rest[0].applied)
            assert_agreed(nodes)
            assert again.applied[: len(payloads)] == payloads
        finally:
            for one in nodes:
                await one.close()

    run(test)

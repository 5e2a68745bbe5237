"""Discovery with real nodes: by list, by DNS, by file, in any start order."""

from __future__ import annotations

import asyncio
import random
from pathlib import Path

import pytest

from leveret.cluster.members.credentials import Files
from leveret.cluster.members.discovery import DnsHost, DnsService, Found, Listed, ListFile, Source
from leveret.cluster.members.seeker import Seeker
from leveret.runtime.dns.resolver import ServiceResolver
from tests.cluster.nodes import Node, meet, until
from tests.unit.runtime.dns.test_message import NAME, answer, packed, record
from tests.unit.runtime.dns.test_resolver import datagram_server, stop
from tests.unit.runtime.endpoints import run


def seeker_of(
    node: Node, sources: list[Source], resolver: ServiceResolver | None = None
) -> tuple[Seeker, list[dict[int, Found]]]:
    told: list[dict[int, Found]] = []
    seeker = Seeker(
        node.identity.node, sources, node.links, resolver or ServiceResolver(lambda: 7, []), random.Random(3).random,
        told.append, every_s=0.05, poll_s=0.01,
    )  # fmt: skip
    return seeker, told


@pytest.mark.parametrize("kind", ["list", "dns", "srv", "file"])
def test_nodes_are_found_by_every_kind_of_source(cluster: list[Files], tmp_path: Path, kind: str) -> None:
    async def test() -> None:
        one, two = Node(cluster[0]), Node(cluster[1])
        for node in (one, two):
            node.listen()
        dns = datagram_server(
            answer(
                record(packed("127.0.0.1".replace(".", "-")), port=1),
                record(packed("localhost"), port=two.address.port),
            )
        )
        (tmp_path / "nodes").write_text(f"{one.address}\n{two.address}\n")
        sources: dict[str, list[Source]] = {
            "list": [Listed(one.address), Listed(two.address)],
            "dns": [DnsHost("127.0.0.1", two.address.port)],
            "srv": [DnsService(NAME)],
            "file": [ListFile(str(tmp_path / "nodes"))],
        }
        seeker, told = seeker_of(one, sources[kind], ServiceResolver(lambda: 7, [dns.getsockname()]))
        seeker.start()
        try:
            await until(lambda: told)
            assert set(told[0]) == {2} and told[0][2].name == "node2"
        finally:
            await seeker.close()
            stop(dns)
            await one.close()
            await two.close()

    run(test)


def test_any_start_order_and_sources_that_come_later(cluster: list[Files], tmp_path: Path) -> None:
    async def test() -> None:
        one = Node(cluster[0])
        one.listen()
        path = tmp_path / "nodes"
        seeker, told = seeker_of(one, [ListFile(str(path))])
        seeker.start()
        nodes = [one]
        try:
            await asyncio.sleep(0.05)
            # Neither the file nor the node was there at first.
            two = Node(cluster[1])
            nodes.append(two)
            two.listen()
            path.write_text(f"{two.address}\n")
            await until(lambda: told and set(told[-1]) == {2})
            three = Node(cluster[2])
            nodes.append(three)
            three.listen()
            path.write_text(f"{two.address}\n{three.address}\n")
            await until(lambda: set(told[-1]) == {2, 3})
            # A file that cannot be used for a moment loses nobody.
            path.write_text("no address here\n")
            await asyncio.sleep(0.2)
            assert set(told[-1]) == {2, 3}
            await meet(one, two, three)
        finally:
            await seeker.close()
            for node in nodes:
                await node.close()

    run(test)

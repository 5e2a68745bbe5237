"""Nodes of a cluster in one process: real sockets, TLS and credentials, and a listener that keeps what it hears."""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

from leveret.cluster.links.address import Address
from leveret.cluster.links.doors import LinkCertificates
from leveret.cluster.links.handshake import Identity
from leveret.cluster.links.incoming import Question
from leveret.cluster.links.links import NodeLinks
from leveret.cluster.links.settings import LinkSettings
from leveret.cluster.members.authority import Authority, init_cluster
from leveret.cluster.members.certificates import make_request
from leveret.cluster.members.credentials import (
    Files,
    IdentityFile,
    load_credentials,
    own_key,
    write_certificates,
    write_identity,
)
from leveret.cluster.members.join_messages import JoinRequest
from leveret.runtime.dice import Dice
from leveret.runtime.network import SocketHub

SALT = Dice().salt
# Quick to dial again, so that tests do not wait; and so patient that a machine which is busy changes nothing.
SETTINGS = LinkSettings(
    heartbeat_s=0.05, idle_s=60.0, handshake_s=60.0, dial_s=60.0, redial_min_s=0.01, redial_max_s=0.05
)


def make_cluster(root: Path, count: int = 2, now: float | None = None) -> list[Files]:
    """Credentials of so many nodes, numbered from 1; the first has the authority."""
    now = time.time() if now is None else now
    first = Files.of(root / "node1")
    init_cluster(first, "tests", "node1", Address("127.0.0.1", 1), SALT, now)
    authority = Authority(first)
    made = [first]
    for number in range(2, count + 1):
        files, name = Files.of(root / f"node{number}"), f"node{number}"
        token = authority.make_token(Address("127.0.0.1", 1), SALT, now)
        wanted = JoinRequest(
            token.id.hex(), token.secret.reveal(), make_request(name, own_key(files)), name, "127.0.0.1:1"
        )
        joined = authority.admit(wanted, now)
        write_certificates(files, joined.certificate, joined.authority)
        write_identity(files, IdentityFile(joined.cluster, joined.cluster_name, joined.node, name, "127.0.0.1:1"))
        made.append(files)
    return made


class Recorder:
    """A listener of links."""

    def __init__(self) -> None:
        self.frames: list[tuple[int, bytes]] = []
        self.carriers: list[tuple[int, bytes, list[bytes]]] = []
        self.pipes: list[tuple[int, int, bytes]] = []
        self.losses: list[int] = []
        self.ups: list[int] = []
        self.downs: list[tuple[int, str]] = []
        self.drains: list[int] = []
        self.questions: list[Question] = []
        # What received() raises.
        self.objection = ""

    def received(self, node: int, frame: bytes) -> None:
        if self.objection:
            raise ValueError(self.objection)
        self.frames.append((node, frame))

    def received_carrier(self, node: int, frame: bytes, payloads: Sequence[bytes]) -> None:
        self.carriers.append((node, frame, list(payloads)))

    def lost(self, node: int) -> None:
        self.losses.append(node)

    def traffic(self, node: int, pipe: int, octets: bytes) -> None:
        self.pipes.append((node, pipe, octets))

    def drained(self, node: int) -> None:
        self.drains.append(node)

    def asked(self, question: Question) -> None:
        self.questions.append(question)

    def up(self, node: int) -> None:
        self.ups.append(node)

    def down(self, node: int, reason: str) -> None:
        self.downs.append((node, reason))


class Node:
    """Links with a hub and a recorder of their own."""

    def __init__(self, files: Files, settings: LinkSettings = SETTINGS, identity: Identity | None = None) -> None:
        self.files = files
        self.hub = SocketHub(asyncio.get_running_loop())
        self.heard = Recorder()
        self.identity = identity or load_credentials(files).in_this_life(int(time.time() * 1000))
        self.certificates = LinkCertificates(files.tls)
        self.links = NodeLinks(
            self.hub, self.identity, self.heard, self.certificates, random.Random(7).random, settings
        )
        self.address = Address()

    def listen(self, unix: str = "", port: int = 0) -> Address:
        self.address = self.links.listen_unix(unix) if unix else self.links.listen("127.0.0.1", port)
        return self.address

    async def close(self) -> None:
        await self.links.close()
        self.hub.close()


async def meet(*nodes: Node) -> None:
    """All become members of each other's cluster, and their links come up."""
    members = {node.identity.node: node.address for node in nodes}
    for node in nodes:
        await node.links.set_members(members)
    for node in nodes:
        for link in node.links.links.values():
            await until(lambda link=link: link.is_up)


async def until(condition: object, deadline_s: float = 100.0) -> None:
    """Waits for what no event tells. The deadline is that of a test that fails."""
    loop = asyncio.get_running_loop()
    end = loop.time() + deadline_s
    while not condition():  # type: ignore[operator]
        assert loop.time() < end, "still not so"
        await asyncio.sleep(0.002)


@asynccontextmanager
async def linked(
    cluster: list[Files], settings: LinkSettings = SETTINGS, unix: Path | None = None
) -> AsyncIterator[list[Node]]:
    """A node for each of these credentials, all linked; over unix sockets in this directory if one is given."""
    nodes = [Node(files, settings) for files in cluster]
    try:
        for node in nodes:
            node.listen(str(unix / f"{node.identity.node}.sock") if unix else "")
        await meet(*nodes)
        yield nodes
    finally:
        for node in nodes:
            await node.close()

"""Joining over a real socket: the token is proved, the authority first, and nothing secret goes astray."""

from __future__ import annotations

import asyncio
import random
import socket
import ssl
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from leveret.cluster.links.address import Address
from leveret.cluster.links.doors import LinkCertificates
from leveret.cluster.links.frames import Kind, frame
from leveret.cluster.links.links import NodeLinks
from leveret.cluster.links.refusals import Reason
from leveret.cluster.members.authority import Authority
from leveret.cluster.members.credentials import Files, IdentityFile, load_credentials
from leveret.cluster.members.join_desk import JoinDesk
from leveret.cluster.members.join_limits import JoinLimits
from leveret.cluster.members.joining import join
from leveret.cluster.members.token import Token, parse_token, token_line
from leveret.errors import JoinRefused
from leveret.runtime.network import SocketHub
from leveret.runtime.peers.exchange import exchange
from leveret.runtime.peers.tls_files import trusting_context
from leveret.runtime.secret import Secret
from tests.cluster.nodes import SALT, SETTINGS, Node, Recorder, make_cluster, meet, until
from tests.unit.runtime.endpoints import run

HERE = Address("127.0.0.1", 7777)


class Host:
    """A node that has the authority and lets others join."""

    def __init__(self, files: Files, limits: JoinLimits | None = None) -> None:
        loop = asyncio.get_running_loop()
        self.hub = SocketHub(loop)
        self.authority = Authority(files)
        self.heard: list[tuple[int, str]] = []
        self.desk = JoinDesk(loop, self.authority, time.time, lambda *joined: self.heard.append(joined), limits)
        identity = load_credentials(files).in_this_life(int(time.time() * 1000))
        self.links = NodeLinks(
            self.hub, identity, Recorder(), LinkCertificates(files.tls, self.desk.is_open), random.Random(1).random,
            SETTINGS, self.desk,
        )  # fmt: skip
        self.address = self.links.listen("127.0.0.1", 0)

    def token(self, uses: int = 1) -> Token:
        return self.authority.make_token(self.address, SALT, time.time(), uses)

    async def close(self) -> None:
        self.desk.close()
        await self.links.close()
        self.hub.close()


@asynccontextmanager
async def hosting(root: Path, limits: JoinLimits | None = None) -> AsyncIterator[Host]:
    host = Host(make_cluster(root, 1)[0], limits)
    try:
        yield host
    finally:
        await host.close()


async def joined(files: Files, token: Token, name: str = "new") -> IdentityFile:
    return await asyncio.to_thread(join, files, token, name, HERE, time.time())


def test_a_token_makes_a_member(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("DEBUG")

    async def test() -> None:
        async with hosting(tmp_path) as host:
            line = token_line(host.token())
            files = Files.of(tmp_path / "new")
            identity = await joined(files, parse_token(line))
            assert (identity.node, identity.node_name, identity.cluster_name) == (2, "new", "tests")
            assert host.heard == [(2, str(HERE))] and identity.seeds == ("127.0.0.1:1",)
            for name in ("identity.json", "node.key", "node.pem", "ca.pem"):
                assert (files.directory / name).stat().st_mode & 0o777 == 0o600
            assert not files.authority_key.exists() and files.directory.stat().st_mode & 0o777 == 0o700
            # What it got is good for links.
            new = Node(files)
            try:
                new.listen()
                await host.links.set_members({2: new.address})
                await new.links.set_members({1: host.address})
                await until(lambda: host.links.links[2].is_up and new.links.links[1].is_up)
            finally:
                await new.close()
            secret = parse_token(line).secret.reveal()
            assert line not in caplog.text and secret not in caplog.text
            book = host.authority._files.authority_book.read_text()
            assert secret not in book and line not in book

    run(test)


def test_a_token_is_for_one_node_but_that_may_ask_again(tmp_path: Path) -> None:
    async def test() -> None:
        async with hosting(tmp_path) as host:
            token = host.token()
            files = Files.of(tmp_path / "new")
            assert (await joined(files, token)).node == 2
            before = files.certificate.read_bytes()
            # Its answer was lost, or its certificate is renewed: it stays the same node.
            assert (await joined(files, token)).node == 2
            assert (await joined(files, host.token())).node == 2
            assert files.certificate.read_bytes() != before
            with pytest.raises(JoinRefused, match="was used"):
                await joined(Files.of(tmp_path / "other"), token)
            many = host.token(uses=2)
            assert (await joined(Files.of(tmp_path / "three"), many)).node == 3
            assert (await joined(Files.of(tmp_path / "four"), many)).node == 4
            with pytest.raises(JoinRefused, match="was used"):
                await joined(Files.of(tmp_path / "five"), many)
            assert host.desk.joined_total == 5 and host.links.refusals.totals[Reason.JOIN] == 2

    run(test)


def test_what_is_wrong_with_a_token_is_said_and_nothing_is_stored(tmp_path: Path) -> None:
    async def test() -> None:
        async with hosting(tmp_path) as host:
            token, files = host.token(), Files.of(tmp_path / "new")
            with pytest.raises(JoinRefused, match="not known"):
                await joined(files, replace(token, secret=Secret("00" * 24)))
            with pytest.raises(JoinRefused, match="not known"):
                await joined(files, replace(token, id=bytes(8)))
            with pytest.raises(JoinRefused, match="has ended"):
                await joined(files, replace(token, ends_at=1))
            with pytest.raises(JoinRefused, match="unix socket"):
                await joined(files, replace(token, address=Address(path="/run/x")))
            with pytest.raises(JoinRefused, match="cannot ask"):
                await joined(files, replace(token, address=Address("127.0.0.1", 1)))
            host.authority.make_token(host.address, SALT, time.time())
            assert host.authority.revoke_tokens(time.time()) == 2
            # Without a token that could be used, TLS itself asks for a certificate.
            with pytest.raises(JoinRefused):
                await joined(files, token)
            assert host.links.refusals.totals[Reason.CERTIFICATE_MISSING] == 1
            assert not files.identity.exists() and not files.certificate.exists()

    run(test)


def test_the_authority_is_compared_before_anything_secret_is_sent(tmp_path: Path) -> None:
    async def test() -> None:
        async with hosting(tmp_path / "real") as host, hosting(tmp_path / "false") as other:
            other.token()
            lured = replace(host.token(), address=other.address)
            with pytest.raises(JoinRefused, match="nothing secret was sent"):
                await joined(Files.of(tmp_path / "new"), lured)
            # One that shows the right authority but has no certificate of it.
            other.authority._certificate = host.authority._certificate
            with pytest.raises(JoinRefused, match=r"nothing secret was sent"):
                await joined(Files.of(tmp_path / "new"), lured)
            assert other.desk.joined_total == other.desk.refused_total == 0

    run(test)


def test_a_member_of_one_cluster_does_not_join_another(tmp_path: Path) -> None:
    async def test() -> None:
        async with hosting(tmp_path / "real") as host, hosting(tmp_path / "other") as other:
            files = Files.of(tmp_path / "new")
            await joined(files, host.token())
            with pytest.raises(JoinRefused, match="belongs to node 2"):
                await joined(files, other.token())
            assert load_credentials(files).identity.cluster == host.authority.identity.cluster

    run(test)


def test_joins_are_limited_in_their_rate(tmp_path: Path) -> None:
    async def test() -> None:
        loop = asyncio.get_running_loop()
        async with hosting(tmp_path, JoinLimits(loop.time(), host_burst=3, host_rate=0.0)) as host:
            token = host.token()
            await joined(Files.of(tmp_path / "new"), token)
            with pytest.raises(JoinRefused, match="too many nodes"):
                await joined(Files.of(tmp_path / "next"), host.token())

    run(test)


@pytest.mark.parametrize(
    "octets", [b"garbage that is no frame", frame(Kind.JOIN, 0, b"{}"), frame(Kind.JOIN, 0, bytes(8000)),
               frame(Kind.TRAFFIC, 0, b""), frame(Kind.HELLO, 0, bytes(100))],
)  # fmt: skip
def test_a_stranger_says_nothing_else(tmp_path: Path, octets: bytes) -> None:
    async def test() -> None:
        async with hosting(tmp_path) as host:
            host.token()
            answer = await asyncio.to_thread(
                exchange, "127.0.0.1", host.address.port, trusting_context(None), octets, 9999, 10
            )
            assert answer == b"" and host.links.refusals.total == 1
            assert host.desk.joined_total == 0

    run(test)


def test_one_with_a_certificate_does_not_join(tmp_path: Path) -> None:
    async def test() -> None:
        async with hosting(tmp_path) as host:
            host.token()
            files = Files.of(tmp_path / "new")
            await joined(files, host.token())
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
            context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
            context.load_cert_chain(files.certificate, files.key)
            answer = await asyncio.to_thread(
                exchange, "127.0.0.1", host.address.port, context, frame(Kind.ASK_AUTHORITY, 0), 9999, 10
            )
            assert answer[4] == Kind.REFUSED

    run(test)


def test_an_answer_is_bounded_in_size_and_time() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server, pytest.raises(TimeoutError):
        exchange("127.0.0.1", server.getsockname()[1], trusting_context(None), b"", 10, 0.2)


def test_members_meet_after_joins(tmp_path: Path) -> None:
    async def test() -> None:
        async with hosting(tmp_path) as host:
            token = host.token(uses=2)
            made = [Files.of(tmp_path / name) for name in ("two", "three")]
            for files in made:
                await joined(files, token, files.directory.parent.name)
            nodes = [Node(files) for files in made]
            try:
                for node in nodes:
                    node.listen()
                await meet(*nodes)
            finally:
                for node in nodes:
                    await node.close()

    run(test)

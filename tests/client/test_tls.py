"""TLS: whom the client trusts, which name it asks for, and the login with a certificate."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest

from leveret.client import AuthenticationFailed, ConnectionFailed, connect
from leveret.wire.queue_methods import QueueDeclare
from tests.client.channel_scene import message
from tests.client.life_scene import BOTH_LOOPS, LoopFactory, play, served, told
from tests.conformance.authority import Authority
from tests.conformance.tls_scenes import TlsScene, tls_scene
from tests.http_client import Api


@pytest.fixture(scope="module")
def scene_of_tls(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TlsScene]:
    """Certificates are asked for, and may be logged in with."""
    mechanisms = ("EXTERNAL", "PLAIN")
    directory = tmp_path_factory.mktemp("tls")
    with tls_scene(directory, tls__verify="optional", auth__mechanisms=mechanisms, auth__external_name="cn") as made:
        yield made


def url_of(scene: TlsScene, host: str = "localhost") -> str:
    return f"amqps://guest:guest@{host}:{scene.broker.tls_port}/"


@BOTH_LOOPS
@pytest.mark.parametrize("host", ["localhost", "127.0.0.1"])
def test_a_broker_with_a_certificate_of_our_authority(
    scene_of_tls: TlsScene, host: str, loop_factory: LoopFactory
) -> None:
    async def scene() -> None:
        async with connect(url_of(scene_of_tls, host), ca=str(scene_of_tls.authority.file)) as connection:
            channel = await connection.channel()
            queue = (await channel.call(QueueDeclare("", exclusive=True))).queue
            for size in (0, 1, 100_000, 3_000_000):
                channel.codec.publish(message(queue, b"x" * size))
                got = await channel.get(queue)
                assert got is not None
                assert len(got.body) == size

    play(scene(), loop_factory)


def test_a_context_of_ones_own(scene_of_tls: TlsScene) -> None:
    async def scene() -> None:
        async with connect(url_of(scene_of_tls), ssl=scene_of_tls.authority.context()) as connection:
            assert await connection.channel()

    play(scene())


def test_a_process_may_end_right_after_the_close(scene_of_tls: TlsScene) -> None:
    """TLS has a goodbye of its own, which takes a while."""

    async def scene() -> None:
        connection = await connect(url_of(scene_of_tls), ca=str(scene_of_tls.authority.file))
        await connection.close()

    asyncio.run(scene())


@BOTH_LOOPS
def test_a_broker_of_another_authority_is_not_trusted(
    scene_of_tls: TlsScene, tmp_path: Path, loop_factory: LoopFactory
) -> None:
    other = Authority(tmp_path / "other")

    async def scene() -> None:
        for options in ({}, {"ca": str(other.file)}):
            with pytest.raises(ConnectionFailed, match="certificate verify failed") as caught:
                await connect(url_of(scene_of_tls), **options)
            assert not isinstance(caught.value, AuthenticationFailed)

    play(scene(), loop_factory)


@BOTH_LOOPS
def test_a_broker_of_another_name_is_not_trusted(scene_of_tls: TlsScene, loop_factory: LoopFactory) -> None:
    async def scene() -> None:
        trust = {"ca": str(scene_of_tls.authority.file)}
        with pytest.raises(ConnectionFailed, match=r"not valid for 'broker\.example'"):
            await connect(url_of(scene_of_tls), server_name="broker.example", **trust)
        async with connect(url_of(scene_of_tls, "127.0.0.1"), server_name="localhost", **trust) as connection:
            assert await connection.channel()

    play(scene(), loop_factory)


@BOTH_LOOPS
def test_a_login_with_a_certificate(scene_of_tls: TlsScene, loop_factory: LoopFactory) -> None:
    papers = scene_of_tls.authority.client("worker", "worker")
    api = Api(scene_of_tls.broker)
    api.ask("PUT", "/users/worker", {"password_hash": "", "tags": ""})
    api.ask("PUT", "/permissions/%2F/worker", {"configure": ".*", "write": ".*", "read": ".*"})

    async def scene() -> None:
        trust = {"ca": str(scene_of_tls.authority.file)}
        ours = {"certificate": str(papers.certificate), "key": str(papers.key)}
        async with connect(url_of(scene_of_tls), auth="external", **trust, **ours) as connection:
            assert await connection.channel()
            users = scene_of_tls.broker.call(lambda node: [one.user for one in node.broker.connections.values()])
            assert users == ["worker"]
        with pytest.raises(AuthenticationFailed):
            await connect(url_of(scene_of_tls), auth="external", **trust)

    play(scene(), loop_factory)


def test_a_certificate_of_nobody_we_know(scene_of_tls: TlsScene) -> None:
    papers = scene_of_tls.authority.client("nobody", "nobody")

    async def scene() -> None:
        with pytest.raises(AuthenticationFailed, match="403"):
            await connect(
                url_of(scene_of_tls),
                auth="external",
                ca=str(scene_of_tls.authority.file),
                certificate=str(papers.certificate),
                key=str(papers.key),
            )

    play(scene())


def test_files_that_are_not_there(scene_of_tls: TlsScene) -> None:
    async def scene() -> None:
        for option in ("ca", "certificate"):
            with pytest.raises(ConnectionFailed, match="No such file"):
                await connect(url_of(scene_of_tls), **{option: "/nowhere.pem"})

    play(scene())


@BOTH_LOOPS
def test_tls_to_a_port_without_it_and_the_other_way_round(scene_of_tls: TlsScene, loop_factory: LoopFactory) -> None:
    async def scene() -> None:
        plain = scene_of_tls.broker.port
        with pytest.raises(ConnectionFailed):
            await connect(f"amqps://localhost:{plain}", connect_deadline_s=3)
        with pytest.raises(ConnectionFailed) as caught:
            await connect(f"amqp://localhost:{scene_of_tls.broker.tls_port}", connect_deadline_s=3)
        assert not isinstance(caught.value, AuthenticationFailed)

    play(scene(), loop_factory)


@BOTH_LOOPS
def test_a_handshake_that_stops_midway(loop_factory: LoopFactory) -> None:
    async def scene() -> None:
        # The head of a TLS record whose rest never comes.
        async with served(told(b"\x16\x03\x03\x10\x00", linger=True)) as url:
            with pytest.raises(ConnectionFailed, match=r"did not answer within 0\.4 s"):
                await connect(url.replace("amqp://", "amqps://"), connect_deadline_s=0.4)

    play(scene(), loop_factory)

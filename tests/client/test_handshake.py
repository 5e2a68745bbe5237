"""How a connection is opened: logins that fail, hosts that do not answer, servers that speak something else."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator

import pytest

from leveret.client import AuthenticationFailed, ConnectionFailed, InvalidUrl, State, connect
from leveret.testing import Broker
from leveret.wire.channel_methods import ChannelOpen
from leveret.wire.codec import encode_method
from leveret.wire.connection_methods import ConnectionClose, ConnectionStart
from leveret.wire.constants import HEARTBEAT_FRAME
from tests.client.amqp_server import AmqpServer
from tests.client.life_scene import BOTH_LOOPS, LoopFactory, off_loop, play, served, told
from tests.conformance.server_process import free_port
from tests.conformance.topology import unique_name
from tests.http_client import name

START = encode_method(0, ConnectionStart(0, 9, {}, b"PLAIN", b"en_US"))


@BOTH_LOOPS
def test_a_connection_is_opened_and_closed(amqp_server: AmqpServer, loop_factory: LoopFactory) -> None:
    async def scene() -> None:
        async with connect(amqp_server.url, name="tester") as connection:
            assert connection.state is State.OPEN
            assert ("leveret_version" in connection.server_properties) == (amqp_server.name == "leveret")
            assert amqp_server.url.split("@")[1].strip("/") in repr(connection)
            channel = await connection.channel()
            assert (channel.number, channel.is_open) == (1, True)
        assert connection.state is State.CLOSED
        assert not channel.is_open
        connection = await connect(amqp_server.url)
        await connection.close()
        await connection.close()

    play(scene(), loop_factory)


def test_a_process_may_end_right_after_the_close(amqp_server: AmqpServer) -> None:
    async def scene() -> None:
        connection = await connect(amqp_server.url)
        await connection.close()

    # Without any patience at the end: unclosed sockets are warnings, and these are errors here.
    asyncio.run(scene())


# ---- logins


@pytest.fixture(scope="module")
def stranger(amqp_server: AmqpServer) -> Iterator[str]:
    """A user without a right to any virtual host."""
    user = unique_name("stranger")
    assert amqp_server.api.ask("PUT", f"/users/{name(user)}", {"password": "pw", "tags": ""}).status == 201
    yield user
    amqp_server.api.ask("DELETE", f"/users/{name(user)}")


@BOTH_LOOPS
@pytest.mark.parametrize("case", ["wrong password", "unknown user", "no password", "unknown vhost", "no permission"])
def test_who_is_not_let_in_hears_it_at_once(
    amqp_server: AmqpServer, stranger: str, case: str, loop_factory: LoopFactory
) -> None:
    login, vhost = {
        "wrong password": ("guest:wrong", ""),
        "unknown user": ("nobody:guest", ""),
        "no password": ("guest", ""),
        "unknown vhost": ("guest:guest", "unknown"),
        "no permission": (f"{stranger}:pw", ""),
    }[case]

    async def scene() -> None:
        begin = time.monotonic()
        with pytest.raises(AuthenticationFailed) as caught:
            # Waiting would not help: this is no matter of time.
            await connect(f"amqp://{login}@{amqp_server.host}:{amqp_server.port}/{vhost}", wait_s=30)
        assert time.monotonic() - begin < 10
        [(address, reason)] = caught.value.attempts
        assert address == f"{amqp_server.host}:{amqp_server.port}"
        assert reason == str(caught.value)
        assert ("403" if vhost == "" and login[:8] != stranger[:8] else "530") in reason
        assert "wrong" not in reason and ":pw" not in reason

    play(scene(), loop_factory)


def test_what_is_asked_for_too_much_is_no_matter_of_the_login(amqp_server: AmqpServer) -> None:
    """530 says many things."""
    vhost = unique_name("full")
    api = amqp_server.api
    assert api.ask("PUT", f"/vhosts/{name(vhost)}").status == 201
    api.ask("PUT", f"/permissions/{name(vhost)}/guest", {"configure": ".*", "write": ".*", "read": ".*"})
    limit = api.ask("PUT", f"/vhost-limits/{name(vhost)}/max-connections", {"value": 0})
    assert limit.status in (200, 201, 204), limit

    async def scene() -> None:
        with pytest.raises(ConnectionFailed, match="limit") as caught:
            await connect(amqp_server.url + vhost)
        assert not isinstance(caught.value, AuthenticationFailed)

    try:
        play(scene())
    finally:
        api.ask("DELETE", f"/vhosts/{name(vhost)}")


@pytest.mark.parametrize("linger", [False, True])
def test_a_login_that_the_server_does_not_offer(linger: bool) -> None:
    async def scene() -> None:
        async with served(told(encode_method(0, ConnectionStart(0, 9, {}, b"KERBEROS X", b"en_US")), linger)) as url:
            with pytest.raises(AuthenticationFailed, match="offers the logins KERBEROS, X, not PLAIN"):
                await connect(url)

    play(scene())


async def _start_and_hang_up(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, properties: object) -> None:
    await reader.read(8)
    writer.write(encode_method(0, ConnectionStart(0, 9, {"capabilities": properties}, b"PLAIN", b"en_US")))
    await reader.read(1)


def test_a_server_that_hangs_up_at_the_login_has_refused_it() -> None:
    async def scene() -> None:
        async with served(lambda reader, writer: _start_and_hang_up(reader, writer, {})) as url:
            with pytest.raises(AuthenticationFailed, match="hung up at the login"):
                await connect(url)

    play(scene())


def test_unless_it_says_that_it_would_say_so() -> None:
    async def scene() -> None:
        known = {"authentication_failure_close": True}
        async with served(lambda reader, writer: _start_and_hang_up(reader, writer, known)) as url:
            with pytest.raises(ConnectionFailed, match="hung up") as caught:
                await connect(url)
            assert not isinstance(caught.value, AuthenticationFailed)

    play(scene())


# ---- who is no broker


@BOTH_LOOPS
@pytest.mark.parametrize(
    ("octets", "reason"),
    [
        (b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n", "makes no sense"),
        (b"SSH-2.0-OpenSSH_9.2\r\n", "makes no sense"),
        (b"AMQP\x03\x01\x00\x00", "another version of AMQP"),
        (b"", "hung up"),
        (b"\x01\x00", "hung up"),
        (encode_method(0, ChannelOpen()), "ChannelOpen where ConnectionStart"),
        (encode_method(0, ConnectionClose(541, "INTERNAL_ERROR - of mine")), "541 INTERNAL_ERROR - of mine"),
        (encode_method(5, ChannelOpen()) + b"\x01\x00\x00\x00\x00\x00\x04\xff\xff\xff\xff\xce", "makes no sense"),
        (START[:-5] + b"\xff" * 5, "makes no sense"),
    ],
    ids=["http", "ssh", "amqp-1.0", "nothing", "half", "channel.open", "close", "unknown", "broken"],
)
@pytest.mark.parametrize("linger", [False, True], ids=["hangs up", "lingers"])
def test_a_server_that_is_no_broker(octets: bytes, reason: str, linger: bool, loop_factory: LoopFactory) -> None:
    async def scene() -> None:
        async with served(told(octets, linger)) as url:
            expected = "did not answer within 0.3 s" if linger and len(octets) < 7 else reason
            with pytest.raises(ConnectionFailed, match=expected) as caught:
                await connect(url, connect_deadline_s=0.3 if linger else 5)
            assert not isinstance(caught.value, AuthenticationFailed)
            assert len(caught.value.attempts) == 1

    play(scene(), loop_factory)


@BOTH_LOOPS
@pytest.mark.parametrize("octets", [b"", START, START + HEARTBEAT_FRAME], ids=["nothing", "start", "heartbeat"])
def test_a_server_that_accepts_and_then_is_silent(octets: bytes, loop_factory: LoopFactory) -> None:
    async def scene() -> None:
        async with served(told(octets, linger=True)) as url:
            begin = time.monotonic()
            with pytest.raises(ConnectionFailed, match=r"did not answer within 0\.4 s"):
                await connect(url, connect_deadline_s=0.4)
            assert 0.35 < time.monotonic() - begin < 5

    play(scene(), loop_factory)


def test_a_flood_of_methods_that_nobody_asked_for() -> None:
    async def scene() -> None:
        async with served(told(START * 1000, linger=True)) as url:
            with pytest.raises(ConnectionFailed, match="ConnectionStart where ConnectionTune was due"):
                await connect(url)

    play(scene())


@pytest.mark.parametrize(
    ("url", "problem"),
    [
        ("amqp://127.0.0.1:{port}", "Connect call failed|Connection refused"),
        ("amqp://no-such-host.invalid:1", "no-such-host"),
        ("amqp://" + "x" * 70 + ".example:1", "cannot be reached"),
        ("amqps://127.0.0.1:{port}?auth=external", "Connect call failed|Connection refused"),
    ],
)
@BOTH_LOOPS
def test_a_host_that_is_not_there(url: str, problem: str, loop_factory: LoopFactory) -> None:
    async def scene() -> None:
        with pytest.raises(ConnectionFailed, match=problem) as caught:
            await connect(url.format(port=free_port()))
        assert len(caught.value.attempts) == 1

    play(scene(), loop_factory)


def test_urls_and_options_are_judged_before_anything_is_awaited() -> None:
    with pytest.raises(InvalidUrl):
        connect("http://localhost")
    with pytest.raises(TypeError, match="no option"):
        connect(hartbeat=1)


# ---- several hosts, and patience


@BOTH_LOOPS
def test_the_first_host_that_answers_is_taken(amqp_server: AmqpServer, loop_factory: LoopFactory) -> None:
    async def scene() -> None:
        down = f"amqp://127.0.0.1:{free_port()}"
        async with connect([down, amqp_server.url, "amqp://never.invalid"]) as connection:
            assert connection.address.port == amqp_server.port
            assert await connection.channel()
        async with connect(f"{down},{amqp_server.url}") as connection:
            assert connection.address.port == amqp_server.port

    play(scene(), loop_factory)


def test_all_hosts_that_were_tried_are_named() -> None:
    async def scene() -> None:
        ports = [free_port(), free_port()]
        async with served(told(b"HTTP/1.1 200 OK\r\n\r\n")) as url:
            with pytest.raises(ConnectionFailed) as caught:
                await connect([f"amqp://127.0.0.1:{ports[0]}", url, f"amqp://127.0.0.1:{ports[1]}"])
            assert [address for address, _ in caught.value.attempts] == [
                f"127.0.0.1:{ports[0]}",
                url.removeprefix("amqp://"),
                f"127.0.0.1:{ports[1]}",
            ]
            assert all(reason in str(caught.value) for _, reason in caught.value.attempts)

    play(scene())


@BOTH_LOOPS
def test_one_may_wait_for_a_broker_to_come_up(loop_factory: LoopFactory) -> None:
    port = free_port()
    broker = Broker({"listen.port": port})

    async def scene() -> None:
        connecting = asyncio.ensure_future(connect(f"amqp://127.0.0.1:{port}", wait_s=30, backoff_max_s=0.3)._open())
        await asyncio.sleep(0.5)
        assert not connecting.done()
        await off_loop(broker.start)
        connection = await connecting
        assert connection.state is State.OPEN
        await connection.close()
        await off_loop(broker.stop)

    play(scene(), loop_factory)


def test_patience_ends_when_it_is_told_to() -> None:
    async def scene() -> None:
        begin = time.monotonic()
        with pytest.raises(ConnectionFailed) as caught:
            await connect(f"amqp://127.0.0.1:{free_port()}", wait_s=0.6, backoff_min_s=0.05)
        assert 0.55 <= time.monotonic() - begin < 5
        assert len(caught.value.attempts) > 2
        assert str(caught.value).count("cannot be reached") == 1, "what happened again is said once"

    play(scene())

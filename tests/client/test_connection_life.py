"""A connection's life: it is lost and comes back, tells of it in order, and ends when it is told to."""

from __future__ import annotations

import asyncio
import time

import pytest

from leveret.client import (
    ClientClosed,
    ClientError,
    Connection,
    ConnectionLost,
    DeadlineExceeded,
    State,
    connect,
    events,
)
from leveret.client.transport.link import Link
from leveret.testing import Broker
from leveret.wire.basic_methods import BasicQos
from leveret.wire.codec import encode_method
from leveret.wire.connection_methods import ConnectionTune
from tests.client.amqp_server import AmqpServer
from tests.client.life_scene import BOTH_LOOPS, Ear, LoopFactory, off_loop, play
from tests.client.proxy import CUT, GARBAGE, HALF_OPEN, RESET, SEND, Proxy, Step
from tests.client.waiting import until
from tests.conformance.server_process import free_port

SOON = {"backoff_min_s": 0.02, "backoff_max_s": 0.2}
ONCE_ROUND = ["Lost", "Connecting", "Opened", "Restored"]


class Witness:
    """A part that writes down what it is told."""

    def __init__(self, rank: int, name: str, log: list[str]) -> None:
        self.rank = rank
        self.name = name
        self.log = log
        self.failure: Exception | None = None
        self.pause_s = 0.0

    async def restore(self, link: Link) -> None:
        assert not link.ended.done()
        self.log.append(f"restore {self.name}")
        await asyncio.sleep(self.pause_s)
        if self.failure is not None:
            raise self.failure

    def lost(self, reason: ClientError) -> None:
        self.log.append(f"lost {self.name}")

    async def stop(self, reason: ClientError) -> None:
        self.log.append(f"stop {self.name}")


async def caught_restoring(connection: Connection, proxy: Proxy, log: list[str], pause_s: float, later: str) -> Witness:
    """Loses the connection; returns while "slow" is being restored, which takes so long. Gives the part after it."""
    slow, last = Witness(0, "slow", log), Witness(1, later, log)
    slow.pause_s = pause_s
    connection.attach(slow)
    connection.attach(last)
    proxy.reset_all()
    await until(lambda: "restore slow" in log, "it is being restored")
    return last


# ---- coming back


@BOTH_LOOPS
def test_a_broker_that_is_restarted_on_its_port(loop_factory: LoopFactory) -> None:
    port = free_port()
    broker = Broker({"listen.port": port})

    async def scene() -> None:
        await off_loop(broker.start)
        async with connect(f"amqp://127.0.0.1:{port}", **SOON) as connection:
            ear = Ear(connection)
            channel = await connection.channel()
            await off_loop(broker.stop)
            await ear.hears(events.AttemptFailed, 2)
            assert connection.state is State.RECOVERING
            assert isinstance(channel.closed_by, ConnectionLost)
            waiting = asyncio.create_task(connection.channel())
            await off_loop(broker.start)
            assert (await waiting).is_open
            assert connection.state is State.OPEN
            assert connection.reconnects_total == 1
            restored = await ear.hears(events.Restored)
            assert restored.problems == 0
            assert restored.seconds > 0.01
        names = await ear.ends()
        assert names[0] == "Lost"
        assert names[-4:] == ["Connecting", "Opened", "Restored", "Closed"]
        assert names[1:-4] == ["Connecting", "AttemptFailed"] * ((len(names) - 5) // 2)
        attempts = [event.attempt for event in ear.heard if isinstance(event, events.Connecting)]
        assert attempts == list(range(1, len(attempts) + 1))
        await off_loop(broker.stop)

    play(scene(), loop_factory)


@BOTH_LOOPS
def test_a_connection_that_the_broker_closes_comes_back(amqp_server: AmqpServer, loop_factory: LoopFactory) -> None:
    async def scene() -> None:
        async with connect(amqp_server.url, **SOON) as connection:
            ear = Ear(connection)
            channel = await connection.channel()
            await until(lambda: connection.state is State.OPEN, "it is open")
            for count in (1, 2):
                # RabbitMQ's command sees a connection a moment after it was opened.
                while connection.reconnects_total < count:
                    await off_loop(amqp_server.close_connections)
                    await asyncio.sleep(0.3)
                assert await connection.channel()
            assert isinstance(channel.closed_by, ConnectionLost)
            assert channel.closed_by.code == 320
            assert "320 CONNECTION_FORCED" in str(channel.closed_by)
        names = await ear.ends()
        assert names == ONCE_ROUND * ((len(names) - 1) // 4) + ["Closed"]

    play(scene(), loop_factory)


@BOTH_LOOPS
@pytest.mark.parametrize("fault", [CUT, RESET, GARBAGE], ids=["cut", "reset", "garbage"])
def test_a_connection_that_breaks_comes_back(proxy: Proxy, fault: object, loop_factory: LoopFactory) -> None:
    async def scene() -> None:
        async with connect(proxy.url, **SOON) as connection:
            ear = Ear(connection)
            channel = await connection.channel()
            proxy.at(Step("server", "basic.qos-ok"), fault)
            with pytest.raises(ConnectionLost):
                await channel.call(BasicQos())
            fresh = await connection.channel()
            await fresh.prefetch(1)
        assert await ear.ends() == [*ONCE_ROUND, "Closed"]

    play(scene(), loop_factory)


def test_what_the_broker_says_unasked_on_channel_0_is_bounded(proxy: Proxy) -> None:
    async def scene() -> None:
        async with connect(proxy.url, **SOON) as connection:
            ear = Ear(connection)
            channel = await connection.channel()
            flood = encode_method(0, ConnectionTune(1, 2, 3)) * 100
            proxy.at(Step("server", "basic.qos-ok"), SEND(flood))
            with pytest.raises(ConnectionLost, match="nobody asked for ConnectionTune"):
                await channel.call(BasicQos())
            await ear.hears(events.Restored)

    play(scene())


def test_the_next_host_is_taken_when_one_does_not_come_back(broker: Broker, proxy: Proxy) -> None:
    async def scene() -> None:
        async with connect([proxy.url, broker.url], **SOON) as connection:
            assert connection.address.port == proxy.port
            ear = Ear(connection)
            proxy.refuse = True
            proxy.reset_all()
            await ear.hears(events.Restored)
            assert connection.address.port == broker.port

    play(scene())


def test_a_connection_that_never_lasts_is_tried_less_and_less(proxy: Proxy) -> None:
    async def scene() -> None:
        async with connect(proxy.url, backoff_min_s=0.05, backoff_max_s=30) as connection:
            ear = Ear(connection)
            times = []
            for count in range(1, 6):
                proxy.reset_all()
                begin = time.monotonic()
                await ear.hears(events.Restored, count)
                times.append(time.monotonic() - begin)
            # The pauses are at least half of 0.05, 0.1, 0.2, 0.4, 0.8 s.
            assert times[4] >= 0.4, times
            assert sum(times) >= 0.75, times

    play(scene())


# ---- parts


def test_parts_are_restored_by_rank_and_stopped_the_other_way_round(proxy: Proxy) -> None:
    log: list[str] = []

    async def scene() -> None:
        async with connect(proxy.url, **SOON) as connection:
            for rank, name in ((3, "consumer"), (0, "topology"), (2, "producer")):
                connection.attach(Witness(rank, name, log))
            gone = Witness(1, "gone", log)
            connection.attach(gone)
            connection.detach(gone)
            connection.detach(gone)
            ear = Ear(connection)
            proxy.reset_all()
            await ear.hears(events.Restored)
        with pytest.raises(ClientClosed):
            connection.attach(gone)

    play(scene())
    order = ["topology", "producer", "consumer"]
    lost, restored, stopped = log[:3], log[3:6], log[6:]
    assert sorted(lost) == sorted(f"lost {name}" for name in order)
    assert restored == [f"restore {name}" for name in order]
    assert stopped == [f"stop {name}" for name in reversed(order)]


@pytest.mark.parametrize("failure", [ClientError("not today"), ValueError("a mistake of ours")])
def test_a_part_that_cannot_be_restored_does_not_keep_the_others_from_it(proxy: Proxy, failure: Exception) -> None:
    log: list[str] = []

    async def scene() -> None:
        async with connect(proxy.url, **SOON) as connection:
            bad, good = Witness(0, "bad", log), Witness(1, "good", log)
            bad.failure = failure
            connection.attach(bad)
            connection.attach(good)
            ear = Ear(connection)
            proxy.reset_all()
            restored = await ear.hears(events.Restored)
            assert restored.problems == 1
            assert ear.heard[-2] == events.Problem("bad", str(failure))
            assert "restore good" in log
            assert connection.state is State.OPEN

    play(scene())


def test_parts_may_come_and_go_while_others_are_restored(proxy: Proxy) -> None:
    log: list[str] = []

    async def scene() -> None:
        async with connect(proxy.url, **SOON) as connection:
            ear = Ear(connection)
            leaving = await caught_restoring(connection, proxy, log, pause_s=0.2, later="leaving")
            connection.detach(leaving)
            connection.attach(Witness(2, "coming", log))
            await ear.hears(events.Restored)

    play(scene())
    assert "restore coming" in log
    assert "restore leaving" not in log


def test_nobody_gets_the_connection_before_all_is_restored(proxy: Proxy) -> None:
    log: list[str] = []

    async def scene() -> None:
        async with connect(proxy.url, **SOON) as connection:
            slow = Witness(0, "slow", log)
            slow.pause_s = 0.3
            connection.attach(slow)
            proxy.reset_all()
            await until(lambda: connection.state is State.RESTORING, "it is restoring")
            with pytest.raises(DeadlineExceeded, match=r"not open within 0\.05 s"):
                await connection.ready(0.05)
            begin = time.monotonic()
            await connection.channel()
            assert time.monotonic() - begin > 0.1

    play(scene())


def test_a_loss_in_the_middle_of_restoring_begins_again(proxy: Proxy) -> None:
    log: list[str] = []

    async def scene() -> None:
        async with connect(proxy.url, **SOON) as connection:
            ear = Ear(connection)
            await caught_restoring(connection, proxy, log, pause_s=0.3, later="last")
            proxy.reset_all()
            await ear.hears(events.Restored)
            names = ear.names
            assert names == ["Lost", "Connecting", "Opened", *ONCE_ROUND]
            assert log.count("restore slow") == 2
            assert log.count("restore last") == 1
            assert log.count("lost last") == 2

    play(scene())


# ---- giving up


@BOTH_LOOPS
def test_recovery_is_given_up_in_time(proxy: Proxy, loop_factory: LoopFactory) -> None:
    log: list[str] = []

    async def scene() -> None:
        connection = await connect(proxy.url, give_up_after_s=0.5, **SOON)
        connection.attach(Witness(0, "part", log))
        ear = Ear(connection)
        proxy.refuse = True
        waiting = asyncio.create_task(connection.channel(deadline_s=30))
        proxy.reset_all()
        begin = time.monotonic()
        names = await ear.ends()
        assert 0.4 < time.monotonic() - begin < 5
        assert names[-2:] == ["AttemptFailed", "Closed"]
        with pytest.raises((ClientClosed, ConnectionLost)):
            await waiting
        with pytest.raises(ClientClosed, match=r"recovery was given up: .*cannot be reached"):
            await connection.channel()
        assert connection.state is State.CLOSED
        assert log[-1] == "stop part"
        await connection.close()

    play(scene(), loop_factory)


# ---- the end


async def closes_within(connection: Connection, seconds: float) -> None:
    begin = time.monotonic()
    await connection.close()
    assert time.monotonic() - begin < seconds
    assert connection.state is State.CLOSED
    with pytest.raises(ClientClosed):
        await connection.channel()


@BOTH_LOOPS
@pytest.mark.parametrize("how", ["in a pause", "in an attempt", "at once"])
def test_close_while_it_recovers(proxy: Proxy, how: str, loop_factory: LoopFactory) -> None:
    async def scene() -> None:
        connection = await connect(proxy.url, backoff_min_s=30 if how == "in a pause" else 0.02, backoff_max_s=60)
        ear = Ear(connection)
        proxy.refuse = how == "in a pause"
        proxy.blackhole = not proxy.refuse
        proxy.reset_all()
        await ear.hears(events.Lost)
        if how == "in an attempt":
            await ear.hears(events.Connecting)
            await asyncio.sleep(0.05)
        await closes_within(connection, 2)
        assert (await ear.ends())[-1] == "Closed"

    play(scene(), loop_factory)


def test_close_while_it_restores(proxy: Proxy) -> None:
    log: list[str] = []

    async def scene() -> None:
        connection = await connect(proxy.url, **SOON)
        await caught_restoring(connection, proxy, log, pause_s=20, later="last")
        await closes_within(connection, 3)
        assert log[-2:] == ["stop last", "stop slow"]
        assert "restore last" not in log, "nothing is restored that was stopped"

    play(scene())


@BOTH_LOOPS
def test_close_with_a_peer_that_does_not_answer(proxy: Proxy, loop_factory: LoopFactory) -> None:
    async def scene() -> None:
        connection = await connect(proxy.url, close_deadline_s=0.3)
        channel = await connection.channel()
        proxy.freeze()
        asking = asyncio.create_task(channel.call(BasicQos()))
        await asyncio.sleep(0.05)
        begin = time.monotonic()
        await closes_within(connection, 3)
        assert time.monotonic() - begin >= 0.25
        with pytest.raises(ConnectionLost, match="closed"):
            await asking
        proxy.thaw()

    play(scene(), loop_factory)


@BOTH_LOOPS
def test_close_with_a_peer_that_does_not_read(proxy: Proxy, loop_factory: LoopFactory) -> None:
    async def scene() -> None:
        connection = await connect(proxy.url, close_deadline_s=0.3)
        channel = await connection.channel()
        proxy.freeze()
        link = await connection.ready()
        while not link.is_congested:
            link.send(channel.number, BasicQos())
            for _ in range(2000):
                link._write_buffer.write(b"\x08\x00\x00\x00\x00\x00\x00\xce" * 100)
            await asyncio.sleep(0)
        waiting = asyncio.create_task(link.room())
        await asyncio.sleep(0)
        await closes_within(connection, 3)
        with pytest.raises(ConnectionLost):
            await waiting
        assert link.pending_bytes == 0
        proxy.thaw()

    play(scene(), loop_factory)


@BOTH_LOOPS
def test_a_close_that_is_cancelled_is_a_close(proxy: Proxy, loop_factory: LoopFactory) -> None:
    async def scene() -> None:
        for turns in (0, 1, 2, 5, 50):
            connection = await connect(proxy.url)
            ear = Ear(connection)
            proxy.at(Step("client", "connection.close"), HALF_OPEN)
            closing = asyncio.create_task(connection.close())
            for _ in range(turns):
                await asyncio.sleep(0)
            closing.cancel()
            await asyncio.wait([closing])
            if turns == 0:
                # It had not even begun.
                proxy.disarm()
                await connection.close()
            assert connection.state is State.CLOSED
            assert (await ear.ends())[-1] == "Closed"
            proxy.disarm()
            proxy.thaw()

    play(scene(), loop_factory)


def test_a_loss_while_it_is_being_closed_is_no_loss(proxy: Proxy) -> None:
    async def scene() -> None:
        connection = await connect(proxy.url, **SOON)
        ear = Ear(connection)
        proxy.at(Step("client", "connection.close"), RESET)
        await closes_within(connection, 3)
        assert await ear.ends() == ["Closed"]

    play(scene())


def test_many_connections_leave_nothing(broker: Broker) -> None:
    async def scene() -> None:
        for _ in range(5):
            connections = await asyncio.gather(*(connect(broker.url)._open() for _ in range(10)))
            await asyncio.gather(*(connection.close() for connection in connections))

    play(scene())

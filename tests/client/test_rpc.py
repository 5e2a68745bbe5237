"""Questions and answers over direct reply-to, on both brokers."""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import msgspec
import pytest
import uvloop

from leveret.client import (
    ChannelClosed,
    ClientClosed,
    Connection,
    ConnectionLost,
    DeadlineExceeded,
    Delivery,
    Refused,
    RemoteError,
    Rpc,
    Unroutable,
    connect,
)
from leveret.core.client.outgoing import Outgoing, make_address
from leveret.core.codec.properties import encode_properties
from leveret.testing import Broker
from tests.client.amqp_server import AmqpServer
from tests.client.lasting import cut, cut_and_restored, delete_queue, new_name, new_queue, run_on
from tests.client.waiting import until


class Sum(msgspec.Struct):
    a: int
    b: int


async def double(request: Any) -> bytes:
    return request.body * 2


def test_many_questions_at_once_get_their_own_answers(amqp_server: AmqpServer) -> None:
    async def script(connection: Connection) -> None:
        queue = await new_queue(connection)
        async with connection.serve(queue, double, concurrency=20) as server, connection.rpc() as rpc:
            calls = [rpc.call(f"{n},".encode(), routing_key=queue, deadline_s=20) for n in range(300)]
            replies = await asyncio.gather(*calls)
            assert [reply.body for reply in replies] == [f"{n},{n},".encode() for n in range(300)]
            assert rpc.counters.replies_total == rpc.counters.calls_total == 300
            assert rpc.counters.outstanding == 0
            await until(lambda: server.counters.replies_total == 300, "replies counted")

    run_on(amqp_server, script)


def test_types_on_both_sides(amqp_server: AmqpServer) -> None:
    async def add(sum: Sum) -> int:
        return sum.a + sum.b

    async def script(connection: Connection) -> None:
        queue = await new_queue(connection)
        async with connection.serve(queue, add, type=Sum), connection.rpc() as rpc:
            total: int = await rpc.call(Sum(20, 22), routing_key=queue, type=int)
            assert total == 42
            # What is no Sum is told as any other error.
            with pytest.raises(RemoteError) as error:
                await rpc.call("twenty", routing_key=queue, type=int)
            assert error.value.type == "Undecodable"

    run_on(amqp_server, script)


def test_an_error_of_the_handler_is_raised_where_it_was_asked(amqp_server: AmqpServer) -> None:
    async def fail(_: Delivery) -> None:
        raise LookupError("no such customer")

    async def script(connection: Connection) -> None:
        queue = await new_queue(connection)
        async with connection.serve(queue, fail) as server, connection.rpc() as rpc:
            with pytest.raises(RemoteError) as error:
                await rpc.call(b"", routing_key=queue)
            assert (error.value.type, error.value.text) == ("LookupError", "no such customer")
            assert server.counters.failed_total == 1
        # It was answered, so it is done with.
        async with connection.serve(queue, double) as server, connection.rpc() as rpc:
            assert (await rpc.call(b"x", routing_key=queue)).body == b"xx"
            assert server.counters.requests_total == 1

    run_on(amqp_server, script)


def test_errors_that_are_kept_for_oneself_are_dead_lettered(amqp_server: AmqpServer) -> None:
    async def fail(_: Delivery) -> None:
        raise LookupError("secret")

    async def script(connection: Connection) -> None:
        dead = await new_queue(connection)
        arguments = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": dead}
        queue = await new_queue(connection, arguments=arguments)
        async with connection.serve(queue, fail, reply_errors=False), connection.rpc() as rpc:
            with pytest.raises(DeadlineExceeded):
                await rpc.call(b"question", routing_key=queue, deadline_s=1)
        channel = await connection.channel()
        left = await channel.get(dead)
        assert left is not None and left.body == b"question"

    run_on(amqp_server, script)


def test_a_plain_function_may_block(amqp_server: AmqpServer) -> None:
    def slow(request: Any) -> str:
        time.sleep(0.1)
        return request.body.decode().upper()

    async def script(connection: Connection) -> None:
        queue = await new_queue(connection)
        async with connection.serve(queue, slow, concurrency=4), connection.rpc() as rpc:
            calls = [rpc.call("abc", routing_key=queue, type=str) for _ in range(4)]
            assert await asyncio.gather(*calls) == ["ABC"] * 4

    run_on(amqp_server, script)


def test_a_question_that_reaches_no_queue_is_told_at_once(amqp_server: AmqpServer) -> None:
    async def script(connection: Connection) -> None:
        async with connection.rpc() as rpc:
            with pytest.raises(Unroutable) as error:
                await rpc.call(b"", routing_key=new_name("nowhere"), deadline_s=10)
            assert error.value.code == 312

    run_on(amqp_server, script)


def test_a_question_to_a_full_queue_is_refused(amqp_server: AmqpServer) -> None:
    async def script(connection: Connection) -> None:
        queue = await new_queue(connection, arguments={"x-max-length": 1, "x-overflow": "reject-publish"})
        async with connection.rpc() as rpc:
            first = asyncio.create_task(rpc.call(b"", routing_key=queue, deadline_s=2))
            await asyncio.sleep(0.2)
            with pytest.raises(Refused):
                await rpc.call(b"", routing_key=queue, deadline_s=10)
            with pytest.raises(DeadlineExceeded):
                await first

    run_on(amqp_server, script)


def test_an_exchange_that_is_not_there_ends_its_own_questions_only(amqp_server: AmqpServer) -> None:
    release = asyncio.Event()

    async def wait(_: Delivery) -> bytes:
        await release.wait()
        return b"late but there"

    async def script(connection: Connection) -> None:
        queue = await new_queue(connection)
        async with connection.serve(queue, wait), connection.rpc() as rpc:
            good = asyncio.create_task(rpc.call(b"", routing_key=queue))
            with pytest.raises(ChannelClosed) as error:
                await rpc.call(b"", exchange=new_name("missing"), routing_key="x", deadline_s=10)
            assert error.value.code == 404
            release.set()
            assert (await good).body == b"late but there"

    run_on(amqp_server, script)


def test_questions_expire_with_their_deadline_and_late_answers_are_dropped(amqp_server: AmqpServer) -> None:
    release = asyncio.Event()
    seen: list[bytes] = []

    async def wait(request: Any) -> bytes:
        seen.append(request.body)
        await release.wait()
        return b""

    async def script(connection: Connection) -> None:
        queue = await new_queue(connection)
        async with connection.serve(queue, wait, concurrency=1), connection.rpc() as rpc:
            calls = [rpc.call(body, routing_key=queue, deadline_s=0.5) for body in (b"first", b"second")]
            results = await asyncio.gather(*calls, return_exceptions=True)
            assert [type(result) for result in results] == [DeadlineExceeded] * 2
            await asyncio.sleep(0.3)
            release.set()
            await until(lambda: rpc.counters.late_total == 1, "the late answer")
            assert (await rpc.call(b"third", routing_key=queue)).body == b""
            # The second expired in the queue, and nobody worked on it.
            assert seen == [b"first", b"third"]

    run_on(amqp_server, script)


def test_a_lost_connection_fails_what_was_asked_at_once(amqp_server: AmqpServer) -> None:
    async def script(connection: Connection) -> None:
        queue = await new_queue(connection)
        async with connection.rpc() as rpc:
            asked = asyncio.create_task(rpc.call(b"", routing_key=queue, deadline_s=100))
            await until(lambda: rpc.counters.outstanding == 1, "the question")
            await asyncio.sleep(0.3)
            began = time.monotonic()
            cut(connection)
            with pytest.raises(ConnectionLost):
                await asked
            assert time.monotonic() - began < 50
            # What is asked while there is no connection waits for the next one.
            async with connection.serve(queue, double):
                assert (await rpc.call(b"z", routing_key=queue)).body == b"zz"

    run_on(amqp_server, script)


def test_with_retry_it_is_asked_again(amqp_server: AmqpServer) -> None:
    async def script(connection: Connection) -> None:
        queue = await new_queue(connection)
        async with connection.rpc() as rpc:
            asked = asyncio.create_task(rpc.call(b"again", routing_key=queue, deadline_s=30, retry=True))
            await asyncio.sleep(0.3)
            await cut_and_restored(connection)
            async with connection.serve(queue, double) as server:
                assert (await asked).body == b"againagain"
                assert rpc.counters.retried_total == 1
                # Both questions are in the queue; the first one's answer reaches nobody.
                await until(lambda: server.counters.requests_total == 2, "the first question")
                assert rpc.counters.late_total == 0

    run_on(amqp_server, script)


def test_a_server_goes_on_after_a_lost_connection(amqp_server: AmqpServer) -> None:
    async def script(connection: Connection) -> None:
        queue = await new_queue(connection)
        async with connection.serve(queue, double) as server, connection.rpc() as rpc:
            for _ in range(3):
                assert (await rpc.call(b"a", routing_key=queue)).body == b"aa"
                await cut_and_restored(connection)
            assert (await rpc.call(b"a", routing_key=queue)).body == b"aa"
            assert server.counters.requests_total >= 4

    run_on(amqp_server, script)


def test_a_server_that_is_stopped_finishes_what_it_has(amqp_server: AmqpServer) -> None:
    begun = asyncio.Event()

    async def slow(request: Any) -> bytes:
        begun.set()
        await asyncio.sleep(0.3)
        return request.body

    async def script(connection: Connection) -> None:
        queue = await new_queue(connection)
        server = await connection.serve(queue, slow, concurrency=1)
        async with connection.rpc() as rpc:
            first = asyncio.create_task(rpc.call(b"1", routing_key=queue))
            second = asyncio.create_task(rpc.call(b"2", routing_key=queue))
            await begun.wait()
            await server.stop()
            assert (await first).body == b"1"
            await server.wait()
            async with connection.serve(queue, slow):
                assert (await second).body == b"2"

    run_on(amqp_server, script)


def test_a_request_that_takes_too_long_to_stop_goes_back(amqp_server: AmqpServer) -> None:
    begun = asyncio.Event()

    async def stuck(_: Delivery) -> None:
        begun.set()
        await asyncio.sleep(60)

    async def script(connection: Connection) -> None:
        queue = await new_queue(connection)
        server = await connection.serve(queue, stuck)
        async with connection.rpc() as rpc:
            asked = asyncio.create_task(rpc.call(b"x", routing_key=queue))
            await begun.wait()
            await server.stop(deadline_s=0.1)
            async with connection.serve(queue, double):
                assert (await asked).body == b"xx"

    run_on(amqp_server, script)


def test_a_server_whose_queue_is_missing_says_so(amqp_server: AmqpServer) -> None:
    async def script(connection: Connection) -> None:
        with pytest.raises(ChannelClosed) as error:
            await connection.serve(new_name("missing"), double)
        assert error.value.code == 404

    run_on(amqp_server, script)


def test_a_server_whose_queue_goes_ends_after_its_patience(amqp_server: AmqpServer) -> None:
    async def script(connection: Connection) -> None:
        queue = await new_queue(connection)
        server = await connection.serve(queue, double)
        server._feed._patience_s = 0.5
        await delete_queue(connection, queue)
        with pytest.raises(ChannelClosed):
            await server.wait()
        await server.stop()

    run_on(amqp_server, script)


@contextmanager
def takes_at_most(server: AmqpServer, body_bytes_max: int) -> Iterator[AmqpServer]:
    """A broker that takes no larger messages."""
    if server.node is None:
        with Broker({"limits.body_bytes_max": body_bytes_max}) as broker:
            yield AmqpServer("leveret", broker.host, broker.port, broker.management_url, broker=broker)
        return
    # Channels look at it when they are opened.
    before = server.node.control("eval", "application:get_env(rabbit, max_message_size, 134217728).").strip()
    server.node.control("eval", f"application:set_env(rabbit, max_message_size, {body_bytes_max}).")
    try:
        yield server
    finally:
        server.node.control("eval", f"application:set_env(rabbit, max_message_size, {before}).")


def test_an_answer_larger_than_the_broker_takes_is_told_as_an_error(amqp_server: AmqpServer) -> None:
    handled = []

    async def many(request: Delivery) -> bytes:
        handled.append(request.body)
        return b"x" * int(request.body)

    async def script(connection: Connection) -> None:
        queue = await new_queue(connection)
        async with connection.serve(queue, many) as server, connection.rpc() as rpc:
            for size in (b"5000", b"2000"):
                with pytest.raises(RemoteError) as error:
                    await rpc.call(size, routing_key=queue, deadline_s=10)
                assert error.value.type == "AnswerTooLarge"
                # Each smaller one is tried once, and once more when it comes again.
                assert handled == [size] * 2
                handled.clear()
            with pytest.raises(RemoteError):
                await rpc.call(b"3000", routing_key=queue, deadline_s=10)
            assert handled == [b"3000"]
            # Together with such that can be answered.
            sizes = [b"10", b"4000", b"1000", b"1500"]
            calls = [rpc.call(size, routing_key=queue, deadline_s=10) for size in sizes]
            small, large, most, more = await asyncio.gather(*calls, return_exceptions=True)
            assert isinstance(small, Delivery) and isinstance(most, Delivery)
            assert (len(small.body), len(most.body)) == (10, 1000)
            assert isinstance(large, RemoteError) and isinstance(more, RemoteError)
            # Told again, perhaps, after the channel went with what was told first.
            assert server.counters.failed_total >= 5
        # All is done with: nothing comes again.
        channel = await connection.channel()
        assert await channel.get(queue) is None

    with takes_at_most(amqp_server, 1000) as server:
        run_on(server, script)


def test_closing_ends_those_who_wait(amqp_server: AmqpServer) -> None:
    async def script(connection: Connection) -> None:
        queue = await new_queue(connection)
        rpc = connection.rpc()
        asked = asyncio.create_task(rpc.call(b"", routing_key=queue))
        await until(lambda: rpc.counters.outstanding == 1, "the question")
        await asyncio.sleep(0.2)
        await rpc.close()
        with pytest.raises(ClientClosed):
            await asked
        other = connection.rpc()
        asked = asyncio.create_task(other.call(b"", routing_key=queue))
        await asyncio.sleep(0.2)
        await connection.close()
        with pytest.raises((ClientClosed, ConnectionLost)):
            await asked
        with pytest.raises(ClientClosed):
            connection.rpc()

    run_on(amqp_server, script)


def test_questions_with_other_addresses(amqp_server: AmqpServer) -> None:
    async def script(connection: Connection) -> None:
        queue = await new_queue(connection)
        async with connection.serve(queue, double) as server:
            channel = await connection.channel()
            channel.codec.publish(Outgoing(make_address("", queue), b"\0\0", b"one way", b"", 0))
            await until(lambda: server.counters.requests_total == 1, "the request")
            await until(lambda: server.counters.in_hand == 0, "its end")
            assert server.counters.replies_total == server.counters.unanswered_total == 0

            # An answer to a queue that is gone is counted, and the question done with.
            raw = encode_properties(reply_to=new_name("gone"), correlation_id="c")
            channel.codec.publish(Outgoing(make_address("", queue), raw, b"whoever", b"", 0))
            await until(lambda: server.counters.unanswered_total == 1, "the answer that nobody gets")
            # One to a queue is delivered there.
            replies = await new_queue(connection)
            raw = encode_properties(reply_to=replies, correlation_id="d")
            channel.codec.publish(Outgoing(make_address("", queue), raw, b"hi", b"", 0))
            await until(lambda: server.counters.replies_total == 1, "the answer")
            reply = await channel.get(replies)
            assert reply is not None and (reply.body, reply.correlation_id) == (b"hihi", "d")

    run_on(amqp_server, script)


def test_at_most_so_many_are_under_way(amqp_server: AmqpServer) -> None:
    async def script(connection: Connection) -> None:
        queue = await new_queue(connection)
        async with connection.rpc(calls_max=2) as rpc:
            # The first two stay under way until the others have given up waiting for their turn.
            calls = [asyncio.ensure_future(rpc.call(b"", routing_key=queue, deadline_s=60)) for _ in range(2)]
            waiting = [rpc.call(b"", routing_key=queue, deadline_s=1) for _ in range(3)]
            results = await asyncio.gather(*waiting, return_exceptions=True)
            assert all(isinstance(result, DeadlineExceeded) for result in results)
            assert rpc._lines[""].channel.codec.published_total == 2
            for call in calls:
                call.cancel()
            await asyncio.gather(*calls, return_exceptions=True)
        with pytest.raises(ValueError, match="calls_max"):
            connection.rpc(calls_max=0)

    run_on(amqp_server, script)


@pytest.mark.parametrize("factory", [asyncio.new_event_loop, uvloop.new_event_loop])
def test_with_connections_breaking_all_the_time(
    amqp_server: AmqpServer, factory: Callable[[], asyncio.AbstractEventLoop]
) -> None:
    """Every question ends: with its own answer, or with ConnectionLost if it may not be asked twice."""

    async def ask(rpc: Rpc, queue: str, number: int) -> str:
        await asyncio.sleep(number * 0.005)
        body = f"{number}."
        try:
            answer = await rpc.call(body, routing_key=queue, deadline_s=40, retry=number % 2 == 0)
        except ConnectionLost:
            assert number % 2 == 1
            return "lost"
        assert answer.body == (body * 2).encode()
        return "answered"

    async def script(connection: Connection) -> None:
        queue = await new_queue(connection)
        async with connect(amqp_server.url) as other, other.serve(queue, double), connection.rpc() as rpc:
            asked = [asyncio.create_task(ask(rpc, queue, number)) for number in range(200)]
            dice = random.Random(7)
            for _ in range(6):
                await asyncio.sleep(dice.uniform(0.05, 0.25))
                cut(dice.choice([connection, other]))
            ends = await asyncio.gather(*asked)
            assert ends[::2] == ["answered"] * 100
            assert rpc.counters.outstanding == 0

    run_on(amqp_server, script, loop_factory=factory)

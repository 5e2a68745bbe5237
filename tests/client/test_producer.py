"""Publishing with confirms, message by message: what arrives, and what is told about what does not."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime

import msgspec
import pytest

from leveret.client import (
    ChannelClosed,
    ClientClosed,
    Confirmation,
    Connection,
    DeadlineExceeded,
    Message,
    Refused,
    Unroutable,
)
from leveret.client.publishing.producer import Producer
from tests.client.faults import HALF_OPEN
from tests.client.producer_scene import bodies, count, declare, declare_exchange, run, run_proxied, take_all
from tests.client.proxy import Proxy, Step
from tests.client.topology_scene import Scene
from tests.client.waiting import until


class Order(msgspec.Struct):
    number: int


def test_a_message_with_all_its_properties(scene: Scene) -> None:
    async def script(connection: Connection) -> None:
        async with connection.producer(app_id="till") as producer:
            await producer.publish(
                "hello",
                routing_key="q",
                headers={"a": 1, "b": [True, None, "x"]},
                message_id="m-1",
                content_encoding="utf-8",
                delivery_mode=1,
                priority=4,
                correlation_id="c-1",
                reply_to="answers",
                expiration=90.5,
                timestamp=datetime(2026, 1, 2, tzinfo=UTC),
                type="greeting",
                user_id="guest",
            )
        (delivery,) = await take_all(connection)
        assert delivery.body == b"hello" and delivery.exchange == "" and delivery.routing_key == "q"
        assert delivery.headers == {"a": 1, "b": [True, None, "x"]}
        assert (delivery.message_id, delivery.content_type, delivery.content_encoding) == ("m-1", "text/plain", "utf-8")
        assert (delivery.delivery_mode, delivery.priority, delivery.correlation_id) == (1, 4, "c-1")
        assert (delivery.reply_to, delivery.expiration, delivery.type) == ("answers", "90500", "greeting")
        assert (delivery.user_id, delivery.app_id) == ("guest", "till")
        assert delivery.timestamp == datetime(2026, 1, 2, tzinfo=UTC).timestamp()

    run(scene, script)


def test_bodies_of_all_kinds(scene: Scene) -> None:
    async def script(connection: Connection) -> None:
        large = bytes(range(256)) * 3000
        async with connection.producer(routing_key="q") as producer:
            for body in (b"", b"octets", "text", Order(5), {"a": 1}, [1, 2], large, Message(b"message", priority=1)):
                await producer.publish(body)
            assert (producer.published, producer.confirmed, producer.in_flight) == (8, 8, 0)
        found = await take_all(connection)
        assert [one.body for one in found] == [
            b"", b"octets", b"text", b'{"number":5}', b'{"a":1}', b"[1,2]", large, b"message",
        ]  # fmt: skip
        json, text = "application/json", "text/plain"
        assert [one.content_type for one in found] == [None, None, text, json, json, json, None, None]
        assert {one.delivery_mode for one in found} == {2}
        assert len({one.message_id for one in found}) == 8

    run(scene, script)


def test_unroutable_messages_name_exchange_and_key(scene: Scene) -> None:
    async def script(connection: Connection) -> None:
        await declare_exchange(connection, "nowhere")
        async with connection.producer() as producer:
            with pytest.raises(Unroutable, match=r"'nowhere'.*'a\.b'.*312") as raised:
                await producer.publish(b"x", exchange="nowhere", routing_key="a.b", message_id="m-7")
            error = raised.value
            assert (error.exchange, error.routing_key, error.code, error.message_id) == ("nowhere", "a.b", 312, "m-7")
            await producer.publish(b"x", exchange="nowhere", routing_key="a.b", mandatory=False)
            # Among others, each is told its own.
            outcomes = await asyncio.gather(
                *(producer.publish(b"x", routing_key="q" if n % 3 else "none") for n in range(30)),
                return_exceptions=True,
            )
            assert [isinstance(one, Unroutable) for one in outcomes] == [n % 3 == 0 for n in range(30)]
            assert (producer.returned, producer.confirmed, producer.in_flight) == (11, 21, 0)
        assert await count(connection) == 20

    run(scene, script)


def test_equal_ids_given_by_the_user_are_no_trouble(scene: Scene) -> None:
    async def script(connection: Connection) -> None:
        async with connection.producer() as producer:
            outcomes = await asyncio.gather(
                *(producer.publish(b"x", routing_key="none", message_id="same") for _ in range(5)),
                return_exceptions=True,
            )
            assert all(isinstance(one, Unroutable) for one in outcomes)

    run(scene, script)


def test_refused_messages(scene: Scene) -> None:
    async def script(connection: Connection) -> None:
        await declare(connection, "full", max_length=1, overflow="reject-publish")
        async with connection.producer(routing_key="full") as producer:
            await producer.publish(b"1")
            with pytest.raises(Refused, match="'full'") as raised:
                for _ in range(5):
                    await producer.publish(b"2", message_id="m-2")
            assert raised.value.message_id == "m-2"
            assert producer.refused == 1 and producer.in_flight == 0

    run(scene, script)


def test_refused_messages_are_tried_again_if_asked_for(scene: Scene) -> None:
    async def script(connection: Connection) -> None:
        await declare(connection, "full", max_length=1, overflow="reject-publish")
        options = {"retry_refused": 8, "retry_pause_min_s": 0.05, "retry_pause_max_s": 0.2}
        async with connection.producer(routing_key="full", **options) as producer:
            await producer.publish(b"1")
            later = asyncio.ensure_future(producer.publish(b"2"))
            await until(lambda: producer.refused >= 2)
            assert producer.in_flight == 1
            assert (await bodies(connection, "full"))[0] == b"1"
            await later
            assert producer.retransmitted >= 1
            assert await bodies(connection, "full") == [b"2"]

        async with connection.producer(routing_key="full", retry_refused=2, retry_pause_min_s=0.01) as producer:
            await producer.publish(b"1")
            with pytest.raises(Refused):
                for _ in range(5):
                    await producer.publish(b"2")
            assert producer.refused == 3 and producer.in_flight == 0

    run(scene, script)


def test_a_missing_exchange_fails_only_what_goes_there(scene: Scene) -> None:
    async def script(connection: Connection) -> None:
        await declare_exchange(connection, "shop", "q")
        async with connection.producer(exchange="shop") as producer:

            async def one(number: int) -> None:
                await producer.publish(b"%d" % number, exchange="missing" if number % 5 == 2 else None)

            outcomes = await asyncio.gather(*(one(number) for number in range(20)), return_exceptions=True)
            for number, outcome in enumerate(outcomes):
                if number % 5 == 2:
                    assert isinstance(outcome, ChannelClosed) and outcome.code == 404
                    assert "no exchange 'missing'" in str(outcome)
                else:
                    assert outcome is None
            assert producer.in_flight == 0
            await producer.publish(b"after")
        arrived = await bodies(connection)
        assert set(arrived) == {b"%d" % number for number in range(20) if number % 5 != 2} | {b"after"}
        # In their order, if what came a second time is left out.
        firsts = list(dict.fromkeys(arrived))
        assert firsts == [*sorted(firsts[:-1], key=int), b"after"]
        assert connection.pool.statistics.replaced_total >= 1

    run(scene, script)


def test_the_one_that_the_broker_cannot_bear_is_found(scene: Scene) -> None:
    """The broker says what is wrong, but not with which message."""

    async def script(connection: Connection) -> None:
        async with connection.producer(routing_key="q") as producer:

            async def one(number: int) -> None:
                await producer.publish(b"%d" % number, user_id="somebody" if number in (3, 4, 11) else None)

            outcomes = await asyncio.gather(*(one(number) for number in range(15)), return_exceptions=True)
            failed = [number for number, outcome in enumerate(outcomes) if outcome is not None]
            assert failed == [3, 4, 11]
            assert all(isinstance(outcomes[number], ChannelClosed) for number in failed)
            assert producer.in_flight == 0
        arrived = await bodies(connection)
        assert list(dict.fromkeys(arrived)) == [b"%d" % number for number in range(15) if number not in failed]

    run(scene, script)


def test_the_broker_s_words_may_be_cut_short(scene: Scene) -> None:
    """The name of the missing exchange does not fit into its answer."""

    async def script(connection: Connection) -> None:
        async with connection.producer(routing_key="q") as producer:
            outcomes = await asyncio.gather(
                *(producer.publish(b"%d" % number, exchange="x" * 250 if number == 4 else None) for number in range(8)),
                return_exceptions=True,
            )
            assert [number for number, outcome in enumerate(outcomes) if outcome is not None] == [4]
            assert isinstance(outcomes[4], ChannelClosed) and outcomes[4].code == 404

    run(scene, script)


def test_wrong_values_are_refused_before_anything_is_sent(scene: Scene) -> None:
    async def script(connection: Connection) -> None:
        async with connection.producer(routing_key="q") as producer:
            with pytest.raises(ValueError, match="priority"):
                await producer.publish(b"x", priority=1000)
            with pytest.raises(TypeError, match="colour"):
                await producer.publish(b"x", colour="red")  # type: ignore[call-arg]
            with pytest.raises(ValueError, match="properties"):
                await producer.publish(b"x", headers={f"h{n}": "x" * 1000 for n in range(200)})
            with pytest.raises(TypeError, match="beside"):
                await producer.publish(Message(b"x"), priority=1)
            assert producer.in_flight == 0
            await producer.publish(b"good")
        assert await bodies(connection) == [b"good"]

    run(scene, script)


@pytest.mark.parametrize(
    ("options", "named"),
    [
        ({"window": 0}, "window"),
        ({"deadline_s": 0}, "deadline_s"),
        ({"retry_refused": -1}, "retry_refused"),
        ({"retry_pause_min_s": 0}, "retry_pause_min_s"),
        ({"publishing_name": "x", "retry_refused": 1}, "publishing_name"),
        ({"publishing_name": ""}, "publishing_name"),
        ({"confirms": False, "deduplicate": True}, "confirms"),
        ({"priority": 256}, "priority"),
    ],
)
def test_options_that_make_no_sense(scene: Scene, options: dict[str, object], named: str) -> None:
    async def script(connection: Connection) -> None:
        with pytest.raises(ValueError, match=named):
            connection.producer(**options)
        with pytest.raises(TypeError, match="no property 'windoww'"):
            connection.producer(windoww=5)

    run(scene, script)


def test_submit_gives_futures(scene: Scene) -> None:
    async def script(connection: Connection) -> None:
        async with connection.producer(routing_key="q") as producer:
            sent = [await producer.submit(b"%d" % number) for number in range(2000)]
            assert all(isinstance(one, Confirmation) for one in sent)
            lost = await producer.submit(b"x", routing_key="none")
            await producer.flush()
            assert all(one.done() for one in sent) and lost.done()
            assert isinstance(lost.exception(), Unroutable)
            await asyncio.gather(*sent)
            ids = [one.message_id for one in sent]
        found = await take_all(connection)
        assert [one.body for one in found] == [b"%d" % number for number in range(2000)]
        assert [one.message_id for one in found] == ids

    run(scene, script)


def test_deadlines_without_a_timer_for_each(scene: Scene) -> None:
    async def script(connection: Connection, proxy: Proxy) -> None:
        async with connection.producer(routing_key="q", deadline_s=20) as producer:
            await producer.publish(b"before")
            proxy.at(Step("client", "basic.publish"), HALF_OPEN)
            loop = asyncio.get_running_loop()
            begun = loop.time()

            async def late(deadline_s: float) -> float:
                with pytest.raises(DeadlineExceeded, match=r"'q'.*may have arrived"):
                    await producer.publish(b"late", deadline_s=deadline_s)
                return loop.time() - begun

            async def timed(seconds: float) -> float:
                await asyncio.sleep(seconds)
                return loop.time() - begun

            waits = [0.9, 0.3, 0.6, 0.3]
            # A timer of the same loop says how late anything is on this machine just now.
            ends = await asyncio.gather(*map(late, waits), *map(timed, waits))
            for wanted, seconds, timer in zip(waits, ends[:4], ends[4:], strict=True):
                assert wanted <= seconds < timer + 0.5
            assert producer.counters.expired == 4 and producer.in_flight == 0
            proxy.thaw()
            await producer.publish(b"after")
        assert {b"before", b"after"} <= set(await bodies(connection))

    run_proxied(scene, script)


def test_cancelled_publishes_free_their_room(scene: Scene) -> None:
    async def script(connection: Connection, proxy: Proxy) -> None:
        async with connection.producer(routing_key="q", window=3) as producer:
            await producer.publish(b"before")
            proxy.at(Step("client", "basic.publish"), HALF_OPEN)
            stuck = [asyncio.ensure_future(producer.publish(b"stuck %d" % number)) for number in range(5)]
            await asyncio.sleep(0.05)
            assert (producer.in_flight, producer.waiting) == (3, 2)
            for one in (stuck[0], stuck[3]):
                one.cancel()
            await asyncio.sleep(0)
            await asyncio.sleep(0)
            assert (producer.in_flight, producer.waiting) == (3, 0)
            submitted = asyncio.ensure_future(producer.submit(b"x"))
            await asyncio.sleep(0)
            stuck[1].cancel()
            (await submitted).cancel()
            assert producer.in_flight == 2
            proxy.thaw()
            await asyncio.gather(stuck[2], stuck[4])
            assert producer.in_flight == 0
            await asyncio.gather(*stuck, return_exceptions=True)

    run_proxied(scene, script)


def test_closed_producers(scene: Scene) -> None:
    async def script(connection: Connection) -> None:
        producer = connection.producer(routing_key="q")
        # It needs not be entered.
        sent = [await producer.submit(b"%d" % number) for number in range(100)]
        await producer.close()
        assert all(one.done() and one.exception() is None for one in sent)
        assert not producer.is_open and connection.pool.statistics.borrowed == 0
        await producer.close()
        with pytest.raises(ClientClosed, match="the producer was closed"):
            await producer.publish(b"x")
        with pytest.raises(ClientClosed):
            await producer.publish_batch([b"x"])
        assert await count(connection) == 100

    run(scene, script)


def test_a_connection_closes_its_producers_in_order(scene: Scene) -> None:
    sent: list[Confirmation] = []
    producers: list[Producer] = []

    async def script(connection: Connection) -> None:
        producer = connection.producer(routing_key="q")
        producers.append(producer)
        sent.extend([await producer.submit(b"%d" % number) for number in range(100)])

    run(scene, script)
    assert all(one.exception() is None for one in sent)
    assert not producers[0].is_open


def test_closing_does_not_wait_for_ever(scene: Scene) -> None:
    async def script(connection: Connection, proxy: Proxy) -> None:
        producer = connection.producer(routing_key="q", window=1)
        await producer.publish(b"before")
        proxy.at(Step("client", "basic.publish"), HALF_OPEN)
        sent = await producer.submit(b"stuck")
        waiting = asyncio.ensure_future(producer.publish(b"has no room"))
        await asyncio.sleep(0.05)
        await producer.close(deadline_s=0.2)
        with pytest.raises(ClientClosed, match="before the message was confirmed"):
            await sent
        with pytest.raises(ClientClosed):
            await waiting
        assert producer.in_flight == 0

    run_proxied(scene, script)


def test_a_close_that_is_cancelled_closes_all_the_same(leveret_scene: Scene) -> None:
    async def script(connection: Connection, proxy: Proxy) -> None:
        producer = connection.producer(routing_key="q")
        await producer.publish(b"before")
        proxy.at(Step("client", "basic.publish"), HALF_OPEN)
        sent = await producer.submit(b"stuck")
        closing = asyncio.ensure_future(producer.close())
        await asyncio.sleep(0.05)
        assert not sent.done()
        closing.cancel()
        with pytest.raises(asyncio.CancelledError):
            await closing
        with pytest.raises(ClientClosed):
            await sent
        assert producer.in_flight == 0 and connection.pool.statistics.borrowed == 0

    run_proxied(leveret_scene, script)


def test_without_confirms(scene: Scene, caplog: pytest.LogCaptureFixture) -> None:
    async def script(connection: Connection) -> None:
        async with connection.producer(routing_key="q", confirms=False) as producer:
            for number in range(100):
                await producer.publish(b"%d" % number)
            await producer.publish_batch(b"%d" % number for number in range(100, 200))
            for _ in range(2):
                await producer.publish(b"x", routing_key="none")
            await until(lambda: producer.returned == 2)
            # It takes another channel when the broker closes this one; what was written before that may be lost.
            await producer.publish(b"x", exchange="missing")
            await until(lambda: connection.pool.statistics.replaced_total > 0)
            await producer.publish(b"last")
            with pytest.raises(TypeError, match="confirms"):
                await producer.submit(b"x")
            assert producer.published == 204 and producer.in_flight == 0
        found = []
        async with asyncio.timeout(10):
            # Nobody said when they would be there.
            while len(found) < 201:
                found += await take_all(connection)
        assert [one.body for one in found] == [b"%d" % number for number in range(200)] + [b"last"]
        assert found[0].message_id is None

    run(scene, script)
    assert "a message was returned" in caplog.text and "lost its channel" in caplog.text

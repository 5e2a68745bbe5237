"""A broker that seems to say what it must not, or does not say what it must: the client believes it not for long."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Final

import pytest

from leveret.client import ConnectionLost, DeadlineExceeded, connect
from leveret.client.topology import Queue
from leveret.wire.basic_methods import BasicAck, BasicCancel, BasicDeliver, BasicNack, BasicReturn
from leveret.wire.channel_methods import ChannelClose, ChannelCloseOk, ChannelFlow, ChannelOpenOk
from leveret.wire.codec import encode_method
from leveret.wire.connection_methods import ConnectionBlocked, ConnectionClose, ConnectionOpenOk, ConnectionUnblocked
from leveret.wire.method import Method
from leveret.wire.queue_methods import QueueBindOk, QueueDeclare, QueueDeclareOk
from tests.client.adversity.cases import ALL, Case, every_case, good_steps, lone_life, sample
from tests.client.adversity.checkers import findings, shortened
from tests.client.adversity.compact import QUICK
from tests.client.adversity.ledger import Ledger
from tests.client.amqp_server import AmqpServer
from tests.client.faults import Action, Step
from tests.client.leaks import no_leaks
from tests.client.proxy import DROP_FRAME, GARBAGE, SEND, Proxy
from tests.conformance.topology import unique_name

SAMPLE: Final = 40
DEADLINE_S: Final = 2.0
# More than a life has.
CHANNELS: Final = range(1, 8)

pytestmark = pytest.mark.timeout(600 if ALL else 120)


def on_all_channels(method: Method) -> bytes:
    return b"".join(encode_method(number, method) for number in CHANNELS)


def frame(kind: int, channel: int, payload: bytes, end: bytes = b"\xce") -> bytes:
    return bytes([kind]) + channel.to_bytes(2, "big") + len(payload).to_bytes(4, "big") + payload + end


HUGE: Final = b"\x01\x00\x01\x7f\xff\xff\xff"
LIES: Final[dict[str, bytes]] = {
    "the connection is closed": encode_method(0, ConnectionClose(320, "CONNECTION_FORCED - a lie")),
    "the connection is closed for an error": encode_method(0, ConnectionClose(541, "INTERNAL_ERROR - a lie")),
    "channels are closed": on_all_channels(ChannelClose(404, "NOT_FOUND - a lie", 60, 40)),
    "channels have closed": on_all_channels(ChannelCloseOk()),
    "another answer": on_all_channels(QueueBindOk()),
    "channels are open": on_all_channels(ChannelOpenOk()),
    "the connection is open": encode_method(0, ConnectionOpenOk()),
    "a confirm of nothing": on_all_channels(BasicAck(99, False)),
    "a confirm of too much": on_all_channels(BasicAck(99, True)),
    "a refusal of everything": on_all_channels(BasicNack(0, True)),
    "a return without content": on_all_channels(BasicReturn(312, "NO_ROUTE", "", "key")),
    "a delivery for nobody": on_all_channels(BasicDeliver("nobody", 1, False, "", "key"))
    + b"".join(frame(2, number, b"\x00\x3c\x00\x00" + bytes(8) + b"\x00\x00") for number in CHANNELS),
    "a delivery without content": on_all_channels(BasicDeliver("nobody", 1, False, "", "key")),
    "a consumer is cancelled": on_all_channels(BasicCancel("nobody")),
    "an answer to nothing": on_all_channels(QueueDeclareOk("nothing", 0, 0)),
    "no flow": on_all_channels(ChannelFlow(False)),
    "blocked": encode_method(0, ConnectionBlocked("a lie")),
    "blocked and not": encode_method(0, ConnectionBlocked("a lie")) + encode_method(0, ConnectionUnblocked()),
    "a header of nothing": frame(2, 1, b"\x00\x3c\x00\x00" + bytes(8) + b"\x00\x00"),
    "a body of nothing": frame(3, 1, b"body"),
    "a heartbeat on a channel": frame(8, 1, b""),
    "a frame without its end": frame(1, 1, bytes(8), end=b"\x00"),
    "a method that is none": frame(1, 1, b"\x7f\x7f\x7f\x7f"),
    "an empty frame": frame(1, 1, b""),
    "a frame of any length": HUGE,
    "a channel that was never opened": encode_method(999, ChannelClose(404, "NOT_FOUND - a lie", 60, 40)),
    "octets": b"\xff" * 64,
}
# Where they are told: after an answer to the topology, to a producer, to a consumer.
TOLD: Final = (
    Step("server", "queue.declare-ok", when="after"),
    Step("server", "confirm.select-ok", when="after"),
    Step("server", "basic.ack", when="after"),
    Step("server", "basic.consume-ok", when="after"),
    Step("server", "body", nth=2, when="after"),
)


async def lives(proxy: Proxy, cases: Sequence[Case], may_fail: bool) -> list[str]:
    """One after another. Gives what is wrong with them."""
    wrong: list[str] = []
    for case in cases:
        _, found = await lone_life(proxy, case, may_fail=may_fail, deadline_s=DEADLINE_S)
        wrong += found
    return wrong


@pytest.mark.parametrize("garbage", [GARBAGE, SEND(b"\xff" * 64)], ids=["zeros", "ones"])
def test_garbage_at_every_step(leveret_server: AmqpServer, garbage: Action) -> None:
    """It is no protocol at all: the connection ends, and all goes on over the next one."""

    async def main(proxy: Proxy) -> list[str]:
        steps = await good_steps(proxy)
        async with no_leaks():
            wrong = await lives(
                proxy, sample(every_case(steps, (garbage,), ("before", "after")), SAMPLE), may_fail=False
            )
            # In the middle it may look like a long frame of which most is still to come: deadlines are for that.
            return wrong + await lives(
                proxy, sample(every_case(steps, (garbage,), ("middle",)), SAMPLE // 4), may_fail=True
            )

    with Proxy((leveret_server.host, leveret_server.port)) as proxy:
        wrong = asyncio.run(main(proxy))
    assert not wrong, shortened(wrong)


@pytest.mark.parametrize("lie", LIES)
def test_lies(leveret_server: AmqpServer, lie: str) -> None:
    """What looks like the protocol is believed as far as it goes; but nobody waits for ever, and nothing breaks."""

    async def main(proxy: Proxy) -> list[str]:
        async with no_leaks():
            return await lives(proxy, [Case(step, SEND(LIES[lie])) for step in TOLD], may_fail=True)

    with Proxy((leveret_server.host, leveret_server.port)) as proxy:
        wrong = asyncio.run(main(proxy))
    assert not wrong, shortened(wrong)


def test_a_confirm_that_does_not_come(leveret_server: AmqpServer) -> None:
    """The message it was for is given up at its deadline; those before and after are not touched."""
    queue = unique_name("adversity")
    ledger = Ledger()

    async def main(proxy: Proxy) -> None:
        async with no_leaks(), connect(proxy.url, **QUICK) as connection:
            await connection.topology.declare(Queue(queue))
            producer = connection.producer("", queue)
            await producer.publish(b"before")
            struck = proxy.at(Step("server", "basic.ack"), DROP_FRAME)
            with (
                pytest.raises(DeadlineExceeded, match="was sent, and may have arrived"),
                ledger.bounded("publish", 0.3),
            ):
                await producer.publish(b"unanswered", deadline_s=0.3)
            assert struck.is_set()
            await producer.publish(b"after", deadline_s=5)
            assert connection.reconnects_total == 0
            assert producer.in_flight == 0
            await connection.topology.delete(Queue(queue))

    with Proxy((leveret_server.host, leveret_server.port)) as proxy:
        asyncio.run(main(proxy))
    assert not findings(ledger)


@pytest.mark.parametrize("name", ["queue.declare-ok", "channel.open-ok", "basic.consume-ok", "confirm.select-ok"])
def test_an_answer_that_does_not_come(leveret_server: AmqpServer, name: str) -> None:
    """Whoever asked gets DeadlineExceeded or asks again, and the connection is as good as before."""

    async def main(proxy: Proxy) -> list[str]:
        cases = [Case(Step("server", name, when=when), DROP_FRAME) for when in ("before",)]
        async with no_leaks():
            wrong = await lives(proxy, cases, may_fail=True)
            # The broker is well, and so is the next life.
            return wrong + await lives(proxy, [Case(Step("server", "basic.nack"), DROP_FRAME)], may_fail=False)

    with Proxy((leveret_server.host, leveret_server.port)) as proxy:
        wrong = asyncio.run(main(proxy))
    assert not wrong, shortened(wrong)


def test_an_answer_to_another_question(leveret_server: AmqpServer) -> None:
    """It must not be taken for the answer, nor the next one for the next."""

    async def main(proxy: Proxy) -> None:
        async with connect(proxy.url, **QUICK) as connection:
            channel = await connection.channel()
            forged = SEND(encode_method(channel.number, QueueBindOk()))
            proxy.at(Step("server", "queue.declare-ok", when="before"), forged)
            with pytest.raises(ConnectionLost, match="nobody asked"):
                await channel.call(QueueDeclare(unique_name("adversity"), exclusive=True))
            await connection.ready()
            assert connection.reconnects_total == 1

    with Proxy((leveret_server.host, leveret_server.port)) as proxy:
        asyncio.run(main(proxy))

"""Publishing in the words of the documents: by position, and with confirms as yes or no."""

from __future__ import annotations

import asyncio
import gc
from typing import Any

import pytest

from leveret.client import Connection, Message
from tests.client.faults import DROP_FRAME
from tests.client.producer_scene import run, run_proxied, take_all
from tests.client.proxy import Proxy, Step
from tests.client.topology_scene import Scene


def test_exchange_routing_key_content_properties(scene: Scene) -> None:
    async def script(connection: Connection) -> None:
        async with connection.producer("nowhere", "none") as producer:
            await producer.publish("", "q", b"one")
            await producer.publish("", "q", {"two": 2}, {"priority": 4, "message_id": "m2", "headers": {"a": 1}})
            await producer.publish(exchange="", routing_key="q", content=[], properties={"type": "t"})
            # What is given by name counts first.
            await producer.publish("", "q", "four", {"priority": 4, "headers": {"a": 1}}, headers={"b": 2}, priority=5)
            # And ours, beside it.
            await producer.publish(b"five", exchange="", routing_key="q", properties={"app_id": "till"})
            await producer.publish(b"six", "q", exchange="")
        found = await take_all(connection)
        assert [one.body for one in found] == [b"one", b'{"two":2}', b"[]", b"four", b"five", b"six"]
        assert (found[1].priority, found[1].message_id, found[1].headers) == (4, "m2", {"a": 1})
        assert (found[2].type, found[3].priority, found[3].headers, found[4].app_id) == ("t", 5, {"b": 2}, "till")

    run(scene, script)


@pytest.mark.parametrize(
    ("given", "named", "text"),
    [
        ((b"shop", "q", b"body"), {}, "the exchange is b'shop', not a text"),
        ((b"body",), {"content": b"other", "exchange": ""}, "a body or a content, not both"),
        (("", "q", b"body", {"colour": "red"}), {}, "colour"),
        ((Message(b"body"), "q"), {}, "a Message has everything in it"),
    ],
    ids=["no exchange", "two bodies", "no property", "a message"],
)
def test_what_makes_no_sense(leveret_scene: Scene, given: tuple[Any, ...], named: dict[str, Any], text: str) -> None:
    async def script(connection: Connection) -> None:
        producer = connection.producer()
        with pytest.raises(TypeError, match=text):
            await producer.publish(*given, **named)
        assert producer.published == 0

    run(leveret_scene, script)


def test_confirms_as_yes_or_no(scene: Scene) -> None:
    async def script(connection: Connection) -> None:
        complaints: list[str] = []
        asyncio.get_running_loop().set_exception_handler(lambda _, context: complaints.append(context["message"]))
        producer = connection.producer(routing_key="q")
        assert await producer.wait_for_confirms(10) is True
        for number in range(100):
            await producer.submit(b"%d" % number)
        assert await producer.wait_for_confirms(10) is True and producer.confirmed == 100
        await producer.submit(b"lost", routing_key="none")
        await producer.submit(b"good")
        assert await producer.wait_for_confirms() is False
        assert await producer.wait_for_confirms() is True
        gc.collect()
        assert complaints == []
        with pytest.raises(TypeError, match="without confirms"):
            await connection.producer(confirms=False).wait_for_confirms()

    run(scene, script)


def test_no_answer_in_time_is_a_no(leveret_scene: Scene) -> None:
    async def script(connection: Connection, proxy: Proxy) -> None:
        producer = connection.producer(routing_key="q")
        await producer.publish(b"one")
        proxy.at(Step("server", "basic.ack"), DROP_FRAME)
        answer = await producer.submit(b"two")
        assert await producer.wait_for_confirms(0.05) is False
        answer.cancel()

    run_proxied(leveret_scene, script)

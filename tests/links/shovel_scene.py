"""A broker with shovels for tests: queues filled and looked at over AMQP, shovels set over HTTP."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import Any

from leveret.client import Message, connect
from leveret.testing import Broker
from tests.http_client import Api, name

DEADLINE_S = 60.0


def until(found: Callable[[], Any], what: str = "") -> Any:
    """The first true answer."""
    end = time.monotonic() + DEADLINE_S
    while not (answer := found()):
        assert time.monotonic() < end, f"waited in vain for {what or found}"
        time.sleep(0.02)
    return answer


class Scene:
    def __init__(self, broker: Broker) -> None:
        self.broker = broker
        self.api = Api(broker)

    def queue(self, queue: str, **arguments: Any) -> str:
        given = {key.replace("_", "-"): value for key, value in arguments.items()}
        assert self.api.put(f"/queues/%2F/{name(queue)}", {"durable": True, "arguments": given}).status in (201, 204)
        return queue

    def shovel(self, shovel: str, **value: Any) -> None:
        given = {"src-uri": "amqp://", "dest-uri": "amqp://", "reconnect-delay": 1}
        given.update({key.replace("_", "-"): inner for key, inner in value.items()})
        reply = self.api.put(f"/parameters/shovel/%2F/{name(shovel)}", {"value": given})
        assert reply.status in (201, 204), reply

    def status(self, shovel: str) -> dict[str, Any]:
        reply = self.api.get(f"/shovels/vhost/%2F/{name(shovel)}")
        return reply.body if reply.status == 200 else {}

    def until_state(self, shovel: str, state: str) -> dict[str, Any]:
        def found() -> dict[str, Any] | None:
            status = self.status(shovel)
            return status if status.get("state") == state else None

        status: dict[str, Any] = until(found, f"{shovel} to be {state}: {self.status(shovel)}")
        return status

    def delete(self, shovel: str) -> None:
        assert self.api.delete(f"/shovels/vhost/%2F/{name(shovel)}").status == 204
        until(lambda: not self.status(shovel), f"{shovel} to be gone")

    def publish(self, queue: str, bodies: list[bytes], **properties: Any) -> None:
        publish(self.broker.url, queue, bodies, **properties)

    def count(self, queue: str) -> int:
        return int(self.api.get(f"/queues/%2F/{name(queue)}").body["messages_ready"])

    def until_count(self, queue: str, count: int) -> None:
        until(lambda: self.count(queue) == count, f"{queue} to have {count} messages; it has {self.count(queue)}")

    def until_settled(self, queue: str) -> None:
        """Nothing waits there, and nothing that was delivered can come again."""
        until(
            lambda: self.api.get(f"/queues/%2F/{name(queue)}").body["messages"] == 0,
            f"{queue} to have nothing; it has {self.api.get(f'/queues/%2F/{name(queue)}').body}",
        )

    def take(self, queue: str, count: int) -> list[dict[str, Any]]:
        body = {"count": count, "ackmode": "ack_requeue_false", "encoding": "auto"}
        found: list[dict[str, Any]] = self.api.post(f"/queues/%2F/{name(queue)}/get", body).body
        return found


def publish(url: str, queue: str, bodies: list[bytes], **properties: Any) -> None:
    async def run() -> None:
        async with connect(url) as connection, connection.producer(routing_key=queue) as producer:
            await producer.publish_batch([Message(body, **properties) for body in bodies])

    asyncio.run(run())


def drain(url: str, queue: str, idle_s: float = 1.0) -> list[bytes]:
    """Everything that is in a queue, in its order."""

    async def run() -> list[bytes]:
        found: list[bytes] = []
        async with connect(url) as connection:
            while (delivery := await connection.get(queue)) is not None:
                found.append(delivery.body)
                delivery.ack()
        return found

    return asyncio.run(run())

"""A connection in numbers, for those who ask and for Prometheus."""

from __future__ import annotations

import logging
from typing import Any

import msgspec
import pytest
from prometheus_client import CollectorRegistry, generate_latest

from leveret.client import Connection, PrometheusCollector, connect
from leveret.client.logs import JsonFormatter, fields_of
from tests.client.amqp_server import AmqpServer
from tests.client.lasting import cut_and_restored, new_queue, new_stream, publish, run_on
from tests.client.waiting import until


async def echo(request: Any) -> bytes:
    body: bytes = request.body
    return body


def test_a_snapshot(amqp_server: AmqpServer) -> None:
    async def script(connection: Connection) -> None:
        queue, name = await new_queue(connection), await new_stream(connection)
        await publish(connection, "", [(name, b"a"), (name, b"b")])
        async with (
            connection.serve(queue, echo) as server,
            connection.rpc() as rpc,
            connection.stream(name, offset="first") as stream,
        ):
            await rpc.call(b"", routing_key=queue)
            await until(lambda: server.counters.replies_total == 1, "the reply's confirm")
            await anext(stream)
            metrics = connection.metrics()
            assert (metrics.name, metrics.state, metrics.blocked) == ("shop", "open", None)
            assert metrics.reconnects_total == 0
            # Of the server, the rpc and the stream.
            assert metrics.channels == 3
            assert {part.kind: part.label for part in metrics.parts} == {
                "rpc": "rpc",
                "rpc_server": queue,
                "stream": name,
            }
            assert metrics.total("rpc", "replies_total") == metrics.total("rpc_server", "replies_total") == 1
            assert metrics.total("stream", "messages_total") == 1
            assert metrics.total("stream", "nothing") == metrics.total("no kind", "messages_total") == 0
            await cut_and_restored(connection)
            assert connection.metrics().reconnects_total == 1
            # It can be sent anywhere.
            assert msgspec.json.decode(msgspec.json.encode(metrics))["parts"]
        assert connection.metrics().parts == []

    run_on(amqp_server, script, name="shop")


def test_of_producers_and_consumers(amqp_server: AmqpServer) -> None:
    async def script(connection: Connection) -> None:
        queue = await new_queue(connection)
        async with connection.producer(routing_key=queue) as producer, connection.consumer(queue) as consumer:
            await producer.publish_batch([b"a", b"b", b"c"])
            (await consumer.next()).ack()
            await consumer.next()
            metrics = connection.metrics()
            assert {part.kind: part.label for part in metrics.parts} == {
                "pool": "pool",
                "producer": "amq.default",
                "consumer": queue,
            }
            assert metrics.total("producer", "confirmed_total") == metrics.total("producer", "published_total") == 3
            assert metrics.total("producer", "in_flight") == 0
            assert metrics.total("consumer", "delivered_total") == 2
            assert metrics.total("consumer", "acked_total") == metrics.total("consumer", "in_hand") == 1
            assert metrics.total("pool", "borrowed") == 1
            registry = CollectorRegistry()
            registry.register(PrometheusCollector(connection))
            text = generate_latest(registry).decode()
            assert f'leveret_client_consumer_acked_total{{connection="shop",name="{queue}"}} 1.0' in text

    run_on(amqp_server, script, name="shop")


def test_for_prometheus(amqp_server: AmqpServer) -> None:
    async def script(connection: Connection) -> None:
        queue = await new_queue(connection)
        async with connect(amqp_server.url) as other, connection.rpc() as rpc, connection.rpc() as second:
            async with connection.serve(queue, echo):
                await rpc.call(b"", routing_key=queue)
                await second.call(b"", routing_key=queue)
            registry = CollectorRegistry()
            registry.register(PrometheusCollector(connection, other))
            text = generate_latest(registry).decode()
            assert 'leveret_client_connection_open{connection="shop"} 1.0' in text
            assert f'leveret_client_connection_open{{connection="{other.address}"}} 1.0' in text
            assert 'leveret_client_connection_reconnects_total{connection="shop"} 0.0' in text
            # Two of one name are one series.
            assert 'leveret_client_rpc_calls_total{connection="shop",name="rpc"} 2.0' in text
            assert "# TYPE leveret_client_rpc_calls_total counter" in text
            assert "# TYPE leveret_client_rpc_outstanding gauge" in text
        assert 'leveret_client_connection_open{connection="shop"} 1.0' in generate_latest(registry).decode()
        assert (
            f'leveret_client_connection_open{{connection="{other.address}"}} 0.0' in generate_latest(registry).decode()
        )

    run_on(amqp_server, script, name="shop")


def test_logs_have_fields(amqp_server: AmqpServer, caplog: pytest.LogCaptureFixture) -> None:
    async def script(connection: Connection) -> None:
        await cut_and_restored(connection)

    with caplog.at_level(logging.INFO, "leveret.client"):
        run_on(amqp_server, script)
    lost = next(record for record in caplog.records if record.getMessage().startswith("the connection is lost: "))
    assert fields_of(lost).keys() == {"address", "reason"}
    line = msgspec.json.decode(JsonFormatter().format(lost))
    assert (line["level"], line["logger"]) == ("warning", "leveret.client.connection")
    assert line["event"] == f"the connection is lost: {line['reason']}"
    assert line["address"] == amqp_server.url.split("@")[1].rstrip("/")


def test_a_line_of_json_takes_anything() -> None:
    try:
        raise LookupError("no")
    except LookupError as error:
        problem = (type(error), error, error.__traceback__)
    record = logging.LogRecord("leveret.client.x", logging.ERROR, __file__, 1, "%s failed", ("it",), problem)
    record.odd = object
    line = msgspec.json.decode(JsonFormatter().format(record))
    assert line["event"] == "it failed"
    assert line["odd"] == repr(object)
    assert "LookupError: no" in line["exception"]

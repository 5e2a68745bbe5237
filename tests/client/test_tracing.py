"""Spans of publishes and deliveries, seen by OpenTelemetry's own SDK."""

from __future__ import annotations

import asyncio
import sys
from functools import partial
from typing import Any

import pytest
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import SpanKind, StatusCode, get_current_span

from leveret.client import ClientError, Connection, Message, RemoteError, Tracing, Unroutable
from leveret.client.tracing import make_tracing
from tests.client.amqp_server import AmqpServer
from tests.client.lasting import new_name, new_queue, publish, run_on
from tests.client.waiting import until


@pytest.fixture
def exporter() -> InMemorySpanExporter:
    return InMemorySpanExporter()


@pytest.fixture
def provider(exporter: InMemorySpanExporter) -> TracerProvider:
    made = TracerProvider()
    made.add_span_processor(SimpleSpanProcessor(exporter))
    return made


@pytest.fixture
def tracing(provider: TracerProvider) -> Tracing:
    return Tracing(provider)


def spans_of(exporter: InMemorySpanExporter) -> dict[str, Any]:
    return {span.name.split()[0]: span for span in exporter.get_finished_spans()}


def test_a_call_is_one_trace(
    amqp_server: AmqpServer, provider: TracerProvider, tracing: Tracing, exporter: InMemorySpanExporter
) -> None:
    async def handler(request: Any) -> bytes:
        # It is the current one where the handler works.
        assert get_current_span().get_span_context().is_valid
        assert "traceparent" in request.headers
        return b"done"

    async def script(connection: Connection) -> None:
        queue = await new_queue(connection)
        async with connection.serve(queue, handler), connection.rpc() as rpc:
            with provider.get_tracer("test").start_as_current_span("outer") as outer:
                await rpc.call(b"work", routing_key=queue, headers={"mine": 1})
        await until(lambda: len(exporter.get_finished_spans()) == 3, "the spans")
        spans = spans_of(exporter)
        call, process = spans["call"], spans["process"]
        assert call.parent.span_id == outer.get_span_context().span_id
        assert process.parent.span_id == call.context.span_id
        assert process.context.trace_id == outer.get_span_context().trace_id
        assert (call.kind, process.kind) == (SpanKind.CLIENT, SpanKind.SERVER)
        assert call.attributes["messaging.system"] == "rabbitmq"
        assert call.attributes["messaging.destination.name"] == queue
        assert call.attributes["messaging.operation.type"] == "send"
        assert call.attributes["server.port"] == amqp_server.port
        assert process.name == f"process {queue}"
        assert process.attributes["messaging.message.body.size"] == 4
        assert call.status.status_code == process.status.status_code == StatusCode.UNSET

    run_on(amqp_server, script, tracing=tracing)


def test_errors_are_in_the_spans(amqp_server: AmqpServer, tracing: Tracing, exporter: InMemorySpanExporter) -> None:
    async def handler(_: Any) -> None:
        raise LookupError("no such thing")

    async def script(connection: Connection) -> None:
        queue = await new_queue(connection)
        async with connection.serve(queue, handler), connection.rpc() as rpc:
            with pytest.raises(RemoteError):
                await rpc.call(b"", routing_key=queue)
            spans = spans_of(exporter)
            assert spans["process"].attributes["error.type"] == "LookupError"
            assert spans["process"].status.status_code == StatusCode.ERROR
            assert spans["process"].events[0].name == "exception"
            assert spans["call"].attributes["error.type"] == "RemoteError"
            exporter.clear()
            with pytest.raises(Unroutable):
                await rpc.call(b"", routing_key=new_name("nowhere"))
            assert spans_of(exporter)["call"].attributes["error.type"] == "Unroutable"

    run_on(amqp_server, script, tracing=tracing)


def test_headers_of_strangers_do_no_harm(
    amqp_server: AmqpServer, tracing: Tracing, exporter: InMemorySpanExporter
) -> None:
    async def script(connection: Connection) -> None:
        queue = await new_queue(connection)
        odd: list[Any] = [b"\xff", 7, {"a": 1}, "rubbish", ["00-" + "a" * 32]]
        for value in odd:
            await publish(connection, "", [(queue, b"x")], headers={"traceparent": value}, correlation_id="c")
        channel = await connection.channel()
        for _ in odd:
            delivery = await channel.get(queue, no_ack=True)
            with tracing.span_for_delivery(delivery, queue) as span:
                assert span.parent is None
        span = exporter.get_finished_spans()[0]
        assert (span.kind, span.attributes["messaging.message.conversation_id"]) == (SpanKind.CONSUMER, "c")

    run_on(amqp_server, script)


def test_spans_and_headers_by_hand(provider: TracerProvider, tracing: Tracing, exporter: InMemorySpanExporter) -> None:
    assert tracing.inject(None) == {}
    with provider.get_tracer("test").start_as_current_span("outer"):
        given = {"mine": 1}
        assert tracing.inject(given).keys() == {"mine", "traceparent"}
        assert given == {"mine": 1}
    exporter.clear()
    span = tracing.start_publish("shop", "new", {"mine": 1}, message_id="m")
    assert span.headers.keys() == {"mine", "traceparent"}
    assert not exporter.get_finished_spans()
    span.end()
    with tracing.span_for_publish("", "") as headers:
        assert "traceparent" in headers
    first, second = exporter.get_finished_spans()
    assert (first.name, first.kind) == ("publish shop:new", SpanKind.PRODUCER)
    assert first.attributes["messaging.rabbitmq.destination.routing_key"] == "new"
    assert first.attributes["messaging.message.id"] == "m"
    assert second.name == "publish amq.default"


def test_what_the_option_means(tracing: Tracing, monkeypatch: pytest.MonkeyPatch) -> None:
    assert make_tracing(None) is None
    assert make_tracing(False) is None
    assert make_tracing(tracing) is tracing
    assert isinstance(make_tracing(True), Tracing)
    monkeypatch.setitem(sys.modules, "opentelemetry.trace", None)
    with pytest.raises(ClientError, match="leveret\\[otel\\]"):
        make_tracing(True)


# ---- producers and consumers


def test_from_publish_to_handler(amqp_server: AmqpServer, tracing: Tracing, exporter: InMemorySpanExporter) -> None:
    seen: list[Any] = []

    async def script(connection: Connection) -> None:
        queue = await new_queue(connection)
        async with connection.producer(routing_key=queue) as producer, connection.consumer(queue) as consumer:

            async def handler(delivery: Any) -> None:
                seen.append((delivery.body, delivery.headers, get_current_span().get_span_context().span_id))
                if len(seen) == 3:
                    consumer.stop_soon()

            await producer.publish(b"one", message_id="m1", headers={"mine": 1})
            await producer.publish(Message(b"two", headers={"mine": 2}, message_id="m2"))
            confirmation = await producer.submit(b"three")
            await confirmation
            await consumer.run(handler, concurrency=1)
        spans = exporter.get_finished_spans()
        published = [span for span in spans if span.kind is SpanKind.PRODUCER]
        processed = [span for span in spans if span.kind is SpanKind.CONSUMER]
        assert [span.name for span in published] == [f"publish {queue}"] * 3
        assert [span.attributes.get("messaging.message.id") for span in published] == ["m1", "m2", None]
        assert [span.parent.span_id for span in processed] == [span.context.span_id for span in published]
        assert [span.context.span_id for span in processed] == [span_id for _, _, span_id in seen]
        assert [(body, headers.get("mine")) for body, headers, _ in seen] == [
            (b"one", 1),
            (b"two", 2),
            (b"three", None),
        ]

    run_on(amqp_server, script, tracing=tracing)


def test_a_batch_is_one_span_on_each_side(
    amqp_server: AmqpServer, tracing: Tracing, exporter: InMemorySpanExporter
) -> None:
    async def script(connection: Connection) -> None:
        queue = await new_queue(connection)
        async with connection.producer(routing_key=queue) as producer, connection.consumer(queue) as consumer:
            bodies: list[Any] = []

            async def handler(batch: Any) -> None:
                bodies.extend((delivery.body, delivery.headers.get("mine")) for delivery in batch)
                consumer.stop_soon()

            await producer.publish_batch([b"a", "b", Message(b"c", headers={"mine": 3})])
            await consumer.run_batches(handler, size=3, wait_s=5)
            assert bodies == [(b"a", None), (b"b", None), (b"c", 3)]
        publish_span, process_span = exporter.get_finished_spans()
        assert process_span.attributes["messaging.batch.message_count"] == 3
        assert process_span.parent is None
        assert {link.context.span_id for link in process_span.links} == {publish_span.context.span_id}

    run_on(amqp_server, script, tracing=tracing)


def test_a_publish_that_fails_and_a_handler_in_a_thread(
    amqp_server: AmqpServer, tracing: Tracing, exporter: InMemorySpanExporter
) -> None:
    current: list[bool] = []

    async def script(connection: Connection) -> None:
        queue = await new_queue(connection)
        async with connection.producer() as producer, connection.consumer(queue, on_error="reject") as consumer:
            with pytest.raises(Unroutable):
                await producer.publish(b"", routing_key=new_name("nowhere"))
            with pytest.raises(TypeError, match="headers"):
                await producer.submit(b"", routing_key=queue, headers=7)  # type: ignore[arg-type]
            with pytest.raises(TypeError, match="no property"):
                await producer.submit(b"", routing_key=queue, colour="red")  # type: ignore[call-arg]
            failing = await producer.submit(b"", routing_key=new_name("nowhere"))
            with pytest.raises(Unroutable):
                await failing
            errors = [span.attributes["error.type"] for span in exporter.get_finished_spans()]
            assert errors == ["Unroutable", "TypeError", "Unroutable"]

            def handler(_: Any) -> None:
                current.append(get_current_span().get_span_context().is_valid)
                consumer_stop()
                raise LookupError

            loop = asyncio.get_running_loop()
            consumer_stop = partial(loop.call_soon_threadsafe, consumer.stop_soon)
            await producer.publish(b"", routing_key=queue)
            await consumer.run(handler, concurrency=1)
            assert current == [True]
            assert exporter.get_finished_spans()[-1].attributes["error.type"] == "LookupError"

    run_on(amqp_server, script, tracing=tracing)

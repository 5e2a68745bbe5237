"""Spans of publishes and deliveries, seen by OpenTelemetry's own SDK."""

from __future__ import annotations

import sys
from typing import Any

import pytest
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import SpanKind, StatusCode, get_current_span

from leveret.client import ClientError, Connection, RemoteError, Tracing, Unroutable
from leveret.client.tracing import make_tracing
from tests.client.amqp_server import AmqpServer
from tests.client.lasting import new_name, new_queue, publish, run_on, until


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

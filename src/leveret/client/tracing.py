"""Traces of messages with OpenTelemetry, if the application wants them: connect(url, tracing=True).

A publish is a span, and its context travels in the message's headers (W3C's `traceparent`); what is done with the
delivery is another span, with the publish as its parent. Needs opentelemetry-api (leveret[otel]), which is imported
when somebody asks for traces and never before. Producers, consumers and RPC hold a Tracing, or None, and look at that
once for each message."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from importlib import import_module
from types import TracebackType
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

from leveret.client.batches import Batch, plain
from leveret.client.errors import ClientError
from leveret.client.message import Message, check_headers

if TYPE_CHECKING:
    from leveret.client.url import Address

__all__ = ["Place", "PublishSpan", "Tracing", "make_tracing", "start_span", "with_headers"]

# What OpenTelemetry's conventions call every broker that speaks AMQP 0-9-1.
SYSTEM = "rabbitmq"


def make_tracing(option: bool | Tracing | None) -> Tracing | None:
    """What the option `tracing` of a connection comes to."""
    if isinstance(option, Tracing):
        return option
    return Tracing() if option else None


class PublishSpan:
    """A publish that is under way. `headers` are to be sent; `end` it once, with the error if there was one, or let it
    be ended by `with`."""

    __slots__ = ("_span", "headers")

    def __init__(self, span: Any, headers: dict[str, Any]) -> None:
        self._span = span
        self.headers = headers

    def end(self, error: BaseException | None = None) -> None:
        if error is not None:
            _fail(self._span, error)
        self._span.end()

    def end_with(self, future: asyncio.Future[Any]) -> None:
        self.end(asyncio.CancelledError() if future.cancelled() else future.exception())

    @contextmanager
    def unless_done(self) -> Iterator[None]:
        """Ends it if there is an error, and else leaves that to somebody else."""
        try:
            yield
        except BaseException as error:
            self.end(error)
            raise

    def __enter__(self) -> PublishSpan:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.end(error)


class Tracing:
    """`tracer_provider` and `propagator` are OpenTelemetry's; by default those that the application has set."""

    def __init__(self, tracer_provider: Any = None, propagator: Any = None) -> None:
        try:
            self._trace: Any = import_module("opentelemetry.trace")
            propagate: Any = import_module("opentelemetry.propagate")
        except ImportError:
            raise ClientError("tracing needs opentelemetry-api: pip install leveret[otel]") from None
        self._propagator = propagator or propagate.get_global_textmap()
        self._tracer = self._trace.get_tracer("leveret.client", tracer_provider=tracer_provider)

    def inject(self, headers: Mapping[str, Any] | None) -> dict[str, Any]:
        """The headers with the current context in them."""
        made = dict(headers or {})
        self._propagator.inject(made)
        return made

    def start_publish(
        self,
        exchange: str,
        routing_key: str,
        headers: Mapping[str, Any] | None = None,
        *,
        message_id: str | None = None,
        address: Address | None = None,
        is_call: bool = False,
    ) -> PublishSpan:
        """For a publish that ends somewhere else. `is_call`: its answer is waited for."""
        kinds = self._trace.SpanKind
        destination = _joined(exchange, routing_key)
        attributes = _attributes("call" if is_call else "publish", "send", destination, routing_key, address)
        if message_id:
            attributes["messaging.message.id"] = message_id
        span = self._tracer.start_span(
            f"{attributes['messaging.operation.name']} {destination}",
            kind=kinds.CLIENT if is_call else kinds.PRODUCER,
            attributes=attributes,
        )
        made = dict(headers or {})
        self._propagator.inject(made, context=self._trace.set_span_in_context(span))
        return PublishSpan(span, made)

    @contextmanager
    def span_for_publish(
        self, exchange: str, routing_key: str, headers: Mapping[str, Any] | None = None, **options: Any
    ) -> Iterator[dict[str, Any]]:
        """Around a publish until it is confirmed; gives the headers that it is to be sent with."""
        with self.start_publish(exchange, routing_key, headers, **options) as span:
            yield span.headers

    @contextmanager
    def span_for_delivery(
        self, delivery: Any, queue: str, *, address: Address | None = None, is_call: bool = False
    ) -> Iterator[Any]:
        """Around what is done with a delivery, as the current span; its parent is the publish. Gives the span."""
        kinds = self._trace.SpanKind
        destination = _joined(delivery.exchange, delivery.routing_key, queue)
        attributes = _attributes("process", "process", destination, delivery.routing_key, address)
        attributes["messaging.rabbitmq.message.delivery_tag"] = delivery.delivery_tag
        attributes["messaging.message.body.size"] = len(delivery.body)
        if delivery.message_id:
            attributes["messaging.message.id"] = delivery.message_id
        if delivery.correlation_id:
            attributes["messaging.message.conversation_id"] = delivery.correlation_id
        with self._current(
            f"process {queue}",
            context=self._propagator.extract(_carrier(delivery)),
            kind=kinds.SERVER if is_call else kinds.CONSUMER,
            attributes=attributes,
        ) as span:
            yield span

    @contextmanager
    def span_for_batch(self, deliveries: Iterable[Any], queue: str, *, address: Address | None = None) -> Iterator[Any]:
        """Around what is done with several deliveries together: their publishes are its links, not its parent."""
        contexts = [self._propagator.extract(_carrier(delivery)) for delivery in deliveries]
        attributes = _attributes("process", "process", queue, "", address)
        attributes["messaging.batch.message_count"] = len(contexts)
        spans = [self._trace.get_current_span(context).get_span_context() for context in contexts]
        with self._current(
            f"process {queue}",
            kind=self._trace.SpanKind.CONSUMER,
            attributes=attributes,
            links=[self._trace.Link(span) for span in spans if span.is_valid],
        ) as span:
            yield span

    def span_for_work(self, message: Any, queue: str, address: Address | None) -> AbstractContextManager[Any]:
        """For whatever a handler gets: a delivery, a typed one, or a batch."""
        if isinstance(message, Batch):
            return self.span_for_batch(map(plain, message), queue, address=address)
        return self.span_for_delivery(plain(message), queue, address=address)

    @contextmanager
    def _current(self, name: str, **options: Any) -> Iterator[Any]:
        with self._tracer.start_as_current_span(
            name, **options, record_exception=False, set_status_on_exception=False
        ) as span:
            try:
                yield span
            except BaseException as error:
                _fail(span, error)
                raise


class Place(NamedTuple):
    """Where a producer publishes what names nothing else."""

    exchange: str
    routing_key: str
    address: Address


def start_span(
    tracing: Tracing,
    place: Place,
    body: Any = b"",
    exchange: str | None = None,
    routing_key: str | None = None,
    headers: Mapping[str, Any] | None = None,
    message_id: str | None = None,
) -> tuple[PublishSpan, Any, Mapping[str, Any] | None]:
    """The span of one publish, and the body and headers that are to be published instead, with its context in them."""
    given = body if isinstance(body, Message) else Message(b"", exchange, routing_key, None, headers, message_id)
    check_headers(given.headers)
    span = tracing.start_publish(
        place.exchange if given.exchange is None else given.exchange,
        place.routing_key if given.routing_key is None else given.routing_key,
        given.headers,
        message_id=given.message_id,
        address=place.address,
    )
    if given is body:
        return span, msgspec.structs.replace(given, headers=span.headers), headers
    return span, body, span.headers


def with_headers(messages: Iterable[Any], headers: Mapping[str, Any] | None) -> Iterator[Message]:
    """Messages of a batch, each with these headers beside its own."""
    for item in messages:
        if isinstance(item, Message):
            yield msgspec.structs.replace(item, headers={**(item.headers or {}), **(headers or {})})
        else:
            yield Message(item, headers=headers)


def _carrier(delivery: Any) -> dict[str, str]:
    """Headers that may have a context in them: others may have put anything there."""
    return {name: value for name, value in (delivery.headers or {}).items() if isinstance(value, str)}


def _joined(*parts: str) -> str:
    """exchange:routing_key:queue, as the conventions write a destination; what is empty or said already is left out."""
    return ":".join(dict.fromkeys(part for part in parts if part)) or "amq.default"


def _attributes(name: str, type: str, destination: str, routing_key: str, address: Address | None) -> dict[str, Any]:
    made: dict[str, Any] = {
        "messaging.system": SYSTEM,
        "messaging.operation.name": name,
        "messaging.operation.type": type,
        "messaging.destination.name": destination,
    }
    if routing_key:
        made["messaging.rabbitmq.destination.routing_key"] = routing_key
    if address is not None:
        made["server.address"] = address.host
        made["server.port"] = address.port
    return made


def _fail(span: Any, error: BaseException) -> None:
    status: Any = import_module("opentelemetry.trace.status")
    span.set_attribute("error.type", type(error).__qualname__)
    if isinstance(error, Exception):
        span.record_exception(error)
    span.set_status(status.Status(status.StatusCode.ERROR, str(error)))

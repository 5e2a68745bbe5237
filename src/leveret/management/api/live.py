"""What happens now, as server-sent events: the broker's own events, and taps of what is published."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from typing import Any

from leveret.auth.access import READ, Access, Right, has, sees_vhost
from leveret.broker.events import LISTENERS_MAX, Event
from leveret.catalog.records import ExchangeRecord
from leveret.core.codec.message import HIDDEN_HEADERS
from leveret.core.codec.names import name_text
from leveret.errors import AmqpError
from leveret.management.api.fetch import refusal
from leveret.management.api.message_json import AUTO, BASE64, described, encoding_of
from leveret.management.http.errors import HttpError, bad_request, not_found
from leveret.management.http.json import encode
from leveret.management.http.request import DEFAULT_EXCHANGE, Answer, Request
from leveret.management.http.route import Parameter, route
from leveret.operations.taps import LIFE_S_MAX, RATE_MAX, TRUNCATE_MAX, Tally, Tapped, TapSpec

EVENT_STREAM = "text/event-stream"
# Proxies are to pass on each part of the answer at once.
UNBUFFERED = {"X-Accel-Buffering": "no"}
# A comment line now and then, so that no proxy closes the connection as idle.
HEARTBEAT = b": still here\n\n"
HEARTBEAT_S = 15.0
# The client comes back after so long, and says which event it had last.
RETRY = b"retry: 2000\n\n"
NUMBER_MAX = 2**53


def _sse(kind: str, what: Any, id: int | None = None) -> bytes:
    head = b"" if id is None else b"id: %d\n" % id
    return head + b"event: " + kind.encode() + b"\ndata: " + encode(what) + b"\n\n"


def _refuse_head(request: Request) -> None:
    """There is nothing but what comes."""
    if request.method == "HEAD":
        raise HttpError(405, "method_not_allowed", "HEAD is not for this path", {"Allow": "GET"})


# ---- events


@route(
    "GET",
    "/api/events",
    Right.MANAGEMENT,
    "What comes and goes, connections and alarms, as server-sent events",
    query=(
        Parameter("vhost", "Only what happens in this virtual host."),
        Parameter("after", "From behind the event with this id on, as Last-Event-ID says it."),
        Parameter("once", "Only what is there already, then the end.", {"type": "boolean"}),
    ),
    private=True,
)
def events(request: Request) -> Answer:
    _refuse_head(request)
    broker_events = request.services.broker.events
    if broker_events.listener_count >= LISTENERS_MAX:
        raise HttpError(429, "too_many_listeners", f"there are {LISTENERS_MAX} listeners already")
    given = request.query.get("after", request.headers.get("last-event-id", ""))
    if given and not (given.isascii() and given.isdigit() and len(given) < 17):
        raise bad_request("after must be the id of an event")
    after = int(given) if given else None
    once = request.flag("once")
    vhost = request.query.get("vhost")
    return Answer(
        body=_events(request, -1 if once and after is None else after, vhost, once),
        headers=UNBUFFERED,
        content_type=EVENT_STREAM,
    )


async def _events(request: Request, after: int | None, vhost: str | None, once: bool) -> AsyncIterator[bytes]:
    yield RETRY
    listening = request.services.broker.events.listen(after, 0.01 if once else HEARTBEAT_S)
    try:
        async for event in listening:
            if not request.is_welcome():
                return
            if isinstance(event, Event):
                if _sees(request, event) and vhost in (None, event.vhost):
                    yield _sse(event.kind, {"at": event.at_ms, **event.what}, event.id)
            elif once and event is None:
                return
            elif event is None:
                yield HEARTBEAT
            elif after != -1:
                yield _sse("missed", {"count": event})
    finally:
        await listening.aclose()


def _sees(request: Request, event: Event) -> bool:
    """As the lists of these things would show them."""
    if has(request.who, Right.MONITORING):
        return True
    if event.user is not None:
        return event.user == request.who.name
    if event.vhost is None:
        return event.kind.startswith("alarm.")
    return sees_vhost(request.who, event.vhost) and not event.kind.startswith("permission.")


# ---- taps


@route(
    "GET",
    "/api/tap",
    Right.MANAGEMENT,
    "What is published to an exchange, or arrives in a queue, as server-sent events",
    query=(
        Parameter("vhost", "The virtual host; / if none is named."),
        Parameter("exchange", "What is published to this exchange."),
        Parameter("queue", "What arrives in this queue."),
        Parameter("key", "Only messages with this routing key, or pattern such as orders.*."),
        Parameter("rate", "Messages a second at most.", {"type": "number"}),
        Parameter("count", "The end after so many.", {"type": "integer", "minimum": 1}),
        Parameter("life_s", "The end after so many seconds.", {"type": "number"}),
        Parameter("encoding", "How payloads are shown.", {"type": "string", "enum": [AUTO, BASE64]}),
        Parameter("truncate", "Bytes of each payload at most.", {"type": "integer", "maximum": TRUNCATE_MAX}),
    ),
    private=True,
)
async def tap(request: Request) -> Answer:
    """Takes READ on the queue, or on the exchange, as binding a queue to it would; and of an exchange only those
    messages are shown that the caller could have had routed to a queue of their own, or read where they went."""
    _refuse_head(request)
    vhost = request.services.broker.vhosts.get(request.query.get("vhost", "/"))
    if vhost is None:
        raise not_found()
    who = request.requester(vhost)
    taps = request.services.taps
    queue, exchange = request.query.get("queue"), request.query.get("exchange")
    if (queue is None) == (exchange is None):
        raise bad_request("name a queue or an exchange")
    defaults = TapSpec()
    spec = TapSpec(
        key=request.query.get("key"),
        rate=_decimal(request, "rate", defaults.rate, 0.1, RATE_MAX),
        count=request.number("count", 0, 1, NUMBER_MAX),
        truncate=request.number("truncate", defaults.truncate, 0, TRUNCATE_MAX),
        life_s=_decimal(request, "life_s", defaults.life_s, 1, LIFE_S_MAX),
    )
    encoding = encoding_of(request.query.get("encoding", AUTO))
    try:
        if queue is not None:
            place = taps.of_queue(who, queue)
            name = queue
        else:
            name = "" if exchange in (None, DEFAULT_EXCHANGE) else exchange
            place = taps.of_exchange(who, name)
            name = name or DEFAULT_EXCHANGE
        watching = taps.watch(
            place, spec, lambda: request.is_welcome() and Access(request.who, vhost.name).allows_queue(READ, name)
        )
        # Opened before the answer begins, so that the caller sees every message from then on.
        opened = await anext(watching)
    except AmqpError as error:
        raise refusal(error) from None
    assert opened is None
    record = None if queue is not None else place.record
    shown = _tapped(watching, encoding, _filter(request, vhost.name, record))
    return Answer(body=shown, headers=UNBUFFERED, content_type=EVENT_STREAM)


def _filter(request: Request, vhost: str, exchange: ExchangeRecord | None) -> Callable[[Tapped], bool]:
    """Which messages of an exchange the caller may see; None for a queue, all of which they may read."""

    def may_see(tapped: Tapped) -> bool:
        if exchange is None:
            return True
        access = Access(request.who, vhost)
        key = name_text(tapped.routing_key)
        if exchange.name == "":
            return access.allows_queue(READ, key)
        return not access.has_topics(exchange) or request.who.allows_topic(READ, vhost, exchange.name, key)

    return may_see


async def _tapped(watching: Any, encoding: str, may_see: Callable[[Tapped], bool]) -> AsyncIterator[bytes]:
    try:
        yield RETRY
        async for event in watching:
            if isinstance(event, Tapped):
                if not may_see(event):
                    continue
                shown = described(
                    event.exchange, event.routing_key, event.properties, event.body, event.body_size, encoding, None
                )
                # Who else got it is kept from those who get it.
                for name in HIDDEN_HEADERS:
                    shown["properties"].get("headers", {}).pop(name, None)
                yield _sse("message", shown)
            elif isinstance(event, Tally):
                yield _sse("tally", {"matched": event.matched, "missed": event.missed})
            else:
                yield HEARTBEAT
        yield _sse("end", {})
    finally:
        await watching.aclose()


def _decimal(request: Request, name: str, default: float, least: float, most: float) -> float:
    given = request.query.get(name, "")
    if given == "":
        return default
    try:
        value = float(given)
    except ValueError:
        value = -1.0
    if not least <= value <= most:
        raise bad_request(f"{name} is {given[:64]!r}; it must be a number from {least} to {most}")
    return value

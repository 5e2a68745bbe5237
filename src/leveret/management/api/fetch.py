"""Fetching messages over HTTP: RabbitMQ's way, in one request, and with leases that are acknowledged by a later one."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

from leveret.broker.access import Right
from leveret.broker.checkouts import LEASE_S_MAX, Lease, fetched
from leveret.core.pickup import Pickup
from leveret.errors import AmqpError
from leveret.management.api.message_json import AUTO, BASE64, described, encoding_of
from leveret.management.http.ask import Answer, Ask
from leveret.management.http.bodies import ACK_BODY, GET_BODY, MESSAGES, NACK_BODY
from leveret.management.http.errors import HttpError, bad_request, not_authorised
from leveret.management.http.fields import Fields
from leveret.management.http.json import encode
from leveret.management.http.route import Parameter, Scope, route
from leveret.runtime.time_slice import TimeSlice

COUNT_MAX = 100_000
LEASED_AT_ONCE_MAX = 1000
# An answer that has grown to this has no further message, however many were asked for.
ANSWER_BYTES_MAX = 32 * 1024 * 1024
TRUNCATE_MAX = 2**40
IDS_MAX = 10_000

# ackmode -> whether it is taken for good at once, and what becomes of it afterwards
TAKE, REQUEUE, DISCARD = "take", "requeue", "discard"
ACK_MODES = {
    "ack_requeue_false": TAKE,
    "ack_requeue_true": REQUEUE,
    "reject_requeue_true": REQUEUE,
    "reject_requeue_false": DISCARD,
}
MANUAL, AUTOMATIC = "manual", "auto"

HOW = (
    Parameter("encoding", "How payloads are shown.", {"type": "string", "enum": [AUTO, BASE64]}),
    Parameter("truncate", "Bytes of each payload at most.", {"type": "integer", "minimum": 0}),
)


class Letters:
    """A JSON list of messages that grows message by message."""

    def __init__(self, encoding: str, truncate: int | None) -> None:
        self._encoding = encoding
        self._truncate = truncate
        self._parts: list[bytes] = []
        self._turn = TimeSlice()
        self.size = 0

    @property
    def is_full(self) -> bool:
        return self.size >= ANSWER_BYTES_MAX

    async def add(self, exchange: bytes, key: bytes, properties: Any, body: bytes, size: int, **more: Any) -> None:
        shown = described(exchange, key, properties, body, size, self._encoding, self._truncate)
        part = encode({**shown, **more})
        self._parts.append(part)
        self.size += len(part) + 1
        await self._turn.rest()

    async def add_picked(self, pickup: Pickup, **more: Any) -> None:
        message = pickup.message
        await self.add(
            message.exchange,
            message.routing_key,
            message.properties,
            pickup.body,
            message.body_size,
            redelivered=pickup.redelivered,
            message_count=pickup.queue.ready_count(),
            **more,
        )

    def answer(self) -> Answer:
        if self.size <= COMPACT_BYTES:
            return Answer(body=b"[" + b",".join(self._parts) + b"]")
        return Answer(body=self._pieces())

    async def _pieces(self) -> AsyncIterator[bytes]:
        for at, part in enumerate(self._parts):
            yield (b"," if at else b"[") + part
        yield b"]"


# Longer answers are sent in pieces.
COMPACT_BYTES = 256 * 1024


# ---- RabbitMQ's


@route(
    "POST",
    "/api/queues/{vhost}/{queue}/get",
    Right.MANAGEMENT,
    "Get messages, as RabbitMQ does: they are taken, put back or rejected within the request",
    answers={200: MESSAGES},
    private=True,
    accepts=GET_BODY,
)
async def get(ask: Ask) -> Answer:
    who = ask.requester()
    fields = Fields(ask.body)
    fields.need("ackmode", "count", "encoding")
    mode = fields.values["ackmode"]
    fate = ACK_MODES.get(mode) if isinstance(mode, str) else None
    if fate is None:
        raise bad_request(f"ackmode must be one of {', '.join(ACK_MODES)}")
    count = _count(fields)
    encoding = encoding_of(fields.values["encoding"])
    truncate = fields.integer("truncate", within=range(TRUNCATE_MAX)) if "truncate" in fields else None
    queue = _find(ask, who)
    letters = Letters(encoding, truncate)
    broker = ask.services.broker
    pickup = Pickup(queue, fate == TAKE)
    broker.borrowers.add(pickup)
    try:
        for tag in range(1, count + 1):
            if letters.is_full or not await fetched(broker, pickup, tag):
                break
            await letters.add_picked(pickup)
    finally:
        broker.tick()
        for tag in list(pickup.held):
            pickup.discard(tag) if fate == DISCARD else pickup.requeue(tag)
        broker.borrowers.discard(pickup)
        queue.dispatch()
        broker.kick()
    return letters.answer()


def _count(fields: Fields) -> int:
    given = fields.values["count"]
    if isinstance(given, str) and not given.strip().lstrip("+-").isdigit():
        raise bad_request(["not_integer", given[:64]])
    return fields.integer("count", within=range(COUNT_MAX + 1))


def _find(ask: Ask, who: Any) -> Any:
    try:
        return ask.services.checkouts.find(who, ask.path["queue"])
    except AmqpError as error:
        raise refusal(error) from None


def refusal(error: AmqpError) -> HttpError:
    """RabbitMQ's answers where a channel of its own would have been closed."""
    if error.code == 404:
        return HttpError(404, "not_found", error.reply_text)
    if error.code == 403:
        return not_authorised(error.reply_text)
    return bad_request(f"{error.code} {error.text if error.ends_connection else error.reply_text}")


# ---- leases


@route(
    "GET",
    "/api/queues/{vhost}/{queue}/get",
    Right.MANAGEMENT,
    "Fetch messages on a lease, to be acknowledged by their delivery_id",
    scope=Scope.ENTER,
    query=(
        Parameter("count", "How many at most.", {"type": "integer", "minimum": 1, "maximum": LEASED_AT_ONCE_MAX}),
        Parameter("ack_mode", "auto takes them for good at once.", {"type": "string", "enum": [MANUAL, AUTOMATIC]}),
        Parameter("lease_s", "Seconds until what is not acknowledged goes back.", {"type": "number", "minimum": 1}),
        *HOW,
    ),
    private=True,
    answers={200: MESSAGES},
)
async def lease(ask: Ask) -> Answer:
    if ask.method == "HEAD":
        # Which would take messages that nobody gets to see.
        raise HttpError(405, "method_not_allowed", "HEAD is not for this path", {"Allow": "GET, POST"})
    who = ask.requester()
    count = ask.number("count", 1, 1, LEASED_AT_ONCE_MAX)
    mode = ask.query.get("ack_mode", MANUAL)
    if mode not in (MANUAL, AUTOMATIC):
        raise bad_request(f"ack_mode must be {MANUAL} or {AUTOMATIC}")
    lease_s = _lease_s(ask)
    letters = letters_for(ask)
    queue = _find(ask, who)
    if mode == AUTOMATIC:
        pickup = Pickup(queue, True)
        while count > 0 and not letters.is_full and await fetched(ask.services.broker, pickup, 0):
            await letters.add_picked(pickup)
            count -= 1
        return letters.answer()
    checkouts = ask.services.checkouts
    count = min(count, checkouts.room(who.access.user))
    while count > 0 and not letters.is_full:
        found = await checkouts.lease(who, queue, lease_s)
        if found is None:
            break
        one, pickup = found
        await letters.add_picked(pickup, delivery_id=one.id, delivery_tag=one.tag, lease_expires_at=one.expires_ms)
        count -= 1
    return letters.answer()


def letters_for(ask: Ask) -> Letters:
    """As the query wants messages shown."""
    truncate = ask.number("truncate", -1, 0, TRUNCATE_MAX)
    return Letters(encoding_of(ask.query.get("encoding", AUTO)), None if truncate < 0 else truncate)


def _lease_s(ask: Ask) -> float:
    given = ask.query.get("lease_s", "")
    if given == "":
        return ask.services.checkouts.lease_s
    try:
        seconds = float(given)
    except ValueError:
        seconds = 0.0
    if not 1.0 <= seconds <= LEASE_S_MAX:
        raise bad_request(f"lease_s is {given[:64]!r}; it must be a number from 1 to {LEASE_S_MAX:.0f}")
    return seconds


@route(
    "POST",
    "/api/queues/{vhost}/{queue}/ack",
    Right.MANAGEMENT,
    "Acknowledge messages that were fetched on a lease",
    answers={200: Any},
    accepts=ACK_BODY,
)
def ack(ask: Ask) -> dict[str, Any]:
    """Repeating it does no harm: what is not on lease any more is listed as unknown."""
    found, unknown = _named(ask, Fields(ask.body))
    return {"acked": ask.services.checkouts.ack(found), "unknown": unknown}


@route(
    "POST",
    "/api/queues/{vhost}/{queue}/nack",
    Right.MANAGEMENT,
    "Give back messages that were fetched on a lease, or have them dead-lettered (requeue: false)",
    answers={200: Any},
    accepts=NACK_BODY,
)
def nack(ask: Ask) -> dict[str, Any]:
    fields = Fields(ask.body)
    requeue = fields.flag("requeue", True)
    found, unknown = _named(ask, fields)
    return {"nacked": ask.services.checkouts.nack(found, requeue), "unknown": unknown}


def _named(ask: Ask, fields: Fields) -> tuple[list[Lease], list[Any]]:
    """The leases that a body names, and what of it names none."""
    who = ask.requester()
    queue = _find(ask, who)
    user = who.access.user
    checkouts = ask.services.checkouts
    if "delivery_ids" in fields:
        ids = fields.values["delivery_ids"]
        if not isinstance(ids, list) or not all(isinstance(one, str) for one in ids) or len(ids) > IDS_MAX:
            raise bad_request(f"delivery_ids must be a list of at most {IDS_MAX} texts")
        found, unknown = checkouts.by_ids(user, queue, ids)
        return found, list(unknown)
    if "delivery_tag" not in fields:
        raise bad_request("give delivery_ids, or a delivery_tag and perhaps multiple")
    tag = fields.integer("delivery_tag", within=range(2**63))
    found = checkouts.by_tag(user, queue, tag, fields.flag("multiple"))
    return found, [] if found else [tag]

"""Fetching messages over HTTP: RabbitMQ's way, in one request, and with leases that are acknowledged by a later one."""

from __future__ import annotations

from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

from leveret.auth.access import Right
from leveret.core.connection.leased_get import LeasedGet
from leveret.errors import AmqpError
from leveret.management.api.message_json import AUTO, BASE64, described, encoding_of
from leveret.management.http.bodies import ACK_BODY, GET_BODY, MESSAGES, NACK_BODY
from leveret.management.http.errors import HttpError, bad_request, not_authorised
from leveret.management.http.fields import Fields
from leveret.management.http.json import encode
from leveret.management.http.request import Answer, Request
from leveret.management.http.route import Parameter, Scope, route
from leveret.operations.http_leases import LEASE_S_MAX, Lease, fetched
from leveret.runtime.time_slice import TimeSlice

COUNT_MAX = 100_000
LEASED_AT_ONCE_MAX = 1000
# An answer that has grown to this has no further message, however many were asked for.
ANSWER_BYTES_MAX = 32 * 1024 * 1024
# What there must be room for before an answer is begun, and before it gets another message.
FIRST_BYTES = 256 * 1024
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
    """A JSON list of messages that grows message by message. `before` and `behind` stand around the list."""

    def __init__(
        self,
        request: Request,
        encoding: str = AUTO,
        truncate: int | None = None,
        before: bytes = b"",
        behind: bytes = b"",
    ) -> None:
        """Raises HttpError if there is no room for another answer."""
        self._opening = before + b"["
        self._closing = b"]" + behind
        self._encoding = encoding
        self._truncate = truncate
        self._parts: deque[bytes] = deque()
        self._turn = TimeSlice()
        self._hold = request.answer_hold
        self.size = 0
        if self._hold is not None:
            self._hold.reach(FIRST_BYTES)

    @property
    def is_full(self) -> bool:
        """Not an error: what was taken out of a queue must be answered."""
        if self._hold is not None and self._parts and not self._hold.has_room(self.size + FIRST_BYTES):
            return True
        return self.size >= ANSWER_BYTES_MAX

    async def add(self, exchange: bytes, key: bytes, properties: Any, body: bytes, size: int, **more: Any) -> None:
        shown = described(exchange, key, properties, body, size, self._encoding, self._truncate)
        await self.add_shown({**shown, **more})

    async def add_shown(self, shown: dict[str, Any]) -> None:
        part = encode(shown)
        self._parts.append(part)
        self.size += len(part) + 1
        if self._hold is not None:
            self._hold.grow(self.size)
        await self._turn.rest()

    async def add_picked(self, leased_get: LeasedGet, **more: Any) -> None:
        message = leased_get.message
        await self.add(
            message.exchange,
            message.routing_key,
            message.properties,
            leased_get.body,
            message.body_size,
            redelivered=leased_get.redelivered,
            message_count=leased_get.queue.ready_count(),
            **more,
        )

    def answer(self) -> Answer:
        if self.size <= COMPACT_BYTES:
            return Answer(body=self._opening + b",".join(self._parts) + self._closing)
        return Answer(body=self._pieces())

    async def _pieces(self) -> AsyncIterator[bytes]:
        mark = self._opening
        while self._parts:
            # Not held any longer than it takes to send it.
            yield mark + self._parts.popleft()
            mark = b","
        yield self._closing


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
async def get(request: Request) -> Answer:
    who = request.requester()
    fields = Fields(request.body)
    fields.need("ackmode", "count", "encoding")
    mode = fields.values["ackmode"]
    fate = ACK_MODES.get(mode) if isinstance(mode, str) else None
    if fate is None:
        raise bad_request(f"ackmode must be one of {', '.join(ACK_MODES)}")
    count = _count(fields)
    encoding = encoding_of(fields.values["encoding"])
    truncate = fields.integer("truncate", within=range(TRUNCATE_MAX)) if "truncate" in fields else None
    queue = _find(request, who)
    letters = Letters(request, encoding, truncate)
    broker = request.services.broker
    leased_get = LeasedGet(queue, fate == TAKE)
    broker.movers.add(leased_get)
    try:
        for tag in range(1, count + 1):
            if letters.is_full or not await fetched(broker, leased_get, tag, who.access.user):
                break
            await letters.add_picked(leased_get)
    finally:
        with broker.turn():
            for tag in list(leased_get.held):
                leased_get.discard(tag) if fate == DISCARD else leased_get.requeue(tag)
            broker.movers.discard(leased_get)
            queue.dispatch()
    return letters.answer()


def _count(fields: Fields) -> int:
    given = fields.values["count"]
    if isinstance(given, str) and not given.strip().lstrip("+-").isdigit():
        raise bad_request(["not_integer", given[:64]])
    return fields.integer("count", within=range(COUNT_MAX + 1))


def _find(request: Request, who: Any) -> Any:
    try:
        return request.services.http_leases.find(who, request.path["queue"])
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
async def lease(request: Request) -> Answer:
    letters = letters_for(request)

    async def add(leased_get: LeasedGet, one: Lease | None) -> None:
        more = {} if one is None else _names_of(one)
        await letters.add_picked(leased_get, **more)

    return await leased(request, letters, add)


def _names_of(one: Lease) -> dict[str, Any]:
    return {"delivery_id": one.id, "delivery_tag": one.tag, "lease_expires_at": one.expires_ms}


async def leased(
    request: Request,
    letters: Letters,
    add: Callable[[LeasedGet, Lease | None], Awaitable[None]],
    numbered: bool = False,
) -> Answer:
    """Fetches what the query asks for. `add` shows the message that the leased get has, and its lease if it has one."""
    if request.method == "HEAD":
        # Which would remove messages without showing them.
        raise HttpError(405, "method_not_allowed", "HEAD is not for this path", {"Allow": "GET, POST"})
    who = request.requester()
    count = request.number("count", 1, 1, LEASED_AT_ONCE_MAX)
    mode = request.query.get("ack_mode", MANUAL)
    if mode not in (MANUAL, AUTOMATIC):
        raise bad_request(f"ack_mode must be {MANUAL} or {AUTOMATIC}")
    lease_s = _lease_s(request)
    queue = _find(request, who)
    if mode == AUTOMATIC:
        leased_get = LeasedGet(queue, True)
        while (
            count > 0 and not letters.is_full and await fetched(request.services.broker, leased_get, 0, who.access.user)
        ):
            await add(leased_get, None)
            count -= 1
        return letters.answer()
    http_leases = request.services.http_leases
    count = min(count, http_leases.room(who.access.user))
    while count > 0 and not letters.is_full:
        found = await http_leases.lease(who, queue, lease_s, numbered)
        if found is None:
            break
        one, leased_get = found
        await add(leased_get, one)
        count -= 1
    return letters.answer()


def letters_for(request: Request) -> Letters:
    """As the query wants messages shown."""
    truncate = request.number("truncate", -1, 0, TRUNCATE_MAX)
    return Letters(request, encoding_of(request.query.get("encoding", AUTO)), None if truncate < 0 else truncate)


def _lease_s(request: Request) -> float:
    given = request.query.get("lease_s", "")
    if given == "":
        return request.services.http_leases.lease_s
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
def ack(request: Request) -> dict[str, Any]:
    """Repeating it does no harm: what is not on lease any more is listed as unknown."""
    found, unknown = _named(request, Fields(request.body))
    return {"acked": request.services.http_leases.ack(found), "unknown": unknown}


@route(
    "POST",
    "/api/queues/{vhost}/{queue}/nack",
    Right.MANAGEMENT,
    "Give back messages that were fetched on a lease, or have them dead-lettered (requeue: false)",
    answers={200: Any},
    accepts=NACK_BODY,
)
def nack(request: Request) -> dict[str, Any]:
    fields = Fields(request.body)
    requeue = fields.flag("requeue", True)
    found, unknown = _named(request, fields)
    return {"nacked": request.services.http_leases.nack(found, requeue), "unknown": unknown}


def _named(request: Request, fields: Fields) -> tuple[list[Lease], list[Any]]:
    """The leases that a body names, and what of it names none."""
    who = request.requester()
    queue = _find(request, who)
    user = who.access.user
    http_leases = request.services.http_leases
    if "delivery_ids" in fields:
        ids = fields.values["delivery_ids"]
        if not isinstance(ids, list) or not all(isinstance(one, str) for one in ids) or len(ids) > IDS_MAX:
            raise bad_request(f"delivery_ids must be a list of at most {IDS_MAX} texts")
        found, unknown = http_leases.by_ids(user, queue, ids)
        return found, list(unknown)
    if "delivery_tag" not in fields:
        raise bad_request("give delivery_ids, or a delivery_tag and perhaps multiple")
    return tagged(request, fields, http_leases.by_tag)


def tagged(
    request: Request, fields: Fields, find: Callable[[str, Any, int, bool], list[Lease]]
) -> tuple[list[Lease], list[Any]]:
    """The leases that a body names by `delivery_tag` and `multiple`, and the tag if it names none."""
    who = request.requester()
    fields.need("delivery_tag")
    tag = fields.integer("delivery_tag", within=range(2**63))
    found = find(who.access.user, _find(request, who), tag, fields.flag("multiple"))
    return found, [] if found else [tag]

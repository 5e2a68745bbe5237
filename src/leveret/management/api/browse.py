"""Looking into queues: their messages, who holds them; and holding deliveries up."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

from msgspec import Raw

from leveret.auth.access import CONFIGURE, READ, Right
from leveret.core.codec.field_types import Timestamp
from leveret.core.queue.contract import Queue
from leveret.core.stream.queue import StreamQueue
from leveret.errors import AmqpError
from leveret.management.api.fetch import HOW, Letters, letters_for, refusal
from leveret.management.api.search import (
    FILTERS,
    SCAN_DEFAULT,
    SCAN_MAX,
    Page,
    Search,
    read_filter,
    refuse_unknown,
)
from leveret.management.http.bodies import MESSAGES
from leveret.management.http.errors import bad_request
from leveret.management.http.json import encode
from leveret.management.http.request import DONE, Answer, Request
from leveret.management.http.route import Parameter, Scope, route
from leveret.operations.browsing import COUNT_MAX, Held, Seen
from leveret.runtime.time_slice import TimeSlice

OFFSET_MAX = 2**53
READY, UNACKED = "ready", "unacked"
COUNT_DEFAULT = 10
UNACKED_MAX = 10_000

# A message, and what is said beside it.
Placed = tuple[dict[str, Any], Seen]


PEEK = (
    Parameter(
        "offset",
        "How many to pass over; for a stream an offset, or first, last, an age such as 1h or a moment in ISO 8601.",
    ),
    Parameter(
        "after",
        "Instead of offset: those of a queue behind this position, in the order of positions. Going on behind the "
        "last position of a page leaves nothing out; an empty answer is the end.",
        {"type": "integer", "minimum": 0, "maximum": OFFSET_MAX},
    ),
    Parameter("count", "How many at most.", {"type": "integer", "minimum": 1, "maximum": COUNT_MAX}),
    Parameter("state", "Those that wait, or those that consumers hold.", {"type": "string", "enum": [READY, UNACKED]}),
    Parameter("timestamp", "For a stream: from this second of the wall clock on.", {"type": "integer"}),
    *FILTERS,
    *HOW,
)


@route(
    "GET",
    "/api/queues/{vhost}/{queue}/peek",
    Right.MANAGEMENT,
    "Look at messages without taking them, all or those that a filter wants; a stream's by offset or time",
    scope=Scope.ENTER,
    query=PEEK,
    private=True,
    answers={200: MESSAGES},
)
async def peek(request: Request) -> Answer:
    refuse_unknown(request, PEEK)
    count = request.number("count", COUNT_DEFAULT, 1, COUNT_MAX)
    state = request.query.get("state", READY)
    if state not in (READY, UNACKED):
        raise bad_request(f"state must be {READY} or {UNACKED}")
    if "after" in request.query and ("offset" in request.query or state != READY):
        raise bad_request(f"after goes neither with offset nor with state={UNACKED}")
    wanted = read_filter(request)
    search = Search(wanted, request.number("scan", SCAN_DEFAULT, 1, SCAN_MAX), lambda found: found[1])
    letters = letters_for(request)
    try:
        queue = request.services.browsing.find(request.requester(), request.path["queue"])
        page = _page(request, queue, state, search)
        async for more, seen in page(0, count) if wanted.is_empty else search.walk(page):
            await _add(letters, seen, **more)
            count -= 1
            if count == 0 or letters.is_full:
                break
    except AmqpError as error:
        raise refusal(error) from None
    answer = letters.answer()
    if not wanted.is_empty:
        answer.headers.update(search.told())
    return answer


def _page(request: Request, queue: Queue, state: str, search: Search) -> Page:
    """Messages of the queue, with what is said beside them: so many, behind so many that were looked at."""
    browsing = request.services.browsing

    async def behind(_looked: int, count: int) -> AsyncIterator[Placed]:
        place = request.number("after", 0, 0, OFFSET_MAX) if search.last_place is None else search.last_place
        async for seen in browsing.ready_after(queue, place, count):
            yield {}, seen

    async def of_stream(_looked: int, count: int) -> AsyncIterator[Placed]:
        assert isinstance(queue, StreamQueue)
        start = _stream_start(request) if search.last_place is None else search.last_place + 1
        async for seen in browsing.stream(queue, start, count):
            yield {"stream_offset": seen.place}, seen

    async def ready(looked: int, count: int) -> AsyncIterator[Placed]:
        async for seen in browsing.ready(queue, request.number("offset", 0, 0, OFFSET_MAX) + looked, count):
            yield {}, seen

    async def held(looked: int, count: int) -> AsyncIterator[Placed]:
        async for one, seen in browsing.unacked(queue, request.number("offset", 0, 0, OFFSET_MAX) + looked, count):
            yield _holder(one), seen

    if "after" in request.query:
        return behind
    if isinstance(queue, StreamQueue):
        return of_stream
    return ready if state == READY else held


def _stream_start(request: Request) -> Any:
    if "timestamp" in request.query:
        return Timestamp(request.number("timestamp", 0, 0, OFFSET_MAX))
    given = request.query.get("offset", "first")
    return int(given) if given.isascii() and given.isdigit() and len(given) < 20 else given


async def _add(letters: Letters, seen: Seen, **more: Any) -> None:
    message = seen.message
    await letters.add(
        message.exchange,
        message.routing_key,
        message.properties,
        seen.body,
        seen.body_size,
        redelivered=seen.redelivered,
        position=seen.place,
        delivery_count=seen.delivery_count,
        arrived_at=seen.stamp_ms,
        **more,
    )


def _holder(held: Held) -> dict[str, Any]:
    return {
        "consumer_tag": held.consumer_tag,
        "channel": held.channel,
        "user": held.user,
        "delivery_tag": held.delivery_tag,
        "since": held.since_ms,
        "lease_expires_at": held.lease_expires_ms,
    }


@route(
    "GET",
    "/api/queues/{vhost}/{queue}/unacked",
    Right.MANAGEMENT,
    "Who holds messages that are not acknowledged; without payloads",
    query=(Parameter("count", "How many at most.", {"type": "integer", "minimum": 1, "maximum": UNACKED_MAX}),),
)
async def unacked(request: Request) -> list[Raw]:
    """Needs no READ: nothing of what is in the messages is shown but, to those who could get them, routing keys."""
    browsing = request.services.browsing
    count = request.number("count", UNACKED_MAX, 1, UNACKED_MAX)
    try:
        queue = browsing.known(request.requester(), request.path["queue"])
    except AmqpError as error:
        raise refusal(error) from None
    reads = request.requester().access.allows_queue(READ, request.path["queue"]) and not queue.record.owner
    found: list[Raw] = []
    turn = TimeSlice()
    async for held in browsing.held(queue):
        message = held.entry.message
        told = {"payload_bytes": message.body_size, "redelivered": held.entry.seen, "position": held.entry.position}
        if message.address:
            # What a stream's consumers hold has none.
            if reads:
                told["routing_key"] = message.routing_key.decode("utf-8", "replace")
            told["arrived_at"] = message.stamp
        found.append(Raw(encode({**_holder(held), **told})))
        await turn.rest()
        if len(found) >= count:
            break
    return found


# ---- holding up


@route("PUT", "/api/queues/{vhost}/{queue}/pause", Right.MANAGEMENT, "Give consumers nothing until it is resumed")
async def pause(request: Request) -> Answer:
    return await _set_paused(request, True)


@route("PUT", "/api/queues/{vhost}/{queue}/resume", Right.MANAGEMENT, "Give consumers messages again")
async def resume(request: Request) -> Answer:
    return await _set_paused(request, False)


async def _set_paused(request: Request, paused: bool) -> Answer:
    """Takes CONFIGURE on the queue, as a policy or a new declaration that changed its deliveries would."""
    who = request.requester()
    name = request.path["queue"]
    try:
        who.access.check_queue(CONFIGURE, name)
        await request.durably(lambda: request.services.pauses.set(who, name, paused))
    except AmqpError as error:
        raise refusal(error) from None
    return DONE

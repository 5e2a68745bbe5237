"""Looking into queues: their messages, who holds them; and holding deliveries up."""

from __future__ import annotations

from typing import Any

from leveret.broker.access import CONFIGURE, READ, Right
from leveret.broker.browsing import COUNT_MAX, Held, Seen
from leveret.core.field_types import Timestamp
from leveret.core.stream.queue import StreamQueue
from leveret.errors import AmqpError
from leveret.management.api.fetch import HOW, Letters, letters_for, refusal
from leveret.management.http.ask import DONE, Answer, Ask
from leveret.management.http.bodies import MESSAGES
from leveret.management.http.errors import bad_request
from leveret.management.http.route import Parameter, Scope, route

OFFSET_MAX = 2**53
READY, UNACKED = "ready", "unacked"
COUNT_DEFAULT = 10
UNACKED_MAX = 10_000


@route(
    "GET",
    "/api/queues/{vhost}/{queue}/peek",
    Right.MANAGEMENT,
    "Look at messages without taking them; a stream's by offset or time",
    scope=Scope.ENTER,
    query=(
        Parameter("offset", "How many to pass over; for a stream an offset, or first, last or an age such as 1h."),
        Parameter("count", "How many at most.", {"type": "integer", "minimum": 1, "maximum": COUNT_MAX}),
        Parameter(
            "state", "Those that wait, or those that consumers hold.", {"type": "string", "enum": [READY, UNACKED]}
        ),
        Parameter("timestamp", "For a stream: from this second of the wall clock on.", {"type": "integer"}),
        *HOW,
    ),
    private=True,
    answers={200: MESSAGES},
)
async def peek(ask: Ask) -> Answer:
    browsing = ask.services.browsing
    count = ask.number("count", COUNT_DEFAULT, 1, COUNT_MAX)
    state = ask.query.get("state", READY)
    if state not in (READY, UNACKED):
        raise bad_request(f"state must be {READY} or {UNACKED}")
    letters = letters_for(ask)
    try:
        queue = browsing.find(ask.requester(), ask.path["queue"])
        if isinstance(queue, StreamQueue):
            async for seen in browsing.stream(queue, _stream_start(ask), count):
                await _add(letters, seen, stream_offset=seen.place)
                if letters.is_full:
                    break
        elif state == READY:
            async for seen in browsing.ready(queue, ask.number("offset", 0, 0, OFFSET_MAX), count):
                await _add(letters, seen)
                if letters.is_full:
                    break
        else:
            async for held, seen in browsing.unacked(queue, ask.number("offset", 0, 0, OFFSET_MAX), count):
                await _add(letters, seen, **_holder(held))
                if letters.is_full:
                    break
    except AmqpError as error:
        raise refusal(error) from None
    return letters.answer()


def _stream_start(ask: Ask) -> Any:
    if "timestamp" in ask.query:
        return Timestamp(ask.number("timestamp", 0, 0, OFFSET_MAX))
    given = ask.query.get("offset", "first")
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
async def unacked(ask: Ask) -> list[dict[str, Any]]:
    """Needs no READ: nothing of what is in the messages is shown but, to those who have it, their routing keys."""
    browsing = ask.services.browsing
    reads = ask.requester().access.allows_queue(READ, ask.path["queue"])
    count = ask.number("count", UNACKED_MAX, 1, UNACKED_MAX)
    try:
        queue = browsing.known(ask.requester(), ask.path["queue"])
    except AmqpError as error:
        raise refusal(error) from None
    found: list[dict[str, Any]] = []
    async for held in browsing.held(queue):
        message = held.entry.message
        told = {"payload_bytes": message.body_size, "redelivered": held.entry.seen, "position": held.entry.position}
        if message.address:
            # What a stream's consumers hold has none.
            if reads:
                told["routing_key"] = message.routing_key.decode("utf-8", "replace")
            told["arrived_at"] = message.stamp
        found.append({**_holder(held), **told})
        if len(found) >= count:
            break
    return found


# ---- holding up


@route("PUT", "/api/queues/{vhost}/{queue}/pause", Right.MANAGEMENT, "Give consumers nothing until it is resumed")
async def pause(ask: Ask) -> Answer:
    return await _set_paused(ask, True)


@route("PUT", "/api/queues/{vhost}/{queue}/resume", Right.MANAGEMENT, "Give consumers messages again")
async def resume(ask: Ask) -> Answer:
    return await _set_paused(ask, False)


async def _set_paused(ask: Ask, paused: bool) -> Answer:
    """Takes CONFIGURE on the queue, as a policy or a new declaration that changed its deliveries would."""
    who = ask.requester()
    name = ask.path["queue"]
    try:
        who.access.check_queue(CONFIGURE, name)
        await ask.durably(lambda: ask.services.pauses.set(who, name, paused))
    except AmqpError as error:
        raise refusal(error) from None
    return DONE

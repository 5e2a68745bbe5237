"""What is published for the jobs: orders, and letters that die. All of it follows from a message's number.

A tenth of the orders come a second time under the id of an earlier one. Some are not the JSON that they say. Moments
are made up, two seconds from one order to the next: so there are hours enough for gold to be cut into, and an order
belongs to the same minute whichever of the two that have its id is kept. For the same reason both are equally long, and
none of them tells when it was published, which would make two latencies."""

from __future__ import annotations

import time
from datetime import UTC, datetime
from typing import Any

from leveret.client.message import Message
from leveret.client.streams.super_stream import partition_key
from leveret.spark.pipeline.demonstration.demo_day import EVENT_TIME, PUBLISHED_AT
from tests.spark.exactly_once.places import PARTITIONS

__all__ = ["DYING", "NUMBER_IN_BODY", "is_bad", "letter", "order", "original"]

# Ten minutes before an hour is full, so that even a short campaign sees two of them.
BEGIN_MS = int(datetime(2026, 3, 1, 10, 50, tzinfo=UTC).timestamp() * 1000)
STEP_MS = 2000
# The double comes in another batch as often as not.
AGAIN_AFTER = 57
TENANTS = ("acme", "globex", "initech")
# Where letters die, each in another way.
DYING = ("full", "late")
ERRORS = ("ValueError: order {number} has no price", "Timeout: no answer for order {number}", None)
NUMBER_IN_BODY = r'"number": "(\d+)"'


def original(number: int) -> int:
    """The number of the order whose id this one has: its own, or that of an earlier one."""
    return number - AGAIN_AFTER if number % 10 == 9 and number >= AGAIN_AFTER else number


def is_bad(number: int) -> bool:
    """Whether its body is not what its content type says; so is its double then."""
    return original(number) % 25 == 2


def order(number: int) -> Message:
    first = original(number)
    end = "" if is_bad(number) else "}"
    headers = _headers(first)
    # Of these some come again.
    if first % 10 == 2:
        del headers[PUBLISHED_AT]
    return Message(
        body=f'{{"number": "{number:09d}", "note": "{"x" * (first % 13)}"{end}'.encode(),
        routing_key=partition_key(f"customer-{first % 97}", PARTITIONS),
        message_id=f"order-{first}",
        content_type="application/json",
        headers=headers,
    )


def letter(number: int) -> Message | None:
    """One for each tenth order, to one of the queues in which all messages die; some have the id of an earlier one."""
    if number % 10 != 4:
        return None
    first = number - 30 if number % 50 == 44 else number
    headers = _headers(first)
    if error := ERRORS[number // 10 % len(ERRORS)]:
        headers["x-error"] = error.format(number=number)
    return Message(
        body=f'{{"number": "{number:09d}"}}'.encode(),
        routing_key=DYING[number // 10 % len(DYING)],
        message_id=f"letter-{first}",
        content_type="application/json",
        headers=headers,
    )


def _headers(first: int) -> dict[str, Any]:
    return {
        "x-tenant": TENANTS[first % len(TENANTS)],
        EVENT_TIME: BEGIN_MS + first * STEP_MS,
        PUBLISHED_AT: int(time.time() * 1000) - first % 50,
    }

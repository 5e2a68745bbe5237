"""A day in a shop, as messages: orders, payments, shipments, and the work that fails.

Pure: the same seed and day give the same messages, and nothing is sent from here. The broker stamps what it takes with
the moment at which it takes it, so a day that is made in seconds has its hours in the header `x-event-time-ms`;
`x-published-at-ms` is the publisher's clock, from which the jobs count how long a message was under way.

The day has a story: few orders at night, peaks at noon and in the evening, and a payment provider that is down from
14:10 to 14:50."""

from __future__ import annotations

import bisect
import itertools
import random
from collections.abc import Iterator
from datetime import UTC, date, datetime, timedelta
from typing import Any, NamedTuple

import msgspec

from leveret.client.message import Message

__all__ = ["DAY_MS", "EVENT_TIME", "PUBLISHED_AT", "Event", "day_of", "messages_of", "yesterday"]

EVENT_TIME, PUBLISHED_AT, TENANT, ERROR = "x-event-time-ms", "x-published-at-ms", "x-tenant", "x-error"
DAY_MS = 24 * 3600 * 1000
# How many orders come in each hour, against each other.
CURVE = (3, 2, 1, 1, 1, 2, 5, 11, 18, 24, 29, 36, 42, 34, 28, 27, 31, 38, 46, 52, 47, 33, 19, 8)
DOWN_FROM_MS, DOWN_TO_MS = int(14 * 3600e3 + 10 * 60e3), int(14 * 3600e3 + 50 * 60e3)
TENANTS = {"acme": 46, "globex": 27, "initech": 18, "hooli": 9}
GOODS = {"coffee": 7.9, "tea": 5.5, "grinder": 89.0, "kettle": 42.0, "filter": 3.2, "mug": 12.5}
DUPLICATE, MALFORMED = 0.01, 0.004
# Shares of orders whose work fails in an ordinary hour, and of payments while the provider is down.
FAILS = {"billing.charge": 0.006, "offer.send": 0.02, "index.update": 0.018, "warehouse.reserve": 0.008}
FAILS_WHEN_DOWN = 0.45
ERRORS = {
    "billing.charge": "PaymentDeclined: the issuer declined card ending {number:04d}",
    "billing.down": "ProviderTimeout: no answer from pay-{zone} within 3000 ms",
    "warehouse.reserve": "OutOfStock: {goods} has no stock in warehouse {number}",
    "offer.send": None,
    "index.update": None,
}


class Event(NamedTuple):
    """Something that happens in the shop: when, and the message that says so. `at_ms` counts from midnight."""

    at_ms: int
    routing_key: str
    tenant: str
    body: bytes
    message_id: str
    content_type: str
    latency_ms: int
    error: str | None


def yesterday() -> date:
    return datetime.now(UTC).date() - timedelta(days=1)


def day_of(orders: int, seed: int = 8) -> list[Event]:
    """Everything that happens on a day with so many orders, in order of time."""
    dice = random.Random(seed)
    edges = list(itertools.accumulate(CURVE))
    events: list[Event] = []
    for number in range(orders):
        hour = bisect.bisect_right(edges, dice.random() * edges[-1])
        at_ms = int((hour + dice.random()) * 3600e3)
        tenant = dice.choices(list(TENANTS), list(TENANTS.values()))[0]
        events.extend(_order(dice, number, at_ms, tenant))
    events = [event for event in events if event.at_ms < DAY_MS]
    events.extend([event._replace(at_ms=event.at_ms + 2) for event in events if dice.random() < DUPLICATE])
    return sorted(event for event in events if event.at_ms < DAY_MS)


def _order(dice: random.Random, number: int, at_ms: int, tenant: str) -> Iterator[Event]:
    order = f"{tenant}-{number:06d}"
    items: list[dict[str, Any]] = [
        {"sku": goods, "quantity": dice.randint(1, 4), "price": GOODS[goods]}
        for goods in dice.sample(list(GOODS), dice.randint(1, 3))
    ]
    total = round(sum(item["quantity"] * item["price"] for item in items), 2)
    is_down = DOWN_FROM_MS <= at_ms < DOWN_TO_MS

    def event(after_ms: float, routing_key: str, error: str | None = None, **fields: Any) -> Event:
        body = msgspec.json.encode({"order": order, "tenant": tenant, **fields})
        if error is None and dice.random() < MALFORMED:
            body = body[: len(body) // 2]
        slow = 8.0 if is_down and routing_key.startswith(("payment", "billing")) else 1.0
        latency = min(30_000, int(slow * dice.lognormvariate(3.2, 0.8)))
        return Event(
            at_ms + int(after_ms),
            routing_key,
            tenant,
            body,
            f"{order}-{routing_key}",
            "application/json",
            latency,
            error,
        )

    yield event(0, "order.placed", customer=f"c{dice.randint(1, 900)}", items=items, total=total, currency="EUR")
    refused = dice.random() < (0.6 if is_down else 0.03)
    paid_after = 2_000 + dice.random() * 20_000
    yield event(paid_after, "payment.refused" if refused else "payment.captured", amount=total, currency="EUR")
    if not refused:
        sent_after = dice.uniform(0.5, 4) * 3600e3
        yield event(sent_after, "shipment.dispatched", carrier=dice.choice(("dhl", "ups", "post")), parcels=len(items))
        if dice.random() < 0.3:
            yield event(sent_after + 3600e3, "shipment.note")._replace(
                body=b"left with a neighbour", content_type="text/plain"
            )
    yield from _failures(dice, event, is_down, items[0]["sku"])


def _failures(dice: random.Random, event: Any, is_down: bool, goods: Any) -> Iterator[Event]:
    for work, share in FAILS.items():
        if dice.random() >= (FAILS_WHEN_DOWN if is_down and work == "billing.charge" else share):
            continue
        text = ERRORS["billing.down" if is_down and work == "billing.charge" else work]
        error = text and text.format(number=dice.randint(1, 9999), zone=dice.choice("ab"), goods=goods)
        failed: Event = event(dice.random() * 30_000, work, error or "", work=work, attempt=1)
        yield failed
        if work == "billing.charge" and dice.random() < 0.15:
            # Somebody sends it again, and it dies again.
            yield failed._replace(at_ms=failed.at_ms + int(dice.uniform(5, 45) * 60_000))


def messages_of(events: list[Event], day: date, now_ms: int) -> Iterator[Message]:
    """As they are published at `now_ms`."""
    midnight = int(datetime(day.year, day.month, day.day, tzinfo=UTC).timestamp() * 1000)
    for event in events:
        headers: dict[str, Any] = {
            TENANT: event.tenant,
            EVENT_TIME: midnight + event.at_ms,
            PUBLISHED_AT: now_ms - event.latency_ms,
        }
        if event.error:
            headers[ERROR] = event.error
        yield Message(
            event.body,
            routing_key=event.routing_key,
            headers=headers,
            message_id=event.message_id,
            content_type=event.content_type,
            app_id="shop",
            type=event.routing_key.replace(".", "_"),
        )

"""Numbers as RabbitMQ's API gives them: each counter with its rate beside it, and with samples if they are asked for.

The only place where routes reach for statistics: a counter's value comes from the object itself, as it is now, and how
it went lately from broker/statistics."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from leveret.core.tally import ChannelTally, QueueTally
from leveret.management.http.ask import Ask
from leveret.management.http.errors import bad_request
from leveret.management.http.route import Parameter

Described = dict[str, Any]

# Families of numbers, each with parameters of its own for the span of its samples.
MESSAGE_RATES, LENGTHS, DATA_RATES, NODE_STATS = "msg_rates", "lengths", "data_rates", "node_stats"
AGE_S_MAX = 86400

QUEUE_STATS = (
    "ack",
    "deliver",
    "deliver_get",
    "deliver_no_ack",
    "get",
    "get_empty",
    "get_no_ack",
    "publish",
    "redeliver",
)
CHANNEL_STATS = (
    "ack",
    "confirm",
    "deliver",
    "deliver_get",
    "deliver_no_ack",
    "drop_unroutable",
    "get",
    "get_empty",
    "get_no_ack",
    "publish",
    "redeliver",
    "return_unroutable",
)

SPAN_PARAMETERS = tuple(
    Parameter(f"{family}_{what}", meaning, {"type": "integer", "minimum": 1})
    for family in (MESSAGE_RATES, LENGTHS, DATA_RATES, NODE_STATS)
    for what, meaning in (("age", "Seconds of samples that are wanted."), ("incr", "Seconds between two samples."))
)


def span(ask: Ask, family: str) -> tuple[int, int] | None:
    """How far back samples are wanted and how far apart; None if none are."""
    age, incr = ask.query.get(f"{family}_age"), ask.query.get(f"{family}_incr")
    if not age or not incr:
        return None
    wanted = ask.number(f"{family}_age", 0, 1, AGE_S_MAX), ask.number(f"{family}_incr", 0, 1, AGE_S_MAX)
    if wanted[1] > wanted[0]:
        raise bad_request(f"{family}_incr is more than {family}_age")
    return wanted


def details(ask: Ask, thing: Any, name: str, family: str) -> Described:
    """What stands beside a number: its rate, and its samples if the query asks for them."""
    statistics = ask.services.statistics
    wanted = span(ask, family)
    if wanted is None:
        return {"rate": statistics.rate(thing, name)}
    return statistics.details(thing, name, *wanted)


def detailed(ask: Ask, thing: Any, values: Mapping[str, int | float], family: str) -> Described:
    """Every number, and its details."""
    made: Described = {}
    for name, value in values.items():
        made[name] = value
        made[f"{name}_details"] = details(ask, thing, name, family)
    return made


# ---- what has happened to messages


def queue_counts(tally: QueueTally) -> dict[str, int]:
    return {
        name: tally.deliver + tally.deliver_no_ack + tally.get + tally.get_no_ack
        if name == "deliver_get"
        else getattr(tally, name)
        for name in QUEUE_STATS
    }


def channel_counts(tally: ChannelTally) -> dict[str, int]:
    return {
        name: tally.deliver + tally.deliver_no_ack + tally.get + tally.get_no_ack
        if name == "deliver_get"
        else getattr(tally, name)
        for name in CHANNEL_STATS
    }


def message_stats(ask: Ask, thing: Any, counts: Mapping[str, int]) -> Described:
    """Empty, and so left out by callers, as long as nothing happened."""
    if not any(counts.values()):
        return {}
    return detailed(ask, thing, counts, MESSAGE_RATES)

"""Numbers as RabbitMQ's API gives them: each with its rate beside it, and with samples if they are asked for.

How a number went lately comes from operations/statistics; here is decided what of it an answer shows."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from leveret.core.queue.contract import Queue
from leveret.management.http.errors import bad_request
from leveret.management.http.request import Request
from leveret.management.http.route import Parameter
from leveret.operations.statistics.series import Series

Described = dict[str, Any]

# Families of numbers, each with parameters of its own for the span of its samples.
MESSAGE_RATES, LENGTHS, DATA_RATES, NODE_STATS = "msg_rates", "lengths", "data_rates", "node_stats"
AGE_S_MAX = 86400
STILL = {"rate": 0.0}

SPAN_PARAMETERS = tuple(
    Parameter(f"{family}_{what}", meaning, {"type": "integer", "minimum": 1})
    for family in (MESSAGE_RATES, LENGTHS, DATA_RATES, NODE_STATS)
    for what, meaning in (("age", "Seconds of samples that are wanted."), ("incr", "Seconds between two samples."))
)


def span(request: Request, family: str) -> tuple[int, int] | None:
    """How far back samples are wanted and how far apart; None if none are."""
    age, incr = request.query.get(f"{family}_age"), request.query.get(f"{family}_incr")
    if not age or not incr:
        return None
    wanted = request.number(f"{family}_age", 0, 1, AGE_S_MAX), request.number(f"{family}_incr", 0, 1, AGE_S_MAX)
    if wanted[1] > wanted[0]:
        raise bad_request(f"{family}_incr is more than {family}_age")
    return wanted


def detailed(request: Request, thing: Any, values: Mapping[str, Any], family: str) -> Described:
    """Every number, and what stands beside it: its rate, and its samples if the query asks for them. `thing` is what
    the statistics know by these names."""
    made: Described = {}
    wanted = span(request, family)
    if wanted is None and not moves(thing):
        # Most of ten thousand queues; their history is not computed.
        return without_rates(values)
    statistics = request.services.statistics
    for name, value in values.items():
        made[name] = value
        made[f"{name}_details"] = statistics.details(thing, name, *(wanted or ()))
    return made


def without_rates(values: Mapping[str, Any]) -> Described:
    """For what is at rest, and for parts of a node that are not sampled."""
    return {key: what for name, value in values.items() for key, what in ((name, value), (f"{name}_details", STILL))}


def moves(thing: Any) -> bool:
    """Whether something of it has changed in the time of which samples are kept. Only things of the data plane can say;
    others may have."""
    return not hasattr(thing, "series") or isinstance(thing.series, Series)


def message_stats(request: Request, thing: Any, counts: Mapping[str, int]) -> Described:
    """To be merged into a description: without the key as long as nothing was counted."""
    return {"message_stats": detailed(request, thing, counts, MESSAGE_RATES)} if counts else {}


def idle_since(request: Request, queue: Queue) -> Described:
    """When something last happened to a queue that is at rest, as far as that is known."""
    series = queue.series
    if not isinstance(series, Series):
        return {}
    statistics = request.services.statistics
    changed_s = series.changed_at * statistics.interval_s
    if request.services.broker.clock.now_ms() / 1000 - changed_s < 2 * statistics.interval_s:
        return {}
    return {"idle_since": datetime.fromtimestamp(changed_s, UTC).isoformat(timespec="milliseconds")}

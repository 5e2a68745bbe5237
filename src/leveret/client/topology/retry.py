"""Retries with a pause, and a parking lot for what fails for good: one declaration for all it takes.

    orders --nack--> DLX --> orders.retry.10s --after 10 s--> orders
                     DLX --> orders.parking_lot

Owns the shape (`plan`) and the decision what becomes of a message that failed (`next_step`). A message returns to its
queue through the default exchange, not through the exchange it was first published to, because that one may lead to
other queues, too, which have had it; `primary_exchange` makes it the way nevertheless. Never publishes or settles: the
consumer does what the step says."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any, Final, Literal

import msgspec

from leveret.client.topology.arguments import DURATION_MS_MAX
from leveret.client.topology.checks import check
from leveret.client.topology.records import Binding, Exchange, Queue

__all__ = ["RETRY_COUNT_HEADER", "Retry", "Step", "retry_count"]

# Retries from before the message was last published by hand. Leveret's own retries count in the same header.
RETRY_COUNT_HEADER: Final = "x-retry-count"
DEATHS_HEADER: Final = "x-death"


class Step(msgspec.Struct, frozen=True):
    """What to do with a message that failed.

    retry    it is to come back after `delay_s`
    park     retries are used up: to the parking lot
    discard  retries are used up and there is no parking lot: acknowledge it

    If `by_nack`, nack(requeue=False) is all. Otherwise publish it to `exchange` with `routing_key` and `headers` in
    place of its own, without `expiration`, and acknowledge the original after the confirm."""

    action: Literal["retry", "park", "discard"]
    # How often it was retried before.
    count: int
    by_nack: bool = False
    exchange: str = ""
    routing_key: str = ""
    headers: dict[str, Any] = msgspec.field(default_factory=dict)
    delay_s: float = 0.0


class Retry(msgspec.Struct, frozen=True, forbid_unknown_fields=True, repr_omit_defaults=True):
    """`queue` is the queue of work, as a record or by name. `delays_s` are the pauses before the first, second, ...
    retry; the last one is for all that follow. `exchange` is the dead-letter exchange, "<queue>.dlx" if it is not
    named; several queues may share one. `parking_lot` is True for "<queue>.parking_lot", a name, or False for none;
    `parking_lot_key` is its routing key in the dead-letter exchange, its name if none is given.

    With a `primary_exchange`, which is declared before, messages return through it with `primary_routing_key`, by
    default the queue's name, and the queue is bound to it so."""

    queue: Queue | str
    delays_s: tuple[float, ...] = (10,)
    max_retries: int = 3
    exchange: str = ""
    parking_lot: bool | str = True
    parking_lot_key: str = ""
    primary_exchange: str = ""
    primary_routing_key: str = ""

    def __post_init__(self) -> None:
        delays = self.delays_s
        if isinstance(delays, int | float):
            delays = (delays,)
        msgspec.structs.force_setattr(self, "delays_s", tuple(delays))
        _check_retry(self)

    # ---- names

    @property
    def queue_name(self) -> str:
        return self.queue if isinstance(self.queue, str) else self.queue.name

    @property
    def exchange_name(self) -> str:
        return self.exchange or f"{self.queue_name}.dlx"

    @property
    def parking_lot_name(self) -> str | None:
        if isinstance(self.parking_lot, str):
            return self.parking_lot
        return f"{self.queue_name}.parking_lot" if self.parking_lot else None

    @property
    def parking_lot_routing_key(self) -> str:
        return self.parking_lot_key or self.parking_lot_name or ""

    @property
    def return_routing_key(self) -> str:
        return self.primary_routing_key or self.queue_name

    @property
    def retry_queue_names(self) -> tuple[str, ...]:
        """One for each delay. The delay is in the name, so that another one makes another queue instead of a
        conflict; the old queue runs empty and can be deleted then."""
        return tuple(f"{self.queue_name}.retry.{_shown_delay(delay)}" for delay in self.delays_s)

    # ---- what it takes

    def plan(self) -> list[Exchange | Queue | Binding]:
        """The plain records, in the order to declare them. In the dead-letter exchange each queue is bound by its own
        name, the parking lot by its key."""
        given = Queue(self.queue) if isinstance(self.queue, str) else self.queue
        exchange = self.exchange_name
        # Of one kind with the queue of work: what waits or is parked is to be as safe as it was there.
        like: dict[str, Any] = {
            "durable": given.durable,
            "queue_type": "quorum" if given.queue_type == "quorum" else None,
        }
        names = tuple(dict.fromkeys(self.retry_queue_names))
        work = given.replace(dead_letter_exchange=exchange, dead_letter_routing_key=names[0])
        waiting = [
            Queue(
                name,
                message_ttl_ms=_milliseconds(delay),
                dead_letter_exchange=self.primary_exchange,
                dead_letter_routing_key=self.return_routing_key,
                **like,
            )
            for name, delay in dict(zip(self.retry_queue_names, self.delays_s, strict=True)).items()
        ]
        parking_lot = self.parking_lot_name
        parked = [] if parking_lot is None else [Queue(parking_lot, **like)]
        bindings = [Binding(exchange, queue.name, queue.name) for queue in waiting]
        bindings += [Binding(exchange, queue.name, self.parking_lot_routing_key) for queue in parked]
        if self.primary_exchange:
            bindings.append(Binding(self.primary_exchange, given.name, self.return_routing_key))
        return [Exchange(exchange, durable=given.durable), work, *waiting, *parked, *bindings]

    # ---- what becomes of a message

    def count(self, headers: Mapping[str, Any] | None) -> int:
        """How often the message with these headers was retried: its way through these retry queues, not others."""
        return retry_count(headers, self.retry_queue_names)

    def next_step(self, headers: Mapping[str, Any] | None) -> Step:
        """What to do with the message that has these headers and could not be worked on."""
        count = self.count(headers)
        if count >= self.max_retries:
            if self.parking_lot_name is None:
                return Step("discard", count)
            # The history stays in the headers, for whoever comes to look.
            key = self.parking_lot_routing_key
            return Step("park", count, exchange=self.exchange_name, routing_key=key, headers=dict(headers or {}))
        place = min(count, len(self.delays_s) - 1)
        name, delay_s = self.retry_queue_names[place], self.delays_s[place]
        if name == self.retry_queue_names[0]:
            return Step("retry", count, by_nack=True, delay_s=delay_s)
        # Newer brokers do not go on counting in an x-death that a client published. So the count until now goes into
        # a header of its own, and x-death begins anew.
        kept = {key: value for key, value in (headers or {}).items() if key != DEATHS_HEADER}
        kept[RETRY_COUNT_HEADER] = count
        return Step("retry", count, exchange=self.exchange_name, routing_key=name, headers=kept, delay_s=delay_s)


def retry_count(headers: Mapping[str, Any] | None, queues: Collection[str] | None = None) -> int:
    """How often a message was retried, by its headers: how often it expired in a retry queue, as x-death says, and
    x-retry-count from before. `queues` are the retry queues; without them each queue counts in which it expired."""
    if not headers:
        return 0
    before = headers.get(RETRY_COUNT_HEADER)
    count = before if isinstance(before, int) and not isinstance(before, bool) and before > 0 else 0
    deaths = headers.get(DEATHS_HEADER)
    # Anybody may have written the header: what is not as brokers write it does not count.
    for death in deaths if isinstance(deaths, list) else ():
        if not isinstance(death, dict) or death.get("reason") != "expired":
            continue
        if queues is not None and death.get("queue") not in queues:
            continue
        times = death.get("count", 1)
        count += times if isinstance(times, int) and times > 0 else 0
    return int(count)


def _milliseconds(delay_s: float) -> int:
    return round(delay_s * 1000)


def _shown_delay(delay_s: float) -> str:
    milliseconds = _milliseconds(delay_s)
    return f"{milliseconds}ms" if milliseconds % 1000 else f"{milliseconds // 1000}s"


def _check_retry(retry: Retry) -> None:
    name = retry.queue_name
    if not isinstance(name, str) or not name:
        raise ValueError("retry: queue must have a name: dead letters find their way back by it")
    where = f"retry of queue '{name}'"
    if not retry.delays_s:
        raise ValueError(f"{where}: delays_s must have at least one delay")
    for delay in retry.delays_s:
        if isinstance(delay, bool) or not isinstance(delay, int | float) or not 1 <= delay * 1000 <= DURATION_MS_MAX:
            raise ValueError(f"{where}: delays_s must be seconds from 0.001 to ten years, not {delay!r}")
    if isinstance(retry.max_retries, bool) or not isinstance(retry.max_retries, int) or retry.max_retries < 0:
        raise ValueError(f"{where}: max_retries must be a whole number from 0 on, not {retry.max_retries!r}")
    if retry.parking_lot == "":
        raise ValueError(f"{where}: parking_lot must be True, False or a name, not empty text")
    if retry.parking_lot_key and not retry.parking_lot:
        raise ValueError(f"{where}: parking_lot_key is given, but there is no parking_lot")
    if retry.parking_lot_key in retry.retry_queue_names:
        raise ValueError(f"{where}: parking_lot_key is the routing key of a retry queue: parked messages would return")
    if retry.primary_routing_key and not retry.primary_exchange:
        raise ValueError(f"{where}: primary_routing_key is given, but no primary_exchange")
    if retry.primary_exchange and retry.primary_exchange == retry.exchange_name:
        raise ValueError(f"{where}: primary_exchange and the dead-letter exchange must be two")
    if isinstance(retry.queue, Queue):
        _check_work(where, retry, retry.queue)
    for thing in retry.plan():
        check(thing)


def _check_work(where: str, retry: Retry, queue: Queue) -> None:
    if queue.exclusive or queue.auto_delete:
        raise ValueError(f"{where}: queue must be neither exclusive nor auto_delete: retry queues outlive a connection")
    if queue.queue_type == "stream":
        raise ValueError(f"{where}: queue_type must not be stream: a stream has no dead letters")
    wanted = {"dead_letter_exchange": retry.exchange_name, "dead_letter_routing_key": retry.retry_queue_names[0]}
    for field, value in wanted.items():
        if getattr(queue, field) not in (None, value):
            raise ValueError(f"{where}: {field} is {getattr(queue, field)!r} already, but retries need {value!r}")

"""What dead-lettering does to a message: the headers that tell of its deaths, and the keys it goes on with.

Clients parse these headers, so they are RabbitMQ 3.10.8's to the octet, with two things of newer versions:
x-last-death-*, and that x-death stays in order, the newest first. 3.10.8 turns the older deaths around each time, and
then takes a message that a client rejected for one in an endless loop and drops it, or misses the loop. Never routes,
publishes or drops anything. Called by whoever publishes dead letters, and by whoever sends them back to where they
came from.

Clients also write these headers, or send back what they got in other types. Where that crashes RabbitMQ's queue and
takes its messages along, the odd item is kept as it is and an odd count starts again.

What a client has written is shown and counted on, as ever, but says nothing about where a message came from: when a
message with x-death is published, the broker adds a header of its own that no client sees or can write (`claimed`), and
notes in it what it sees of the first death itself. A message without that header has the broker's word in x-death."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from leveret.core.codec.field_types import Int64, Timestamp
from leveret.core.codec.message import Message
from leveret.core.codec.names import name_octets, name_text
from leveret.core.codec.properties import Properties
from leveret.core.codec.tables import ORIGIN_HEADER
from leveret.core.queue import office

REASONS = tuple(office.REASONS.values())

DEATH_HEADERS = frozenset(
    (
        "x-death",
        "x-first-death-exchange",
        "x-first-death-queue",
        "x-first-death-reason",
        "x-last-death-exchange",
        "x-last-death-queue",
        "x-last-death-reason",
        ORIGIN_HEADER,
    )
)
# In the broker's own header until the message has died here.
BY_CLIENT = "by client"

_ONCE = Int64(1)

# One death in x-death, or anything else a client wrote there.
Item = Any


@dataclass(frozen=True, slots=True)
class Origin:
    """A dead letter's first death. The exchange and the keys are octets, ready to publish with; the first key is the
    message's own, the others came from CC. `count` is how often it died in all."""

    queue: str
    reason: str
    exchange: bytes
    routing_keys: tuple[bytes, ...]
    time_s: int
    count: int


def died(
    message: Message, queue: str, reason: str, dead_letter_key: str | None, now_s: int
) -> tuple[Properties, list[bytes]]:
    """The properties of the dead letter, and the keys to route it with: the first is its new routing key.

    Without a dead-letter key it goes by all keys it came with and keeps CC; with one, by that alone. An expiration
    has done its work whatever the reason, and would else kill the message again where it goes."""
    letter: Any = message  # mypy cannot see the fields of a compiled class
    properties: Properties = letter.properties
    headers = dict(properties.headers())
    exchange = name_text(message.exchange)
    copies = _copies(headers, "CC") if properties.has_cc else []
    own_key = message.routing_key
    death: dict[str, Item] = {
        "count": _ONCE,
        "reason": reason,
        "queue": queue,
        "time": Timestamp(now_s),
        "exchange": exchange,
        "routing-keys": [name_text(own_key), *copies],
    }
    if properties.expiration is not None:
        death["original-expiration"] = name_text(properties.expiration)
    if "x-death" not in headers:
        headers["x-first-death-exchange"] = exchange
        headers["x-first-death-queue"] = queue
        headers["x-first-death-reason"] = reason
    if headers.get(ORIGIN_HEADER) == BY_CLIENT:
        headers[ORIGIN_HEADER] = death
    headers["x-death"] = _with_death(headers.get("x-death"), death)
    headers["x-last-death-exchange"] = exchange
    headers["x-last-death-queue"] = queue
    headers["x-last-death-reason"] = reason
    if dead_letter_key is None:
        blind = _copies(headers, "BCC") if properties.has_bcc else []
        keys = [own_key, *map(name_octets, copies), *map(name_octets, blind)]
    else:
        keys = [name_octets(dead_letter_key)]
        headers.pop("CC", None)
        headers.pop("BCC", None)
    changes = {"headers": _by_name(headers), "expiration": None}
    return properties.replace(changes), keys


def claimed(properties: Properties) -> Properties:
    """For a message that a client publishes with x-death in its headers: nothing of that is known to be true."""
    return properties.replace({"headers": {**properties.headers(), ORIGIN_HEADER: BY_CLIENT}})


def is_cycle(properties: Properties, queue: str) -> bool:
    """Whether this dead letter has died in the queue before and no client rejected it since: such a round needs
    nobody to keep it going, and RabbitMQ drops the message instead of publishing it to that queue."""
    # Spares decoding the headers for most targets.
    if name_octets(queue) not in properties.raw:
        return False
    headers = properties.headers()
    deaths = headers.get("x-death")
    # The newest death counts as what it is, even where a client wrote its entry in other types.
    if not isinstance(deaths, list) or headers.get("x-last-death-reason") == "rejected":
        return False
    for death in deaths:
        # What is no death was put there by a client, who therefore had a hand in this round.
        if not isinstance(death, dict) or death.get("reason") == "rejected":
            return False
        if death.get("queue") == queue:
            return True
    return False


def origin(properties: Properties) -> Origin | None:
    """Where the dead letter died first and how it had been published; None if the broker does not know. Of a message
    whose x-death a client wrote, the first death that the broker has seen itself."""
    headers = properties.headers()
    deaths = headers.get("x-death")
    if not isinstance(deaths, list):
        return None
    told = [death for death in deaths if _is_whole(death)]
    if ORIGIN_HEADER in headers:
        first = headers[ORIGIN_HEADER]
        if not _is_whole(first):
            return None
    elif told:
        named = (headers.get("x-first-death-queue"), headers.get("x-first-death-reason"))
        # A death that came again stands in front, so the order does not tell which was first; but it keeps its first
        # time.
        first = min(reversed(told), key=lambda death: ((death["queue"], death["reason"]) != named, death["time"]))
    else:
        return None
    return Origin(
        first["queue"],
        first["reason"],
        name_octets(first["exchange"]),
        tuple(name_octets(key) for key in first["routing-keys"] if isinstance(key, str)),
        int(first["time"]),
        sum(max(1, _number(death.get("count"))) for death in told),
    )


def stripped(properties: Properties) -> Properties:
    """The properties without any word of death; what else dead-lettering took (expiration, CC) stays gone."""
    headers = properties.headers()
    left = {name: value for name, value in headers.items() if name not in DEATH_HEADERS}
    return properties if len(left) == len(headers) else properties.replace({"headers": left or None})


# The x-death array.


def _with_death(deaths: Item, death: dict[str, Item]) -> list[Item]:
    """The array with this death in front. Another death for the same reason in the same queue only counts up: time,
    exchange, keys and original expiration stay those of the first."""
    if not isinstance(deaths, list):
        return [death]
    identity = (death["queue"], death["reason"])
    others = []
    for item in _grouped(deaths):
        if _identity(item) == identity:
            death = {**item, "count": Int64(_wrapped(_number(item.get("count")) + 1))}
        else:
            others.append(item)
    return [_by_name(death), *others]


def _grouped(deaths: list[Item]) -> list[Item]:
    """The array with one death for each queue and reason, and a count in each."""
    if len(deaths) < 2:
        return deaths
    rounds: dict[object, int] = {}
    for item in deaths:
        identity = _identity(item)
        rounds[identity] = rounds.get(identity, 0) + 1
    grouped = []
    for item in deaths:
        identity = _identity(item)
        if identity is None:
            grouped.append(item)
        elif count := rounds.pop(identity, 0):
            if item.get("count") is None:
                item = {"count": Int64(count), **{name: item[name] for name in item if name != "count"}}
            grouped.append(item)
    return grouped


def _identity(item: Item) -> tuple[object, object] | None:
    """What makes two deaths one; None for what is no death."""
    if not isinstance(item, dict):
        return None
    return _comparable(item.get("queue")), _comparable(item.get("reason"))


def _comparable(value: Item) -> object:
    """Equal for equal values of any field type, as in Erlang: text and octets are one, True is not 1, nor is 1.0."""
    if value is None or isinstance(value, str):
        return value
    return name_text(value) if isinstance(value, bytes) else (repr(value),)


def _is_whole(item: Item) -> bool:
    """Whether a death tells all that an origin needs."""
    if not isinstance(item, dict) or not isinstance(item.get("time"), int):
        return False
    keys = item.get("routing-keys")
    if not isinstance(keys, list) or not keys:
        return False
    return all(isinstance(text, str) for text in (item.get("queue"), item.get("reason"), item.get("exchange"), keys[0]))


def _number(count: Item) -> int:
    """A count, 0 if it is none."""
    return int(count) if isinstance(count, int) and not isinstance(count, bool) else 0


def _wrapped(count: int) -> int:
    """What 64 bits show of it: after the highest number comes the lowest."""
    return (count + (1 << 63)) % (1 << 64) - (1 << 63)


# Tables and text.


def _copies(headers: dict[str, Item], name: str) -> list[str]:
    copies = headers.get(name)
    return [copy for copy in copies if isinstance(copy, str)] if isinstance(copies, list) else []


def _by_name(table: dict[str, Item]) -> dict[str, Item]:
    """RabbitMQ sorts a table that it sets a value in."""
    return dict(sorted(table.items()))

"""Topology as a file: TOML or JSON in, records out, and back.

    [[exchanges]]                 [[queues]]               [[bindings]]               [[retries]]
    name = "shop"                 name = "orders"          source = "shop"            queue = "orders"
    type = "topic"                max_length = 1000        destination = "orders"     delays_s = [10, 60]
                                                           routing_key = "order.*"    max_retries = 5

The fields are those of the records. JSON has the same; and the definitions that RabbitMQ exports are read as well, see
rabbitmq_definitions.py. What is unknown or of the wrong type is refused, with its place. Called by the manager and by
whoever wants to look into a file without a broker."""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final, Literal, TypeVar

import msgspec

from leveret.client.topology.checks import check
from leveret.client.topology.methods import Thing
from leveret.client.topology.rabbitmq_definitions import is_definitions, read_definitions
from leveret.client.topology.records import Binding, Exchange, Queue
from leveret.client.topology.retry import Retry
from leveret.client.topology.toml_text import toml_text

__all__ = ["InvalidTopology", "dump_topology", "parse_topology", "read_topology"]

FORMATS: Final = ("toml", "json")
_PLACE: Final = re.compile(r"^(?P<text>.*?)(?: - at `\$?\.?(?P<place>.*)`)?$", re.DOTALL)
T = TypeVar("T")


class InvalidTopology(ValueError):
    """A file that cannot be used. `place` is where in it, such as queues[2].max_length, or empty."""

    def __init__(self, place: str, text: str) -> None:
        super().__init__(place, text)
        self.place = place
        self.text = text

    def __str__(self) -> str:
        return f"{self.place}: {self.text}" if self.place else self.text


class _FileBinding(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    source: str
    destination: str
    routing_key: str = ""
    to: Literal["queue", "exchange"] = "queue"
    arguments: dict[str, Any] = msgspec.field(default_factory=dict)


class _File(msgspec.Struct, forbid_unknown_fields=True):
    exchanges: list[Exchange] = msgspec.field(default_factory=list)
    queues: list[Queue] = msgspec.field(default_factory=list)
    bindings: list[_FileBinding] = msgspec.field(default_factory=list)
    retries: list[Retry] = msgspec.field(default_factory=list)


def read_topology(path: str | Path, virtual_host: str = "/") -> list[Thing | Retry]:
    """What a file declares. Its ending says what it is: .toml or .json."""
    path = Path(path)
    try:
        return parse_topology(path.read_text(encoding="utf-8"), path.suffix.removeprefix("."), virtual_host)
    except InvalidTopology as error:
        raise InvalidTopology(f"{path}: {error.place}" if error.place else str(path), error.text) from None


def parse_topology(text: str, format: str = "toml", virtual_host: str = "/") -> list[Thing | Retry]:
    """What a text declares, ready for Topology.declare. `virtual_host` chooses among the definitions of a whole
    RabbitMQ; our own files are about one virtual host."""
    document = _decode(text, format)
    if is_definitions(document):
        things = read_definitions(document, virtual_host, convert)
    else:
        things = _things_of(convert(document, _File))
    _check_all(things)
    return things


def convert(document: Any, wanted: type[T], place: str = "") -> T:
    """The document as a record. Raises InvalidTopology with the place in the file."""
    try:
        return msgspec.convert(document, wanted)
    except msgspec.ValidationError as error:
        found = _PLACE.match(str(error))
        assert found is not None
        inner = found["place"] or ""
        dot = "." if place and inner and not inner.startswith("[") else ""
        raise InvalidTopology(f"{place}{dot}{inner}", found["text"]) from None


def dump_topology(things: Sequence[Thing | Retry], format: str = "toml") -> str:
    """The text that parse_topology reads back as the same."""
    _check_format(format)
    document = {
        "exchanges": [_plain(thing) for thing in things if isinstance(thing, Exchange)],
        "queues": [_plain(thing) for thing in things if isinstance(thing, Queue)],
        "bindings": [_plain(thing) for thing in things if isinstance(thing, Binding)],
        "retries": [_plain(thing) for thing in things if isinstance(thing, Retry)],
    }
    document = {name: items for name, items in document.items() if items}
    if format == "toml":
        return toml_text(document)
    return json.dumps(document, indent=2, ensure_ascii=False, allow_nan=False, default=_refuse) + "\n"


def _decode(text: str, format: str) -> dict[str, Any]:
    _check_format(format)
    try:
        document = tomllib.loads(text) if format == "toml" else json.loads(text)
    except ValueError as error:
        raise InvalidTopology("", f"this is no {format.upper()}: {error}") from None
    if not isinstance(document, dict):
        raise InvalidTopology("", "a topology is an object with exchanges, queues, bindings and retries")
    return document


def _things_of(file: _File) -> list[Thing | Retry]:
    """A queue that is named in a retry belongs to it: the retry adds to its arguments."""
    queues = {queue.name: queue for queue in file.queues}
    bindings = [
        Binding(item.source, item.destination, item.routing_key, item.to, item.arguments) for item in file.bindings
    ]
    retries = []
    for place, retry in enumerate(file.retries):
        queue = queues.pop(retry.queue, None) if isinstance(retry.queue, str) else None
        try:
            retries.append(msgspec.structs.replace(retry, queue=queue) if queue is not None else retry)
        except ValueError as error:
            raise InvalidTopology(f"retries[{place}]", str(error)) from None
    return [*file.exchanges, *queues.values(), *retries, *bindings]


def _check_all(things: Sequence[Thing | Retry]) -> None:
    """Retries have checked themselves."""
    for thing in things:
        if isinstance(thing, Queue) and not thing.name:
            raise InvalidTopology("queues", "a queue in a file must have a name")
        if not isinstance(thing, Retry):
            try:
                check(thing)
            except ValueError as error:
                raise InvalidTopology("", str(error)) from None


def _check_format(format: str) -> None:
    if format not in FORMATS:
        raise ValueError(f"format must be one of {', '.join(FORMATS)}, not {format!r}")


def _plain(thing: Thing | Retry) -> dict[str, Any]:
    """The fields that are not as they are by default. Well-known arguments stand under their own names only."""
    fields: dict[str, Any] = {}
    for field in msgspec.structs.fields(thing):
        value = getattr(thing, field.name)
        default = field.default if field.default_factory is msgspec.NODEFAULT else field.default_factory()
        if value != default:
            fields[field.name] = value
    if isinstance(thing, Exchange | Queue):
        known = {argument.wire for argument in thing.ARGUMENTS.values()}
        rest = {name: value for name, value in thing.arguments.items() if name not in known}
        fields["arguments"] = rest
        if not rest:
            del fields["arguments"]
    if isinstance(thing, Binding):
        fields["destination"] = str(thing.destination)
    if isinstance(thing, Retry):
        fields["delays_s"] = list(thing.delays_s)
        fields["queue"] = thing.queue if isinstance(thing.queue, str) else _plain(thing.queue)
    return fields


def _refuse(value: Any) -> Any:
    raise ValueError(f"{type(value).__name__} cannot stand in a file: {value!r}")

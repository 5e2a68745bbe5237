"""One archived dead letter as a line of JSON: its body, properties, headers and deaths, and where it stood.

Pure: makes octets of octets. docs/dead-letters.md has the fields, leveret.spark reads them. The id is the same whenever
the same message is archived again, after a crash between the file and the end of the original: by it readers drop
doubles. `wire_properties` are the properties as on the wire, for publishing the message again: JSON loses types."""

from __future__ import annotations

import base64
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any, Final, NamedTuple

import msgspec

from leveret.catalog.records import QueueRecord
from leveret.core.codec.message import HIDDEN_HEADERS, new_message
from leveret.core.codec.names import name_octets
from leveret.core.codec.properties import Properties, parse_properties
from leveret.operations.reprocess.letter import Letter

VERSION: Final = 1
# A body is encoded in pieces, so that no other thread waits long for the interpreter. A multiple of 3: the pieces of
# base64 then fit together.
PIECE_BYTES: Final = 3 * 64 * 1024

_encoder = msgspec.json.Encoder()


class Filed(NamedTuple):
    """What is written of a message, as it was taken from its queue; nothing that the queue still changes."""

    position: int
    exchange: bytes
    routing_key: bytes
    properties: bytes
    body: bytes
    # When it came into the queue, milliseconds.
    arrived_ms: int


class Place(NamedTuple):
    """Where archived messages stood, and who archives them."""

    # Of the data directory: two brokers may archive into one bucket.
    cluster_id: str
    node: str
    queue: QueueRecord
    # Of this life of the broker, for queues that do not survive it.
    life: str
    job: str

    def id_of(self, position: int) -> str:
        record = self.queue
        identity = record.identity if record.id else f"{self.life}-{record.vhost}/{record.name}"
        return f"{self.cluster_id}/{identity}/{position}"


def line_pieces(filed: Filed, place: Place, now_s: float) -> Iterator[bytes]:
    """The line, in pieces."""
    head = _encoder.encode(_described(filed, place, now_s))
    assert head.endswith(b"}")
    yield head[:-1] + b',"body":"'
    for start in range(0, len(filed.body), PIECE_BYTES):
        yield base64.b64encode(filed.body[start : start + PIECE_BYTES])
    yield b'"}\n'


def _described(filed: Filed, place: Place, now_s: float) -> dict[str, Any]:
    properties = parse_properties(filed.properties)
    letter = Letter(new_message(filed.exchange, filed.routing_key, properties, b""))
    origin = letter.origin
    headers = {name: value for name, value in properties.headers().items() if name not in HIDDEN_HEADERS}
    first_death_s = letter.first_death_s
    return {
        "version": VERSION,
        "id": place.id_of(filed.position),
        "archived_at": _moment(now_s),
        "node": place.node,
        "job": place.job,
        "vhost": _text(place.queue.vhost),
        "queue": _text(place.queue.name),
        "position": filed.position,
        "arrived_at": _moment(filed.arrived_ms / 1000),
        "first_death_at": None if first_death_s is None else _moment(first_death_s),
        "source_queue": None if origin is None else _text(origin.queue),
        "source_exchange": None if origin is None else _name(origin.exchange),
        "source_routing_keys": [] if origin is None else [_name(key) for key in origin.routing_keys],
        "reason": None if origin is None else origin.reason,
        "death_count": 0 if origin is None else origin.count,
        "replay_count": letter.replay_count,
        "deaths": _deaths(headers.get("x-death")),
        "exchange": _name(filed.exchange),
        "routing_key": _name(filed.routing_key),
        "properties": {name: _plain(value) for name, value in properties.fields().items() if name != "headers"},
        "headers": _plain(headers),
        "wire_properties": base64.b64encode(_shown(properties, headers).raw).decode("ascii"),
        "body_bytes": len(filed.body),
    }


def _shown(properties: Properties, headers: dict[str, Any]) -> Properties:
    """Without headers that are the broker's own business."""
    return properties if len(headers) == len(properties.headers()) else properties.replace({"headers": headers})


def _deaths(given: Any) -> list[dict[str, Any]]:
    """Of x-death, which clients write too: what is no death there is left to `headers`."""
    found = []
    for death in given if isinstance(given, list) else ():
        if not isinstance(death, dict):
            continue
        keys, time_s = death.get("routing-keys"), death.get("time")
        found.append(
            {
                "queue": _plain_text(death.get("queue")),
                "reason": _plain_text(death.get("reason")),
                "count": _number(death.get("count")),
                "exchange": _plain_text(death.get("exchange")),
                "routing_keys": [_plain_text(key) for key in keys] if isinstance(keys, list) else [],
                "time": _moment(time_s) if isinstance(time_s, int) else None,
                "original_expiration": _plain_text(death.get("original-expiration")),
            }
        )
    return found


def _moment(seconds: float) -> str | None:
    try:
        return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
    except (ValueError, OverflowError, OSError):
        # A client's time that no calendar has.
        return None


def _number(value: Any) -> int:
    return int(value) if isinstance(value, int) and not isinstance(value, bool) else 0


def _plain_text(value: Any) -> str | None:
    return None if value is None else _text(value) if isinstance(value, str) else str(_plain(value))


def _plain(value: Any) -> Any:
    """A value of a table as JSON has it; what JSON cannot say becomes text."""
    if isinstance(value, dict):
        return {_text(name): _plain(inner) for name, inner in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(inner) for inner in value]
    if isinstance(value, str):
        return _text(value)
    if isinstance(value, bytes | bytearray):
        return _name(bytes(value))
    if value is None or isinstance(value, bool | float):
        return value
    return int(value) if isinstance(value, int) else str(value)


def _text(text: str) -> str:
    return name_octets(text).decode("utf-8", "replace")


def _name(octets: bytes) -> str:
    return octets.decode("utf-8", "replace")

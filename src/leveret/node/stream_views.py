"""What a data directory has of streams, as plain data for programs and as text for people. Never reads a file.

Called by `leveret storage`, which is imported with every command line: imports nothing that takes time."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

from leveret.node.storage_views import as_text, moment, pairs, plain_deep

if TYPE_CHECKING:
    from leveret.catalog.records import QueueRecord
    from leveret.storage.stream.entry import StoredEntry
    from leveret.storage.stream.inspect import StreamContents

# How many names a check shows of each stream; a dump shows all.
NAMES_SHOWN_MAX = 20
PROGRESS_S = 2.0


def stream_fields(queue: QueueRecord, contents: StreamContents) -> dict[str, Any]:
    return {
        "vhost": queue.vhost,
        "name": queue.name,
        "id": queue.id,
        "segments": contents.segments,
        "octets": contents.size,
        "first_offset": contents.first_offset,
        "next_offset": contents.next_offset,
        "first_arrived": None if contents.first_ms is None else moment(contents.first_ms),
        "last_arrived": None if contents.last_ms is None else moment(contents.last_ms),
        "producers": _named(contents.producers),
        "consumers": _named(contents.consumers),
    }


def _named(items: dict[bytes, int]) -> dict[str, int]:
    return {name.decode("utf-8", "backslashreplace"): value for name, value in items.items()}


def stream_lines(fields: dict[str, Any]) -> Iterator[str]:
    """As a check tells it."""
    line = f"stream {fields['name']!r} in vhost {fields['vhost']!r}: streams/{fields['id']:010}, "
    line += f"{fields['segments']} segments, {fields['octets']} octets, "
    if fields["first_offset"] == fields["next_offset"]:
        line += f"no messages, next offset {fields['next_offset']}"
    else:
        line += f"first offset {fields['first_offset']}, next offset {fields['next_offset']}"
    if fields["first_arrived"] is not None:
        line += f", arrived {fields['first_arrived']} to {fields['last_arrived']}"
    yield line
    for what, value in (("producer", "publishing id"), ("consumer", "offset")):
        names = fields[f"{what}s"]
        # Those that changed last are at the end.
        for name, number in list(names.items())[-NAMES_SHOWN_MAX:]:
            yield f"  {what} {name!r}: {value} {number}"
        if len(names) > NAMES_SHOWN_MAX:
            yield f"  and {len(names) - NAMES_SHOWN_MAX} {what}s that changed before these"


def entry_fields(entry: StoredEntry, bodies: bool) -> dict[str, Any]:
    fields: dict[str, Any] = {"offset": entry.offset, "file": entry.segment, "place": entry.place}
    if entry.damaged:
        return fields | {"damaged": True}
    fields |= {"kind": entry.kind, "count": entry.count, "size": entry.size, "arrived": moment(entry.stamp_ms)}
    if entry.filter_value is not None:
        fields["filter_value"] = entry.filter_value.decode("utf-8", "backslashreplace")
    fields["exchange"] = entry.exchange.decode("utf-8", "backslashreplace")
    fields["routing_key"] = entry.routing_key.decode("utf-8", "backslashreplace")
    fields["properties"] = plain_deep(entry.properties)
    if bodies:
        text = as_text(entry.body) if entry.kind == "message" else None
        fields["encoding"] = "hex" if text is None else "text"
        fields["body"] = entry.body.hex() if text is None else text
    return fields


def entry_text(fields: dict[str, Any]) -> str:
    if fields.get("damaged"):
        return f"{fields['offset']:>10}  DAMAGED: {fields['file']} at {fields['place']}"
    head = f"{fields['offset']:>10}  {fields['size']:>9} octets  arrived {fields['arrived']}"
    if fields["kind"] != "message":
        head += f"  {fields['kind']} of {fields['count']}" if fields["kind"] == "sub-batch" else f"  {fields['kind']}"
    if "filter_value" in fields:
        head += f"  filter {fields['filter_value']!r}"
    text = f"{head}  exchange {fields['exchange']!r}  key {fields['routing_key']!r}  {pairs(fields['properties'])}"
    if "body" in fields:
        body = fields["body"]
        text += f"\n            {fields['encoding']}: {body if fields['encoding'] == 'hex' else repr(body)}"
    return text


class Progress:
    """Tells people now and then how far it has come, a check of streams unless other words are given."""

    def __init__(
        self,
        clock: Callable[[], float],
        tell: Callable[[str], None],
        verb: str = "checked",
        of: str = " of streams",
    ) -> None:
        self._clock = clock
        self._tell = tell
        self._verb = verb
        self._of = of
        self._last = clock()

    def __call__(self, done: int, total: int) -> None:
        now = self._clock()
        if now - self._last >= PROGRESS_S:
            self._last = now
            self._tell(f"{self._verb} {done >> 20} of {total >> 20} MiB{self._of}")

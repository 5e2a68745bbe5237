"""The messages of a stream's segment, one by one, for people to look at. Never changes anything; blocks."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from leveret.core.codec.properties import parse_properties
from leveret.core.log.record_check import checked_length
from leveret.core.stream.segment import StreamSegment, find_offset, place_of
from leveret.runtime.read_errors import read_around
from leveret.storage.file_head import HEAD_BYTES
from leveret.storage.stream.files import StreamFiles
from leveret.storage.stream.index import read_stream_index
from leveret.storage.stream.search import ENTRY, ENTRY_HEAD_BYTES, RECORD_HEAD_BYTES, claimed_length, find_next_record

WINDOW_BYTES = 1024 * 1024
RAW = 1
SUBBATCH = 2


@dataclass(frozen=True, slots=True)
class StoredEntry:
    """One record with a message, or with several that were published as one. If it is damaged, all that is known is
    which offset should be here, and where it is; what stands between this and the next one is lost."""

    offset: int
    segment: str
    place: int
    damaged: bool = False
    # How many messages it has.
    count: int = 1
    # "message", "amqp 1.0" if that is what the body is, "sub-batch" if it is several of those.
    kind: str = "message"
    size: int = 0
    stamp_ms: int = 0
    exchange: bytes = b""
    routing_key: bytes = b""
    filter_value: bytes | None = None
    properties: dict[str, Any] = field(default_factory=dict)
    body: bytes = b""


def entries_of(segment: StreamSegment, name: str, offset: int, next_offset: int) -> Iterator[StoredEntry]:
    """Those from this offset on up to where the segment ends; `next_offset` is the one behind its last."""
    try:
        fd = os.open(segment.path, os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        # A running broker has just deleted it.
        return
    try:
        for entry in _read(fd, segment, name, *_start(segment, offset)):
            if entry.damaged:
                yield entry
            elif entry.offset >= next_offset:
                return
            elif entry.offset + entry.count > offset:
                yield entry
    finally:
        os.close(fd)


def _start(segment: StreamSegment, offset: int) -> tuple[int, int]:
    """From where on this offset is to be looked for, and which one is there."""
    if segment.index is not None:
        blocks = bytes(segment.copy_index())
    else:
        index = read_stream_index(StreamFiles.index_path(segment.path), segment.number)
        blocks = index.blocks if index is not None else b""
    if not blocks or segment.first_offset >= offset:
        return HEAD_BYTES, int(segment.first_offset)
    at = find_offset(blocks, len(blocks), offset)
    return int(place_of(blocks, at)), int.from_bytes(blocks[at : at + 8], "big")


def _read(fd: int, segment: StreamSegment, name: str, place: int, following: int) -> Iterator[StoredEntry]:
    end = int(segment.end)
    window = WINDOW_BYTES
    while place < end:
        # Sectors that cannot be read are zeros, which are no record.
        data = bytes(read_around(fd, min(window, end - place), place)[0])
        at = 0
        while length := checked_length(data, at, len(data), segment.salt):
            following = max(following, int.from_bytes(data[at + 8 : at + 16], "big"))
            if data[at + 16] == ENTRY:
                entry = _entry(data[at : at + length], name, place + at)
                following = entry.offset + entry.count
                yield entry
            at += length + 7 & ~7
        if at > 0:
            place += at
            window = WINDOW_BYTES
            continue
        claimed = claimed_length(data, 0) if len(data) >= RECORD_HEAD_BYTES else 0
        if len(data) < claimed <= end - place and window < claimed:
            window = claimed
            continue
        yield StoredEntry(following, name, place, damaged=True)
        found = find_next_record(fd, place + 8, end, segment.salt, following)
        if found is None:
            return
        place = found


def _entry(record: bytes, name: str, place: int) -> StoredEntry:
    flags = record[17]
    address_end = ENTRY_HEAD_BYTES + int.from_bytes(record[18:20], "big")
    address = record[ENTRY_HEAD_BYTES:address_end]
    body_at = address_end + int.from_bytes(record[24:28], "big")
    size = int.from_bytes(record[28:32], "big")
    # What stands between the address and the body of the others is not AMQP 0-9-1.
    foreign = flags & (RAW | SUBBATCH)
    return StoredEntry(
        int.from_bytes(record[8:16], "big"),
        name,
        place,
        count=int.from_bytes(record[20:24], "big"),
        kind="sub-batch" if flags & SUBBATCH else "amqp 1.0" if flags & RAW else "message",
        size=size,
        stamp_ms=int.from_bytes(record[32:40], "big"),
        exchange=address[1 : 1 + address[0]] if address else b"",
        routing_key=address[2 + address[0] :] if address else b"",
        filter_value=record[body_at + size :] or None,
        properties={} if foreign else parse_properties(record[address_end:body_at]).fields(),
        body=record[body_at : body_at + size],
    )

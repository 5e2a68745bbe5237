"""Getting out of damaged files what can be read of them: message by message, around bad sectors. Changes nothing.

Reads the list of what was given up and the files in quarantine, or every segment there is. A record counts as whole if
its checksum is good; of others it gives what stands where a message should be, and says which octets are missing. Does
not know names: the catalog does. Called by `leveret storage rescue`; blocks."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from leveret.core.codec.properties import parse_properties
from leveret.core.log.record_check import checked_length
from leveret.core.log.record_search import RecordSearch
from leveret.core.log.records import ADDRESS_SIZE_MASK, MESSAGE_RECORD_HEAD_BYTES
from leveret.errors import LeveretError
from leveret.runtime.read_errors import Holes, hole_in, read_around, read_file_around
from leveret.storage.file_head import HEAD_BYTES, SEGMENT, STREAM, file_salt
from leveret.storage.layout import SEGMENT_SUFFIX, Layout, numbered_files
from leveret.storage.missing import STREAM_NUMBER_BITS
from leveret.storage.quarantine import LIST_FILE, GivenUp, read_list

MESSAGE, PAGED, ENTRY = 1, 2, 6
TARGET_BYTES = 16
# Names in quarantine: a number may follow where there were several files of one name.
_KEPT = re.compile(r"(?:stream-(\d{10})-)?(\d{10})\.segment(?:\.\d+)?")


@dataclass(frozen=True, slots=True)
class SourceFile:
    """A segment of the log or, with `stream_id`, of a stream."""

    path: Path
    name: str
    salt: int
    stream_id: int | None = None


@dataclass(frozen=True, slots=True)
class Rescued:
    """One message. If it is not whole its checksum is wrong, or `holes` are octets of its body that the disk does not
    give; zeros stand there."""

    file: str
    offset: int
    whole: bool
    exchange: bytes
    routing_key: bytes
    properties: dict[str, Any]
    body: bytes
    # In a stream its offset and how many messages the record has; else id and position of every queue it went to.
    stream_offset: int | None = None
    count: int = 1
    targets: list[tuple[int, int]] = field(default_factory=list)
    holes: Holes = field(default_factory=list)


class Rescue:
    def __init__(self, layout: Layout, directory_salt: int) -> None:
        self._layout = layout
        self._salt = directory_salt

    # ---- files

    def files(self, everything: bool) -> list[SourceFile]:
        """Those in quarantine, or all segments."""
        found = self._in(self._layout.quarantine)
        if everything:
            for path in numbered_files(self._layout.log, SEGMENT_SUFFIX).values():
                found.append(self._source(path, None, int(path.stem)))
            for directory in sorted(self._layout.streams.iterdir()) if self._layout.streams.is_dir() else []:
                for path in numbered_files(directory, SEGMENT_SUFFIX).values():
                    found.append(self._source(path, int(directory.name), int(path.stem)))
        return found

    def _in(self, directory: Path) -> list[SourceFile]:
        found = []
        for path in sorted(directory.iterdir()) if directory.is_dir() else []:
            match = _KEPT.fullmatch(path.name)
            if match is not None:
                found.append(self._source(path, int(match[1]) if match[1] else None, int(match[2])))
        return found

    def _source(self, path: Path, stream_id: int | None, number: int) -> SourceFile:
        name = str(path.relative_to(self._layout.root))
        if stream_id is None:
            return SourceFile(path, name, file_salt(self._salt, SEGMENT, number))
        return SourceFile(
            path, name, file_salt(self._salt, STREAM, stream_id << STREAM_NUMBER_BITS | number), stream_id
        )

    # ---- what was given up

    def given_up(self) -> Iterator[tuple[GivenUp, Rescued | None]]:
        """Every line of the list about a queue or a stream, with what can be read of it now; None if that is
        nothing."""
        kept = self._in(self._layout.quarantine)
        for line in read_list(self._layout.quarantine / LIST_FILE):
            if line.queue:
                found = [self._read_line(line, source) for source in self._sources_of(line, kept)]
                # The one that has most of it: a copy may be older than the damage.
                best = max((one for one in found if one is not None), key=_quality, default=None)
                yield line, best

    def _sources_of(self, line: GivenUp, kept: list[SourceFile]) -> list[SourceFile]:
        path = self._layout.root / line.file
        stream_id = int(path.parent.name) if path.parent.parent == self._layout.streams else None
        if not path.stem.isdecimal():
            return []
        source = self._source(path, stream_id, int(path.stem))
        same = [one for one in kept if one.salt == source.salt]
        return [source, *same] if path.exists() else same

    @staticmethod
    def _read_line(line: GivenUp, source: SourceFile) -> Rescued | None:
        fd = os.open(source.path, os.O_RDONLY | os.O_CLOEXEC)
        try:
            data, holes = read_around(fd, line.length, line.offset)
        finally:
            os.close(fd)
        return _salvaged(source, bytes(data), line.offset, holes)

    # ---- whole files

    @staticmethod
    def messages(source: SourceFile) -> Iterator[Rescued]:
        """Every message of the file, those with holes among them where it is clear where they end."""
        data, holes = read_file_around(source.path)
        search = RecordSearch(data, source.salt)
        at, end = HEAD_BYTES, len(data)
        while at + MESSAGE_RECORD_HEAD_BYTES <= end:
            length = checked_length(data, at, end, source.salt) or _end_of_broken(data, at, source.salt, holes)
            if not length:
                found: int = search.find(at + 8, 0)
                if found < 0:
                    return
                at = found
                continue
            rescued = _salvaged(source, data[at : at + length], at, holes)
            if rescued is not None:
                yield rescued
            at += length + 7 & ~7


def _quality(rescued: Rescued) -> tuple[bool, int]:
    return rescued.whole, -sum(end - start for start, end in rescued.holes)


def _end_of_broken(data: bytes, at: int, salt: int, holes: Holes) -> int:
    """The length of a record with a hole or a wrong checksum, if a good one stands where it says it ends; else 0."""
    length = int.from_bytes(data[at + 4 : at + 8], "big")
    following = at + (length + 7 & ~7)
    if length < MESSAGE_RECORD_HEAD_BYTES or following >= len(data) or hole_in(holes, at, at + 8) is not None:
        return 0
    return length if checked_length(data, following, len(data), salt) else 0


def _salvaged(source: SourceFile, record: bytes, offset: int, holes: Holes) -> Rescued | None:
    """What the record of a message has; None if it is none, or where its body is cannot be told."""
    if len(record) < MESSAGE_RECORD_HEAD_BYTES or record[16] not in (MESSAGE, PAGED, ENTRY):
        return None
    address_end = MESSAGE_RECORD_HEAD_BYTES + (int.from_bytes(record[18:20], "big") & ADDRESS_SIZE_MASK)
    body_at = address_end + int.from_bytes(record[24:28], "big")
    body_end = body_at + int.from_bytes(record[28:32], "big")
    if body_end > len(record) or hole_in(holes, offset, offset + body_at) is not None:
        return None
    address = record[MESSAGE_RECORD_HEAD_BYTES:address_end]
    is_entry = record[16] == ENTRY
    try:
        # What came by the stream protocol has none: its body is AMQP 1.0.
        properties = {} if is_entry and record[17] else parse_properties(record[address_end:body_at]).fields()
    except (LeveretError, ValueError):
        return None
    length = int.from_bytes(record[4:8], "big")
    inside = [(start - offset - body_at, end - offset - body_at) for start, end in holes]
    size = body_end - body_at
    return Rescued(
        source.name,
        offset,
        checked_length(record, 0, len(record), source.salt) == length,
        address[1 : 1 + address[0]] if address else b"",
        address[2 + address[0] :] if address else b"",
        properties,
        record[body_at:body_end],
        int.from_bytes(record[8:16], "big") if is_entry else None,
        int.from_bytes(record[20:24], "big") if is_entry else 1,
        [] if is_entry else _targets(record, body_end),
        [(max(start, 0), min(end, size)) for start, end in inside if start < size and end > 0],
    )


def _targets(record: bytes, at: int) -> list[tuple[int, int]]:
    count = int.from_bytes(record[20:24], "big")
    found = []
    for start in range(at, min(at + count * TARGET_BYTES, len(record) - TARGET_BYTES + 1), TARGET_BYTES):
        found.append(
            (int.from_bytes(record[start : start + 8], "big"), int.from_bytes(record[start + 8 : start + 16], "big"))
        )
    return found

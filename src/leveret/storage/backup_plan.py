"""What a backup takes: which files of the data directory, and how much of each, as of one moment between two batches.

The moment is taken on the loop while nothing is being written; the files' thread then gives every file a second name in
staging/, before it deletes or replaces anything else. From there they can be copied at leisure: nothing that the broker
does later changes the octets that count. Called by storage.backup."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from leveret.core.log.journal import Journal
from leveret.core.stream.log import StreamLog
from leveret.core.stream.segment import StreamSegment
from leveret.errors import BackupError
from leveret.storage.catalog_log import CatalogLog
from leveret.storage.file_head import HEAD_BYTES
from leveret.storage.holdings import CREATED, SEALED, SYNCED, THE_LOG, Event, Holdings
from leveret.storage.layout import FORMAT_FILE, INDEX_SUFFIX, LINK_KEY_FILE, Layout
from leveret.storage.stream.index import read_stream_index
from leveret.storage.streams import Streams

NO_SEGMENT = -1


@dataclass(frozen=True, slots=True)
class Piece:
    """One file: the first `size` octets, and `tail` behind them."""

    path: Path
    size: int
    # Nothing is written to it any more, so it may be linked.
    whole: bool
    stream: int = NO_SEGMENT
    number: int = 0
    tail: bytes = b""


@dataclass(frozen=True, slots=True)
class Point:
    """The moment: what counts of each file, and how far everything was synced."""

    pieces: list[Piece]
    # By stream, 0 for the log.
    synced: dict[int, int]


def take_point(catalog: CatalogLog, journal: Journal, streams: Streams) -> Point:
    """On the loop, while commits are held."""
    path, end, pending = catalog.point()
    # Commands that are not written yet go along: whatever they made or deleted, the rest of this point knows of.
    pieces = [Piece(path, end, False, tail=pending)]
    for segment in journal.segments.values():
        if not segment.paging and segment.written > HEAD_BYTES:
            # A start may cut one off that has no index yet.
            whole = segment.sealed and segment.written == segment.end and segment.index is None
            pieces.append(Piece(segment.path, segment.written, whole, THE_LOG, segment.id))
    synced = {THE_LOG: int(journal.synced_sequence)}
    for stream in streams.logs.values():
        synced[stream.id] = int(stream.committed_offset)
        for segment, end in _written(stream).items():
            if end > HEAD_BYTES:
                # One that is sealed is cut to its length before its index leaves memory.
                whole = segment is not stream.segment and end == segment.end and segment.index is None
                pieces.append(Piece(segment.path, end, whole, stream.id, segment.number))
    return Point(pieces, synced)


def _written(stream: StreamLog) -> dict[StreamSegment, int]:
    """How far its segments are written: all but what the open part has."""
    ends = {segment: int(segment.end) for segment in stream.segments}
    if stream.segment is not None:
        ends[stream.segment] = int(stream.piece_place)
    for segment, _, _, place in stream.pieces:
        ends[segment] = place
    return ends


def stage(layout: Layout, point: Point, live: Holdings) -> tuple[list[Piece], Holdings]:
    """Gives the files their second names, and tells which there are, with what their manifest is to say. Blocks: in the
    files' thread, and before anything that was handed to it after the moment."""
    shutil.rmtree(layout.staging, ignore_errors=True)
    holdings = Holdings(last_number=live.last_number)
    pieces = []
    others = [layout.root / FORMAT_FILE]
    if (layout.root / LINK_KEY_FILE).exists():
        # Without it the passwords of links would be of no use where the backup is restored.
        others.append(layout.root / LINK_KEY_FILE)
    for piece in [*point.pieces, *(Piece(path, 0, True) for path in others)]:
        try:
            _link(layout, piece.path)
        except FileNotFoundError:
            if piece.stream == NO_SEGMENT or piece.number in live.of(piece.stream):
                raise BackupError(f"{piece.path} is missing") from None
            # It was dead, and on its way out already.
            continue
        pieces.append(piece)
        if piece.stream != NO_SEGMENT:
            pieces += _index_of(layout, piece)
            for event in _events(piece, live):
                holdings.apply(event)
    for stream, last in point.synced.items():
        holdings.apply(Event(SYNCED, stream, 0, 0, 0, last))
    return pieces, holdings


def staged(layout: Layout, path: Path) -> Path:
    return layout.staging / path.relative_to(layout.root)


def _link(layout: Layout, path: Path) -> None:
    target = staged(layout, path)
    target.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    os.link(path, target)


def _index_of(layout: Layout, piece: Piece) -> Iterator[Piece]:
    """The index beside it, if it says nothing of what came after the moment."""
    path = piece.path.with_suffix(INDEX_SUFFIX)
    if not piece.whole:
        index = read_stream_index(path, piece.number) if piece.stream != THE_LOG else None
        if index is None or index.end > piece.size:
            return
    if path.exists():
        _link(layout, path)
        yield Piece(path, 0, True)


def _events(piece: Piece, live: Holdings) -> Iterator[Event]:
    yield Event(CREATED, piece.stream, piece.number)
    held = live.of(piece.stream).get(piece.number)
    if piece.whole and held is not None and held.sealed:
        yield Event(SEALED, piece.stream, piece.number, held.end, held.first, held.last, held.messages)

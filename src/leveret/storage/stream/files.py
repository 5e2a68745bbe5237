"""The files of streams: a directory for each, with segments and their indexes; open descriptors; deleting.

A segment is named on the loop, which touches nothing. Its file is made, and its name synced, by the opener's thread
(storage.stream.opener) before the first batch goes into it."""

from __future__ import annotations

import os
import shutil
from collections import OrderedDict
from collections.abc import Collection, Iterable
from pathlib import Path

from leveret.core.stream.log import StreamLog
from leveret.core.stream.segment import StreamSegment
from leveret.runtime.files import SHORTAGES, remove_files, replace_file, sync_directory, write_all
from leveret.runtime.log import get_logger
from leveret.storage.damage import Damage, DamageReport
from leveret.storage.file_head import HEAD_BYTES, STREAM, encode_head, file_salt
from leveret.storage.holdings import ALL, CREATED, REMOVED, SEALED, Event
from leveret.storage.layout import INDEX_SUFFIX, SEGMENT_SUFFIX, Layout, numbered_files
from leveret.storage.manifest import Manifest
from leveret.storage.missing import STREAM_NUMBER_BITS as NUMBER_BITS
from leveret.storage.missing import segment_path
from leveret.storage.open_readers import OpenReaders
from leveret.storage.reconcile import reconcile
from leveret.storage.stream.index import StreamIndex, encode_stream_index

log = get_logger(__name__)

# Descriptors kept open for writing and for reading, unless the store has fewer; the others are opened when needed.
WRITERS_MAX = 256
READERS_MAX = 64


class StreamFiles:
    def __init__(self, layout: Layout, directory_salt: int, manifest: Manifest | None = None) -> None:
        """One that only looks needs no manifest: nothing is ever noted in it."""
        self._layout = layout
        self._directory_salt = directory_salt
        self.manifest = manifest or Manifest(layout, directory_salt)
        self._writers: OrderedDict[StreamSegment, int] = OrderedDict()
        self._readers: OpenReaders[StreamSegment] = OpenReaders(READERS_MAX, sequential=True)
        self.writers_max = WRITERS_MAX
        # Segments that the manifest has not got yet: those nothing is written to, and those whose batch is on its way.
        self._unrecorded: set[StreamSegment] = set()
        self._recordable: list[StreamSegment] = []
        # No longer needed, but perhaps in use by a thread.
        self._retired: list[int] = []

    # ---- names

    def directory(self, stream_id: int) -> Path:
        return self._layout.streams / f"{stream_id:010}"

    def segment_path(self, stream_id: int, number: int) -> Path:
        return segment_path(self._layout, stream_id, number)

    def stream_ids(self) -> list[int]:
        """The streams that have a directory."""
        return sorted(int(path.name) for path in self._layout.streams.iterdir() if path.name.isdecimal())

    def segments(self, stream_id: int) -> dict[int, Path]:
        directory = self.directory(stream_id)
        return numbered_files(directory, SEGMENT_SUFFIX) if directory.exists() else {}

    def indexes(self, stream_id: int) -> dict[int, Path]:
        directory = self.directory(stream_id)
        return numbered_files(directory, INDEX_SUFFIX) if directory.exists() else {}

    def reconcile(self, stream_id: int, report: DamageReport) -> list[Damage]:
        """What the manifest has of the stream and the directory has not; reported."""
        paths = self.segments(stream_id)
        return reconcile(self._layout, self._directory_salt, self.manifest, report, stream_id, paths)

    def leftovers(self, stream_id: int) -> list[Path]:
        """Indexes whose segment is gone, and half-written ones."""
        directory = self.directory(stream_id)
        lone = [path for path in self.indexes(stream_id).values() if not path.with_suffix(SEGMENT_SUFFIX).exists()]
        return lone + (sorted(directory.glob("*.new")) if directory.exists() else [])

    def salt(self, stream_id: int, number: int) -> int:
        return file_salt(self._directory_salt, STREAM, stream_id << NUMBER_BITS | number)

    @staticmethod
    def index_path(segment: Path) -> Path:
        return segment.with_suffix(INDEX_SUFFIX)

    # ---- making

    def plan(self, log: StreamLog) -> StreamSegment:
        """The stream's next segment; it has no file yet."""
        number = log.segments[-1].number + 1 if log.segments else 1
        path = self.segment_path(log.id, number)
        return StreamSegment(number, self.salt(log.id, number), path, log.next_offset, HEAD_BYTES)

    @staticmethod
    def make_directory(directory: Path) -> bool:
        """A stream's directory is there: whether it is new. Blocks."""
        try:
            directory.mkdir(mode=0o700)
        except FileExistsError:
            return False
        return True

    def create(self, stream_id: int, segment: StreamSegment) -> int:
        """Makes the file of a segment that was planned: its descriptor. The name is not synced yet; if it fails, there
        is no file. Blocks."""
        fd = os.open(segment.path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        try:
            write_all(fd, encode_head(STREAM, stream_id << NUMBER_BITS | segment.number, self._directory_salt))
        except BaseException:
            os.close(fd)
            # The next try needs the name.
            segment.path.unlink()
            raise
        return fd

    def made(self, segment: StreamSegment) -> None:
        """On the loop, once its file is there. The manifest gets it when its first batch is synced: until then a crash
        may leave a file without so much as a head."""
        self._unrecorded.add(segment)

    # ---- descriptors

    def writer(self, segment: StreamSegment) -> int:
        """The descriptor of a segment that was opened before, to write to it."""
        if segment in self._unrecorded:
            self._unrecorded.remove(segment)
            self._recordable.append(segment)
        self._writers.move_to_end(segment)
        return self._writers[segment]

    def has_writer(self, segment: StreamSegment) -> bool:
        return segment in self._writers

    def opened(self, segment: StreamSegment, fd: int) -> None:
        if segment.gone:
            # Deleted meanwhile: nothing is written to it any more.
            os.close(fd)
        else:
            assert segment not in self._writers
            self._writers[segment] = fd

    def close_idle(self, needed: Collection[StreamSegment], unsynced: Collection[int]) -> int:
        """Closes what is neither needed now nor has anything that is not synced: how many that were. Only while nothing
        is being written."""
        idle = [segment for segment, fd in self._writers.items() if segment not in needed and fd not in unsynced]
        for segment in idle:
            os.close(self._writers.pop(segment))
        return len(idle)

    def all_synced(self) -> None:
        """Nothing is being written, and all that was is safe: descriptors that are not needed may be closed, and the
        manifest may have the segments whose files are safe now."""
        for segment in self._recordable:
            if not segment.gone:
                self.manifest.note(Event(CREATED, _stream_of(segment), segment.number))
        self._recordable.clear()
        for fd in self._retired:
            os.close(fd)
        self._retired.clear()
        while len(self._writers) > self.writers_max:
            os.close(self._writers.popitem(last=False)[1])

    def hold_reader(self, segment: StreamSegment) -> int:
        """A descriptor to read the segment with, open until `release_reader`, even if the file is deleted meanwhile."""
        return self._readers.hold(segment, segment.path)

    def release_reader(self, segment: StreamSegment) -> None:
        self._readers.release(segment)

    def limit(self, writers: int, readers: int) -> None:
        """How many descriptors are kept open from now on."""
        self.writers_max = writers
        self._readers.idle_max = readers

    def trim_readers(self) -> None:
        """Closes what was not used for long, or is gone, unless it is being read."""
        for segment in self._readers.open_keys():
            if segment.gone:
                self._readers.drop(segment)
        self._readers.trim()

    def retire(self, segment: StreamSegment) -> None:
        """Nothing more is to be written to it, but perhaps something is being written."""
        fd = self._writers.pop(segment, None)
        if fd is not None:
            self._retired.append(fd)

    def close_writer(self, segment: StreamSegment) -> None:
        """All of it is written and safe."""
        fd = self._writers.pop(segment, None)
        if fd is not None:
            os.close(fd)

    # ---- indexes, deleting; these block

    def write_index(self, segment: StreamSegment, index: StreamIndex) -> None:
        if not segment.gone:
            replace_file(self.index_path(segment.path), encode_stream_index(index))
            if index.sealed:
                ends = (index.end, index.first_offset, index.next_offset, index.next_offset - index.first_offset)
                self.manifest.note(Event(SEALED, _stream_of(segment), segment.number, *ends))

    def give_room_back(self, segment: StreamSegment) -> None:
        """Nothing more is written to it, and all of it is safe: what was reserved is free again."""
        if not segment.gone:
            assert segment.synced == segment.end, "something is on its way to the file"
            os.truncate(segment.path, segment.end)

    def write_last_index(self, segment: StreamSegment, index: StreamIndex) -> None:
        """At the end: nothing is lost if it is, a restart only takes longer."""
        new = segment.path.with_suffix(".new")
        new.write_bytes(encode_stream_index(index))
        new.rename(self.index_path(segment.path))

    def remove(self, segments: Iterable[StreamSegment]) -> None:
        """Deletes them for good, the oldest first; damaged ones are moved aside."""
        segments = list(segments)
        self.manifest.record(*(Event(REMOVED, _stream_of(segment), segment.number) for segment in segments))
        for segment in segments:
            if segment.damaged and segment.path.exists():
                segment.path.rename(self._layout.quarantined(segment.path))
                sync_directory(self._layout.quarantine)
            if segment.path.parent.exists():
                remove_files([segment.path, self.index_path(segment.path)])

    def remove_stream(self, stream_id: int) -> None:
        """Deletes its directory and all that is in it for good; may be repeated after a shortage. After another error
        the rest stays for the next start to remove: it holds no message that anybody may have."""
        directory = self.directory(stream_id)
        self.manifest.removed(stream_id, [ALL])
        try:
            shutil.rmtree(directory)
        except FileNotFoundError:
            pass
        except OSError as error:
            if error.errno in SHORTAGES:
                raise
            log.warning("the directory of a deleted stream cannot be removed", stream=stream_id, error=error.strerror)
        sync_directory(directory.parent)

    def close(self) -> None:
        for fd in [*self._writers.values(), *self._retired]:
            os.close(fd)
        self._writers.clear()
        self._readers.close()
        self._retired.clear()


def _stream_of(segment: StreamSegment) -> int:
    return int(segment.path.parent.name)

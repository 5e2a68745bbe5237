"""The files of streams: a directory for each, with segments and their indexes; open descriptors; deleting.

A segment's file is made when it is needed, on the loop: that is quick, since nothing is synced. Names are synced with
the first batch that goes into it, before anybody is told."""

from __future__ import annotations

import os
import shutil
from collections import OrderedDict
from collections.abc import Iterable
from pathlib import Path

from leveret.core.stream.log import StreamLog
from leveret.core.stream.segment import StreamSegment
from leveret.runtime.files import remove_files, replace_file, sync_directory, write_all
from leveret.storage.file_head import HEAD_BYTES, STREAM, encode_head, file_salt
from leveret.storage.layout import INDEX_SUFFIX, SEGMENT_SUFFIX, Layout, numbered_files
from leveret.storage.stream.index import StreamIndex, encode_stream_index

# Descriptors kept open for writing and for reading; the others are opened when needed.
WRITERS_MAX = 256
READERS_MAX = 64
NUMBER_BITS = 24


class StreamFiles:
    def __init__(self, layout: Layout, directory_salt: int) -> None:
        self._layout = layout
        self._directory_salt = directory_salt
        self._writers: OrderedDict[StreamSegment, int] = OrderedDict()
        self._readers: OrderedDict[StreamSegment, int] = OrderedDict()
        # Directories in which a name is new, to be synced with the first batch that goes to a file there.
        self._new_names: dict[Path, None] = {}
        # No longer needed, but perhaps in use by a thread.
        self._retired: list[int] = []

    # ---- names

    def directory(self, stream_id: int) -> Path:
        return self._layout.streams / f"{stream_id:010}"

    def stream_ids(self) -> list[int]:
        """The streams that have a directory."""
        return sorted(int(path.name) for path in self._layout.streams.iterdir() if path.name.isdecimal())

    def segments(self, stream_id: int) -> dict[int, Path]:
        directory = self.directory(stream_id)
        return numbered_files(directory, SEGMENT_SUFFIX) if directory.exists() else {}

    def indexes(self, stream_id: int) -> dict[int, Path]:
        directory = self.directory(stream_id)
        return numbered_files(directory, INDEX_SUFFIX) if directory.exists() else {}

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

    def create(self, log: StreamLog) -> StreamSegment:
        """The stream's next segment, with its file open for writing."""
        directory = self.directory(log.id)
        number = log.segments[-1].number + 1 if log.segments else 1
        if not log.segments and not directory.exists():
            directory.mkdir(mode=0o700)
            self._new_names[directory.parent] = None
        path = directory / f"{number:010}{SEGMENT_SUFFIX}"
        fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        try:
            write_all(fd, encode_head(STREAM, log.id << NUMBER_BITS | number, self._directory_salt))
        except OSError:
            # The next try needs the name.
            os.close(fd)
            path.unlink()
            raise
        self._new_names[directory] = None
        segment = StreamSegment(number, self.salt(log.id, number), path, log.next_offset, HEAD_BYTES)
        if len(self._writers) < WRITERS_MAX:
            self._writers[segment] = fd
        else:
            # A message may go to thousands of streams.
            os.close(fd)
        return segment

    def take_new_names(self, segment: StreamSegment) -> list[int]:
        """Descriptors of the directories that must be synced with this segment; closed once that is safe."""
        directory = segment.path.parent
        fds = []
        for path in (directory, directory.parent):
            if path in self._new_names:
                del self._new_names[path]
                if path.exists():
                    fds.append(os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC))
        self._retired += fds
        return fds

    def forget_names(self, stream_id: int) -> None:
        """The stream is deleted."""
        self._new_names.pop(self.directory(stream_id), None)

    # ---- descriptors

    def writer(self, segment: StreamSegment) -> int:
        fd = self._writers.get(segment)
        if fd is None:
            fd = self._writers[segment] = os.open(segment.path, os.O_RDWR | os.O_CLOEXEC)
        else:
            self._writers.move_to_end(segment)
        return fd

    def all_synced(self) -> None:
        """Nothing is being written, and all that was is safe: descriptors that are not needed may be closed."""
        for fd in self._retired:
            os.close(fd)
        self._retired.clear()
        while len(self._writers) > WRITERS_MAX:
            os.close(self._writers.popitem(last=False)[1])

    def reader(self, segment: StreamSegment) -> int:
        fd = self._readers.get(segment)
        if fd is None:
            fd = self._readers[segment] = os.open(segment.path, os.O_RDONLY | os.O_CLOEXEC)
            os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_SEQUENTIAL)
        else:
            self._readers.move_to_end(segment)
        return fd

    def trim_readers(self) -> None:
        """Closes what was not used for long, or is gone; only while nothing is being read."""
        for segment in [segment for segment in self._readers if segment.gone]:
            os.close(self._readers.pop(segment))
        while len(self._readers) > READERS_MAX:
            os.close(self._readers.popitem(last=False)[1])

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

    def give_room_back(self, segment: StreamSegment) -> None:
        """Nothing more is written to it: what was reserved is free again."""
        if not segment.gone:
            os.truncate(segment.path, segment.end)

    def write_last_index(self, segment: StreamSegment, index: StreamIndex) -> None:
        """At the end: nothing is lost if it is, a restart only takes longer."""
        new = segment.path.with_suffix(".new")
        new.write_bytes(encode_stream_index(index))
        new.rename(self.index_path(segment.path))

    def remove(self, segments: Iterable[StreamSegment]) -> None:
        """Deletes them for good, the oldest first; damaged ones are moved aside."""
        for segment in segments:
            if segment.damaged and segment.path.exists():
                segment.path.rename(self._layout.quarantined(segment.path))
                sync_directory(self._layout.quarantine)
            if segment.path.parent.exists():
                remove_files([segment.path, self.index_path(segment.path)])

    def remove_stream(self, stream_id: int) -> None:
        directory = self.directory(stream_id)
        if directory.exists():
            shutil.rmtree(directory, ignore_errors=True)
            sync_directory(directory.parent)

    def close(self) -> None:
        for fd in [*self._writers.values(), *self._readers.values(), *self._retired]:
            os.close(fd)
        self._writers.clear()
        self._readers.clear()
        self._retired.clear()

"""The manifest on disk: which segments were made, what they came to hold, and which went, so that a file that somebody
deleted, cut or put in another's place is noticed.

A head and records, as the catalog's log has them, each with one event of storage.holdings; written anew when it has
grown to many times what counts. The order is what matters: a segment is recorded once its file is there and before it
can hold anything that was confirmed, and its removal is recorded before its file goes. So whatever the moment of a
crash, a segment that the manifest has and the disk has not was taken away by somebody else.

Never written on the loop nor by a commit: what blocks is called in the files' thread, or at the start and at the end.
A file that cannot be read costs no message: it is reported and made anew from what is there."""

from __future__ import annotations

import errno
import os
import threading
from collections import deque
from collections.abc import Iterable

from leveret.core.log.records import command_record, sealed
from leveret.core.log.scan import Scan
from leveret.runtime.files import (
    SHORTAGES,
    create_file,
    cut_file,
    opened_directory,
    remove_files,
    reserve,
    write_all_at,
)
from leveret.runtime.log import get_logger
from leveret.storage.damage import Damage
from leveret.storage.file_head import HEAD_BYTES, MANIFEST, encode_head, file_salt, head_names
from leveret.storage.holdings import CREATED, REMOVED, STARTED, STOPPED, Event, Holdings, decode_event
from leveret.storage.layout import Layout

log = get_logger(__name__)

NUMBER = 1
# The file is written anew when it has grown by this much and to so many times what it started with.
GROWN_BYTES_MIN = 1024 * 1024
GROWN_FACTOR = 4
# Room behind the end that is taken in advance: on a full disk nothing can be deleted that cannot be recorded first.
RESERVED_BYTES = 64 * 1024
DAMAGED = "the manifest is damaged and made anew: a file that went missing before cannot be told"


class ReadManifest:
    """What the file says. Changes nothing; also for whoever only looks, beside a running broker."""

    def __init__(self, layout: Layout, directory_salt: int) -> None:
        self.path = layout.manifest
        self.salt = file_salt(directory_salt, MANIFEST, NUMBER)
        self.holdings = Holdings()
        self.exists = True
        self.damages: list[Damage] = []
        # Where the last good record ends, its sequence, and how long the file is.
        self.end = HEAD_BYTES
        self.sequence = 0
        self.size = 0
        # Something stands behind the end beside room that was reserved.
        self.is_torn = False
        try:
            data = self.path.read_bytes()
        except FileNotFoundError:
            self.exists = False
            return
        self.size = len(data)
        if head_names(data) != (MANIFEST, NUMBER, directory_salt):
            self._damage(0, HEAD_BYTES)
            return
        self._read(data)

    def _read(self, data: bytes) -> None:
        scan = Scan(self.salt)
        scan.run(data, HEAD_BYTES)
        for start, end, missing in scan.gaps:
            if scan.is_torn(start, missing, scan.synced_sequence):
                # Being written when the power went: nothing was done that relied on it.
                self.is_torn = True
                self._read(data[:start])
                return
            self._damage(start, max(end - start, 1))
        if not scan.records or scan.synced_sequence > scan.last_sequence:
            self._damage(scan.end, 1)
        self.end, self.sequence = scan.end, scan.last_sequence
        self.is_torn = self.is_torn or bool(data[scan.end :].strip(b"\0"))
        for payload in scan.commands:
            event = decode_event(payload)
            if event is None:
                self._damage(HEAD_BYTES, 1)
                return
            self.holdings.apply(event)
        if self.damages:
            # A removal may be among what cannot be read, so nothing can be called missing; how far all was synced
            # still holds.
            self.holdings.segments.clear()

    def _damage(self, offset: int, size: int) -> None:
        self.damages.append(Damage(self.path, offset, size, DAMAGED))

    @property
    def is_usable(self) -> bool:
        return self.exists and not self.damages


class Manifest:
    """`load` first. `created`, `removed` and `record` block and are durable when they return; `note` may be called on
    the loop, and what it is given is written with the next of the others."""

    def __init__(self, layout: Layout, directory_salt: int) -> None:
        self._layout = layout
        self._directory_salt = directory_salt
        self._salt = 0
        self.holdings = Holdings()
        # Held by whoever writes: the files' thread as a rule, the loop only at the start and at the end.
        self._lock = threading.Lock()
        self._noted: deque[Event] = deque()
        self._fd = -1
        self._closed = False
        # Why the contents of the file are unknown, after a failed sync or cut; nothing more is written then. A record
        # behind a hole would be cut with it at the next start, and a segment removed by it called missing.
        self._broken = ""
        self._sequence = 0
        self._synced_sequence = 0
        self._start_bytes = 0
        # Where the next record goes, and up to where there is room for it whatever the disk has.
        self._end = 0
        self._room = 0
        self.writes_total = 0
        self.syncs_total = 0

    # ---- at the start and at the end; these block

    def load(self) -> ReadManifest:
        """What the file says; a torn end is cut. One that is not there or damaged is made with the first events."""
        found = ReadManifest(self._layout, self._directory_salt)
        self.holdings, self._salt = found.holdings, found.salt
        if not found.is_usable:
            return found
        if found.is_torn:
            cut_file(found.path, found.end)
        self._sequence = self._synced_sequence = found.sequence
        self._start_bytes = self._end = found.end
        self._fd = os.open(found.path, os.O_RDWR | os.O_CLOEXEC)
        self._room = found.end if found.is_torn else found.size
        return found

    def started(self, identity: tuple[int, int]) -> None:
        """A broker runs in this directory; whatever recovery has noted is recorded."""
        self.record(Event(STARTED, *identity))

    def stopped(self, events: Iterable[Event]) -> None:
        """In good order: nothing is written to any segment any more."""
        self.record(*events, Event(STOPPED))

    def close(self) -> None:
        with self._lock:
            self._closed = True
            if self._fd >= 0:
                os.close(self._fd)
                self._fd = -1

    # ---- while running

    def note(self, event: Event) -> None:
        self._noted.append(event)

    @property
    def has_notes(self) -> bool:
        return bool(self._noted)

    def created(self, stream: int, number: int) -> None:
        self.record(Event(CREATED, stream, number))

    def removed(self, stream: int, numbers: Iterable[int]) -> None:
        """To be called before any of the files goes; number 0 is all of a stream."""
        events = [Event(REMOVED, stream, number) for number in numbers]
        if events:
            self.record(*events)

    def record(self, *events: Event, sync: bool = True) -> None:
        """These events and those that were noted, in their order."""
        with self._lock:
            noted = [self._noted.popleft() for _ in range(len(self._noted))]
            try:
                self._write([*noted, *events])
            except OSError:
                self._noted.extendleft(reversed(noted))
                raise
            if sync:
                self._sync()

    def _write(self, events: list[Event]) -> None:
        if self._closed:
            raise OSError(errno.ESHUTDOWN, "the store is closed")
        if self._broken:
            raise OSError(errno.EIO, self._broken)
        if self._fd < 0:
            self._apply(events)
            self._rewrite()
            return
        data = bytearray()
        sequence = self._sequence
        for event in events:
            sequence += 1
            data += sealed(command_record(sequence, self._synced_sequence, event.encode()), self._salt)
        if data:
            self._append(data)
        self._sequence = sequence
        self._apply(events)
        if self._is_overgrown:
            self._shrink()

    def _append(self, data: bytearray) -> None:
        """All of it or nothing: whoever could not record something goes on as if it had not happened."""
        self._reserve(self._end + len(data))
        try:
            write_all_at(self._fd, data, self._end)
        except OSError:
            try:
                os.ftruncate(self._fd, self._end)
                self._room = self._end
            except OSError as error:
                raise self._break(f"the manifest cannot be cut: {error.strerror}") from error
            raise
        self._end += len(data)
        self.writes_total += 1

    def _reserve(self, end: int) -> None:
        if end + RESERVED_BYTES // 2 > self._room:
            try:
                reserve(self._fd, end + RESERVED_BYTES)
            except OSError:
                # There is no more room for now; what there is may do.
                return
            self._room = end + RESERVED_BYTES

    def _apply(self, events: list[Event]) -> None:
        for event in events:
            self.holdings.apply(event)

    def _sync(self) -> None:
        if self._synced_sequence == self._sequence:
            return
        self.syncs_total += 1
        try:
            os.fdatasync(self._fd)
        except OSError as error:
            # Never taken for a shortage: the kernel may have forgotten what it could not write.
            raise self._break(f"the manifest cannot be synced: {error.strerror}") from error
        self._synced_sequence = self._sequence

    @property
    def _is_overgrown(self) -> bool:
        return self._end > self._start_bytes + GROWN_BYTES_MIN and self._end > GROWN_FACTOR * self._start_bytes

    def _shrink(self) -> None:
        try:
            self._rewrite()
        except OSError as error:
            if error.errno not in SHORTAGES:
                raise
            # The old file is as good, only longer.
            log.warning("the manifest cannot be written anew", error=error.strerror)

    def _rewrite(self) -> None:
        """A new file with what counts takes the place of the old one, or the old one stays as it is."""
        path = self._layout.manifest
        data = manifest_octets(self.holdings, self._directory_salt)
        # Under another name first: a file that is called right is whole.
        new = path.with_suffix(".new")
        remove_files([new])
        # Everything that may be short is opened before the rename.
        with opened_directory(path.parent) as directory:
            fd = create_file(new, data, len(data) + RESERVED_BYTES)
            try:
                new.rename(path)
            except OSError:
                os.close(fd)
                raise
            if self._fd >= 0:
                os.close(self._fd)
            self._fd = fd
            self._sequence = self._synced_sequence = 1 + sum(1 for _ in self.holdings.events())
            self._start_bytes = self._end = len(data)
            self._room = len(data) + RESERVED_BYTES
            try:
                os.fsync(directory)
            except OSError as error:
                raise self._break(f"the manifest's name cannot be synced: {error.strerror}") from error

    def _break(self, what: str) -> OSError:
        self._broken = what
        return OSError(errno.EIO, what)


def manifest_octets(holdings: Holdings, directory_salt: int) -> bytes:
    """A whole file that comes to this."""
    salt = file_salt(directory_salt, MANIFEST, NUMBER)
    data = bytearray(encode_head(MANIFEST, NUMBER, directory_salt))
    sequence = 0
    for event in holdings.events():
        sequence += 1
        data += sealed(command_record(sequence, 0, event.encode()), salt)
    data += sealed(command_record(sequence + 1, sequence, b""), salt)
    return bytes(data)

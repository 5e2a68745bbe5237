"""A data directory as people look at it: every record checked, or its contents listed. Never changes anything.

Works beside a running broker: what is being written meanwhile looks like a torn end, and a segment that goes away is
left out. Reads one segment at a time; beside that, memory holds what a start would hold, 32 octets a message. Does not
know what the catalog's commands mean: whoever asks does. Called by `leveret storage`."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from leveret.core.properties import parse_properties
from leveret.core.rebuild import QueueBook, Rebuild
from leveret.core.records import ADDRESS_SIZE_MASK, MESSAGE_RECORD_HEAD_BYTES, checked_length
from leveret.core.scan import Scan
from leveret.errors import LeveretError
from leveret.storage.damage import Damage
from leveret.storage.file_head import CATALOG, HEAD_BYTES, SEGMENT, directory_salt_in, file_salt
from leveret.storage.index_file import SegmentIndex, read_index
from leveret.storage.layout import (
    CATALOG_SUFFIX,
    FORMAT_FILE,
    INDEX_SUFFIX,
    LOCK_FILE,
    SEGMENT_SUFFIX,
    Layout,
    numbered_files,
    read_format,
)

SLOT_BYTES = 32
NOTE_BYTES = 32
PLACED = 1


class NotADataDirectory(LeveretError):
    """There is nothing of Leveret's at this path."""


@dataclass(slots=True)
class FileReport:
    """One file. `live` is None where that is no question."""

    name: str
    size: int
    records: int = 0
    messages: int = 0
    live: int | None = None
    damages: int = 0


@dataclass(slots=True)
class Report:
    """What a check found. Damage is what was once safe and is not what it was; notes are worth knowing and no harm."""

    files: list[FileReport] = field(default_factory=list)
    damages: list[Damage] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    messages: int = 0
    queues: int = 0


@dataclass(frozen=True, slots=True)
class StoredMessage:
    """One message of a queue. What stands behind `size` is empty if its record is damaged."""

    position: int
    size: int
    deliveries: int
    segment: str
    offset: int
    damaged: bool = False
    exchange: bytes = b""
    routing_key: bytes = b""
    properties: dict[str, Any] = field(default_factory=dict)
    body: bytes = b""


@dataclass(slots=True)
class _Scanned:
    """A segment after its scan, without its octets."""

    report: FileReport
    path: Path
    gaps: list[tuple[int, int, int]]
    end: int
    rest: int
    first_sequence: int
    last_sequence: int


class Inspection:
    """One look at a directory; make a new one for the next look. `replay` is given the catalog's commands, all at once,
    and answers with the ids of the queues that are there after them; it may add notes to the report."""

    def __init__(self, root: Path, replay: Callable[[list[bytes], Report], set[int]]) -> None:
        self.layout = Layout(root)
        if not (root / FORMAT_FILE).is_file() and not (self.layout.catalog.is_dir() and self.layout.log.is_dir()):
            raise NotADataDirectory(f"{root} is not a data directory of Leveret")
        # Raises StartupError for a format that is not ours.
        salt = read_format(self.layout)
        self.format_damaged = salt is None
        self.salt = self._salt_in_heads() if salt is None else salt
        self._replay = replay
        self._queue_ids: set[int] = set()
        self.report = Report()
        self._rebuild = Rebuild()
        self._scanned: dict[int, _Scanned] = {}
        self._synced = 0
        self._catalog_damaged = False

    # ---- the directory

    def holder(self) -> str | None:
        """The process of the broker that uses the directory at present; None if there is none."""
        try:
            fd = os.open(self.layout.root / LOCK_FILE, os.O_RDONLY | os.O_CLOEXEC)
        except OSError:
            return None
        try:
            fcntl.flock(fd, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            return os.pread(fd, 64, 0).decode("ascii", "replace").strip() or "unknown"
        finally:
            os.close(fd)
        return None

    def _salt_in_heads(self) -> int | None:
        for path in [*self._catalog_files().values(), *self._segment_files().values()]:
            with path.open("rb") as file:
                salt = directory_salt_in(file.read(HEAD_BYTES))
            if salt is not None:
                return salt
        return None

    def _segment_files(self) -> dict[int, Path]:
        return numbered_files(self.layout.log, SEGMENT_SUFFIX) if self.layout.log.is_dir() else {}

    def _catalog_files(self) -> dict[int, Path]:
        return numbered_files(self.layout.catalog, CATALOG_SUFFIX) if self.layout.catalog.is_dir() else {}

    # ---- checking

    def check(self) -> Report:
        """Reads everything there is."""
        if self.format_damaged:
            self._damage(self.layout.root / FORMAT_FILE, 0, "the format file is missing or damaged")
        if self.salt is None:
            self._note("nothing can be checked: neither the format file nor any other says the checksums' salt")
            return self.report
        self._read_catalog()
        numbers = self._segment_files()
        for number, path in numbers.items():
            self._check_segment(number, path, set(numbers))
        for scanned in self._scanned.values():
            self._judge_gaps(scanned)
        self._judge_ends()
        self._count_live()
        self._look_around(numbers)
        return self.report

    def _damage(self, path: Path, offset: int, what: str, size: int = 1, report: FileReport | None = None) -> None:
        self.report.damages.append(Damage(path, offset, size, what))
        if report is not None:
            report.damages += 1

    def _note(self, text: str) -> None:
        self.report.notes.append(text)

    def _check_segment(self, number: int, path: Path, existing: set[int]) -> None:
        assert self.salt is not None
        # Before the segment: one that has an index does not change any more.
        index = read_index(self.layout.index(number), number)
        has_index = index is not None or self.layout.index(number).exists()
        try:
            octets = path.read_bytes()
        except FileNotFoundError:
            # A running broker has just deleted it.
            return
        report = FileReport(self._name(path), len(octets))
        self.report.files.append(report)
        if directory_salt_in(octets[:HEAD_BYTES]) != self.salt:
            self._damage(path, 0, "the head is damaged; nothing is lost by that", HEAD_BYTES, report)
        scan = Scan(file_salt(self.salt, SEGMENT, number))
        scan.run(octets, HEAD_BYTES)
        report.records = scan.records
        report.messages = _placed(scan.notes)
        self._synced = max(self._synced, scan.synced_sequence)
        rest = len(octets[scan.end :].rstrip(b"\0"))
        self._scanned[number] = _Scanned(
            report, path, scan.gaps, scan.end, rest, scan.first_sequence, scan.last_sequence
        )
        del octets
        notes = scan.notes
        if has_index:
            self._check_index(number, index, scan, report.size)
        if index is not None:
            # What a start would go by.
            notes = index.notes
            report.messages = _placed(notes)
        self._rebuild.add_notes(notes, 0, len(notes), number, existing, set())

    def _check_index(self, number: int, index: SegmentIndex | None, scan: Scan, segment_bytes: int) -> None:
        path = self.layout.index(number)
        report = FileReport(self._name(path), path.stat().st_size if path.exists() else 0)
        self.report.files.append(report)
        if index is None:
            self._damage(path, 0, "the index is damaged; the next start makes it anew", report.size, report)
            return
        report.records = len(index.notes) // NOTE_BYTES
        report.messages = _placed(index.notes)
        self._synced = max(self._synced, index.synced_sequence, index.last_sequence)
        if index.end > segment_bytes:
            self._damage(self.layout.segment(number), segment_bytes, "the end of the segment is lost",
                         index.end - segment_bytes, report)  # fmt: skip
        elif not scan.gaps and (scan.end, scan.last_sequence, scan.notes) != (
            index.end,
            index.last_sequence,
            index.notes,
        ):
            self._damage(path, 0, "the index does not say what is in the segment", report.size, report)

    def _judge_gaps(self, scanned: _Scanned) -> None:
        """As recovery does: a torn end is what nothing in the log calls safe."""
        for start, end, missing in scanned.gaps:
            if missing > self._synced:
                self._note(f"{scanned.report.name} at {start}: the torn end of the log; the next start cuts it off")
                return
            self._damage(scanned.path, start, "records are damaged", max(end - start, 1), scanned.report)
        if scanned.rest and scanned.last_sequence >= self._synced:
            self._note(f"{scanned.report.name} at {scanned.end}: the torn end of the log; the next start cuts it off")

    def _judge_ends(self) -> None:
        """Records missing at a segment's end leave no trace there: its neighbour knows, or what was synced later."""
        used = [(number, scanned) for number, scanned in self._scanned.items() if scanned.last_sequence]
        for i, (number, scanned) in enumerate(used):
            if i + 1 == len(used):
                expected = self._synced
            else:
                following, after = used[i + 1]
                if following != number + 1 or (after.gaps and after.gaps[0][0] == HEAD_BYTES):
                    continue
                expected = after.first_sequence - 1
            if scanned.last_sequence < expected:
                size = max(scanned.rest, 1)
                self._damage(scanned.path, scanned.end, "the last records are lost", size, scanned.report)

    def _count_live(self) -> None:
        live: dict[int, int] = {}
        orphans = 0
        for queue_id, book in self._rebuild.books.items():
            if queue_id in self._queue_ids:
                book.finish(live, set())
                self.report.messages += book.count
            else:
                orphans += book.count
        for number, scanned in self._scanned.items():
            scanned.report.live = live.get(number, 0)
        self.report.queues = len(self._queue_ids)
        if orphans and self._catalog_damaged:
            self._note(f"{orphans} messages are of queues that the damaged catalog does not have; "
                       "the next start puts them into queues called leveret.recovered-...")  # fmt: skip
        elif orphans:
            self._note(f"{orphans} messages are of queues that were deleted; their space is given back in time")

    def _look_around(self, numbers: dict[int, Path]) -> None:
        """Whatever else lies there."""
        expected = {*numbers.values(), *(self.layout.index(number) for number in numbers)}
        lone = [path for path in _files_in(self.layout.log) if path not in expected]
        catalogs = list(self._catalog_files().values())
        lone += [path for path in _files_in(self.layout.catalog) if path not in catalogs[-1:]]
        for path in lone:
            known = path.suffix in (INDEX_SUFFIX, ".new") or path in catalogs
            what = "left over from a crash; the next start removes it" if known else "not a file of Leveret's"
            self._note(f"{self._name(path)}: {what}")
        pages = _files_in(self.layout.pages)
        if pages:
            size = sum(path.stat().st_size for path in pages if path.exists())
            self._note(f"pages/: {len(pages)} files, {size} octets of transient messages; removed at every start")
        for path in _files_in(self.layout.quarantine):
            self._note(f"{self._name(path)}: a damaged file that was kept; yours to look at and to delete")

    def _name(self, path: Path) -> str:
        return str(path.relative_to(self.layout.root))

    # ---- the catalog

    def _read_catalog(self) -> None:
        """What exists, as far as it can be read; damage goes into the report."""
        files = self._catalog_files()
        if not files or self.salt is None:
            self._catalog_damaged = True
            self._damage(self.layout.catalog, 0, "there is no catalog")
            return
        number, path = list(files.items())[-1]
        octets = path.read_bytes()
        report = FileReport(self._name(path), len(octets))
        self.report.files.append(report)
        before = len(self.report.damages)
        scan = Scan(file_salt(self.salt, CATALOG, number))
        scan.run(octets, HEAD_BYTES)
        report.records = scan.records
        if directory_salt_in(octets[:HEAD_BYTES]) != self.salt:
            self._damage(path, 0, "the head is damaged; nothing is lost by that", HEAD_BYTES, report)
            before += 1
        for start, end, missing in scan.gaps:
            if missing > scan.synced_sequence:
                self._note(f"{report.name} at {start}: the torn end of the catalog; the next start cuts it off")
                break
            self._damage(path, start, "commands are damaged", max(end - start, 1), report)
        if scan.synced_sequence == 0 or scan.synced_sequence > scan.last_sequence:
            self._damage(path, min(scan.end, len(octets)), "commands are missing", 1, report)
        if scan.end < len(octets) and octets[scan.end :].strip(b"\0"):
            self._note(f"{report.name} at {scan.end}: the torn end of the catalog; the next start cuts it off")
        self._catalog_damaged = len(self.report.damages) > before
        self._queue_ids = self._replay(scan.commands, self.report)

    # ---- contents

    def read_contents(self) -> None:
        """What exists and which messages are where, by the indexes as a start does it: no bodies are read."""
        self._read_catalog()
        if self.salt is None:
            return
        numbers = self._segment_files()
        for number, path in numbers.items():
            index = read_index(self.layout.index(number), number)
            notes = None if index is None else index.notes
            if notes is None:
                scan = Scan(file_salt(self.salt, SEGMENT, number))
                try:
                    scan.run(path.read_bytes(), HEAD_BYTES)
                except FileNotFoundError:
                    continue
                notes = scan.notes
            self._rebuild.add_notes(notes, 0, len(notes), number, set(numbers), set())
        for queue_id in self._queue_ids:
            book = self._rebuild.books.get(queue_id)
            if book is not None:
                book.finish({}, set())

    def message_count(self, queue_id: int) -> int:
        book: QueueBook | None = self._rebuild.books.get(queue_id)
        return 0 if book is None else book.count

    def messages(self, queue_id: int) -> Iterator[StoredMessage]:
        """The queue's messages in order, each read when it is asked for."""
        book: QueueBook | None = self._rebuild.books.get(queue_id)
        slots = b"" if book is None else bytes(book.slots)
        number, fd = -1, -1
        try:
            for at in range(0, len(slots), SLOT_BYTES):
                location = int.from_bytes(slots[at + 8 : at + 16], "big")
                if location >> 32 != number:
                    if fd >= 0:
                        os.close(fd)
                    number = location >> 32
                    fd = _open(self.layout.segment(number))
                yield self._message(slots[at : at + SLOT_BYTES], number, fd)
        finally:
            if fd >= 0:
                os.close(fd)

    def _message(self, slot: bytes, number: int, fd: int) -> StoredMessage:
        assert self.salt is not None
        position = int.from_bytes(slot[:8], "big")
        offset, length, size, deliveries = (int.from_bytes(slot[i : i + 4], "big") for i in (12, 16, 20, 24))
        name = self._name(self.layout.segment(number))
        record = os.pread(fd, length, offset) if fd >= 0 else b""
        if checked_length(record, 0, len(record), file_salt(self.salt, SEGMENT, number)) != length:
            return StoredMessage(position, size, deliveries, name, offset, True)
        address_end = MESSAGE_RECORD_HEAD_BYTES + (int.from_bytes(record[18:20], "big") & ADDRESS_SIZE_MASK)
        address = record[MESSAGE_RECORD_HEAD_BYTES:address_end]
        body_at = address_end + int.from_bytes(record[24:28], "big")
        return StoredMessage(
            position,
            size,
            deliveries,
            name,
            offset,
            exchange=address[1 : 1 + address[0]],
            routing_key=address[2 + address[0] :],
            properties=parse_properties(record[address_end:body_at]).fields(),
            body=record[body_at : body_at + size],
        )


def _open(path: Path) -> int:
    try:
        return os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return -1


def _placed(notes: bytearray) -> int:
    """How many messages these notes place."""
    return bytes(notes[NOTE_BYTES - 1 :: NOTE_BYTES]).count(PLACED)


def _files_in(directory: Path) -> list[Path]:
    return sorted(directory.iterdir()) if directory.is_dir() else []

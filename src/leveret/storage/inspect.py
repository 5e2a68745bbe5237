"""A data directory as people look at it: every record checked, or its contents listed. Never changes anything.

Goes by storage.survey, as a start does, so what a start would drop is left out here. Works beside a running broker:
what is being written meanwhile looks like a torn end, and a segment that goes away is left out. Reads one segment at a
time; beside that, memory holds what a start would hold, 32 octets a message. Streams are storage.stream.inspect's. Does
not know what the catalog's commands mean: whoever asks does. Called by `leveret storage`."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from leveret.core.codec.properties import parse_properties
from leveret.core.log.rebuild import QueueBook
from leveret.core.log.record_check import checked_message_length
from leveret.core.log.records import ADDRESS_SIZE_MASK, MESSAGE_RECORD_HEAD_BYTES
from leveret.core.log.scan import Scan
from leveret.core.log.slot_layout import SLOT_BYTES
from leveret.core.queue.delays import due_of
from leveret.errors import LeveretError
from leveret.runtime.read_errors import read_around, read_file_around, read_whole
from leveret.storage.damage import Damage
from leveret.storage.file_head import CATALOG, HEAD_BYTES, SEGMENT, directory_salt_in, file_salt
from leveret.storage.holdings import THE_LOG
from leveret.storage.index_file import NOTE_BYTES, SegmentIndex, placed_count, read_index
from leveret.storage.inspect_manifest import ManifestInspection
from leveret.storage.inspect_report import FileReport, KnownIds, Report
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
from leveret.storage.stream.inspect import StreamsInspection
from leveret.storage.survey import TORN, Step, Survey

# Positions from here on are those of delayed messages, see core.queue.delays.
DELAYED_MIN = 1 << 63


class NotADataDirectory(LeveretError):
    """There is nothing of Leveret's at this path."""


@dataclass(frozen=True, slots=True)
class StoredMessage:
    """One message of a queue, or one that an exchange keeps. What stands behind `priority` is empty if its record is
    damaged."""

    position: int
    size: int
    deliveries: int
    segment: str
    offset: int
    priority: int = 0
    damaged: bool = False
    # When it came or, if it is delayed, was to come, in milliseconds of the wall clock; its own time to live from then.
    stamp_ms: int | None = None
    expiration_ms: int | None = None
    exchange: bytes = b""
    routing_key: bytes = b""
    properties: dict[str, Any] = field(default_factory=dict)
    body: bytes = b""

    @property
    def is_delayed(self) -> bool:
        return self.position >= DELAYED_MIN

    @property
    def due_ms(self) -> int | None:
        """When a delayed message is due; None for any other."""
        due: int = due_of(self.position)
        return due if self.is_delayed else None


class Inspection:
    """One look at a directory; make a new one for the next look. `replay` is given the catalog's commands, all at once,
    and answers with what is there after them; it may add notes to the report. `on_progress` is told how many octets of
    streams a check has read, and how many there are."""

    def __init__(
        self,
        root: Path,
        replay: Callable[[list[bytes], Report], KnownIds],
        on_progress: Callable[[int, int], None] = lambda _done, _total: None,
    ) -> None:
        self.layout = Layout(root)
        if not (root / FORMAT_FILE).is_file() and not (self.layout.catalog.is_dir() and self.layout.log.is_dir()):
            raise NotADataDirectory(f"{root} is not a data directory of Leveret")
        # Raises StartupError for a format that is not ours.
        salt = read_format(self.layout)
        self.format_damaged = salt is None
        self.salt = self._salt_in_heads() if salt is None else salt
        self._replay = replay
        self._known = KnownIds(set(), set(), 0)
        self.report = Report()
        self._books: dict[int, QueueBook] = {}
        self._catalog_damaged = False
        self.streams = StreamsInspection(self.layout, self.salt or 0, self.report, on_progress)

    # ---- the directory

    def holder(self) -> str | None:
        """The process of the broker that uses the directory at present; None if there is none."""
        try:
            fd = os.open(self.layout.root / LOCK_FILE, os.O_RDONLY | os.O_CLOEXEC)
        except FileNotFoundError:
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
        numbers = self._segment_files()
        # The log first: a running broker never writes a message before its queue is in the catalog.
        survey = self._surveyed(numbers)
        self.streams.survey()
        self.read_catalog()
        for number, path in numbers.items():
            if number in survey.sizes:
                self._check_segment(number, path, survey)
        self.report.damages += survey.damages
        for step in survey.steps:
            self._note_step(step)
        for scanned in survey.empty:
            if scanned.rest:
                self._note(f"{self._name(scanned.found.path)}: there is not one good record in it; the next start drops"
                           " it and keeps a copy")  # fmt: skip
        lost_streams = self.streams.lost(self._known, self._catalog_damaged)
        self._count_live(lost_streams)
        self._look_around(numbers)
        self.streams.check(self._known, lost_streams)
        for report in self.report.files:
            report.damages = sum(damage.path == self.layout.root / report.name for damage in self.report.damages)
        return self.report

    def _damage(self, path: Path, offset: int, what: str, size: int = 1) -> None:
        self.report.damages.append(Damage(path, offset, size, what))

    def _note(self, text: str) -> None:
        self.report.notes.append(text)

    def _note_step(self, step: Step) -> None:
        name = self._name(step.path)
        if step.end is None:
            self._note(f"{name}: unfinished end of the log: {step.records} records of a batch that is not whole; "
                       "the next start drops the segment")  # fmt: skip
        elif step.what == TORN:
            self._note(f"{name} at {step.end}: the torn end of the log; the next start cuts it off")
        else:
            self._note(f"{name} at {step.end}: unfinished end of the log: {step.records} records of a batch that is "
                       "not whole; the next start cuts them off")  # fmt: skip

    def _check_segment(self, number: int, path: Path, survey: Survey) -> None:
        report = FileReport(self._name(path), survey.sizes[number], live=0)
        self.report.files.append(report)
        try:
            with path.open("rb") as file:
                head = file.read(HEAD_BYTES)
        except FileNotFoundError:
            # A running broker has just deleted it.
            return
        if directory_salt_in(head) != self.salt:
            self._damage(path, 0, "the head is damaged; nothing is lost by that", HEAD_BYTES)
        found = survey.segments.get(number)
        if found is not None:
            report.messages = placed_count(found.index.notes)
        if number in survey.scans:
            report.records = survey.scans[number].scan.records if found is not None else 0
            self._check_bad_index(number)
        elif found is not None:
            self._check_index(report, path, found.index)

    def _check_bad_index(self, number: int) -> None:
        """There was none to go by; there may be one that is of no use."""
        path = self.layout.index(number)
        if path.exists() and read_index(path, number) is None:
            size = path.stat().st_size
            self.report.files.append(FileReport(self._name(path), size))
            self._damage(path, 0, "the index is damaged; the next start makes it anew", size)

    def _check_index(self, report: FileReport, segment: Path, index: SegmentIndex) -> None:
        """A start believes an index; here it is held against its segment, whose every record is read."""
        assert self.salt is not None
        path = self.layout.index(index.number)
        size = path.stat().st_size if path.exists() else 0
        records = len(index.notes) // NOTE_BYTES
        self.report.files.append(FileReport(self._name(path), size, records, report.messages))
        scan = Scan(file_salt(self.salt, SEGMENT, index.number))
        try:
            data, holes = read_file_around(segment)
        except FileNotFoundError:
            return
        scan.run(data, HEAD_BYTES)
        report.records = scan.records
        for start, end in holes:
            self._damage(segment, start, "the disk cannot read this part of the log", end - start)
        for start, end, _ in scan.gaps:
            self._damage(segment, start, "records are damaged", max(end - start, 1))
        if index.end > report.size:
            # The survey has reported that.
            return
        if scan.last_sequence < index.last_sequence:
            self._damage(segment, scan.end, "the last records are damaged", max(index.end - scan.end, 1))
        elif not scan.gaps and (scan.end, scan.last_sequence, scan.notes) != (
            index.end,
            index.last_sequence,
            index.notes,
        ):
            self._damage(path, 0, "the index does not say what is in the segment", size)

    def _count_live(self, lost_streams: set[int]) -> None:
        live: dict[int, int] = {}
        deleted = lost = 0
        for id, book in self._books.items():
            book.finish(live if id in self._known.queues or id in self._known.exchanges else {}, set())
            if id in self._known.queues:
                self.report.messages += book.count
            elif id in self._known.exchanges:
                continue
            elif self._catalog_damaged or id >= self._known.next_id:
                lost += book.count
            else:
                deleted += book.count
        for report in self.report.files:
            if report.live is not None:
                report.live = live.get(int(Path(report.name).stem), 0)
        self.report.queues = len(self._known.queues)
        if (lost or lost_streams) and not self._catalog_damaged:
            self._damage(self.layout.catalog, 0, "the end of the catalog is lost")
        if lost_streams:
            self._note(f"{len(lost_streams)} streams are not in the damaged catalog; "
                       "the next start calls them leveret.recovered-...")  # fmt: skip
        if lost:
            self._note(f"{lost} messages are of queues that the damaged catalog does not have; "
                       "the next start puts them into queues called leveret.recovered-...")  # fmt: skip
        if deleted:
            self._note(f"{deleted} messages are of queues that were deleted; their space is given back in time")

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

    def read_catalog(self) -> None:
        """What exists, as far as it can be read; damage goes into the report. Raises OSError if nothing can be."""
        files = self._catalog_files()
        if not files or self.salt is None:
            self._catalog_damaged = True
            self._damage(self.layout.catalog, 0, "there is no catalog")
            return
        number, path = list(files.items())[-1]
        octets = read_whole(path)
        report = FileReport(self._name(path), len(octets))
        self.report.files.append(report)
        if directory_salt_in(octets[:HEAD_BYTES]) != self.salt:
            self._damage(path, 0, "the head is damaged; nothing is lost by that", HEAD_BYTES)
        before = len(self.report.damages)
        scan = self._judged_commands(path, octets, file_salt(self.salt, CATALOG, number))
        report.records = scan.records
        if scan.synced_sequence == 0 or scan.synced_sequence > scan.last_sequence:
            self._damage(path, min(scan.end, len(octets)), "commands are missing")
        self._catalog_damaged = len(self.report.damages) > before
        self._known = self._replay(scan.commands, self.report)

    def _judged_commands(self, path: Path, octets: bytes, salt: int) -> Scan:
        """As the catalog's log does at a start: what stands behind a torn place does not count."""
        scan = Scan(salt)
        scan.run(octets, HEAD_BYTES)
        torn_at = next(
            (start for start, _, missing in scan.gaps if scan.is_torn(start, missing, scan.synced_sequence)), scan.end
        )
        if octets[torn_at:].strip(b"\0"):
            self._note(f"{self._name(path)} at {torn_at}: the torn end of the catalog; the next start cuts it off")
            if torn_at < scan.end:
                return self._judged_commands(path, octets[:torn_at], salt)
        for start, end, _ in scan.gaps:
            self._damage(path, start, "commands are damaged", max(end - start, 1))
        return scan

    # ---- contents

    def read_contents(self) -> None:
        """What exists and which messages are where, by the indexes as a start does it: no bodies are read."""
        if self.salt is not None:
            self._surveyed(self._segment_files())
            self.streams.survey()
            self.report.damages += self.streams.damages
        self.read_catalog()
        for id in self._known.queues | self._known.exchanges:
            if id in self._books:
                self._books[id].finish({}, set())

    def _surveyed(self, paths: dict[int, Path]) -> Survey:
        assert self.salt is not None
        manifest = ManifestInspection(self.layout, self.salt)
        paths = dict(paths)
        self.report.damages += manifest.damages
        self.report.damages += manifest.absent(THE_LOG, paths)
        self.report.notes += manifest.lost_before(THE_LOG)
        survey = Survey(self.layout, self.salt, paths, manifest.holdings)
        survey.run()
        self._books = survey.rebuild().books
        return survey

    def message_count(self, id: int) -> int:
        """The messages of a queue, delayed ones among them, or those that an exchange keeps."""
        if id in self._known.streams:
            contents = self.streams.contents(id)
            return contents.next_offset - contents.first_offset
        return self._books[id].count if id in self._books else 0

    def delayed_count(self, id: int) -> int:
        """How many of them are delayed."""
        slots = self._slots(id)
        return sum(slots[at] >= 0x80 for at in range(0, len(slots), SLOT_BYTES))

    def keys(self, id: int) -> list[tuple[int, bytes, int, int]]:
        """The keys that deduplication has seen, as the log has them and core.queue.dedup.DedupWindow takes them
        back."""
        return list(self._books[id].keys) if id in self._books else []

    def _slots(self, id: int) -> bytes:
        book = self._books.get(id)
        return b"" if book is None else bytes(book.slots[: book.count * SLOT_BYTES])

    def messages(self, id: int) -> Iterator[StoredMessage]:
        """In the order of their positions, delayed ones last and by the time when they are due. Each is read when it is
        asked for."""
        slots = self._slots(id)
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
        offset, length, size, deliveries, priority = (
            int.from_bytes(slot[i : i + 4], "big") for i in (12, 16, 20, 24, 28)
        )
        name = self._name(self.layout.segment(number))
        # Sectors that cannot be read are zeros, which no checksum agrees with.
        record = bytes(read_around(fd, length, offset)[0]) if fd >= 0 else b""
        if checked_message_length(record, 0, len(record), file_salt(self.salt, SEGMENT, number)) != length:
            return StoredMessage(position, size, deliveries, name, offset, priority, damaged=True)
        address_end = MESSAGE_RECORD_HEAD_BYTES + (int.from_bytes(record[18:20], "big") & ADDRESS_SIZE_MASK)
        address = record[MESSAGE_RECORD_HEAD_BYTES:address_end]
        body_at = address_end + int.from_bytes(record[24:28], "big")
        properties = parse_properties(record[address_end:body_at])
        return StoredMessage(
            position,
            size,
            deliveries,
            name,
            offset,
            priority,
            stamp_ms=int.from_bytes(record[32:40], "big"),
            expiration_ms=properties.ttl_ms if properties.ttl_ms >= 0 else None,
            exchange=address[1 : 1 + address[0]],
            routing_key=address[2 + address[0] :],
            properties=properties.fields(),
            body=record[body_at : body_at + size],
        )


def _open(path: Path) -> int:
    try:
        return os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        # A running broker has just deleted it; any other error is not taken for damage.
        return -1


def _files_in(directory: Path) -> list[Path]:
    return sorted(directory.iterdir()) if directory.is_dir() else []

"""The list of what was given up: every record that a queue or a stream has passed over, and why.

A line is on disk before the queue lets the message go, so that nothing is dropped without a trace; the record itself
stays in its file, which goes to quarantine/ when nothing else needs it. `leveret storage rescue` goes by this list.
Blocks: for the files' thread, and for starts."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from pathlib import Path

from leveret.runtime.clock import Clock
from leveret.runtime.files import sync_directory, write_all
from leveret.runtime.read_errors import read_file_around
from leveret.storage.layout import Layout

LIST_FILE = "given-up.jsonl"
DAMAGED = "the checksum does not match what was read"
UNREADABLE = "the disk cannot read it"


@dataclass(frozen=True, slots=True)
class GivenUp:
    """One record: `queue` is a name, `position` the place in the queue or the offset in the stream."""

    queue: str
    position: int
    file: str
    offset: int
    length: int
    reason: str


class Quarantine:
    def __init__(self, layout: Layout) -> None:
        self._layout = layout
        self._clock = Clock()
        # (queue, file, offset) of everything that the list has; read when it is first needed.
        self._listed: set[tuple[str, str, int]] | None = None
        self._files: set[str] = set()
        self.records_total = 0

    @property
    def path(self) -> Path:
        return self._layout.quarantine / LIST_FILE

    def name(self, path: Path) -> str:
        """A file as the list names it."""
        return str(path.relative_to(self._layout.root))

    def has(self, path: Path) -> bool:
        """Whether something of this file was given up."""
        self._known()
        return self.name(path) in self._files

    def add(self, records: Iterable[GivenUp]) -> int:
        """Writes down what is not in the list yet, and how many that are; raises OSError if it cannot."""
        listed = self._known()
        new = {(record.queue, record.file, record.offset): record for record in records}
        fresh = {key: record for key, record in new.items() if key not in listed}
        if fresh:
            self._append(fresh.values())
            listed.update(fresh)
            self._files.update(file for _, file, _ in fresh)
            self.records_total += len(fresh)
        return len(fresh)

    def _known(self) -> set[tuple[str, str, int]]:
        if self._listed is None:
            self._listed = {(line.queue, line.file, line.offset) for line in read_list(self.path)}
            self._files = {file for _, file, _ in self._listed}
        return self._listed

    def _append(self, records: Iterable[GivenUp]) -> None:
        at = int(self._clock.wall())
        text = "".join(json.dumps(asdict(record) | {"at": at}, ensure_ascii=False) + "\n" for record in records)
        fd = os.open(self.path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
        try:
            end = os.fstat(fd).st_size
            try:
                write_all(fd, text.encode())
                os.fsync(fd)
            except OSError:
                # Half a line would hide the next one.
                os.ftruncate(fd, end)
                raise
        finally:
            os.close(fd)
        sync_directory(self.path.parent)


def read_list(path: Path) -> list[GivenUp]:
    """What the list has; a line that a crash has cut, or that the disk cannot read, is passed over."""
    try:
        data, _ = read_file_around(path)
    except FileNotFoundError:
        return []
    found = []
    for line in data.decode("utf-8", "replace").splitlines():
        try:
            fields = json.loads(line)
            found.append(GivenUp(*(fields[name] for name in GivenUp.__slots__)))
        except (ValueError, KeyError, TypeError):
            continue
    return found

"""The catalog on disk: every command that changed something durable, in the order it was applied.

What a command says is not known here: it comes and goes as octets. One file counts, the newest. It starts with
what the catalog was when the file was made and goes on with what happened since; when it has grown to many times that,
a new file takes its place. Written by the store together with messages, always before them, so that no message is on
disk whose queue is not."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path

from leveret.core.log.records import command_record, sealed
from leveret.core.log.scan import Scan
from leveret.runtime.files import SHORTAGES, create_file, cut_file, open_directory, remove_files, sync_names
from leveret.runtime.log import get_logger
from leveret.runtime.read_errors import read_whole
from leveret.storage.damage import DamageReport
from leveret.storage.file_head import CATALOG, HEAD_BYTES, encode_head, file_salt
from leveret.storage.layout import CATALOG_SUFFIX, Layout, numbered_files

log = get_logger(__name__)

# A file is written anew when it has grown by this much and to so many times what it started with.
GROWN_BYTES_MIN = 4 * 1024 * 1024
GROWN_FACTOR = 4


class CatalogLog:
    """`load` first; then `append` and, when the disk is free, `take` and `synced`."""

    def __init__(self, layout: Layout, directory_salt: int) -> None:
        self._layout = layout
        self._directory_salt = directory_salt
        self._number = 0
        self._salt = 0
        # Sealed only when written, because a new file has a new salt.
        self._pending: list[bytes] = []
        self._sequence = 0
        self._synced_sequence = 0
        # Octets that the file started with, and where the next record goes.
        self._start_bytes = 0
        self._end = 0
        self.fd = -1
        self.damaged = False
        # Something was appended since the file last said how far it is synced.
        self.owes_evidence = False

    # ---- at the start

    def load(self, report: DamageReport) -> list[bytes]:
        """What the newest file says; a torn end is cut, damage before it reported and passed over."""
        files = numbered_files(self._layout.catalog, CATALOG_SUFFIX)
        if not files:
            return []
        self._number, path = list(files.items())[-1]
        self._salt = file_salt(self._directory_salt, CATALOG, self._number)
        # One that cannot be read stops the start: which queues exist is not guessed.
        data = read_whole(path)
        scan = self._judged(path, data, report)
        self._sequence = self._synced_sequence = scan.last_sequence
        # Not where this run begins: else a file would grow for ever if no run adds much.
        self._start_bytes = scan.first_notes_end or scan.end
        self._end = scan.end
        self.fd = os.open(path, os.O_RDWR | os.O_CLOEXEC)
        remove_files([file for number, file in files.items() if number != self._number])
        return list(scan.commands)

    def _judged(self, path: Path, data: bytes, report: DamageReport) -> Scan:
        scan = Scan(self._salt)
        scan.run(data, HEAD_BYTES)
        for start, end, missing in scan.gaps:
            if scan.is_torn(start, missing, scan.synced_sequence):
                # The end of the log, written when the power went: nobody was told that any of it is safe.
                log.warning("the torn end of the catalog is cut", file=str(path), offset=start)
                cut_file(path, start)
                return self._judged(path, data[:start], report)
            self.damaged = True
            report.add(path, start, max(end - start, 1), "commands of the catalog are lost")
        if scan.synced_sequence > scan.last_sequence:
            self.damaged = True
            report.add(path, scan.end, len(data) - scan.end, "the end of the catalog is lost")
        if scan.end < len(data):
            if data[scan.end :].strip(b"\0"):
                log.warning("the torn end of the catalog is cut", file=str(path), offset=scan.end)
            cut_file(path, scan.end)
        return scan

    # ---- while running

    def append(self, command: bytes) -> None:
        self.owes_evidence = True
        self._pending.append(command)

    def add_evidence(self) -> None:
        """Says in the file that everything before was synced, so that later damage is not taken for a torn end."""
        self.owes_evidence = False
        self._pending.append(b"")

    @property
    def is_dirty(self) -> bool:
        return bool(self._pending)

    @property
    def is_new(self) -> bool:
        """Whether there is no file yet."""
        return self.fd < 0

    @property
    def is_overgrown(self) -> bool:
        return self._end > self._start_bytes + GROWN_BYTES_MIN and self._end > GROWN_FACTOR * self._start_bytes

    def take(self) -> tuple[bytearray, int]:
        """What to write, and where."""
        data = self._sealed_pending()
        self._sequence += len(self._pending)
        self._pending.clear()
        offset = self._end
        self._end += len(data)
        return data, offset

    def _sealed_pending(self) -> bytearray:
        data = bytearray()
        for number, payload in enumerate(self._pending, self._sequence + 1):
            data += sealed(command_record(number, self._synced_sequence, payload), self._salt)
        return data

    def point(self) -> tuple[Path, int, bytes]:
        """The file, how much of it was taken, and what is to follow that."""
        return self._layout.catalog_log(self._number), self._end, bytes(self._sealed_pending())

    def synced(self) -> None:
        """Everything taken so far is on disk."""
        self._synced_sequence = self._sequence

    @property
    def pending_count(self) -> int:
        """How many commands were appended and not taken yet."""
        return len(self._pending)

    def forget_pending(self, count: int) -> None:
        """The first so many that were appended are in the snapshot that was written instead."""
        del self._pending[:count]

    def rewrite(self, commands: Iterable[bytes]) -> None:
        """A new file with these commands takes the place of the old one. Until it is durable under its name, the old
        one is in use: after a shortage, all is as it was. Blocks; nothing may be in flight."""
        number = self._number + 1
        salt = file_salt(self._directory_salt, CATALOG, number)
        data = bytearray(encode_head(CATALOG, number, self._directory_salt))
        sequence = 0
        for command in commands:
            sequence += 1
            data += sealed(command_record(sequence, 0, command), salt)
        sequence += 1
        data += sealed(command_record(sequence, sequence - 1, b""), salt)
        path = self._layout.catalog_log(number)
        fd = self._publish(path, bytes(data))
        self.close()
        old = self._layout.catalog_log(self._number)
        self.fd, self._number, self._salt = fd, number, salt
        self._sequence = self._synced_sequence = sequence
        self._start_bytes = self._end = len(data)
        try:
            remove_files([old])
        except OSError as error:
            if error.errno not in SHORTAGES:
                raise
            # The newest file counts: the next start removes it.
            log.warning("an old file of the catalog is not removed yet", file=str(old), error=error.strerror)

    def _publish(self, path: Path, data: bytes) -> int:
        """Makes the file, durable and whole under its name, or not at all; its descriptor."""
        # Before anything is done that would have to be undone: descriptors may be short.
        directory = open_directory(path.parent)
        try:
            # Under another name first: a file that is called right is whole.
            new = path.with_suffix(".new")
            new.unlink(missing_ok=True)
            fd = create_file(new, data)
            try:
                new.rename(path)
            except BaseException:
                os.close(fd)
                new.unlink(missing_ok=True)
                raise
            # From here on a start takes the new one; if that cannot be made sure, nothing may go on with the old one.
            sync_names(directory)
            return fd
        finally:
            os.close(directory)

    def close(self) -> None:
        if self.fd >= 0:
            os.close(self.fd)
            self.fd = -1

"""A job's way into the archive's files: holds what was taken from the queue until its file is durable, then settles it.

Nothing is settled before: a file that cannot be written or completed puts all its messages back. One failure is enough
for a job, since the next message would meet the same disk; the next job tries again."""

from __future__ import annotations

from typing import Any, Final

from leveret.core.queue.mover import Mover
from leveret.operations.reprocess.archive_files import ArchiveFile, ArchiveFiles
from leveret.operations.reprocess.archive_record import Filed, Place
from leveret.operations.reprocess.letter import Letter
from leveret.runtime.log import get_logger

log = get_logger(__name__)

# Bodies in memory that wait to be written: a step ends when there are more.
PENDING_BYTES_MAX: Final = 4 * 1024 * 1024
NO_DIRECTORY: Final = "there is no directory for the archive; set dead_letters.archive_dir"


class Filing:
    def __init__(self, files: ArchiveFiles | None, place: Place, mover: Mover) -> None:
        self._files = files
        self._place = place
        self._mover: Any = mover
        self._file: ArchiveFile | None = None
        self._pending: list[Filed] = []
        self._pending_bytes = 0
        # Why nothing can be archived, empty if it can; and how many messages were put back for it.
        self.error = ""
        self.put_back = 0
        # Of those that came after it, which were not even taken.
        self.refused = 0
        # The last file that was completed.
        self.written_to = ""

    @property
    def must_write(self) -> bool:
        return self._pending_bytes >= PENDING_BYTES_MAX

    def take(self, letter: Letter) -> str | None:
        """Holds what the mover has taken; why not, if it stays with the mover."""
        if self._files is None:
            self.error = NO_DIRECTORY
        if self.error:
            self.refused += 1
            return self.error
        message = letter.message
        entry = self._mover.taken
        filed = Filed(
            entry.position,
            message.exchange,
            message.routing_key,
            message.properties.raw,
            message.body,
            message.stamp,
        )
        self._mover.hold()
        self._pending.append(filed)
        self._pending_bytes += len(filed.body) + len(filed.properties)
        return None

    async def write(self) -> int:
        """Writes what waits. How many messages were settled, because their file is complete."""
        pending, self._pending, self._pending_bytes = self._pending, [], 0
        if pending and not self.error:
            assert self._files is not None
            try:
                if self._file is None:
                    self._file = self._files.new_file(self._place)
                await self._file.add(pending)
            except OSError as error:
                self._failed(error)
            else:
                return await self.complete() if self._file.full else 0
        return 0

    async def complete(self) -> int:
        """Makes what was written durable, and settles it: how many messages."""
        if self._pending and not self.error:
            await self.write()
        file, self._file = self._file, None
        if file is None:
            return 0
        try:
            await file.complete()
        except OSError as error:
            self._failed(error)
            return 0
        self.written_to = str(file.path)
        settled: int = self._mover.settle_held()
        return settled

    async def abandon(self) -> None:
        self._pending, self._pending_bytes = [], 0
        self._mover.keep_held()
        file, self._file = self._file, None
        if file is not None:
            await file.abandon()

    def _failed(self, error: OSError) -> None:
        self._file = None
        assert self._files is not None
        self.error = f"the archive in {self._files.root} cannot be written: {error.strerror or error}"
        self.put_back += self._mover.keep_held()
        log.error("dead letters cannot be archived and stay where they are", reason=self.error, count=self.put_back)

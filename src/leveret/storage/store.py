"""The store: what a node keeps on disk, as one thing with a small face.

Opened before the loop runs (that is recovery), started on it, closed at the end. Queues get their ledgers here and
never see a file; sessions ask it to hold their answers back until what they did is safe."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from leveret.core.contract import Queue
from leveret.core.glance import Reading
from leveret.core.histogram import Histogram
from leveret.core.journal import Journal
from leveret.core.ledger import Ledger
from leveret.core.queue import ClassicQueue
from leveret.core.rebuild import QueueBook
from leveret.core.segment import Segment
from leveret.core.shelf import Shelf
from leveret.errors import StartupError
from leveret.runtime.files import SHORTAGES
from leveret.runtime.log import get_logger
from leveret.storage.catalog_log import CatalogLog
from leveret.storage.committer import Committer
from leveret.storage.damage import Damage, DamageReport
from leveret.storage.file_head import HEAD_BYTES, directory_salt_in
from leveret.storage.layout import CATALOG_SUFFIX, SEGMENT_SUFFIX, Layout, numbered_files, read_format, write_format
from leveret.storage.loader import Loader
from leveret.storage.reclaim import Reclaimer
from leveret.storage.recovery import RecoveredLog, Recovery, finish_books
from leveret.storage.segment_files import SegmentFiles
from leveret.storage.streams import Streams
from leveret.storage.survey import FoundSegment

log = get_logger(__name__)

SEGMENT_BYTES = 16 * 1024 * 1024
# Body octets that a queue keeps in memory at its head, in peace and when memory is short.
WINDOW_BYTES = 2 * 1024 * 1024
WINDOW_BYTES_PRESSED = 64 * 1024
# What one step of paging lets go at most, so that the loop goes on.
PAGED_BYTES_A_STEP = 4 * 1024 * 1024
PAGED_QUEUES_A_STEP = 4096
# How often a segment that could not be made is tried again.
RETRY_S = 0.5
CLOSE_DEADLINE_S = 5.0


@dataclass(frozen=True, slots=True)
class StoreSettings:
    segment_bytes: int = SEGMENT_BYTES
    # False confirms what is written and not synced: fast on slow disks, and lost with the power.
    sync: bool = True


@dataclass(frozen=True, slots=True)
class IoTotals:
    """What the disk had to do for messages; streams read by other ways."""

    reads: int = 0
    read_bytes: int = 0
    writes: int = 0
    written_bytes: int = 0
    syncs: int = 0


class Store:
    def __init__(self, root: Path, settings: StoreSettings, new_salt: Callable[[], int]) -> None:
        """Locks the directory and recovers what is in it. Blocks."""
        self.root = root
        self._layout = Layout(root)
        self._settings = settings
        try:
            self._layout.make()
        except OSError as error:
            raise StartupError(f"cannot use the data directory {root}: {error.strerror}") from None
        self._lock = self._layout.lock()
        self._report = DamageReport(self._layout)
        try:
            directory_salt = self._directory_salt(new_salt)
            self.catalog = CatalogLog(self._layout, directory_salt)
            self._commands: list[bytes] | None = self.catalog.load(self._report)
            self._recovered: RecoveredLog | None = Recovery(self._layout, directory_salt, self._report).run()
        except BaseException as error:
            self._lock.release()
            if isinstance(error, OSError):
                raise StartupError(f"cannot read the data directory {root}: {error}") from error
            raise
        if not self._commands and self._recovered.segments:
            self.catalog.damaged = True
            self._report.add(self._layout.catalog, 0, 1, "the catalog is lost; its queues are made anew")
        self._segments: dict[int, Segment] = {}
        self._files = SegmentFiles(self._layout, directory_salt, settings.segment_bytes, self._recovered.next_number)
        self.journal = Journal(self._segments, settings.segment_bytes, self._wake)
        self._pager = Journal(self._segments, settings.segment_bytes, self._wake, True)
        self.streams = Streams(self._layout, directory_salt, self.journal)
        self.shelf = Shelf(self._pager, WINDOW_BYTES, self._want)
        self.next_queue_id = max([*self._recovered.books, *self.streams.known_ids()], default=0) + 1
        # Durable queues by id.
        self._queues: dict[int, Any] = {}
        self._committer: Committer | None = None
        self._loader: Loader | None = None
        self._reclaimer: Reclaimer | None = None
        self._to_page: list[Any] = []
        self._waiting: list[tuple[int, asyncio.Future[None]]] = []
        self._tasks: set[asyncio.Task[None]] = set()
        self._making: dict[bool, bool] = {False: False, True: False}
        self._retry: asyncio.TimerHandle | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._rewriting = False
        self.commands_total = 0
        self.failed: str | None = None
        # Told when a batch is safe, when the store fails, and to send what was put into outboxes.
        self.on_synced: Callable[[int], None] = lambda _batch: None
        self.on_failure: Callable[[str], None] = lambda _reason: None
        self.on_calm: Callable[[], None] = lambda: None
        self.kick: Callable[[], None] = lambda: None
        # Told before something that was read is handed on: what time it is counts then.
        self.tick: Callable[[], None] = lambda: None
        self.snapshot: Callable[[], list[bytes]] = list
        self.all_queues: Callable[[], Iterable[Any]] = lambda: ()
        self.collect_unacked: Callable[[int, dict[tuple[int, int], object]], None] = lambda _number, _found: None

    # ---- recovery

    def _directory_salt(self, new_salt: Callable[[], int]) -> int:
        salt = read_format(self._layout)
        if salt is not None:
            return salt
        # No format file: a new directory; or one that lost it, and then every other file knows the salt as well.
        files = list(numbered_files(self._layout.catalog, CATALOG_SUFFIX).values())
        files += numbered_files(self._layout.log, SEGMENT_SUFFIX).values()
        for path in files:
            with path.open("rb") as file:
                salt = directory_salt_in(file.read(HEAD_BYTES))
            if salt is not None:
                self._report.add(self._layout.root / "format", 0, 1, "the format file is damaged; written anew")
                break
        if salt is None:
            if files:
                raise StartupError(f"{self._layout.root} has no readable format file and no readable file beside it")
            salt = new_salt()
        write_format(self._layout, salt)
        return salt

    @property
    def damages(self) -> list[Damage]:
        """What recovery could not make good."""
        return self._report.found

    def take_commands(self) -> list[bytes]:
        """What the catalog was; to be applied in order before `restore`."""
        commands, self._commands = self._commands, None
        assert commands is not None
        return commands

    def orphans(self, queue_ids: set[int], next_queue_id: int) -> dict[int, QueueBook]:
        """What the log has of queues that the catalog has lost: any that are not there if it was damaged, else those
        that it cannot have deleted, because it never gave their ids: then its end was cut off."""
        assert self._recovered is not None
        books = self._recovered.books
        found = {id: book for id, book in books.items() if id not in queue_ids and book.count}
        if self.catalog.damaged:
            return found
        found = {id: book for id, book in found.items() if id >= next_queue_id}
        if found:
            self.catalog.damaged = True
            self._report.add(self._layout.catalog, 0, 1, "the end of the catalog is lost; its queues are made anew")
        return found

    def stream_orphans(self, queue_ids: set[int], next_queue_id: int) -> list[int]:
        """The same for streams, after `orphans`; the others that the catalog does not know were deleted, or have not
        one record: a crash came before the catalog had them."""
        unknown = [id for id in self.streams.known_ids() if id not in queue_ids]
        lost = [id for id in unknown if self.catalog.damaged or id >= next_queue_id]
        return [id for id in lost if self.streams.has_records(id)]

    def restore(self, now_ms: int) -> None:
        """Gives the queues that were made since `take_commands` their messages back, and gets ready to write."""
        recovered, self._recovered = self._recovered, None
        assert recovered is not None
        finish_books(recovered, set(self._queues))
        self._reclaimable = [self._restored(found) for found in recovered.segments.values()]
        self._superseded = recovered.superseded
        self.journal.sequence = recovered.next_sequence + 1
        self.journal.synced_sequence = recovered.next_sequence
        for paging, journal, first in ((False, self.journal, recovered.next_sequence), (True, self._pager, 0)):
            segment, fd = self._files.create(self._files.next_number(paging), paging, first)
            self._files.opened(segment, fd)
            journal.use_segment(segment)
        self.streams.recover(self._report)
        for queue_id, queue in self._queues.items():
            book = recovered.books.get(queue_id)
            if book is not None:
                queue.restore(book, not recovered.closed)
                if queue.window is not None:
                    for number in queue.window.restore(book.keys, now_ms):
                        self._segments[number].noted_by.add(queue.window)

    def _restored(self, found: FoundSegment) -> Segment:
        segment = Segment(found.number, found.salt, found.path, found.index.end)
        segment.sealed = True
        segment.live = found.live
        segment.placed = len(found.index.notes) // 32
        segment.settles = found.settles
        segment.first_sequence = found.index.first_sequence
        segment.last_sequence = found.index.last_sequence
        segment.damaged = found.damaged
        self._segments[segment.id] = segment
        return segment

    # ---- queues

    def ledger(self, queue_id: int) -> Ledger:
        return Ledger(self.journal, queue_id)

    def add_queue(self, queue_id: int, queue: Queue) -> None:
        self._queues[queue_id] = queue

    def remove_queue(self, queue_id: int) -> None:
        self._queues.pop(queue_id, None)

    # ---- running

    def start(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._committer = Committer(
            loop,
            self.catalog,
            self.journal,
            self._pager,
            self._files,
            self.streams,
            self._settings.sync,
            self._written,
            self._synced,
            self._fail,
        )
        self._loader = Loader(loop, self.journal, self._files, lambda: self.tick(), lambda: self.kick(), self._fail)
        self.streams.start(loop, self._files, self._run, lambda: self.kick(), self._fail)
        self._reclaimer = Reclaimer(
            self._layout,
            self.journal,
            self._pager,
            self._files,
            self._committer,
            self._queues,
            lambda number, found: self.collect_unacked(number, found),
            self._fail,
        )
        self._reclaimer.recovered(self._reclaimable, self._superseded)
        self._make_spares()
        self._reclaimer.look()
        self._committer.wake()

    def _wake(self, urgent: bool = True) -> None:
        if self._committer is not None:
            self._committer.wake(urgent)

    def read(self, reading: Reading) -> None:
        """Reads the next bodies for somebody who only looks."""
        if self._loader is not None:
            self._loader.want(reading)

    def _want(self, queue: ClassicQueue) -> None:
        if self._loader is not None:
            self._loader.want(queue)

    def _written(self) -> None:
        assert self._loader is not None and self._reclaimer is not None
        self._loader.written()
        self._make_spares()
        self._reclaimer.look()
        if self.shelf.pressed:
            self._page_out()
        if not self.is_congested:
            self.on_calm()
        self.kick()
        if self.catalog.is_overgrown and not self._rewriting:
            self._rewriting = True
            self._run(self._rewrite_catalog())

    @property
    def is_congested(self) -> bool:
        """Whether the disk is far behind what it is to write: messages that survive, or pages of those that do not."""
        return bool(self.journal.congested or self._pager.congested)

    def _synced(self, batch: int) -> None:
        self.on_synced(batch)
        if self._waiting:
            for number, future in self._waiting:
                if number <= batch and not future.done():
                    future.set_result(None)
            self._waiting = [(number, future) for number, future in self._waiting if number > batch]

    def _run(self, work: Coroutine[Any, Any, None]) -> None:
        """Runs something of the store's own until it is done or the store is closed."""
        assert self._loop is not None
        task = self._loop.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    # ---- segments in advance

    def _make_spares(self) -> None:
        for paging, journal in ((False, self.journal), (True, self._pager)):
            needed = journal.spare is None and (not paging or journal.segment.end > self._settings.segment_bytes // 2)
            if needed and not self._making[paging] and self._retry is None and self.failed is None:
                self._making[paging] = True
                self._run(self._make_spare(paging, journal))

    async def _make_spare(self, paging: bool, journal: Journal) -> None:
        try:
            segment, fd = await self._files.run(self._files.create, self._files.next_number(paging), paging)
        except OSError as error:
            if error.errno not in SHORTAGES:
                self._fail(f"the disk failed: {error.strerror}")
                return
            # The segment in use grows on meanwhile, within what the disk has.
            log.warning("no new segment can be made", error=error.strerror)
            assert self._loop is not None
            self._retry = self._loop.call_later(RETRY_S, self._try_again)
        else:
            self._files.opened(segment, fd)
            journal.spare = segment
        finally:
            self._making[paging] = False

    def _try_again(self) -> None:
        self._retry = None
        self._make_spares()

    # ---- the catalog

    def append_command(self, command: bytes) -> None:
        self.commands_total += 1
        self.catalog.append(command)
        self._wake()

    async def _rewrite_catalog(self) -> None:
        """The log of commands has grown long: a new one starts with what is. Commits wait meanwhile."""
        assert self._committer is not None
        try:
            await self._committer.hold()
            commands = self.snapshot()
            self.catalog.forget_pending()
            await self._files.run(self.catalog.rewrite, commands)
        except OSError as error:
            self._fail(f"the catalog cannot be written: {error.strerror}")
        finally:
            self._rewriting = False
            self._committer.resume()

    def rewrite_catalog_now(self) -> None:
        """At the start, if there is no catalog or it was damaged. Blocks."""
        if self.catalog.is_new or self.catalog.damaged or self.catalog.is_overgrown:
            commands = self.snapshot()
            self.catalog.forget_pending()
            self.catalog.rewrite(commands)

    def require_sync(self) -> int:
        """Everything done so far is to be safe soon: the number of the batch after which it is."""
        assert self._committer is not None
        return self._committer.require_sync()

    # ---- memory

    def pressure(self, pressed: bool) -> None:
        """Memory is short, or no longer: bodies are let go, a bounded step at a time."""
        self.shelf.pressed = pressed
        self.shelf.window_bytes = WINDOW_BYTES_PRESSED if pressed else WINDOW_BYTES
        if pressed:
            self._page_out()

    def _page_out(self) -> None:
        """One step, unless the disk still has the last one: then the next follows when that is written."""
        if self._pager.end > 0 or self._pager.in_flight_bytes > 0:
            return
        if not self._to_page:
            self._to_page = list(self.all_queues())
        left = PAGED_BYTES_A_STEP
        # Goes on where the last step ended: there may be a hundred thousand queues.
        for _ in range(min(PAGED_QUEUES_A_STEP, len(self._to_page))):
            left -= self._to_page.pop().page_out(left)
            if left <= 0:
                break

    # ---- the end

    def _fail(self, reason: str) -> None:
        """Once and for all: nothing more is written or confirmed."""
        if self.failed is not None:
            return
        self.failed = reason
        if self._committer is not None:
            self._committer.failed = True
        for _, future in self._waiting:
            if not future.done():
                future.set_exception(OSError(reason))
        self._waiting = []
        self.on_failure(reason)

    async def flush(self) -> None:
        """Returns once everything done so far is safe; raises OSError if it cannot be."""
        if self.failed is not None:
            raise OSError(self.failed)
        if self._loop is None or self._committer is None:
            return
        future: asyncio.Future[None] = self._loop.create_future()
        self._waiting.append((self.require_sync(), future))
        await future

    # ---- for statistics

    def io_totals(self) -> IoTotals:
        if self._committer is None or self._loader is None:
            return IoTotals()
        return IoTotals(*self._loader.reads, *self._committer.writes, self._committer.sync_times.count)

    @property
    def sync_times(self) -> Histogram | None:
        """Microseconds that syncs took; None before the start."""
        return None if self._committer is None else self._committer.sync_times

    async def close(self) -> None:
        """Flushes, and lets the directory go so that another broker may have it at once."""
        if self._committer is not None:
            assert self._reclaimer is not None
            await self._reclaimer.close()
            if self.failed is None:
                try:
                    await asyncio.wait_for(self.flush(), CLOSE_DEADLINE_S)
                    # The second batch says in the log that the first was synced, and that this is the end.
                    self.journal.append_closed()
                    await asyncio.wait_for(self.flush(), CLOSE_DEADLINE_S)
                    self.streams.write_indexes()
                except (OSError, TimeoutError) as error:
                    log.error("the store could not be flushed", error=str(error))
        self.abandon()

    def abandon(self) -> None:
        """Lets everything go without a flush, as when the start failed."""
        for task in self._tasks:
            task.cancel()
        if self._retry is not None:
            self._retry.cancel()
            self._retry = None
        if self._loader is not None:
            self._loader.close()
            self._loader = None
        self.streams.close()
        if self._committer is not None:
            self._committer.close()
            self._committer = None
        self._files.close()
        self.catalog.close()
        self._lock.release()

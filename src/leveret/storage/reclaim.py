"""Giving disk space back: indexes for full segments, deletion of dead ones, and compaction of those nearly dead.

A segment is dead when no message in a queue has its record there. It may go once nothing that remains needs its notes:
a note that a message is settled must outlive the record of that message. So segments go in an order, oldest first as a
rule, each deletion made durable before the next."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TypeVar

from leveret.core.log.compaction import Compaction
from leveret.core.log.journal import Journal
from leveret.core.log.segment import Segment
from leveret.core.queue.contract import Queue
from leveret.runtime.files import SHORTAGES
from leveret.runtime.log import get_logger
from leveret.storage.committer import Committer
from leveret.storage.groups.entry_store import EntryStore
from leveret.storage.index_file import read_index
from leveret.storage.layout import Layout
from leveret.storage.segment_files import SegmentFiles
from leveret.storage.shortages import Shortages

log = get_logger(__name__)

T = TypeVar("T")

# Fewer sealed segments than this are left alone, however empty they are.
COMPACTED_MIN = 4
# A segment is compacted when at most one of so many of its messages is still wanted, and that for a while: what is
# being drained anyway is not worth copying.
SPARSE_FACTOR = 4
SPARSE_AGE_S = 1.0
# How often it is looked for something to do.
LOOK_EVERY_S = 0.05
# How long a shortage is given.
RETRY_S = 0.5
RECLAIMING = "reclaiming disk space"


class Reclaimer:
    """`collect_unacked` adds what channels hold of a segment to a dict, see
    core.connection.channel.Channel.collect_located."""

    def __init__(
        self,
        layout: Layout,
        journal: Journal,
        pager: Journal,
        files: SegmentFiles,
        committer: Committer,
        queues: dict[int, Queue],
        entries: EntryStore,
        collect_unacked: Callable[[int, dict[tuple[int, int], object]], None],
        shortages: Shortages,
        on_failure: Callable[[str], None],
    ) -> None:
        self._layout = layout
        self._shortages = shortages
        self._journal = journal
        self._pager = pager
        self._files = files
        self._committer = committer
        self._queues = queues
        self._entries = entries
        self._collect_unacked = collect_unacked
        self._on_failure = on_failure
        # Sealed segments whose index is not written yet.
        self._unindexed: list[Segment] = []
        # Sealed segments without a live message.
        self._dead: dict[int, Segment] = {}
        # The batch in which the last message of a dead segment went, by the segment's number. It may have gone to
        # another place, as a dead letter does: until that batch is on disk, the segment has the only copy.
        self._emptied_batch: dict[int, int] = {}
        # Segments whose messages have newer copies elsewhere; as long as one exists, so must whatever was noted about
        # the copies, or the old ones would come back.
        self._superseded: set[int] = set()
        # Since when a segment has been sparse.
        self._sparse_since: dict[int, float] = {}
        # Those that cannot be read as a whole.
        self._left_alone: set[int] = set()
        self._task: asyncio.Task[None] | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._sparse_timer: asyncio.TimerHandle | None = None
        self._next_look = 0.0
        self._closed = False
        self.deleted_total = 0
        self.compacted_total = 0

    def recovered(self, segments: list[Segment], superseded: set[int]) -> None:
        """What was there at the start."""
        self._superseded |= superseded
        self._dead.update({segment.id: segment for segment in segments if segment.live == 0})

    def look(self) -> None:
        """To be called after every commit: cheap when there is nothing to do."""
        if self._journal.drained or self._pager.drained:
            self._sort_out()
        if self._task is not None or self._timer is not None or self._closed:
            return
        if len(self._journal.segments) < COMPACTED_MIN and not self._unindexed and not self._dead:
            return
        loop = asyncio.get_running_loop()
        if loop.time() < self._next_look:
            self._timer = loop.call_at(self._next_look, self._look_now)
        else:
            self._look_now()

    def _look_now(self) -> None:
        self._timer = None
        if not self._closed and self._task is None:
            loop = asyncio.get_running_loop()
            self._next_look = loop.time() + LOOK_EVERY_S
            self._task = loop.create_task(self._work())
            self._task.add_done_callback(self._worked)

    def _look_for_sparse(self) -> None:
        self._sparse_timer = None
        self._look_now()

    def _sort_out(self) -> None:
        drained = self._journal.drained + self._pager.drained
        self._journal.drained.clear()
        self._pager.drained.clear()
        for segment in dict.fromkeys(drained):
            if segment.live == 0:
                self._dead[segment.id] = segment
                if not segment.paging:
                    self._emptied_batch[segment.id] = self._committer.require_sync()
            elif segment.index is not None and segment not in self._unindexed:
                self._unindexed.append(segment)

    def _worked(self, task: asyncio.Task[None]) -> None:
        self._task = None
        error = None if task.cancelled() else task.exception()
        if error is None:
            self._shortages.over(RECLAIMING)
        elif isinstance(error, OSError) and error.errno in SHORTAGES:
            self._shortages.note(RECLAIMING, error)
            self._timer = asyncio.get_running_loop().call_later(RETRY_S, self._look_now)
        else:
            log.error("reclaiming disk space failed", error=repr(error))
            cause = "the disk failed" if isinstance(error, OSError) else "reclaiming disk space failed"
            self._on_failure(f"{cause}: {error}")

    async def _work(self) -> None:
        await self._write_indexes()
        while await self._delete_some():
            pass
        segment = self._choose()
        if segment is not None:
            await self._compact(segment)

    # ---- indexes

    async def _write_indexes(self) -> None:
        for segment in [segment for segment in self._unindexed if self._is_safe(segment)]:
            if segment.live > 0 and segment.index is not None:
                await self._files.run(self._files.write_index, segment, segment.copy_index())
                segment.index = None
                self._files.close_writer(segment.id)
            self._unindexed.remove(segment)

    def _is_safe(self, segment: Segment) -> bool:
        """Whether everything in it is on disk, and whatever was copied out of it, too."""
        if segment.paging:
            return bool(segment.written == segment.end)
        synced: bool = segment.last_sequence <= self._journal.synced_sequence
        copied: bool = segment.copied_batch <= self._journal.synced_batch
        return synced and copied

    # ---- deleting

    async def _delete_some(self) -> bool:
        """Deletes the dead segments that nothing depends on; true if others may have become free by that."""
        if self._journal.synced_batch == 0:
            # The first batch after a start notes anew what was handed out; until then the old notes are the only ones.
            self._committer.require_sync()
            return False
        existing = self._journal.segments
        free = []
        for segment in self._dead.values():
            if self._emptied_batch.get(segment.id, 0) > self._journal.synced_batch:
                continue
            segment.settles.intersection_update(existing.keys())
            if segment.live == 0 and not segment.settles and self._is_safe(segment) and self._is_forgotten(segment):
                free.append(segment)
        if not free:
            return False
        await self._files.run(self._files.remove, free)
        for segment in free:
            del self._dead[segment.id]
            self._emptied_batch.pop(segment.id, None)
            if segment in self._unindexed:
                self._unindexed.remove(segment)
            del existing[segment.id]
            self._files.forget(segment)
            self.deleted_total += 1
        return bool(self._dead)

    def _is_forgotten(self, segment: Segment) -> bool:
        """What it knows of deliveries and keys is noted elsewhere first."""
        again = [noting for noting in segment.noted_by if noting.note_again(segment.id)]
        segment.noted_by.clear()
        if again:
            segment.copied_batch = self._committer.require_sync()
        return not again

    # ---- compacting

    def _choose(self) -> Segment | None:
        """The oldest segment worth compacting: hardly anything in it lives, or only its notes keep it."""
        now = asyncio.get_running_loop().time()
        segments: list[Segment] = list(self._journal.segments.values())
        sealed = [segment for segment in segments if segment.sealed and not segment.paging]
        if len(sealed) < COMPACTED_MIN:
            return None
        sparse = [segment for segment in sealed if self._is_sparse(segment)]
        self._sparse_since = {segment.id: self._sparse_since.get(segment.id, now) for segment in sparse}
        if sparse and self._sparse_timer is None:
            # Nothing else may happen meanwhile that would make us look.
            self._sparse_timer = asyncio.get_running_loop().call_later(SPARSE_AGE_S, self._look_for_sparse)
        for segment in sparse:
            if now - self._sparse_since[segment.id] >= SPARSE_AGE_S:
                return segment
        return None

    def _is_sparse(self, segment: Segment) -> bool:
        if segment.damaged or segment.id in self._left_alone or segment.copied_batch != 0 or not self._is_safe(segment):
            return False
        self._superseded &= self._journal.segments.keys()
        if segment.settles & self._superseded or self._entries.has_entries(segment.id):
            return False
        if segment.live == 0:
            return bool(segment.settles) and len(self._dead) >= COMPACTED_MIN
        return bool(segment.live * SPARSE_FACTOR <= segment.placed)

    async def _compact(self, segment: Segment) -> None:
        """Copies what lives to the end of the log; the deletion follows when that is on disk."""
        if segment.index is not None:
            notes = segment.copy_index()
        else:
            index = await self._readable(segment, read_index, self._layout.index(segment.id), segment.id)
            if index is None:
                self._left_alone.add(segment.id)
                return
            notes = index.notes
        data = await self._readable(segment, segment.path.read_bytes)
        if data is None:
            return
        if segment.live > 0 and any(queue.has_load() for queue in self._queues.values()):
            # Its bodies may be on their way from the very place they would be moved from.
            return
        in_memory: dict[tuple[int, int], object] = {}
        if segment.live > 0:
            for queue in self._queues.values():
                queue.collect_located(segment.id, in_memory)
            self._collect_unacked(segment.id, in_memory)
        self._entries.move_from(segment.id)
        compaction = Compaction(self._journal, segment, self._queues, in_memory)
        compaction.run(notes, data)
        for offset in compaction.damaged:
            segment.damaged = True
            log.error("a message cannot be read and stays where it is", file=str(segment.path), offset=offset)
        if compaction.copied:
            self._superseded.add(segment.id)
        segment.settles.clear()
        segment.copied_batch = self._committer.require_sync()
        self.compacted_total += 1
        if segment.live == 0:
            self._dead[segment.id] = segment
        log.debug("compacted", file=str(segment.path), copied=compaction.copied, left=segment.live)

    async def _readable(self, segment: Segment, work: Callable[..., T], *arguments: object) -> T | None:
        """What a read gives; None if it cannot be done, for a reason that waiting does not mend. Then the segment stays
        as it is until its last message is settled: nothing says that any of them is lost."""
        try:
            return await self._files.run(work, *arguments)
        except OSError as error:
            if error.errno in SHORTAGES:
                raise
            log.warning("a segment cannot be compacted", file=str(segment.path), error=error.strerror)
            self._left_alone.add(segment.id)
            return None

    async def close(self) -> None:
        self._closed = True
        for timer in (self._timer, self._sparse_timer):
            if timer is not None:
                timer.cancel()
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait([self._task])

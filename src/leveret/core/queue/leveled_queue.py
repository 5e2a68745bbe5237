"""A queue whose messages may have priorities: the plain machine, on the ready list of the highest one that is in use.

`ready` is always the list that is served next; without priorities it is the only one. Also answers for all lists at
once where somebody asks for the whole: counts, the log, compaction."""

import cython

from leveret.core.queue.plain_queue import PlainQueue
from leveret.core.queue.priority_ready import PriorityReady
from leveret.core.queue.release import Release, clear

if not cython.compiled:
    from leveret.core.queue.release import RELEASED_A_STEP, part


class LeveledQueue(PlainQueue):
    __slots__ = ("levels", "purged_total", "releasing")

    def __init__(self, name, record, single_active, paging_context, queue_log, lazy, priority_max, office=None):
        PlainQueue.__init__(self, name, record, single_active, paging_context, queue_log, lazy, office)
        # None for a queue without priorities.
        self.levels = None
        # Of those that were discarded: by purges.
        self.purged_total = 0
        # What was taken out last, if that was so much that it is let go in later turns.
        self.releasing = None
        if priority_max > 0:
            self.levels = PriorityReady(self.ready, priority_max, paging_context, queue_log, lazy)
            self.by_priority = True

    # ---- in and out

    def push(self, message):
        """At the end of its priority."""
        if self.levels is None:
            return PlainQueue.push(self, message)
        if self.owns(message):
            self.queue_log.journal.keep(self.queue_log, message, self.levels.base.next_position)
        self.levels.push(message)
        self.ready = self.levels.top()
        return 0

    def put_back(self, entry):
        if self.levels is None:
            return self.ready.put_back(entry)
        self.levels.list_for(entry.message.properties.priority).put_back(entry)
        self.ready = self.levels.top()
        return 0

    def lend_quietly(self, subscriber):
        PlainQueue.lend_quietly(self, subscriber)
        return self.step_down()

    def step_down(self):
        """Something was taken out."""
        if self.levels is not None and self.ready.count == 0:
            self.ready = self.levels.top()
        return 0

    # ---- from disk

    def finish_load(self, load):
        if self.levels is None:
            PlainQueue.finish_load(self, load)
            return
        level = self.levels.loading(load)
        if level is None:
            return
        level.finish_load(load)
        self.quarantined_total += len(load.lost)
        # Meanwhile something of a higher priority may have come, and what could not be read is gone.
        self.ready = self.levels.top()
        self.dispatch()
        if self.ready.has_next() or self.ready.count == 0:
            self.stop_awaiting()

    def is_loading(self, load):
        if self.levels is None:
            return self.ready.is_loading(load)
        return self.levels.loading(load) is not None

    def has_load(self):
        if self.levels is None:
            return self.ready.has_load()
        return any([level.has_load() for level in self.levels.used])

    def page_out(self, bytes_max):
        if self.levels is None:
            return self.ready.page_out(bytes_max)
        freed = 0
        for level in self.levels.used:
            if freed < bytes_max:
                freed += level.page_out(bytes_max - freed)
        return freed

    # ---- the log

    def restore_ready(self, slots, count, next_position, all_seen):
        """What recovery found, in the order of positions."""
        if all_seen:
            self.ready.seen_upto = next_position - 1
        if self.levels is None:
            return self.ready.restore(slots, count, next_position)
        self.levels.restore(slots, count, next_position)
        self.ready = self.levels.top()
        return 0

    def collect_located(self, number, found):
        if self.levels is None:
            return self.ready.collect_located(number, found)
        for level in self.levels.used:
            level.collect_located(number, found)
        return 0

    def find_stored(self, position, location):
        return self.level_of(position, location) is not None

    def move_stored(self, position, location, to, length):
        level = self.level_of(position, location)
        return level.move_cold(level.find_cold(position, location), to, length)

    def level_of(self, position, location):
        """The list that has this message on disk alone, or None."""
        if self.levels is None:
            return self.ready if self.ready.find_cold(position, location) >= 0 else None
        for level in self.levels.used:
            if level.find_cold(position, location) >= 0:
                return level
        return None

    # ---- control

    def ready_total(self):
        return self.ready.count if self.levels is None else self.levels.total_count()

    def ready_bytes_total(self):
        return self.ready.bytes if self.levels is None else self.levels.total_bytes()

    def ready_count(self):
        return self.ready_total()

    def ready_bytes(self):
        return self.ready_bytes_total()

    def tail_position(self):
        return self.ready.next_position if self.levels is None else self.levels.base.next_position

    def set_lazy(self, lazy):
        """Whether what comes from now on is kept on disk alone. What is in memory leaves it by being handed out."""
        if self.levels is None:
            self.ready.lazy = lazy
            return
        self.levels.lazy = lazy
        for level in self.levels.used:
            level.lazy = lazy

    def in_memory(self):
        """How many ready messages have their bodies in memory, and how many octets these are."""
        if self.levels is None:
            return self.ready.in_memory()
        counts = [level.in_memory() for level in self.levels.used]
        return sum([count for count, _ in counts]), sum([octets for _, octets in counts])

    def head(self):
        """The message that is handed out next, if it is in memory; else None."""
        return self.ready.next_message() if self.ready.count > 0 and self.ready.has_next() else None

    def ready_entries(self):
        if self.levels is None:
            return self.ready.entries()
        return [entry for level in self.levels.used for entry in level.entries()]

    def purge(self):
        count = self.ready_total()
        self.clear()
        self.discarded_total += count
        self.purged_total += count
        self.stop_awaiting()
        return count

    def await_purge(self, call):
        if self.releasing is None:
            return False
        if self.releasing.is_done():
            self.releasing = None
            return False
        self.releasing.await_end(call)
        return True

    def clear(self):
        """Drops everything that is ready, and tells the log."""
        lists = [self.ready] if self.levels is None else self.levels.used
        parted = []
        for level in lists:
            if level.count > RELEASED_A_STEP:
                parted.append(part(level))
            else:
                clear(level)
        if parted:
            self.releasing = Release(self.office, parted)
        if self.levels is not None:
            self.ready = self.levels.top()
        return 0

    def close(self):
        PlainQueue.close(self)
        self.consumer_ring = None
        if self.queue_log is not None:
            self.queue_log.close()
        self.clear()
        self.stop_awaiting()

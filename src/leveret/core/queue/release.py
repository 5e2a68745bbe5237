"""What a purge or a deletion has taken out of a queue: let go a bounded number at a time, however much it is.

None of it is in the queue any more; the log, pages and memory learn of it step by step. Until then compaction is told
where its records are, because other queues may have the same messages. Made by the queue, called by the office."""

import cython

from leveret.core.queue.ready import ReadyList

if not cython.compiled:
    from leveret.core.codec.pure_octets import read_u32, read_u64
    from leveret.core.log.slot_layout import BODY_SIZE, SLOT_BYTES
    from leveret.core.queue.entry_heap import heap_pop

    # So many are let go in one step, and about so many of them (a power of two) are one unit of the meter.
    RELEASED_A_STEP = 16384
    RELEASED_SHIFT = 1


# Fields of a cold slot, see core.log.cold


def clear(ready):
    """Drops everything that a list has, at once, and tells the log."""
    release_some(ready, ready.count)
    ready.forget_all()
    return 0


def part(ready):
    """Empties a list, and leaves what it had to the one that this returns, for `release_some`."""
    parted = ReadyList(ready.paging_context, ready.queue_log, ready.lazy)
    parted.fresh = ready.fresh
    parted.returned = ready.returned
    parted.cold = ready.cold
    parted.kept = ready.kept
    parted.loading = ready.loading
    parted.count = ready.count
    ready.forget_all()
    return parted


def release_some(ready, count_max):
    """Drops the oldest messages and tells the log: how many are left. All that a load was to bring go first, and at
    once; of the others no more than `count_max`. Octets are not counted any more."""
    load = ready.loading
    ready.loading = None
    if load is not None and not load.of_returned:
        p = load.slots
        for i in range(load.count):
            at = i * SLOT_BYTES
            ready.let_go(read_u64(p, at), read_u64(p, at + 8), read_u32(p, at + BODY_SIZE))
        ready.count -= load.count
    for i in range(min(count_max, ready.count)):
        ready.count -= 1
        if ready.returned:
            entry = heap_pop(ready.returned)
            if ready.owns(entry.message):
                ready.queue_log.settle(entry.position, entry.message.location, entry.message.body_size)
            elif entry.message.body is None:
                ready.forget_page(entry.message)
        elif ready.fresh.count > 0:
            message = ready.fresh.pop()
            if ready.owns(message):
                ready.queue_log.settle(ready.fresh.popped_position, message.location, message.body_size)
        else:
            if ready.cold.location_at(0) == 0:
                ready.kept.pop()
            ready.let_go(ready.cold.position_at(0), ready.cold.location_at(0), ready.cold.number_at(0, BODY_SIZE))
            ready.drop_first_cold()
    return ready.count


class Release:
    """`lists` are ready lists that nobody else has."""

    __slots__ = ("awaiting", "lists", "office")

    def __init__(self, office, lists):
        self.office = office
        self.lists = lists
        # Called once each when all of it is let go; None then.
        self.awaiting = []
        office.returning[self] = True
        office.go_on_later(self)

    def is_done(self):
        return self.awaiting is None

    def await_end(self, call):
        """Calls back once all of it is let go, which it is not yet."""
        self.awaiting.append(call)

    def go_on(self):
        """For the office: the next step."""
        if self.awaiting is None:
            return
        self.office.meter.spent += RELEASED_A_STEP >> RELEASED_SHIFT
        one = self.lists[0]
        if release_some(one, RELEASED_A_STEP) == 0:
            del self.lists[0]
        if self.lists:
            self.office.go_on_later(self)
        else:
            self.end()

    def finish(self):
        """The broker stops: all that is left, at once."""
        for one in self.lists:
            release_some(one, one.count)
        self.lists = []
        if self.awaiting is not None:
            self.end()

    def end(self):
        del self.office.returning[self]
        if self.office.journal is not None:
            # Storage looks after each batch which segments nobody needs any more.
            self.office.journal.want_notes()
        awaiting = self.awaiting
        self.awaiting = None
        for call in awaiting:
            call()
        return 0

    def collect_located(self, number, found):
        for one in self.lists:
            one.collect_located(number, found)

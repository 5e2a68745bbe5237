"""One durable queue's side of the log: what was handed out, and what is done with.

Acks gather here as runs of positions, so that a thousand in a row are one note. Called by the queue and its ready list;
the journal asks for the notes when a batch ends."""

import cython

from leveret.core.log.batch import NoteSource

if not cython.compiled:
    from leveret.core.log.records import COUNTED, HANDED


class QueueLog(NoteSource):
    def __init__(self, journal, id):
        NoteSource.__init__(self, id)
        self.journal = journal
        # All up to here were handed out at least once; and how far the log knows.
        self.handed = 0
        self.noted_handed = 0
        self.run_first = 0
        self.run_count = 0
        self.run_segment = 0

    def hand_out(self, position, times, location):
        """The message at this position, and so every one before it, was handed out for the nth time."""
        if times == 1:
            self.handed = max(self.handed, position)
            return self.journal.touch(self)
        return self.count(position, times, location)

    def count(self, position, times, location):
        """The message at this position alone was handed out for the nth time."""
        return self.journal.add_note(self.id, position, times, location >> 32, 0, COUNTED)

    def settle(self, position, location, body_size):
        """The message at this position is done with."""
        segment = location >> 32
        self.live -= 1
        self.live_bytes -= body_size
        self.journal.release(location)
        if self.closed:
            return 0
        if self.run_count > 0 and position == self.run_first + self.run_count and segment == self.run_segment:
            self.run_count += 1
            return 0
        self.end_run()
        self.run_first = position
        self.run_count = 1
        self.run_segment = segment
        return self.journal.touch(self)

    def end_run(self):
        if self.run_count > 0:
            self.journal.add_settled(self.id, self.run_first, self.run_count, self.run_segment)
            self.run_count = 0
        return 0

    def write_notes(self):
        self.touched = False
        if self.closed:
            self.run_count = 0
            return 0
        self.end_run()
        if self.handed > self.noted_handed:
            self.noted_handed = self.handed
            self.journal.segment.noted_by.add(self)
            self.journal.add_note(self.id, self.handed, 0, 0, 0, HANDED)
        return 0

    def note_again(self, segment):
        """What this segment knows of deliveries is about to be deleted with it: noted anew. Whether that was needed."""
        if self.live == 0 or self.closed:
            return False
        self.noted_handed = 0
        self.journal.touch(self)
        return True

    def close(self):
        """The queue is deleted: the catalog says so, the log need not."""
        self.closed = True
        # Older segments forget it when they go; a queue that comes and goes has its notes here.
        if self.journal.segment is not None:
            self.journal.segment.noted_by.discard(self)

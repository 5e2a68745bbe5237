"""What goes to disk together, who waits for it, and who has something to add to it. Made by the journal, performed by
the storage room."""


class Publisher:
    """A channel that publishes, as the journal sees it."""

    def __init__(self):
        # The last batch that has something of this channel in it.
        self.awaited_batch = 0
        # The number of the last publish that was taken.
        self.accepted_seq = 0

    def synced(self, batch, accepted_seq):
        """The batch, which holds everything of this channel up to this publish, is on disk."""
        return 0


class Batch:
    """What goes to disk together: `parts` are (segment, start, end in data, offset in the file); `waiters` are the
    publishing channels that wait for it, each with the last publish of its that is in it; `beside` is what goes into
    logs of their own."""

    __slots__ = ("beside", "data", "last_sequence", "number", "parts", "waiters")

    def __init__(self, number, data, parts, last_sequence, waiters, beside=()):
        self.number = number
        self.data = data
        self.parts = parts
        self.last_sequence = last_sequence
        self.waiters = waiters
        self.beside = beside


class SideLog:
    """A log of its own that goes to disk with the journal's batches, before them: a stream's."""

    def take_part(self):
        """What it has for the batch that ends now."""
        return None


class NoteSource:
    """Somebody with notes for the log, which he writes when the batch ends: a queue's queue log, a window of keys."""

    def __init__(self, id):
        # Names it in the log, and is never used twice.
        self.id = id
        # Messages of its own that the log has.
        self.live = 0
        # Octets of their bodies.
        self.live_bytes = 0
        # True while the journal has it on its list of those with something to note.
        self.touched = False
        self.closed = False

    def write_notes(self):
        """The batch ends: what gathered goes into it."""
        return 0

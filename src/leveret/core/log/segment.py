"""One file of the log, as the data plane counts it: what is alive in it, and what must be gone before it may go.

The storage room makes them, writes them and deletes them; journals fill them."""

FIRST_INDEX_BYTES = 4096


class Segment:
    """One file of the log. `live` counts the messages in queues whose record is here; `settles` says in which other
    segments there are records that notes of this one are about: those must be gone before it may go."""

    __slots__ = (
        "copied_batch",
        "damaged",
        "end",
        "first_sequence",
        "id",
        "index",
        "index_bytes",
        "last_sequence",
        "live",
        "noted_by",
        "paging",
        "path",
        "placed",
        "salt",
        "sealed",
        "settles",
        "written",
    )

    def __init__(self, id, salt, path, end):
        self.id = id
        self.salt = salt
        self.path = path
        # Where the next record goes, and up to where the file is written.
        self.end = end
        self.written = end
        self.live = 0
        # True for the pages of transient messages.
        self.paging = False
        self.sealed = False
        self.settles = set()
        # Whose notes are here that must be written again before it may go.
        self.noted_by = set()
        # What it had was copied elsewhere in this batch: it may go once that is on disk.
        self.copied_batch = 0
        # True if something in it could not be read: then it is kept for people to look at.
        self.damaged = False
        # Sequences of its first and last record, the last one known once it is sealed.
        self.first_sequence = 0
        self.last_sequence = 0
        # How many messages were placed here.
        self.placed = 0
        # The notes of its index as they gather; None once they are in a file of their own, or for pages.
        self.index = None
        self.index_bytes = 0

    def start_index(self):
        self.index = bytearray(FIRST_INDEX_BYTES)

    def copy_index(self):
        return self.index[: self.index_bytes]

    def index_room(self, count):
        """Makes room for `count` more octets of index."""
        while self.index_bytes + count > len(self.index):
            self.index.extend(bytes(len(self.index)))
        return 0

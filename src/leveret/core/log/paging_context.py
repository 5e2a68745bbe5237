"""What the queues of a node share to keep bodies out of memory: how much each may hold, where transient messages are
put when memory is short, and whom to ask to fetch bodies back. Filled in by the storage room."""

# In peace there is no limit to that.
WINDOW_COUNT = 1 << 60


class PagingContext:
    def __init__(self, pager, window_bytes, want):
        # The journal for messages that need not survive.
        self.pager = pager
        # Octets that a queue keeps in memory at its head; the rest waits on disk if it has a record there.
        self.window_bytes = window_bytes
        # Messages that it keeps there, however small.
        self.window_count = WINDOW_COUNT
        # Called with a queue whose next messages are on disk.
        self.want = want
        # True while memory is short: then bodies of delivered messages are let go as well, those that the log has at
        # once and the others after a while.
        self.pressed = False

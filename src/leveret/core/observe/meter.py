"""How much the data plane has done: what a turn of the loop is measured by, because nothing here reads a clock.

Work is counted in units of about 100 nanoseconds of one processor, as measured for each kind of it. The session sets
`limit` before it lets the data plane work; each part of that adds what it does to `spent`, and the connection leaves
its chunk, at the next place where that is safe, once the limit is passed. The rest is done in a later turn, see
runtime/turns.py. One meter serves a node."""

import cython

if not cython.compiled:
    # One message into one queue, with the delivery to a consumer that waits for it.
    PLACED_WORK = 3
    # One message from a queue to a consumer.
    GIVEN_WORK = 4
    # One message settled or put back.
    SETTLED_WORK = 3
    # Octets of a frame that are one unit, nodes of a trie, and destinations that matched, as powers of two.
    OCTETS_SHIFT = 10
    NODES_SHIFT = 2
    FOUND_SHIFT = 1

UNLIMITED = (1 << 64) - 1


class Meter:
    def __init__(self):
        # Never falls.
        self.spent = 0
        self.limit = UNLIMITED

    def is_over(self):
        return self.spent >= self.limit

    def allow(self, work):
        """From now on so much may be done."""
        self.limit = self.spent + work

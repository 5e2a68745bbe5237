"""Buffers that are used again and again by whoever writes a batch of something beside the log; and how one grows.

Under load they are long, and one that is freed each time costs more in page faults, zeros and copies than what is
written into it; so a few are kept, up to so many octets together."""

import cython

if not cython.compiled:
    from leveret.core.codec.pure_octets import copy_octets

BUFFERS_MAX = 4
BYTES_MAX = 33554432
FIRST_BYTES = 65536


class Buffers:
    def __init__(self):
        self.kept = []
        self.kept_bytes = 0

    def take(self, size):
        """A buffer, of about this size if none is at hand. What it holds is of no meaning."""
        if not self.kept:
            return bytearray(max(size, FIRST_BYTES))
        data = self.kept.pop()
        self.kept_bytes -= len(data)
        return data

    def give(self, data):
        """Nobody looks at it any more."""
        if len(self.kept) < BUFFERS_MAX and self.kept_bytes + len(data) <= BYTES_MAX:
            self.kept.append(data)
            self.kept_bytes += len(data)


def grow(data, used, need):
    """A longer buffer for one that has no room for so many octets; what of it is used comes along."""
    size = len(data)
    while size < need:
        size *= 2
    grown = bytearray(size)
    to = grown
    source = data
    copy_octets(to, 0, source, 0, used)
    return grown

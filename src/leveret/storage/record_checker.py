"""Checks records that were just read, in the disk's thread instead of the loop."""

import cython

from leveret.runtime.disk_thread import Preparer

if not cython.compiled:
    from leveret.core.pure_octets import write_u64
    from leveret.core.records import padded, record_length


class RecordChecker(Preparer):
    def prepare(self, p, start, size, salt):
        """Says in the 8 octets before them how far the records in p[start:] are whole and undamaged."""
        at = start
        end = start + size
        length = record_length(p, at, end, salt)
        while length > 0:
            at += padded(length)
            length = record_length(p, at, end, salt) if at < end else 0
        write_u64(p, start - 8, min(at, end))

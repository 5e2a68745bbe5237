"""Checks records that were just read, in the disk's thread instead of the loop."""

import cython

from leveret.runtime.disk_thread import Preparer

if not cython.compiled:
    from leveret.core.codec.pure_octets import write_u64
    from leveret.core.log.record_check import record_length
    from leveret.core.log.records import padded


class RecordChecker(Preparer):
    def check(self, data, start, size, salt):
        """The same at once, on data in memory."""
        p = data
        self.prepare(p, start, size, salt)
        return 0

    def prepare(self, p, start, size, salt):
        """Says in the 8 octets before them how far the records in p[start:] are whole and good."""
        at = start
        end = start + size
        length = record_length(p, at, end, salt)
        while length > 0:
            at += padded(length)
            length = record_length(p, at, end, salt) if at < end else 0
        write_u64(p, start - 8, min(at, end))

"""Fills in the checksums of records just before they are written, in the disk's thread instead of the loop."""

import cython

from leveret.runtime.disk_thread import Preparer

if not cython.compiled:
    from leveret.core.log.records import seal_records


class Sealer(Preparer):
    def prepare(self, p, start, size, salt):
        seal_records(p, start, start + size, salt)

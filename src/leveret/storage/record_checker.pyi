# Generated from the .py and the .pxd beside it by `make stubs`; not to be edited.

from leveret.runtime.disk_thread import Preparer

class RecordChecker(Preparer):
    def check(self, data: bytearray, start: int, size: int, salt: int) -> int: ...

# Generated from the .py and the .pxd beside it by `make stubs`; not to be edited.

from leveret.core.queue.contract import Entry

def position_of(entry: Entry) -> int: ...

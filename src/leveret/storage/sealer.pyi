# Generated from the .py and the .pxd beside it by `make stubs`; not to be edited.

from leveret.runtime.disk_thread import Preparer

class Sealer(Preparer):
    pass

# Generated from the .py and the .pxd beside it by `make stubs`; not to be edited.

from leveret.core.codec.message import Message

OFFSET_HEADER: str
STAMP_HEADER: str

def message_at(data: bytearray, at: int) -> Message: ...
def with_offset(message: Message, offset: int, stamped: bool) -> Message: ...

# Generated from the .py and the .pxd beside it by `make stubs`; not to be edited.

from typing import Any

RECORD_KINDS: Any
MESSAGE_RECORD_HEAD_BYTES: int
ADDRESS_SIZE_MASK: int

def sealed(data: bytearray, salt: int) -> bytearray: ...
def checksum(data: bytes) -> int: ...
def command_record(sequence: int, synced_sequence: int, payload: bytes) -> bytearray: ...

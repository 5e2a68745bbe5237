"""The first 64 octets of a segment, a catalog log or a manifest: what it is, its format, the salt of its checksums.

    0  8 octets  what it is         16 u64  its number
    8  u32       format version     24 u32  the data directory's salt
    12 u32       salt of this file  60 u32  CRC-32C of the octets before

A file's salt follows from the directory's salt and its number, so a damaged head costs nothing; it is written into
every head for the day the format file is lost."""

from __future__ import annotations

import struct

from leveret.core.log.records import checksum
from leveret.storage.layout import FORMAT_VERSION

HEAD_BYTES = 64
SEGMENT = b"LVRT-seg"
CATALOG = b"LVRT-cat"
STREAM = b"LVRT-str"
MANIFEST = b"LVRT-man"
_FIELDS = struct.Struct(">8sIIQI32x")
_SUM = struct.Struct(">I")


def file_salt(directory_salt: int, what: bytes, number: int) -> int:
    """Different for every file, so that no record is good anywhere but where it was written."""
    salt: int = checksum(_FIELDS.pack(what, 0, 0, number, directory_salt))
    return salt


def encode_head(what: bytes, number: int, directory_salt: int) -> bytes:
    salt = file_salt(directory_salt, what, number)
    fields = _FIELDS.pack(what, FORMAT_VERSION, salt, number, directory_salt)
    return fields + _SUM.pack(checksum(fields))


def head_names(head: bytes) -> tuple[bytes, int, int] | None:
    """What the file is, its number and the directory's salt, if the head is whole."""
    if len(head) < HEAD_BYTES:
        return None
    fields = head[: HEAD_BYTES - 4]
    if _SUM.unpack(head[HEAD_BYTES - 4 : HEAD_BYTES])[0] != checksum(fields):
        return None
    what, _, _, number, salt = _FIELDS.unpack(fields)
    return what, number, salt


def directory_salt_in(head: bytes) -> int | None:
    """The directory's salt, if the head is whole."""
    names = head_names(head)
    return None if names is None else names[2]

# Generated from the .py and the .pxd beside it by `make stubs`; not to be edited.

from typing import Any

from leveret.core.codec.field_types import (
    Float32,
    Int8,
    Int16,
    Int64,
    Table,
    Timestamp,
    Typed,
    UInt8,
    UInt16,
    UInt32,
    Value,
)

__all__ = [
    "KEY_BYTES_MAX",
    "TABLE_NESTING_MAX",
    "Float32",
    "Int8",
    "Int16",
    "Int64",
    "Table",
    "Timestamp",
    "Typed",
    "UInt8",
    "UInt16",
    "UInt32",
    "Value",
    "decode_table",
    "encode_table",
]
TABLE_NESTING_MAX: Any
KEY_BYTES_MAX: Any
_FLOAT32: Any
_FLOAT64: Any
ORIGIN_HEADER: str

def decode_table(data: bytes, at: int = ...) -> tuple[dict[str, Any], int]: ...
def encode_table(table: Table) -> bytes: ...

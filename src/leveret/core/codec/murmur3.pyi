# Generated from the .py and the .pxd beside it by `make stubs`; not to be edited.

__all__ = ["murmur3_32"]

def murmur3_32(octets: bytes, seed: int) -> int: ...

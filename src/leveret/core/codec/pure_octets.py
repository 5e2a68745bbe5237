"""The interpreted twin of octets.pxd: big-endian numbers and byte runs in plain Python.

Imported only by core modules that run uncompiled; never by anything outside core/."""


def read_u16(p, at):
    return (p[at] << 8) | p[at + 1]


def read_u32(p, at):
    return int.from_bytes(p[at : at + 4], "big")


def read_u64(p, at):
    return int.from_bytes(p[at : at + 8], "big")


def write_u16(p, at, value):
    p[at : at + 2] = value.to_bytes(2, "big")


def write_u32(p, at, value):
    p[at : at + 4] = value.to_bytes(4, "big")


def write_u64(p, at, value):
    p[at : at + 8] = value.to_bytes(8, "big")


def copy_octets(to, at, source, start, count):
    to[at : at + count] = source[start : start + count]


def clear_octets(p, start, end):
    p[start:end] = bytes(end - start)


def same_octets(a, a_at, b, b_at, count):
    return a[a_at : a_at + count] == b[b_at : b_at + count]


def take(p, start, end):
    return bytes(p[start:end])

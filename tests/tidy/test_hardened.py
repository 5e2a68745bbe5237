"""What the compiled modules are built with: guarded stacks, and tables of functions that nobody can write to."""

from __future__ import annotations

import os
import re
import struct
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.machinery import EXTENSION_SUFFIXES
from pathlib import Path

import pytest

import leveret

PACKAGE = Path(leveret.__file__).parent
BUILT = sorted(path for suffix in EXTENSION_SUFFIXES[:1] for path in PACKAGE.rglob(f"*{suffix}"))

PT_DYNAMIC, PT_GNU_RELRO = 2, 0x6474E552
DT_NULL, DT_FLAGS, DT_FLAGS_1 = 0, 30, 0x6FFFFFFB
DF_BIND_NOW, DF_1_NOW = 0x8, 0x1


@dataclass(frozen=True)
class Elf:
    """A shared object of 64 bits, little-endian, as far as the test asks."""

    binds_now: bool
    has_relro: bool
    names: frozenset[bytes]


def read_elf(path: Path) -> Elf:
    data = path.read_bytes()
    assert data[:6] == b"\x7fELF\x02\x01", f"{path} is no ELF file of 64 bits"
    segments = dict(_segments(data))
    start, size = segments[PT_DYNAMIC]
    flags = dict(_dynamic(data[start : start + size]))
    now = bool(flags.get(DT_FLAGS, 0) & DF_BIND_NOW or flags.get(DT_FLAGS_1, 0) & DF_1_NOW)
    # Names stand in the table of strings, each with a zero behind it.
    names = frozenset(re.findall(rb"\x00(__\w+_(?:chk|fail))(?=\x00)", data))
    return Elf(now, PT_GNU_RELRO in segments, names)


def _segments(data: bytes) -> Iterator[tuple[int, tuple[int, int]]]:
    table, entry_bytes, count = struct.unpack_from("<Q", data, 32)[0], *struct.unpack_from("<HH", data, 54)
    for number in range(count):
        kind, _, offset, _, _, size = struct.unpack_from("<IIQQQQ", data, table + number * entry_bytes)
        yield kind, (offset, size)


def _dynamic(table: bytes) -> Iterator[tuple[int, int]]:
    for tag, value in struct.iter_unpack("<QQ", table):
        if tag == DT_NULL:
            return
        yield tag, value


needs_elf = pytest.mark.skipif(
    sys.platform != "linux" or struct.calcsize("P") != 8 or not BUILT, reason="no compiled modules of 64-bit Linux"
)


@needs_elf
def test_every_compiled_module_is_hardened() -> None:
    found = {path.name: read_elf(path) for path in BUILT}
    assert [name for name, elf in found.items() if not elf.binds_now] == [], "not linked with -z now"
    assert [name for name, elf in found.items() if not elf.has_relro] == [], "not linked with -z relro"
    assert [name for name, elf in found.items() if b"__stack_chk_fail" not in elf.names] == [], "no guarded stack"


@needs_elf
def test_an_object_without_it_is_noticed(tmp_path: Path) -> None:
    source = tmp_path / "plain.c"
    source.write_text(
        "#include <string.h>\nvoid f(char *a, const char *b, int n) { char c[99]; strcpy(c, b); a[n] = c[n]; }\n"
    )
    common = [os.environ.get("CC", "cc"), "-O2", "-shared", "-fPIC", str(source), "-o"]
    bare, hard = tmp_path / "bare.so", tmp_path / "hard.so"
    off = ["-fno-stack-protector", "-U_FORTIFY_SOURCE", "-Wl,-z,norelro", "-Wl,-z,lazy"]
    subprocess.run([*common, str(bare), *off], check=True)
    on = ["-fstack-protector-strong", "-U_FORTIFY_SOURCE", "-D_FORTIFY_SOURCE=2", "-Wl,-z,relro", "-Wl,-z,now"]
    subprocess.run([*common, str(hard), *on], check=True)
    assert read_elf(bare) == Elf(False, False, frozenset())
    assert read_elf(hard) == Elf(True, True, frozenset({b"__stack_chk_fail", b"__strcpy_chk"}))

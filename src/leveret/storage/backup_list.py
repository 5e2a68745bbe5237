"""The list of a backup: every file with its size and SHA-256. Written last, so a backup without it is none.

    leveret backup, format 1
    <sha256> <octets> <path>        a line a file; `sha256sum` comes to the same
    sum <sha256 of all lines before>

Read and written as a whole."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from leveret.errors import BackupError
from leveret.runtime.files import replace_file
from leveret.storage.layout import BACKUP_LIST_FILE

LIST_FILE = BACKUP_LIST_FILE
_FIRST = "leveret backup, format 1\n"
_LINE = re.compile(r"([0-9a-f]{64}) (\d+) (\S+)\n")
_SUM = re.compile(r"sum ([0-9a-f]{64})\n")


@dataclass(frozen=True, slots=True)
class Listed:
    """One file; `name` is its path in the backup and in a data directory."""

    name: str
    size: int
    sha256: str


def write_list(directory: Path, files: Sequence[Listed]) -> None:
    """Blocks; durable when it returns."""
    text = _FIRST + "".join(f"{file.sha256} {file.size} {file.name}\n" for file in files)
    replace_file(directory / LIST_FILE, f"{text}sum {_sha256(text)}\n".encode())


def read_list(directory: Path) -> list[Listed]:
    """Raises BackupError if there is no whole list. Blocks."""
    path = directory / LIST_FILE
    try:
        text = path.read_text("utf-8", "replace")
    except FileNotFoundError:
        text = f"{directory} is not a backup, or one that was not finished: it has no file {LIST_FILE}"
        raise BackupError(text) from None
    *lines, last = text.splitlines(keepends=True) or [""]
    end = _SUM.fullmatch(last)
    if not text.startswith("leveret backup, format ") or end is None or end[1] != _sha256("".join(lines)):
        raise BackupError(f"{path} is damaged: the backup cannot be trusted")
    if lines[0] != _FIRST:
        raise BackupError(f"{path} is of another version of Leveret: {lines[0].strip()}")
    return [_listed(path, line) for line in lines[1:]]


def _listed(path: Path, line: str) -> Listed:
    match = _LINE.fullmatch(line)
    # The list comes from outside: a name in it must not lead anywhere else.
    if match is None or PurePosixPath(match[3]).is_absolute() or ".." in PurePosixPath(match[3]).parts:
        raise BackupError(f"{path} has a line that makes no sense: {line[:200].strip()!r}")
    return Listed(match[3], int(match[2]), match[1])


def _sha256(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()

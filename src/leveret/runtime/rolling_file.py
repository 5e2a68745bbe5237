"""Lines in files that are bounded all together: the newest file grows, and the oldest goes.

For logs of people's doings, not for messages: nothing is synced. Every call may block, so it is made off the loop."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path

FILES = 8
NEWEST = 0


class RollingFile:
    """<name>.log grows; <name>.1.log was before it, and so on. Nothing is written as long as `bytes_max` is 0."""

    def __init__(self, directory: Path, name: str, bytes_max: int) -> None:
        self._directory = directory
        self._name = name
        self.bytes_max = bytes_max

    def path(self, number: int = NEWEST) -> Path:
        return self._directory / (f"{self._name}.log" if number == NEWEST else f"{self._name}.{number}.log")

    def append(self, lines: list[bytes]) -> None:
        """Raises OSError."""
        if not self.bytes_max:
            return
        self._directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        octets = b"".join(line + b"\n" for line in lines)
        fd = os.open(self.path(), os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
        try:
            size = os.fstat(fd).st_size
            if size and os.pread(fd, 1, size - 1) != b"\n":
                # A crash tore the last line; the next one is not to suffer for it.
                octets = b"\n" + octets
            view = memoryview(octets)
            while view:
                view = view[os.write(fd, view) :]
        finally:
            os.close(fd)
        if size + len(octets) >= self.bytes_max // FILES:
            self._roll()

    def _roll(self) -> None:
        with contextlib.suppress(FileNotFoundError):
            self.path(FILES - 1).unlink()
        for number in range(FILES - 2, NEWEST - 1, -1):
            with contextlib.suppress(FileNotFoundError):
                self.path(number).rename(self.path(number + 1))

    def tail(self, count: int, bytes_max: int) -> list[bytes]:
        """The newest lines, the oldest of them first; a line that is cut off at the front is left out."""
        found: list[bytes] = []
        for number in range(NEWEST, FILES):
            if len(found) >= count or bytes_max <= 0:
                break
            try:
                with self.path(number).open("rb") as file:
                    size = file.seek(0, os.SEEK_END)
                    start = max(size - bytes_max, 0)
                    file.seek(start)
                    lines = file.read().split(b"\n")
            except FileNotFoundError:
                # The newest is made with its first line.
                continue
            bytes_max -= size - start
            found = [line for line in lines[1 if start else 0 :] if line] + found
        return found[-count:]

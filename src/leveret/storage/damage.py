"""Damage that was found: what, where, and what was done about it. Always logged, never passed over in silence."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from leveret.runtime.files import sync_directory
from leveret.runtime.log import get_logger
from leveret.runtime.read_errors import copy_around
from leveret.storage.layout import Layout
from leveret.storage.quarantine import UNREADABLE, GivenUp, Quarantine

log = get_logger(__name__)


@dataclass(frozen=True, slots=True)
class Damage:
    path: Path
    offset: int
    size: int
    what: str

    def __str__(self) -> str:
        return f"{self.path} at {self.offset}, {self.size} octets: {self.what}"


class DamageReport:
    def __init__(self, layout: Layout) -> None:
        self._layout = layout
        self.found: list[Damage] = []
        self._kept: dict[Path, Path] = {}
        self.quarantine = Quarantine(layout)

    def add(self, path: Path, offset: int, size: int, what: str) -> None:
        """Logs it, and keeps a copy of the file as it was found, before anything is made good."""
        damage = Damage(path, offset, size, what)
        self.found.append(damage)
        copy = self.keep(path)
        log.error("damage in the store", file=str(path), offset=offset, size=size, what=what, copy=str(copy))

    def keep(self, path: Path) -> Path:
        """A copy of the file in quarantine, one a start; earlier ones stay."""
        if path in self._kept or not path.is_file():
            return self._kept.get(path, self._layout.quarantine / path.name)
        copy = self._kept[path] = self._layout.quarantined(path)
        # What the disk cannot read is zeros in the copy.
        copy_around(path, copy)
        copy.chmod(0o600)
        sync_directory(self._layout.quarantine)
        return copy

    def unreadable(self, path: Path, start: int, end: int) -> None:
        """Sectors that the disk cannot read: the file itself stays, and goes to quarantine when nothing needs it."""
        self.quarantine.add([GivenUp("", 0, self.quarantine.name(path), start, end - start, UNREADABLE)])

    def put_aside(self, path: Path) -> Path:
        """Moves the file itself to quarantine: nothing else may be done with it."""
        to = self._layout.quarantined(path)
        path.rename(to)
        sync_directory(self._layout.quarantine)
        sync_directory(path.parent)
        return to

"""Where everything is in a data directory, and whether it is ours to use.

lock                     held by the one broker that uses the directory
format                   the format's version and the salt of all checksums, as one line of text
catalog/0000000001.log   what exists; the newest file counts
log/0000000007.segment   messages and what became of them        log/0000000007.index   a sealed segment's index
streams/0000000003/      a stream by the number of its queue: segments, and an index beside each
pages/                   transient messages that memory had no room for; emptied at every start
quarantine/              copies of damaged files, for people to look at"""

from __future__ import annotations

import re
from pathlib import Path

from leveret.core.records import checksum
from leveret.errors import StartupError
from leveret.runtime.files import DirectoryLock, replace_file

FORMAT_VERSION = 2
FORMAT_FILE = "format"
LOCK_FILE = "lock"
DIRECTORIES = ("catalog", "log", "pages", "streams", "quarantine")
SEGMENT_SUFFIX = ".segment"
INDEX_SUFFIX = ".index"
CATALOG_SUFFIX = ".log"
_FORMAT_LINE = re.compile(r"leveret data, format (\d+), salt ([0-9a-f]{8}), sum ([0-9a-f]{8})\n")


class Layout:
    def __init__(self, root: Path) -> None:
        self.root = root
        self.catalog = root / "catalog"
        self.log = root / "log"
        self.pages = root / "pages"
        self.streams = root / "streams"
        self.quarantine = root / "quarantine"

    def make(self) -> None:
        self.root.mkdir(mode=0o700, parents=True, exist_ok=True)
        for name in DIRECTORIES:
            (self.root / name).mkdir(mode=0o700, exist_ok=True)

    def lock(self) -> DirectoryLock:
        try:
            return DirectoryLock(self.root / LOCK_FILE)
        except BlockingIOError:
            holder = (self.root / LOCK_FILE).read_text("ascii", "replace").strip()
            raise StartupError(
                f"the data directory {self.root} is in use by another broker (process {holder or 'unknown'})"
            ) from None

    def segment(self, number: int) -> Path:
        return self.log / f"{number:010}{SEGMENT_SUFFIX}"

    def index(self, number: int) -> Path:
        return self.log / f"{number:010}{INDEX_SUFFIX}"

    def page(self, number: int) -> Path:
        return self.pages / f"{number:010}{SEGMENT_SUFFIX}"

    def quarantined(self, file: Path) -> Path:
        """A free name in quarantine for this file: what is there already stays. Streams number their segments like the
        log, so theirs have the stream in their name."""
        name = f"stream-{file.parent.name}-{file.name}" if file.parent.parent == self.streams else file.name
        path = self.quarantine / name
        number = 1
        while path.exists():
            path = self.quarantine / f"{name}.{number}"
            number += 1
        return path

    def catalog_log(self, number: int) -> Path:
        return self.catalog / f"{number:010}{CATALOG_SUFFIX}"


def numbered_files(directory: Path, suffix: str) -> dict[int, Path]:
    """The files of a directory that are called by a number, in its order."""
    found = {}
    for path in directory.iterdir():
        if path.suffix == suffix and path.stem.isdecimal():
            found[int(path.stem)] = path
    return dict(sorted(found.items()))


def format_line(salt: int) -> str:
    text = f"leveret data, format {FORMAT_VERSION}, salt {salt:08x}"
    return f"{text}, sum {checksum(text.encode()):08x}\n"


def read_format(layout: Layout) -> int | None:
    """The salt; None if there is no such file or it is damaged. Refuses a format that is not ours."""
    path = layout.root / FORMAT_FILE
    if not path.exists():
        return None
    match = _FORMAT_LINE.fullmatch(path.read_text("utf-8", "replace"))
    if match is None:
        return None
    version, salt, total = int(match[1]), int(match[2], 16), int(match[3], 16)
    text = f"leveret data, format {version}, salt {salt:08x}"
    if checksum(text.encode()) != total:
        return None
    if version != FORMAT_VERSION:
        raise StartupError(
            f"{layout.root} holds data of format {version}; this Leveret reads format {FORMAT_VERSION}. "
            "Start the version that wrote it, or give another data directory"
        )
    return salt


def write_format(layout: Layout, salt: int) -> None:
    replace_file(layout.root / FORMAT_FILE, format_line(salt).encode())

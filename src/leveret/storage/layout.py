"""Where everything is in a data directory, and whether it is ours to use.

lock                     held by the one broker that uses the directory
format                   the format's version and the salt of all checksums, as one line of text
links.key                what encrypts the passwords of links in the catalog; made with the first of them
manifest                 which segments there are, and how far they were synced
catalog/0000000001.log   what exists; the newest file counts
log/0000000007.segment   messages and what became of them        log/0000000007.index   a sealed segment's index
streams/0000000003/      a stream by the number of its queue: segments, and an index beside each
pages/                   transient messages that memory had no room for; emptied at every start
quarantine/              copies of damaged files, for people to look at
alerts/waiting           alerts for webhooks that were not delivered yet; see operations/webhooks/waiting_file.py
staging/                 second names of files while a backup copies them; removed at every start
restoring                a restore did not come to its end; nothing starts here"""

from __future__ import annotations

import os
import re
import stat
from pathlib import Path

from leveret.core.log.records import checksum
from leveret.errors import StartupError
from leveret.runtime.files import DirectoryLock, replace_file, sync_directory
from leveret.runtime.log import get_logger

log = get_logger(__name__)

FORMAT_VERSION = 2
FORMAT_FILE = "format"
LINK_KEY_FILE = "links.key"
LOCK_FILE = "lock"
RESTORING_FILE = "restoring"
# What the group and everybody else may do.
OTHERS = 0o077
BACKUP_LIST_FILE = "BACKUP"
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
        self.manifest = root / "manifest"
        self.staging = root / "staging"

    def refuse_unfinished(self) -> None:
        """What is a backup, or not yet a data directory, must not be written to."""
        if (self.root / BACKUP_LIST_FILE).exists():
            raise StartupError(
                f"{self.root} is a backup; make a data directory of it first: "
                f"leveret restore {self.root} --data-dir NEW"
            )
        if (self.root / RESTORING_FILE).exists():
            raise StartupError(
                f"{self.root} is what a restore has left that did not come to its end; delete it and restore again"
            )

    def make(self) -> None:
        """The directory is there, with all that belongs to it, and its own name is as durable as what is in it."""
        made = [path for path in (self.root, *self.root.parents) if not path.exists()]
        self.root.mkdir(mode=0o700, parents=True, exist_ok=True)
        self.close_to_others()
        names = [self.root / name for name in DIRECTORIES]
        # Without a format file, an earlier start may have been ended before it synced what it had made.
        is_new = made or not (self.root / FORMAT_FILE).exists() or not all(path.exists() for path in names)
        for path in names:
            path.mkdir(mode=0o700, exist_ok=True)
        if is_new:
            sync_directory(self.root)
            for path in dict.fromkeys([self.root, *made]):
                _sync_parent(path)

    def close_to_others(self) -> None:
        """Messages and the hashes of passwords are for the broker's user alone: a directory that others can enter is
        closed to them, or refused if it is not ours to close. What is in it needs no look then."""
        found = self.root.stat()
        if not found.st_mode & OTHERS:
            return
        mode = f"{stat.S_IMODE(found.st_mode):04o}"
        if os.geteuid() not in (0, found.st_uid):
            raise StartupError(
                f"the data directory {self.root} has the mode {mode}, so that others can read messages and passwords, "
                "and it belongs to another user, so that the broker cannot mend it; let its owner run "
                f"`chmod 700 {self.root}`, or name a directory in it, which is then made with the right mode"
            )
        self.root.chmod(stat.S_IMODE(found.st_mode) & ~OTHERS)
        log.warning("others could read the data directory; now they cannot", directory=str(self.root), mode=mode)

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


def _sync_parent(path: Path) -> None:
    try:
        sync_directory(path.parent)
    except PermissionError:
        # One may be allowed to make a directory there, and not to look into it.
        log.warning("the name of the data directory cannot be synced", directory=str(path.parent))


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

"""The salt of all checksums in a data directory: as its format file says, or any other file if that is lost."""

from __future__ import annotations

from collections.abc import Callable

from leveret.errors import StartupError
from leveret.storage.damage import DamageReport
from leveret.storage.file_head import HEAD_BYTES, directory_salt_in
from leveret.storage.layout import CATALOG_SUFFIX, SEGMENT_SUFFIX, Layout, numbered_files, read_format, write_format


def directory_salt_of(layout: Layout, report: DamageReport, new_salt: Callable[[], int]) -> int:
    """A new one for a new directory. Blocks."""
    salt = read_format(layout)
    if salt is not None:
        return salt
    # No format file: a new directory; or one that lost it, and then every other file knows the salt as well.
    files = list(numbered_files(layout.catalog, CATALOG_SUFFIX).values())
    files += numbered_files(layout.log, SEGMENT_SUFFIX).values()
    for path in files:
        with path.open("rb") as file:
            salt = directory_salt_in(file.read(HEAD_BYTES))
        if salt is not None:
            report.add(layout.root / "format", 0, 1, "the format file is damaged; written anew")
            break
    if salt is None:
        if files:
            raise StartupError(f"{layout.root} has no readable format file and no readable file beside it")
        salt = new_salt()
    write_format(layout, salt)
    return salt

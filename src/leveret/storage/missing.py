"""What the manifest says should be there, held against what is: segments that are missing, files that lie in the place
of others, and whether the directory is a copy of one in use. Changes nothing. Blocks.

Called by recovery, which does something about it, and by checks, which only tell."""

from __future__ import annotations

from pathlib import Path

from leveret.storage.damage import Damage
from leveret.storage.file_head import HEAD_BYTES, SEGMENT, STREAM, head_names
from leveret.storage.holdings import THE_LOG, Held, Holdings
from leveret.storage.layout import LOCK_FILE, SEGMENT_SUFFIX, Layout

# The number in the head of a stream's segment has the stream above these bits.
STREAM_NUMBER_BITS = 24
SWAPPED = "another file lies in the place of this segment"
COPIED = (
    "this is a copy of a data directory whose broker was running, or had crashed, when it was copied. What was "
    "confirmed while the copy was made is missing in it; `leveret backup` makes a complete one"
)


def identity(root: Path) -> tuple[int, int]:
    """Stays what it is when the directory is renamed, and is another in every copy. Device numbers are no part of it:
    they change from one boot to the next."""
    return root.stat().st_ino, (root / LOCK_FILE).stat().st_ino


def is_copy(layout: Layout, holdings: Holdings) -> bool:
    """Whether it was copied without a broker having stopped in it. After a stop a copy is as good as the original."""
    if holdings.running_in is None or not (layout.root / LOCK_FILE).exists():
        return False
    return holdings.running_in != identity(layout.root)


def segment_path(layout: Layout, stream: int, number: int) -> Path:
    if stream == THE_LOG:
        return layout.segment(number)
    return layout.streams / f"{stream:010}" / f"{number:010}{SEGMENT_SUFFIX}"


def absent_segments(
    layout: Layout, directory_salt: int, holdings: Holdings, stream: int, paths: dict[int, Path]
) -> dict[int, Damage]:
    """By number: what the manifest has and the disk has not, and what has another file in its place. `paths` are the
    segments that are there; those others are taken out of it."""
    found = _missing_segments(layout, holdings, stream)
    for number, path in list(paths.items()):
        swapped = _swapped_segment(path, stream, number, directory_salt, holdings)
        if swapped is not None:
            found[number] = swapped
            del paths[number]
    return found


def _missing_segments(layout: Layout, holdings: Holdings, stream: int) -> dict[int, Damage]:
    """Without what an earlier start has reported."""
    found = {}
    for number, held in holdings.of(stream).items():
        path = segment_path(layout, stream, number)
        if not held.lost and not path.exists():
            found[number] = Damage(path, 0, max(held.end, 1), f"the segment is missing: {_words(stream, held)}")
    return found


def lost_before(layout: Layout, holdings: Holdings, stream: int) -> list[str]:
    """What an earlier start has reported as missing, and still is."""
    return [
        f"{segment_path(layout, stream, number).relative_to(layout.root)}: missing since an earlier start, which has "
        f"reported it; {_words(stream, held)}"
        for number, held in holdings.of(stream).items()
        if held.lost
    ]


def _words(stream: int, held: Held) -> str:
    if held.sealed and stream == THE_LOG:
        return f"it held {held.messages} messages, in records {held.first} to {held.last}"
    if held.sealed:
        return f"it held the messages from offset {held.first} up to {held.last - 1}"
    if held.last:
        what = f"records up to {held.last}" if stream == THE_LOG else f"messages up to offset {held.last - 1}"
        return f"it held {what} at least"
    return "what it held is not known" if stream else "nothing says that it held anything"


def _swapped_segment(path: Path, stream: int, number: int, directory_salt: int, holdings: Holdings) -> Damage | None:
    """If the head of this file is whole and that of another one. A damaged head says nothing."""
    with path.open("rb") as file:
        names = head_names(file.read(HEAD_BYTES))
    what, whole = (SEGMENT, number) if stream == THE_LOG else (STREAM, stream << STREAM_NUMBER_BITS | number)
    if names is None or names == (what, whole, directory_salt):
        return None
    held = holdings.of(stream).get(number)
    return Damage(path, 0, HEAD_BYTES, f"{SWAPPED}: {_words(stream, held)}" if held is not None else SWAPPED)


def disagreement(stream: int, held: Held | None, first: int, last: int) -> str | None:
    """What a sealed segment has does not begin and end as it did when it was sealed: an older copy, for one."""
    if held is None or not held.sealed or (first, last) == (held.first, held.last):
        return None
    what = "records" if stream == THE_LOG else "offsets"
    return (
        f"the segment is not the one that was written: it has {what} {first} to {last}, the manifest says "
        f"{held.first} to {held.last}"
    )

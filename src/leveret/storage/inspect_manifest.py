"""The manifest as a check goes by it: what should be there and is not. Never changes anything; works beside a running
broker, which makes and deletes files meanwhile. Called by storage.inspect and storage.stream.inspect."""

from __future__ import annotations

from pathlib import Path

from leveret.storage.damage import Damage
from leveret.storage.holdings import THE_LOG, Holdings
from leveret.storage.layout import Layout
from leveret.storage.manifest import ReadManifest
from leveret.storage.missing import COPIED, absent_segments, is_copy, lost_before


class ManifestInspection:
    """To be made before the files are looked at: what it says was synced is in them by then."""

    def __init__(self, layout: Layout, directory_salt: int) -> None:
        self._layout = layout
        self._directory_salt = directory_salt
        self._read = ReadManifest(layout, directory_salt)

    @property
    def holdings(self) -> Holdings:
        return self._read.holdings

    @property
    def damages(self) -> list[Damage]:
        """Those of the manifest itself, and of the directory as a whole."""
        copied = [Damage(self._layout.root, 0, 1, COPIED)] if is_copy(self._layout, self.holdings) else []
        return [*self._read.damages, *copied]

    def stream_ids(self) -> list[int]:
        return [stream for stream in self.holdings.segments if stream != THE_LOG]

    def absent(self, stream: int, paths: dict[int, Path]) -> list[Damage]:
        """What the manifest has and the disk has not; what lies in the place of another is taken out of `paths`."""
        found = absent_segments(self._layout, self._directory_salt, self.holdings, stream, paths)
        if found:
            # A running broker records a removal before it deletes the file: then the manifest has it no more.
            held = ReadManifest(self._layout, self._directory_salt).holdings.of(stream)
            found = {number: damage for number, damage in found.items() if number in held or damage.path.exists()}
        return list(found.values())

    def lost_before(self, stream: int) -> list[str]:
        return lost_before(self._layout, self.holdings, stream)

"""At a start: what the manifest says and what is there become one. What is missing is reported with what it held, a
file that lies in the place of another goes to quarantine, and what the manifest does not know is taken into it: all of
a directory that has none yet, and what a crash kept from being recorded. Blocks."""

from __future__ import annotations

from pathlib import Path

from leveret.runtime.files import remove_files
from leveret.storage.damage import Damage, DamageReport
from leveret.storage.holdings import CREATED, LOST, Event
from leveret.storage.layout import Layout
from leveret.storage.manifest import Manifest
from leveret.storage.missing import COPIED, absent_segments, is_copy


def open_manifest(layout: Layout, directory_salt: int, report: DamageReport) -> Manifest:
    """The manifest, and whether it is that of another directory: a copy is told from its original by that."""
    manifest = Manifest(layout, directory_salt)
    found = manifest.load()
    for damage in found.damages:
        report.add(damage.path, damage.offset, damage.size, damage.what)
    if is_copy(layout, found.holdings):
        report.add(layout.root, 0, 1, COPIED)
    return manifest


def reconcile(
    layout: Layout, directory_salt: int, manifest: Manifest, report: DamageReport, stream: int, paths: dict[int, Path]
) -> list[Damage]:
    """What is missing. `paths` are the segments that are there; those that are not what they are called are taken out
    of it. What follows from all this is noted, and recorded by whoever ends the start."""
    holdings = manifest.holdings
    missing = absent_segments(layout, directory_salt, holdings, stream, paths)
    for number, damage in missing.items():
        report.add(damage.path, damage.offset, damage.size, damage.what)
        if damage.path.exists():
            # A copy is in quarantine by now.
            remove_files([damage.path])
        if number in holdings.of(stream):
            manifest.note(Event(LOST, stream, number))
    for number in paths:
        held = holdings.of(stream).get(number)
        if held is None or held.lost:
            manifest.note(Event(CREATED, stream, number))
    return list(missing.values())

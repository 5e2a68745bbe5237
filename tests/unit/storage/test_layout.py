"""Names in a data directory: nothing that was put into quarantine is ever overwritten."""

from pathlib import Path

from leveret.core.segment import Segment
from leveret.storage.damage import DamageReport
from leveret.storage.layout import Layout
from leveret.storage.segment_files import SegmentFiles


def test_a_quarantined_file_keeps_its_name_as_long_as_it_is_free(tmp_path: Path) -> None:
    layout = Layout(tmp_path)
    layout.make()
    found = []
    for _ in range(3):
        found.append(layout.quarantined(layout.log / "7.segment"))
        found[-1].touch()
    assert [path.name for path in found] == ["7.segment", "7.segment.1", "7.segment.2"]
    assert layout.quarantined(layout.streams / "0000000003/7.segment").name == "stream-0000000003-7.segment"


def test_a_damaged_segment_is_moved_beside_the_copy_that_recovery_made(tmp_path: Path) -> None:
    layout = Layout(tmp_path)
    layout.make()
    path = layout.segment(7)
    path.write_bytes(b"as recovery found it")
    DamageReport(layout).keep(path)
    path.write_bytes(b"as it was at its end")
    segment = Segment(7, 0, path, 64)
    segment.damaged = True
    files = SegmentFiles(layout, 1, 65536, 8)
    files.remove([segment])
    files.close()
    assert not path.exists()
    assert sorted(kept.read_bytes() for kept in layout.quarantine.iterdir()) == [
        b"as it was at its end",
        b"as recovery found it",
    ]

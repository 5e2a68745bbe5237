"""A data directory: nothing that was put into quarantine is ever overwritten, and it is closed to other users."""

import os
import stat
from pathlib import Path

import pytest

from leveret.core.log.segment import Segment
from leveret.errors import StartupError
from leveret.storage.damage import DamageReport
from leveret.storage.layout import Layout
from leveret.storage.manifest import Manifest
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
    files = SegmentFiles(layout, 1, 65536, 8, Manifest(layout, 1))
    files.remove([segment])
    files.close()
    assert not path.exists()
    assert sorted(kept.read_bytes() for kept in layout.quarantine.iterdir()) == [
        b"as it was at its end",
        b"as recovery found it",
    ]


def mode_of(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def test_a_new_directory_is_for_its_owner_alone(tmp_path: Path) -> None:
    mask = os.umask(0)
    try:
        Layout(tmp_path / "deep" / "data").make()
    finally:
        os.umask(mask)
    assert mode_of(tmp_path / "deep" / "data") == 0o700


@pytest.mark.parametrize("mode", [0o755, 0o750, 0o701, 0o2770])
def test_a_directory_that_others_can_enter_is_closed_aloud(
    tmp_path: Path, mode: int, caplog: pytest.LogCaptureFixture
) -> None:
    root = tmp_path / "data"
    root.mkdir()
    root.chmod(mode)
    Layout(root).make()
    assert mode_of(root) & 0o077 == 0 and mode_of(root) & 0o700 == 0o700
    assert "others could read the data directory" in caplog.text
    caplog.clear()
    Layout(root).make()
    assert caplog.text == ""


def test_an_open_directory_of_another_user_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    root = tmp_path / "data"
    root.mkdir()
    root.chmod(0o755)
    monkeypatch.setattr(os, "geteuid", lambda: root.stat().st_uid + 1)
    with pytest.raises(StartupError, match=r"mode 0755.*chmod 700"):
        Layout(root).make()
    assert mode_of(root) == 0o755
    root.chmod(0o700)
    Layout(root).make()

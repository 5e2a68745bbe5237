"""The benchmark's disk: which file system a directory is on, and what a bare write costs there."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.broker import disk
from benchmarks.broker.disk import DiskError, Mount, append_synced, data_root, mount_of

MOUNTS = """\
27 1 254:0 / / rw,relatime - ext4 /dev/vda rw,discard
30 27 0:27 / /tmp rw,relatime shared:7 master:1 - tmpfs tmpfs rw
31 30 0:28 / /tmp/real\\040disk rw - xfs /dev/vdb rw
32 27 0:29 / /over rw - ext4 /dev/vdc rw
33 27 0:30 / /over rw - tmpfs tmpfs rw
"""


@pytest.mark.parametrize(
    ("path", "mount"),
    [
        ("/work", Mount("ext4", "/dev/vda")),
        ("/tmp/bench", Mount("tmpfs", "tmpfs")),
        ("/tmpfoo", Mount("ext4", "/dev/vda")),
        ("/tmp/real disk/bench", Mount("xfs", "/dev/vdb")),
        ("/over/there", Mount("tmpfs", "tmpfs")),
    ],
)
def test_the_deepest_and_latest_mount_holds_a_path(path: str, mount: Mount) -> None:
    assert mount_of(Path(path), MOUNTS) == mount


def test_a_directory_in_memory_is_refused_if_asked_for_and_passed_over_if_not(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    memory, real = tmp_path / "memory", tmp_path / "real"
    kinds = {memory: "tmpfs", real: "ext4"}
    monkeypatch.setattr(disk, "mounted", lambda path: Mount(kinds[path], "somewhere"))
    monkeypatch.setattr(disk.tempfile, "gettempdir", lambda: str(memory))
    assert data_root(None, real) == real
    with pytest.raises(DiskError, match=r"memory \(tmpfs\)"):
        data_root(memory, real)


def test_a_bare_append_takes_time_and_leaves_nothing(tmp_path: Path) -> None:
    bare = append_synced(tmp_path, seconds=0.01)
    assert 0 < bare.p50_us <= bare.p99_us
    assert bare.mean_us > 0
    assert list(tmp_path.iterdir()) == []

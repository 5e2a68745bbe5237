"""The files of streams: made again after a failure, closed when they are done with, gone when they are deleted."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from leveret.storage.stream import files as stream_files
from tests.unit.storage.stream_bench import Reader, StreamBench

Make = Callable[..., StreamBench]


def held_by_nobody(bench: StreamBench) -> list[str]:
    """Deleted segments that an open descriptor keeps on the disk."""
    links = []
    for fd in os.listdir("/proc/self/fd"):
        try:
            links.append(os.readlink(f"/proc/self/fd/{fd}"))
        except FileNotFoundError:
            continue
    return [link for link in links if link.startswith(str(bench.layout.root)) and link.endswith("(deleted)")]


def test_a_full_segment_is_closed_although_it_was_full_before_it_was_written(make_bench: Make) -> None:
    """Messages come while a batch is being written, as under load."""
    bench = make_bench(4096)
    bench.append(b"x" * 100)
    for _ in range(10):
        batch = bench.write()
        for _ in range(10):
            bench.append(b"x" * 500)
        bench.sync(batch)
    bench.commit()
    assert len(bench.files()) > 10
    assert len(bench.streams._files._writers) == 1
    bench.retain(1)
    assert held_by_nobody(bench) == []


def test_what_was_read_is_let_go_when_it_is_deleted(make_bench: Make) -> None:
    bench = make_bench(4096)
    for number in range(60):
        bench.append(b"%d" % number * 200)
    bench.commit()
    bench.read_all()
    bench.retain(1)
    assert len(bench.log.segments) == 1 and held_by_nobody(bench) == []
    bench.read_all()
    bench.log.close()
    bench.streams.remove(bench.log)
    bench.settle()
    bench.commit()
    assert bench.files() == [] and held_by_nobody(bench) == []


def test_a_segment_that_could_not_be_made_is_tried_again(make_bench: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    """A full disk for a moment: the old segment grows on, then all is as before."""
    bench = make_bench(4096)
    bench.append(b"first")
    bench.commit()

    def no_space(fd: int, data: bytes) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with monkeypatch.context() as patched:
        patched.setattr(stream_files, "write_all", no_space)
        for _ in range(10):
            bench.append(b"x" * 1000)
            bench.commit()
    assert len(bench.log.segments) == 1
    # After a while, not with each message.
    bench.append(b"x" * 1_100_000)
    for _ in range(20):
        bench.append(b"x" * 1000)
        bench.commit()
    assert len(bench.log.segments) > 2
    assert [message.offset for message in bench.read_all()] == list(range(32))
    bench.restart()
    assert [message.offset for message in bench.read_all()] == list(range(32))
    assert not bench.report.found and not bench.failures


def test_a_first_segment_that_cannot_be_made_is_the_end(make_bench: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    bench = make_bench(4096)

    def broken(fd: int, data: bytes) -> None:
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    monkeypatch.setattr(stream_files, "write_all", broken)
    with pytest.raises(OSError, match="Input/output"):
        bench.append(b"first")
    assert len(bench.failures) == 1
    assert bench.files() == []


def test_the_names_of_new_files_are_synced_with_the_batch(make_bench: Make) -> None:
    bench = make_bench(4096)
    bench.append(b"first")
    files = bench.streams._files
    fds = files.take_new_names(bench.log.segment)
    assert {os.readlink(f"/proc/self/fd/{fd}") for fd in fds} == {
        str(bench.layout.streams),
        str(bench.layout.streams / "0000000007"),
    }
    assert files.take_new_names(bench.log.segment) == []
    for _ in range(5):
        bench.append(b"x" * 1000)
    assert len(files.take_new_names(bench.log.segment)) == 1


def test_a_damaged_segment_goes_into_quarantine(make_bench: Make) -> None:
    bench = make_bench(4096)
    for _ in range(20):
        bench.append(b"x" * 1000)
    bench.commit()
    bench.log.segments[0].damaged = True
    bench.retain(1)
    assert [path.name for path in bench.layout.quarantine.iterdir()] == ["stream-0000000007-0000000001.segment"]
    assert len(bench.files()) == 1


@pytest.mark.parametrize(("number", "fatal"), [(errno.ENOSPC, False), (errno.EDQUOT, False), (errno.EIO, True)])
def test_an_index_that_cannot_be_written(
    make_bench: Make, monkeypatch: pytest.MonkeyPatch, number: int, fatal: bool
) -> None:
    """For lack of room: it stays in memory, and readers find their way. Anything else is the end."""
    bench = make_bench(4096)

    def failing(path: Path, data: bytes) -> None:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(stream_files, "replace_file", failing)
    for _ in range(30):
        bench.append(b"x" * 500)
    bench.commit()
    assert len(bench.files()) > 3 and bench.indexes() == []
    assert bool(bench.failures) == fatal
    assert [message.offset for message in bench.read_all(20)] == list(range(20, 30))


def test_a_disk_that_cannot_be_read_is_the_end(make_bench: Make, tmp_path: Path) -> None:
    """Other than damage, nobody knows what is still good."""
    bench = make_bench()
    bench.append(b"x" * 500)
    bench.commit()
    # A directory cannot be read like a file.
    bench.streams._files._readers[bench.log.segment] = os.open(tmp_path, os.O_RDONLY)
    reader = Reader(bench, 0)
    reader.take()
    bench.wait(lambda: bool(bench.failures))
    assert "cannot be read" in bench.failures[0] and reader.got == []

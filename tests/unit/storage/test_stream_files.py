"""The files of streams: made again after a failure, closed when they are done with, gone when they are deleted."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from leveret.storage.stream import files as stream_files
from leveret.storage.stream import opener as stream_opener
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


def no_space(*_: object) -> None:
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def test_files_that_cannot_be_made_are_made_later(make_bench: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    """A full disk for a moment, for a stream's first file and for others: what is appended waits, and all is well."""
    bench = make_bench(4096)
    with monkeypatch.context() as patched:
        patched.setattr(stream_files, "write_all", no_space)
        for _ in range(10):
            bench.append(b"x" * 1000)
        assert len(bench.log.segments) > 2
        for _ in range(2):
            opened = bench.open_files()
            assert opened.shortage is not None and not opened.made
            assert bench.files() == [], "nothing is left where the next try needs the name"
    bench.commit()
    assert len(bench.files()) == len(bench.log.segments)
    assert [message.offset for message in bench.read_all()] == list(range(10))
    bench.restart()
    assert [message.offset for message in bench.read_all()] == list(range(10))
    assert not bench.report.found and not bench.failures


def test_files_are_made_off_the_loop_and_only_when_they_are_needed(make_bench: Make) -> None:
    bench = make_bench(4096)
    for _ in range(10):
        bench.append(b"x" * 1000)
    assert len(bench.log.segments) > 2 and not (bench.layout.streams / "0000000007").exists()
    assert bench.streams.lacks_files
    bench.open_files()
    assert len(bench.files()) == len(bench.log.segments) and not bench.streams.lacks_files


def test_new_names_are_synced_before_anything_is_written(make_bench: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    """With fsync: fdatasync need not sync the names in a directory."""
    bench = make_bench(4096)
    synced: list[str] = []

    def sync(fd: int) -> None:
        synced.append(os.readlink(f"/proc/self/fd/{fd}"))

    monkeypatch.setattr(os, "fsync", sync)
    bench.append(b"first")
    bench.open_files()
    streams = bench.layout.streams
    assert set(synced) == {str(streams), str(streams / "0000000007")}
    synced.clear()
    bench.commit()
    for _ in range(5):
        bench.append(b"x" * 1000)
    bench.open_files()
    assert synced == [str(streams / "0000000007")]


def test_names_that_could_not_be_synced_are_synced_later(make_bench: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    """The file is there, and is not written to before its name is safe."""
    bench = make_bench(4096)
    bench.append(b"first")
    with monkeypatch.context() as patched:
        patched.setattr(stream_opener, "sync_directory", no_space)
        opened = bench.open_files()
    assert opened.shortage is not None and len(bench.files()) == 1
    assert bench.streams.lacks_files
    assert bench.open_files().error is None and not bench.streams.lacks_files
    bench.commit()
    assert [message.body for message in bench.read_all()] == [b"first"]


def test_a_sync_of_names_that_fails_is_no_shortage(make_bench: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever the error is called: a second sync would seem to succeed."""
    bench = make_bench(4096)
    bench.append(b"first")
    monkeypatch.setattr(os, "fsync", no_space)
    opened = bench.open_files()
    assert isinstance(opened.error, OSError) and opened.shortage is None


def test_a_stream_that_is_deleted_gets_no_files_any_more(make_bench: Make) -> None:
    bench = make_bench(4096)
    bench.append(b"first")
    bench.log.close()
    bench.streams.remove(bench.log)
    bench.settle()
    assert not bench.streams.lacks_files
    bench.commit()
    assert list(bench.layout.streams.iterdir()) == []


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
    bench.streams._files._readers.hold(bench.log.segment, tmp_path)
    reader = Reader(bench, 0)
    reader.take()
    bench.wait(lambda: bool(bench.failures))
    assert "cannot be read" in bench.failures[0] and reader.got == []


@pytest.mark.parametrize("number", [errno.EIO, errno.EACCES])
def test_a_directory_that_cannot_be_deleted_waits_for_the_next_start(
    make_bench: Make, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    """The stream is gone for everybody; its files are no reason to end."""
    bench = make_bench(4096)
    bench.append(b"x")
    bench.commit()

    def failing(path: Path) -> None:
        raise OSError(number, os.strerror(number))

    with monkeypatch.context() as patched:
        patched.setattr(stream_files.shutil, "rmtree", failing)
        bench.streams._files.remove_stream(bench.log.id)
    assert bench.files() != []
    bench.streams._remove_unknown(bench.log.id)
    assert bench.files() == []

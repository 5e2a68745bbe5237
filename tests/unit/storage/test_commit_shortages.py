"""The group commit when something is short or breaks: a batch is written and synced whole, or nobody is told of it, nor
of anything that comes later."""

from __future__ import annotations

import asyncio
import errno
import os
import resource
import threading
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from leveret.core.log.scan import Scan
from leveret.core.stream.log import StreamLog
from leveret.core.stream.queue import StreamQueue
from leveret.storage import catalog_log, committer
from leveret.storage import store as store_module
from leveret.storage.committer import State
from leveret.storage.damage import Damage
from leveret.storage.file_head import CATALOG, HEAD_BYTES, file_salt
from leveret.storage.store import Store, StoreSettings
from leveret.storage.stream import files as stream_files
from leveret.storage.streams import Streams
from tests.unit.storage.test_stream_commit import Waiting, append, offsets, run

Live = Callable[[Store, list[StreamLog]], Awaitable[Any]]
# More than are written in one go.
MANY = committer.STREAMS_A_JOB + 40
# As `run` has it.
SALT = 7


class Trouble:
    """Opens fail with this error while there is one, after so many that succeed."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.error = 0
        self.spared = 0
        self.tries = 0
        self._open = os.open
        monkeypatch.setattr(stream_files.os, "open", self)

    def __call__(self, path: Any, flags: int, mode: int = 0o777) -> int:
        if self.error and "streams" in str(path):
            self.tries += 1
            if self.spared == 0:
                raise OSError(self.error, os.strerror(self.error))
            self.spared -= 1
        return self._open(path, flags, mode)


def publish(log: StreamLog, logs: list[StreamLog]) -> Waiting:
    """To one stream, by somebody who notes how far all were when it was told."""
    waiting = Waiting(logs)
    append(log)
    StreamQueue(b"any", None, log, None).await_sync(waiting)
    return waiting


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(20):
        while not condition():  # noqa: ASYNC110 - what is waited for happens in threads of the store
            await asyncio.sleep(0.005)


@pytest.mark.parametrize("number", [errno.EMFILE, errno.ENFILE, errno.ENOSPC, errno.EDQUOT, errno.ENOMEM])
def test_a_shortage_is_waited_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int) -> None:
    trouble = Trouble(monkeypatch)

    async def live(store: Store, logs: list[StreamLog]) -> None:
        short: list[tuple[str, int | None]] = []
        store.on_shortage = lambda what, error: short.append((what, error.errno))
        store.rewrite_catalog_now()
        trouble.error = number
        first = publish(logs[0], logs)
        await until(lambda: trouble.tries > 2)
        # What comes later is not confirmed before, nor does it confirm the first.
        later = publish(logs[1], logs)
        store.append_command(b"")
        await asyncio.sleep(0.05)
        assert first.told == later.told == [] and store.failed is None
        assert short[0] == (committer.STREAM_FILES, number) and store.shortages_total == len(short)
        trouble.error = 0
        await store.flush()
        assert first.told == [[1, 1]] and later.told == [[1, 1]]

    run(tmp_path, 2, live, clean=False)
    assert run(tmp_path, 2, offsets) == [(0, 1), (0, 1)]


def test_a_shortage_in_the_middle_of_a_batch_is_waited_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The files are made before, but not all of them can be open."""
    trouble = Trouble(monkeypatch)

    async def live(store: Store, logs: list[StreamLog]) -> None:
        waiting = [publish(log, logs) for log in logs]
        # Each is made, and its directory synced; then few of those that were closed again are opened.
        trouble.error, trouble.spared = errno.EMFILE, 2 * MANY + 1 + 10
        await until(lambda: store.shortages_total > 2)
        await asyncio.sleep(0.05)
        assert all(each.told == [] for each in waiting) and store.failed is None
        trouble.error = 0
        await store.flush()
        assert all(each.told == [[1] * MANY] for each in waiting)

    run(tmp_path, MANY, live, clean=False)
    assert run(tmp_path, MANY, offsets) == [(0, 1)] * MANY


@contextmanager
def descriptors_left(count: int) -> Iterator[None]:
    """Only so many more can be opened."""
    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    top = max(int(name) for name in os.listdir("/proc/self/fd"))
    held = [os.open("/dev/null", os.O_RDONLY)]
    while held[-1] < top:
        held.append(os.open("/dev/null", os.O_RDONLY))
    resource.setrlimit(resource.RLIMIT_NOFILE, (held[-1] + 1 + count, limits[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, limits)
        for fd in held:
            os.close(fd)


@pytest.mark.parametrize("left", [2, 5, 40])
def test_few_descriptors_are_enough_for_many_streams(tmp_path: Path, left: int) -> None:
    """Without any fault: fewer can be open than one batch has something for."""
    count = 300

    async def live(store: Store, logs: list[StreamLog]) -> None:
        with descriptors_left(left):
            for number in range(1, 4):
                waiting = [publish(log, logs) for log in logs]
                async with asyncio.timeout(60):
                    await store.flush()
                assert store.failed is None
                assert all(each.told == [[number] * count] for each in waiting)

    run(tmp_path, count, live, clean=False)
    assert run(tmp_path, count, offsets) == [(0, 3)] * count


def stream_damages(store: Store) -> list[Damage]:
    """Without those of the catalog, which these stores have none of."""
    return [damage for damage in store.damages if "streams" in damage.path.parts]


def test_a_stop_that_cannot_flush_writes_no_index_and_no_last_record(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The next start reads what is there, as after a crash, and finds no damage."""
    trouble = Trouble(monkeypatch)
    monkeypatch.setattr(store_module, "CLOSE_DEADLINE_S", 0.2)

    async def live(store: Store, logs: list[StreamLog]) -> None:
        append(logs[0], b"safe")
        await store.flush()
        trouble.error = errno.EMFILE
        append(logs[0], b"late")
        append(logs[1], b"late")

    run(tmp_path, 2, live)
    trouble.error = 0
    assert not list((tmp_path / "streams").rglob("*.index"))
    store = Store(tmp_path, StoreSettings(), lambda: SALT)
    assert store._recovered is not None and not store._recovered.closed
    store.abandon()

    async def found(store: Store, logs: list[StreamLog]) -> tuple[list[Any], list[tuple[int, int]]]:
        return stream_damages(store), await offsets(store, logs)

    assert run(tmp_path, 2, found) == ([], [(0, 1), (0, 0)])


def test_a_stop_takes_along_what_gathered(tmp_path: Path) -> None:
    """Messages and offsets without anybody who waits for them, right before the end."""

    async def live(_: Store, logs: list[StreamLog]) -> None:
        append(logs[0])
        logs[0].store_offset(b"c", 5)
        logs[1].store_offset(b"c", 6)

    async def found(store: Store, logs: list[StreamLog]) -> list[Any]:
        stored = [log.tracking.consumers for log in logs]
        return [stream_damages(store), await offsets(store, logs), stored]

    run(tmp_path, 2, live)
    assert len(list((tmp_path / "streams").rglob("*.index"))) == 2
    assert run(tmp_path, 2, found) == [[], [(0, 1), (0, 0)], [{b"c": 5}, {b"c": 6}]]


def test_an_error_of_the_disk_is_the_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    trouble = Trouble(monkeypatch)

    async def live(store: Store, logs: list[StreamLog]) -> None:
        reasons: list[str] = []
        store.on_failure = reasons.append
        trouble.error = errno.EIO
        first = publish(logs[0], logs)
        await until(lambda: store.failed is not None)
        trouble.error = 0
        later = publish(logs[1], logs)
        await asyncio.sleep(0.05)
        assert first.told == later.told == [] and reasons == [store.failed] and "disk" in reasons[0]
        with pytest.raises(OSError, match="disk"):
            await store.flush()

    run(tmp_path, 2, live)


def test_files_of_streams_are_made_off_the_loop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A disk that hangs while it makes one holds up nobody who does not wait for it."""
    hangs, create = threading.Event(), stream_files.StreamFiles.create

    def hanging(self: stream_files.StreamFiles, *arguments: Any) -> int:
        assert hangs.wait(20)
        return create(self, *arguments)

    async def live(store: Store, logs: list[StreamLog]) -> None:
        monkeypatch.setattr(stream_files.StreamFiles, "create", hanging)
        begun = time.monotonic()
        waiting = publish(logs[0], logs)
        await asyncio.sleep(0.1)
        later = publish(logs[0], logs)
        await asyncio.sleep(0.1)
        assert time.monotonic() - begun < 15 and waiting.told == later.told == []
        hangs.set()
        await store.flush()
        assert waiting.told == later.told == [[2]]

    run(tmp_path, 1, live, clean=False)


def broken(*_: object) -> None:
    raise RuntimeError("a mistake of ours")


@pytest.mark.parametrize(
    ("where", "name"),
    [(Streams, "add_pieces"), (Streams, "all_synced"), (committer.Committer, "_add_parts"), (Waiting, "synced")],
)
def test_whatever_goes_wrong_with_a_batch_no_later_one_confirms_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, where: type, name: str
) -> None:
    async def live(store: Store, logs: list[StreamLog]) -> None:
        await store.flush()
        with monkeypatch.context() as patched:
            patched.setattr(where, name, broken)
            first = publish(logs[0], logs)
            await until(lambda: store.failed is not None)
        later = publish(logs[1], logs)
        await asyncio.sleep(0.05)
        assert first.told == later.told == []
        assert store._committer is not None and store._committer.state is State.FAILED

    run(tmp_path, 2, live)


def test_a_listener_that_fails_does_not_hold_up_the_next_batch(tmp_path: Path) -> None:
    async def live(store: Store, logs: list[StreamLog]) -> None:
        calls: list[dict[str, Any]] = []
        asyncio.get_running_loop().set_exception_handler(lambda _loop, context: calls.append(context))
        store.kick = broken
        append(logs[0])
        # Came while the first was being written.
        await asyncio.sleep(0)
        append(logs[0])
        await until(lambda: logs[0].committed_offset == 2)
        assert calls and store.failed is None

    run(tmp_path, 1, live, clean=False)


# ---- the catalog


def overgrow(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(catalog_log, "GROWN_BYTES_MIN", 1000)
    store.snapshot = lambda: [b"snapshot"]
    store.append_command(b"x" * 2000)


def commands_in(root: Path) -> list[bytes]:
    """What the next start would find."""
    path = sorted((root / "catalog").glob("*.log"))[-1]
    scan = Scan(file_salt(SALT, CATALOG, int(path.stem)))
    scan.run(path.read_bytes(), HEAD_BYTES)
    return [command for command in scan.commands if command]


@pytest.mark.parametrize("what", ["create_file", "open_directory", "rename"])
def test_a_catalog_that_cannot_be_written_anew_goes_on_as_it_was(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, what: str
) -> None:
    tries = []

    def short(*_: object) -> int:
        tries.append(what)
        raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))

    async def live(store: Store, logs: list[StreamLog]) -> None:
        store.rewrite_catalog_now()
        overgrow(store, monkeypatch)
        with monkeypatch.context() as patched:
            if what == "rename":
                patched.setattr(Path, "rename", short)
            else:
                patched.setattr(catalog_log, what, short)
            await store.flush()
            await until(lambda: bool(tries))
            # In time for the snapshot, or not: kept in the old file.
            store.append_command(b"meanwhile")
            await store.flush()
            assert store.failed is None and store.shortages_total > 0
            assert commands_in(tmp_path)[-1] == b"meanwhile"
        assert store._rewriter is not None
        store._rewriter._next_try = 0.0
        store.snapshot = lambda: [b"later"]
        store.append_command(b"last")
        await store.flush()
        await until(lambda: commands_in(tmp_path)[:1] == [b"later"])
        store.append_command(b"at the end")
        await store.flush()
        assert commands_in(tmp_path)[-1] == b"at the end"

    run(tmp_path, 0, live, clean=False)

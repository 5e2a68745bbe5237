"""Streams in the store's group commit: many in one batch, with whoever waits for them, and together with the log."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

from leveret.core.log.batch import Publisher
from leveret.core.stream.log import StreamLog
from leveret.core.stream.queue import StreamQueue
from leveret.storage import committer
from leveret.storage.store import Store, StoreSettings

NOW = 1_800_000_000_000
# More than are written in one go.
STREAMS = 2 * committer.STREAMS_A_JOB + 10


class Waiting(Publisher):
    """Notes what was committed when it was told."""

    def __init__(self, logs: list[StreamLog]) -> None:
        super().__init__()
        self.logs = logs
        self.told: list[list[int]] = []

    def synced(self, batch: int, accepted_seq: int) -> int:
        self.told.append([log.committed_offset for log in self.logs])
        return 0


def append(log: StreamLog, body: bytes = b"x") -> None:
    log.append(b"\x00\x00", b"\x00\x00", body, 1, 0, None, NOW)


def run(root: Path, count: int, live: Callable[[Store, list[StreamLog]], Awaitable[Any]], clean: bool = True) -> Any:
    """A store with so many streams, open for as long as `live` takes; then stopped, or left as by a kill."""

    async def life() -> Any:
        store = Store(root, StoreSettings(), lambda: 7)
        store.take_commands()
        logs = [store.streams.create(number) for number in range(1, count + 1)]
        store.restore(NOW)
        store.start(asyncio.get_running_loop())
        try:
            return await live(store, logs)
        finally:
            if clean:
                await store.close()
            else:
                store.abandon()

    return asyncio.run(life())


async def offsets(_: Store, logs: list[StreamLog]) -> list[tuple[int, int]]:
    return [(log.first_offset(), log.committed_offset) for log in logs]


def test_many_streams_are_committed_together(tmp_path: Path) -> None:
    """Nobody is told before the last of them is safe."""

    async def publish(store: Store, logs: list[StreamLog]) -> list[list[int]]:
        waiting = Waiting(logs)
        for log in logs:
            append(log)
        StreamQueue(b"any", None, logs[-1], None).await_sync(waiting)
        await store.flush()
        return waiting.told

    assert run(tmp_path, STREAMS, publish, clean=False) == [[1] * STREAMS]
    assert run(tmp_path, STREAMS, offsets) == [(0, 1)] * STREAMS


def test_offsets_of_consumers_go_along_without_hurry(tmp_path: Path) -> None:
    async def store_offsets(store: Store, logs: list[StreamLog]) -> None:
        for number, log in enumerate(logs):
            log.store_offset(b"consumer", number)
        # Written and synced in a moment, although nobody asks for it.
        await asyncio.sleep(2 * committer.LAZY_SYNC_S)

    async def stored(_: Store, logs: list[StreamLog]) -> list[int]:
        return [log.tracking.consumers[b"consumer"] for log in logs]

    run(tmp_path, 40, store_offsets, clean=False)
    assert run(tmp_path, 40, stored) == list(range(40))


def test_the_log_says_soon_that_a_stream_is_synced(tmp_path: Path) -> None:
    async def publish(_: Store, logs: list[StreamLog]) -> list[int]:
        append(logs[0])
        await asyncio.sleep(0)
        ends = []
        for _ in range(100):
            ends.append(logs[0].segment.end if logs[0].segment else 0)
            await asyncio.sleep(0.005)
        return sorted(set(ends))

    ends = run(tmp_path, 1, publish, clean=False)
    assert len(ends) >= 2, "evidence follows by itself"
    data = next((tmp_path / "streams" / "0000000001").glob("*.segment")).read_bytes()[: ends[-1]]
    assert int.from_bytes(data[-8:], "big") == 1


def test_a_deleted_stream_does_not_hold_up_the_batch(tmp_path: Path) -> None:
    async def delete(store: Store, logs: list[StreamLog]) -> list[int]:
        for log in logs:
            append(log)
        # One goes before its part is taken, one while it is on its way.
        logs[0].close()
        store.streams.remove(logs[0])
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        logs[1].close()
        store.streams.remove(logs[1])
        append(logs[2])
        await store.flush()
        assert store.failed is None
        for _ in range(500):
            if left() == [3, 4, 5]:
                break
            await asyncio.sleep(0.01)
        return [log.committed_offset for log in logs[2:]]

    def left() -> list[int]:
        return sorted(int(path.name) for path in (tmp_path / "streams").iterdir())

    assert run(tmp_path, 5, delete) == [2, 1, 1]
    assert left() == [3, 4, 5]

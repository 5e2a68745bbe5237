"""Jobs that archive into files: what is in a complete file has left the queue, everything else is still there."""

from __future__ import annotations

import asyncio
import base64
import errno
import json
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from leveret.auth.audit import Audit
from leveret.catalog.records import ReplayArchive
from leveret.operations.reprocess import archive_files, filing
from leveret.operations.reprocess.archive_files import ArchiveFiles
from leveret.operations.reprocess.spec import ReplaySpec
from tests.unit.operations.reprocess.test_reprocessor import Bench
from tests.unit.queues.dataplane import message

TO_FILES = ReplaySpec(archive=ReplayArchive(0, "", "", to_files=True))


class Archive(Bench):
    def __init__(self, root: Path, count: int = 0) -> None:
        super().__init__(count)
        self.root = root
        self.files = ArchiveFiles(root, self.broker.clock.wall, self.broker.dice.name)
        self.files.open()
        self.reprocessor.files = self.files
        self.reprocessor.cluster_id = "cluster"
        self.broker.audit = Audit(self.broker.clock.wall)

    def archive(self) -> None:
        # Its messages have no stamp, so they are as old as can be.
        self.run(lambda: self.start(TO_FILES))

    def complete(self) -> list[Path]:
        return sorted(self.root.glob("date=*/dead-letters-*.jsonl"))

    def lines(self) -> list[dict[str, Any]]:
        return [json.loads(line) for path in self.complete() for line in path.read_text().splitlines()]

    def left(self) -> list[Path]:
        return [path for path in self.root.rglob("*") if path.is_file() and path not in self.complete()]


@pytest.fixture
def make(tmp_path: Path) -> Iterator[Callable[[int], Archive]]:
    made: list[Archive] = []

    def one(count: int) -> Archive:
        made.append(Archive(tmp_path / "archive", count))
        return made[-1]

    yield one
    for archive in made:
        archive.files.close()


def bodies(lines: list[dict[str, Any]]) -> list[bytes]:
    return [base64.b64decode(line["body"]) for line in lines]


def test_what_is_archived_is_in_a_file_and_gone(make: Callable[[int], Archive]) -> None:
    archive = make(500)
    archive.archive()
    assert bodies(archive.lines()) == [b"%d" % number for number in range(500)]
    assert (archive.last().state, archive.last().archived, archive.last().failed) == ("done", 500, 0)
    assert archive.bodies("a") == []
    assert archive.queue("a").unacked_count == 0
    assert len(archive.complete()) == 1
    assert archive.left() == []
    (alert,) = archive.reprocessor.alerts.recent
    assert (alert.kind, alert.count, alert.archive) == ("archived", 500, str(archive.complete()[0]))


def test_files_have_an_end(make: Callable[[int], Archive], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(archive_files, "MESSAGES_MAX", 100)
    archive = make(1000)
    archive.archive()
    assert len(archive.lines()) == 1000
    # A step adds up to 256 at a time.
    assert len(archive.complete()) >= 1000 // 356
    assert len({line["id"] for line in archive.lines()}) == 1000


def test_many_large_bodies_do_not_wait_in_memory(
    make: Callable[[int], Archive], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(filing, "PENDING_BYTES_MAX", 10_000)
    waiting: list[int] = []
    write = filing.Filing.write

    async def noted(self: filing.Filing) -> int:
        waiting.append(self._pending_bytes)
        return await write(self)

    monkeypatch.setattr(filing.Filing, "write", noted)
    archive = make(0)
    for _ in range(100):
        archive.queue("a").publish(message(b"x" * 1000))
    archive.archive()
    assert len(archive.lines()) == 100
    assert max(waiting) < 12_000


@pytest.mark.parametrize("step", ["open", "write", "fsync", "rename"])
def test_what_cannot_be_archived_stays(
    make: Callable[[int], Archive], monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    archive = make(300)

    def full(*_: object, **__: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with monkeypatch.context() as broken:
        if step == "open":
            archive.root.write_text("a file in the place of the directory")
        elif step == "write":
            broken.setattr(archive_files, "write_all", full)
        elif step == "fsync":
            broken.setattr(os, "fsync", full)
        else:
            broken.setattr(Path, "rename", full)
        archive.archive()
    assert (archive.last().archived, archive.last().failed) == (0, 300)
    assert "cannot be written" in archive.last().last_error
    assert archive.bodies("a") == [b"%d" % number for number in range(300)]
    assert archive.queue("a").unacked_count == 0
    (alert,) = archive.reprocessor.alerts.recent
    assert (alert.kind, alert.count) == ("archive-failed", 300)
    assert "cannot be written" in alert.error
    assert archive.broker.audit is not None
    assert [noted.action for noted in archive.broker.audit.recent] == ["dead-letters.archive-failed"]
    if step == "open":
        archive.root.unlink()
    assert archive.complete() == [] and archive.left() == []
    # The next job finds the disk well again.
    archive.archive()
    assert len(archive.lines()) == 300
    assert archive.bodies("a") == []


def test_nothing_is_settled_before_its_file_is_complete(
    make: Callable[[int], Archive], monkeypatch: pytest.MonkeyPatch
) -> None:
    archive = make(50)
    seen: list[tuple[int, int]] = []
    finish = archive_files.ArchiveFile._finish

    def noted(self: archive_files.ArchiveFile) -> None:
        finish(self)
        # Held by the job, and none of it ended: a crash here leaves all of it in the queue.
        queue = archive.queue("a")
        seen.append((queue.unacked_count, queue.withdrawn_total))

    monkeypatch.setattr(archive_files.ArchiveFile, "_finish", noted)
    archive.archive()
    assert seen == [(50, 0)]
    assert archive.queue("a").withdrawn_total == 50


def test_a_job_that_is_cancelled_completes_what_it_has_written(make: Callable[[int], Archive]) -> None:
    archive = make(2000)

    def start_and_cancel() -> None:
        archive.start(TO_FILES)
        archive.reprocessor.cancel(archive.last().id)

    archive.run(start_and_cancel)
    assert len(archive.lines()) == archive.last().archived
    assert len(archive.bodies("a")) == 2000 - len(archive.lines())
    assert archive.left() == []


def test_a_broker_that_stops_loses_nothing(make: Callable[[int], Archive]) -> None:
    archive = make(3000)

    async def live() -> None:
        archive.reprocessor.open(asyncio.get_running_loop())
        archive.start(TO_FILES)
        for _ in range(3):
            await asyncio.sleep(0)
        await archive.reprocessor.close()

    asyncio.run(live())
    # A stop that is late, on a slow disk, may leave in the queue what is in a file already, as a crash may.
    assert {*bodies(archive.lines()), *archive.bodies("a")} == {b"%d" % number for number in range(3000)}
    assert archive.left() == []


def test_without_a_directory_it_says_so(make: Callable[[int], Archive]) -> None:
    archive = make(2)
    archive.reprocessor.files = None
    archive.archive()
    assert archive.last().last_error == filing.NO_DIRECTORY
    assert len(archive.bodies("a")) == 2
    assert archive.reprocessor.alerts.totals == {"archived": 0, "archive-failed": 1}


def test_what_a_crash_left_unfinished_is_removed(make: Callable[[int], Archive]) -> None:
    archive = make(1)
    day = archive.root / "date=2026-01-01"
    day.mkdir(parents=True)
    own = day / f"{archive_files.UNFINISHED}dead-letters-cluster-otherlife-1.jsonl"
    foreign = day / f"{archive_files.UNFINISHED}dead-letters-elsewhere-otherlife-1.jsonl"
    for path in (own, foreign):
        path.write_text("{}\n")
    archive.archive()
    assert archive.left() == [foreign]

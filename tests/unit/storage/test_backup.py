"""Backups of a running broker, and data directories made of them: everything that was confirmed is there and nothing
that was acknowledged; and whatever is wrong with a backup is found before anybody starts from it."""

from __future__ import annotations

import errno
import os
import shutil
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from leveret.errors import BackupConflict, BackupError, InvalidRequest, StartupError
from leveret.node.node import Node
from leveret.storage import backup as backup_module
from leveret.storage import file_copy
from leveret.storage.backup import BackupStatus
from leveret.storage.backup_list import LIST_FILE, Listed, read_list, write_list
from leveret.storage.layout import RESTORING_FILE
from leveret.storage.restore import Restore
from leveret.testing import Broker
from tests.unit.storage.filled import BODY, PERSISTENT, channel_of, fill, settings, waited


def begun(broker: Broker, to: Path, copy: bool = False) -> BackupStatus:
    async def start(node: Node) -> BackupStatus:
        assert node.store.backups is not None
        return await node.store.backups.start(str(to), time.time, copy)

    return broker.run(start)


def backed_up(broker: Broker, to: Path, copy: bool = False) -> BackupStatus:
    status = begun(broker, to, copy)
    waited(lambda: status.state != "running")
    return status


def restored(backup: Path, root: Path) -> Path:
    restoring = Restore(backup, root, lambda _done, _total: None)
    restoring.run()
    restoring.finish()
    return root


def bodies_of(broker: Broker, queue: str) -> list[bytes]:
    """What a classic queue holds; they are acknowledged."""
    with channel_of(broker) as channel:
        found = []
        method, _, body = channel.basic_get(queue, auto_ack=True)
        while method is not None:
            found.append(body[:4])
            method, _, body = channel.basic_get(queue, auto_ack=True)
        return found


def offsets_of(broker: Broker) -> tuple[int, int]:
    def read(node: Node) -> tuple[int, int]:
        stream = next(iter(node.store.streams.logs.values()))
        return stream.first_offset(), stream.next_offset

    return broker.call(read)


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A backup: 400 orders of which 100 are acknowledged, a stream of 400, a stored offset, a producer's id."""
    root = tmp_path_factory.mktemp("made")
    with Broker(settings(root / "data")) as broker:
        with channel_of(broker) as channel:
            fill(channel)
            for _ in range(100):
                method, _, _ = channel.basic_get("orders")
                channel.basic_ack(method.delivery_tag)

            def track(node: Node) -> None:
                stream = next(iter(node.store.streams.logs.values()))
                stream.store_offset(b"reader", 123)

            broker.call(track)
        status = backed_up(broker, root / "backup")
        assert (status.state, status.error) == ("done", "") and status.linked > 5
        assert status.files == status.files_total and status.bytes == status.bytes_total
    return root / "backup"


def test_what_was_confirmed_is_there_and_what_was_acknowledged_is_not(made: Path, tmp_path: Path) -> None:
    with Broker(settings(restored(made, tmp_path / "new"))) as broker:
        assert broker.call(lambda node: node.store.damages) == []
        assert offsets_of(broker) == (0, 400)
        tracking = broker.call(lambda node: dict(next(iter(node.store.streams.logs.values())).tracking.consumers))
        assert tracking == {b"reader": 123}
        assert bodies_of(broker, "orders") == [b"%04d" % number for number in range(100, 400)]
        with channel_of(broker) as channel:
            fill(channel, 100)
        assert offsets_of(broker) == (0, 500)
    assert not (tmp_path / "new" / "staging").exists()


def test_what_was_acknowledged_and_is_not_yet_written_is_settled_in_the_backup(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nobody waits for acknowledgements, so the log has them a little later; a backup has them written first."""
    monkeypatch.setattr("leveret.storage.committer.NOTES_S", 60.0)
    with Broker(settings(tmp_path / "data")) as broker, channel_of(broker) as channel:
        fill(channel, 20)
        for _ in range(15):
            method, _, _ = channel.basic_get("orders")
            channel.basic_ack(method.delivery_tag)
        channel.queue_declare("orders", passive=True)
        assert backed_up(broker, tmp_path / "backup").state == "done"
    with Broker(settings(restored(tmp_path / "backup", tmp_path / "new"))) as broker:
        assert bodies_of(broker, "orders") == [b"%04d" % number for number in range(15, 20)]


def test_a_restore_changes_nothing_in_the_backup_and_shares_nothing_with_it(made: Path, tmp_path: Path) -> None:
    before = {path: path.read_bytes() for path in made.rglob("*") if path.is_file()}
    root = restored(made, tmp_path / "new")
    with Broker(settings(root)) as broker:
        assert len(bodies_of(broker, "orders")) == 300
    assert {path: path.read_bytes() for path in made.rglob("*") if path.is_file()} == before
    inodes = {path.stat().st_ino for path in before}
    assert not inodes & {path.stat().st_ino for path in root.rglob("*") if path.is_file()}


def test_the_broker_goes_on_and_the_backup_stays_what_it_is(tmp_path: Path) -> None:
    """Everything in the data directory is consumed, deleted and compacted away afterwards."""
    with Broker(settings(tmp_path / "data")) as broker:
        with channel_of(broker) as channel:
            fill(channel, 300)
        assert backed_up(broker, tmp_path / "linked").linked > 0
        assert backed_up(broker, tmp_path / "copied", copy=True).linked == 0
        with channel_of(broker) as channel:
            channel.queue_purge("orders")
            channel.queue_delete("visits")
            fill_again = b"after" + BODY
            for _ in range(300):
                channel.basic_publish("", "orders", fill_again, PERSISTENT)
    for name in ("linked", "copied"):
        with Broker(settings(restored(tmp_path / name, tmp_path / f"{name}-new"))) as broker:
            assert offsets_of(broker) == (0, 300)
            assert bodies_of(broker, "orders") == [b"%04d" % number for number in range(300)]


def test_a_backup_is_not_started_from(made: Path, tmp_path: Path) -> None:
    copy = Path(shutil.copytree(made, tmp_path / "copy"))
    with pytest.raises(StartupError, match="is a backup; make a data directory of it first"):
        Broker(settings(copy)).start()
    root = restored(made, tmp_path / "new")
    (root / RESTORING_FILE).touch()
    with pytest.raises(StartupError, match="did not come to its end"):
        Broker(settings(root)).start()


def test_every_flipped_octet_is_found_and_its_file_named(made: Path, tmp_path: Path) -> None:
    copy = Path(shutil.copytree(made, tmp_path / "copy"))
    for path in sorted(path for path in copy.rglob("*") if path.is_file()):
        octets = path.read_bytes()
        for place in (0, len(octets) // 2, len(octets) - 1):
            path.write_bytes(octets[:place] + bytes([octets[place] ^ 4]) + octets[place + 1 :])
            with pytest.raises(BackupError, match=path.name):
                restored(copy, tmp_path / "new")
            assert not (tmp_path / "new").exists()
        path.write_bytes(octets)
    restored(copy, tmp_path / "new")


def test_a_backup_that_is_not_whole_is_refused(made: Path, tmp_path: Path) -> None:
    copy = Path(shutil.copytree(made, tmp_path / "copy"))
    segment = next((copy / "log").glob("*.segment"))
    octets = segment.read_bytes()
    segment.write_bytes(octets[:-1])
    with pytest.raises(BackupError, match=f"{segment.name} has {len(octets) - 1} octets"):
        restored(copy, tmp_path / "new")
    segment.unlink()
    with pytest.raises(BackupError, match=f"{segment.name} is missing"):
        restored(copy, tmp_path / "new")
    (copy / LIST_FILE).unlink()
    with pytest.raises(BackupError, match="one that was not finished"):
        restored(copy, tmp_path / "new")
    assert not (tmp_path / "new").exists()


def test_a_restore_overwrites_nothing(made: Path, tmp_path: Path) -> None:
    (tmp_path / "used").mkdir()
    (tmp_path / "used" / "something").write_text("mine")
    with pytest.raises(BackupError, match="not an empty directory"):
        restored(made, tmp_path / "used")
    assert (tmp_path / "used" / "something").read_text() == "mine"
    with pytest.raises(BackupError, match="one within the other"):
        restored(made, made / "inside")
    (tmp_path / "empty").mkdir()
    restored(made, tmp_path / "empty")


def test_the_list_leads_nowhere_else(tmp_path: Path) -> None:
    for name in ("../outside", "/etc/passwd"):
        write_list(tmp_path, [Listed(name, 1, "0" * 64)])
        with pytest.raises(BackupError, match="makes no sense"):
            read_list(tmp_path)


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[Broker]:
    with Broker(settings(tmp_path / "data")) as broker:
        with channel_of(broker) as channel:
            fill(channel, 200)
        yield broker


def test_directories_that_will_not_do(broker: Broker, tmp_path: Path) -> None:
    (tmp_path / "used").mkdir()
    (tmp_path / "used" / "something").touch()
    (tmp_path / "file").touch()
    for to, why in (
        (Path("relative"), "no absolute path"),
        (tmp_path / "used", "not an empty directory"),
        (tmp_path / "file", "not an empty directory"),
        (tmp_path / "data" / "inside", "one within the other"),
        (tmp_path, "one within the other"),
        (tmp_path / "not" / "there", "No such file"),
        (Path("/proc/1/backup"), "proc"),
    ):
        with pytest.raises(InvalidRequest, match=why):
            begun(broker, to)
    assert backed_up(broker, tmp_path / "good").state == "done", "none of them left it busy"


@contextmanager
def slowed(monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[threading.Event, threading.Event]]:
    """Copying begins, and goes on when the second is set."""
    reached, going = threading.Event(), threading.Event()
    original = backup_module.copy_file

    def waiting(*arguments: Any) -> Any:
        reached.set()
        assert going.wait(20)
        return original(*arguments)

    with monkeypatch.context() as patched:
        patched.setattr(backup_module, "copy_file", waiting)
        yield reached, going
        going.set()


def test_one_at_a_time_and_nobody_waits_for_it(broker: Broker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The other end hangs: publishing, consuming, deleting and reclaiming go on."""
    with slowed(monkeypatch) as (reached, going):
        status = begun(broker, tmp_path / "first")
        assert reached.wait(20)
        with pytest.raises(BackupConflict):
            begun(broker, tmp_path / "second")
        assert not (tmp_path / "second").exists()
        with channel_of(broker) as channel:
            channel.queue_purge("orders")
            for _ in range(300):
                channel.basic_publish("", "orders", b"late" + BODY, PERSISTENT)
            channel.queue_delete("visits")
        waited(lambda: broker.call(lambda node: node.store._reclaimer.deleted_total) > 0)  # type: ignore[union-attr]
        assert status.state == "running" and not (tmp_path / "first" / LIST_FILE).exists()
        going.set()
        waited(lambda: status.state == "done")
    assert not (tmp_path / "data" / "staging").exists()
    with Broker(settings(restored(tmp_path / "first", tmp_path / "new"))) as again:
        assert offsets_of(again) == (0, 200)
        assert bodies_of(again, "orders") == [b"%04d" % number for number in range(200)]


@pytest.mark.parametrize("after", [0, 3, 9])
def test_a_full_disk_leaves_nothing_behind(
    broker: Broker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, after: int
) -> None:
    written = 0

    def full(fd: int, data: bytes) -> None:
        nonlocal written
        written += 1
        if written > after:
            os.write(fd, data[: len(data) // 2])
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        os.write(fd, data)

    with monkeypatch.context() as patched:
        patched.setattr(file_copy, "write_all", full)
        status = backed_up(broker, tmp_path / "backup", copy=True)
    assert status.state == "failed" and "No space left" in status.error
    assert not (tmp_path / "backup").exists() and not (tmp_path / "data" / "staging").exists()
    assert broker.call(lambda node: node.store.failed) is None
    assert backed_up(broker, tmp_path / "backup").state == "done"


def test_a_broker_that_stops_ends_a_backup(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with slowed(monkeypatch) as (reached, going):
        with Broker(settings(tmp_path / "data")) as broker:
            with channel_of(broker) as channel:
                fill(channel, 50)
            status = begun(broker, tmp_path / "backup")
            assert reached.wait(20)
            threading.Timer(0.3, going.set).start()
        assert status.state == "failed" and "stops" in status.error
    assert not (tmp_path / "backup").exists()


def test_a_file_that_is_missing_fails_the_backup(broker: Broker, tmp_path: Path) -> None:
    """It is not taken for one that the broker has just deleted."""
    gone = sorted((tmp_path / "data" / "streams").glob("*/*.segment"))[0]
    gone.unlink()
    status = backed_up(broker, tmp_path / "backup")
    assert status.state == "failed" and f"{gone} is missing" in status.error
    assert not (tmp_path / "backup").exists()

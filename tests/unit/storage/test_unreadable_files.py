"""Files that cannot be opened or read while the broker runs: somebody waits, nobody loses anything."""

from __future__ import annotations

import asyncio
import errno
import os
import time
from pathlib import Path
from typing import Any

import pika
import pytest

from leveret.core.log.segment import Segment
from leveret.storage.index_file import read_index
from leveret.storage.layout import Layout
from leveret.storage.manifest import Manifest
from leveret.storage.reclaim import Reclaimer
from leveret.storage.segment_files import SegmentFiles
from leveret.storage.shortages import Shortages
from leveret.storage.store import Store, StoreSettings
from leveret.testing import Broker
from tests.unit.storage.stream_bench import Reader
from tests.unit.storage.test_damaged_message import get_all, publish, settings


def pending(broker: Broker) -> int:
    count: int = broker.call(lambda node: node.broker.vhosts["/"].queues[b"orders"].ready_count())
    return count


@pytest.mark.timeout(60)
def test_a_segment_that_somebody_moved_away_is_waited_for(tmp_path: Path) -> None:
    """Nothing is settled because a file is not there: it may come back, and then the messages come."""
    publish(tmp_path, b"still there")
    with Broker(settings(tmp_path)) as broker:
        (path,) = [one for one in (tmp_path / "log").glob("*.segment") if b"still there" in one.read_bytes()]
        away = tmp_path / "away"
        path.rename(away)
        told: list[tuple[str, OSError]] = []
        broker.call(lambda node: setattr(node.store, "on_shortage", lambda *what: told.append(what)))
        connection = pika.BlockingConnection(pika.URLParameters(broker.url))
        channel = connection.channel()
        got: list[bytes] = []
        channel.basic_consume("orders", lambda *one: got.append(one[3]), auto_ack=True)
        connection.process_data_events(0.5)
        assert got == [] and pending(broker) == 1 and told[0][1].errno == errno.ENOENT
        totals = broker.call(lambda node: node.store.read_totals())
        assert (totals.waiting, totals.quarantined, totals.retries > 0) == (1, 0, True)
        away.rename(path)
        deadline = time.monotonic() + 20
        while not got and time.monotonic() < deadline:
            connection.process_data_events(0.1)
        assert got == [b"still there"]
        connection.close()


@pytest.mark.timeout(60)
def test_a_queue_that_waits_holds_up_no_other(tmp_path: Path) -> None:
    publish(tmp_path, b"x" * 1000)
    with Broker(settings(tmp_path)) as broker:
        (path,) = [one for one in (tmp_path / "log").glob("*.segment") if b"x" * 1000 in one.read_bytes()]
        path.rename(tmp_path / "away")
        connection = pika.BlockingConnection(pika.URLParameters(broker.url))
        channel = connection.channel()
        channel.queue_declare("others", durable=True, arguments={"x-queue-mode": "lazy"})
        channel.confirm_delivery()
        channel.basic_consume("orders", lambda *_: None)
        connection.process_data_events(0.2)
        for number in range(5):
            channel.basic_publish("", "others", b"%d" % number, pika.BasicProperties(delivery_mode=2))
        assert [channel.basic_get("others", auto_ack=True)[2] for _ in range(5)] == [b"0", b"1", b"2", b"3", b"4"]
        # An orderly stop does not wait for what cannot be read.
        connection.close()
    (tmp_path / "away").rename(path)
    with Broker(settings(tmp_path)) as broker:
        assert get_all(broker) == [b"x" * 1000]


def test_what_cannot_be_read_is_not_compacted_and_not_damaged(tmp_path: Path) -> None:
    """A bad sector stops neither reclaiming nor the store; a lack of descriptors is tried again."""
    layout = Layout(tmp_path)
    layout.make()
    files = SegmentFiles(layout, 1, 65536, 1, Manifest(layout, 1))
    files.start()
    unused: Any = None
    reclaimer = Reclaimer(
        layout, unused, unused, files, unused, {}, unused, lambda *_: None, Shortages(), lambda _: None
    )
    segment = Segment(1, 1, layout.segment(1), 64)

    def failing(number: int) -> bytes:
        raise OSError(number, os.strerror(number))

    assert asyncio.run(reclaimer._readable(segment, failing, errno.EIO)) is None
    assert segment.id in reclaimer._left_alone and not segment.damaged
    with pytest.raises(OSError, match="Too many"):
        asyncio.run(reclaimer._readable(segment, failing, errno.EMFILE))
    files.close()


def test_an_index_that_cannot_be_opened_is_not_taken_for_a_missing_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A start that has no descriptor for it must not judge the segment without it."""

    def failing(self: Path) -> bytes:
        raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))

    assert read_index(tmp_path / "missing", 1) is None
    monkeypatch.setattr(Path, "read_bytes", failing)
    with pytest.raises(OSError, match="Too many"):
        read_index(tmp_path / "missing", 1)


def test_the_hook_for_shortages_does_nothing_unless_somebody_listens(tmp_path: Path) -> None:
    store = Store(tmp_path, StoreSettings(65536), lambda: 1)
    store.on_shortage("nothing", OSError(errno.EMFILE, "x"))
    store.abandon()


def test_a_reader_of_a_stream_waits_for_a_descriptor(make_bench: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    bench = make_bench(4096)
    for number in range(30):
        bench.append(b"%02d" % number * 200)
    bench.commit()
    opened, failures = os.open, [errno.EMFILE] * 4 + [errno.EACCES]

    def failing(path: Any, flags: int, *rest: Any, **more: Any) -> int:
        if failures and str(path).endswith((".segment", ".index")):
            number = failures.pop()
            raise OSError(number, os.strerror(number), str(path))
        return opened(path, flags, *rest, **more)

    monkeypatch.setattr(os, "open", failing)
    reader = Reader(bench, 0)
    reader.take()
    bench.wait(lambda: reader.cursor.waiting)
    assert [message.offset for message in reader.got] == list(range(30))
    assert bench.failures == [] and len(bench.shortages) == 5 and bench.streams._loader.damaged_total == 0
    assert not any(segment.damaged for segment in bench.log.segments)
    reader.cursor.close()

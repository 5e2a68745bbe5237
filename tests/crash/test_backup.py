"""Backups under load and under kills: what is restored is the broker as it was at one moment, and a backup that did not
come to its end is not one."""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pika
import pytest
from pika.exceptions import AMQPError

from leveret.errors import BackupError
from leveret.storage.backup_list import LIST_FILE
from leveret.storage.restore import Restore
from leveret.testing import Broker
from tests.conformance.server_process import free_port
from tests.crash.broker_process import BrokerProcess
from tests.http_client import Api

pytestmark = [pytest.mark.slow, pytest.mark.timeout(240)]

PERSISTENT = pika.BasicProperties(delivery_mode=2)
SMALL_STREAM = {"x-queue-type": "stream", "x-stream-max-segment-size-bytes": 65536}
RETAINED_STREAM = {**SMALL_STREAM, "x-max-length-bytes": 150_000}
QUEUES: dict[str, dict[str, Any]] = {"orders": {}, "work": {}, "kept": SMALL_STREAM, "retained": RETAINED_STREAM}
BACKUPS = 4
KILLS = 5


def body(number: int) -> bytes:
    return b"%06d" % number + b"x" * 2000


def number_of(found: bytes) -> int:
    return int(found[:6])


@contextmanager
def channel_of(url: str) -> Iterator[Any]:
    connection = pika.BlockingConnection(pika.URLParameters(url))
    channel = connection.channel()
    channel.confirm_delivery()
    yield channel
    connection.close()


class Load:
    """Publishers of four queues, a consumer of one of them, and somebody who makes and deletes queues and streams."""

    def __init__(self, url: str) -> None:
        self._url = url
        self._ending = threading.Event()
        # By queue, how many were confirmed: numbers from 0 on, in this order.
        self.confirmed = dict.fromkeys(QUEUES, 0)
        self.acked: set[int] = set()
        self.deleted: set[str] = set()
        self.failures: list[BaseException] = []
        with channel_of(url) as channel:
            for name, arguments in QUEUES.items():
                channel.queue_declare(name, durable=True, arguments=arguments)
        works: list[Callable[[Any], None]] = [self._consume, self._churn]
        works += [lambda channel, name=name: self._publish(channel, name) for name in QUEUES]
        self._threads = [threading.Thread(target=self._work, args=[work]) for work in works]
        for thread in self._threads:
            thread.start()

    def _work(self, work: Callable[[Any], None]) -> None:
        try:
            with channel_of(self._url) as channel:
                while not self._ending.is_set():
                    work(channel)
        except BaseException as failure:  # noqa: BLE001 - the test looks at it
            self.failures.append(failure)

    def _publish(self, channel: Any, name: str) -> None:
        channel.basic_publish("", name, body(self.confirmed[name]), PERSISTENT)
        self.confirmed[name] += 1

    def _consume(self, channel: Any) -> None:
        got = []
        for _ in range(20):
            method, _, found = channel.basic_get("work")
            if method is not None:
                channel.basic_ack(method.delivery_tag)
                got.append(number_of(found))
        # An answer on the same channel: the broker has seen the acknowledgements.
        channel.queue_declare("work", passive=True)
        self.acked.update(got)

    def _churn(self, channel: Any) -> None:
        name = f"brief-{len(self.deleted)}"
        channel.queue_declare(name, durable=True, arguments=random.choice([{}, SMALL_STREAM]))
        for number in range(30):
            channel.basic_publish("", name, body(number), PERSISTENT)
        channel.queue_delete(name)
        self.deleted.add(name)

    def stop(self) -> None:
        self._ending.set()
        for thread in self._threads:
            thread.join(30)
        assert self.failures == []


def contents(broker: Broker, name: str) -> list[int]:
    """The numbers in a queue or stream, in their order."""
    found: list[int] = []
    connection = pika.BlockingConnection(pika.URLParameters(broker.url))
    channel = connection.channel()
    channel.basic_qos(prefetch_count=500)
    stream = {"x-stream-offset": "first"} if QUEUES[name] else {}
    for method, _, octets in channel.consume(name, arguments=stream, inactivity_timeout=1.0):
        if method is None:
            break
        found.append(number_of(octets))
        channel.basic_ack(method.delivery_tag)
    connection.close()
    return found


def restored(backup: Path, root: Path) -> Path:
    restoring = Restore(backup, root, lambda _done, _total: None)
    restoring.run()
    restoring.finish()
    return root


def test_what_is_restored_is_one_moment_of_a_busy_broker(tmp_path: Path) -> None:
    settings = {"data_dir": str(tmp_path / "data"), "storage.segment_bytes": 65536}
    before = []
    with Broker(settings) as broker:
        load = Load(broker.url)
        api = Api(broker)
        for number in range(BACKUPS):
            time.sleep(1.0)
            before.append((dict(load.confirmed), set(load.acked), set(load.deleted)))
            assert api.post("/backup", {"to": str(tmp_path / f"backup-{number}"), "copy": number % 2}).status == 202
            while (status := api.get("/backup").body)["state"] == "running":
                time.sleep(0.02)
            assert status["state"] == "done", status
        load.stop()
        after, acked = load.confirmed, load.acked
        assert broker.call(lambda node: node.store.streams.segments_deleted_total) > 0
    for number, (confirmed, acked_before, deleted_before) in enumerate(before):
        root = restored(tmp_path / f"backup-{number}", tmp_path / f"new-{number}")
        with Broker({**settings, "data_dir": str(root)}) as broker:
            assert broker.call(lambda node: node.store.damages) == []
            names = broker.call(lambda node: {name.decode() for name in node.broker.vhosts["/"].queues})
            assert set(QUEUES) <= names and not names & deleted_before
            for name in ("orders", "kept"):
                found = contents(broker, name)
                assert found == list(range(len(found))), "in order, without a gap"
                assert confirmed[name] <= len(found) <= after[name] + 1
            found = contents(broker, "retained")
            assert found == list(range(found[0], found[-1] + 1)) and found[-1] + 1 >= confirmed["retained"]
            work = contents(broker, "work")
            assert work == sorted(set(work)), "in order, none twice"
            assert not set(work) & acked_before, "none comes back that was acknowledged before the backup"
            assert set(range(confirmed["work"])) - acked <= set(work), "all that were not are there"


def test_a_kill_in_the_midst_of_a_backup(tmp_path: Path) -> None:
    """The next start goes on as after any kill, and what is left of the backup is no backup, or all of one."""
    port = free_port()
    listen = {"management_port": port, "metrics_port": "off", "socket": "off"}
    process = BrokerProcess(tmp_path, {"listen": listen, "alarms": {"disk_free_bytes_min": 0}})
    url = f"amqp://guest:guest@127.0.0.1:{process.port}/"
    api = Api(f"http://127.0.0.1:{port}")
    dice = random.Random(17)
    count = 0
    whole = 0
    try:
        for kill in range(KILLS):
            process.start()
            with channel_of(url) as channel:
                channel.queue_declare("orders", durable=True)
                for _ in range(100):
                    channel.basic_publish("", "orders", b"%06d" % count + b"x" * 100_000, PERSISTENT)
                    count += 1
            answered(lambda: api.get("/whoami").status == 200)
            to = tmp_path / f"backup-{kill}"
            assert api.post("/backup", {"to": str(to), "copy": True}).status == 202
            time.sleep(dice.uniform(0, 0.15))
            process.kill()
            if (to / LIST_FILE).exists():
                whole += 1
                restored(to, tmp_path / f"new-{kill}")
            else:
                with pytest.raises(BackupError, match="one that was not finished"):
                    restored(to, tmp_path / f"new-{kill}")
        process.start()
        assert "damage" not in process.log.read_text()
        assert not (process.data_directory / "staging").exists()
        answered(lambda: channel_count(url) == count)
    finally:
        process.close()
    assert whole < KILLS, "no kill came in the midst of a backup"


def channel_count(url: str) -> int:
    with channel_of(url) as channel:
        return int(channel.queue_declare("orders", passive=True).method.message_count)


def answered(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 20
    while True:
        try:
            if condition():
                return
        except (OSError, AMQPError):
            pass
        assert time.monotonic() < deadline
        time.sleep(0.05)

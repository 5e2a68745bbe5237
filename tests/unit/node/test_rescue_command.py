"""`leveret storage rescue`: what was given up and what lies in quarantine, as far as the disk gives it."""

from __future__ import annotations

import errno
import json
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pika
import pytest
from click.testing import CliRunner, Result

from leveret.node.storage_commands import storage
from leveret.runtime import read_errors
from leveret.testing import Broker

COUNT = 40
BODY_BYTES = 9000
STREAM = {"x-queue-type": "stream", "x-stream-max-segment-size-bytes": 100_000}


def body(number: int) -> bytes:
    return b"%04d-" % number + b"y" * BODY_BYTES


def fill(root: Path, name: str, arguments: dict[str, Any]) -> None:
    settings = {"data_dir": str(root), "storage.segment_bytes": 65536}
    with Broker(settings) as broker:
        connection = pika.BlockingConnection(pika.URLParameters(broker.url))
        channel = connection.channel()
        channel.confirm_delivery()
        channel.queue_declare(name, durable=True, arguments=arguments)
        properties = pika.BasicProperties(delivery_mode=2, message_id="id-1", headers={"who": "me"})
        for number in range(COUNT):
            channel.basic_publish("", name, body(number), properties)
        connection.close()
    with Broker(settings):
        # The next start reads the segments for the last time, and writes their indexes.
        pass


def place_of(root: Path, number: int) -> tuple[Path, int]:
    for path in sorted(root.rglob("*.segment")):
        at = path.read_bytes().find(body(number)[:6])
        if at >= 0:
            return path, at
    raise AssertionError(number)


def spoil(monkeypatch: pytest.MonkeyPatch, path: Path, start: int, end: int) -> None:
    """This process cannot read that range of the file any more, whatever it is called."""
    inode, preadv = path.stat().st_ino, os.preadv

    def failing(fd: int, views: Sequence[memoryview], offset: int) -> int:
        if os.fstat(fd).st_ino == inode and offset < end and start < offset + len(views[0]):
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        return preadv(fd, views, offset)

    monkeypatch.setattr(read_errors.os, "preadv", failing)


def drain(root: Path) -> list[bytes]:
    found = []
    with Broker({"data_dir": str(root), "storage.segment_bytes": 65536}) as broker:
        connection = pika.BlockingConnection(pika.URLParameters(broker.url))
        channel = connection.channel()
        while (got := channel.basic_get("orders", auto_ack=True))[0] is not None:
            found.append(got[2])
        connection.close()
    return found


def rescue(root: Path, out: Path, *options: str) -> Result:
    return CliRunner().invoke(storage, ["rescue", "--data-dir", str(root), "--out", str(out), *options])


def lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def test_a_message_that_was_given_up_comes_out_as_it_is(tmp_path: Path) -> None:
    root, out = tmp_path / "data", tmp_path / "out"
    fill(root, "orders", {})
    path, at = place_of(root, 7)
    with path.open("r+b") as file:
        file.seek(at + 100)
        file.write(b"!")
    assert len(drain(root)) == COUNT - 1
    before = sorted((found, found.stat().st_mtime_ns) for found in root.rglob("*"))
    result = rescue(root, out)
    assert result.exit_code == 1, result.output
    (found,) = lines(out / "given-up.jsonl")
    assert (found["queue"], found["position"], found["whole"]) == ("orders in vhost /", 8, False)
    assert found["properties"]["message_id"] == "id-1" and found["properties"]["headers"] == {"who": "me"}
    assert found["routing_key"] == "orders" and found["body"] == body(7).decode()[:100] + "!" + body(7).decode()[101:]
    assert sorted((found, found.stat().st_mtime_ns) for found in root.rglob("*")) == before, "nothing is changed"


def test_a_quarantined_file_is_read_around_its_bad_sector(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    root, out = tmp_path / "data", tmp_path / "out"
    fill(root, "orders", {})
    path, at = place_of(root, 2)
    with path.open("r+b") as file:
        file.seek(at)
        file.write(b"!")
    drain(root)
    (kept,) = root.rglob(path.name)
    spoil(monkeypatch, kept, at + 5000, at + 5001)
    assert rescue(root, out, "--all").exit_code == 1
    (file,) = out.glob(f"*{path.name}.jsonl")
    found = lines(file)
    assert [one["body"][:4] for one in (*found[:2], found[3])] == ["0000", "0001", "0003"]
    assert [one["whole"] for one in found[:4]] == [True, True, False, True]
    assert found[0]["targets"] == [{"id": 1, "position": 1, "vhost": "/", "queue": "orders"}]
    ((start, end),) = found[2]["holes"]
    octets = bytes.fromhex(found[2]["body"])
    assert start <= 5000 < end <= start + 4096 and octets[start:end] == bytes(end - start)
    assert octets[1:start] + octets[end:] == body(2)[1:start] + body(2)[end:]


@pytest.mark.parametrize(("name", "arguments"), [("orders", {}), ("visits", STREAM)])
def test_everything_that_is_whole_comes_out(tmp_path: Path, name: str, arguments: dict[str, Any]) -> None:
    root, out = tmp_path / "data", tmp_path / "out"
    fill(root, name, arguments)
    result = rescue(root, out, "--all")
    assert result.exit_code == 0, result.output
    found = [line for path in sorted(out.iterdir()) for line in lines(path)]
    assert [one["body"] for one in found] == [body(number).decode() for number in range(COUNT)]
    if arguments:
        assert [one["stream_offset"] for one in found] == list(range(COUNT))


def test_without_a_catalog_queues_are_numbers(tmp_path: Path) -> None:
    root, out = tmp_path / "data", tmp_path / "out"
    fill(root, "orders", {})
    for path in (root / "catalog").iterdir():
        path.unlink()
    rescue(root, out, "--all")
    found = [line for path in sorted(out.iterdir()) for line in lines(path)]
    assert len(found) == COUNT and found[0]["targets"] == [{"id": 1, "position": 1}]


def test_there_is_nothing_to_rescue(tmp_path: Path) -> None:
    root, out = tmp_path / "data", tmp_path / "out"
    fill(root, "orders", {})
    result = rescue(root, out)
    assert (result.exit_code, list(out.iterdir())) == (0, [])
    assert rescue(tmp_path, out).exit_code == 2

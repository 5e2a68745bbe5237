"""`leveret storage check` and `dump` of streams: what is printed, exit statuses, and what a broker finds afterwards."""

from __future__ import annotations

import json
import shutil
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pika
import pytest
from click.testing import CliRunner, Result

from leveret.node.cli import main
from leveret.node.stream_views import NAMES_SHOWN_MAX, PROGRESS_S, Progress, entry_fields, entry_text, stream_lines
from leveret.storage.stream.entry import StoredEntry
from leveret.testing import Broker

STREAM = {"x-queue-type": "stream"}


def run(*arguments: object) -> Result:
    return CliRunner().invoke(main, ["storage", *(str(argument) for argument in arguments)], prog_name="leveret")


def opened(broker: Broker) -> Any:
    channel = pika.BlockingConnection(pika.URLParameters(broker.url)).channel()
    channel.confirm_delivery()
    return channel


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("made") / "data"
    with Broker({"data_dir": str(root)}) as broker:
        channel = opened(broker)
        channel.queue_declare("plain", durable=True)
        channel.queue_declare("visits", durable=True, arguments=STREAM)
        channel.queue_declare("unused", durable=True, arguments=STREAM)
        channel.queue_declare("deleted", durable=True, arguments=STREAM)
        for number in range(10):
            headers = {"x-producer-name": "shop\x1b[2J", "x-publishing-id": number + 1}
            if number % 2:
                headers["x-stream-filter-value"] = "de"
            properties = pika.BasicProperties(headers=headers, content_type="text/plain")
            channel.basic_publish("", "visits", b"visit %d" % number, properties)
        channel.basic_publish("", "deleted", b"x")
        channel.basic_publish("", "plain", b"x", pika.BasicProperties(delivery_mode=2))
        channel.basic_qos(prefetch_count=5)
        arguments = {"x-stream-offset": "first", "x-stream-stop-offset": 5, "x-stream-consumer-name": "ledger"}
        for method, _, _ in channel.consume("visits", arguments=arguments):
            channel.basic_ack(method.delivery_tag)
        channel.connection.close()
    return root


@pytest.fixture
def root(made: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(made, tmp_path / "data"))


def segment_of(root: Path, body: bytes = b"visit 0") -> Path:
    return next(path for path in root.glob("streams/*/*.segment") if body in path.read_bytes())


def flip(path: Path, place: int) -> None:
    data = bytearray(path.read_bytes())
    data[place] ^= 1
    path.write_bytes(data)


def test_check_names_streams_and_what_they_track(made: Path) -> None:
    result = run("check", "--data-dir", made)
    assert result.exit_code == 0, result.output
    lines = result.output.splitlines()
    directory = segment_of(made).parent.name
    at = next(i for i, line in enumerate(lines) if line.startswith("stream 'visits' in vhost '/': "))
    assert lines[at].startswith(f"stream 'visits' in vhost '/': streams/{directory}, 1 segments, ")
    assert "octets, first offset 0, next offset 10, arrived 20" in lines[at]
    assert lines[at + 1] == r"  producer 'shop\x1b[2J': publishing id 10" and "\x1b" not in result.output
    assert lines[at + 2] == "  consumer 'ledger': offset 4"
    assert any("stream 'unused'" in line and "0 octets, no messages, next offset 0" in line for line in lines)
    row = next(line for line in lines if line.startswith(f"streams/{directory}/0000000001.segment")).split()
    assert row[2:4] == ["10", "-"] and row[5] == "-"
    assert lines[-1].endswith("1 durable queues with 1 messages, 3 streams with 11 messages: all good")


def test_damage_is_exit_1(root: Path) -> None:
    segment = segment_of(root)
    flip(segment, segment.read_bytes().index(b"visit 3"))
    result = run("check", "--data-dir", root)
    assert result.exit_code == 1
    (line,) = [line for line in result.output.splitlines() if line.startswith("DAMAGE: ")]
    assert line.startswith(f"DAMAGE: {segment} at ") and line.endswith("messages of a stream are lost from offset 3 on")
    assert "3 streams with 10 messages: 1 damaged places" in result.output


def test_a_torn_end_is_exit_0(root: Path) -> None:
    segment = segment_of(root)
    end = len(segment.read_bytes().rstrip(b"\0")) + 7 & ~7
    with segment.open("r+b") as file:
        file.seek(end + 64)
        file.write(b"half of something")
    result = run("check", "--data-dir", root)
    assert result.exit_code == 0, result.output
    assert f"note: {segment.relative_to(root)} at " in result.output and "the torn end of a stream" in result.output


def test_a_stream_whose_removal_was_cut_off(made: Path, root: Path) -> None:
    with Broker({"data_dir": str(root)}) as broker:
        channel = opened(broker)
        channel.queue_delete("deleted")
        channel.connection.close()
    gone = segment_of(made, b"deleted").parent.name
    assert not (root / "streams" / gone).exists()
    shutil.copytree(made / "streams" / gone, root / "streams" / gone)
    result = run("check", "--data-dir", root)
    assert result.exit_code == 0, result.output
    assert f"note: streams/{gone}: of a stream that was deleted, 1 segments, " in result.output
    assert "2 streams with 10 messages: all good" in result.output
    with Broker({"data_dir": str(root)}):
        assert not (root / "streams" / gone).exists()


def test_streams_that_the_catalog_lost(root: Path) -> None:
    catalog = root / "catalog/0000000001.log"
    flip(catalog, catalog.read_bytes().index(b"visits"))
    result = run("check", "--data-dir", root)
    assert result.exit_code == 1
    assert "note: 1 streams are not in the damaged catalog; the next start calls them leveret.recovered-" in (
        result.output
    )
    assert f"streams/{segment_of(root).parent.name}/0000000001.segment" in result.output
    with Broker({"data_dir": str(root), "auth.damaged_catalog": "accept"}) as broker:
        number = int(segment_of(root).parent.name)
        channel = opened(broker)
        assert channel.queue_declare(f"leveret.recovered-{number}", passive=True).method.message_count == 10
        channel.connection.close()


def test_beside_a_running_broker(tmp_path: Path) -> None:
    with Broker({"data_dir": str(tmp_path)}) as broker:
        channel = opened(broker)
        channel.queue_declare("visits", durable=True, arguments=STREAM)
        channel.basic_publish("", "visits", b"x")
        result = run("check", "--data-dir", tmp_path)
        assert result.exit_code == 0, result.output
        assert "1 streams with 1 messages: all good" in result.stdout and "torn" not in result.stdout
        channel.connection.close()


def test_dump_has_streams(made: Path) -> None:
    tree = json.loads(run("dump", "--data-dir", made, "-o", "json").stdout)
    deleted, unused, visits = tree["streams"]
    assert (visits["name"], visits["segments"], visits["first_offset"], visits["next_offset"]) == ("visits", 1, 0, 10)
    assert (visits["producers"], visits["consumers"]) == ({"shop\x1b[2J": 10}, {"ledger": 4})
    assert visits["octets"] > 500 and (unused["octets"], unused["first_arrived"]) == (0, None)
    for moment in (visits["first_arrived"], visits["last_arrived"], deleted["first_arrived"]):
        assert abs((datetime.now(UTC) - datetime.fromisoformat(moment)).total_seconds()) < 600
    counts = {queue["name"]: (queue["kind"], queue["messages"]) for queue in tree["queues"]}
    assert counts["visits"] == ("stream", 10) and counts["plain"] == ("classic", 1)
    text = run("dump", "--data-dir", made).stdout
    assert "streams: 3" in text and "ledger=4" in text and "\x1b" not in text


def test_messages_of_a_stream(made: Path) -> None:
    arguments = ("dump", "--data-dir", made, "--queue", "visits", "--bodies")
    found = [json.loads(line) for line in run(*arguments, "-o", "json").stdout.splitlines()]
    assert [message["offset"] for message in found] == list(range(10))
    assert [message["body"] for message in found] == [f"visit {number}" for number in range(10)]
    assert (found[0].get("filter_value"), found[1]["filter_value"]) == (None, "de")
    assert (found[0]["kind"], found[0]["routing_key"], found[0]["size"]) == ("message", "visits", 7)
    assert found[0]["properties"]["headers"]["x-publishing-id"] == 1
    text = run(*arguments, "--offset", 7, "--limit", 2).stdout.splitlines()
    assert len(text) == 4 and text[0].split()[0] == "7" and "filter 'de'" in text[0]
    assert text[1] == "            text: 'visit 7'"
    assert run("dump", "--data-dir", made, "--queue", "unused").stdout == ""


def test_entries_as_text() -> None:
    damaged = entry_fields(StoredEntry(7, "streams/1/1.segment", 64, damaged=True), bodies=True)
    assert entry_text(damaged) == "         7  DAMAGED: streams/1/1.segment at 64"
    batch = StoredEntry(8, "f", 0, count=100, kind="sub-batch", size=2, body=b"ab")
    text = entry_text(entry_fields(batch, bodies=True))
    assert "  sub-batch of 100  " in text and text.endswith("hex: 6162"), "it is no text, whatever it looks like"
    assert "  amqp 1.0  " in entry_text(entry_fields(StoredEntry(9, "f", 0, kind="amqp 1.0"), bodies=False))


def test_only_some_of_many_names_are_shown() -> None:
    fields: dict[str, Any] = {
        "name": "s", "vhost": "/", "id": 3, "segments": 1, "octets": 9, "first_offset": 1, "next_offset": 2,
        "first_arrived": None, "last_arrived": None, "producers": {f"p{n}": n for n in range(50)}, "consumers": {},
    }  # fmt: skip
    lines = list(stream_lines(fields))
    assert len(lines) == 2 + NAMES_SHOWN_MAX
    assert lines[-2:] == ["  producer 'p49': publishing id 49", "  and 30 producers that changed before these"]


def test_progress_is_told_now_and_then() -> None:
    now = 0.0
    told: list[str] = []
    progress = Progress(lambda: now, told.append)
    for done in range(10):
        now += PROGRESS_S / 4
        progress(done << 30, 20 << 30)
    assert told == ["checked 3072 of 20480 MiB of streams", "checked 7168 of 20480 MiB of streams"]

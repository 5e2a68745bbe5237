"""Looking into a data directory: what a check finds where, and what a dump reads. Nothing is changed by it."""

from __future__ import annotations

import shutil
import time
from pathlib import Path

import pika
import pytest

from leveret.catalog.commands import DeclareQueue, DeleteQueue, decode_command, encode_command
from leveret.catalog.records import QueueRecord
from leveret.core.log.record_check import checked_length
from leveret.core.log.records import command_record, sealed
from leveret.core.log.scan import Scan
from leveret.errors import StartupError
from leveret.storage.file_head import CATALOG, file_salt
from leveret.storage.inspect import Inspection, NotADataDirectory
from leveret.storage.inspect_report import KnownIds, Report
from leveret.storage.layout import Layout, numbered_files, read_format
from leveret.testing import Broker


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory with a few sealed segments, stopped in good order."""
    root = tmp_path_factory.mktemp("made") / "data"
    with Broker({"data_dir": str(root), "storage.segment_bytes": 65536}) as broker:
        connection = pika.BlockingConnection(pika.URLParameters(broker.url))
        channel = connection.channel()
        channel.confirm_delivery()
        for name in ("orders", "empty", "gone"):
            channel.queue_declare(name, durable=True)
        persistent = pika.BasicProperties(delivery_mode=2, message_id="id-1", headers={"h": b"\xff\x00"})
        for number in range(300):
            channel.basic_publish("", "orders", b"%04d" % number + b"x" * 600, persistent)
        channel.basic_publish("", "gone", b"of a deleted queue", persistent)
        channel.queue_delete("gone")
        for _ in range(10):
            method, _, _ = channel.basic_get("orders")
            channel.basic_ack(method.delivery_tag)
        deadline = time.monotonic() + 5
        while len(list((root / "log").glob("*.index"))) < 2 and time.monotonic() < deadline:
            time.sleep(0.05)
        connection.close()
    return root


@pytest.fixture
def root(made: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(made, tmp_path / "data"))


def queue_ids(payloads: list[bytes], report: Report) -> dict[str, int]:
    """The queues that these commands leave, by name."""
    report.notes.append(f"{len(payloads)} commands")
    found = {}
    for command in map(decode_command, payloads):
        if isinstance(command, DeclareQueue):
            found[command.queue.name] = command.queue.id
        elif isinstance(command, DeleteQueue):
            found.pop(command.name, None)
    return found


def known(payloads: list[bytes], report: Report) -> KnownIds:
    highest = max((c.queue.id for c in map(decode_command, payloads) if isinstance(c, DeclareQueue)), default=0)
    return KnownIds(set(queue_ids(payloads, report).values()), set(), highest + 1)


def inspected(root: Path) -> Inspection:
    return Inspection(root, known)


def opened(root: Path) -> tuple[Inspection, dict[str, int]]:
    """With its contents read, and the queues."""
    found: dict[str, int] = {}

    def replay(payloads: list[bytes], report: Report) -> KnownIds:
        found.update(queue_ids(payloads, report))
        return known(payloads, report)

    inspection = Inspection(root, replay)
    inspection.read_contents()
    return inspection, found


def checked(root: Path) -> Report:
    """The check's result; the directory is as it was."""
    before = contents_of(root)
    report = inspected(root).check()
    assert contents_of(root) == before
    return report


def contents_of(root: Path) -> dict[str, bytes]:
    return {str(path.relative_to(root)): path.read_bytes() for path in root.rglob("*") if path.is_file()}


def flip(path: Path, offset: int) -> None:
    octets = bytearray(path.read_bytes())
    octets[offset] ^= 1
    path.write_bytes(octets)


def places(report: Report) -> list[tuple[str, int]]:
    return [(damage.path.name, damage.offset) for damage in report.damages]


def segments(root: Path) -> list[Path]:
    return list(numbered_files(root / "log", ".segment").values())


def test_a_whole_directory_is_all_good(root: Path) -> None:
    report = checked(root)
    assert report.damages == []
    assert (report.queues, report.messages) == (2, 290)
    assert sum(file.live or 0 for file in report.files) == 290
    assert {file.name for file in report.files} >= {"catalog/0000000001.log", "log/0000000001.segment"}
    assert any("1 messages are of queues that were deleted" in note for note in report.notes)


def test_damage_in_the_middle_is_found_with_its_place(root: Path) -> None:
    first = segments(root)[0]
    octets = first.read_bytes()
    at = octets.index(b"0020xxx")
    flip(first, at + 5)
    report = checked(root)
    ((name, offset),) = places(report)
    # The record starts a little before its body.
    assert name == first.name and at - 120 < offset < at and offset % 8 == 0
    assert next(file for file in report.files if file.name.endswith(name)).damages == 1
    # The index still has the message; a start would find the damage when it is read.
    assert report.messages == 290


def test_damage_of_the_last_record_is_told_by_the_neighbour(root: Path) -> None:
    first, second = segments(root)[:2]
    Layout(root).index(1).unlink()
    whole = checked(root)
    assert whole.damages == []
    octets = bytearray(first.read_bytes())
    octets[-40:] = bytes(40)
    first.write_bytes(octets)
    assert [name for name, _ in places(checked(root))] == [first.name]
    assert second.exists()


def test_a_torn_end_is_a_note(root: Path) -> None:
    last = segments(root)[-1]
    used = [file for file in checked(root).files if file.name.endswith(".segment") and file.records][-1]
    path = root / used.name
    size = len(path.read_bytes().rstrip(b"\0"))
    with path.open("r+b") as file:
        file.truncate(size + 8 & ~7)
        file.seek(0, 2)
        file.write(b"\1\2\3\4\0\0\0\x60torn")
    report = checked(root)
    assert report.damages == [] and any("torn end of the log" in note for note in report.notes)
    assert last.exists()


def test_a_damaged_index_and_a_wrong_one(root: Path) -> None:
    layout = Layout(root)
    flip(layout.index(1), 70)
    assert places(checked(root)) == [("0000000001.index", 0)]
    layout.index(1).unlink()
    assert checked(root).damages == []
    shutil.copy(layout.index(2), layout.index(1))
    assert places(checked(root)) == [("0000000001.index", 0)]


def test_the_last_record_of_a_segment_with_an_index(root: Path) -> None:
    first = segments(root)[0]
    octets = bytearray(first.read_bytes())
    octets[-40:] = bytes(40)
    first.write_bytes(octets)
    report = checked(root)
    assert [(damage.path.name, damage.what) for damage in report.damages] == [
        (first.name, "the last records are damaged")
    ]
    assert report.messages == 290, "as a start, which goes by the index"


def test_a_segment_that_was_cut(root: Path) -> None:
    first = segments(root)[0]
    first.write_bytes(first.read_bytes()[:1000])
    assert ("0000000001.segment", 1000) in places(checked(root))


def test_damage_of_heads_and_format(root: Path) -> None:
    flip(segments(root)[0], 20)
    flip(root / "format", 3)
    assert places(checked(root)) == [("format", 0), ("0000000001.segment", 0)]
    (root / "format").unlink()
    assert checked(root).messages == 290


def test_damage_of_the_catalog(root: Path) -> None:
    catalog = root / "catalog/0000000001.log"
    flip(catalog, catalog.read_bytes().index(b"orders"))
    report = checked(root)
    ((name, _),) = places(report)
    assert (name, report.queues, report.messages) == ("0000000001.log", 1, 0)
    # Orders and the deleted queue: a start puts both where people find them.
    assert any("leveret.recovered-" in note for note in report.notes)


def test_what_stands_behind_a_torn_place_of_the_catalog_does_not_count(root: Path) -> None:
    salt = read_format(Layout(root))
    assert salt is not None
    catalog = root / "catalog/0000000001.log"
    scan = Scan(file_salt(salt, CATALOG, 1))
    scan.run(catalog.read_bytes(), 64)
    command = encode_command(DeclareQueue(QueueRecord("/", "late", "classic", True, False, 0, {}, 99)))
    late = command_record(scan.last_sequence + 2, scan.last_sequence - 1, command)
    behind = bytes(sealed(late, file_salt(salt, CATALOG, 1)))
    catalog.write_bytes(catalog.read_bytes()[: scan.end] + bytes(64) + behind)
    report = checked(root)
    assert (report.damages, report.queues, report.messages) == ([], 2, 290)
    assert f"catalog/0000000001.log at {scan.end}: the torn end of the catalog; the next start cuts it off" in (
        report.notes
    )


def test_queues_that_the_end_of_the_catalog_lost(root: Path) -> None:
    """Nothing in the catalog says that it was longer, but the log has ids that it never gave."""
    catalog = root / "catalog/0000000001.log"
    octets = catalog.read_bytes()
    at = octets.index(b"orders") & ~7
    while not checked_length(octets, at, len(octets), file_salt(read_format(Layout(root)) or 0, CATALOG, 1)):
        at -= 8
    catalog.write_bytes(octets[:at])
    report = checked(root)
    assert [(damage.path.name, damage.what) for damage in report.damages] == [
        ("catalog", "the end of the catalog is lost")
    ]
    assert any("291 messages are of queues that the damaged catalog does not have" in note for note in report.notes)
    with Broker({"data_dir": str(root)}) as broker:
        found = broker.call(lambda node: [damage.what for damage in node.broker.store.damages])
    assert found == ["the end of the catalog is lost; its queues are made anew"]


@pytest.mark.parametrize("size", [0, 30, 64])
def test_a_catalog_without_its_start(root: Path, size: int) -> None:
    catalog = root / "catalog/0000000001.log"
    catalog.write_bytes(catalog.read_bytes()[:size])
    assert "0000000001.log" in [name for name, _ in places(checked(root))]
    catalog.unlink()
    assert places(checked(root)) == [("catalog", 0)]


def test_leftovers_are_notes(root: Path) -> None:
    for name in (
        "log/0000000099.index",
        "log/x.new",
        "catalog/0000000002.new",
        "log/mine.txt",
        "quarantine/old.segment",
    ):
        (root / name).write_bytes(b"x")
    report = checked(root)
    assert report.damages == []
    text = "\n".join(report.notes)
    assert "log/0000000099.index: left over" in text and "catalog/0000000002.new: left over" in text
    assert "log/mine.txt: not a file of Leveret's" in text and "quarantine/old.segment: a damaged file" in text


def test_nothing_to_go_by(root: Path) -> None:
    (root / "format").unlink()
    for path in [*segments(root), root / "catalog/0000000001.log"]:
        flip(path, 5)
    report = checked(root)
    assert places(report) == [("format", 0)] and "nothing can be checked" in report.notes[0]


def test_not_a_data_directory(tmp_path: Path, root: Path) -> None:
    for path in (tmp_path / "nothing", tmp_path):
        with pytest.raises(NotADataDirectory, match="is not a data directory of Leveret"):
            inspected(path)
    line = (root / "format").read_text()
    assert "format 2" in line
    with pytest.MonkeyPatch.context() as monkeypatch:
        monkeypatch.setattr("leveret.storage.layout.FORMAT_VERSION", 3)
        with pytest.raises(StartupError, match="format 2; this Leveret reads format 3"):
            inspected(root)


def test_the_broker_that_holds_it(tmp_path: Path) -> None:
    with Broker({"data_dir": str(tmp_path / "data")}):
        inspection = inspected(tmp_path / "data")
        assert (inspection.holder() or "").isdecimal()
        assert inspection.check().damages == []
    assert inspected(tmp_path / "data").holder() is None
    (tmp_path / "data/lock").unlink()
    assert inspected(tmp_path / "data").holder() is None


def test_messages_in_order(root: Path) -> None:
    inspection, queues = opened(root)
    counts = {name: inspection.message_count(queue_id) for name, queue_id in queues.items()}
    assert counts == {"orders": 290, "empty": 0}
    assert list(inspection.messages(queues["empty"])) == []
    found = list(inspection.messages(queues["orders"]))
    assert [message.body[:4] for message in found] == [b"%04d" % number for number in range(10, 300)]
    first = found[0]
    assert (first.position, first.size, first.deliveries, first.exchange, first.routing_key) == (
        11,
        604,
        0,
        b"",
        b"orders",
    )
    assert first.properties["message_id"] == "id-1" and first.properties["headers"] == {"h": b"\xff\x00"}


def test_a_damaged_message_and_a_lost_segment(root: Path) -> None:
    first = segments(root)[0]
    flip(first, first.read_bytes().index(b"0020xxx") + 5)
    inspection, queues = opened(root)
    damaged = [message for message in inspection.messages(queues["orders"]) if message.damaged]
    assert [(message.position, message.segment, message.body) for message in damaged] == [
        (21, f"log/{first.name}", b"")
    ]
    first.unlink()
    assert sum(message.damaged for message in inspection.messages(queues["orders"])) > 50

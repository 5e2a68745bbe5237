"""The benchmark's streams: the reader in C against octets of a broker, the page cache, and what the cases compute."""

from __future__ import annotations

import errno
import json
import os
import shutil
import socket
import struct
import subprocess
import threading
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from benchmarks.broker import page_cache, stream_cases
from benchmarks.broker.__main__ import main
from benchmarks.broker.case import Bench, Case, Figures
from benchmarks.broker.cases import CASES
from benchmarks.broker.disk import MEMORY_KINDS, mounted
from benchmarks.broker.load import Load, LoadError
from benchmarks.broker.peers import Running, free_port
from benchmarks.broker.reader import Reader, Seek
from benchmarks.broker.stream_cases import check_order, grown, moments

BODY = b"x" * 1024


def short(text: bytes) -> bytes:
    return bytes([len(text)]) + text


def long(text: bytes) -> bytes:
    return struct.pack(">I", len(text)) + text


def frame(kind: int, channel: int, payload: bytes) -> bytes:
    return struct.pack(">BHI", kind, channel, len(payload)) + payload + b"\xce"


def method(channel: int, class_id: int, method_id: int, payload: bytes = b"") -> bytes:
    return frame(1, channel, struct.pack(">HH", class_id, method_id) + payload)


def delivery(tag: bytes, number: int, headers: bytes | None, content_type: bytes | None = None) -> bytes:
    """A message as a broker sends it, with these headers as they are."""
    flags = (0x8000 if content_type is not None else 0) | (0x2000 if headers is not None else 0) | 0x1000
    properties = b"" if content_type is None else short(content_type)
    properties += b"" if headers is None else long(headers)
    content = struct.pack(">HHQH", 60, 0, len(BODY), flags) + properties + b"\x02"
    deliver = short(tag) + struct.pack(">Q", number) + b"\x00" + short(b"") + short(b"al.q.0")
    return method(1, 60, 60, deliver) + frame(2, 1, content) + frame(3, 1, BODY[:100]) + frame(3, 1, BODY[100:])


def offset_header(offset: int) -> bytes:
    return short(b"x-stream-offset") + b"l" + struct.pack(">q", offset)


class OneConnection(threading.Thread):
    """Speaks to one reader: the handshake, then what `answer` says to each method of the reader's."""

    def __init__(self, answer: Any) -> None:
        super().__init__(daemon=True)
        self.answer = answer
        self.server = socket.create_server(("127.0.0.1", 0))
        self.port: int = self.server.getsockname()[1]
        self.consumed: list[bytes] = []
        self.acks: list[int] = []

    def run(self) -> None:
        connection, _ = self.server.accept()
        with connection, connection.makefile("rb") as incoming:
            assert incoming.read(8) == b"AMQP\x00\x00\x09\x01"
            connection.sendall(method(0, 10, 10, b"\x00\x09" + long(b"") + long(b"PLAIN") + long(b"en_US")))
            while head := incoming.read(7):
                _, _, size = struct.unpack(">BHI", head)
                payload = incoming.read(size + 1)[:-1]
                connection.sendall(self.reply(struct.unpack(">HH", payload[:4]), payload[4:]))

    def reply(self, name: tuple[int, int], payload: bytes) -> bytes:
        simple = {
            (10, 11): method(0, 10, 30, struct.pack(">HIH", 2047, 131072, 60)),
            (10, 40): method(0, 10, 41, b"\x00"),
            (20, 10): method(1, 20, 11, long(b"")),
            (60, 10): method(1, 60, 11),
            (10, 50): method(0, 10, 51),
        }
        if name in simple:
            return simple[name]
        if name == (60, 80):
            self.acks.append(struct.unpack(">Q", payload[:8])[0])
        if name == (60, 20):
            self.consumed.append(payload)
        if name == (60, 30):
            return method(1, 60, 31, payload[:-1])
        return self.answer(name, payload) if name == (60, 20) else b""


@pytest.fixture(scope="module")
def reader() -> Reader:
    if shutil.which("cc") is None and shutil.which("gcc") is None and "CC" not in os.environ:
        pytest.skip("no C compiler")
    return Reader.build()


def run_reader(reader: Reader, answer: Any, *options: str) -> tuple[subprocess.CompletedProcess[str], OneConnection]:
    broker = OneConnection(answer)
    broker.start()
    command = [str(reader.program), "--port", str(broker.port), *options]
    done = subprocess.run(command, capture_output=True, text=True, timeout=30, check=False)
    broker.join(10)
    broker.server.close()
    return done, broker


def consumer_tag(payload: bytes) -> bytes:
    queue_size = payload[2]
    at = 3 + queue_size
    return payload[at + 1 : at + 1 + payload[at]]


def deliveries(offsets: Sequence[int]) -> Any:
    def answer(_name: tuple[int, int], payload: bytes) -> bytes:
        tag = consumer_tag(payload)
        sent = [delivery(tag, number, offset_header(offset)) for number, offset in enumerate(offsets, 1)]
        return method(1, 60, 21, short(tag)) + b"".join(sent)

    return answer


def test_messages_are_counted_and_acknowledged(reader: Reader) -> None:
    done, broker = run_reader(reader, deliveries(range(7, 17)), "--messages", "10", "--ack", "4", "--prefetch", "20")
    report = json.loads(done.stdout)
    assert done.returncode == 0 and report["ok"]
    assert (report["messages"], report["bytes"], report["gaps"], report["missing"]) == (10, 10 * 1024, 0, 0)
    assert (report["readers"][0]["first"], report["readers"][0]["last"]) == (7, 16)
    assert broker.acks == [4, 8, 10]


def test_it_stops_at_an_offset_and_leaves_the_rest(reader: Reader) -> None:
    done, _ = run_reader(reader, deliveries(range(10)), "--until", "5")
    report = json.loads(done.stdout)
    assert (report["messages"], report["readers"][0]["last"]) == (6, 5)


def test_gaps_are_told_and_what_goes_back_is_an_error(reader: Reader) -> None:
    done, _ = run_reader(reader, deliveries([0, 1, 5, 6, 9]), "--messages", "5")
    report = json.loads(done.stdout)
    assert (report["ok"], report["gaps"], report["missing"], report["backwards"]) == (True, 2, 5, 0)
    for offsets in ([0, 1, 1], [3, 4, 2]):
        done, _ = run_reader(reader, deliveries(offsets), "--messages", "3")
        report = json.loads(done.stdout)
        assert (done.returncode, report["ok"], report["backwards"]) == (2, False, 1)


@pytest.mark.parametrize(
    ("headers", "content_type"),
    [
        (short(b"a") + b"S" + long(b"text") + offset_header(0), None),
        (short(b"a") + b"t\x01" + short(b"b") + b"D\x02\x00\x00\x00\x01" + offset_header(0), b"text/plain"),
        (short(b"a") + b"F" + long(offset_header(77)) + short(b"b") + b"V" + offset_header(0), b""),
        (offset_header(0) + short(b"z") + b"A" + long(b"b\x01"), None),
    ],
)
def test_the_offset_is_found_among_other_headers(reader: Reader, headers: bytes, content_type: bytes | None) -> None:
    def answer(_name: tuple[int, int], payload: bytes) -> bytes:
        return delivery(consumer_tag(payload), 1, headers, content_type)

    done, _ = run_reader(reader, answer, "--messages", "1")
    assert json.loads(done.stdout)["readers"][0]["first"] == 0


@pytest.mark.parametrize("headers", [None, b"", short(b"a") + b"t\x01", short(b"a") + b"?" + offset_header(3)])
def test_a_message_without_an_offset_is_an_error(reader: Reader, headers: bytes | None) -> None:
    def answer(_name: tuple[int, int], payload: bytes) -> bytes:
        return delivery(consumer_tag(payload), 1, headers)

    done, _ = run_reader(reader, answer, "--messages", "1")
    assert (done.returncode, json.loads(done.stdout)["unnumbered"]) == (2, 1)


def test_a_silent_broker_is_given_up(reader: Reader) -> None:
    done, _ = run_reader(reader, deliveries([]), "--messages", "1", "--stall", "1")
    assert (done.returncode, json.loads(done.stdout)["timed_out"]) == (2, 1)


@pytest.mark.parametrize(
    ("start", "field"),
    [
        ("first", b"S" + long(b"first")),
        ("1h", b"S" + long(b"1h")),
        ("4711", b"l" + struct.pack(">q", 4711)),
        ("@1700000000", b"T" + struct.pack(">Q", 1_700_000_000)),
    ],
)
def test_where_it_starts_is_told_to_the_broker(reader: Reader, start: str, field: bytes) -> None:
    _, broker = run_reader(reader, deliveries([0]), "--messages", "1", "--from", start, "--stream", "other")
    (payload,) = broker.consumed
    assert payload.endswith(long(short(b"x-stream-offset") + field))
    assert payload[2:].startswith(short(b"other"))


def test_seeks_are_one_after_the_other_and_what_is_too_much_is_ignored(reader: Reader) -> None:
    def answer(_name: tuple[int, int], payload: bytes) -> bytes:
        tag = consumer_tag(payload)
        late = delivery(b"1", 99, offset_header(1000))
        asked = struct.unpack(">q", payload[-8:])[0]
        wanted, surplus = (delivery(tag, number, offset_header(asked + number - 1)) for number in (1, 2))
        return late * (tag != b"1") + wanted + surplus

    done, broker = run_reader(reader, answer, "--seek", "--from", "30,10,20")
    report = json.loads(done.stdout)
    assert [seek["offset"] for seek in report["seeks"]] == [30, 10, 20]
    assert all(0 < seek["us"] < 10e6 for seek in report["seeks"])
    assert len(broker.consumed) == 3


def test_a_closed_connection_is_an_error_in_words(reader: Reader) -> None:
    def answer(_name: tuple[int, int], _payload: bytes) -> bytes:
        return method(1, 20, 40, struct.pack(">H", 404) + short(b"NOT_FOUND") + b"\x00" * 4)

    done, _ = run_reader(reader, answer, "--messages", "1")
    assert done.returncode == 1 and "404 NOT_FOUND" in done.stderr


# ---- the page cache


def cached_share(path: Path) -> float:
    """The share of pages that can be read without the disk, from one in every megabyte. Asking may bring them in."""
    with path.open("rb") as file:
        places = range(0, path.stat().st_size, 1024 * 1024)
        found = 0
        for place in places:
            try:
                found += os.preadv(file.fileno(), [bytearray(64)], place, os.RWF_NOWAIT) > 0
            except OSError as error:
                if error.errno != errno.EAGAIN:
                    pytest.skip("this file system cannot tell")
        return found / len(places)


def test_dropped_files_are_read_from_the_disk(tmp_path: Path) -> None:
    path = tmp_path / "a.segment"
    path.write_bytes(os.urandom(8 * 1024 * 1024))
    if mounted(tmp_path).kind in MEMORY_KINDS:
        pytest.skip("these files are in memory and nowhere else")
    assert cached_share(path) == 1.0
    page_cache.drop([path])
    assert cached_share(path) < 0.5
    assert page_cache.read_through([path]) > 0
    assert cached_share(path) == 1.0


# ---- the cases


def test_memory_is_told_as_a_multiple_of_that_at_the_start() -> None:
    samples = [(float(second), 100.0 + second) for second in range(101)]
    assert grown(samples) == pytest.approx(200 / 110)
    assert grown([(5.0, 80.0)]) == 1.0


@pytest.mark.parametrize(
    ("begun", "seconds", "expected"),
    [(100.2, 0.5, [100]), (100.2, 0.9, [101]), (100.2, 3.0, [101, 102, 103]), (100.0, 1.0, [101])],
)
def test_moments_are_not_behind_the_last_message(begun: float, seconds: float, expected: list[int]) -> None:
    assert list(moments(begun, seconds)) == expected


def test_later_moments_must_not_be_further_to_the_front() -> None:
    check_order("toy", [30, 10, 20], [Seek(1.0, 300), Seek(1.0, 100), Seek(1.0, 100)])
    with pytest.raises(LoadError, match="toy"):
        check_order("toy", [30, 10, 20], [Seek(1.0, 300), Seek(1.0, 100), Seek(1.0, 400)])


def test_a_stream_without_files_is_an_error(tmp_path: Path) -> None:
    broker = Running(Toy(), tmp_path)
    with pytest.raises(LoadError, match="no files of streams"):
        stream_cases._files(broker)
    (tmp_path / "streams" / "more").mkdir(parents=True)
    for name in ("2.segment", "1.segment", "1.index"):
        (tmp_path / "streams" / name).touch()
    assert [path.name for path in stream_cases._files(broker)] == ["1.index", "1.segment", "2.segment"]


class Toy:
    """A broker that is never started."""

    name = "leveret"
    queue_options: tuple[str, ...] = ()
    backlog_share = 1.0
    durable_only = False
    settle_seconds = 0.0
    stream_files = "streams/*"
    offsets_exact = True

    def installed(self) -> bool:
        return True

    def version(self) -> str:
        return "1"

    def start(self, directory: Path, port: int) -> list[subprocess.Popen[bytes]]:
        raise AssertionError("not to be started")


@pytest.fixture
def started(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[Running]]:
    """The brokers that a run of the benchmark starts, without any process."""
    brokers: list[Running] = []

    class Context:
        def __init__(self, peer: Toy, root: Path) -> None:
            self.broker = Running(peer, root / str(free_port()))

        def __enter__(self) -> Running:
            brokers.append(self.broker)
            return self.broker

        def __exit__(self, *_error: object) -> None:
            return None

    monkeypatch.setattr("benchmarks.broker.__main__.running", Context)
    monkeypatch.setattr("benchmarks.broker.__main__.PEERS", {"leveret": Toy()})
    monkeypatch.setattr(Load, "build", classmethod(lambda cls: cls(Path("/nowhere"))))
    yield brokers


def test_cases_that_share_a_broker_have_one_and_the_others_their_own(
    monkeypatch: pytest.MonkeyPatch, started: list[Running], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    seen: dict[str, list[Running]] = {}

    def case(name: str, **more: Any) -> Case:
        def measure(_bench: Bench, broker: Running) -> Figures:
            seen.setdefault(name, []).append(broker)
            return {"rate": 1.0}

        return Case(name, name, measure, **more)

    cases = (
        case("a"),
        case("b", shares="x"),
        case("c", shares="x"),
        case("d"),
        case("e", new_broker_each_time=True),
    )
    monkeypatch.setattr("benchmarks.broker.__main__.CASES", {case.name: case for case in cases})
    assert main(["--repeats", "2", "--peers", "leveret", "--data-root", str(tmp_path)]) == 0
    assert "| c " in capsys.readouterr().out
    assert seen["b"] == [started[1]] * 2 and seen["c"] == [started[1]] * 2
    assert seen["a"] == [started[0]] * 2 and seen["d"] == [started[2]] * 2
    assert seen["e"] == [started[3], started[4]]


def test_the_cases_of_the_long_stream_follow_one_another() -> None:
    shares = [case.shares for case in CASES.values() if case.name.startswith("stream-")]
    assert shares == ["", "", *["long stream"] * 5]

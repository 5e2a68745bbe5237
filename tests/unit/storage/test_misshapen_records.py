"""A data directory in which somebody has changed lengths inside records, and filled in the right checksums: it is
checked, dumped and served like any with damage in it."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from pathlib import Path

import pika
import pytest
from click.testing import CliRunner, Result

from leveret.core.log.records import checksum, sealed
from leveret.node.cli import main
from leveret.storage.file_head import CATALOG, HEAD_BYTES, MANIFEST, SEGMENT, file_salt
from leveret.storage.layout import Layout, read_format
from leveret.storage.stream.files import StreamFiles
from leveret.testing import Broker

STREAM_ARGUMENTS = {"x-queue-type": "stream"}
BODIES = [b"the first", b"the second", b"the third"]
PROPERTIES = pika.BasicProperties(delivery_mode=2, content_type="text/plain", headers={"a": [1, {"b": "c"}]})
LIES = {
    "an address beyond the end": (18, ">H", 0x0FFF),
    "properties beyond the end": (24, ">I", 0xFFFFFFF0),
    "fewer properties": (24, ">I", 3),
    "a body beyond the end": (28, ">I", 0x7FFFFFFF),
    "a body that begins elsewhere": (28, ">I", 0xFFFFFFFF),
    "very many messages or targets": (20, ">I", 0xFFFFFFFF),
    "many messages or targets": (20, ">I", 0x10000001),
    "a kind that there is not": (16, ">B", 99),
    "the kind of a group's state": (16, ">B", 9),
    "the highest sequence": (8, ">Q", (1 << 64) - 1),
    "a header beyond the end": (79, ">B", 255),
}


def settings(root: Path) -> dict[str, object]:
    return {"data_dir": str(root)}


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("made") / "data"
    with Broker(settings(root)) as broker:
        connection = pika.BlockingConnection(pika.URLParameters(broker.url))
        channel = connection.channel()
        channel.confirm_delivery()
        channel.queue_declare("orders", durable=True)
        channel.queue_declare("visits", durable=True, arguments=STREAM_ARGUMENTS)
        for queue in ("orders", "visits"):
            for body in BODIES:
                channel.basic_publish("", queue, body, PROPERTIES)
        connection.close()
    return root


@pytest.fixture
def root(made: Path, tmp_path: Path) -> Path:
    import shutil

    return Path(shutil.copytree(made, tmp_path / "data"))


def salt_of(root: Path, path: Path) -> int:
    salt = read_format(Layout(root))
    assert salt is not None
    number = int(path.stem) if path.stem.isdecimal() else 1
    if path.parent.name == "log":
        return file_salt(salt, SEGMENT, number)
    if path.parent.name == "catalog":
        return file_salt(salt, CATALOG, number)
    if path.parent.parent.name == "streams":
        return int(StreamFiles(Layout(root), salt).salt(int(path.parent.name), number))
    return file_salt(salt, MANIFEST, 1)


def records(octets: bytes) -> Iterator[tuple[int, int]]:
    """Where each record starts, and where it ends with its padding."""
    at = HEAD_BYTES
    while at + 32 <= len(octets) and (length := struct.unpack_from(">I", octets, at + 4)[0]):
        end = at + (length + 7 & ~7)
        yield at, end
        at = end


def lie(root: Path, path: Path, what: bytes, at: int, form: str, value: int) -> int:
    """Changes the first record with this in it, and seals it: where it is."""
    octets = bytearray(path.read_bytes())
    for start, end in records(bytes(octets)):
        if what in octets[start:end]:
            struct.pack_into(form, octets, start + at, value)
            octets[start:end] = sealed(octets[start:end], salt_of(root, path))
            path.write_bytes(octets)
            return start
    raise AssertionError(f"{what!r} is not in {path}")


def run(*arguments: object) -> Result:
    return CliRunner().invoke(main, ["storage", *(str(argument) for argument in arguments)], prog_name="leveret")


def checked_and_dumped(root: Path, path: Path, start: int, queue: str) -> None:
    result = run("check", "--data-dir", root)
    assert result.exit_code == 1, result.output
    assert path.name in result.output and f"at {start}" in result.output, result.output
    for arguments in ((), ("--queue", queue, "--bodies")):
        result = run("dump", "--data-dir", root, *arguments)
        assert result.exit_code == 0, (result.output, result.exception)


def delivered(root: Path, queue: str) -> list[bytes]:
    with Broker(settings(root)) as broker:
        connection = pika.BlockingConnection(pika.URLParameters(broker.url))
        channel = connection.channel()
        channel.basic_qos(prefetch_count=10)
        channel.queue_declare(queue, passive=True)
        # One more, so that it is known when all that is there has come.
        channel.confirm_delivery()
        channel.basic_publish("", queue, b"the last", PROPERTIES)
        arguments = {"x-stream-offset": "first"} if queue == "visits" else {}
        found: list[bytes] = []
        for method, _, body in channel.consume(queue, arguments=arguments, inactivity_timeout=20):
            assert method is not None, f"waited 20 s behind {found}"
            found.append(body)
            channel.basic_ack(method.delivery_tag)
            if body == b"the last":
                break
        connection.close()
        return found


@pytest.mark.parametrize("what", LIES)
@pytest.mark.parametrize("indexed", [False, True], ids=["scanned", "indexed"])
def test_a_message_of_the_log(root: Path, what: str, indexed: bool) -> None:
    if indexed:
        # The next start reads the segment for the last time, and writes its index.
        with Broker(settings(root)):
            pass
    path = next(path for path in sorted(root.glob("log/*.segment")) if b"the second" in path.read_bytes())
    assert path.with_suffix(".index").exists() == indexed
    start = lie(root, path, b"the second", *LIES[what])
    checked_and_dumped(root, path, start, "orders")
    assert delivered(root, "orders") == [b"the first", b"the third", b"the last"]
    assert list((root / "quarantine").iterdir()), "what was found is kept"


@pytest.mark.parametrize("what", LIES)
@pytest.mark.parametrize("indexed", [False, True], ids=["scanned", "indexed"])
def test_a_message_of_a_stream(root: Path, what: str, indexed: bool) -> None:
    (path,) = root.glob("streams/*/*.segment")
    if not indexed:
        path.with_suffix(".index").unlink()
    start = lie(root, path, b"the second", *LIES[what])
    if not indexed:
        checked_and_dumped(root, path, start, "visits")
    else:
        assert run("check", "--data-dir", root).exit_code == 1
    assert delivered(root, "visits") == [b"the first", b"the third", b"the last"]
    assert list((root / "quarantine").iterdir()), "what was found is kept"


@pytest.mark.parametrize("last", [False, True], ids=["in between", "at the end"])
def test_notes(root: Path, last: bool) -> None:
    """Those of the log tell what was settled, and one ends each batch."""
    path = next(path for path in sorted(root.glob("log/*.segment")) if b"the second" in path.read_bytes())
    octets = bytearray(path.read_bytes())
    kinds = [(start, end) for start, end in records(bytes(octets)) if octets[start + 16] == 3]
    start, end = kinds[-1 if last else 0]
    struct.pack_into(">I", octets, start + 20, 0x08000001)
    octets[start:end] = sealed(octets[start:end], salt_of(root, path))
    path.write_bytes(octets)
    checked_and_dumped(root, path, start, "orders")
    assert delivered(root, "orders") == [*BODIES, b"the last"]


def test_what_a_stream_tracks(root: Path) -> None:
    (path,) = root.glob("streams/*/*.segment")
    path.with_suffix(".index").unlink()
    octets = bytearray(path.read_bytes())
    tracks = [(start, end) for start, end in records(bytes(octets)) if octets[start + 16] == 7]
    start, end = next((start, end) for start, end in tracks if end - start > 40)
    octets[start + 33] = 200
    octets[start:end] = sealed(octets[start:end], salt_of(root, path))
    path.write_bytes(octets)
    assert run("check", "--data-dir", root).exit_code == 1
    assert delivered(root, "visits") == [*BODIES, b"the last"]


def test_a_command_of_the_catalog(root: Path) -> None:
    (path,) = root.glob("catalog/*")
    start = lie(root, path, b"orders", 16, ">B", 200)
    result = run("check", "--data-dir", root)
    assert (result.exit_code, f"at {start}" in result.output) == (1, True), result.output
    # The queue is found by its messages.
    with Broker(settings(root)) as broker:
        names = broker.call(lambda node: list(node.broker.vhosts["/"].queues))
        assert b"visits" in names and any(name.startswith(b"leveret.recovered-") for name in names)


def test_a_record_of_the_manifest(root: Path) -> None:
    path = Layout(root).manifest
    octets = bytearray(path.read_bytes())
    start, end = list(records(bytes(octets)))[1]
    octets[start + 16] = 200
    octets[start:end] = sealed(octets[start:end], salt_of(root, path))
    path.write_bytes(octets)
    assert run("check", "--data-dir", root).exit_code == 1
    assert delivered(root, "orders") == [*BODIES, b"the last"]


@pytest.mark.parametrize("length", [0xFFFFFFFF, 8])
def test_an_index_that_places_a_message_elsewhere_is_not_believed(root: Path, length: int) -> None:
    with Broker(settings(root)):
        pass
    path = next(path for path in sorted(root.glob("log/*.segment")) if b"the second" in path.read_bytes())
    index = path.with_suffix(".index")
    octets = bytearray(index.read_bytes())
    places = [at for at in range(64, len(octets) - 32, 32) if octets[at + 31] == 1]
    struct.pack_into(">I", octets, places[0] + 20, length)
    octets[-4:] = struct.pack(">I", checksum(bytes(octets[:-4])))
    index.write_bytes(octets)
    assert run("check", "--data-dir", root).exit_code == 1
    assert delivered(root, "orders") == [*BODIES, b"the last"]

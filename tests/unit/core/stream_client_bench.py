"""A stream in memory and a stream client's connection to it: frames go in, and what the broker answers comes out.

The stream is the real one; its disk writes and reads when a test says so."""

from __future__ import annotations

import struct
import zlib
from dataclasses import dataclass
from typing import Any

from leveret.core.codec.message import new_message
from leveret.core.codec.properties import encode_properties, parse_properties
from leveret.core.codec.write_buffer import WriteBuffer
from leveret.core.connection.unfinished import Unfinished, UnfinishedTotal
from leveret.core.queue.office import Office
from leveret.core.stream.chunk import CHUNK_BYTES_MAX, StreamSubscription
from leveret.core.stream.connection import StreamConnection
from leveret.core.stream.log import StreamLog
from leveret.core.stream.publish_path import StreamPublisher
from leveret.core.stream.queue import StreamQueue
from leveret.core.stream.segment import StreamSegment, find_offset, place_of
from tests.unit.core.fake_disk import FakeDisk

HEAD_BYTES = 64


class FakeKeeper:
    """Keeps the files of a stream in memory, and remembers who wants to read."""

    first_place = HEAD_BYTES

    def __init__(self) -> None:
        self.images: dict[int, bytearray] = {}
        self.wanting: list[Any] = []

    def new_segment(self, log: StreamLog) -> StreamSegment:
        number = len(self.images)
        self.images[number] = bytearray(HEAD_BYTES)
        return StreamSegment(number, 0, None, log.next_offset, HEAD_BYTES)

    def want_read(self, cursor: Any) -> None:
        self.wanting.append(cursor)

    def write_checkpoint(self, log: StreamLog) -> None: ...

    def remove(self, log: StreamLog) -> None: ...

    def seal(self, log: StreamLog, segment: StreamSegment) -> None: ...

    def write(self, part: Any) -> None:
        for segment, start, end, place in part.pieces:
            image = self.images[segment.number]
            image[place:] = part.data[start:end]

    def read(self) -> None:
        """Serves everybody who waits for the disk, whole segments at a time."""
        while self.wanting:
            cursor = self.wanting.pop(0)
            plan = None if cursor.closed else cursor.next_read()
            if plan is None and not cursor.closed:
                segment = [each for each in cursor.log.segments if each.first_offset <= cursor.offset][-1]
                blocks = segment.copy_index()
                cursor.found(segment, place_of(blocks, find_offset(blocks, len(blocks), cursor.offset)))
                plan = cursor.next_read()
            if plan is not None:
                segment, place, size = plan
                if size == 0:
                    cursor.nothing_to_read()
                else:
                    cursor.loaded(
                        bytearray(self.images[segment.number][place : segment.synced]), 0, segment.synced - place
                    )


@dataclass
class Chunk:
    subscription: int
    version: int
    committed: int | None
    entries: int
    records: int
    stamp: int
    first_offset: int
    data: bytes

    def messages(self) -> list[bytes]:
        """The entries as they stand, sub-batches with their head."""
        found, at = [], 0
        for _ in range(self.entries):
            if self.data[at] & 0x80:
                end = at + 11 + int.from_bytes(self.data[at + 7 : at + 11], "big")
                found.append(self.data[at:end])
            else:
                end = at + 4 + int.from_bytes(self.data[at : at + 4], "big")
                found.append(self.data[at + 4 : end])
            at = end
        assert at == len(self.data)
        return found


def read_chunk(frame: bytes) -> Chunk:
    """A DELIVER frame without its size, with everything checked that a client checks."""
    key, version, subscription = struct.unpack_from(">HHB", frame)
    assert key == 8
    at, committed = 5, None
    if version == 2:
        committed = int.from_bytes(frame[5:13], "big")
        at = 13
    magic, kind, entries, records, stamp, epoch, first, crc, size, trailer, reserved = struct.unpack_from(
        ">BBHIQQQIIII", frame, at
    )
    data = frame[at + 48 :]
    assert (magic, kind, epoch, trailer, reserved) == (0x50, 0, 1, 0, 0)
    assert len(data) == size
    assert zlib.crc32(data) == crc
    return Chunk(subscription, version, committed, entries, records, stamp, first, data)


def frame(key: int, content: bytes, version: int = 1) -> bytes:
    return struct.pack(">IHH", 4 + len(content), key, version) + content


def simple(publishing_id: int, body: bytes) -> bytes:
    return struct.pack(">QI", publishing_id, len(body)) + body


def filtered(publishing_id: int, value: bytes | None, body: bytes) -> bytes:
    size = struct.pack(">h", -1) if value is None else struct.pack(">H", len(value)) + value
    return struct.pack(">Q", publishing_id) + size + struct.pack(">I", len(body)) + body


def sub_batch(publishing_id: int, count: int, codec: int, octets: bytes, size: int = 99) -> bytes:
    return struct.pack(">QBHII", publishing_id, 0x80 | codec << 4, count, size, len(octets)) + octets


def publish_frame(publisher: int, *entries: bytes, version: int = 1, count: int | None = None) -> bytes:
    count = len(entries) if count is None else count
    return frame(2, struct.pack(">BI", publisher, count) + b"".join(entries), version)


class StreamBench:
    def __init__(self, segment_bytes: int = 1 << 20, frame_max: int = 1 << 20) -> None:
        self.disk = FakeDisk()
        self.stream_store = FakeKeeper()
        self.office = Office(1000)
        self.log = StreamLog(1, self.disk.journal, self.stream_store, segment_bytes)
        self.stream = StreamQueue(b"s", None, self.log, self.office)
        self.write_buffer = WriteBuffer([], [])
        self.budget = UnfinishedTotal()
        self.connection = StreamConnection(self.write_buffer, frame_max, Unfinished(self.budget))
        self.connection.opened = True

    def publisher(self, id: int = 1, reference: bytes | None = None) -> StreamPublisher:
        publisher = StreamPublisher(id, self.stream, reference, self.write_buffer)
        self.connection.publishers[id] = publisher
        return publisher

    def subscription(self, id: int = 7, version: int = 1, bytes_max: int = CHUNK_BYTES_MAX) -> StreamSubscription:
        return StreamSubscription(id, self.stream, self.write_buffer, version, bytes_max)

    def feed(self, octets: bytes) -> list[bytes]:
        """The commands that are handed up."""
        events, data = [], bytearray(octets)
        event = self.connection.feed(data, len(data))
        while event is not None:
            events.append(event)
            event = self.connection.proceed()
        return events

    def publish_amqp(self, body: bytes, exchange: bytes = b"e", key: bytes = b"k", **properties: Any) -> None:
        raw = parse_properties(encode_properties(**properties))
        self.stream.publish(new_message(exchange, key, raw, body))

    def sync(self) -> None:
        """Everything that was appended gets on disk."""
        batch = self.disk.journal.take_batch()
        for part in batch.beside:
            self.stream_store.write(part)
        self.disk.journal.batch_written(batch)
        self.disk.journal.batch_synced(batch)

    def sent(self) -> list[bytes]:
        """The frames that wait in the write buffer, without their size; then they are gone."""
        octets = b"".join(bytes(view) for view in self.write_buffer.views(1000))
        self.write_buffer.sent(len(octets))
        self.write_buffer.calm_down()
        frames, at = [], 0
        while at < len(octets):
            end = at + 4 + int.from_bytes(octets[at : at + 4], "big")
            frames.append(octets[at + 4 : end])
            at = end
        assert at == len(octets)
        return frames

    def chunks(self) -> list[Chunk]:
        return [read_chunk(each) for each in self.sent()]

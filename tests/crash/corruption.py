"""Data directories to be damaged: made by a real broker, taken apart record by record, opened again after each damage.

The directory is read here by other code than the broker's, so that what must be in it is known without asking it. A
`Specimen` is the octets of all files; `opened` writes them, recovers them as a start does, and reads every message."""

import os
import shutil
import struct
import tempfile
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, NamedTuple

import pika

from leveret.broker.broker import Broker as Desk
from leveret.broker.recovery import recover
from leveret.catalog.commands import Command, DeleteUser, PutUser, PutVhost, SkipQueueIds, SuspendUser, decode_command
from leveret.catalog.records import User, Vhost
from leveret.catalog.snapshot import snapshot
from leveret.core.queue.classic_queue import ClassicQueue
from leveret.runtime.clock import Clock
from leveret.runtime.dice import Dice
from leveret.storage.damage import Damage
from leveret.storage.store import Store, StoreSettings
from leveret.testing import Broker

SEGMENT_BYTES: Final = 65536
HEAD_BYTES: Final = 64
MESSAGE, NOTES, COMMAND, CLOSED = 1, 3, 4, 5
SETTLED, HANDED, COUNTED, KEY = 2, 3, 4, 5
# Positions from here on are those of messages that wait for their time.
DELAYED: Final = 1 << 63
_RECORD: Final = struct.Struct(">IIQBxHIII")
# A message record has the time of its arrival before its address; the highest bit of the address size is a flag.
_STAMP_BYTES: Final = 8
_ADDRESS_MASK: Final = 0x0FFF
_NOTE: Final = struct.Struct(">QQIIII")
_DIGEST: Final = struct.Struct(">QII")
_ACKED_OF_TEN: Final = 5
_SETTLE_S: Final = 60.0
_LAST_MESSAGES_MIN: Final = 8


class Kept(NamedTuple):
    """One message as a queue has it. One that waits for its time is known by its position alone."""

    position: int
    deliveries: int
    address: bytes
    body: bytes


# Queue id -> its messages in order.
Messages = dict[int, list[Kept]]


@dataclass(frozen=True)
class Record:
    """One record of an undamaged file."""

    file: str
    number: int
    offset: int
    length: int
    sequence: int
    kind: int
    synced: int
    address: bytes = b""
    body: bytes = b""
    targets: tuple[tuple[int, int], ...] = ()
    notes: tuple[tuple[int, int, int, int, int], ...] = ()
    # Who has seen which key, as (id, digest).
    keys: tuple[tuple[int, bytes], ...] = ()
    properties: bytes = b""
    command: Command | None = None

    @property
    def end(self) -> int:
        return self.offset + self.length


def records_of(file: str, octets: bytes) -> list[Record]:
    """The records of a whole file; where the length is 0, nothing was written yet."""
    found = []
    at = HEAD_BYTES
    number = int(Path(file).stem)
    while at + 32 <= len(octets):
        _, length, sequence, kind, address_size, count, properties_size, body_size = _RECORD.unpack_from(octets, at)
        if length == 0:
            break
        start = at + 32
        plain = {"file": file, "number": number, "offset": at, "length": length, "sequence": sequence, "kind": kind}
        synced = (properties_size << 32) | body_size
        if kind == MESSAGE:
            start += _STAMP_BYTES
            address_size &= _ADDRESS_MASK
            address = octets[start : start + address_size]
            start += address_size
            plain["properties"] = octets[start : start + properties_size]
            start += properties_size
            body = octets[start : start + body_size]
            start += body_size
            targets = tuple(struct.unpack_from(">QQ", octets, start + 16 * i) for i in range(count))
            found.append(Record(**plain, synced=0, address=address, body=body, targets=targets))  # type: ignore[arg-type]
        elif kind == NOTES:
            notes = tuple(_NOTE.unpack_from(octets, start + 32 * i) for i in range(count))
            short = tuple((queue, first, a, b, what & 0xFF) for queue, first, a, b, _, what in notes)
            keys = tuple((queue, _DIGEST.pack(first, a, b)) for queue, first, a, b, what in short if what == KEY)
            found.append(Record(**plain, synced=synced, notes=short, keys=keys))  # type: ignore[arg-type]
        elif kind == CLOSED:
            found.append(Record(**plain, synced=synced))  # type: ignore[arg-type]
        else:
            command = decode_command(octets[start : at + length])
            found.append(Record(**plain, synced=synced, command=command))  # type: ignore[arg-type]
        at += (length + 7) & ~7
    return found


def finished(records: list[Record]) -> list[Record]:
    """Without what stands behind the last whole batch, unless something says that it was synced. A batch ends with its
    notes."""
    synced = max((record.synced for record in records), default=0)
    end = len(records)
    while end and records[end - 1].kind == MESSAGE and records[end - 1].sequence > synced:
        end -= 1
    return records[:end]


def keys_in(records: list[Record]) -> dict[int, set[bytes]]:
    """Which keys were seen, by the id of the queue or exchange."""
    found: dict[int, set[bytes]] = {}
    for record in records:
        for owner, digest in record.keys:
            found.setdefault(owner, set()).add(digest)
    return found


def messages_in(records: list[Record], queue_ids: set[int]) -> Messages:
    """What these records of the log leave in the queues."""
    segments = {record.number for record in records}
    placed: dict[int, dict[int, Record]] = {}
    settled: dict[int, set[int]] = {}
    handed: dict[int, int] = {}
    times: dict[tuple[int, int], int] = {}
    for record in records:
        for queue, position in record.targets:
            placed.setdefault(queue, {})[position] = record
        for queue, first, a, b, what in record.notes:
            if what == SETTLED and b in segments:
                settled.setdefault(queue, set()).update(range(first, first + a))
            elif what == HANDED:
                handed[queue] = max(handed.get(queue, 0), first)
            elif what == COUNTED:
                times[queue, first] = max(times.get((queue, first), 0), a)
    found: Messages = {}
    for queue, places in placed.items():
        live = []
        for position, record in sorted(places.items()):
            if position not in settled.get(queue, set()):
                deliveries = max(times.get((queue, position), 0), int(position <= handed.get(queue, 0)))
                kept = Kept(position, deliveries, record.address, record.body)
                live.append(kept if position < DELAYED else Kept(position, 0, b"", b""))
        if live and queue in queue_ids:
            found[queue] = live
    return found


@dataclass
class Specimen:
    """All files of a data directory by their path in it, and the bodies that were confirmed, by queue."""

    files: dict[str, bytes]
    confirmed: dict[str, set[bytes]] = field(default_factory=dict)
    log: list[Record] = field(default_factory=list)
    catalog: list[Record] = field(default_factory=list)
    queue_ids: dict[str, int] = field(default_factory=dict)
    messages: Messages = field(default_factory=dict)
    commands: list[Command] = field(default_factory=list)

    @classmethod
    def of(cls, root: Path, confirmed: dict[str, set[bytes]] | None = None) -> "Specimen":
        made = cls(cls.files_of(root), confirmed or {})
        for name in made.segments:
            made.log += records_of(name, made.files[name])
        made.catalog = records_of(made.catalog_file, made.files[made.catalog_file])
        with made.opened() as opened:
            assert opened.damages == [] and opened.in_order, opened.damages
            made.queue_ids = opened.queue_ids
            made.commands = opened.commands
            # The reader here and the broker's must agree on what is whole.
            made.messages = messages_in(made.log, set(made.queue_ids.values()))
            assert opened.messages == made.messages
        return made

    @staticmethod
    def files_of(root: Path) -> dict[str, bytes]:
        # What is not read again, such as the log of changes, cannot be damaged.
        kept = [path for path in sorted(root.rglob("*")) if path.is_file() and path.parent.name != "audit"]
        # Without the manifest, which knows more than the log itself: what is judged here is what the log tells. And
        # each of these is a copy. What a manifest adds is tests/unit/storage/test_missing.py's.
        paths = [path for path in kept if path.name not in ("lock", "manifest")]
        return {str(path.relative_to(root)): path.read_bytes() for path in paths}

    @property
    def segments(self) -> list[str]:
        return [name for name in self.files if name.startswith("log/") and name.endswith(".segment")]

    @property
    def indexed(self) -> list[str]:
        return [name for name in self.segments if self.index_of(name) in self.files]

    @property
    def unindexed(self) -> list[str]:
        return [name for name in self.segments if name not in self.indexed]

    @property
    def catalog_file(self) -> str:
        return max(name for name in self.files if name.startswith("catalog/"))

    @staticmethod
    def index_of(segment: str) -> str:
        return segment.replace(".segment", ".index")

    def hit(self, file: str, offset: int) -> Record | None:
        """The record that this octet belongs to; None for heads, padding and what is behind the last one."""
        for record in self.catalog if file.startswith("catalog/") else self.log:
            if record.file == file and record.offset <= offset < record.end:
                return record
        return None

    def without(self, lost: set[int]) -> Messages:
        """What is left without the records of these sequences."""
        left = [record for record in self.log if record.sequence not in lost]
        return messages_in(left, set(self.queue_ids.values()))

    @contextmanager
    def opened(self, changes: dict[str, bytes | None] | None = None) -> Iterator["Opened"]:
        """The directory with these files changed (None: gone), recovered in a place of its own."""
        with self.place() as root:
            yield open_directory(self.write(root, changes))

    @staticmethod
    @contextmanager
    def place() -> Iterator[Path]:
        """Nothing here is about the disk itself: where a sync costs nothing, thousands of damages take minutes."""
        fast = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
        with tempfile.TemporaryDirectory(prefix="leveret-corruption-", dir=fast) as name:
            yield Path(name)

    def write(self, root: Path, changes: dict[str, bytes | None] | None = None) -> Path:
        for name in ("catalog", "log", "pages", "quarantine"):
            (root / name).mkdir(parents=True, exist_ok=True)
        for name, octets in (self.files | (changes or {})).items():
            if octets is not None:
                (root / name).write_bytes(octets)
        return root


@dataclass
class Opened:
    """What a start found in a directory."""

    root: Path
    damages: list[Damage]
    # Segment and offset of messages that turned out damaged when they were read.
    unreadable: list[tuple[int, int]]
    messages: Messages
    queue_ids: dict[str, int]
    commands: list[Command]
    in_order: bool = True
    # The keys that were seen, by the id of the queue or exchange.
    keys: dict[int, set[bytes]] = field(default_factory=dict)

    def quarantined(self) -> list[bytes]:
        return [path.read_bytes() for path in (self.root / "quarantine").iterdir()]

    def damaged_places(self) -> list[tuple[str, int]]:
        return [(str(damage.path.relative_to(self.root)), damage.offset) for damage in self.damages]


def open_directory(root: Path) -> Opened:
    """Recovers a directory as a start does, reads every message, and lets it go as a kill does."""
    store = Store(root, StoreSettings(SEGMENT_BYTES), lambda: 1)
    channel_session = Desk(Dice(), Clock(), store)
    try:
        recover(channel_session)
        # Which ids are free is no part of what exists, nor who waits for an operator since commands were lost.
        others = (SkipQueueIds, SuspendUser)
        commands = [command for command in snapshot(channel_session.catalog) if not isinstance(command, others)]
        opened = Opened(root, list(store.damages), [], {}, {}, commands)
        for vhost, live in channel_session.vhosts.items():
            for queue in live.queues.values():
                assert isinstance(queue, ClassicQueue)
                if queue.record.id:
                    opened.queue_ids[f"{vhost}|{queue.record.name}"] = queue.record.id
                    found = _drained(queue, store, opened)
                    # What its rules have sent off at once is still its own.
                    found += [
                        Kept(letter.position, letter.deliveries, letter.message.address, letter.message.body)
                        for letter in channel_session.office.take_letters()
                    ]
                    if found:
                        # What was handed out before goes first, so damage of such a note changes the order.
                        opened.messages[queue.record.id] = sorted(found)
                        opened.in_order &= found == sorted(found) or not queue.rules.plain
            windows = [(queue.record.id, queue.window) for queue in live.queues.values()]
            windows += [(exchange.record.id, exchange.window) for exchange in live.exchanges.values()]
            opened.keys |= {owner: set(window.keys) for owner, window in windows if window is not None and window.keys}
        return opened
    finally:
        channel_session.close()
        store.abandon()


def _drained(queue: ClassicQueue, store: Store, opened: Opened) -> list[Kept]:
    """Every message of the queue, read through its index as the loader does."""
    found = []
    while queue.ready.count:
        if queue.ready.has_next():
            entry = queue.ready.pop()
            message = entry.message
            found.append(Kept(entry.position, entry.delivery_count, message.address, message.body))
            continue
        load = queue.take_load(store.journal)
        assert load is not None, "what is on disk can be read"
        buffer = bytearray(load.size)
        for number, offset, size, place in load.extents:
            with store.journal.segments[number].path.open("rb") as file:
                octets = os.pread(file.fileno(), size, offset)
            buffer[place : place + len(octets)] = octets
        for extent in range(len(load.extents)):
            load.was_read(extent)
        load.finish(buffer, store.journal.segments)
        locations = [load.slot(i)[1] for i in load.lost]
        opened.unreadable += [(location >> 32, location & 0xFFFFFFFF) for location in locations]
        queue.finish_load(load)
    if queue.delays is not None:
        found += [Kept(position, 0, b"", b"") for position, _, _ in queue.delays.waiting(0, queue.delays.count)]
    return found


# ---- making one


def awkward_bodies(number: int) -> bytes:
    """Unique, and now and then full of what a careless reader takes for its own marks."""
    name = b"%06d|" % number
    choices = (
        b"x" * (40 + number % 600),
        b"\xff" * 300,
        b"\0" * 512,
        b"LVRT-seg" * 20 + b"LVRT-idx" + b"\0" * 64,
        bytes(7 - len(name) % 8) + _RECORD.pack(0, 64, 1 << 60, MESSAGE, 2, 1, 0, 0) * 6,
        b"",
    )
    return name + choices[number % len(choices)]


def make_specimens(root: Path, messages: int = 1500) -> dict[str, Specimen]:
    """One broker's directory: as a kill would leave it at a quiet moment, a kill before the last indexes were written,
    and a clean stop."""
    settings: dict[str, object] = {"data_dir": str(root / "data"), "storage.segment_bytes": SEGMENT_BYTES}
    with Broker(settings) as broker, closing(pika.BlockingConnection(pika.URLParameters(broker.url))) as connection:
        confirmed = _fill(connection, broker, messages)
        _await_indexes(root / "data")
        _end_with_messages(connection, broker, confirmed)
        _await_indexes(root / "data")
        killed = _quiet_copy(root, confirmed)
    for name in killed.indexed[-2:]:
        (root / "killed" / Specimen.index_of(name)).unlink()
    return {
        "killed": killed,
        "unindexed": Specimen.of(root / "killed", confirmed),
        "stopped": Specimen.of(root / "data", confirmed),
    }


def _quiet_copy(root: Path, confirmed: dict[str, set[bytes]]) -> Specimen:
    """Of a moment at which the log says of everything but its last record that it is synced, which it says only when
    there was nothing else to do for a while."""
    deadline = time.monotonic() + _SETTLE_S
    while True:
        # A segment may be reclaimed while it is copied: then this was no quiet moment.
        with suppress(shutil.Error):
            shutil.copytree(root / "data", root / "killed")
            killed = Specimen.of(root / "killed", confirmed)
            if max(record.synced for record in killed.log) == killed.log[-1].sequence - 1:
                return killed
        assert time.monotonic() < deadline, "the log never says that it is synced"
        shutil.rmtree(root / "killed")
        time.sleep(0.2)


def _fill(connection: pika.BlockingConnection, broker: Broker, messages: int) -> dict[str, set[bytes]]:
    channel = connection.channel()
    channel.confirm_delivery()
    channel.exchange_declare("fan", "fanout", durable=True)
    channel.exchange_declare("words", "topic", durable=True)
    queues = [f"queue-{i}" for i in range(6)]
    for name in queues:
        channel.queue_declare(name, durable=True)
        channel.queue_bind(name, "words", f"{name}.#")
    for name in queues[:3]:
        channel.queue_bind(name, "fan")
    _churn(channel, broker)
    confirmed: dict[str, set[bytes]] = {name: set() for name in queues}
    persistent = pika.BasicProperties(delivery_mode=2, headers={"kind": "test"})
    holder = connection.channel()
    for number in range(messages):
        body = awkward_bodies(number)
        if number % 4 == 0:
            channel.basic_publish("fan", "", body, persistent)
            reached = queues[:3]
        else:
            reached = [queues[number % len(queues)]]
            channel.basic_publish("words", reached[0] + ".key", body, persistent)
        for name in reached:
            confirmed[name].add(body)
        if number % 10 == 9:
            for i in range(_ACKED_OF_TEN):
                _get(channel, queues[(number // 10 + i) % len(queues)], confirmed)
        if number % 97 == 0:
            holder.basic_get(queues[number % len(queues)])
    _again_and_again(connection, queues[5])
    return confirmed


def _end_with_messages(connection: pika.BlockingConnection, broker: Broker, confirmed: dict[str, set[bytes]]) -> None:
    """The newest segment has a few messages, wherever the others happened to end."""
    channel = connection.channel()
    channel.confirm_delivery()
    number = 0
    while broker.call(lambda node: node.store.journal.segment.placed) < _LAST_MESSAGES_MIN:
        body = b"one of the last, %d" % number
        channel.basic_publish("words", "queue-1.key", body, pika.BasicProperties(delivery_mode=2))
        confirmed["queue-1"].add(body)
        number += 1


def _get(channel: pika.adapters.blocking_connection.BlockingChannel, name: str, left: dict[str, set[bytes]]) -> None:
    method, _, body = channel.basic_get(name)
    if method is not None:
        channel.basic_ack(method.delivery_tag)
        left[name].discard(body)


def _again_and_again(connection: pika.BlockingConnection, name: str) -> None:
    """Some messages are handed out more than once and held at the end."""
    channel = connection.channel()
    for _ in range(3):
        method, _, _ = channel.basic_get(name)
        channel.basic_nack(method.delivery_tag, requeue=True)
    channel.basic_get(name)


def _churn(channel: pika.adapters.blocking_connection.BlockingChannel, broker: Broker) -> None:
    """A catalog of many commands: what comes and goes, in two vhosts."""
    for i in range(30):
        channel.exchange_declare(f"exchange-{i}", "direct", durable=True)
        channel.queue_declare(f"short-{i}", durable=True, arguments={"x-max-priority": 1} if i % 7 == 0 else {})
        channel.queue_bind(f"short-{i}", f"exchange-{i}", "key")
        channel.exchange_bind(f"exchange-{i}", "words", f"to.{i}")
        if i % 3 == 0:
            channel.queue_delete(f"short-{i}")
        if i % 3 == 1:
            channel.queue_unbind(f"short-{i}", f"exchange-{i}", "key")
        if i % 5 == 0:
            channel.exchange_delete(f"exchange-{i}")
    broker.call(lambda node: node.broker.apply(PutVhost(Vhost("second"))))
    for i in range(8):
        broker.call(lambda node, i=i: node.broker.apply(PutUser(User(f"user-{i}", "", ()))))
    broker.call(lambda node: node.broker.apply(DeleteUser("user-7")))


def _await_indexes(data: Path) -> None:
    """Until all sealed segments with messages have an index, and the log says how far it is synced."""
    deadline = time.monotonic() + _SETTLE_S
    names: list[str] = []
    while time.monotonic() < deadline:
        time.sleep(0.4)
        before, names = names, sorted(path.name for path in (data / "log").iterdir())
        if names == before and sum(name.endswith(".index") for name in names) >= 3:
            return
    raise AssertionError(f"no indexes came: {names}")

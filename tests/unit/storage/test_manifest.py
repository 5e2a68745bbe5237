"""The manifest as a file: what is recorded is there again, whatever happened to its end; and no error of the disk makes
it say what did not happen."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

from leveret.storage import manifest as manifest_module
from leveret.storage.holdings import (
    ALL,
    CREATED,
    LOST,
    REMOVED,
    SEALED,
    STARTED,
    STOPPED,
    SYNCED,
    THE_LOG,
    Event,
    Held,
    Holdings,
    decode_event,
)
from leveret.storage.layout import Layout
from leveret.storage.manifest import DAMAGED, Manifest, ReadManifest, manifest_octets

SALT = 0x5EED


@pytest.fixture
def layout(tmp_path: Path) -> Layout:
    made = Layout(tmp_path)
    made.make()
    return made


def opened(layout: Layout) -> Manifest:
    made = Manifest(layout, SALT)
    made.load()
    return made


def read(layout: Layout) -> ReadManifest:
    return ReadManifest(layout, SALT)


def applied(*events: Event) -> Holdings:
    holdings = Holdings()
    for event in events:
        holdings.apply(event)
    return holdings


def test_events_are_octets_and_back() -> None:
    event = Event(SEALED, 3, 7, 65536, 10, 20, 9)
    assert decode_event(event.encode()) == event
    assert decode_event(b"short") is None
    assert decode_event(Event(99).encode()) is None


def test_what_the_events_come_to() -> None:
    holdings = applied(
        Event(CREATED, THE_LOG, 1),
        Event(CREATED, THE_LOG, 2),
        Event(SEALED, THE_LOG, 1, 500, 1, 9, 8),
        Event(SYNCED, THE_LOG, 2, 100, 0, 12),
        Event(CREATED, 5, 1),
        Event(SYNCED, 5, 1, 80, 0, 3),
        Event(REMOVED, THE_LOG, 1),
    )
    assert holdings.of(THE_LOG) == {2: Held(end=100, last=12)}
    assert holdings.of(5) == {1: Held(end=80, last=3)}
    assert holdings.synced == {THE_LOG: 12, 5: 3}
    holdings.apply(Event(REMOVED, 5, ALL))
    holdings.apply(Event(SYNCED, 5, 1, 90, 0, 4))
    assert holdings.of(5) == {} and holdings.synced == {THE_LOG: 12}, "late evidence does not bring a stream back"


def test_the_short_list_comes_to_the_same() -> None:
    holdings = applied(
        *(Event(CREATED, stream, number) for stream in (THE_LOG, 4) for number in (1, 2, 3)),
        Event(SEALED, 4, 1, 500, 1, 9, 8),
        Event(LOST, 4, 2),
        Event(SYNCED, 4, 3, 70, 0, 30),
        Event(REMOVED, THE_LOG, 3),
        Event(STARTED, 11, 12),
    )
    assert applied(*holdings.events()) == holdings
    holdings.apply(Event(STOPPED))
    assert applied(*holdings.events()) == holdings and holdings.running_in is None


def test_what_was_recorded_is_there_again(layout: Layout) -> None:
    made = opened(layout)
    made.note(Event(CREATED, 9, 1))
    made.created(THE_LOG, 1)
    made.created(THE_LOG, 2)
    made.removed(THE_LOG, [1])
    before = made.holdings
    made.close()
    found = read(layout)
    assert found.is_usable and found.holdings == before == opened(layout).holdings
    assert list(found.holdings.of(THE_LOG)) == [2] and list(found.holdings.of(9)) == [1]
    assert found.holdings.last_number == 2


def test_a_torn_end_is_cut_and_no_damage(layout: Layout) -> None:
    """At every octet of what was written last."""
    made = opened(layout)
    made.created(THE_LOG, 1)
    size = read(layout).end
    made.created(THE_LOG, 2)
    made.close()
    whole = layout.manifest.read_bytes()
    end_of_all = read(layout).end
    for end in range(size, end_of_all, 7):
        octets = whole[:end] + bytes(len(whole) - end if end % 2 else 0)
        if octets == whole:
            # The last octets are zeros anyway.
            continue
        layout.manifest.write_bytes(octets)
        again = opened(layout)
        assert list(again.holdings.of(THE_LOG)) == [1]
        again.created(THE_LOG, 3)
        again.close()
        assert read(layout).is_usable and list(read(layout).holdings.of(THE_LOG)) == [1, 3]


def test_damage_is_told_and_nothing_is_called_missing_by_what_is_left(layout: Layout) -> None:
    made = opened(layout)
    for number in (1, 2, 3):
        made.created(THE_LOG, number)
    made.record(Event(SYNCED, THE_LOG, 3, 0, 0, 77))
    made.record(Event(STARTED, 1, 1))
    made.close()
    octets = bytearray(layout.manifest.read_bytes())
    for place in (70, 4):
        damaged = bytearray(octets)
        damaged[place] ^= 1
        layout.manifest.write_bytes(damaged)
        found = read(layout)
        assert not found.is_usable and {damage.what for damage in found.damages} == {DAMAGED}
        assert found.holdings.segments == {}
    again = opened(layout)
    again.created(THE_LOG, 4)
    again.close()
    assert read(layout).is_usable, "it was made anew"


def test_it_is_written_anew_when_it_has_grown(layout: Layout, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(manifest_module, "GROWN_BYTES_MIN", 1000)
    made = opened(layout)
    for number in range(1, 300):
        made.created(THE_LOG, number)
        made.removed(THE_LOG, [number - 1])
    made.close()
    assert len(layout.manifest.read_bytes().rstrip(b"\0")) < 4000
    found = read(layout)
    assert found.is_usable and list(found.holdings.of(THE_LOG)) == [299] and found.holdings.last_number == 299
    again = opened(layout)
    again.created(THE_LOG, 300)
    assert list(read(layout).holdings.of(THE_LOG)) == [299, 300]
    again.close()


def fails(monkeypatch: pytest.MonkeyPatch, name: str, number: int) -> None:
    def failing(*_arguments: object) -> None:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(manifest_module.os, name, failing)


def test_what_cannot_be_written_did_not_happen(layout: Layout, monkeypatch: pytest.MonkeyPatch) -> None:
    made = opened(layout)
    made.created(THE_LOG, 1)
    made.note(Event(CREATED, 5, 1))
    with monkeypatch.context() as patched:

        def half(fd: int, data: memoryview, offset: int) -> int:
            if offset > half_way:
                raise OSError(errno.ENOSPC, "full")
            return os.write(fd, bytes(data[:96])) if os.lseek(fd, offset, 0) == offset else 0

        half_way = read(layout).end
        patched.setattr("leveret.runtime.files.os.pwrite", half)
        with pytest.raises(OSError, match="full"):
            made.created(THE_LOG, 2)
        assert list(read(layout).holdings.of(THE_LOG)) == [1] and read(layout).holdings.of(5) == {}
    assert list(made.holdings.of(THE_LOG)) == [1]
    made.created(THE_LOG, 3)
    assert list(read(layout).holdings.of(THE_LOG)) == [1, 3]
    assert list(read(layout).holdings.of(5)) == [1], "what was noted is not forgotten"
    made.close()


@pytest.mark.parametrize("name", ["fdatasync"])
def test_a_sync_that_fails_is_never_a_shortage(layout: Layout, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    """A store retries after a shortage; after a failed sync the kernel may say that all is well."""
    made = opened(layout)
    made.created(THE_LOG, 1)
    fails(monkeypatch, name, errno.ENOSPC)
    with pytest.raises(OSError) as raised:
        made.created(THE_LOG, 2)
    assert raised.value.errno == errno.EIO
    made.close()


def test_nothing_is_recorded_behind_a_sync_that_failed(layout: Layout, monkeypatch: pytest.MonkeyPatch) -> None:
    """The kernel may have dropped the record before: the next start cuts the file at that hole, and a removal behind it
    would be a file that is missing."""
    made = opened(layout)
    made.created(THE_LOG, 1)
    made.created(THE_LOG, 2)
    end = read(layout).end
    with monkeypatch.context() as patched:
        fails(patched, "fdatasync", errno.ENOSPC)
        with pytest.raises(OSError, match="cannot be synced"):
            made.record(Event(SYNCED, THE_LOG, 1, 0, 0, 7))
    with layout.manifest.open("r+b") as file:
        file.seek(end)
        file.write(bytes(read(layout).end - end))
    with pytest.raises(OSError, match="cannot be synced"):
        made.removed(THE_LOG, [1])
    assert list(read(layout).holdings.of(THE_LOG)) == [1, 2]
    made.close()


def test_a_rewrite_that_fails_leaves_the_old_file(layout: Layout, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(manifest_module, "GROWN_BYTES_MIN", 10)
    monkeypatch.setattr(manifest_module, "GROWN_FACTOR", 1)
    made = opened(layout)
    made.created(THE_LOG, 1)
    with monkeypatch.context() as patched:
        patched.setattr(manifest_module, "create_file", lambda *_: (_ for _ in ()).throw(OSError(errno.ENOSPC, "full")))
        made.created(THE_LOG, 2)
    assert list(read(layout).holdings.of(THE_LOG)) == [1, 2]
    made.created(THE_LOG, 3)
    assert list(read(layout).holdings.of(THE_LOG)) == [1, 2, 3]
    assert read(layout).end == len(manifest_octets(made.holdings, SALT))
    made.close()


def test_nothing_is_written_after_the_end(layout: Layout) -> None:
    made = opened(layout)
    made.created(THE_LOG, 1)
    made.close()
    with pytest.raises(OSError, match="closed"):
        made.created(THE_LOG, 2)
    assert list(read(layout).holdings.of(THE_LOG)) == [1]


def test_a_removal_can_be_recorded_on_a_full_disk(layout: Layout, monkeypatch: pytest.MonkeyPatch) -> None:
    """Else nothing could be deleted any more, and the disk would stay full."""
    for made in (opened(layout), opened(layout)):
        made.created(THE_LOG, 1)
        size = layout.manifest.stat().st_size
        original = os.pwrite

        def full(fd: int, data: memoryview, offset: int) -> int:
            if offset + len(data) > size:  # noqa: B023 - called before the next round
                raise OSError(errno.ENOSPC, "full")
            return original(fd, data, offset)  # noqa: B023

        def no_room(*_arguments: object) -> None:
            raise OSError(errno.ENOSPC, "full")

        with monkeypatch.context() as patched:
            patched.setattr("leveret.runtime.files.os.pwrite", full)
            patched.setattr("leveret.runtime.files.os.posix_fallocate", no_room)
            for number in range(200):
                made.removed(THE_LOG, [number])
        made.close()
        assert read(layout).holdings.of(THE_LOG) == {}

"""The window of keys: what was seen is known, within the size and the time it is given, over a restart too."""

from __future__ import annotations

from hashlib import blake2b
from typing import Any

import pytest

from leveret.core.codec.properties import Properties, encode_properties, parse_properties
from leveret.core.queue.dedup import DedupWindow, digest_of, own_ttl_of
from tests.unit.core.fake_disk import KEY, FakeDisk, Note

NOW = 1_700_000_000_000


def digest(name: str) -> bytes:
    return blake2b(name.encode(), digest_size=16).digest()


def window(size_max: int = 100, ttl_ms: int = 0, disk: FakeDisk | None = None) -> DedupWindow:
    return DedupWindow(7, None if disk is None else disk.journal, size_max, ttl_ms)


def remember(seen: DedupWindow, *names: str, now: int = NOW, own_ttl_ms: int = 0) -> None:
    for name in names:
        seen.remember(digest(name), now, own_ttl_ms, True)


def known(seen: DedupWindow, *names: str, now: int = NOW) -> list[str]:
    return [name for name in names if seen.has(digest(name), now)]


def restarted(disk: FakeDisk, now: int, size_max: int = 100, ttl_ms: int = 0) -> DedupWindow:
    seen = window(size_max, ttl_ms, disk)
    seen.restore(disk.book(7).keys, now)
    return seen


# ---- what a message's key is


def properties(**fields: Any) -> Properties:
    return parse_properties(encode_properties(**fields))


def test_the_key_is_the_header_and_without_one_the_message_id() -> None:
    assert digest_of(properties(headers={"x-deduplication-header": "k"}, message_id="m")) == digest("k")
    assert digest_of(properties(headers={"other": 1}, message_id="m")) == digest("m")
    assert digest_of(properties(headers={"other": 1}, correlation_id="c")) is None


@pytest.mark.parametrize(("value", "same"), [(5, "5"), (True, "True"), (b"k", "k"), ("größe", "größe"), ("", "")])
def test_a_key_of_any_type_is_one(value: Any, same: str) -> None:
    assert digest_of(properties(headers={"x-deduplication-header": value})) == digest(same)


def test_a_key_may_hold_any_octets() -> None:
    raw = encode_properties(message_id=b"\xff\xfe")
    assert digest_of(parse_properties(raw)) == blake2b(b"\xff\xfe", digest_size=16).digest()


@pytest.mark.parametrize(("value", "expected"), [(5, 5), (0, 0), (-1, 0), (True, 0), ("5", 0), (None, 0), (1.5, 0)])
def test_a_message_may_say_how_long_its_key_is_remembered(value: Any, expected: int) -> None:
    assert own_ttl_of(properties(headers={"x-cache-ttl": value})) == expected


def test_without_a_header_it_does_not_say() -> None:
    assert own_ttl_of(properties()) == 0


# ---- in memory


def test_a_key_is_known_once_it_was_remembered_and_then_counted() -> None:
    seen = window()
    assert known(seen, "a") == []
    assert seen.duplicates_total == 0
    remember(seen, "a")
    assert known(seen, "a", "a", "b") == ["a", "a"]
    assert seen.duplicates_total == 2


def test_the_oldest_are_forgotten_when_there_are_too_many() -> None:
    seen = window(size_max=3)
    remember(seen, "a", "b", "c", "d", "e")
    assert list(seen.keys) == [digest(name) for name in "cde"]


def test_a_duplicate_does_not_make_its_key_younger() -> None:
    seen = window(size_max=2, ttl_ms=10)
    remember(seen, "a", "b")
    known(seen, "a", now=NOW + 9)
    assert known(seen, "a", now=NOW + 10) == []
    remember(seen, "c", now=NOW + 10)
    assert known(seen, "b", "c", now=NOW + 9) == ["c"], "its time was over when another came"


def test_keys_are_forgotten_when_their_time_is_over() -> None:
    seen = window(ttl_ms=10)
    remember(seen, "a")
    assert known(seen, "a", now=NOW + 9) == ["a"]
    assert known(seen, "a", now=NOW + 10) == []
    assert seen.keys == {}


def test_without_a_time_keys_stay_as_long_as_there_is_room() -> None:
    seen = window()
    remember(seen, "a")
    assert known(seen, "a", now=NOW + 10**12) == ["a"]


@pytest.mark.parametrize(("own_ttl_ms", "remembered_ms"), [(500, 500), (501, 600), (1, 100), (5000, 5000)])
def test_a_keys_own_time_counts_instead_in_tenths_of_a_second(own_ttl_ms: int, remembered_ms: int) -> None:
    seen = window(ttl_ms=2000)
    remember(seen, "a", own_ttl_ms=own_ttl_ms)
    assert known(seen, "a", now=NOW + remembered_ms - 1) == ["a"]
    assert known(seen, "a", now=NOW + remembered_ms) == []


def test_a_keys_own_time_has_an_end() -> None:
    seen = window()
    remember(seen, "a", own_ttl_ms=1 << 62)
    longest = ((1 << 24) - 1) * 100
    assert known(seen, "a", now=NOW + longest - 1) == ["a"]
    assert known(seen, "a", now=NOW + longest) == []


def test_a_key_that_was_forgotten_and_seen_again_is_young() -> None:
    seen = window(size_max=2, ttl_ms=10)
    remember(seen, "a")
    assert known(seen, "a", now=NOW + 10) == []
    remember(seen, "b", "a", now=NOW + 10)
    remember(seen, "c", now=NOW + 11)
    assert list(seen.keys) == [digest("a"), digest("c")]


# ---- in the log


def test_keys_are_noted_with_the_batch() -> None:
    disk = FakeDisk()
    seen = window(disk=disk)
    remember(seen, "a", own_ttl_ms=700)
    assert disk.wakes == [False]
    disk.commit()
    (note,) = disk.noted(KEY)
    octets = digest("a")
    expected = Note(7, *(int.from_bytes(octets[at:end], "big") for at, end in ((0, 8), (8, 12), (12, 16))), 0, 0)
    assert note == expected._replace(c=NOW // 1000, kind=KEY | 7 << 8)
    disk.commit()
    assert len(disk.noted(KEY)) == 1, "once is enough"


def test_without_a_journal_nothing_is_noted() -> None:
    seen = window()
    remember(seen, "a")
    assert known(seen, "a") == ["a"]


def test_a_key_that_was_forgotten_before_the_batch_ended_is_not_noted() -> None:
    disk = FakeDisk()
    seen = window(size_max=1, disk=disk)
    remember(seen, "a", "b")
    disk.commit()
    assert len(disk.noted(KEY)) == 1


def test_a_start_knows_the_keys() -> None:
    disk = FakeDisk()
    remember(window(disk=disk), "a", "b")
    disk.commit()
    assert known(restarted(disk, NOW), "a", "b", "c") == ["a", "b"]


def test_a_start_does_not_know_keys_whose_time_is_over() -> None:
    disk = FakeDisk()
    seen = window(ttl_ms=5000, disk=disk)
    remember(seen, "short", own_ttl_ms=1000)
    remember(seen, "long", own_ttl_ms=60_000)
    remember(seen, "usual")
    disk.commit()
    again = restarted(disk, NOW + 5000, ttl_ms=5000)
    assert list(again.keys) == [digest("long")]


def test_a_key_is_never_forgotten_too_early_because_of_a_start() -> None:
    """The log has whole seconds, rounded up."""
    disk = FakeDisk()
    remember(window(ttl_ms=2000, disk=disk), "a", now=NOW + 999)
    disk.commit()
    again = restarted(disk, NOW + 2998, ttl_ms=2000)
    assert known(again, "a", now=NOW + 2998) == ["a"]
    assert known(again, "a", now=NOW + 3000) == []


def test_a_start_has_the_oldest_first_whatever_segment_they_are_in() -> None:
    found = [(30, digest("c"), 1, 0), (10, digest("a"), 2, 0), (20, digest("b"), 3, 0)]
    seen = window(size_max=2)
    assert seen.restore(found, NOW) == {1, 2, 3}
    assert list(seen.keys) == [digest("b"), digest("c")]


def test_a_start_has_a_key_that_was_seen_twice_as_young_as_the_second_time() -> None:
    found = [(10, digest("a"), 1, 0), (20, digest("b"), 1, 0), (30, digest("a"), 1, 0)]
    seen = window(size_max=1)
    seen.restore(found, NOW)
    assert list(seen.keys) == [digest("a")]


# ---- segments that go


def test_keys_in_a_segment_that_goes_are_noted_again() -> None:
    disk = FakeDisk()
    seen = window(disk=disk)
    remember(seen, "a", "b")
    disk.commit()
    assert disk.journal.segment.noted_by == {seen}
    assert seen.note_again(1)
    disk.commit()
    assert [note[:5] for note in disk.noted(KEY)[2:]] == [note[:5] for note in disk.noted(KEY)[:2]]
    assert not seen.note_again(99), "nothing is noted there"


def test_keys_that_were_forgotten_are_not_noted_again() -> None:
    disk = FakeDisk()
    seen = window(size_max=1, disk=disk)
    remember(seen, "a")
    disk.commit()
    remember(seen, "b")
    assert not seen.note_again(1)
    disk.commit()
    assert len(disk.noted(KEY)) == 2


def test_recovered_keys_are_noted_again_when_their_segment_goes() -> None:
    disk = FakeDisk()
    seen = window(disk=disk)
    seen.restore([(NOW // 1000, digest("a"), 5, 0)], NOW)
    assert not seen.note_again(1)
    assert seen.note_again(5)
    disk.commit()
    assert len(disk.noted(KEY)) == 1


def test_a_closed_window_knows_and_notes_nothing() -> None:
    disk = FakeDisk()
    seen = window(disk=disk)
    remember(seen, "a")
    disk.commit()
    remember(seen, "b")
    seen.close()
    disk.commit()
    assert (known(seen, "a", "b"), len(disk.noted(KEY)), seen.note_again(1)) == ([], 1, False)


def test_the_key_of_a_transient_message_goes_with_it() -> None:
    disk = FakeDisk()
    seen = window(disk=disk)
    seen.remember(digest("a"), NOW, 0, False)
    disk.commit()
    assert (known(seen, "a"), disk.noted(KEY)) == (["a"], [])

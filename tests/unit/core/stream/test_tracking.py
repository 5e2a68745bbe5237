"""What a stream remembers of producers and consumers: ids only grow, and what is read back is what was written."""

from __future__ import annotations

import random

import pytest

from leveret.core.stream.tracking import Tracking

NAMES_MAX = 10_000


def copy_of(tracking: Tracking) -> Tracking:
    octets = tracking.encode()
    copy = Tracking()
    copy.read(octets, 0, len(octets), True)
    return copy


def test_an_id_is_taken_once_and_no_lower_one() -> None:
    tracking = Tracking()
    assert [tracking.take_id(b"a", id) for id in (0, 0, 1, 5, 4, 5, 6)] == [True, False, True, True, False, False, True]
    assert tracking.take_id(b"b", 3), "producers do not know each other"
    assert tracking.take_id(b"a", (1 << 63) - 1)
    assert tracking.producers == {b"a": (1 << 63) - 1, b"b": 3}


def test_an_offset_may_go_back() -> None:
    tracking = Tracking()
    for offset in (5, 9, 0):
        tracking.store_offset(b"c", offset)
    assert tracking.consumers == {b"c": 0}


def test_what_changed_is_known_until_it_is_written() -> None:
    tracking = Tracking()
    assert not tracking.is_changed() and tracking.changed_size() == 0
    tracking.take_id(b"abc", 7)
    assert tracking.is_changed() and tracking.changed_size() == tracking.whole_size() == 13
    tracking.store_offset(b"x" * 255, 1)
    assert tracking.changed_size() == 13 + 265


def test_all_of_it_is_read_back() -> None:
    tracking = Tracking()
    tracking.take_id(b"p", 1 << 62)
    tracking.store_offset(b"p", 17)
    tracking.store_offset(bytes(range(255)), 0)
    copy = copy_of(tracking)
    assert (copy.producers, copy.consumers) == (tracking.producers, tracking.consumers)
    assert not copy.is_changed(), "what was read is no news"
    assert copy.encode() == tracking.encode()


def test_changes_add_and_a_whole_replaces() -> None:
    one, two = Tracking(), Tracking()
    one.take_id(b"a", 1)
    two.take_id(b"b", 2)
    octets = two.encode()
    one.read(octets, 0, len(octets), False)
    assert one.producers == {b"a": 1, b"b": 2}
    one.read(octets, 0, len(octets), True)
    assert one.producers == {b"b": 2}


def test_half_an_item_is_none() -> None:
    tracking = Tracking()
    tracking.take_id(b"first", 1)
    tracking.take_id(b"second", 2)
    octets = tracking.encode()
    for end in range(len(octets) - 16, len(octets)):
        copy = Tracking()
        copy.read(octets, 0, end, True)
        assert copy.producers == {b"first": 1}


def test_the_one_that_changed_longest_ago_is_forgotten() -> None:
    tracking = Tracking()
    for number in range(NAMES_MAX):
        tracking.take_id(b"%d" % number, 1)
        tracking.store_offset(b"%d" % number, 1)
    tracking.take_id(b"0", 2)
    tracking.store_offset(b"0", 2)
    tracking.take_id(b"new", 1)
    tracking.store_offset(b"new", 1)
    for names in (tracking.producers, tracking.consumers):
        assert len(names) == NAMES_MAX
        assert b"1" not in names and names[b"0"] == 2 and names[b"new"] == 1
    assert tracking.take_id(b"1", 1), "it is new again"


def test_the_bound_holds_for_what_is_read_back() -> None:
    """Changes are written as they come, so a log tells of more than there were at any moment."""
    tracking = Tracking()
    for start in (0, NAMES_MAX):
        other = Tracking()
        for number in range(start, start + NAMES_MAX):
            other.take_id(b"%d" % number, 1)
        octets = other.encode()
        tracking.read(octets, 0, len(octets), False)
    assert len(tracking.producers) == NAMES_MAX
    assert b"0" not in tracking.producers and b"%d" % (2 * NAMES_MAX - 1) in tracking.producers


def test_a_forgotten_offset_is_gone_and_stays_so_when_changes_are_read_back() -> None:
    tracking, copy = Tracking(), Tracking()
    for consumer in (b"kept", b"gone"):
        tracking.store_offset(consumer, 5)
    before = tracking.encode()
    copy.read(before, 0, len(before), True)
    assert tracking.forget_offset(b"gone")
    assert not tracking.forget_offset(b"gone")
    assert not tracking.forget_offset(b"never")
    assert tracking.consumers == {b"kept": 5}
    assert tracking.changed_size() == 2 * 14, "the change is news, too"
    forgotten = b"\x02\x04" + b"\xff" * 8 + b"gone"
    copy.read(forgotten, 0, len(forgotten), False)
    assert copy.consumers == {b"kept": 5}
    assert copy_of(tracking).consumers == {b"kept": 5}
    tracking.store_offset(b"gone", 9)
    assert tracking.consumers[b"gone"] == 9


def test_a_group_of_names_makes_room_for_itself() -> None:
    """A writer with a name for each batch does not push out names of others that are used seldom."""
    tracking = Tracking()
    tracking.take_id(b"seldom", 7)
    tracking.take_id(b"other#1", 8)
    for number in range(3 * NAMES_MAX):
        tracking.take_id(b"writer#%d" % number, 0)
    assert len(tracking.producers) == NAMES_MAX
    assert (tracking.producers[b"seldom"], tracking.producers[b"other#1"]) == (7, 8)
    tracking.take_id(b"new", 0)
    assert b"seldom" not in tracking.producers, "without a group it is the oldest of all that goes"


@pytest.mark.skipif(not hasattr(Tracking, "write_changed"), reason="compiled, changes are written from C alone")
def test_what_is_read_back_forgets_the_same_names() -> None:
    """With more names than are kept, used again and again, in batches: whoever reads the log comes to the same."""
    live, replayed = Tracking(), Tracking()
    dice = random.Random(5)
    last = dict.fromkeys(range(NAMES_MAX + 3000), 0)
    for _ in range(30):
        for _ in range(1500):
            number = dice.randrange(NAMES_MAX + 3000)
            last[number] += 1
            kind = (b"w#%d", b"v#%d", b"plain%d")[number % 3]
            live.take_id(kind % number, last[number])
            live.store_offset(kind % number, last[number])
        octets = bytearray(live.changed_size())
        live.write_changed(octets, 0)
        replayed.read(octets, 0, len(octets), False)
    assert len(live.producers) == len(live.consumers) == NAMES_MAX
    assert list(replayed.producers.items()) == list(live.producers.items())
    assert list(replayed.consumers.items()) == list(live.consumers.items())


def test_producers_by_how_their_names_begin() -> None:
    tracking = Tracking()
    for number, name in enumerate((b"a/1", b"b", b"a/2")):
        tracking.take_id(name, number)
    assert tracking.producers_with(b"a/") == {b"a/1": 0, b"a/2": 2}

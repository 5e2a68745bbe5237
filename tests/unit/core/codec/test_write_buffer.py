"""The write buffer: octets leave in order however the socket takes them, large bodies are referred to, congestion is
told."""

from __future__ import annotations

import random

import pytest

from leveret.core.codec.write_buffer import WriteBuffer
from tests.unit.queues.dataplane import empty_outbox

CONGESTED = 262144
CALM = 65536
FLOODED = 16 * 1024 * 1024
SPARE = 327680


def new_outbox(dirty: list[WriteBuffer] | None = None, spares: list[bytearray] | None = None) -> WriteBuffer:
    return WriteBuffer([] if dirty is None else dirty, [] if spares is None else spares)


def test_a_new_outbox_has_nothing_to_send() -> None:
    write_buffer = new_outbox()
    assert (write_buffer.pending(), write_buffer.views(64), write_buffer.congested, write_buffer.dirty) == (
        0,
        [],
        False,
        False,
    )


def test_what_is_written_leaves_in_order() -> None:
    write_buffer = new_outbox()
    write_buffer.write(b"first ")
    write_buffer.write(b"second")
    assert write_buffer.pending() == 12
    assert b"".join(write_buffer.views(64)) == b"first second"
    assert empty_outbox(write_buffer) == b"first second"
    assert (write_buffer.pending(), write_buffer.bytes_sent) == (0, 12)


def test_an_outbox_with_something_to_send_is_on_the_dirty_list_once() -> None:
    dirty: list[WriteBuffer] = []
    write_buffer = new_outbox(dirty)
    write_buffer.write(b"a")
    write_buffer.write(b"b")
    assert dirty == [write_buffer]
    assert write_buffer.dirty
    dirty.clear()
    write_buffer.calm_down()
    assert not write_buffer.dirty
    write_buffer.write(b"c")
    assert dirty == [write_buffer]


def test_the_rest_of_a_part_sent_comes_next() -> None:
    write_buffer = new_outbox()
    write_buffer.write(b"0123456789")
    write_buffer.sent(4)
    assert b"".join(write_buffer.views(64)) == b"456789"
    write_buffer.write(b"ab")
    assert empty_outbox(write_buffer) == b"456789ab"


def test_a_large_body_is_referred_to_and_not_copied() -> None:
    write_buffer, body = new_outbox(), bytes(50_000)
    write_buffer.write(b"head")
    write_buffer.refer(body, 0, len(body))
    write_buffer.write(b"tail")
    views = write_buffer.views(64)
    assert [len(view) for view in views] == [4, 50_000, 4]
    assert views[1].obj is body
    assert write_buffer.pending() == 50_008
    del views
    assert empty_outbox(write_buffer) == b"head" + body + b"tail"


def test_a_piece_can_be_sent_in_parts() -> None:
    write_buffer, body = new_outbox(), bytes(range(256)) * 100
    write_buffer.write(b"head")
    write_buffer.refer(body, 256, 512)
    write_buffer.write(b"tail")
    taken = b""
    while views := write_buffer.views(64):
        taken += bytes(views[0][:7])
        write_buffer.sent(min(7, len(views[0])))
        del views
    assert taken == b"head" + body[256:512] + b"tail"


def test_views_are_limited_in_number() -> None:
    write_buffer = new_outbox()
    for _ in range(10):
        write_buffer.refer(b"piece", 0, 5)
    assert len(write_buffer.views(3)) == 3
    assert empty_outbox(write_buffer, pieces_max=3) == b"piece" * 10


def test_writing_goes_on_while_earlier_pieces_wait() -> None:
    """A buffer that a sealed piece points into must not be written again."""
    write_buffer = new_outbox()
    expected = b""
    for number in range(200):
        text = b"%d," % number * 50
        write_buffer.write(text)
        write_buffer.refer(b"|body|", 0, 6)
        expected += text + b"|body|"
    assert empty_outbox(write_buffer) == expected


def test_any_mix_of_writes_references_and_part_sends_keeps_every_octet() -> None:
    rolls, spares = random.Random(1), list[bytearray]()
    boxes = [new_outbox(spares=spares) for _ in range(3)]
    expected, taken = [b"", b"", b""], [b"", b"", b""]
    for step in range(1500):
        at = rolls.randrange(3)
        write_buffer = boxes[at]
        size = rolls.choice((3, 90, 700, 20_000, 60_000))
        data = bytes([step % 251]) * size
        choice = rolls.random()
        if choice < 0.4:
            write_buffer.write(data)
            expected[at] += data
        elif choice < 0.5:
            write_buffer.refer(data, 1, size)
            expected[at] += data[1:]
        elif views := write_buffer.views(rolls.randrange(1, 5)):
            batch = b"".join(views)[: rolls.randrange(1, 200_000)]
            del views
            write_buffer.sent(len(batch))
            taken[at] += batch
    for at, write_buffer in enumerate(boxes):
        assert taken[at] + empty_outbox(write_buffer) == expected[at]


def test_an_outbox_is_congested_above_its_limit_and_calm_only_when_most_is_sent() -> None:
    write_buffer = new_outbox()
    write_buffer.write(bytes(CONGESTED))
    assert not write_buffer.congested
    write_buffer.write(b"x")
    assert write_buffer.congested
    write_buffer.sent(CONGESTED + 1 - CALM)
    assert write_buffer.calm_down() is False
    assert write_buffer.congested
    write_buffer.sent(1)
    assert write_buffer.calm_down() is True
    assert not write_buffer.congested
    assert write_buffer.calm_down() is False


def test_bodies_referred_to_count_for_congestion() -> None:
    write_buffer = new_outbox()
    write_buffer.refer(bytes(CONGESTED + 1), 0, CONGESTED + 1)
    assert write_buffer.congested


def test_an_outbox_is_flooded_by_answers_nobody_reads() -> None:
    write_buffer = new_outbox()
    write_buffer.write(bytes(FLOODED))
    assert not write_buffer.flooded()
    write_buffer.write(b"x")
    assert write_buffer.flooded()
    write_buffer.sent(1)
    assert not write_buffer.flooded()


def test_bodies_of_deliveries_do_not_flood_but_others_do() -> None:
    """Deliveries are held back by congestion; what a client brings upon itself is not."""
    body = bytes(FLOODED + 1)
    delivered, returned = new_outbox(), new_outbox()
    delivered.refer(body, 0, len(body), True)
    returned.refer(body, 0, len(body), False)
    assert (delivered.flooded(), returned.flooded()) == (False, True)


def test_a_delivery_that_is_sent_no_longer_makes_room_for_a_flood() -> None:
    write_buffer, body = new_outbox(), bytes(FLOODED)
    write_buffer.refer(body, 0, len(body), True)
    write_buffer.write(b"x" * 100)
    write_buffer.sent(len(body) - 10)
    write_buffer.refer(body, 0, len(body), False)
    assert write_buffer.flooded()
    write_buffer.sent(10 + 100)
    assert not write_buffer.flooded()
    assert write_buffer.pending() == len(body)


@pytest.mark.parametrize("size", [10, 5000])
def test_a_discarded_outbox_is_empty(size: int) -> None:
    write_buffer = new_outbox()
    write_buffer.write(bytes(size))
    write_buffer.refer(bytes(100), 0, 100)
    write_buffer.write(bytes(size))
    write_buffer.discard()
    assert (write_buffer.pending(), write_buffer.views(64)) == (0, [])


def test_a_large_buffer_is_passed_on_when_all_is_sent() -> None:
    spares: list[bytearray] = []
    first, second = new_outbox(spares=spares), new_outbox(spares=spares)
    first.write(bytes(20_000))
    assert spares == []
    empty_outbox(first)
    assert [len(spare) for spare in spares] == [SPARE]
    spare = spares[0]
    second.write(b"x" * 20_000)
    assert spares == []
    assert second.views(1)[0].obj is spare


def test_a_buffer_that_something_unsent_points_into_is_not_passed_on() -> None:
    spares: list[bytearray] = []
    first, second = new_outbox(spares=spares), new_outbox(spares=spares)
    for _ in range(15):
        first.write(b"a" * 20_000)
    first.refer(b"|", 0, 1)
    first.write(b"b" * 100_000)
    second.write(b"z" * 20_000)
    assert empty_outbox(first) == b"a" * 300_000 + b"|" + b"b" * 100_000


def test_a_small_outbox_leaves_the_spares_to_others() -> None:
    spares = [bytearray(SPARE)]
    write_buffer = new_outbox(spares=spares)
    write_buffer.write(bytes(500))
    assert len(spares) == 1


def test_no_more_spares_are_kept_than_needed() -> None:
    spares: list[bytearray] = []
    boxes = [new_outbox(spares=spares) for _ in range(30)]
    for write_buffer in boxes:
        write_buffer.write(bytes(20_000))
    for write_buffer in boxes:
        empty_outbox(write_buffer)
    assert len(spares) == 16

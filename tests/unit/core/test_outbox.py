"""The outbox: octets leave in order however the socket takes them, large bodies are referred to, congestion is told."""

from __future__ import annotations

import random

import pytest

from leveret.core.outbox import Outbox
from tests.unit.queues.dataplane import empty_outbox

CONGESTED = 262144
CALM = 65536
FLOODED = 16 * 1024 * 1024
SPARE = 327680


def new_outbox(dirty: list[Outbox] | None = None, spares: list[bytearray] | None = None) -> Outbox:
    return Outbox([] if dirty is None else dirty, [] if spares is None else spares)


def test_a_new_outbox_has_nothing_to_send() -> None:
    outbox = new_outbox()
    assert (outbox.pending(), outbox.views(64), outbox.congested, outbox.dirty) == (0, [], False, False)


def test_what_is_written_leaves_in_order() -> None:
    outbox = new_outbox()
    outbox.write(b"first ")
    outbox.write(b"second")
    assert outbox.pending() == 12
    assert b"".join(outbox.views(64)) == b"first second"
    assert empty_outbox(outbox) == b"first second"
    assert (outbox.pending(), outbox.bytes_sent) == (0, 12)


def test_an_outbox_with_something_to_send_is_on_the_dirty_list_once() -> None:
    dirty: list[Outbox] = []
    outbox = new_outbox(dirty)
    outbox.write(b"a")
    outbox.write(b"b")
    assert dirty == [outbox]
    assert outbox.dirty
    dirty.clear()
    outbox.calm_down()
    assert not outbox.dirty
    outbox.write(b"c")
    assert dirty == [outbox]


def test_the_rest_of_a_part_sent_comes_next() -> None:
    outbox = new_outbox()
    outbox.write(b"0123456789")
    outbox.sent(4)
    assert b"".join(outbox.views(64)) == b"456789"
    outbox.write(b"ab")
    assert empty_outbox(outbox) == b"456789ab"


def test_a_large_body_is_referred_to_and_not_copied() -> None:
    outbox, body = new_outbox(), bytes(50_000)
    outbox.write(b"head")
    outbox.refer(body, 0, len(body))
    outbox.write(b"tail")
    views = outbox.views(64)
    assert [len(view) for view in views] == [4, 50_000, 4]
    assert views[1].obj is body
    assert outbox.pending() == 50_008
    del views
    assert empty_outbox(outbox) == b"head" + body + b"tail"


def test_a_piece_can_be_sent_in_parts() -> None:
    outbox, body = new_outbox(), bytes(range(256)) * 100
    outbox.write(b"head")
    outbox.refer(body, 256, 512)
    outbox.write(b"tail")
    taken = b""
    while views := outbox.views(64):
        taken += bytes(views[0][:7])
        outbox.sent(min(7, len(views[0])))
        del views
    assert taken == b"head" + body[256:512] + b"tail"


def test_views_are_limited_in_number() -> None:
    outbox = new_outbox()
    for _ in range(10):
        outbox.refer(b"piece", 0, 5)
    assert len(outbox.views(3)) == 3
    assert empty_outbox(outbox, pieces_max=3) == b"piece" * 10


def test_writing_goes_on_while_earlier_pieces_wait() -> None:
    """A buffer that a sealed piece points into must not be written again."""
    outbox = new_outbox()
    expected = b""
    for number in range(200):
        text = b"%d," % number * 50
        outbox.write(text)
        outbox.refer(b"|body|", 0, 6)
        expected += text + b"|body|"
    assert empty_outbox(outbox) == expected


def test_any_mix_of_writes_references_and_part_sends_keeps_every_octet() -> None:
    rolls, spares = random.Random(1), list[bytearray]()
    boxes = [new_outbox(spares=spares) for _ in range(3)]
    expected, taken = [b"", b"", b""], [b"", b"", b""]
    for step in range(1500):
        at = rolls.randrange(3)
        outbox = boxes[at]
        size = rolls.choice((3, 90, 700, 20_000, 60_000))
        data = bytes([step % 251]) * size
        choice = rolls.random()
        if choice < 0.4:
            outbox.write(data)
            expected[at] += data
        elif choice < 0.5:
            outbox.refer(data, 1, size)
            expected[at] += data[1:]
        elif views := outbox.views(rolls.randrange(1, 5)):
            batch = b"".join(views)[: rolls.randrange(1, 200_000)]
            del views
            outbox.sent(len(batch))
            taken[at] += batch
    for at, outbox in enumerate(boxes):
        assert taken[at] + empty_outbox(outbox) == expected[at]


def test_an_outbox_is_congested_above_its_limit_and_calm_only_when_most_is_sent() -> None:
    outbox = new_outbox()
    outbox.write(bytes(CONGESTED))
    assert not outbox.congested
    outbox.write(b"x")
    assert outbox.congested
    outbox.sent(CONGESTED + 1 - CALM)
    assert outbox.calm_down() is False
    assert outbox.congested
    outbox.sent(1)
    assert outbox.calm_down() is True
    assert not outbox.congested
    assert outbox.calm_down() is False


def test_bodies_referred_to_count_for_congestion() -> None:
    outbox = new_outbox()
    outbox.refer(bytes(CONGESTED + 1), 0, CONGESTED + 1)
    assert outbox.congested


def test_an_outbox_is_flooded_by_answers_nobody_reads() -> None:
    outbox = new_outbox()
    outbox.write(bytes(FLOODED))
    assert not outbox.flooded()
    outbox.write(b"x")
    assert outbox.flooded()
    outbox.sent(1)
    assert not outbox.flooded()


def test_bodies_of_deliveries_do_not_flood_but_others_do() -> None:
    """Deliveries are held back by congestion; what a client brings upon itself is not."""
    body = bytes(FLOODED + 1)
    delivered, returned = new_outbox(), new_outbox()
    delivered.refer(body, 0, len(body), True)
    returned.refer(body, 0, len(body), False)
    assert (delivered.flooded(), returned.flooded()) == (False, True)


def test_a_delivery_that_is_sent_no_longer_makes_room_for_a_flood() -> None:
    outbox, body = new_outbox(), bytes(FLOODED)
    outbox.refer(body, 0, len(body), True)
    outbox.write(b"x" * 100)
    outbox.sent(len(body) - 10)
    outbox.refer(body, 0, len(body), False)
    assert outbox.flooded()
    outbox.sent(10 + 100)
    assert not outbox.flooded()
    assert outbox.pending() == len(body)


@pytest.mark.parametrize("size", [10, 5000])
def test_a_discarded_outbox_is_empty(size: int) -> None:
    outbox = new_outbox()
    outbox.write(bytes(size))
    outbox.refer(bytes(100), 0, 100)
    outbox.write(bytes(size))
    outbox.discard()
    assert (outbox.pending(), outbox.views(64)) == (0, [])


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
    outbox = new_outbox(spares=spares)
    outbox.write(bytes(500))
    assert len(spares) == 1


def test_no_more_spares_are_kept_than_needed() -> None:
    spares: list[bytearray] = []
    boxes = [new_outbox(spares=spares) for _ in range(30)]
    for outbox in boxes:
        outbox.write(bytes(20_000))
    for outbox in boxes:
        empty_outbox(outbox)
    assert len(spares) == 16

"""A tap takes what it is allowed to and counts the rest."""

from __future__ import annotations

from leveret.core.observe.tap import Tap, with_tap, without_tap
from leveret.core.queue.classic_queue import ClassicQueue
from tests.unit.queues.dataplane import Workbench, message, publish_frames


def tap(count_max: int = 100, bytes_max: int = 1 << 20, truncate: int = 100) -> Tap:
    return Tap(None, truncate, count_max, bytes_max)


def bodies(seen: list[tuple[bytes, bytes, object, bytes, int]]) -> list[bytes]:
    return [body for _, _, _, body, _ in seen]


def test_nothing_is_taken_without_an_allowance() -> None:
    watching = tap()
    watching.see(message(b"1"))
    assert (watching.matched_total, watching.missed_total, watching.take(2)) == (1, 1, [])
    for body in (b"2", b"3", b"4"):
        watching.see(message(body))
    assert (watching.matched_total, watching.missed_total) == (4, 2)
    assert bodies(watching.take(1)) == [b"2", b"3"]
    assert watching.take(0) == []


def test_long_bodies_are_cut_and_their_size_is_told() -> None:
    watching = tap(truncate=3)
    watching.take(10)
    watching.see(message(b"hello"))
    watching.see(message(b"you"))
    assert [(body, size) for _, _, _, body, size in watching.take(0)] == [(b"hel", 5), (b"you", 3)]


def test_the_buffer_is_bounded_in_number_and_in_octets() -> None:
    few = tap(count_max=2)
    few.take(10)
    small = tap(bytes_max=100)
    small.take(10)
    for _ in range(5):
        few.see(message(b"x"))
        small.see(message(b"y" * 60))
    assert (len(few.take(0)), few.missed_total) == (2, 3)
    assert (len(small.take(0)), small.missed_total) == (2, 3)


def test_keys_are_asked_about_once() -> None:
    asked: list[bytes] = []

    def wanted(key: bytes) -> bool:
        asked.append(key)
        return key.startswith(b"a")

    watching = Tap(wanted, 100, 100, 1000)
    watching.take(10)
    bench = Workbench()
    bench.open_channel()
    bench.exchanges[b""].tap = watching
    for key in ("a1", "b", "a1", "b"):
        bench.feed(publish_frames(1, "", key, b"x"))
    assert [(exchange, key) for exchange, key, _, _, _ in watching.take(0)] == [(b"", b"a1"), (b"", b"a1")]
    assert (asked, watching.matched_total) == ([b"a1", b"b"], 2)


def test_what_is_known_of_keys_is_bounded() -> None:
    asked: list[bytes] = []
    watching = Tap(lambda key: asked.append(key) or True, 100, 10, 1000)
    bench = Workbench()
    bench.open_channel()
    bench.exchanges[b""].tap = watching
    for number in range(1100):
        bench.feed(publish_frames(1, "", f"k{number}", b""))
    bench.feed(publish_frames(1, "", "k0", b""))
    assert (len(asked), asked[-1]) == (1101, b"k0"), "the first was forgotten to make room"


def test_several_taps_at_one_place() -> None:
    queue = ClassicQueue(b"q", None)
    one, two, three = tap(), tap(), tap()
    for each in (one, two, three):
        each.take(10)
        queue.tap = with_tap(queue.tap, each)
    queue.publish(message(b"1"))
    queue.tap = without_tap(queue.tap, two)
    queue.publish(message(b"2"))
    queue.tap = without_tap(queue.tap, three)
    queue.publish(message(b"3"))
    queue.tap = without_tap(queue.tap, one)
    assert queue.tap is None
    queue.publish(message(b"4"))
    assert [bodies(each.take(0)) for each in (one, two, three)] == [[b"1", b"2", b"3"], [b"1"], [b"1", b"2"]]
    assert without_tap(None, one) is None


def test_a_queue_shows_what_arrives_whatever_becomes_of_it() -> None:
    queue = ClassicQueue(b"q", None)
    queue.tap = tap()
    queue.tap.take(10)
    queue.publish(message(b"1"))
    queue.receive(message(b"2"))
    queue.receive_again(message(b"3"))
    assert bodies(queue.tap.take(0)) == [b"1", b"2", b"3"]
    assert queue.ready_count() == 3

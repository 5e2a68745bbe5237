"""The topic matcher: what the wildcards mean, as RabbitMQ 3.10.8 answered when it was asked, and how the trie keeps."""

from __future__ import annotations

import gc
from time import process_time

import pytest

from leveret.core.matching.topic_trie import TopicMatcher


def matches(pattern: str, key: str) -> bool:
    matcher = TopicMatcher()
    matcher.add(pattern.encode(), {}, pattern)
    destinations: list[object] = []
    matcher.collect(key.encode(), None, destinations)
    return bool(destinations)


def found(matcher: TopicMatcher, key: bytes) -> set[object]:
    destinations: list[object] = []
    matcher.collect(key, None, destinations)
    return set(destinations)


def node_count() -> int:
    gc.collect()
    return sum(1 for thing in gc.get_objects() if type(thing).__name__ == "TopicNode")


# The empty key has no word, but a dot has a word on either side.
@pytest.mark.parametrize(
    ("pattern", "key", "expected"),
    [
        ("*", "", False),
        ("", "", True),
        ("#", "", True),
        ("#.*", "", False),
        ("*.#", "", False),
        ("#.#", "", True),
        ("", ".", False),
        ("*", ".", False),
        ("*.*", ".", True),
        ("a.*", "a.", True),
        ("a.#", "a", True),
        ("a.#", "a.", True),
        ("#.a", "a", True),
        ("#.a", "b.a", True),
        ("#.a", "a.b", False),
        ("a.*.b", "a..b", True),
        ("a.#.b", "a.b", True),
        ("a.#.b", "a.x.y.b", True),
        ("a.#.b", "a.b.c", False),
        ("#.b.#", "a.b.c", True),
        ("#.*", "a", True),
        ("*.#", "a.b.c", True),
        ("#.*.*", "a", False),
        ("*", "a", True),
        ("*", "a.b", False),
        ("a", "A", False),
        ("ab", "a", False),
        ("a", "ab", False),
        ("order.*", "order.created", True),
        ("a*", "ab", False),
        ("a*", "a*", True),
        ("#a.b", "#a.b", True),
        ("#", "*", True),
        ("a.*", "a.#", True),
        ("a.b", "a.*", False),
    ],
)
def test_wildcards(pattern: str, key: str, expected: bool) -> None:
    assert matches(pattern, key) is expected


def test_a_literal_wildcard_in_the_routing_key_is_a_word_like_others() -> None:
    matcher = TopicMatcher()
    matcher.add(b"a.*", {}, "star")
    matcher.add(b"a.#", {}, "hash")
    matcher.add(b"a.b", {}, "b")
    assert found(matcher, b"a.#") == {"star", "hash"}
    assert found(matcher, b"a.*") == {"star", "hash"}


def test_one_two_and_many_words_behind_one_node() -> None:
    matcher = TopicMatcher()
    words = [b"w%d" % number for number in range(5)]
    for count, word in enumerate(words, 1):
        matcher.add(b"a." + word + b".z", {}, word)
        for known in words:
            assert found(matcher, b"a." + known + b".z") == ({known} if known in words[:count] else set())
    for count, word in enumerate(words, 1):
        matcher.remove(b"a." + word + b".z", {}, word)
        for known in words:
            assert found(matcher, b"a." + known + b".z") == ({known} if known in words[count:] else set())


def test_removing_a_prefix_or_an_extension_is_a_key_error() -> None:
    matcher = TopicMatcher()
    matcher.add(b"a.b.c", {}, "c")
    for key in (b"", b"a", b"a.b", b"a.b.c.d", b"a.b.x", b"a.*.c", b"a.#"):
        with pytest.raises(KeyError):
            matcher.remove(key, {}, "c")
    assert matcher.count == 1
    assert found(matcher, b"a.b.c") == {"c"}


def test_a_binding_inside_another_survives_it() -> None:
    matcher = TopicMatcher()
    matcher.add(b"a.b.c", {}, "long")
    matcher.add(b"a.b", {}, "short")
    matcher.remove(b"a.b.c", {}, "long")
    assert found(matcher, b"a.b") == {"short"}
    matcher.add(b"a.b.c", {}, "long")
    matcher.remove(b"a.b", {}, "short")
    assert found(matcher, b"a.b.c") == {"long"}
    assert found(matcher, b"a.b") == set()


def test_the_trie_is_pruned_to_its_root() -> None:
    before = node_count()
    matcher = TopicMatcher()
    keys = [f"{a}.{b}.{c}".encode() for a in ("a", "*", "#") for b in ("b", "*", "#") for c in ("", "*", "#", "d")]
    for key in keys:
        matcher.add(key, {}, "x")
    assert node_count() > before + 30
    assert found(matcher, b"a.b.d") == {"x"}
    for key in keys:
        matcher.remove(key, {}, "x")
    assert node_count() == before + 1


def test_many_hashes_take_bounded_work() -> None:
    matcher = TopicMatcher()
    # Any walk that tries the ways one by one would need more steps than there are atoms.
    for count in range(1, 60):
        matcher.add(b".".join([b"#", b"a"] * count) + b".b", {}, count)
        matcher.add(b".".join([b"#"] * count) + b".b", {}, -count)
        matcher.add(b".".join([b"#", b"*"] * count) + b".b", {}, -count)
    started = process_time()
    assert found(matcher, b".".join([b"a"] * 128)) == set()
    # Some 25 k node visits: milliseconds compiled, well below this interpreted.
    assert process_time() - started < 10


def test_the_longest_key_and_pattern() -> None:
    key = b"." * 255
    assert matches("." * 255, key.decode())
    assert matches(".".join(["*"] * 128), "." * 127)
    assert not matches(".".join(["*"] * 127), "." * 127)

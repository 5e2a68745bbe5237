"""Every matcher against a plain model of it, through arbitrary sequences of bindings that come and go."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from fractions import Fraction
from typing import Any, NamedTuple

from hypothesis import given, settings
from hypothesis import strategies as st

from leveret.core.codec.murmur3 import murmur3_32
from leveret.core.codec.tables import Int64, Timestamp
from leveret.core.matching.hash_matcher import ConsistentHashMatcher, ModulusHashMatcher, RandomMatcher, stable_hash
from leveret.core.matching.headers_matcher import X_MATCH_VALUES, HeadersMatcher
from leveret.core.matching.matcher import DirectMatcher, FanoutMatcher, Matcher
from leveret.core.matching.super_stream_matcher import SEED, SuperStreamMatcher
from leveret.core.matching.topic_trie import TopicMatcher
from leveret.core.observe.meter import Meter


class Destination:
    def __init__(self, name: bytes) -> None:
        self.name = name

    def __repr__(self) -> str:
        return self.name.decode()


class Properties:
    def __init__(self, headers: dict[str, Any]) -> None:
        self._headers = headers

    def headers(self) -> dict[str, Any]:
        return self._headers


class Binding(NamedTuple):
    key: bytes
    arguments: dict[str, Any]
    destination: Destination


QUEUES = [Destination(b"queue-%d" % number) for number in range(6)]

# The oracles: slow, short, and written without a look at the matchers.


def topic_oracle(pattern: list[bytes], words: list[bytes]) -> bool:
    if not pattern:
        return not words
    if pattern[0] == b"#":
        return any(topic_oracle(pattern[1:], words[skip:]) for skip in range(len(words) + 1))
    return bool(words) and pattern[0] in (b"*", words[0]) and topic_oracle(pattern[1:], words[1:])


def topic_words(key: bytes) -> list[bytes]:
    return key.split(b".") if key else []


def same_kind(left: Any, right: Any) -> bool:
    """Equal inside an array or a table: the kinds agree too."""
    if isinstance(left, list) and isinstance(right, list):
        return len(left) == len(right) and all(map(same_kind, left, right))
    if isinstance(left, dict) and isinstance(right, dict):
        return left.keys() == right.keys() and all(same_kind(left[name], right[name]) for name in left)
    kinds = (bool, int, float, str, bytes, list, dict, type(None))
    return next(k for k in kinds if isinstance(left, k)) is next(k for k in kinds if isinstance(right, k)) and bool(
        left == right
    )


def same_header(left: Any, right: Any) -> bool:
    left, right = (value.encode() if isinstance(value, str) else value for value in (left, right))
    if isinstance(left, list | dict) and isinstance(right, list | dict) and not left and not right:
        return True
    plain = [value for value in (left, right) if isinstance(value, int | float) and not isinstance(value, bool)]
    return bool(left == right) if len(plain) == 2 else same_kind(left, right)


def as_number(value: Any) -> Fraction | None:
    try:
        return None if isinstance(value, bool | list | dict | None) else Fraction(value)
    except ValueError:
        return None


def condition_oracle(asked: Any, value: Any) -> bool:
    if asked is None or same_header(asked, value):
        return True
    if not isinstance(asked, str):
        return False
    value = value.decode() if isinstance(value, bytes) else value
    sign = next((sign for sign in (">=", "<=", "!=", ">", "<") if asked.startswith(sign)), "")
    operand, number = as_number(asked[len(sign) :]), as_number(value)
    if sign == "" or (operand is None and sign != "!=") or asked == sign:
        return False
    if operand is None or number is None:
        return sign == "!=" and (number is not None or isinstance(value, str)) and value != asked[2:]
    return {
        ">": number > operand,
        ">=": number >= operand,
        "<": number < operand,
        "<=": number <= operand,
        "!=": number != operand,
    }[sign]


def headers_oracle(arguments: dict[str, Any], headers: dict[str, Any], ignore_x: bool) -> bool:
    x_match = arguments.get("x-match", "all")
    asked = {
        name: value
        for name, value in arguments.items()
        if name != "x-match" and (not ignore_x or not name.startswith("x-") or x_match.endswith("-with-x"))
    }
    answers = [name in headers and condition_oracle(value, headers[name]) for name, value in asked.items()]
    return any(answers) if x_match.startswith("any") else all(answers)


# Few words and names, so that bindings and messages meet.
literals = st.sampled_from([b"a", b"b", b"ab", b""])
patterns = st.lists(literals | st.sampled_from([b"*", b"#", b"#"]), max_size=6).map(b".".join)
keys = st.lists(literals | st.sampled_from([b"*", b"#"]), max_size=7).map(b".".join)
scalars = st.sampled_from(
    [None, True, False, 0, 1, 2, Int64(1), Timestamp(2), 1.0, 1.5, "", "a", b"a", b"", "1", "1.5", "02", b"2"]
)
values = st.recursive(
    scalars,
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.sampled_from("pq"), inner, max_size=2),
    max_leaves=3,
)
predicates = st.sampled_from([">1", ">=1", "<2", "<=1.5", "!=1", "!=a", ">a", ">", "!=", "!=1.0", "<=02"])
names = st.sampled_from(["a", "b", "x-c"])
header_tables = st.dictionaries(names, values | predicates, max_size=3)
header_arguments = st.builds(
    lambda conditions, x_match: conditions | ({} if x_match is None else {"x-match": x_match}),
    st.dictionaries(names, values | predicates, max_size=3),
    st.sampled_from([None, *X_MATCH_VALUES]),
)


def identity(binding: Binding) -> tuple[bytes, str, int]:
    arguments = sorted((name, type(value).__name__, repr(value)) for name, value in binding.arguments.items())
    return binding.key, repr(arguments), id(binding.destination)


@st.composite
def histories(draw: st.DrawFn, key: st.SearchStrategy[bytes], arguments: st.SearchStrategy[Any]) -> list[Any]:
    """Bindings that come (True) and go (False): never one that is there already, never one that is not there."""
    held: dict[Any, Binding] = {}
    history = []
    for _ in range(draw(st.integers(0, 25))):
        if held and draw(st.integers(0, 3)) == 0:
            history.append((False, held.pop(draw(st.sampled_from(list(held))))))
            continue
        binding = Binding(draw(key), draw(arguments), draw(st.sampled_from(QUEUES)))
        if identity(binding) not in held:
            held[identity(binding)] = binding
            history.append((True, binding))
    return history


def play(matcher: Matcher, history: list[tuple[bool, Binding]]) -> list[Binding]:
    """Apply the history to the matcher, and give the bindings that are left."""
    held: list[Binding] = []
    for comes, binding in history:
        if comes:
            matcher.add(*binding)
            held.append(binding)
        else:
            matcher.remove(*binding)
            held = [other for other in held if identity(other) != identity(binding)]
        assert matcher.count == len(held)
    return held


def found(matcher: Matcher, key: bytes, headers: dict[str, Any] | None = None) -> list[object]:
    destinations: list[object] = []
    matcher.collect(key, None if headers is None else Properties(headers), destinations)
    return destinations


def emptied(matcher: Matcher, held: list[Binding], key: bytes, headers: dict[str, Any] | None = None) -> bool:
    for binding in held:
        matcher.remove(*binding)
    return matcher.count == 0 and found(matcher, key, headers) == []


def check_by_key(
    matcher: Matcher, history: list[Any], routing_keys: list[bytes], oracle: Callable[[bytes, bytes], bool]
) -> None:
    held = play(matcher, history)
    for key in routing_keys:
        expected = Counter(binding.destination for binding in held if oracle(binding.key, key))
        # A fanout has each destination once, however often it is bound.
        counted = Counter(dict.fromkeys(expected, 1)) if isinstance(matcher, FanoutMatcher) else expected
        assert Counter(found(matcher, key)) == counted
    assert emptied(matcher, held, b"a")


notes = st.sampled_from([{}, {"x-note": 1}])


@given(histories(keys, notes), st.lists(keys, max_size=10))
def test_direct(history: list[Any], routing_keys: list[bytes]) -> None:
    check_by_key(DirectMatcher(), history, routing_keys, lambda bound, key: bound == key)


@given(histories(keys, notes), st.lists(keys, max_size=3))
def test_fanout(history: list[Any], routing_keys: list[bytes]) -> None:
    check_by_key(FanoutMatcher(), history, routing_keys, lambda bound, key: True)


@settings(max_examples=400)
@given(histories(patterns, notes), st.lists(keys, min_size=1, max_size=10))
def test_topic(history: list[Any], routing_keys: list[bytes]) -> None:
    check_by_key(
        TopicMatcher(), history, routing_keys, lambda bound, key: topic_oracle(topic_words(bound), topic_words(key))
    )


@settings(max_examples=200)
@given(histories(patterns, notes), keys, keys)
def test_topic_in_steps(history: list[Any], key: bytes, other: bytes) -> None:
    """A walk that is left after each word, while another walks through the same trie, finds the same."""
    matcher = TopicMatcher()
    play(matcher, history)
    whole: list[Any] = []
    matcher.collect(key, None, whole)
    meter = Meter()
    meter.allow(0)
    in_steps: list[Any] = []
    steps = matcher.start(key, None, in_steps, meter)
    while steps is not None:
        matcher.collect(other, None, [])
        if steps.go_on(meter, in_steps):
            steps = None
    assert in_steps == whole


@settings(max_examples=600)
@given(
    histories(st.sampled_from([b"", b"k"]), header_arguments),
    st.lists(header_tables, min_size=1, max_size=10),
    st.booleans(),
)
def test_headers(history: list[Any], messages: list[dict[str, Any]], ignore_x: bool) -> None:
    matcher = HeadersMatcher(ignore_x)
    held = play(matcher, history)
    for headers in messages:
        expected = {binding.destination for binding in held if headers_oracle(binding.arguments, headers, ignore_x)}
        assert set(found(matcher, b"any", headers)) == expected
    assert emptied(matcher, held, b"", messages[0])


weights = st.integers(1, 50)
hashed_keys = [b"key-%d" % number for number in range(1500)]


def owners(matcher: ConsistentHashMatcher) -> list[object]:
    return [destination for key in hashed_keys for destination in found(matcher, key)]


@settings(max_examples=15)
@given(st.lists(weights, min_size=2, max_size=len(QUEUES)), st.randoms(use_true_random=False))
def test_consistent_hash_moves_only_the_share_of_who_comes_or_goes(sizes: list[int], order: Any) -> None:
    bindings: list[Any] = [(b"%d" % weight, {}, queue) for weight, queue in zip(sizes, QUEUES, strict=False)]
    newcomer = bindings[-1]
    matcher = ConsistentHashMatcher(None, None)
    for binding in bindings[:-1]:
        matcher.add(*binding)
    before = owners(matcher)
    assert len(before) == len(hashed_keys)
    matcher.add(*newcomer)
    after = owners(matcher)
    assert {new for old, new in zip(before, after, strict=True) if old is not new} <= {newcomer[2]}
    # Exactly as if it had never come, and the same whoever came first.
    matcher.remove(*newcomer)
    assert owners(matcher) == before
    order.shuffle(bindings)
    shuffled = ConsistentHashMatcher(None, None)
    for binding in bindings:
        shuffled.add(*binding)
    assert owners(shuffled) == after


@settings(max_examples=50)
@given(histories(keys, notes), st.lists(keys, min_size=1, max_size=10))
def test_modulus_hash(history: list[Any], routing_keys: list[bytes]) -> None:
    matcher = ModulusHashMatcher()
    held = play(matcher, history)
    order = sorted(held, key=lambda binding: (binding.destination.name, binding.key))
    for key in routing_keys:
        expected = [order[stable_hash(key) % len(order)].destination] if order else []
        assert found(matcher, key) == expected
    assert emptied(matcher, held, b"a")


partition_keys = st.integers(-2, 12).map(lambda number: b"%d" % number)
partition_orders = st.sampled_from([{}]) | st.builds(
    lambda number, kind: {"x-stream-partition-order": kind(number)},
    st.integers(0, 9),
    st.sampled_from([int, Int64, str]),
)


@settings(max_examples=100)
@given(histories(partition_keys, partition_orders), st.lists(keys, min_size=1, max_size=10))
def test_super_stream(history: list[Any], routing_keys: list[bytes]) -> None:
    matcher = SuperStreamMatcher()
    held = play(matcher, history)

    def place(binding: Binding) -> tuple[int, bytes, bytes]:
        given = binding.arguments.get("x-stream-partition-order", binding.key)
        return int(given), binding.destination.name, binding.key

    order = sorted(held, key=place)
    for key in routing_keys:
        expected = [order[murmur3_32(key, SEED) % len(order)].destination] if order else []
        assert found(matcher, key) == expected
    assert emptied(matcher, held, b"a")


@given(histories(keys, notes), st.randoms(use_true_random=False))
def test_random(history: list[Any], dice: Any) -> None:
    matcher = RandomMatcher(lambda count: dice.randrange(count))
    held = play(matcher, history)
    for _ in range(5):
        chosen = found(matcher, b"any")
        assert len(chosen) == min(1, len(held))
        assert set(chosen) <= {binding.destination for binding in held}
    assert emptied(matcher, held, b"a")

"""What a death does to a message's properties, held against octets recorded from RabbitMQ 3.10.8.

Two differences, both as in newer versions: x-last-death-*, which the comparisons leave out, and the order of the older
deaths (see TURNED)."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from leveret.core.codec.field_types import Float32, Int8, Int64, Timestamp, UInt32
from leveret.core.codec.message import Message, new_message
from leveret.core.codec.properties import Properties, encode_properties, parse_properties
from leveret.core.queue import office
from leveret.queues.death import (
    REASONS,
    Origin,
    died,
    is_cycle,
    origin,
    stripped,
)
from tests.unit.queues import recorded_by_hand, recorded_deaths
from tests.unit.queues.recorded_deaths import Recording

RECORDINGS = recorded_deaths.RECORDINGS + recorded_by_hand.RECORDINGS
LAST = ("x-last-death-exchange", "x-last-death-queue", "x-last-death-reason")
# Where there are two or more deaths before the new one, 3.10.8 turns them around. We do not: with the order goes the
# knowledge whether a client had a hand in the last round, and it drops rejected messages and misses endless loops.
TURNED = {
    "death 3 on a round of four queues",
    "death 4 on a round of four queues",
    "death 5 on a round of four queues",
    "death 6 on a round of four queues",
    "another reason in the same queue is another death",
    "three others turn around",
    "queues of all types",
}


def message(exchange: str = "", key: str = "q", **fields: Any) -> Message:
    return new_message(exchange.encode(), key.encode(), parse_properties(encode_properties(**fields)), b"")


def without_last(properties: Properties) -> bytes:
    left = {name: value for name, value in properties.headers().items() if name not in LAST}
    return properties.replace({"headers": left}).raw


def turned(properties: Properties) -> Properties:
    """With the older deaths in the order that 3.10.8 gives them."""
    newest, *older = x_death(properties)
    return properties.replace({"headers": {**properties.headers(), "x-death": [newest, *reversed(older)]}})


def walk(*deaths: tuple[str, str], properties: Properties | None = None) -> Properties:
    """The properties of a message that dies in these queues for these reasons, one after the other."""
    properties = properties or parse_properties(encode_properties())
    for queue, reason in deaths:
        properties, _ = died(new_message(b"", queue.encode(), properties, b""), queue, reason, None, 9)
    return properties


def x_death(properties: Properties) -> list[Any]:
    deaths = properties.headers()["x-death"]
    assert isinstance(deaths, list)
    return deaths


def told(properties: Properties) -> list[tuple[str, str, int]]:
    return [(death["queue"], death["reason"], death["count"]) for death in x_death(properties)]


def forged(written: Any, **more: Any) -> Properties:
    return parse_properties(encode_properties(headers={"x-death": written, **more}))


# ---- the octets


@pytest.mark.parametrize("recording", RECORDINGS, ids=lambda recording: recording.name)
def test_a_death_writes_what_rabbitmq_writes(recording: Recording) -> None:
    queue, reason, dead_letter_key, time_s = recording.death
    dying = new_message(*recording.address, parse_properties(recording.properties), b"")
    properties, keys = died(dying, queue, reason, dead_letter_key, time_s)
    assert keys[0] == recording.new_key
    if recording.name in TURNED:
        assert without_last(properties) != recording.new_properties, "it need not be listed"
        properties = turned(properties)
    assert without_last(properties) == recording.new_properties


def test_the_deaths_stay_in_order_the_newest_first() -> None:
    properties = walk(("a", "expired"), ("b", "rejected"), ("c", "expired"), ("d", "maxlen"))
    assert [queue for queue, _, _ in told(properties)] == ["d", "c", "b", "a"]
    assert told(walk(("b", "rejected"), properties=properties)) == [
        ("b", "rejected", 2),
        ("d", "maxlen", 1),
        ("c", "expired", 1),
        ("a", "expired", 1),
    ]


def test_the_recordings_hold_every_reason() -> None:
    assert {recording.death[1] for recording in RECORDINGS} == set(REASONS)
    # The data plane's numbers for them have the same words.
    assert set(office.REASONS.values()) == set(REASONS)


def test_a_death_leaves_the_dying_message_as_it_was() -> None:
    properties = walk(("a", "rejected"), ("b", "expired"))
    dying = new_message(b"e", b"k", properties, b"")
    raw, shown = properties.raw, repr(properties.headers())
    died(dying, "a", "rejected", "new", 9)
    assert (dying.properties.raw, repr(dying.properties.headers())) == (raw, shown)


# ---- first and last


def test_the_last_death_is_the_newest_and_the_first_stays() -> None:
    first, _ = died(message("orders", "k"), "work", "rejected", None, 9)
    second, _ = died(new_message(b"dlx", b"k", first, b""), "retry", "expired", None, 9)
    headers = second.headers()
    assert [headers[f"x-first-death-{what}"] for what in ("exchange", "queue", "reason")] == [
        "orders",
        "work",
        "rejected",
    ]
    assert [headers[name] for name in LAST] == ["dlx", "retry", "expired"]


def test_the_headers_are_sorted_with_the_last_death_among_them() -> None:
    properties, _ = died(message(headers={"z": 1, "a": 2}), "q", "rejected", None, 9)
    assert list(properties.headers()) == sorted(properties.headers())
    assert set(LAST) < set(properties.headers())


# ---- routing keys


def test_without_a_dead_letter_key_it_goes_by_all_the_keys_it_came_with() -> None:
    _, keys = died(message(key="k", headers={"CC": ["c1", 5, "c2"]}), "q", "rejected", None, 9)
    assert keys == [b"k", b"c1", b"c2"]


def test_a_dead_letter_key_is_the_only_one_and_takes_cc_away() -> None:
    properties, keys = died(message(key="k", headers={"CC": ["c1"]}), "q", "rejected", "größe", 9)
    assert keys == ["größe".encode()]
    assert "CC" not in properties.headers()
    assert x_death(properties)[0]["routing-keys"] == ["k", "c1"]


def test_names_may_hold_any_octets() -> None:
    queue = b"\xff".decode("utf-8", "surrogateescape")
    dying = new_message(b"\xfe", b"\xfd", parse_properties(encode_properties()), b"")
    properties, keys = died(dying, queue, "expired", None, 9)
    assert keys == [b"\xfd"]
    assert b"\x05queueS\x00\x00\x00\x01\xff" in properties.raw
    assert is_cycle(properties, queue)
    assert origin(properties) == Origin(queue, "expired", b"\xfe", (b"\xfd",), 9, 1)


# ---- what would crash a queue of RabbitMQ


@pytest.mark.parametrize("count", ["5", 1.5, True, [], {}, b"5", None], ids=repr)
def test_a_count_that_is_no_number_starts_again(count: Any) -> None:
    properties = walk(("q", "rejected"), properties=forged([{"queue": "q", "reason": "rejected", "count": count}]))
    assert x_death(properties) == [{"count": 1, "queue": "q", "reason": "rejected"}]
    assert type(x_death(properties)[0]["count"]) is Int64


@pytest.mark.parametrize("item", ["text", 5, None, [], b"octets"], ids=repr)
def test_an_item_that_is_no_table_is_kept(item: Any) -> None:
    assert x_death(walk(("q", "rejected"), properties=forged([item])))[1:] == [item]
    other = {"queue": "p", "reason": "expired", "count": 1}
    assert x_death(walk(("q", "rejected"), properties=forged([item, other, item])))[1:] == [item, other, item]


def test_a_count_of_nothing_is_written_once_in_a_group() -> None:
    group = [{"queue": "p", "count": None}, {"queue": "p", "count": None}]
    assert x_death(walk(("q", "rejected"), properties=forged(group)))[1:] == [{"count": 2, "queue": "p"}]


# ---- cycles: each of these was seen on RabbitMQ 3.10.8, but for those that its turned order gets wrong


@pytest.mark.parametrize(
    ("deaths", "target", "dropped"),
    [
        ([("a", "expired")], "a", True),
        ([("a", "maxlen")], "a", True),
        ([("a", "delivery_limit")], "a", True),
        ([("a", "rejected")], "a", False),
        ([("a", "expired")], "b", False),
        ([("a", "expired"), ("b", "expired")], "a", True),
        ([("a", "rejected"), ("b", "expired")], "a", False),
        ([("work", "rejected"), ("retry", "expired")] * 3, "work", False),
        ([("a", "rejected"), ("b", "expired"), ("c", "expired")], "a", False),
        # 3.10.8 drops this message, in whose round a client had a hand, and lets the next one go on for ever.
        ([("a", "expired"), ("b", "rejected"), ("c", "expired")], "a", False),
        ([("a", "rejected"), ("b", "expired"), ("c", "expired")], "b", True),
    ],
)
def test_a_round_is_a_cycle_if_no_client_had_a_hand_in_it(
    deaths: list[tuple[str, str]], target: str, dropped: bool
) -> None:
    assert is_cycle(walk(*deaths), target) is dropped


@pytest.mark.parametrize(
    ("written", "dropped"),
    [
        ([{"queue": "t"}], True),
        ([{"queue": b"t"}], False),
        ([{"queue": "t", "reason": "rejected"}], False),
        ([{"queue": "t", "reason": b"rejected"}], True),
        ([{"queue": "o", "reason": "rejected"}, {"queue": "t"}], False),
        ([{"queue": "t"}, {"queue": "o", "reason": "rejected"}], True),
        ("text", False),
    ],
    ids=repr,
)
def test_a_cycle_is_told_by_what_a_client_wrote_too(written: Any, dropped: bool) -> None:
    assert is_cycle(walk(("q", "expired"), properties=forged(written)), "t") is dropped


def test_an_item_that_is_no_death_breaks_the_cycle() -> None:
    assert not is_cycle(forged([5, {"queue": "t"}]), "t")
    assert is_cycle(forged([{"queue": "t"}, 5]), "t")


def test_a_rejection_is_one_even_where_a_client_wrote_it_as_octets() -> None:
    written = forged([{"queue": "t", "reason": b"rejected"}])
    assert is_cycle(written, "t")
    assert not is_cycle(walk(("t", "rejected"), properties=written), "t")


def test_a_message_that_never_died_is_in_no_cycle() -> None:
    assert not is_cycle(parse_properties(encode_properties(message_id="t")), "t")
    assert not is_cycle(forged(None, other="t"), "t")


# ---- sending it back


def test_the_origin_is_the_first_death_however_often_it_died_since() -> None:
    properties, _ = died(message("orders", "k", headers={"CC": ["c"]}), "work", "rejected", None, 100)
    for number in range(1, 5):
        for queue, reason in (("retry", "expired"), ("late", "maxlen"), ("work", "rejected")):
            dying = new_message(b"dlx", b"other", properties, b"")
            properties, _ = died(dying, queue, reason, None, 100 + number)
    assert origin(properties) == Origin("work", "rejected", b"orders", (b"k", b"c"), 100, 13)


def death(queue: str, time: int, /, **fields: Any) -> dict[str, Any]:
    whole = {"queue": queue, "reason": "expired", "exchange": "e", "routing-keys": ["k"], "time": Timestamp(time)}
    return {**whole, **fields}


def test_without_first_death_headers_the_oldest_is_the_origin() -> None:
    found = origin(forged([death("a", 5, count=2), death("b", 3), death("c", 4, count=-7)]))
    assert found == Origin("b", "expired", b"e", (b"k",), 3, 4)


def test_of_deaths_in_one_second_the_last_in_the_array_is_the_origin() -> None:
    found = origin(forged([death("a", 3), death("b", 3)]))
    assert found is not None
    assert found.queue == "b"


@pytest.mark.parametrize(
    "written",
    [
        None,
        "text",
        [],
        ["text", 5],
        [{}],
        [death("a", 1, queue=5)],
        [death("a", 1, reason=None)],
        [death("a", 1, exchange=b"e")],
        [death("a", 1, time="1")],
        [{**death("a", 1), "routing-keys": []}],
        [{**death("a", 1), "routing-keys": [5, "k"]}],
        [{**death("a", 1), "routing-keys": "k"}],
    ],
    ids=repr,
)
def test_headers_that_do_not_tell_have_no_origin(written: Any) -> None:
    assert origin(forged(written)) is None


def test_a_message_that_never_died_has_no_origin() -> None:
    assert origin(parse_properties(encode_properties())) is None


def test_stripped_takes_every_word_of_death_and_nothing_else() -> None:
    before = parse_properties(encode_properties(headers={"a": 1, "x-b": "c"}, message_id="m"))
    assert stripped(walk(("a", "expired"), ("b", "rejected"), properties=before)).raw == before.raw


def test_stripped_leaves_no_empty_headers() -> None:
    assert stripped(walk(("a", "expired"))).raw == encode_properties()


def test_stripped_gives_back_the_same_if_there_is_nothing_to_take() -> None:
    properties = parse_properties(encode_properties(headers={"x-deaths": 1}))
    assert stripped(properties) is properties


# ---- anything in x-death

NAMES = st.sampled_from(["count", "reason", "queue", "time", "exchange", "routing-keys", "other"])
SCALARS = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(2**63), 2**63 - 1),
    st.sampled_from([Int8(-1), UInt32(7), Int64(2**63 - 1), Int64(-(2**63)), Timestamp(2**64 - 1), Float32(0.5)]),
    st.floats(allow_nan=False),
    st.decimals(-100, 100, places=2),
    st.sampled_from(["q", "rejected", "expired", "", "\udcff"]),
    st.sampled_from([b"q", b"rejected", b"\xff"]),
)
VALUES = st.recursive(
    SCALARS, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(NAMES, inner, max_size=5), max_leaves=12
)
DEATHS = st.lists(st.dictionaries(NAMES, VALUES, max_size=7) | VALUES, max_size=6)


def text(value: str | bytes) -> str:
    return value if isinstance(value, str) else value.decode("utf-8", "surrogateescape")


@given(written=DEATHS | VALUES, first=VALUES, copies=st.lists(VALUES, max_size=3), key=st.sampled_from([None, "", "k"]))
def test_nothing_that_a_client_writes_stops_a_death(
    written: Any, first: Any, copies: list[Any], key: str | None
) -> None:
    headers = {"x-death": written, "x-first-death-queue": first, "CC": copies}
    properties = parse_properties(encode_properties(headers=headers, expiration="10"))
    for reason in ("rejected", "expired", "rejected"):
        properties, keys = died(new_message(b"e", b"k", properties, b""), "q", reason, key, 9)
        newest = x_death(properties)[0]
        assert (text(newest["queue"]), text(newest["reason"])) == ("q", reason)
        assert keys[0] == (b"k" if key is None else key.encode())
        assert properties.expiration is None
        assert is_cycle(properties, "q") in (False, reason != "rejected")
    found = origin(properties)
    assert found is None or found.count >= 1
    assert not set(stripped(properties).headers()) - {"CC"}

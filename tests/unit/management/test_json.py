"""JSON in and out."""

from __future__ import annotations

import json
from decimal import Decimal
from typing import Any

import msgspec
import pytest

from leveret.core.codec.field_types import Float32, Int8, Int64, Timestamp
from leveret.management.http.errors import HttpError
from leveret.management.http.json import DEPTH_MAX, PARTS_BYTES_MAX, Parts, decode, encode, printable


class Body(msgspec.Struct):
    count: int


def refused(octets: bytes, kind: Any = Any) -> object:
    with pytest.raises(HttpError) as refusal:
        decode(octets, kind)
    assert refusal.value.status == 400
    return refusal.value.reason


@pytest.mark.parametrize("octets", [b"{bad", b"", b"\xff", b'"\xff"', b"[1,]", b"{} {}", b"NaN", b"[" * 100_000])
def test_what_is_no_json_is_refused_as_rabbitmq_does(octets: bytes) -> None:
    assert refused(octets) == "not_json"


def test_nesting_has_a_depth() -> None:
    deep = b"[" * DEPTH_MAX + b"]" * DEPTH_MAX
    assert decode(deep) is not None
    assert "nested" in str(refused(b"[" + deep + b"]"))
    assert "nested" in str(refused(b'{"a":' * (DEPTH_MAX + 1) + b"1" + b"}" * (DEPTH_MAX + 1)))


def test_a_body_is_checked_against_its_type_with_the_place() -> None:
    assert decode(b'{"count": 3}', Body) == Body(3)
    assert "$.count" in str(refused(b'{"count": "x"}', Body))


class Letter(Parts):
    LARGE = "text"

    text: msgspec.Raw = msgspec.Raw()
    more: msgspec.Raw = msgspec.Raw()


def test_of_parts_one_text_may_be_large() -> None:
    large = "x" * 2 * PARTS_BYTES_MAX
    assert decode(json.dumps({"text": large, "more": {"a": [1]}, "other": 5}).encode(), Letter) == {
        "text": large,
        "more": {"a": [1]},
    }
    assert decode(b"{}", Letter) == {}
    for body in ({"text": "", "more": large}, {"text": [large]}):
        assert "together" in str(refused(json.dumps(body).encode(), Letter))
    # What is not named is not even read.
    assert decode(json.dumps({"other": [{}] * PARTS_BYTES_MAX}).encode(), Letter) == {}


@pytest.mark.parametrize(("octets", "value"), [(b"[1]", [1]), (b'"text"', "text"), (b"null", None)])
def test_what_has_no_parts_is_left_to_the_reader(octets: bytes, value: Any) -> None:
    assert decode(octets, Letter) == value
    assert refused(octets + b" " * PARTS_BYTES_MAX, Letter) == "not_json"
    assert refused(octets[:-1] + b"{", Letter) == "not_json"


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        ({"a": Int8(-1), "b": Int64(2**40), "c": Timestamp(7)}, {"a": -1, "b": 2**40, "c": 7}),
        ([Float32(0.5), Decimal("1.25"), None, True], [0.5, 1.25, None, True]),
        ({"not UTF-8 \udcff": "\udcfe"}, {"not UTF-8 \ufffd": "\ufffd"}),
        ({"nul": "\x00", "quote": '"\\'}, {"nul": "\x00", "quote": '"\\'}),
    ],
)
def test_what_clients_put_into_tables_comes_out(value: Any, shown: Any) -> None:
    assert json.loads(encode(value)) == shown


def test_octets_of_a_table_are_shown_as_text() -> None:
    assert printable({"octets": b"text", "nested": [{"octets": b"\xff"}]}) == {
        "octets": "text",
        "nested": [{"octets": "\ufffd"}],
    }
